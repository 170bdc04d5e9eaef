"""Layers with parameters: shared, grouped, transposed, gated, tied; what a move preserves."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.catalog.cifar import NETWORKS
from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.symmetry import UnmovableError, check_equivalence, move, spaces
from tests.symmetry.lively import changed, images, lively


class Tied(nn.Module):
    """A layer that is used twice, and parameters of its own that are added and multiplied."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again, self.last = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 2)
        self.offset, self.gain = nn.Parameter(torch.ones(1, 5)), nn.Parameter(torch.ones(5))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        for _ in range(2):
            x = torch.relu(self.again(x)) + self.offset
        return self.last(self.gain * x)


class Attends(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.embed, self.inner, self.norm = (
            nn.Embedding(9, 8),
            nn.MultiheadAttention(8, 2, **options),
            nn.LayerNorm(8),
        )
        self.head = nn.Linear(8, 3)

    def forward(self, words: Tensor) -> Tensor:
        x = self.embed(words)
        return self.head(self.norm(x + self.inner(x, x, x)[0]))


def conv(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), *layers, nn.Flatten(), nn.LazyLinear(2))


WORDS = torch.tensor([[1, 4, 2], [8, 0, 3]])
LAYERS: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "used twice": (Tied, torch.randn(3, 4, dtype=torch.float64)),
    "groups": (lambda: conv(nn.ReLU(), nn.Conv2d(8, 12, 3, groups=2), nn.ReLU()), images(6)),
    "filters": (lambda: conv(nn.ReLU(), nn.Conv2d(8, 24, 3, groups=8), nn.Tanh()), images(6)),
    "filters of the input": (
        lambda: nn.Sequential(nn.Conv2d(3, 6, 3, groups=3), nn.ReLU(), nn.Conv2d(6, 2, 4)),
        images(6),
    ),
    "transposed": (lambda: conv(nn.ReLU(), nn.ConvTranspose2d(8, 5, 2, 2), nn.ReLU()), images(6)),
    "circular": (
        lambda: conv(nn.ReLU(), nn.Conv2d(8, 5, 3, padding=1, padding_mode="circular"), nn.ReLU()),
        images(6),
    ),
    "prelu": (lambda: conv(nn.PReLU(8), nn.Conv2d(8, 5, 3), nn.PReLU()), images(6)),
    "group norm": (lambda: conv(nn.GroupNorm(2, 8), nn.ReLU()), images(6)),
    "instance norm": (lambda: conv(nn.InstanceNorm2d(8, affine=True), nn.ReLU()), images(6)),
    "plain batch norm": (lambda: conv(nn.BatchNorm2d(8, affine=False), nn.ReLU()), images(6)),
    "batch norm of the batch": (
        lambda: conv(nn.BatchNorm2d(8, track_running_stats=False), nn.ReLU()),
        images(6),
    ),
    "batch norm of the input": (
        lambda: nn.Sequential(nn.BatchNorm2d(3), conv(nn.BatchNorm2d(8), nn.ReLU())),
        images(6),
    ),
    "rms norm": (
        lambda: nn.Sequential(nn.Linear(4, 6), nn.RMSNorm(6), nn.ReLU(), nn.Linear(6, 2)),
        torch.randn(3, 4).double(),
    ),
    "attention": (Attends, WORDS),
    "attention, batch first": (lambda: Attends(batch_first=True), WORDS),
    "attention, kept apart": (
        lambda: Attends(kdim=8, vdim=8, bias=False, add_bias_kv=False),
        WORDS,
    ),
    "encoder layer": (
        lambda: nn.Sequential(
            nn.Linear(4, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 2)
        ),
        torch.randn(2, 3, 4).double(),
    ),
    "lines": (
        lambda: nn.Sequential(nn.Conv1d(3, 8, 3), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 2, 3)),
        images(9)[:, :, 0],
    ),
    "volumes": (
        lambda: nn.Sequential(nn.Conv3d(3, 4, 3), nn.ReLU(), nn.Conv3d(4, 2, 1)),
        images(4)[..., None].expand(2, 3, 4, 4, 4),
    ),
    "one image": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 2, 1)),
        images(6)[0],
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str) -> None:
    build, x = LAYERS[name]
    model = build().double().eval()
    model(x)  # lazy layers take their width
    model = lively(model)
    for seed in range(3):
        moved = move(model, generator=seed, example_input=x)
        assert check_equivalence(model, moved, x).relative_error < 1e-9
        assert len(changed(model, moved)) >= 3


