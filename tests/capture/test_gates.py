"""Activations that multiply another tensor, and those of products of queries and keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.capture.activations import register_activation
from tests.capture.written import erf_gelu, sites
from tests.networks import torchvision_models

X = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
IMAGES = torch.randn(48, 3, 6, 6, generator=torch.Generator().manual_seed(0))
TOKENS = torch.randn(48, 5, 8, generator=torch.Generator().manual_seed(0))


class Two(nn.Module):
    """Two layers, something that is written of both, and a layer."""

    def __init__(self, between: Callable[[Tensor, Tensor], Tensor], out: int = 16) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gate, self.up, self.down = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(out, 4)
        self.scale = nn.Parameter(torch.rand(16) + 0.5)
        self.between = between

    def forward(self, x: Tensor) -> Any:
        return self.down(self.between(self.gate(x), self.up(x)))


class GELUActivation(nn.Module):
    """Known by its name as one activation, whatever it calls."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


def roles(model: nn.Module, x: Any = X, **options: Any) -> list[tuple[str, str, str]]:
    return [(one.kind, one.role, one.multiplies) for one in sites(model, x, **options)]


def in_place(g: Tensor, v: Tensor) -> Tensor:
    v *= torch.sigmoid(g)
    return v


def halves(g: Tensor, v: Tensor) -> Tensor:
    first, second = torch.cat([v, g], -1).chunk(2, -1)
    return first * torch.sigmoid(second)


GATES: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], str, Callable[[Tensor], Tensor]]] = {
    "glu": (lambda g, v: torch.sigmoid(g) * v, "sigmoid", torch.sigmoid),
    "swiglu": (lambda g, v: F.silu(g) * v, "silu", F.silu),
    "the other way round": (lambda g, v: v * F.silu(g), "silu", F.silu),
    "geglu": (lambda g, v: torch.mul(F.gelu(g), v), "gelu", F.gelu),
    "geglu by hand": (lambda g, v: erf_gelu(g) * v, "gelu", F.gelu),
    "reglu": (lambda g, v: F.relu(g).mul(v), "relu", F.relu),
    "in place": (in_place, "sigmoid", torch.sigmoid),
    "by name": (lambda g, v: torch.mul(input=v, other=F.silu(g)), "silu", F.silu),
    "after affine steps": (
        lambda g, v: v * (1 - F.dropout(torch.sigmoid(g), 0.1, False)).contiguous(),
        "sigmoid",
        lambda g: 1 - torch.sigmoid(g),
    ),
    "moved": (lambda g, v: v * torch.sigmoid(g.reshape(-1, 4, 4)).flatten(1), "sigmoid", F.sigmoid),
}


@pytest.mark.parametrize("case", GATES)
def test_a_gate_is_tagged_with_what_it_multiplies(case: str) -> None:
    between, kind, _ = GATES[case]
    assert roles(Two(between)) == [(kind, "gate", "up")]


@pytest.mark.parametrize("case", GATES)
def test_a_unit_is_scored_as_a_function_of_what_is_multiplied(case: str) -> None:
    between, kind, gate = GATES[case]
    model = Two(between)
    (site,) = sites(model, gates="unit")
    assert (site.kind, site.role, site.multiplies) == (f"{kind}_gate", "gated unit", "up")
    assert (site.path, site.formula) == ("", f"x * {kind}(gate)")
    with torch.no_grad():
        v = model.up(X)
        expected = sg.affinity(v, v * gate(model.gate(X))).score
    assert site.score == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize("case", GATES)
def test_tags_change_no_score(case: str) -> None:
    model = Two(GATES[case][0])
    (alone,), (out,), (again,) = (sites(model, gates=gates) for gates in ("alone", "out", "alone"))
    assert repr(alone) == repr(again) == repr(out)  # of which NaN are parts, too


def test_halves_of_one_layer_are_told_apart() -> None:
    class Halves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 32)

        def forward(self, x: Tensor) -> Tensor:
            value, gate = self.fc(x).chunk(2, dim=-1)
            return value * torch.sigmoid(gate)

    assert roles(Halves()) == roles(Halves(), fuse=False) == [("sigmoid", "gate", "fc")]
    assert roles(Two(halves))[0][:2] == ("sigmoid", "gate")
    # of one half alone it is a formula
    assert roles(Two(lambda g, v: g.chunk(2, -1)[0] * g.chunk(2, -1)[0].sigmoid(), 8)) != []


