"""A measurement leaves no trace: network, random states, memory and terminal are as before, however
it ends.
"""

from __future__ import annotations

import gc
import io
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import sigmascope as sg


class Mixed(nn.Module):
    """Mixed training modes, user hooks, running statistics and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.frozen = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.BatchNorm1d(6)
        self.relu, self.dropout, self.last, self.tanh = (
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.Linear(6, 5),
            nn.Tanh(),
        )
        self.frozen.eval()
        self.tanh.eval()
        self.seen = 0
        self.relu.register_forward_hook(self._count)
        self.last.register_forward_pre_hook(lambda module, args: None)

    def _count(self, *_: Any) -> None:
        self.seen += 1

    def train(self, mode: bool = True) -> Mixed:
        raise AssertionError("flags are set one by one, train may do anything")

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.frozen(self.norm(self.first(x))))
        return self.tanh(self.last(self.dropout(x)))


def mixed() -> Mixed:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Mixed()


def batches(count: int = 3) -> list[Tensor]:
    return [
        torch.randn(12, 4, generator=torch.Generator().manual_seed(seed)) for seed in range(count)
    ]


def state(network: nn.Module) -> dict[str, Any]:
    """Everything that a measurement could leave behind."""
    hooks = (
        "_forward_hooks",
        "_forward_pre_hooks",
        "_backward_hooks",
        "_forward_hooks_with_kwargs",
        "_forward_hooks_always_called",
    )
    return {
        "flags": [module.training for module in network.modules()],
        "hooks": [[list(getattr(module, name)) for name in hooks] for module in network.modules()],
        "attributes": [sorted(vars(module)) for module in network.modules()],
        "values": [tensor.tolist() for tensor in network.state_dict().values()],
        "gradients": [parameter.requires_grad for parameter in network.parameters()],
        "grad": torch.is_grad_enabled(),
        "torch": torch.get_rng_state().tolist(),
        "numpy": str(np.random.get_state()),
        "python": random.getstate(),
    }


def interrupted(error: BaseException) -> Iterator[Tensor]:
    yield batches()[0]
    random.random()
    np.random.rand()
    torch.rand(1)
    raise error


def failing(network: nn.Module, batch: Tensor) -> Tensor:
    network(batch)
    raise ZeroDivisionError("in the forward pass")


def failing_inside(network: nn.Module, batch: Tensor) -> Tensor:
    return network(batch[:, :2])


ENDINGS: dict[str, Callable[[nn.Module, str], object]] = {
    "success": lambda network, mode: sg.signature(network, batches(), mode=mode, metrics="all"),
    "shuffled": lambda network, mode: sg.signature(
        network, DataLoader(batches(1)[0], batch_size=4, shuffle=True), mode=mode
    ),
    "error in forward": lambda network, mode: sg.signature(
        network, batches(), mode=mode, forward=failing
    ),
    "error inside a layer": lambda network, mode: sg.signature(
        network, batches(), mode=mode, forward=failing_inside
    ),
    "error in the loader": lambda network, mode: sg.signature(
        network, interrupted(OSError("the disk")), mode=mode
    ),
    "interrupt": lambda network, mode: sg.signature(
        network, interrupted(KeyboardInterrupt()), mode=mode
    ),
    "no batches": lambda network, mode: sg.signature(network, [], mode=mode),
    "no activation": lambda network, mode: sg.signature(
        network, batches(), mode=mode, activations=["mish"]
    ),
    # costs scores only
    "bad pooling": lambda network, mode: sg.signature(
        network, batches(), mode=mode, pool=lambda t: 1 / 0
    ),
}
RAISED = {
    "error in forward": (ZeroDivisionError, r"in the forward pass"),
    "error inside a layer": (RuntimeError, r"mat1 and mat2 shapes cannot be multiplied"),
    "error in the loader": (OSError, r"the disk"),
    "interrupt": (KeyboardInterrupt, r"^$"),
    "no batches": (sg.InputError, r"batches is empty"),
    "no activation": (sg.NoActivationError, r"Mixed made no activation call"),
}


@pytest.mark.parametrize("mode", ["eval", "as-is"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_everything_is_as_before(ending: str, mode: str) -> None:
    network = mixed()
    before = state(network)
    if ending in RAISED:
        error, match = RAISED[ending]
        with pytest.raises(error, match=match):
            ENDINGS[ending](network, mode)
    else:
        ENDINGS[ending](network, mode)
    after = state(network)
    for part, value in before.items():
        assert after[part] == value, part


def test_a_forward_pass_by_hand_leaves_traces() -> None:
    """Negative control: statistics and random states do move."""
    network = mixed()
    before = state(network)
    network(batches()[0])
    after = state(network)
    assert {part for part in before if before[part] != after[part]} == {"values", "torch"}


def test_hooks_of_the_user_run() -> None:
    network = mixed()
    sg.signature(network, batches())
    assert network.seen == 3


def test_modes() -> None:
    """As it is, dropout draws and the norm uses the batch; both modes repeat themselves."""
    network = mixed()
    runs = {
        mode: [sg.signature(network, batches(), mode=mode).scores for _ in range(2)]
        for mode in ("eval", "as-is")
    }
    for first, second in runs.values():
        assert np.array_equal(first, second)
    assert not np.array_equal(runs["eval"][0], runs["as-is"][0])


def test_parameters_get_no_gradient_and_outputs_are_the_same() -> None:
    network = nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 5), nn.GELU())
    outputs = []

    def forward(model: nn.Module, batch: Tensor) -> Tensor:
        outputs.append(model(batch))
        return outputs[-1]

    (x,) = batches(1)
    sg.signature(network, x, forward=forward)
    assert torch.equal(outputs[0], network(x))
    assert not outputs[0].requires_grad
    assert all(parameter.grad is None for parameter in network.parameters())


def alive() -> int:
    gc.collect()
    return sum(type(one) is Tensor for one in gc.get_objects())


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Live tensors are counted in the loader, before each batch."""
    monkeypatch.setattr("sigmascope.maths.kept_rows.KEPT", 0)  # bytes of rows that are kept anyway
    network = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(8, 8), nn.ReLU())))
    counts: list[int] = []

    def loader(count: int) -> Iterator[Tensor]:
        for seed in range(count):
            if seed >= 10:
                counts.append(alive())
            yield torch.randn(64, 8, generator=torch.Generator().manual_seed(seed))

    def growth() -> int:
        """Rows are kept while they are smaller than sums, so that the count goes up and down."""
        return max(counts[8:]) - max(counts[:8])

    sg.signature(network, loader(2), metrics="all")  # the groups of 64 samples are remembered
    before = alive()
    sg.signature(network, loader(26), metrics="all")
    assert growth() == 0
    assert alive() == before
    counts.clear()
    kept = []  # negative control: whoever keeps what is pooled is found out
    sg.signature(
        network, loader(26), pool=lambda t: kept.append(t.clone()) or t, estimator="published"
    )
    assert growth() == 8 * 12


