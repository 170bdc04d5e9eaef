"""Plans: fits, criteria, budgets, files, and what bad input gets."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.errors import (
    FileFormatError,
    GradientError,
    InputError,
    InputTypeError,
    NetworkError,
    NoActivationError,
    OptionError,
)
from sigmascope.linearize import CRITERIA, Criterion, Elements, Evidence, LossRise, Plan
from sigmascope.linearize.budgets import parse_budget
from tests.linearize.small import Functions, Modules, Residual, Reusing, built, images


def labelled(n: int = 48, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    x = images(n, seed).double()
    return [(x[: n // 3], torch.arange(n // 3) % 4), (x[n // 3 :], torch.arange(n - n // 3) % 4)]


def plan_of(network: nn.Module, batches: Any = None, **options: Any) -> Plan:
    options = {"budget": 1, "by": "r2", "scores": False, **options}
    return sg.linearize.plan(network, labelled() if batches is None else batches, **options)


@pytest.mark.parametrize("by", CRITERIA)
@pytest.mark.parametrize("has_tokens", [True, False])
def test_criteria_that_fail_on_tokens_have_a_note(by: str, has_tokens: bool) -> None:
    network = nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 6), nn.GELU())
    x = torch.randn(48, 5, 6, generator=torch.Generator().manual_seed(0))
    if not has_tokens:
        x = x.flatten(0, 1)
    found = plan_of(network, [(x, torch.zeros_like(x))], by=by, loss=F.mse_loss)
    local = by in ("affinity", "pooled", "r2", "positive")
    assert ("have their channels last" in str(found)) is (local and has_tokens)
    assert "channels last" not in str(dataclasses.replace(found, maps="identity"))


def outputs_as_labels(network: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """Batches on which the squared error of the network is 0, and that of any other is not."""
    return [
        (images(24, seed).double(), network(images(24, seed).double()).detach()) for seed in (3, 4)
    ]


def pairs(network: nn.Module, site: str) -> tuple[np.ndarray, np.ndarray]:
    """The inputs and outputs of a site over all batches, every position a row."""
    kept: list[tuple[Tensor, Tensor]] = []

    def observe(call: Any, x: Tensor) -> Any:
        before = x.clone()
        return lambda y: kept.append((before, y.clone())) if call.name == site else None

    for x, _ in labelled():
        with sg.recording(network, observe, fuse=False), torch.no_grad():
            network(x)
    rows = [torch.cat([pair[i].movedim(1, -1).flatten(0, -2) for pair in kept]) for i in (0, 1)]
    return rows[0].numpy(), rows[1].numpy()


@pytest.mark.parametrize("kind", [Modules, Functions, Reusing, Residual])
def test_fits_equal_least_squares(kind: type[nn.Module]) -> None:
    network = built(kind)
    channel, full = (plan_of(network, budget=1.0, maps=maps) for maps in ("channel", "full"))
    for site in channel.sites:
        x, y = pairs(network, site.name)
        scale, shift = channel.values_of(site)
        for c in range(site.channels):
            design = np.stack([x[:, c], np.ones(len(x))], axis=1)
            wanted = np.linalg.lstsq(design, y[:, c], rcond=None)[0]
            np.testing.assert_allclose([scale[c], shift[c]], wanted, atol=1e-10)
        error = y - (x * scale.numpy() + shift.numpy())
        assert site.fit == pytest.approx(1 - error.var(0).sum() / y.var(0).sum(), abs=1e-9)
    for site in full.sites:
        x, y = pairs(network, site.name)
        wanted = np.linalg.lstsq(np.hstack([x, np.ones((len(x), 1))]), y, rcond=None)[0]
        weight, shift = full.values_of(site)
        np.testing.assert_allclose(weight, wanted[:-1].T, atol=1e-8)
        np.testing.assert_allclose(shift, wanted[-1], atol=1e-8)
        error = y - (x @ weight.numpy().T + shift.numpy())
        assert site.fit == pytest.approx(1 - error.var(0).sum() / y.var(0).sum(), abs=1e-9)


def test_dead_and_constant_channels_become_constants() -> None:
    network: Any = built(Modules)
    with torch.no_grad():
        network.one.bias[0] = -1000.0  # always negative
        network.one.weight[1], network.one.bias[1] = 0.0, 2.5  # constant
    for maps in ("channel", "full"):
        plan = plan_of(network, maps=maps, sites="act1")
        factor, shift = plan.values_of(plan.sites[0])
        assert factor[0].abs().max() < 1e-9
        made = sg.linearize.apply(network, plan)
        hidden = made.act1(network.one(labelled()[0][0]))
        torch.testing.assert_close(hidden[:, 0], torch.zeros_like(hidden[:, 0]))
        torch.testing.assert_close(hidden[:, 1], torch.full_like(hidden[:, 1], 2.5))
        assert shift.isfinite().all()


def test_full_maps_of_dependent_channels_have_the_smallest_norm() -> None:
    network: Any = built(Modules)
    with torch.no_grad():
        network.one.weight[1], network.one.bias[1] = network.one.weight[0], network.one.bias[0]
    plan = plan_of(network, maps="full", sites="act1")
    weight, _ = plan.values_of(plan.sites[0])
    assert weight.abs().max() < 10
    torch.testing.assert_close(weight[:, 0], weight[:, 1], atol=1e-6, rtol=1e-6)


def test_padding_does_not_count() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.layer = nn.Embedding(9, 6), nn.Linear(6, 6)
            self.act = nn.GELU()

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            return self.act(self.layer(self.embed(input_ids)))

    torch.manual_seed(0)
    network = Tokens().double()
    ids, mask = torch.randint(1, 9, (6, 5)), torch.ones(6, 5, dtype=torch.long)
    mask[::2, 3:] = 0
    one = plan_of(network, {"input_ids": ids, "attention_mask": mask})
    two = plan_of(network, {"input_ids": ids.where(mask == 1, 0), "attention_mask": mask})
    assert torch.equal(one.tensors["act.factor"], two.tensors["act.factor"])


# criteria


def test_affinity_and_pooled_are_the_population_scores() -> None:
    network = built(Residual)
    batches = [(x.repeat(4, 1, 1, 1), y.repeat(4)) for x, y in labelled(96)]
    for by, samples in (("affinity", "positions"), ("pooled", "batch")):
        plan = plan_of(network, batches, by=by, budget=2)
        found = sg.signature(
            network, batches, samples=samples, estimator="population", fuse=False, progress=False
        )
        assert [site.name for site in plan.sites] == [site.name for site in found.sites]
        assert [site.value for site in plan.sites] == [site.population for site in found.sites]
        order = sorted(found.sites, key=lambda site: -site.population)
        assert [site.name for site in plan.chosen] == [site.name for site in order[:2]]
    shown = sg.linearize.plan(network, batches, budget=1)
    assert all(site.low <= site.score <= site.high for site in shown.sites)


def test_oracle_is_the_rise_of_the_loss_one_at_a_time() -> None:
    network = built(Residual)
    plan = plan_of(network, by="oracle", budget=1.0)
    x = torch.cat([x for x, _ in labelled()])
    labels = torch.cat([labels for _, labels in labelled()])
    before = F.cross_entropy(network(x), labels).item()
    for site in plan.sites:
        sites = [dataclasses.replace(one, chosen=one is site) for one in plan.sites]
        made = sg.linearize.apply(network, dataclasses.replace(plan, sites=tuple(sites)))
        rise = F.cross_entropy(made(x), labels).item() - before
        assert site.value == pytest.approx(rise, abs=1e-12)
    values = [site.value for site in plan.ranking]
    assert values == sorted(values)


@pytest.mark.parametrize("kind", [Modules, Functions, Reusing])
def test_gradient_weighs_the_error_of_the_fit(kind: type[nn.Module]) -> None:
    network: Any = built(kind)
    plan = plan_of(network, by="gradient", budget=2)
    total, count = np.zeros(2), 0
    for x, labels in labelled():
        inputs = [network.one(x)]
        outputs = [inputs[0].relu()]
        inputs.append(network.two(outputs[0]))
        outputs.append(inputs[1].relu())
        logits = network.head(outputs[1].mean((2, 3)))
        loss = F.cross_entropy(logits, labels, reduction="sum")
        gradients = torch.autograd.grad(loss, outputs)
        for i, site in enumerate(plan.sites):
            scale, shift = (one[:, None, None] for one in plan.values_of(site))
            error = scale * inputs[i] + shift - outputs[i]
            total[i] += (gradients[i] * error).sum((1, 2, 3)).abs().sum().item()
        count += len(x)
    np.testing.assert_allclose([site.value for site in plan.sites], total / count)
    assert all(parameter.grad is None for parameter in network.parameters())


class OverTokens(nn.Module):
    """Many tokens and a mean: gradients of the mean over a large batch vanish in float16."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act = nn.Linear(8, 8), nn.GELU()
        self.head = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 10))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.act(self.first(x)).mean(1))
        return y