NEITHER: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], list[str]]] = {
    "a number": (lambda g, v: F.relu(g) * 2 + v, ["relu"]),
    "a residual": (lambda g, v: v + F.relu(g), ["relu"]),
    "a formula": (lambda g, v: g * torch.sigmoid(g) + v, ["silu"]),
    "noise": (lambda g, v: F.softplus(g) * torch.randn_like(v) + v, ["softplus"]),
    "a mask": (lambda g, v: F.relu(g) * (v > 0).float(), ["relu"]),
    "a factor per sample": (lambda g, v: F.relu(g) * v.mean(-1, keepdim=True), ["relu"]),
    "a product of what it returns": (lambda g, v: (u := F.relu(g)) * (u @ u.T @ v), ["relu"]),
    "a quotient": (lambda g, v: v / F.softplus(g), ["softplus"]),
}


@pytest.mark.parametrize("case", NEITHER)
def test_what_is_no_gate_is_not_tagged(case: str) -> None:
    between, kinds = NEITHER[case]
    model = Two(between)
    for gates in ("alone", "unit"):
        assert roles(model, gates=gates) == [(kind, "", "") for kind in kinds]


def test_parts_of_a_formula_are_no_gates() -> None:
    model = Two(lambda g, v: g * torch.sigmoid(g) + v)
    assert roles(model, fuse=False) == [("sigmoid", "", "")]


def test_a_parameter_is_not_gated() -> None:
    model = Two(lambda g, v: F.relu(g) + v)
    model.between = lambda g, v: F.relu(g) * model.scale + v
    assert roles(model) == roles(model, gates="unit") == [("relu", "", "")]


def test_a_mask_among_the_inputs_is_not_gated() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            wide = mask[..., None].expand(-1, 8)
            return torch.sigmoid(F.relu(self.fc(x)) * wide.float()) * wide.to(x.dtype)

    batch = {"x": X, "mask": torch.ones(64, dtype=torch.long)}
    assert roles(Masked(), batch) == [("relu", "", ""), ("sigmoid", "", "")]


def test_of_two_activations_the_one_that_opens_is_the_gate() -> None:
    wave = Two(lambda g, v: torch.tanh(g) * torch.sigmoid(v))
    assert roles(wave) == [("tanh", "", ""), ("sigmoid", "gate", "forward.tanh")]
    assert roles(wave, gates="unit") == [
        ("tanh", "", ""),
        ("sigmoid_gate", "gated unit", "forward.tanh"),
    ]
    softmax = Two(lambda g, v: F.relu(g) * torch.softmax(v, -1))
    assert roles(softmax) == [("relu", "", "")]
    assert roles(softmax, activations="all")[1] == ("softmax", "gate", "forward.relu")


def test_a_gate_of_two_tensors_makes_two_units() -> None:
    def highway(g: Tensor, v: Tensor) -> Tensor:
        t = torch.sigmoid(g)
        return t * F.relu(v) + (1 - t) * v

    assert roles(Two(highway)) == [("sigmoid", "gate", "forward.relu, up"), ("relu", "", "")]
    assert roles(Two(highway), gates="unit") == [
        ("relu", "", ""),
        ("sigmoid_gate", "gated unit", "forward.relu"),
        ("sigmoid_gate", "gated unit", "up"),
    ]


def test_a_gate_that_serves_something_else_keeps_its_site() -> None:
    model = Two(lambda g, v: (h := F.relu(g)) * v + h @ h.T @ v)
    assert roles(model, gates="unit") == [("relu", "gate", "up"), ("relu_gate", "gated unit", "up")]


