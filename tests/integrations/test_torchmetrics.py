"""The metric does what metrics do, and its numbers are those of `Moments`."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

import sigmascope as sg
from sigmascope.maths.packed_sums import merged, pack, unpack
from tests.integrations.trainings import optional_package

pytestmark = pytest.mark.slow  # torchmetrics takes seconds to import


def metric(**options: Any) -> Any:
    from sigmascope.integrations.torchmetrics import AffinityScore

    return AffinityScore(**options)


def pairs(count: int = 3) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    found = [torch.randn(101, 6, generator=generator) for _ in range(count)]
    return [(x, torch.relu(x)) for x in found]


def wanted(given: list[tuple[Tensor, Tensor]], **options: Any) -> sg.PopulationScore:
    moments = sg.Moments(**options)
    for x, y in given:
        moments.update(x, y)
    return moments.score()


def test_updates_and_calls_add_up_to_the_score_of_moments() -> None:
    one, other = metric(), metric()
    for x, y in pairs():
        one.update(x, y)
        step = other(x, y)
        assert float(step) == pytest.approx(wanted([(x, y)]).score, abs=1e-12)
    score = wanted(pairs())
    for each in (one, other):
        value = each.compute()
        assert value.dtype == torch.float64
        assert float(value) == pytest.approx(score.score, abs=1e-12)
        assert each.result.n == 303
        assert each.result.low == pytest.approx(score.low, abs=1e-9)


def test_the_state_does_not_grow() -> None:
    one = metric()
    one.update(*pairs()[0])
    size = one.affinity_sums[0].numel()
    for x, y in pairs():
        one.update(x, y)
    assert [state.numel() for state in one.affinity_sums] == [size]


def test_reset_clone_pickle_and_state_dict() -> None:
    one = metric(eps=0.01)
    for x, y in pairs():
        one.update(x, y)
    score = float(one.compute())
    assert float(one.clone().compute()) == score
    assert float(pickle.loads(pickle.dumps(one)).compute()) == score
    one.persistent(True)
    loaded = metric(eps=0.01)
    loaded.persistent(True)
    loaded.load_state_dict(one.state_dict())
    loaded._update_count = 1  # it warns of a score before any update
    assert float(loaded.compute()) == score
    one.reset()
    one.update(*pairs()[0])
    assert float(one.compute()) == pytest.approx(wanted(pairs()[:1], eps=0.01).score, abs=1e-12)


def test_states_merge() -> None:
    first, second = metric(), metric()
    moments = sg.Moments()
    for number, (x, y) in enumerate(pairs()):
        index = torch.arange(101) + 101 * number
        moments.update(x, y, index)
        (first if number else second).update(x, y, index)
    first.merge_state(second)
    assert float(first.compute()) == pytest.approx(moments.score().score, abs=1e-12)
    with pytest.raises(sg.InputTypeError, match="must be an AffinityScore or its state, got int"):
        first.merge_state(3)


def test_precision_and_device_of_a_network_are_not_those_of_the_sums() -> None:
    one = torch.nn.ModuleList([metric()])
    one.to(torch.bfloat16)
    one.half()
    for x, y in pairs():
        one[0].update(x, y)
    one.to(torch.float32)
    assert one[0].affinity_sums[0].dtype == torch.float64
    assert one[0].dtype == torch.float64
    assert float(one[0].compute()) == pytest.approx(wanted(pairs()).score, abs=1e-12)


def test_metrics_with_alike_states_are_not_mixed_up() -> None:
    """They share sums, since they are given the same pairs, and differ in what they make of it."""
    tm = optional_package("torchmetrics")
    alone = {"a": {}, "b": {"eps": 1.0}, "c": {}}
    collection = tm.MetricCollection({name: metric(**options) for name, options in alone.items()})
    for x, y in pairs():
        collection.update(x, y)
    assert len(collection.compute_groups) == 1
    computed = collection.compute()
    for name, options in alone.items():
        score = wanted(pairs(), **options).score
        assert float(computed[name]) == pytest.approx(score, abs=1e-12)
    assert abs(float(computed["a"]) - float(computed["b"])) > 0.01
    collection.reset()
    collection.update(*pairs()[0])
    assert float(collection.compute()["b"]) == pytest.approx(
        wanted(pairs()[:1], eps=1.0).score, abs=1e-12
    )


def test_what_has_no_score_has_a_reason() -> None:
    one = metric()
    one.update(torch.randn(5, 6), torch.randn(5, 6))
    assert one.compute().isnan()
    assert one.result.reason == "5 samples are too few for 6 channels: 32 would do"


@pytest.mark.parametrize(
    ("x", "y", "error", "text"),
    [
        (torch.randn(9, 6), torch.randn(8, 6), sg.InputError, "x has 9 rows and y 8"),
        (torch.randn(9, 5), torch.randn(9, 5), sg.InputError, "5 columns"),
        (torch.ones(9, 6).long(), torch.ones(9, 6), sg.InputTypeError, "float"),
    ],
)
def test_bad_pairs(x: Tensor, y: Tensor, error: type[Exception], text: str) -> None:
    one = metric()
    one.update(*pairs()[0])
    with pytest.raises(error, match=text):
        one.update(x, y)
    assert float(one.compute()) == pytest.approx(wanted(pairs()[:1]).score, abs=1e-12)


def test_bad_eps() -> None:
    with pytest.raises(sg.InputError, match="eps must be None or a number >= 0"):
        metric(eps=-1.0)


def test_packed_sums_are_told_from_other_vectors() -> None:
    moments = sg.Moments()
    moments.update(*pairs()[0])
    vector = pack(moments)
    assert merged([]).n == len(pack(sg.Moments())) == 0
    assert merged([torch.cat([vector, vector])]).n == 202
    with pytest.raises(sg.InputError, match="does not hold the sums of moments"):
        next(unpack(vector[:-1]))
