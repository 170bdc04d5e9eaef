"""Data that cannot be used, data that is used in part, and data that a network overwrites."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.linearize import CRITERIA, Elements, LossRise, apply, fold, plan, tune

CLASSES = 3


class Scaled(nn.Module):
    """A network that scales its input, in place or not, before its two activations."""

    def __init__(self, *, inplace: bool) -> None:
        super().__init__()
        self.inplace = inplace
        self.one, self.two, self.head = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x.mul_(0.5).add_(1) if self.inplace else 0.5 * x + 1
        return self.head(F.relu(self.two(F.relu(self.one(x)))))


class Logarithm(nn.Module):
    """A network with an activation whose input is infinite where x has a zero, and two others."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(x.square().log())
        return F.softplus(self.two(F.relu(self.one(gate * x))))


def pair(*, inplace: bool) -> Scaled:
    torch.manual_seed(0)
    return Scaled(inplace=inplace).double()


def samples(n: int = 96) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n, 4, generator=generator, dtype=torch.float64)
    return x, torch.arange(n) % CLASSES


def two_batches() -> list[tuple[Tensor, Tensor]]:
    return [*zip(*(torch.split(part, 48) for part in samples()), strict=True)]


def numbers_of(found: Any) -> list[tuple[float, ...]]:
    return [(site.value, site.fit, site.score) for site in found.sites]


@pytest.mark.parametrize("iterative", [False, True])
@pytest.mark.parametrize("by", ["affinity", "gradient", "oracle"])
def test_a_network_that_overwrites_its_input(by: str, iterative: bool) -> None:
    batches = two_batches()
    before = copy.deepcopy(batches)
    wanted = plan(pair(inplace=False), two_batches(), budget=2, by=by, iterative=iterative)
    found = plan(pair(inplace=True), batches, budget=2, by=by, iterative=iterative)
    assert numbers_of(found) == numbers_of(wanted)
    assert all(torch.equal(one[0], other[0]) for one, other in zip(batches, before, strict=True))
    x = samples()[0]  # negative control: the input of a plain call is another one afterwards
    pair(inplace=True)(x)
    assert not torch.equal(x, samples()[0])


@pytest.mark.parametrize("form", ["tensors", "batches"])
def test_tuning_and_folding_one_that_overwrites_its_input(form: str) -> None:
    results = []
    for inplace in (False, True):
        network = pair(inplace=inplace)
        batches: Any = samples() if form == "tensors" else two_batches()
        before = copy.deepcopy(batches)
        shorter = apply(network, plan(network, batches, budget=1))
        tuned = tune(shorter, batches, teacher=network, held_out=[samples()], epochs=2, batch=48)
        example = samples(4)[0]
        folded = fold(shorter.eval(), example, keep="all")
        assert torch.equal(example, samples(4)[0])
        results.append((tuned.losses, tuned.accuracies, folded.merges, folded.error < 1e-9))
        pairs = zip(batches, before, strict=True)
        assert all(torch.equal(one[0], other[0]) for one, other in pairs)
    assert results[0] == results[1]
    assert results[0][2]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("maps", ["channel", "full", "identity"])
@pytest.mark.parametrize("iterative", [False, True])
def test_values_that_are_not_finite(bad: float, maps: Any, iterative: bool) -> None:
    x, labels = samples()
    x[3, 1] = bad
    network = pair(inplace=False)
    for by in CRITERIA:
        with pytest.raises(InputError, match=r"no map can be fitted: .* NaN or infinite"):
            plan(network, (x, labels), budget=1, by=by, maps=maps, iterative=iterative)


@pytest.mark.parametrize("iterative", [False, True])
def test_a_call_that_is_not_finite_is_kept(iterative: bool) -> None:
    torch.manual_seed(0)
    network = Logarithm().double()
    x, labels = samples()
    assert len(plan(network, (x, labels), budget=3, by="r2", iterative=iterative).chosen) == 3
    x[3, 1] = 0.0
    found = plan(network, (x, labels), budget=2, by="early", iterative=iterative)
    [kept] = [site for site in found.sites if not site.chosen]
    assert kept.kind == "sigmoid"
    assert "NaN or infinite" in kept.reason
    assert f"{kept.name} stays: its input or output has NaN" in str(found)
    assert apply(network, found)(x).isfinite().all()
    for budget in (3, Elements(1.0)):
        with pytest.raises(OptionError, match="that can be replaced"):
            plan(network, (x, labels), budget=budget, by="early", iterative=iterative)
    everything = LossRise(1e6, (x, labels))
    found = plan(network, (x, labels), budget=everything, by="early", iterative=iterative)
    assert len(found.chosen) == 2


@pytest.mark.parametrize("by", ["affinity", "oracle", "gradient"])
def test_batches_without_samples_are_left_out(by: str) -> None:
    x, labels = samples()
    network, nothing = pair(inplace=False), (x[:0], labels[:0])
    wanted = plan(network, [(x, labels)], budget=1, by=by)
    for batches in ([nothing, (x, labels)], [(x, labels), nothing]):
        assert numbers_of(plan(network, batches, budget=1, by=by)) == numbers_of(wanted)
    for batches in (nothing, [nothing, nothing]):
        with pytest.raises(InputError, match="holds no sample"):
            plan(network, batches, budget=1, by=by)
    budget = LossRise(1e6, [(x, labels), nothing])
    assert len(plan(network, (x, labels), budget=budget).chosen) == 2


def test_a_loss_that_is_not_finite_is_named() -> None:
    x, labels = samples()
    worse = x.clone()
    worse[0] = float("nan")
    network = pair(inplace=False)
    with pytest.raises(InputError, match="loss of the network on the held-out batches is nan"):
        plan(network, (x, labels), budget=LossRise(1.0, (worse, labels)))

    def infinite(outputs: Tensor, labels: Tensor) -> Tensor:
        return outputs.sum() / 0

    with pytest.raises(InputError, match="loss of the network on the batches is"):
        plan(network, (x, labels), budget=1, by="oracle", loss=infinite)
    with pytest.raises(InputError, match=r"diverged in epoch 1: .* data with NaN"):
        tune(network, (worse, labels), epochs=1)


def test_a_loss_of_every_sample_is_named() -> None:
    def each(outputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(outputs, labels, reduction="none")

    with pytest.raises(InputTypeError, match=r"the mean over the batch, got .* \[96\]"):
        plan(pair(inplace=False), samples(), budget=1, by="oracle", loss=each)