def test_gradient_does_not_depend_on_precision_and_batches() -> None:
    torch.manual_seed(0)
    network, found = OverTokens(), list[float]()
    x, labels = torch.randn(256, 1024, 8), torch.randint(0, 10, (256,))
    for dtype, size in itertools.product((torch.float32, torch.float16, torch.bfloat16), (16, 256)):
        batches = list(zip(x.to(dtype).split(size), labels.split(size), strict=True))
        plan = plan_of(copy.deepcopy(network).to(dtype), batches, by="gradient")
        found.append(next(site.value for site in plan.sites if site.name == "act"))
    np.testing.assert_allclose(found, found[0], rtol=0.03)


def test_gradient_works_for_frozen_networks_and_in_place() -> None:
    network = built(Residual)
    expected = [site.value for site in plan_of(network, by="gradient").sites]
    network.requires_grad_(False)
    assert [site.value for site in plan_of(network, by="gradient").sites] == expected
    assert not any(parameter.requires_grad for parameter in network.parameters())
    # what comes out of a ReLU is the same behind a leaky one
    kinds = [site.kind for site in plan_of(network).sites]
    assert [value > 0 for value in expected] == [kind != "leaky_relu" for kind in kinds]


def test_entropy_and_positive_count_signs() -> None:
    network = built(Functions)
    found = {by: plan_of(network, by=by) for by in ("entropy", "positive")}
    for place, site in enumerate(found["entropy"].sites):
        x, _ = pairs(network, site.name)
        share = (x > 0).mean(axis=0)
        entropy = -(share * np.log(share) + (1 - share) * np.log(1 - share)).mean()
        assert site.value == pytest.approx(entropy)
        assert found["positive"].sites[place].value == pytest.approx(share.mean())