def test_layers_used_twice_move_once() -> None:
    found = {space.name: space for space in spaces(Tied())}
    assert found["first"].joined == ("again",)
    assert found["first"].group == "permutations, d > 0"
    assert found["mul"].group == "permutations, d ≠ 0"
    assert found["mul"].shares == "first"


@pytest.mark.filterwarnings("ignore:the move changed no weight")
def test_parameters_used_in_two_ways_stay() -> None:
    class Both(Tied):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + self.first.weight.sum()

    class Transposed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.code, self.head = nn.Linear(4, 4, bias=False), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(F.linear(torch.relu(self.code(x)), self.code.weight))

    both = {space.name: space for space in spaces(Both(), torch.zeros(2, 4))}
    assert both["first"].group == "fixed"
    assert "the values of first.weight are also used elsewhere" in both["first"].reasons
    twice = lively(Transposed())
    (space,) = [space for space in spaces(twice) if space.name == "code"]
    assert space.group == "fixed"
    assert "code.weight is used in two ways" in space.reasons
    assert (
        check_equivalence(
            twice, move(twice, generator=0), torch.randn(5, 4).double()
        ).relative_error
        < 1e-12
    )


@pytest.mark.parametrize(
    ("wrap", "layer"),
    [(nn.utils.parametrizations.weight_norm, "1"), (nn.utils.parametrizations.spectral_norm, "1")],
)
def test_computed_weights_are_refused(wrap: Callable[[nn.Module], nn.Module], layer: str) -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), wrap(nn.Linear(5, 2)))
    with pytest.raises(
        UnmovableError,
        match=r"2: linear cannot be moved: its weight, bias or statistics are computed",
    ):
        move(model)


def test_layers_that_mix_other_axes_are_refused() -> None:
    with pytest.raises(
        UnmovableError, match="it mixes the last axis; its input has channels on axis 1"
    ):
        move(nn.Sequential(nn.Conv1d(3, 4, 1), nn.Linear(32, 2)))
    with pytest.raises(UnmovableError, match="does not normalize over the axis of the channels"):
        move(nn.Sequential(nn.Conv1d(3, 4, 1), nn.LayerNorm([4, 32])))
    with pytest.raises(UnmovableError, match="transposed convolutions in groups"):
        move(nn.Sequential(nn.Conv2d(3, 8, 1), nn.ConvTranspose2d(8, 8, 2, groups=4)))
    with pytest.raises(UnmovableError, match="without a tensor in it"):
        move(Silent(), example_input=images(6))


class Silent(nn.Module):
    def forward(self, x: Tensor) -> float:
        return 1.0


def test_the_original_is_not_changed() -> None:
    model = lively(NETWORKS["resnet20"]())
    model.train()
    model.get_submodule("blocks.0").eval()
    x, seen = images(32), list[str]()
    before, given, flags = (
        copy.deepcopy(model.state_dict()),
        x.clone(),
        [module.training for module in model.modules()],
    )
    handle = model.get_submodule("fc").register_forward_hook(lambda *_: seen.append("fc"))
    state = torch.random.get_rng_state()
    moved = move(model, generator=0, example_input=x)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(x, given)
    for one in (model, moved):
        assert [module.training for module in one.modules()] == flags
        assert (
            sum(
                len(module._forward_hooks) + len(module._forward_pre_hooks)
                for module in one.modules()
            )
            == 1
        )
    seen.clear()
    moved.eval()(x)
    assert seen == ["fc"]
    handle.remove()
    assert [value.requires_grad for value in moved.parameters()] == [
        value.requires_grad for value in model.parameters()
    ]