class Named(nn.Module):
    """A gated unit whose gate is a module."""

    def __init__(self, act: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gate, self.up, self.act, self.last = nn.Linear(8, 6), nn.Linear(8, 6), act, nn.Tanh()

    def forward(self, x: Tensor) -> Any:
        return self.last(self.act(self.gate(x)) * self.up(x))


@pytest.mark.parametrize("act", [nn.SiLU(), GELUActivation(), nn.LeakyReLU(0.2), nn.PReLU()])
def test_a_module_that_is_a_gate_is_replaced_by_its_unit(act: nn.Module) -> None:
    alone = sg.signature(Named(act), X, progress=False)
    first, last = alone.sites
    assert (first.path, first.role, first.multiplies) == ("act", "gate", "up")
    assert (last.path, last.role) == ("last", "")
    unit = sg.signature(Named(act), X, gates="unit", progress=False)
    assert [site.kind for site in unit] == [f"{first.kind}_gate", "tanh"]
    assert unit.coverage.never_called == ()
    assert unit["last"].score == last.score


def test_a_registered_function_can_be_a_gate() -> None:
    own = register_activation(lambda x: torch.sin(x) + x, "wavy")
    assert roles(Two(lambda g, v: own(g) * v)) == [("wavy", "gate", "up")]
    assert roles(Two(lambda g, v: own(g) * v), gates="unit")[0][0] == "wavy_gate"


class Fused(nn.Module):
    def __init__(self, glu: Any, axis: int = -1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.glu, self.axis = nn.Conv2d(3, 8, 3), glu, axis

    def forward(self, x: Tensor) -> Any:
        return torch.tanh(self.glu(self.first(x)))


@pytest.mark.parametrize("glu", [nn.GLU(1), lambda x: F.glu(x, dim=1), lambda x: F.glu(x, -3)])
def test_a_fused_glu_is_tagged_and_scored_as_a_unit(glu: Any) -> None:
    model = Fused(glu)
    found = sg.signature(model, IMAGES, progress=False)
    (skipped,) = found.coverage.skipped
    assert (skipped.kind, skipped.role, skipped.multiplies) == ("glu", "gate", "first")
    assert "differ in shape" in skipped.reason
    assert "gates='unit' scores it" in skipped.reason
    unit, _ = sg.signature(model, IMAGES, gates="unit", progress=False).sites
    with torch.no_grad():
        v, g = model.first(IMAGES).chunk(2, 1)
        expected = sg.affinity(v.mean((2, 3)), (v * torch.sigmoid(g)).mean((2, 3))).score
    assert (unit.kind, unit.dim, unit.role) == ("glu", 4, "gated unit")
    assert unit.score == pytest.approx(float(expected), abs=1e-5)


def test_an_error_of_a_fused_glu_is_its_own() -> None:
    with pytest.raises(RuntimeError, match="must be even"):
        sg.signature(Fused(F.glu), IMAGES[..., :5], gates="unit")  # of width 3 behind the layer


def test_squeeze_excitation_is_a_gate_of_the_features() -> None:
    torchvision_models()
    from torchvision.ops import SqueezeExcitation

    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), SqueezeExcitation(8, 4))
    assert roles(model, IMAGES) == [("relu", "", ""), ("relu", "", ""), ("sigmoid", "gate", "1")]
    first, _, unit = sites(model, IMAGES, gates="unit")
    assert (unit.path, unit.kind, unit.shape, unit.dim) == ("2", "sigmoid_gate", first.shape, 8)


def test_a_gate_of_positions_is_one() -> None:
    class Spatial(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 1, 3, stride=2, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            x = F.relu(self.first(x))
            gate = torch.sigmoid(self.second(x))
            return F.interpolate(gate, size=x.shape[2:], mode="nearest") * x

    assert roles(Spatial(), IMAGES) == [("relu", "", ""), ("sigmoid", "gate", "forward.relu")]


def test_later_batches_run_once_and_modes_do_not_leak() -> None:
    model, calls = Two(GATES["swiglu"][0]), []
    model.gate.register_forward_hook(lambda *_: calls.append(0))
    batches = [X, X + 1, X - 1, X[:40]]
    for gates, runs in (("unit", 5), ("alone", 4), ("unit", 5), ("out", 4)):
        calls.clear()
        (site,) = sg.signature(model, batches, gates=gates, progress=False).sites
        assert site.role == ("gated unit" if gates == "unit" else "gate")
        assert len(calls) == runs


def test_roles_are_kept_in_files_and_tables(tmp_path: Any) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), Named(nn.SiLU()))
    found = sg.signature(model, X, gates="out", keep=tmp_path / "kept", progress=False)
    assert repr(sg.load(found.save(tmp_path / "one.json")).sites) == repr(found.sites)
    assert [one.role for one in sg.rescore(tmp_path / "kept", progress=False)] == ["", "gate", ""]
    assert "silu (gate, left out)" in str(found)
    assert "silu (gate, left out)" in found._repr_html_()
    assert "1 gate left out of statistics and comparisons (gates='out')." in str(found)
    frame = found.to_frame()
    assert frame["role"].tolist() == ["", "gate", ""]
    assert frame["multiplies"].tolist() == ["", "2.up", ""]