def test_depth_early_and_random() -> None:
    network = built(Residual)
    names = [site.name for site in plan_of(network).sites]
    late = [site.name for site in plan_of(network, by="depth", budget=1.0).ranking]
    early = [site.name for site in plan_of(network, by="early", budget=1.0).ranking]
    assert (late, early) == (names[::-1], names)
    draws = [
        [site.name for site in plan_of(network, by="random", budget=1.0, seed=seed).ranking]
        for seed in (0, 0, 1)
    ]
    assert draws[0] == draws[1] != draws[2]


def test_a_criterion_of_ones_own() -> None:
    network = built(Modules)

    def width(evidence: Evidence) -> list[float]:
        return [call.channels for call in evidence.calls]

    assert [site.name for site in plan_of(network, by=width).chosen] == ["act2"]
    widest = Criterion(width, highest_first=True, meaning="channels")
    plan = plan_of(network, by=widest)
    assert [site.name for site in plan.chosen] == ["act1"]
    assert "width: channels" in repr(plan)
    with pytest.raises(OptionError, match="returned 1 numbers for 2 activation calls"):
        plan_of(network, by=lambda _: [1.0])
    with pytest.raises(OptionError, match="did not return numbers"):
        plan_of(network, by=lambda evidence: ["a", "b"])


