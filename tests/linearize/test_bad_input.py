"""What bad input gets: a named error or the right thing, never a silently different network."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.errors import InputError, NetworkError, OptionError
from sigmascope.linearize import Elements, LossRise, Plan, apply, fold, load, plan, save, tune
from sigmascope.linearize.result import KIND, VERSION
from sigmascope.store import read_json, write_json
from tests.linearize.small import Aliased, Block, Modules, Reusing, Shared, built, images, vectors


def planned(network: nn.Module, batches: Any, **options: Any) -> sg.linearize.Plan:
    return plan(network, batches, **{"budget": 1, "by": "r2", "scores": False, **options})


def labelled(network: nn.Module, x: Tensor) -> list[tuple[Tensor, Tensor]]:
    with torch.no_grad():
        return [(x, network(x).argmax(1))]


@pytest.mark.parametrize(
    ("budget", "match"),
    [
        (3, "budget=3 is more than the 2 activation sites that can be replaced. Pass at most 2"),
        (0, "budget must be a whole number >= 1"),
        (1.5, "share above 0 and at most 1"),
        (Elements(1000), "asks for 1,000 elements, but the 2 sites that can be replaced have 195"),
        (True, "budget=True is not valid"),
        ("8", "budget='8' is not valid"),
    ],
)
@pytest.mark.parametrize("iterative", [False, True])
def test_a_budget_that_cannot_be_met(budget: Any, match: str, iterative: bool) -> None:
    with pytest.raises(OptionError, match=match):
        planned(built(Modules), images().double(), budget=budget, iterative=iterative)


@pytest.mark.parametrize("iterative", [False, True])
def test_a_loss_that_rises_too_much_with_the_first_site(iterative: bool) -> None:
    network = built(Modules)
    x = images(200).double()
    own = [(x, network(x).detach())]
    with pytest.raises(OptionError, match=r"cannot be met: the loss rises by .*Pass a larger one"):
        planned(network, own, budget=LossRise(0.0, own), loss=F.mse_loss, iterative=iterative)


@pytest.mark.parametrize("by", ["gradient", "oracle"])
def test_no_labels_for_a_criterion_that_needs_them(by: str) -> None:
    with pytest.raises(InputError, match=f"by='{by}' needs labels.*by='affinity'"):
        planned(built(Modules), images().double(), by=by)
    with pytest.raises(InputError, match="have no labels, which are needed here"):
        planned(built(Modules), images().double(), budget=LossRise(1.0, images().double()))
    with pytest.raises(InputError, match="needs held-out batches"):
        planned(built(Modules), images().double(), budget=LossRise(1.0, None))


@pytest.mark.parametrize("kind", [Reusing, Shared])
@pytest.mark.parametrize("place", [0, 1])
def test_sites_that_share_a_module_with_sites_to_keep(kind: Any, place: int) -> None:
    network, x = built(kind), images().double()
    every = planned(network, x, budget=2)
    names = [site.name for site in every.sites]
    # one criterion after the other, so that either of the two goes first
    found = planned(network, x, by="early" if place == 0 else "depth")
    assert [site.name for site in found.chosen] == [names[place]]
    made = apply(network, found)
    calls = [site.kind for site in sg.signature(made, x, progress=False).sites]
    assert calls == ["relu"]
    acts: list[Any] = [F.relu, F.relu]
    factor, shift = found.values_of(found.chosen[0]) or (None, None)
    assert factor is not None
    assert shift is not None
    acts[place] = lambda x: x * factor.view(-1, 1, 1) + shift.view(-1, 1, 1)
    inner = acts[1](network.two(acts[0](network.one(x))))
    torch.testing.assert_close(made(x), network.head(inner.mean((2, 3))))


class Normed(nn.Module):
    """A network that computes something else in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.norm, self.drop = nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)
        self.act, self.two = nn.ReLU(), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.two(self.drop(self.act(self.norm(self.one(x)))))


def test_a_network_in_training_mode() -> None:
    network, x = built(Normed), vectors().double()
    for _ in range(20):
        network(x)
    still = copy.deepcopy(network).eval()
    found, wanted = planned(network.train(), x), planned(still, x)
    for name, value in wanted.tensors.items():
        assert torch.equal(found.tensors[name], value)
    made = apply(network, found)
    assert made.training
    with pytest.raises(NetworkError, match=r"is in training mode.*Call network\.eval\(\) first"):
        fold(made)
    torch.testing.assert_close(fold(made.eval(), keep="fewer").network(x), made(x))
    # a teacher in training mode teaches as in evaluation mode
    y = torch.zeros(len(x), dtype=torch.long)
    one, other = (
        tune(made, (x, y), teacher=teacher, epochs=1, batch=16).network
        for teacher in (network.train(), still)
    )
    assert network.training
    assert torch.equal(one.eval()(x), other.eval()(x))


