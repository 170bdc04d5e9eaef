"""A lasso by soft thresholding has the solutions of the l1 objective, with momentum too, and
reaches their zeros.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.stitching.layer import Stitch
from sigmascope.stitching.result import StitchResult
from sigmascope.stitching.settings import Settings, settings_for
from sigmascope.stitching.trainer import StitchTrainer
from tests.stitching.small import data, trained

STRENGTH = 0.3


def proximal(momentum: float, rate: float = 0.05, strength: float = STRENGTH) -> Settings:
    return Settings(shrinkage="proximal", momentum=momentum, rate=rate, strength=strength)


def descended(target: Tensor, settings: Settings, momentum: float, steps: int = 2000) -> Tensor:
    """Minimize half the squared distance to a target, each entry on its own, which is a lasso on an
    orthogonal design.
    """
    stitch = Stitch("lasso", len(target), "linear", settings=settings).double()
    weight = stitch.values["weight"]
    optimizer = torch.optim.SGD([weight], lr=settings.rate, momentum=momentum)
    for _ in range(steps):
        weight.grad = weight.detach() - target
        optimizer.step()
        stitch.project()
    return stitch.matrix(exact=True).detach()


def drawn(size: int) -> Tensor:
    return torch.randn(size, size, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_an_orthogonal_design_has_a_closed_form(momentum: float) -> None:
    target = drawn(6)
    expected = target.sign() * (target.abs() - STRENGTH).clamp_min(0)
    found = descended(target, proximal(momentum), momentum)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    assert torch.equal(found == 0, expected == 0)
    assert 0 < int((found == 0).sum()) < 36


def test_a_threshold_that_ignores_momentum_solves_another_problem() -> None:
    target = drawn(6)
    found = descended(target, proximal(0.0), momentum=0.9)
    weaker = target.sign() * (target.abs() - (1 - 0.9) * STRENGTH).clamp_min(0)
    torch.testing.assert_close(found, weaker, atol=1e-12, rtol=0)


def trainer(settings: Settings) -> StitchTrainer:
    torch.manual_seed(0)
    return StitchTrainer(
        Stitch("lasso", 5, "linear", settings=settings).double(),
        nn.Linear(5, 3).double(),
        "lasso",
        settings,
    )


def objective(one: StitchTrainer, x: Tensor, labels: Tensor) -> Tensor:
    weight = one.stitch.values["weight"]
    return F.cross_entropy(one.back(F.linear(x, weight)), labels) + 0.02 * weight.abs().sum()


def test_training_ends_where_the_l1_objective_is_stationary() -> None:
    source = torch.Generator().manual_seed(1)
    x = torch.randn(40, 5, generator=source, dtype=torch.float64)
    labels = torch.randint(3, (40,), generator=source)
    ours, theirs = (
        trainer(Settings(shrinkage=how, rate=rate, momentum=0.9, strength=0.02))
        for how, rate in (("proximal", 0.1), ("gradient", 0.01))
    )
    for _ in range(6000):
        ours.step((x,), labels)
        theirs.step((x,), labels)
    weight = ours.stitch.values["weight"]
    smooth = objective(ours, x, labels) - 0.02 * weight.abs().sum()
    [slope] = torch.autograd.grad(smooth, [weight])
    weight = weight.detach()
    zero = weight == 0
    assert 0 < int(zero.sum()) < 25
    assert float(slope[zero].abs().max()) <= 0.02
    torch.testing.assert_close(slope[~zero], -0.02 * weight[~zero].sign(), atol=1e-9, rtol=0)
    # A long run with the term in the loss comes near the same value from above, and has no zero.
    best, other = (float(objective(one, x, labels).detach()) for one in (ours, theirs))
    assert best < other < best + 1e-3
    assert int((theirs.stitch.values["weight"] == 0).sum()) == 0


def test_the_term_is_in_the_loss_or_the_step_never_in_both() -> None:
    for how in ("gradient", "proximal"):
        stitch = Stitch("lasso", 4, "linear", settings=Settings(shrinkage=how))
        before = stitch.values["weight"].detach().clone()
        stitch.project()
        assert (stitch.term() is None) == (how == "proximal")
        assert torch.equal(stitch.values["weight"], before) == (how == "gradient")


def test_what_is_not_finite_is_not_hidden() -> None:
    stitch = Stitch("lasso", 2, "linear", settings=proximal(0.9, rate=10.0, strength=1e38))
    with torch.no_grad():
        stitch.values["weight"].copy_(torch.tensor([[torch.nan, torch.inf], [1.0, -2.0]]))
    stitch.project()
    assert not stitch.values["weight"].isfinite()[0].any()
    assert stitch.values["weight"][1].tolist() == [0, 0]


def lasso(**changes: Any) -> StitchResult:
    given = {
        "at": "2",
        "data": data(),
        "preset": "fast",
        "batch": 64,
        "epochs": 4,
        "strength": 0.05,
        "progress": False,
    }
    return sg.stitch(trained(), trained(1), family="lasso", **{**given, **changes})


def test_zeros_come_out_without_a_threshold() -> None:
    exact = lasso()
    share = float((exact.matrix == 0).double().mean())
    assert 0.2 < share < 1
    assert not ((exact.matrix != 0) & (exact.matrix.abs() < 1e-12)).any()
    assert float((lasso(shrinkage="gradient").matrix == 0).double().mean()) < share
    assert float((lasso(strength=0.2).matrix == 0).double().mean()) > share


def test_only_the_fast_preset_does_it() -> None:
    assert [
        settings_for(preset, "lasso", {}).shrinkage for preset in ("paper", "as-run", "fast")
    ] == ["gradient", "gradient", "proximal"]
    assert settings_for("fast", "lasso", {}).rate == settings_for("fast", "full", {}).rate


def test_adam_does_not_tell_how_far_it_steps() -> None:
    with pytest.raises(
        sg.OptionError, match=r"shrinkage='proximal' needs .* optimizer='adam'.*'gradient'"
    ):
        lasso(optimizer="adam")
    assert lasso(optimizer="adam", shrinkage="gradient", epochs=1, rate=1e-3).notes == ()