@pytest.mark.parametrize("by", [name for name, row in CRITERIA.items() if row.needs_labels])
def test_labels_that_are_needed_and_missing(by: str) -> None:
    with pytest.raises(InputError, match=f"by='{by}' needs labels. Pass batches"):
        plan_of(built(Modules), images().double(), by=by)


# budgets


def test_budgets() -> None:
    network = built(Residual)
    plan = plan_of(network, budget=4)
    assert len(plan.chosen) == 4
    assert plan.chosen == plan.ranking[:4]
    assert len(plan_of(network, budget=0.55).chosen) == 5
    assert len(plan_of(network, budget=0.01).chosen) == 1
    some = plan_of(network, budget=Elements(0.25))
    gone = np.cumsum([site.elements for site in some.ranking])
    assert len(some.chosen) == 1 + int((gone < 0.25 * some.elements).sum())
    assert some.saved >= 0.25 * some.elements
    assert plan_of(network, budget=Elements(10)).saved >= 10
    assert [site.elements for site in plan.sites] == [6 * 25] * 10


def test_another_budget_needs_no_data() -> None:
    network = built(Residual)
    plan = plan_of(network, budget=2)
    for budget in (1, 5, 0.5, Elements(0.3)):
        other, measured = plan.with_budget(budget), plan_of(network, budget=budget)
        assert other.sites == measured.sites
        assert other.budget == measured.budget
    with pytest.raises(OptionError, match="budget=11 is more than the 10 activation sites"):
        plan.with_budget(11)
    with pytest.raises(OptionError, match="budget of loss needs the network"):
        plan.with_budget(LossRise(0.1, labelled()))


def test_a_rise_of_the_loss_is_kept_on_held_out_batches() -> None:
    network, held_out = built(Residual), labelled(seed=5)

    def loss(network: nn.Module) -> float:
        return sum(len(x) * F.cross_entropy(network(x), y).item() for x, y in held_out) / 48

    every = plan_of(network, by="oracle", budget=1.0)
    losses = [
        loss(sg.linearize.apply(network, every.with_budget(count))) - loss(network)
        for count in range(1, 11)
    ]
    allowed = sorted(losses)[5]
    plan = plan_of(network, by="oracle", budget=LossRise(allowed, held_out))
    first_above = next((i for i, rise in enumerate(losses) if rise > allowed + 1e-12), 10)
    assert len(plan.chosen) == first_above
    assert "loss + " in repr(plan)
    own = outputs_as_labels(network)
    with pytest.raises(OptionError, match=r"be met: the loss rises by .* when .* is replaced, the"):
        plan_of(network, by="early", budget=LossRise(1e-9, own), loss=F.mse_loss)
    with pytest.raises(InputError, match="needs held-out batches"):
        plan_of(network, budget=LossRise(0.1, None))
    with pytest.raises(InputError, match="have no labels"):
        plan_of(network, budget=LossRise(0.1, images().double()))


@pytest.mark.parametrize(
    ("budget", "match"),
    [
        (0, "whole number >= 1"),
        (-1, "whole number >= 1"),
        (1.5, "share above 0 and at most 1"),
        (float("nan"), "share above 0"),
        (True, "is not valid. Pass a number of sites"),
        ("8", "is not valid. Pass a number of sites"),
        (None, "is not valid"),
        (3, "more than the 2 activation sites that can be replaced. Pass at most 2"),
        (Elements(10**9), "asks for 1,000,000,000 elements, but the 2 sites"),
    ],
)
def test_budgets_that_cannot_be(budget: Any, match: str) -> None:
    with pytest.raises(OptionError, match=match):
        plan_of(built(Modules), budget=budget)


def test_budgets_as_text() -> None:
    assert parse_budget("8") == 8
    assert parse_budget("50%") == 0.5
    assert parse_budget("0.5") == 0.5
    assert parse_budget("4096 elements") == Elements(4096)
    assert parse_budget("loss+0.02", [1]) == LossRise(0.02, [1])
    for text in ("", "eight", "8 sites or so", "loss", "loss+", "-1", "200%"):
        with pytest.raises(OptionError, match=r"budget|Elements"):
            parse_budget(text)