class Terminal(io.StringIO):
    """Says that it is one."""

    def isatty(self) -> bool:
        return True


NETWORK = nn.Sequential(nn.Linear(4, 6), nn.ReLU())


def test_quiet_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    sg.signature(NETWORK, batches())
    assert capsys.readouterr() == ("", "")


def faked(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard error a terminal of known width that is not a dumb one; inside a test, as
    pytest sets it before.
    """
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "20"}.items():
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    return found


def test_a_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = faked(monkeypatch)
    sg.signature(NETWORK, batches(), name="toy")
    shown = terminal.getvalue()
    assert "toy" in shown
    assert "3/3" in shown
    assert "left" in shown
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["[/x]", "[red]toy[/red]", "{task}", "a" * 300])
def test_any_name_is_shown_as_it_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = faked(monkeypatch)
    sg.signature(NETWORK, batches(), name=name)
    assert name[:20] in terminal.getvalue()


def test_no_bar_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = faked(monkeypatch)
    sg.signature(NETWORK, batches(), progress=False)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(
    ("items", "limit", "total"),
    [
        (batches(5), None, "5/5"),
        (batches(5), 3, "3/3"),
        (iter(batches(5)), 4, "4/4"),
        (iter(batches(5)), None, "5/?"),
    ],
)
def test_the_bar_knows_how_many(
    items: Any, limit: int | None, total: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = faked(monkeypatch)
    sg.signature(NETWORK, items, max_batches=limit)
    assert total in terminal.getvalue().replace(" ", "")


def test_the_bar_goes_when_a_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = faked(monkeypatch)
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        sg.signature(NETWORK, interrupted(KeyboardInterrupt()))
    assert terminal.getvalue().endswith("\x1b[2K")  # the line is cleared
    assert "\x1b[?25h" in terminal.getvalue()  # and the cursor is back


def test_a_network_without_numbers_is_refused() -> None:
    with torch.device("meta"):
        network = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
    with pytest.raises(
        sg.InputError,
        match=r"the network is on the meta device, without numbers\. Build it on a real device",
    ):
        sg.signature(network, batches())
