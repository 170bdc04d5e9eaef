"""The recorder: which calls it sees, in which order, under which path, and that the network does
not notice.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.capture import activations
from sigmascope.capture.activations import register_activation
from sigmascope.capture.guard import preserve_state, unwrapped
from sigmascope.capture.observer import Call
from sigmascope.capture.recording import recording

Site = tuple[str, int, str]


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activations, "_registered_functions", {})
    monkeypatch.setattr(activations, "_registered_classes", {})


class Seen:
    """An observer that keeps everything: sites, and copies of inputs and outputs."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.inputs: list[Tensor] = []
        self.outputs: dict[int, Tensor] = {}

    def __call__(self, call: Call, x: Tensor) -> Callable[[Tensor], None]:
        self.calls.append(call)
        self.inputs.append(x.clone())
        index = len(self.calls) - 1

        def finish(y: Tensor) -> None:
            self.outputs[index] = y.clone()

        return finish

    @property
    def sites(self) -> list[Site]:
        return [(call.path, call.number, call.kind) for call in self.calls]


def watched(
    model: nn.Module, *args: Any, choice: str = "pointwise", **kwargs: Any
) -> tuple[Seen, Any]:
    """Run a network once while it is watched."""
    seen = Seen()
    with torch.no_grad(), recording(model, seen, activations=choice):
        output = model(*args, **kwargs)
    assert no_mode_left()
    return seen, output


def no_mode_left() -> bool:
    return torch._C._len_torch_function_stack() == 0


TABLES = (
    "_forward_hooks",
    "_forward_hooks_always_called",
    "_forward_hooks_with_kwargs",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
)


def hooks(model: nn.Module) -> list[Any]:
    """Every table in which the modules keep hooks, with the order of what is in it."""
    return [
        [list(getattr(module, table).items()) for table in TABLES] for module in model.modules()
    ]


def block(act: nn.Module | None = None) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), act or nn.ReLU())


# The zoo: networks with a trap each.


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.inner = nn.Linear(4, 4), block(nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x))
        x = self.inner(x)
        return torch.sigmoid((x - 0.1).relu_())


class Shared(nn.Module):
    """One module under two names, called three times."""

    def __init__(self) -> None:
        super().__init__()
        self.act = nn.SiLU(inplace=True)
        self.again = self.act
        self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.again(self.c(self.act(self.b(self.act(self.a(x))))))


class EarlyExit(nn.Module):
    """Leaves a part of itself by an exception that it catches."""

    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act, self.never = nn.ReLU(), nn.Tanh()

        def forward(self, x: Tensor) -> Tensor:
            self.act(x)
            raise StopIteration

    def __init__(self) -> None:
        super().__init__()
        self.part, self.after = EarlyExit.Part(), nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        try:
            x = self.part(x)
        except StopIteration:
            x = torch.tanh(x)
        return self.after(x)


class Recursive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ELU()

    def forward(self, x: Tensor, depth: int = 2) -> Tensor:
        x = self.act(x)
        return torch.tanh(self(x, depth - 1) if depth else x)


class Branching(nn.Module):
    """Takes another way for other data; one of its layers never runs."""

    def __init__(self) -> None:
        super().__init__()
        self.low, self.high, self.idle = nn.ReLU(), nn.GELU(), nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        return self.high(x) if x.mean() > 0 else self.low(self.low(x))


class OnParameters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x * F.softplus(self.scale))


class OddShapes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x.sum()) + torch.sigmoid(x[0]) + torch.relu(x.long()) + torch.tanh(x)


class MadeInForward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.ReLU()(nn.Sequential(nn.Tanh())(x))