# measuring again


def first_pair(network: nn.Module) -> tuple[Tensor, Tensor]:
    """The inputs and outputs (c, n) of the first activation over all batches."""
    seen: list[list[Tensor]] = []

    def observe(call: Any, x: Tensor) -> Any:
        before = x.clone()
        return lambda y: seen.append([before, y.clone()])

    found = []
    for x, _ in labelled():
        seen.clear()
        with sg.recording(network, observe, fuse=False), torch.no_grad():
            network(x)
        found.append(seen[0])
    x, y = (torch.cat(parts).movedim(1, 0).flatten(1) for parts in zip(*found, strict=True))
    return x, y


@pytest.mark.parametrize("kind", [Residual, Functions, Reusing])
def test_iterative_plans_fit_later_maps_on_what_is_already_replaced(kind: type[nn.Module]) -> None:
    network = built(kind)
    count = len(plan_of(network).sites)
    plan = plan_of(network, budget=count, iterative=True, by="early")
    for number, site in enumerate(plan.ranking, start=1):
        sites = [dataclasses.replace(one, chosen=0 < one.rank < number) for one in plan.sites]
        made = sg.linearize.apply(network, dataclasses.replace(plan, sites=tuple(sites)))
        x, y = first_pair(made)  # by="early", the next site is the first that is left
        centered = x - x.mean(1, keepdim=True)
        scale = (centered * y).sum(1) / centered.square().sum(1)
        torch.testing.assert_close(plan.tensors[f"{site.name}.factor"], scale)
    assert [site.rank for site in plan.sites] == list(range(1, count + 1))


def test_a_share_of_an_iterative_plan_is_of_all_sites() -> None:
    network = built(Residual)  # of 10 sites
    plan = plan_of(network, budget=0.6, iterative=True, step=6)
    assert len(plan.chosen) == len(plan.with_budget(0.6).chosen) == 6
    assert len(plan.with_budget(0.3).chosen) == 3
    with pytest.raises(OptionError, match="budget=8 is more than the 6 activation sites"):
        plan.with_budget(0.8)
    some = plan_of(network, budget=0.5, sites="gelu", iterative=True)  # which are 3
    assert len(some.chosen) == len(some.with_budget(0.5).chosen) == 1


def test_iterative_plans_rank_again() -> None:
    network = built(Residual)
    single = plan_of(network, budget=6, by="oracle")
    for step in (1, 2, 6):
        plan = plan_of(network, budget=6, by="oracle", iterative=True, step=step)
        assert len(plan.chosen) == len(plan.ranking) == 6
        first = [site.name for site in plan.ranking[:step]]
        assert first == [site.name for site in single.ranking[:step]]
        sg.linearize.apply(network, plan)
    smaller = plan.with_budget(3)
    assert [site.name for site in smaller.chosen] == [site.name for site in plan.ranking[:3]]
    with pytest.raises(OptionError, match="more than the 6 activation sites"):
        plan.with_budget(7)
    some = plan_of(network, budget=Elements(0.35), iterative=True)
    assert len(some.chosen) == 4
    options = {"loss": F.mse_loss, "by": "oracle", "iterative": True}
    own = outputs_as_labels(network)
    every = plan_of(network, own, budget=10, **options)
    losses = [
        sum(F.mse_loss(made(x), y).item() for x, y in own) / len(own)
        for made in (sg.linearize.apply(network, every.with_budget(n)) for n in range(1, 11))
    ]
    assert losses[0] == pytest.approx(every.ranking[0].value)
    plan = plan_of(network, own, budget=LossRise(losses[4] * (1 + 1e-9), own), **options)
    assert len(plan.chosen) == next(n for n, loss in enumerate(losses) if loss > losses[4])


# what a plan is