class Attention(nn.Module):
    """Attention that is written out; `squash` are the weights of a product of queries and keys."""

    def __init__(self, squash: Callable[[Tensor], Tensor], *, letters: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self.out, self.squash, self.letters = (
            nn.Linear(8, 24),
            nn.Linear(8, 8),
            squash,
            letters,
        )

    def forward(self, x: Tensor) -> Any:
        shape = (*x.shape[:2], 2, 4)
        q, k, v = (one.view(shape).transpose(1, 2) for one in self.qkv(x).chunk(3, -1))
        if self.letters:
            scores = torch.einsum("b h i d, b h j d -> b h i j", q, k)
            mixed = torch.einsum("bhij,bhjd->bhid", self.squash(scores / 2), v)
        else:
            mixed = self.squash(q @ k.transpose(-2, -1) / 2) @ v
        return self.out(torch.tanh(mixed).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("letters", [False, True])
def test_activations_of_attention_maps_are_tagged(letters: bool) -> None:
    mask = torch.zeros(5, 5)
    for squash, kinds in (
        (lambda s: torch.sigmoid(s + mask), ["sigmoid"]),
        (lambda s: F.relu(s.masked_fill(mask > 0, 0.0)), ["relu"]),
        (lambda s: torch.softmax(5 * torch.tanh(s / 5), -1), ["tanh", "softmax"]),
    ):
        found = roles(Attention(squash, letters=letters), TOKENS, activations="all")
        expected = [(kind, "attention map", "") for kind in kinds]
        assert found == [*expected, ("tanh", "", "")]  # of weights times values


def test_transformers_gates_and_soft_caps() -> None:
    torchvision_models()
    transformers = pytest.importorskip("transformers")
    sizes = {
        "vocab_size": 50,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 4,
    }
    ids = {"input_ids": torch.arange(48 * 5).reshape(48, 5) * 7 % 50}
    llama = transformers.LlamaModel(transformers.LlamaConfig(**sizes)).eval()
    up = "layers.0.mlp.up_proj"
    assert roles(llama, ids) == [("silu", "gate", up)]
    (unit,) = sites(llama, ids, gates="unit")
    assert (unit.path, unit.kind, unit.dim) == ("layers.0.mlp", "silu_gate", 24)
    config = transformers.Gemma2Config(**sizes, attn_implementation="eager")
    gemma = transformers.Gemma2Model(config).eval()
    assert roles(gemma, ids) == [("tanh", "attention map", ""), ("gelu", "gate", up)]


def test_recurrent_layers_stay_unseen() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.act = nn.LSTM(8, 8, batch_first=True), nn.Tanh()

        def forward(self, x: Tensor) -> Any:
            return self.act(self.lstm(x)[0])

    found = sg.signature(Recurrent(), TOKENS, gates="unit", progress=False)
    assert [(site.kind, site.role) for site in found] == [("tanh", "")]
    assert any("fused kernel" in note for note in found.coverage.notes)


def test_a_recurrent_cell_that_is_written_out_has_gates() -> None:
    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.Linear(8, 24)

        def forward(self, x: Tensor) -> Any:
            i, g, o = self.layer(x).chunk(3, -1)
            state = torch.sigmoid(i) * torch.tanh(g)
            return torch.sigmoid(o) * torch.tanh(state)

    sequence = [("sigmoid", "gate"), ("tanh", ""), ("sigmoid", "gate"), ("tanh", "")]
    assert [(kind, role) for kind, role, _ in roles(Cell())] == sequence