class Custom(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * torch.sigmoid(x)


class WithCustom(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Custom.apply(x)


class SwiGLU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(4, 6), nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        return F.glu(F.silu(self.gate(x)) * self.up(x))


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = block()

    def forward(self, x: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(self.part, x, use_reentrant=False)


class TwoInOne(nn.Module):
    """A network that has another one as a part and calls a third that is none of its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Functional()
        self.foreign = [block(nn.Mish())]

    def forward(self, x: Tensor) -> Tensor:
        return self.foreign[0](self.part(x))


class InPlace(nn.Module):
    """Overwrites its own features again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.acts = nn.ModuleList(
            [nn.SiLU(inplace=True), nn.Hardswish(inplace=True), nn.ReLU6(inplace=True)]
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv(x))
        for act in self.acts:
            x = act(x.mul_(1.5))
        return x.add_(1)


ZOO: dict[str, tuple[Callable[[], nn.Module], list[Site]]] = {
    "functional": (
        Functional,
        [("", 0, "relu"), ("inner.1", 0, "tanh"), ("", 1, "relu"), ("", 2, "sigmoid")],
    ),
    "shared": (Shared, [("act", 0, "silu"), ("act", 1, "silu"), ("act", 2, "silu")]),
    "early exit": (EarlyExit, [("part.act", 0, "relu"), ("", 0, "tanh"), ("after", 0, "gelu")]),
    "recursive": (
        Recursive,
        [("act", number, "elu") for number in range(3)]
        + [("", number, "tanh") for number in range(3)],
    ),
    "parameters": (OnParameters, [("", 0, "softplus"), ("", 1, "relu")]),
    "odd shapes": (
        OddShapes,
        [("", 0, "relu"), ("", 1, "sigmoid"), ("", 2, "relu"), ("", 3, "tanh")],
    ),
    "made in forward": (MadeInForward, [("", 0, "tanh"), ("", 1, "relu")]),
    "autograd function": (WithCustom, [("", 0, "sigmoid")]),
    "swiglu": (SwiGLU, [("", 0, "silu"), ("", 1, "glu")]),
    "checkpoint": (Checkpointed, [("part.1", 0, "relu")]),
    "two in one": (
        TwoInOne,
        [
            ("part", 0, "relu"),
            ("part.inner.1", 0, "tanh"),
            ("part", 1, "relu"),
            ("part", 2, "sigmoid"),
            ("", 0, "mish"),
        ],
    ),
    "sequential": (
        lambda: nn.Sequential(block(), block(nn.SiLU())),
        [("0.1", 0, "relu"), ("1.1", 0, "silu")],
    ),
    "the network itself": (nn.ReLU, [("", 0, "relu")]),
    "nothing": (lambda: nn.Linear(4, 4), []),
    "fx": (
        lambda: torch.fx.symbolic_trace(Functional()),
        [("", 0, "relu"), ("inner.1", 0, "tanh"), ("", 1, "relu"), ("", 2, "sigmoid")],
    ),
    "exported": (
        lambda: torch.export.export(Functional(), (torch.randn(3, 4),)).module(),
        [("", 0, "relu"), ("", 1, "tanh"), ("", 2, "relu"), ("", 3, "sigmoid")],
    ),
}


@pytest.mark.parametrize(("build", "sites"), ZOO.values(), ids=ZOO)
def test_zoo(build: Callable[[], nn.Module], sites: list[Site]) -> None:
    model = build()
    x = torch.randn(3, 4)
    before, alone = hooks(model), model(x)
    seen, output = watched(model, x)
    assert seen.sites == sites
    assert torch.equal(output, alone)
    assert hooks(model) == before
    assert len(seen.outputs) == len(sites)


ACTS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "hardswish": F.hardswish,
    "relu6": F.relu6,
}


def test_in_place_inputs_are_seen_before_they_are_overwritten() -> None:
    model, x = InPlace().eval(), torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        alone = model(x)
        expected = model.norm(model.conv(x))
    seen, output = watched(model, x)
    assert seen.sites == [("acts.0", 0, "silu"), ("acts.1", 0, "hardswish"), ("acts.2", 0, "relu6")]
    assert torch.equal(output, alone)
    for index, function in enumerate(ACTS.values()):
        assert torch.equal(seen.inputs[index], expected * 1.5)
        expected = seen.outputs[index]
        assert torch.equal(expected, function(seen.inputs[index]))
        assert not torch.equal(expected, seen.inputs[index])


def test_branches_may_change_between_passes() -> None:
    model, seen = Branching(), Seen()
    with recording(model, seen) as recorder:
        recorder.stop()
        for value in (-1.0, 1.0):
            with recorder.forward_pass():
                model(torch.full((2, 4), value))
            model(torch.ones(2, 4))  # outside, not seen
    assert seen.sites == [("low", 0, "relu"), ("low", 1, "relu"), ("high", 0, "gelu")]


def test_calls_are_counted_from_zero_in_every_pass() -> None:
    model, seen = Shared(), Seen()
    with torch.no_grad(), recording(model, seen) as recorder:
        for _ in range(2):
            with recorder.forward_pass():
                model(torch.randn(2, 4))
    assert [call.number for call in seen.calls] == [0, 1, 2, 0, 1, 2]
    assert no_mode_left()


def test_what_is_called_outside_the_network_is_not_seen() -> None:
    seen, model = Seen(), block()
    with torch.no_grad(), recording(model, seen) as recorder:
        torch.relu(torch.randn(3))
        model(torch.randn(2, 4))
        torch.relu(torch.randn(3))
        recorder.stop()
        model(torch.randn(2, 4))
    assert seen.sites == [("1", 0, "relu")]


def test_registered_modules_are_one_site_and_nested_ones_none() -> None:
    @register_activation
    class Inner(nn.Module):
        def forward(self, *, x: Tensor, scale: float) -> Tensor:
            return torch.relu(x) * scale

    @register_activation
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(scale=2.0, x=torch.tanh(x))

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.outer, self.inner = Outer(), Inner()

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.inner(scale=3.0, x=self.outer(x)))

    x = torch.randn(3, 4)
    seen, output = watched(Both(), x)
    assert seen.sites == [("outer", 0, "Outer"), ("inner", 0, "Inner"), ("", 0, "relu")]
    assert torch.equal(output, Both()(x))
    assert torch.equal(seen.inputs[0], x)
    assert torch.equal(seen.outputs[0], torch.tanh(x).relu() * 2)
    assert torch.equal(seen.inputs[1], seen.outputs[0])
    unchosen, _ = watched(Both(), x, choice="relu")
    assert unchosen.sites == [("", 0, "relu")]


def test_what_an_observer_computes_is_not_seen() -> None:
    class Doubling(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2

    register_activation(Doubling)
    model = nn.Sequential(
        nn.Conv1d(3, 3, 1), Doubling(), nn.ReLU(), nn.Flatten(1), nn.Unflatten(1, (5, 3)), nn.Tanh()
    )
    calls: list[Call] = []

    def observe(call: Call, x: Tensor) -> Callable[[Tensor], None]:
        calls.append(call)
        torch.relu(torch.bmm(x, x.mT))
        return lambda y: torch.sigmoid_(y @ y.mT) and None if y.numel() == 1 else None

    with torch.no_grad(), recording(model, observe):
        model(torch.randn(2, 3, 5))
    assert [call.kind for call in calls] == ["Doubling", "relu", "tanh"]
    assert calls[1].layout.reason == "follows conv1d"
    assert "bmm" not in calls[2].layout.reason


def test_hooks_of_others_change_values_outside() -> None:
    class Doubling(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2

    register_activation(Doubling)
    model = nn.Sequential(Doubling(), nn.ReLU())
    for layer in model:
        layer.register_forward_pre_hook(lambda _, args: (args[0] + 1,))
        layer.register_forward_hook(lambda _, __, output: output - 3)
    before, x = hooks(model), torch.randn(3, 4)
    alone = model(x)
    seen, output = watched(model, x)
    assert torch.equal(output, alone)
    assert torch.equal(seen.inputs[0], x + 1)
    assert torch.equal(seen.outputs[0], (x + 1) * 2)
    assert torch.equal(seen.inputs[1], seen.outputs[0] - 3 + 1)
    assert torch.equal(seen.outputs[1], seen.inputs[1].relu())
    assert hooks(model) == before


def test_an_activation_in_a_hook_belongs_to_the_caller() -> None:
    model = nn.Sequential(block(), nn.Linear(4, 4))
    model[1].register_forward_hook(lambda _, __, output: torch.tanh(output))
    seen, _ = watched(model, torch.randn(2, 4))
    assert seen.sites == [("0.1", 0, "relu"), ("", 0, "tanh")]


def test_a_hook_that_fails_before_a_module_is_entered() -> None:
    class Catching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bad, self.good = nn.ReLU(), nn.Tanh()

        def forward(self, x: Tensor) -> Tensor:
            try:
                self.bad(x)
            except ZeroDivisionError:
                x = torch.sigmoid(x)
            return self.good(x)

    model = nn.Sequential(Catching())
    model[0].bad.register_forward_pre_hook(lambda _, __: 1 / 0)
    seen, _ = watched(model, torch.randn(2, 4))
    assert seen.sites == [("0", 0, "sigmoid"), ("0.good", 0, "tanh")]


class Failing(nn.Module):
    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.error: type[BaseException] | None = error

    def forward(self, x: Tensor) -> Tensor:
        if self.error:
            raise self.error("here")
        return torch.relu(x)


class FailingAttention(nn.Module):
    """An attention that fails inside, where the recorder does not watch."""

    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.act, self.attention = nn.ReLU(), nn.MultiheadAttention(4, 2, batch_first=True)
        self.error: type[BaseException] | None = error

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(x)
        merge = self.attention.merge_masks

        def failing(*args: Any) -> Any:
            if self.error:
                raise self.error("here")
            return merge(*args)

        self.attention.merge_masks = failing
        try:
            return self.attention(x, x, x)[0]
        finally:
            del self.attention.merge_masks


@pytest.mark.parametrize("build", [Failing, FailingAttention])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("depth", [0, 2])
def test_everything_is_as_before_after_an_exception(
    build: Callable[[type[BaseException]], nn.Module], error: type[BaseException], depth: int
) -> None:
    failing = build(error)
    model: nn.Module = failing
    for _ in range(depth):
        model = nn.Sequential(nn.Tanh(), model)
    model.eval()
    x, before = torch.randn(2, 3, 4), hooks(model)
    with pytest.raises(error, match="here"):
        watched(model, x)
    assert no_mode_left()
    assert hooks(model) == before
    failing.error = None
    seen, output = watched(model, x)
    assert [kind for _, _, kind in seen.sites] == ["tanh"] * depth + ["relu"]
    with torch.no_grad():
        assert torch.equal(output, model(x))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_pass_that_failed_does_not_disturb_the_next(error: type[BaseException]) -> None:
    failing = FailingAttention(error)
    model, seen = nn.Sequential(failing, nn.GELU()).eval(), Seen()
    x = torch.randn(2, 3, 4)
    with torch.no_grad(), recording(model, seen) as recorder:
        recorder.stop()
        with pytest.raises(error, match="here"), recorder.forward_pass():
            model(x)
        assert no_mode_left()
        failing.error = None
        with recorder.forward_pass():
            model(x)
    assert seen.sites == [("0.act", 0, "relu"), ("0.act", 0, "relu"), ("1", 0, "gelu")]


def test_an_exception_of_the_observer_comes_through() -> None:
    def observe(call: Call, x: Tensor) -> None:
        raise RuntimeError("observer")

    model = block()
    before = hooks(model)
    with pytest.raises(RuntimeError, match="observer"), recording(model, observe):
        model(torch.randn(2, 4))
    assert hooks(model) == before
    assert no_mode_left()


class ViTBlock(nn.Module):
    def __init__(self, attention: type[nn.MultiheadAttention] = nn.MultiheadAttention) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(8), attention(8, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        attended = torch.relu(self.attention(y, y, y, need_weights=False)[0])
        x = x + attended
        return x + self.mlp(x)


class OwnAttention(nn.MultiheadAttention):
    """A subclass that computes the same."""


class Noisy(nn.MultiheadAttention):
    """A subclass with an activation of its own."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output, weights = super().forward(*args, **kwargs)
        return torch.tanh(output), weights


@pytest.mark.parametrize("attention", [nn.MultiheadAttention, OwnAttention])
def test_the_fast_path_of_an_attention_is_taken(
    attention: type[nn.MultiheadAttention], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = nn.Sequential(ViTBlock(attention), ViTBlock(attention)).eval()
    taken = []
    fast = torch._native_multi_head_attention
    monkeypatch.setattr(
        torch, "_native_multi_head_attention", lambda *args: taken.append(1) or fast(*args)
    )
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        alone = model(x)
    seen, output = watched(model, x)
    assert torch.equal(output, alone)
    assert len(taken) == 4
    assert seen.sites == [
        (path, 0, kind) for n in "01" for path, kind in ((n, "relu"), (f"{n}.mlp.2", "gelu"))
    ]
    assert [call.layout.axis for call in seen.calls] == [2] * 4
    assert seen.calls[0].layout.reason == "follows multi_head_attention_forward"


def test_an_attention_with_activations_of_its_own_is_watched() -> None:
    seen, _ = watched(ViTBlock(Noisy).eval(), torch.randn(2, 5, 8))
    assert seen.sites == [("attention", 0, "tanh"), ("", 0, "relu"), ("mlp.2", 0, "gelu")]


def test_modes_of_the_network_stay_where_they_are() -> None:
    class InDevice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            with torch.device("meta"):
                x = torch.relu(self.attention(x, x, x)[0])
                self.place = torch.zeros(1).device.type
            return torch.tanh(x)

    model, x = InDevice().eval(), torch.randn(2, 3, 4)
    with torch.no_grad():
        alone = model(x)
    seen, output = watched(model, x)
    assert model.place == "meta"
    assert torch.zeros(1).device.type == "cpu"
    assert seen.sites == [("", 0, "relu"), ("", 1, "tanh")]
    assert torch.equal(output, alone)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(("activation", "path"), [("relu", ""), (nn.GELU(), "activation")])
def test_transformer_layers_show_their_activation(
    batch_first: bool, activation: Any, path: str
) -> None:
    kind = "relu" if activation == "relu" else "gelu"
    layer = nn.TransformerEncoderLayer(
        8, 2, 16, activation=activation, batch_first=batch_first
    ).eval()
    x = torch.randn(3, 5, 8)
    seen, output = watched(layer, x)
    assert seen.sites == [(path, 0, kind)]
    assert seen.inputs[0].shape == (3, 5, 16)
    assert (seen.calls[0].layout.axis, seen.calls[0].sequence_first) == (2, not batch_first)
    with torch.no_grad():
        torch.testing.assert_close(output, layer(x))


def test_a_stack_of_transformer_layers() -> None:
    options = {"d_model": 8, "nhead": 2, "dim_feedforward": 16, "batch_first": True}
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**options), 2).eval()
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**options), 2).eval()
    x = torch.randn(3, 5, 8)
    assert watched(encoder, x)[0].sites == [("layers.0", 0, "relu"), ("layers.1", 0, "relu")]
    assert watched(decoder, x, x)[0].sites == [("layers.0", 0, "relu"), ("layers.1", 0, "relu")]


def compiled_whole() -> nn.Module:
    return torch.compile(block(), backend="eager")


def compiled_part() -> nn.Module:
    return nn.Sequential(torch.compile(block(), backend="eager"), nn.Tanh())


def compiled_in_place() -> nn.Module:
    model = nn.Sequential(block(), nn.Tanh())
    model[0].compile(backend="eager")
    return model


def compiled_function() -> nn.Module:
    class Calls(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.function = torch.compile(torch.relu, backend="eager")

        def forward(self, x: Tensor) -> Tensor:
            return self.function(x)

    return Calls()


@pytest.mark.parametrize(
    ("build", "sites"),
    [
        (compiled_whole, [("1", 0, "relu")]),
        (compiled_part, [("0.1", 0, "relu"), ("1", 0, "tanh")]),
        (compiled_in_place, [("0.1", 0, "relu"), ("1", 0, "tanh")]),
        (compiled_function, [("", 0, "relu")]),
    ],
)
def test_compiled_networks_are_seen_through_their_originals(
    build: Callable[[], nn.Module], sites: list[Site]
) -> None:
    model = build()
    network, x = unwrapped(model), torch.randn(3, 4)
    before = hooks(network)
    with preserve_state(network, mode="eval"):
        seen, output = watched(network, x)
    assert seen.sites == sites
    assert hooks(network) == before
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        assert torch.equal(output, model(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype: torch.dtype) -> None:
    model, x = (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3), nn.SiLU()),
        torch.randn(2, 3, 8, 8),
    )
    with torch.no_grad(), torch.autocast("cpu", dtype):
        alone = model(x)
        seen, output = watched(model, x)
    assert torch.equal(output, alone)
    assert [one.dtype for one in seen.inputs] == [dtype, dtype]
    control, _ = watched(model, x)
    assert [one.dtype for one in control.inputs] == [torch.float32] * 2


def test_other_threads_are_not_seen_and_do_not_disturb() -> None:
    class Threaded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.elsewhere = nn.Sequential(nn.ReLU(), nn.MultiheadAttention(4, 2, batch_first=True))
            self.here = nn.Tanh()

        def forward(self, x: Tensor) -> Tensor:
            results: list[Tensor] = []

            def work() -> None:
                with torch.no_grad():
                    y = self.elsewhere[0](x)
                    results.append(self.elsewhere[1](y, y, y)[0])

            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            return torch.sigmoid(self.here(results[0]))

    model, x = Threaded().eval(), torch.randn(2, 3, 4)
    alone = model(x)
    seen, output = watched(model, x)
    assert seen.sites == [("here", 0, "tanh"), ("", 0, "sigmoid")]
    assert torch.equal(output, alone)


def test_the_network_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("copied")

    class Sole(nn.Module):
        __deepcopy__ = __copy__ = __reduce_ex__ = refuse

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x)

    with pytest.raises(AssertionError, match="copied"):
        copy.deepcopy(Sole())  # the control
    assert watched(Sole(), torch.randn(3))[0].sites == [("", 0, "relu")]


def test_gradients_flow_as_before() -> None:
    model, x = Functional(), torch.randn(3, 4)
    model(x).sum().backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    with recording(model, lambda call, x: None):
        model(x).sum().backward()
    assert all(
        torch.equal(parameter.grad, grad)
        for parameter, grad in zip(model.parameters(), expected, strict=True)
    )


def test_recordings_can_be_nested() -> None:
    model, outer, inner = block(), Seen(), Seen()
    x = torch.randn(2, 4)
    with torch.no_grad(), recording(model, outer):
        with recording(model, inner):
            model(x)
        model(x)
    assert (len(outer.sites), len(inner.sites)) == (2, 1)
    assert no_mode_left()


def test_a_start_too_many_does_no_harm() -> None:
    model, seen = block(), Seen()
    with torch.no_grad(), recording(model, seen) as recorder:
        recorder.start()
        model(torch.randn(2, 4))
    assert seen.sites == [("1", 0, "relu")]
    assert no_mode_left()