def test_a_plan_shows_itself() -> None:
    network = built(Residual)
    batches = [(x.repeat(4, 1, 1, 1), y.repeat(4)) for x, y in labelled(96)]
    plan = sg.linearize.plan(network, batches, budget=3)
    text = repr(plan)
    assert text.startswith(
        "Residual: 3 of 10 activations become affine maps of each channel (budget: 3 sites; ranked "
        "by affinity)"
    )
    assert "saved: 3 of 10 activations, 450 of 1,500 elements per sample (30.0 %)" in text
    assert text.count(" yes ") == 3
    for site in plan.sites:
        assert site.name in text
        assert f"{site.score:.4f} [{site.low:.4f}, {site.high:.4f}]" in text
    frame = plan.to_frame()
    assert [*frame["replaced"]].count("yes") == 3
    assert "<table>" in plan._repr_html_()
    assert plan.inputs == (((128, 3, 7, 7), "float64"), ((128,), "int64"))
    assert plan.samples == 384


@pytest.mark.parametrize("maps", ["channel", "full", "identity"])
def test_files(tmp_path: Path, maps: Any) -> None:
    network = built(Residual)
    plan = plan_of(network, budget=4, maps=maps)
    again = Plan.load(plan.save(tmp_path / "plan.json"))
    assert repr(again) == repr(plan)
    assert again.sites == plan.sites or any(math.isnan(site.score) for site in plan.sites)
    x = images().double()
    made, remade = (sg.linearize.apply(network, one) for one in (plan, again))
    assert torch.equal(made(x), remade(x))
    assert (tmp_path / "plan.safetensors").exists()


def test_files_that_are_not_plans(tmp_path: Path) -> None:
    plan = plan_of(built(Modules))
    path = plan.save(tmp_path / "plan.json")
    torch_file = tmp_path / "plan.safetensors"
    other = dataclasses.replace(plan, tensors={"act1.factor": torch.ones(3)})
    other.save(tmp_path / "other.json")
    with pytest.raises(FileFormatError, match=r"no map for . channels of act"):
        Plan.load(tmp_path / "other.json")
    torch_file.write_bytes((tmp_path / "other.safetensors").read_bytes())
    with pytest.raises(FileFormatError, match="do not belong together"):
        Plan.load(path)
    torch_file.unlink()
    with pytest.raises(FileNotFoundError, match=r"plan.safetensors"):
        Plan.load(path)


# what bad input gets


def test_plans_of_another_network_are_refused() -> None:
    network: Any = built(Modules)
    plan = plan_of(network)
    with pytest.raises(NetworkError, match="another network: a Modules whose layers differ"):
        sg.linearize.apply(built(Residual), plan)
    with pytest.raises(NetworkError, match="other weights"):
        sg.linearize.apply(built(Modules, seed=1), plan)
    with pytest.raises(NetworkError, match="layers differ"):
        sg.linearize.apply(sg.linearize.apply(network, plan), plan)
    network.head.bias.data[0] += 1e-9
    with pytest.raises(NetworkError, match=r"other weights.*make a plan for these"):
        sg.linearize.apply(network, plan)
    with pytest.raises(InputTypeError, match="plan"):
        sg.linearize.apply(network, "plan.json")


def test_networks_in_training_mode_are_measured_in_evaluation_mode() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 4), nn.Tanh()
    ).double()
    x = torch.randn(64, 3, dtype=torch.float64)
    network(x)
    network[3].eval()
    flags = [module.training for module in network.modules()]
    before = copy.deepcopy(network.state_dict())
    plan = plan_of(network, x, budget=2)
    assert [module.training for module in network.modules()] == flags
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    made = sg.linearize.apply(network, plan)
    assert [module.training for module in made.modules()] == flags
    again = plan_of(copy.deepcopy(network).eval(), x, budget=2)
    assert torch.equal(plan.tensors["2.factor"], again.tensors["2.factor"])


