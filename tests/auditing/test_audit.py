"""The audit passes on networks that are seen as they are, and fails where something is wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import sigmascope as sg
from sigmascope.auditing import passes as auditing
from sigmascope.auditing.matching import SeenSite, unmatched
from sigmascope.auditing.operators import Operator, OperatorCounter
from sigmascope.auditing.producers import channels_of
from sigmascope.auditing.samples import count_samples, with_sample_replaced
from sigmascope.capture.pooled import PooledCall
from sigmascope.capture.recorder import Recorder
from sigmascope.measure.kept_features import kept_calls
from tests.networks import torchvision_models


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


class Function(nn.Module):
    """Calls a function of a tensor after a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 10)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x))


class QuickGELU(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


def in_script(x: Tensor) -> Tensor:
    return torch.tanh(x) * 2


def scripted(target: Any) -> Any:
    with warnings.catch_warnings():  # scripts are deprecated, and in use
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(target)


def counted(network: nn.Module, x: Tensor, **options: bool) -> list[tuple[str, str]]:
    counter = OperatorCounter(network, **options)
    with counter.counting(), torch.no_grad():
        network(x)
    return [(one.path, one.name) for one in counter.operators if one.activation]


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (torch.relu, ["relu"]),
        (torch.relu_, ["relu"]),
        (lambda x: torch.sigmoid(x, out=torch.empty_like(x)), ["sigmoid"]),
        (F.relu6, ["hardtanh"]),
        (F.selu, ["elu"]),
        (F.celu, ["celu"]),
        (F.gelu, ["gelu"]),
        (F.logsigmoid, ["log_sigmoid_forward"]),
        (F.hardswish, ["hardswish"]),
        (F.rrelu, ["rrelu_with_noise"]),
        (lambda x: F.prelu(x, torch.ones(1)), ["_prelu_kernel"]),
        (lambda x: F.threshold_(x, 0.1, 0.0), ["threshold"]),
        (lambda x: x * torch.erf(x), ["erf"]),
        (lambda x: scripted(in_script)(x), ["tanh"]),
        (lambda x: nn.ReLU()(x), ["relu"]),
        (lambda x: x.softmax(-1), []),
    ],
)
def test_counter_sees_every_form(function: Callable[[Tensor], Tensor], names: list[str]) -> None:
    assert counted(Function(function), noise(4, 6)) == [("", name) for name in names]


def test_counter_counts_softmax_only_if_asked() -> None:
    network = Function(lambda x: x.softmax(-1))
    assert counted(network, noise(4, 6)) == []
    assert counted(network, noise(4, 6), softmax=True) == [("", "_softmax")]


def test_counter_attributes_operators_to_the_innermost_module() -> None:
    network = nn.Sequential(nn.Sequential(nn.Linear(6, 6), nn.ReLU()), nn.Tanh(), nn.LSTMCell(6, 4))
    found = counted(network, noise(4, 6))
    assert found[:2] == [("0.1", "relu"), ("1", "tanh")]
    assert {path for path, _ in found[2:]} <= {"2"}
    assert nn.modules.module._global_forward_hooks == {}
    assert nn.modules.module._global_forward_pre_hooks == {}


def vision(name: str, side: int = 64, **options: Any) -> Callable[[], tuple[nn.Module, Tensor]]:
    def build() -> tuple[nn.Module, Tensor]:
        model = torchvision_models().get_model(name, weights=None, **options)
        return model, noise(3, 3, side, side)

    return build


def plain(*layers: nn.Module, width: int = 6) -> Callable[[], tuple[nn.Module, Tensor]]:
    return lambda: (nn.Sequential(nn.Linear(width, 10), *layers), noise(5, width))


def encoder() -> tuple[nn.Module, Tensor]:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), noise(5, 7, 16)


