"""An activation that computes its own score: as the penalty does, also where it is compiled."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.errors import InputError, NoActivationError, OptionError


def pair(width: int = 8, **options: object) -> tuple[nn.Sequential, nn.Sequential]:
    """A network, and the same one with scored activations."""
    torch.manual_seed(0)
    plain = nn.Sequential(
        nn.Linear(4, width), nn.ReLU(inplace=True), nn.Linear(width, 8), nn.GELU()
    )
    scored = copy.deepcopy(plain)
    for number in (1, 3):
        scored[number] = sg.nn.Scored(scored[number], **options)
    return plain, scored


def batch(n: int = 64, seed: int = 0) -> Tensor:
    return torch.randn(n, 4, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("target", [None, 0.4])
def test_penalty_and_gradient_are_those_of_the_context(target: float | None) -> None:
    plain, scored = pair()
    penalty = sg.AffinityPenalty(plain, weight=0.3, target=target)
    with penalty:
        expected = plain(batch())
    assert torch.equal(scored(batch()), expected)
    value = sg.nn.affinity_penalty(scored, weight=0.3, target=target)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, penalty.value)
    value.backward()
    penalty.value.backward()
    for one, other in zip(scored.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_running_sums_are_those_of_the_context() -> None:
    plain, scored = pair(16)
    scored[1], scored[3] = sg.nn.Scored(nn.ReLU(), 16), nn.GELU()
    penalty = sg.AffinityPenalty(plain, sites="relu", weight=1.0)
    for step in range(6):
        with penalty:
            plain(batch(16, step))
        scored(batch(16, step))
        value = sg.nn.affinity_penalty(scored, weight=1.0)
        torch.testing.assert_close(value, penalty.value, rtol=1e-5, atol=1e-6)
    assert list(penalty.scores) == ["1"]


def test_positions_and_axes() -> None:
    x = torch.randn(8, 5, 6, 3, dtype=torch.float64)
    first = sg.nn.Scored(nn.Sigmoid(), samples="positions")
    last = sg.nn.Scored(nn.Sigmoid(), samples="positions", channel_axis=-1)
    first(x.movedim(-1, 1))
    last(x)
    torch.testing.assert_close(first.score, last.score)
    assert not torch.isnan(first.score)


def test_evaluation_computes_no_score() -> None:
    scored = pair()[1].eval()
    scored(batch(2))
    assert scored[1].score is None
    with pytest.raises(NoActivationError, match="Scored"):
        sg.nn.affinity_penalty(scored)


def test_a_constant_output_counts_for_nothing() -> None:
    scored = nn.Sequential(nn.Linear(4, 8), sg.nn.Scored(nn.ReLU()), sg.nn.Scored(nn.Tanh()))
    with torch.no_grad():
        scored[0].bias.fill_(-1e3)
    scored(batch())
    value = sg.nn.affinity_penalty(scored)
    value.backward()
    assert float(value.detach()) == 0
    assert scored[0].weight.grad.abs().max() == 0


def test_a_network_can_be_copied_after_a_step() -> None:
    scored = pair()[1]
    scored(batch())
    other = copy.deepcopy(scored)
    assert other[1].score is None
    assert {*other.state_dict()} == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_misuse_names_the_remedy() -> None:
    with pytest.raises(InputError, match=r"20 samples are too few for 8 channels.*channels=8"):
        pair()[1](batch(20))
    with pytest.raises(OptionError, match="samples"):
        sg.nn.Scored(nn.ReLU(), samples="pixels")
    with pytest.raises(OptionError, match="channel_axis=0"):
        sg.nn.Scored(nn.ReLU(), channel_axis=0)


def test_scores_are_turned_off_and_on() -> None:
    scored = pair()[1]
    for step in range(5):
        sg.nn.set_scoring(scored, step % 2 == 0)
        loss = scored(batch()).square().mean() + sg.nn.affinity_penalty(scored)
        loss.backward()  # never through the graph of an earlier step
        assert (scored[1].score is None) == (step % 2 == 1)
        assert (float(sg.nn.affinity_penalty(scored).detach()) == 0) == (step % 2 == 1)
    sg.nn.set_scoring(scored, False)
    sums = sg.nn.Scored(nn.ReLU(), 8)
    sg.nn.set_scoring(sums, False)
    sums(torch.randn(4, 8))
    assert float(sums.count) == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the compiler itself
def test_turning_scores_off_takes_two_graphs() -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    torch.compiler.reset()
    scored = pair()[1]

    def step(x: Tensor) -> Tensor:
        return scored(x).square().mean() + sg.nn.affinity_penalty(scored)

    compiled = torch.compile(step, backend=backend, fullgraph=True)
    for number in range(6):
        sg.nn.set_scoring(scored, number % 3 == 0)
        loss = compiled(batch(seed=number))
        torch.testing.assert_close(loss, step(batch(seed=number)))
    assert len(graphs) == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the compiler itself
def test_a_whole_step_is_compiled() -> None:
    scored = pair()[1]
    scored[3] = sg.nn.Scored(nn.GELU(), 8)
    reference = copy.deepcopy(scored)

    def step(model: nn.Module, x: Tensor) -> Tensor:
        return model(x).square().mean() + sg.nn.affinity_penalty(model, weight=1.0)

    compiled = torch.compile(step, backend="eager", fullgraph=True)
    for seed in range(2):
        x = batch(48, seed)
        loss, expected = compiled(scored, x), step(reference, x)
        torch.testing.assert_close(loss, expected)
        loss.backward()
        expected.backward()
    for one, other in zip(scored.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