def test_random_states_and_hooks_stay() -> None:
    network = built(Residual)
    called: list[int] = []
    handle = network.register_forward_hook(lambda *_: called.append(1))
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    plan = sg.linearize.plan(network, labelled(96), budget=1, by="gradient")
    assert torch.equal(torch.rand(1), expected)
    assert [*network._forward_hooks] == [handle.id]
    assert not any(module._forward_hooks for module in [*network.modules()][1:])
    made = sg.linearize.apply(network, plan)
    called.clear()
    made(images().double())
    assert called == [1]


class Half(nn.Module):
    """Not an activation that keeps shapes, and one that does."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.glu, self.act = nn.Linear(3, 8), nn.GLU(), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.glu(self.layer(x)))


def test_what_cannot_be_replaced_is_listed_with_the_reason() -> None:
    torch.manual_seed(0)
    network, x = Half().double(), torch.randn(32, 3, dtype=torch.float64)
    plan = plan_of(network, x, budget=1.0)
    assert [site.name for site in plan.chosen] == ["act"]
    assert "glu stays: it turns [32, 8] into [32, 4]" in repr(plan)
    with pytest.raises(OptionError, match="budget=2 is more than the 1 activation sites"):
        plan_of(network, x, budget=2)
    with pytest.raises(NoActivationError, match="no activation call of the network can be repl"):
        plan_of(network, x, sites="glu")
    with pytest.raises(NoActivationError, match="made no activation call"):
        plan_of(nn.Linear(3, 3).double(), x)
    with pytest.raises(NoActivationError, match="it is the whole network"):
        plan_of(nn.ReLU(), x)


def test_sites_are_patterns() -> None:
    plan = plan_of(built(Residual), budget=1.0, sites=["blocks.*.act", "leaky_relu"])
    assert {site.kind for site in plan.chosen} == {"relu", "leaky_relu"}
    assert all(site.name.startswith(("blocks.", "forward.")) for site in plan.chosen)
    assert "stays: not among sites=" in repr(plan)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"by": "affinty"}, OptionError, "Did you mean 'affinity'"),
        ({"by": 3}, OptionError, "by=3 is not a valid choice"),
        ({"maps": "matrix"}, OptionError, "maps='matrix' is not a valid choice"),
        ({"step": 0}, OptionError, "step"),
        ({"setp": 1}, OptionError, "option='setp' is not a valid choice"),
        ({"sites": 3}, InputTypeError, "sites must be a pattern"),
        ({"batches": []}, InputError, "holds no batch"),
        ({"batches": 3}, InputTypeError, "batches is a int"),
        ({"by": "affinity"}, InputError, "no value for 1 of the 1 sites.*Pass more batches"),
        ({"by": "oracle", "loss": lambda y, labels: y}, InputTypeError, "loss must return one"),
        (
            {"by": "gradient", "loss": lambda y, _: y.detach().mean()},
            GradientError,
            "the loss has no gradient",
        ),
        ({"batches": [(images().double(), ["a"])], "by": "oracle"}, InputTypeError, "Pass loss="),
        (
            {"batches": [(images().double(), torch.zeros(3, 2))], "by": "oracle"},
            InputError,
            "have no cross-entropy.*Pass loss=",
        ),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception], match: str) -> None:
    few = [(x[:2], y[:2]) for x, y in labelled()[:1]]
    default = few if options.get("by") == "affinity" else None
    options = dict(options)
    batches = options.pop("batches", default)
    with pytest.raises(error, match=match):
        plan_of(built(Modules), batches, **options)


def test_models_that_are_not_networks() -> None:
    with pytest.raises(InputTypeError, match=r"not a torch.nn.Module"):
        plan_of(nn.ReLU, images())
    with pytest.raises(InputError, match="meta device"):
        plan_of(built(Modules).to("meta"), images())


def test_iterators_are_read_once() -> None:
    network = built(Modules)

    def stream() -> Iterator[tuple[Tensor, Tensor]]:
        yield from labelled()

    once, listed = plan_of(network, stream(), by="oracle"), plan_of(network, by="oracle")
    assert [site.value for site in once.sites] == [site.value for site in listed.sites]


def test_names_are_public() -> None:
    assert {"plan", "apply", "Affine", "Plan"} <= {*sg.linearize.__all__}