def test_an_activation_whose_output_is_used_in_place() -> None:
    torch.manual_seed(0)
    network: Any = nn.Sequential(nn.Conv2d(3, 6, 1), Block()).double().eval()
    x = images().double()
    found = planned(network, x, budget=2)
    assert {site.name for site in found.chosen} == {site.name for site in found.sites}
    made = apply(network, found)
    maps = {site.kind: found.values_of(site) for site in found.sites}

    def act(kind: str, value: Tensor) -> Tensor:
        factor, shift = maps[kind]  # type: ignore[misc]
        return value * factor.view(-1, 1, 1) + shift.view(-1, 1, 1)

    block, stem = network[1], network[0](x)
    inner = act("gelu", block.conv(stem)) + stem
    torch.testing.assert_close(made(x), act("relu", inner))
    torch.testing.assert_close(fold(made, keep="all").network(x), made(x))
    # tuning needs the values that were overwritten
    batches = [(x, torch.zeros(len(x), 7, 7, dtype=torch.long))]
    tune(made, batches, epochs=1)


def test_an_input_that_is_read_again_after_it_was_overwritten() -> None:
    network, x = built(Aliased), vectors().double()
    found = planned(network, x)
    made: Any = apply(network, found)
    hidden = network.one(x)
    factor, shift = found.values_of(found.chosen[0]) or (None, None)
    assert factor is not None
    torch.testing.assert_close(made(x), network.two(2 * (hidden * factor + shift)))
    torch.testing.assert_close(fold(made.eval(), keep="all").network(x), made(x))


def test_a_plan_of_one_network_applied_to_another() -> None:
    network, x = built(Modules), images().double()
    found = planned(network, x)
    with pytest.raises(NetworkError, match="another network"):
        apply(built(Aliased), found)
    with pytest.raises(NetworkError, match="other weights"):
        apply(built(Modules, seed=1), found)
    made = apply(network, found)
    trained = tune(made, labelled(network, x), epochs=1, rate=0.1).network
    for other in (made, trained):
        with pytest.raises(NetworkError, match="another network"):
            apply(other, found)


class Choosing(nn.Module):
    """Networks of the same layers that compute different things."""

    def __init__(self, act: Any = F.relu, *, residual: bool = False, last: bool = True) -> None:
        super().__init__()
        self.one, self.two, self.head = nn.Linear(3, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        self.act, self.residual, self.last = act, residual, last

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.one(x))
        y = self.two(x)
        y = torch.tanh(y) if self.last else y
        return self.head(x + y if self.residual else y)


@pytest.mark.parametrize("other", [{"act": F.elu}, {"residual": True}, {"last": False}])
def test_one_with_the_same_layers_and_weights_that_computes_something_else(
    other: dict[str, Any], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    network, wrong = Choosing().double(), Choosing(**other).double()
    wrong.load_state_dict(network.state_dict())
    found = plan(network, vectors().double(), budget=2, by="depth")
    for one in (found, Plan.load(found.save(tmp_path / "plan.json"))):
        assert apply(copy.deepcopy(network), one)
        with pytest.raises(NetworkError, match="but computes something else"):
            apply(wrong, one)
    content: Any = read_json(tmp_path / "plan.json", KIND, VERSION)
    del content["outputs"]  # as version 0.2.0 wrote it, with which nothing can be compared
    write_json(tmp_path / "plan.json", KIND, VERSION, content)
    assert apply(wrong, Plan.load(tmp_path / "plan.json"))


class Noisy(nn.Module):
    """A network that returns something else whenever it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.one(x))
        return self.two(x + torch.randn_like(x))


def test_random_networks_are_not_taken_for_another(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = Noisy().double()
    found = plan(network, vectors().double(), budget=1)
    assert found.outputs == ()
    before = torch.get_rng_state()
    made = apply(network, found)
    assert made.two.weight.equal(network.two.weight)
    assert load(save(made, tmp_path, plan=found), network).two.weight.equal(network.two.weight)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("as_given", [lambda x: x, lambda x: (x, x), lambda x: x.numpy()])
def test_an_example_without_samples_is_refused(as_given: Any) -> None:
    network = nn.Sequential(nn.Linear(4, 2), nn.ReLU()).eval()
    with pytest.raises(InputError, match="the example holds no sample"):
        fold(network, as_given(torch.ones(0, 4)))


def test_a_teacher_that_does_not_fit_is_named() -> None:
    student = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = vectors()
    for teacher, match in (
        (nn.Linear(5, 2), r"teacher does not run on the batches .*same inputs as the network"),
        (nn.Linear(3, 7), r"the teacher returns \[40, 7\], the network \[40, 2\]"),
    ):
        with pytest.raises(InputError, match=match):
            tune(student, (x, torch.zeros(40).long()), teacher=teacher, epochs=1, progress=False)