def test_seeds_repeat() -> None:
    model = lively(NETWORKS["myrtle-nobn"]())
    first, again, other = (
        move(model, generator=seed) for seed in (1, torch.Generator().manual_seed(1), 2)
    )
    assert not changed(first, again)
    assert changed(first, other)
    gentle = move(model, generator=1, log_std=0.0)
    weight = model.get_parameter("0.weight")
    # a permutation only
    torch.testing.assert_close(gentle.get_parameter("0.weight").sum(), weight.sum())


def test_single_precision() -> None:
    model = lively(NETWORKS["vgg"]()).float()
    moved = move(model, generator=0)
    assert {value.dtype for value in moved.parameters()} == {torch.float32}
    found = check_equivalence(model, moved, images(32).float())
    assert found.holds
    assert found.tolerance == 1e-4


def test_equivalence() -> None:
    model = lively(nn.Sequential(nn.Linear(2, 3), nn.Dropout(), nn.Linear(3, 2))).train()
    x = torch.randn(5, 2).double()
    same = check_equivalence(model, model, x)
    assert (same.relative_error, same.holds) == (0.0, True)
    assert model.training
    assert model[1].training  # type: ignore[index]
    other = copy.deepcopy(model)
    with torch.no_grad():
        other[2].bias += 1  # type: ignore[index,operator]
    found = check_equivalence(model, other, x)
    assert not found.holds
    assert found.absolute_error == pytest.approx(1)
    assert found.relative_error == pytest.approx(1 / found.scale)
    assert str(found).startswith("not the same function: relative error ")
    with torch.no_grad():
        other[2].bias *= torch.nan  # type: ignore[index,operator]
    assert not check_equivalence(model, other, x).holds
    assert not check_equivalence(other, other, x).holds
    with pytest.raises(InputError, match=r"shapes \[\(5, 2\)\] and \[\(5, 3\)\]"):
        check_equivalence(model, nn.Linear(2, 3).double(), x)
    with pytest.raises(InputTypeError, match=r"not a torch\.nn\.Module"):
        check_equivalence(model, lambda x: x, x)  # type: ignore[arg-type]


def test_inputs() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.head = nn.Linear(2, 4), nn.Linear(3, 4), nn.Linear(4, 1)

        def forward(self, left: Tensor, right: Tensor) -> dict[str, Tensor]:
            return {"logits": self.head(torch.relu(self.first(left) + self.second(right)))}

    model = lively(Two())
    pair = torch.randn(5, 2).double(), torch.randn(5, 3).double()
    for example in (pair, dict(zip(("left", "right"), pair, strict=True))):
        assert (
            check_equivalence(
                model, move(model, generator=0, example_input=example), example
            ).relative_error
            < 1e-12
        )
    with pytest.raises(
        InputError, match=r"no example input fits this network\. Pass example_input.*right"
    ):
        move(model)
    with pytest.raises(InputError, match=r"the network does not take example_input: .*shapes"):
        move(nn.Linear(2, 2), example_input=torch.zeros(2, 3))
    with pytest.raises(InputError, match="no example input fits"):
        move(nn.ReLU())
    with pytest.raises(OptionError, match="log_std must be a number >= 0, got -1"):
        move(nn.Linear(2, 2), log_std=-1)


class OfOneSize(nn.Module):
    """A network that takes inputs of one size only, not the first that is tried."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4 * 62 * 62, 2)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != 64:
            raise ValueError("64 pixels")
        return self.head(self.conv(x).relu().flatten(1))


@pytest.mark.parametrize("training", [False, True])
def test_sizes_that_did_not_fit_do_not_keep_the_network(training: bool) -> None:
    """It is freed with its last name, without the collector of cycles; in any mode."""
    on = gc.isenabled()
    gc.disable()
    try:
        network = OfOneSize().train(training)
        moved = move(network, seed=0)
        gone = weakref.ref(moved)
        assert check_equivalence(network, moved, torch.randn(2, 3, 64, 64)).holds
        spaces(moved)
        del moved
        assert gone() is None
    finally:
        if on:
            gc.enable()
