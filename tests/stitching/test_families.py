"""The layers: the published numbers, and laws that every row of the table obeys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import sigmascope as sg
from sigmascope.stitching.families import FAMILIES, Moments, sparsity
from sigmascope.stitching.layer import Stitch, act, as_matrix, style_of
from sigmascope.stitching.permutations import sort_permutation
from sigmascope.stitching.settings import Settings
from sigmascope.symmetry.monomial import Monomial

GOLDEN = dict(np.load(Path(__file__).parents[1] / "golden" / "symmetry_stitching.npz"))


def golden(key: str) -> Tensor:
    return torch.from_numpy(np.asarray(GOLDEN[key]))


def layer(family: str, values: dict[str, Tensor], style: str = "conv", **settings: Any) -> Stitch:
    channels = next(iter(values.values())).shape[-1]
    made = Stitch(family, channels, style, settings=Settings(**settings)).double()
    with torch.no_grad():
        for name, value in values.items():
            made.values[name].copy_(value)
    return made


def close(one: Tensor, two: Tensor) -> None:
    torch.testing.assert_close(one, two, atol=1e-12, rtol=0)


@pytest.mark.parametrize("style", ["conv", "linear"])
@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("scaled", [True, False])
def test_relu_group(style: str, mode: str, scaled: bool) -> None:
    values = {
        "permutation": golden("birkhoff__weight_perms"),
        "scales": golden("birkhoff__weight_scalars"),
    }
    made = layer("relu-group", values, style).train(mode == "train")
    made.scaled = scaled
    x = golden("birkhoff__x_conv" if style == "conv" else "birkhoff__x_lin")
    close(made(x), golden(f"birkhoff__{style}_{mode}_scalars{int(scaled)}"))


def test_relu_group_projects_as_published() -> None:
    made = layer(
        "relu-group",
        {"permutation": golden("birkhoff__pert_perms"), "scales": golden("birkhoff__pert_scalars")},
    )
    made.project()
    close(made.values["permutation"], golden("birkhoff__projected_perms"))
    close(made.values["scales"], golden("birkhoff__projected_scalars"))
    loose = layer("relu-group", {"permutation": golden("birkhoff__pert_perms")}, projection="none")
    loose.project()
    close(loose.values["permutation"], golden("birkhoff__pert_perms").clamp_min(0))


def test_relu_group_terms() -> None:
    values = {"permutation": golden("birkhoff__pert_perms")}
    for place, settings in enumerate(
        [{}, {"regularizer": "rms"}, {"regularizer": "scaled"}, {"projection": "none"}]
    ):
        term = layer("relu-group", values, **settings).term()
        assert term is not None
        close(term.detach(), golden("birkhoff__regularization")[place])


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_softsort(mode: str) -> None:
    values = {
        "scores": golden("wreath__scores").flatten(),
        "log_scales": golden("wreath__log_scalars"),
    }
    made = layer("softsort", values).train(mode == "train")
    close(made(golden("wreath__x")), golden(f"wreath__{mode}"))
    made.scaled = False
    if mode == "eval":
        assert torch.equal(made.matrix(exact=True), golden("wreath__P"))


def test_softsort_weighs_as_it_is_told() -> None:
    scores = golden("softsort__s").flatten()
    for weighing in ("softmax", "inverse"):
        made = layer(
            "softsort",
            {"scores": scores, "log_scales": torch.zeros(len(scores))},
            weighing=weighing,
        )
        close(
            made.matrix(exact=False).detach(),
            golden(f"softsort__tau1.0_norm1_exp{int(weighing == 'inverse')}"),
        )
        assert torch.equal(made.matrix(exact=True), sort_permutation(scores))


def test_relu_group_rounds_as_it_is_told() -> None:
    values = {
        "permutation": golden("birkhoff__weight_perms"),
        "weights": golden("birkhoff__monotone_v"),
    }
    made = layer("relu-group", values, rounding="monotone")
    assert torch.equal(made.matrix(exact=True), golden("birkhoff__P_monotone"))
    del values["weights"]
    assert torch.equal(
        layer("relu-group", values).matrix(exact=True), golden("birkhoff__P_hungarian")
    )


def test_weights_of_rounding_are_drawn_once_and_not_trained() -> None:
    one, two, other = (
        Stitch("relu-group", 9, "conv", settings=Settings(rounding="monotone"), seed=s)
        for s in (0, 0, 1)
    )
    weights = one.values["weights"]
    assert not weights.requires_grad
    assert torch.equal(weights, weights.sort().values)
    assert 0 <= float(weights.min()) < float(weights.max()) < 1
    assert torch.equal(weights, two.values["weights"])
    assert not torch.equal(weights, other.values["weights"])
    plain = Stitch("relu-group", 9, "conv")
    assert set(plain.values) == {"permutation", "scales"}
    assert torch.equal(plain.values["permutation"], one.values["permutation"])


def test_beta_weighs_the_sums() -> None:
    values = {"permutation": golden("birkhoff__pert_perms")}
    free, usual, twice = (
        layer("relu-group", values, projection="none", beta=beta).term()
        for beta in (0.0, 0.01, 0.02)
    )
    assert free is not None
    assert usual is not None
    assert twice is not None
    close((twice - free).detach(), 2 * (usual - free).detach())
    close(usual.detach(), golden("birkhoff__regularization")[3])
    assert float(usual.detach()) > float(free.detach())


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_lasso(mode: str) -> None:
    made = layer("lasso", {"weight": golden("lasso__W")}, strength=0.01).train(mode == "train")
    close(made(golden("lasso__x")), golden(f"lasso__{mode}"))
    term = made.term()
    assert term is not None
    close(term.detach(), golden("lasso__reg"))
    assert sparsity(golden("lasso__W")) == pytest.approx(float(golden("lasso__sparsity")))


def test_low_rank() -> None:
    values = {"up": golden("lowrank__l2").flatten(1), "down": golden("lowrank__l1").flatten(1)}
    made = Stitch("low-rank", 5, "conv", settings=Settings(rank=2)).double()
    with torch.no_grad():
        for name, value in values.items():
            made.values[name].copy_(value)
    close(made(golden("lasso__x")), golden("lowrank__y"))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_begins_within_itself(family: str) -> None:
    made = Stitch(family, 7, "conv", seed=3).double()
    exact = made.matrix(exact=True)
    assert exact.shape == (7, 7)
    if FAMILIES[family].monomial:
        assert sg.symmetry.group("relu").contains(exact.detach())
        assert sparsity(exact) == pytest.approx(1 - 1 / 7)
    if family == "low-rank":
        assert int(torch.linalg.matrix_rank(exact)) == 1
    before = {name: value.clone() for name, value in made.values.items()}
    made.project()
    for name, value in made.values.items():
        torch.testing.assert_close(value, before[name], atol=1e-6, rtol=0)
    again = Stitch(family, 7, "conv", seed=3).double()
    assert torch.equal(again.matrix(exact=True), exact)
    x = torch.randn(2, 7, 3, 3, dtype=torch.float64)
    close(made.eval()(x), torch.einsum("oc,nchw->nohw", exact, x))


@pytest.mark.parametrize("family", ["relu-group", "lasso", "softsort"])
def test_no_matrix_outlives_its_parameters(family: str) -> None:
    """Loading other weights after an evaluation must change what is evaluated."""
    one, two = (Stitch(family, 6, "linear", seed=seed).eval() for seed in (0, 1))
    x = torch.randn(4, 6)
    first = one(x)
    one.load_state_dict(two.state_dict())
    assert torch.equal(one(x), two(x))
    assert not torch.equal(one(x), first)


def test_initial_bounds_are_those_of_convolutions() -> None:
    full = Stitch("full", 100, "conv").values["weight"].detach()
    assert 0.099 < float(full.abs().max()) <= 0.1
    low = Stitch("low-rank", 100, "conv", settings=Settings(rank=4))
    assert 0.09 < float(low.values["down"].detach().abs().max()) <= 0.1
    assert 0.49 < float(low.values["up"].detach().abs().max()) <= 0.5


def test_a_rank_above_the_channels_is_refused() -> None:
    with pytest.raises(
        sg.InputError, match="rank must be at most 4, the channels of the site, got 9"
    ):
        Stitch("low-rank", 4, "conv", settings=Settings(rank=9))


@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 3), (2, 5, 3, 4), (2, 5, 2, 3, 4)])
def test_styles(shape: tuple[int, ...]) -> None:
    matrix, x = torch.randn(5, 5, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)
    close(act(matrix, x, "conv"), torch.einsum("oc,nc...->no...", matrix, x))
    turned = x.movedim(1, -1).contiguous()
    close(act(matrix, turned, "linear"), torch.einsum("oc,n...c->n...o", matrix, turned))


def test_style_of() -> None:
    assert style_of((2, 3), "auto") == "linear"
    assert [style_of((2, 4, 3), "auto", axis) for axis in (1, 2)] == ["conv", "linear"]
    assert [style_of((2, 3, 4, 4), "auto", axis) for axis in (1, 3)] == ["conv", "linear"]
    for shape in ((2, 4, 3), (2, 3, 4, 4)):
        with pytest.raises(sg.OptionError, match=r"channel axis .* is unknown"):
            style_of(shape, "auto")
    with pytest.raises(sg.OptionError, match=r"channel axis .* is 2"):
        style_of((2, 3, 4, 4), "auto", 2)
    assert style_of((2, 3, 4), "conv") == "conv"
    with pytest.raises(sg.InputError, match="without channels"):
        style_of((2,), "auto")


def moments(x: Tensor, y: Tensor) -> Moments:
    return Moments(x.T @ x, x.T @ y, y.square().sum(dim=0))


def test_least_squares_finds_a_planted_matrix() -> None:
    x, planted = torch.randn(60, 5, dtype=torch.float64), torch.randn(5, 5, dtype=torch.float64)
    fit = FAMILIES["least-squares"].fit
    assert fit is not None
    torch.testing.assert_close(fit(moments(x, x @ planted.T)), planted)
    x[:, 2] = 0  # a dead channel leaves a choice; the smallest solution has zeros
    close(fit(moments(x, x @ planted.T))[:, 2], torch.zeros(5, dtype=torch.float64))


def test_procrustes_finds_a_planted_element() -> None:
    x = torch.rand(80, 6, dtype=torch.float64)
    planted = Monomial([2, 0, 1, 5, 4, 3], [0.5, 2, 3, 1, 0.1, 7])
    fit = FAMILIES["permutation"].fit
    assert fit is not None
    torch.testing.assert_close(fit(moments(x, planted.apply(x, 1))), planted.matrix())
    x[:, 4] = 0
    assert sg.symmetry.group("relu").contains(fit(moments(x, planted.apply(x, 1))))


def test_given_matrices_are_checked() -> None:
    assert torch.equal(
        as_matrix(Monomial([1, 0], [2.0, 3.0]), 2), torch.tensor([[0.0, 3.0], [2.0, 0.0]]).double()
    )
    with pytest.raises(sg.InputError, match=r"element must be \(3, 3\), .* got the shape \(2, 2\)"):
        as_matrix(torch.eye(2), 3)
    with pytest.raises(sg.InputError, match="not finite"):
        as_matrix(np.full((2, 2), np.inf), 2)


def test_unknown_names() -> None:
    with pytest.raises(
        sg.OptionError, match=r"family='lasoo' is not a valid choice\. Did you mean 'lasso'"
    ):
        Stitch("lasoo", 3, "conv")
    with pytest.raises(sg.OptionError, match="style='maps' is not a valid choice"):
        Stitch("full", 3, "maps")