# Network -> how many activation operators it computes, counted by hand.
NETWORKS: dict[str, tuple[Callable[[], tuple[nn.Module, Any]], int]] = {
    "resnet18": (vision("resnet18"), 17),
    "mobilenet_v2": (vision("mobilenet_v2"), 35),
    "shufflenet_v2_x0_5": (vision("shufflenet_v2_x0_5"), 37),
    "squeezenet1_1": (vision("squeezenet1_1"), 26),
    "efficientnet_b0": (vision("efficientnet_b0"), 65),
    "swin_v2_t": (vision("swin_v2_t"), 36),
    "regnet_y_400mf": (vision("regnet_y_400mf"), 81),
    "relu, dropout, tanh": (plain(nn.ReLU(), nn.Dropout(), nn.Tanh()), 2),
    "composite": (plain(QuickGELU(), nn.Linear(10, 4), nn.SELU()), 2),
    "in place": (plain(nn.ReLU(inplace=True), nn.Linear(10, 4), nn.SiLU(inplace=True)), 2),
    "softsign": (plain(nn.Softsign(), nn.Tanhshrink(), nn.ReLU6()), 2),
    "transformer encoder": (encoder, 2),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_complete(name: str) -> None:
    build, operators = NETWORKS[name]
    torch.manual_seed(0)
    found = sg.audit(*build(), name=name)
    assert found.complete, found
    assert found.operators == operators
    assert found.samples > 0


def test_a_recurrent_layer_has_a_reason() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru, self.head = nn.GRU(6, 8, batch_first=True), nn.Linear(8, 4)

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(self.head(self.gru(x)[0][:, -1]))

    found = sg.audit(Recurrent(), noise(5, 7, 6))
    assert found.complete, found
    assert found.explained > 0
    alone = sg.audit(nn.Sequential(nn.GRU(6, 8)), noise(5, 7, 6))
    assert "NoActivationError" in alone.refused
    assert not alone.findings


def test_what_is_refused_is_no_raw_error() -> None:
    found = sg.audit(scripted(nn.Sequential(nn.ReLU())), noise(5, 6))
    assert "TorchScript" in found.refused
    assert not found.complete
    assert found.row()["raw error"] == 0


def test_a_network_that_does_not_run_is_named() -> None:
    with pytest.raises(sg.InputError, match="does not run on this batch"):
        sg.audit(nn.Linear(3, 4), noise(5, 6))


def test_what_the_recorder_does_not_see_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(self: Recorder, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.sigmoid:
            with torch._C.DisableTorchFunction():
                return func(*args, **(kwargs or {}))
        return original(self, func, types, args, kwargs)

    original = Recorder.__torch_function__
    monkeypatch.setattr(Recorder, "__torch_function__", blind)
    found = sg.audit(Function(lambda x: torch.relu(torch.sigmoid(x))), noise(5, 6))
    assert [str(one) for one in found.findings] == [
        "missed: (network): sigmoid was computed in Function"
    ]
    assert not found.complete
    alone = sg.audit(Function(torch.sigmoid), noise(5, 6))
    assert alone.count("missed") == 1
    assert not alone.refused


def test_an_error_of_the_bookkeeping_is_a_raw_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("in the bookkeeping")

    monkeypatch.setattr(Recorder, "_note", fail)
    found = sg.audit(Function(torch.relu), noise(5, 6))
    assert found.error == "ZeroDivisionError: in the bookkeeping"
    assert found.operators == 1
    assert "raw error: ZeroDivisionError" in repr(found)


def test_what_runs_in_a_script_is_missed_or_seen() -> None:
    script = scripted(in_script)
    found = sg.audit(Function(lambda x: torch.relu(script(x))), noise(5, 6))
    assert found.operators == 2
    assert found.sites + found.explained + found.count("missed") == 2


def test_random_numbers_of_a_place_are_no_wrong_axis() -> None:
    found = sg.audit(Function(lambda x: torch.relu(x + torch.randn_like(x))), noise(5, 6))
    assert found.complete, found


def test_false_sites_are_found() -> None:
    sites = [
        SeenSite("a", "a", "relu", 0, 1),
        SeenSite("b", "b", "relu", 1, 2),
        SeenSite("c", "c", "relu", 2, 2),
        SeenSite("d", "d", "silu", 4, 4),
        SeenSite("f", "f", "silu", 5, 6),
    ]
    operators = [
        Operator("relu", "a", 0, True),
        Operator("gelu", "b", 1, True),
        Operator("sigmoid", "d", 2, True),
        Operator("mul", "d", 3, False),
        Operator("tanh", "e", 4, True),
        Operator("sigmoid", "f", 5, True),
    ]
    left, false = unmatched(sites, operators)
    assert [one.name for one in left] == ["tanh"]
    assert [(one.where, one.detail) for one in false] == [
        ("b", "named relu, but gelu was computed"),
        ("c", "a site of kind relu where no such operator was computed"),
    ]


def test_wrong_channels_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    network, batch = nn.Sequential(nn.Conv1d(4, 6, 1), nn.ReLU()), noise(5, 4, 7)
    assert sg.audit(network, batch).complete
    monkeypatch.setattr(auditing, "signature", partial(auditing.signature, channel_axis={"1": 2}))
    found = sg.audit(network, batch)
    assert [str(one) for one in found.findings] == [
        "wrong axis: 1: the layer before has 6 channels on axis 1, the site 7 on axis 2",
        "wrong axis: 1: axis 2 is read as channels, those of the layer before run along [1]",
    ]


class Heads(nn.Module):
    """Applies ReLU to channels that are split into heads."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(4, 6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.layer(x).unflatten(1, (2, 3)).transpose(2, 3))


@pytest.mark.parametrize(("axis", "wrong"), [(1, True), (2, True), (3, False)])
def test_heads_taken_for_channels_are_found(
    axis: int, wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = partial(auditing.signature, channel_axis={"*": axis})
    monkeypatch.setattr(auditing, "signature", measure)
    found = sg.audit(Heads(), noise(5, 4, 7))
    text = f"axis {axis} is read as channels, those of the layer before run along [3]"
    assert [str(one) for one in found.findings] == [f"wrong axis: forward.relu: {text}"] * wrong
    assert found.channels == 1


@pytest.mark.parametrize(
    ("wrong", "detail"),
    [
        (lambda x: x.roll(1, dims=0), "replacing sample 0 changes the rows of samples [1] too"),
        (lambda x: x[:4], "4 rows for 5 samples"),
        (
            lambda x: torch.arange(5.0)[:, None].expand_as(x),
            "the rows of sample 0 do not become those of the one it is replaced by",
        ),
    ],
)
def test_wrong_samples_are_found(
    wrong: Callable[[Tensor], Tensor], detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(keep: str) -> list[list[PooledCall]]:
        return [[replace(call, x=wrong(call.x)) for call in calls] for calls in kept_calls(keep)]

    monkeypatch.setattr(auditing, "kept_calls", other)
    found = sg.audit(nn.Sequential(nn.Linear(6, 10), nn.ReLU()), noise(5, 6))
    assert [one.detail for one in found.findings] == [detail]


def test_an_untrue_reason_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(keep: str) -> list[list[PooledCall]]:
        lost = {"x": None, "y": None, "reason": "no axis of samples", "skipped": True}
        return [[replace(call, **lost) for call in calls] for calls in kept_calls(keep)]

    monkeypatch.setattr(auditing, "kept_calls", other)
    found = sg.audit(nn.Sequential(nn.Linear(6, 10), nn.ReLU()), noise(5, 6))
    assert [str(one) for one in found.findings] == [
        "wrong axis: 1: axis 0 holds the samples, but it has no score: no axis of samples"
    ]


def test_a_network_that_mixes_samples_may_change_other_rows() -> None:
    found = sg.audit(Function(lambda x: torch.relu(x - x.mean(dim=0))), noise(5, 6))
    assert found.complete
    assert "mixes samples" in found.notes[0]


def test_a_signal_that_has_died_has_no_wrong_axis() -> None:
    network = nn.Sequential(nn.Linear(6, 10), nn.ReLU())
    nn.init.zeros_(network[0].weight)
    assert sg.audit(network, noise(5, 6)).complete


def test_outputs_may_be_one_number_per_sample() -> None:
    assert sg.audit(Function(lambda x: torch.relu(x).sum(dim=1)), noise(5, 6)).complete


def test_one_sample_is_not_checked() -> None:
    found = sg.audit(nn.Sequential(nn.Linear(6, 10), nn.ReLU()), noise(1, 6))
    assert found.samples == 0
    assert "two samples or more" in found.notes[0]


def test_a_changed_network_is_found() -> None:
    class Sly(nn.Module):
        """Computes something else, and leaves a trace, where it is watched."""

        def forward(self, x: Tensor) -> Tensor:
            watched = torch._C._len_torch_function_stack() > 0
            if watched:
                self.number = getattr(self, "number", 0) + 1
                setattr(self, f"trace{self.number}", True)
            return torch.relu(x) + watched

    found = sg.audit(Sly(), noise(5, 6))
    assert [(one.problem, one.where) for one in found.findings] == [
        ("changed", "output of batch 0"),
        ("changed", "output of batch 1"),
        ("changed", "(network): attributes"),
    ]


def test_replacing_a_sample() -> None:
    images = [noise(3, 8, 8), noise(3, 8, 9), noise(3, 9, 8)]
    assert count_samples((images, None)) == 3
    replaced = with_sample_replaced((images, None), 3)
    assert replaced[0][0] is images[2]
    assert replaced[0][1:] == images[1:]
    mapping = {"x": noise(4, 2), "positions": noise(1, 4)}
    changed = with_sample_replaced(mapping, count_samples(mapping))
    assert torch.equal(changed["x"][0], mapping["x"][3])
    assert torch.equal(changed["x"][1:], mapping["x"][1:])
    assert changed["positions"] is mapping["positions"]


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (nn.Linear(3, 4), (2, 5, 3), (2, 4)),
        (nn.Conv1d(3, 4, 1), (2, 3, 5), (1, 4)),
        (nn.Conv1d(3, 4, 1), (3, 5), (0, 4)),
        (nn.BatchNorm2d(3), (2, 3, 5, 5), (1, 3)),
        (nn.LayerNorm(3), (2, 5, 3), (2, 3)),
        (nn.LayerNorm((5, 3)), (2, 5, 3), None),
        (nn.GroupNorm(1, 3), (2, 3, 5), (1, 3)),
        (nn.ReLU(), (2, 3), None),
    ],
)
def test_channels_of_layers(
    layer: nn.Module, shape: tuple[int, ...], expected: tuple[int, int] | None
) -> None:
    assert channels_of(layer, layer(noise(*shape))) == expected


class Nested(nn.Module):
    """Takes or makes a nested tensor, and pads what it computes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        if not x.is_nested:
            x = torch.nested.as_nested_tensor([row[: 2 + number] for number, row in enumerate(x)])
        hidden = torch.relu(self.layer(x))
        return torch.tanh(torch.nested.to_padded_tensor(hidden, 0.0))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_have_a_reason() -> None:
    rows = [row[: 3 + number] for number, row in enumerate(noise(3, 8, 4))]
    for batch in (noise(3, 8, 4), torch.nested.nested_tensor(rows)):
        found = sg.audit(Nested(), batch)
        assert (found.error, found.refused, found.findings) == ("", "", ())
        assert (found.sites, found.skipped) == (2, 2)


def test_a_batch_in_which_no_sample_can_be_replaced() -> None:
    class Opaque:
        def __init__(self) -> None:
            self.content = noise(5, 4)

    network = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
    found = sg.audit(network, Opaque(), forward=lambda model, batch: model(batch.content))
    assert (found.sites, found.findings) == (1, ())


class Mapped(nn.Module):
    """Several weights at once, by vmap over them and not over the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(3, 4, 4))

    def forward(self, x: Tensor) -> Tensor:
        each = torch.vmap(lambda weight, x: torch.tanh(x @ weight), in_dims=(0, None))
        result: Tensor = each(self.weights, x).mean(dim=0)
        return result


def test_tensors_of_a_transformation_are_not_read_after_it() -> None:
    assert sg.audit(Mapped(), noise(16, 4)).complete


def scripted_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def test_the_only_activation_is_explained_as_one_of_several_is() -> None:
    hidden = Function(scripted(scripted_gelu))
    alone = sg.audit(hidden, noise(8, 6))
    beside = sg.audit(nn.Sequential(hidden, nn.ReLU()), noise(8, 6))
    assert (alone.findings, beside.findings) == ((), ())
    assert (alone.operators, alone.explained, alone.sites) == (1, 1, 0)
    assert (beside.operators, beside.explained, beside.sites) == (2, 1, 1)
    assert "1 tanh computed inside torch.jit.script" in alone.refused
