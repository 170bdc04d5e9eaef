"""The population score of a signature: one number for all samples, whatever their batches."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import sigmascope as sg
from sigmascope.measure.accumulating import SAMPLED

EXACT = 1e-9
SIZES = (1, 7, 64, 300)


def built(make: Any = None) -> Any:
    """In float64, so that a forward pass gives the same for batches of any size."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return (make or convolutional)().double()


def convolutional() -> nn.Module:
    body = [nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.GELU()]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(128, 7), nn.Tanh())


def images(count: int = 300, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, 8, 8, dtype=torch.float64, generator=generator)


def populations(signature: sg.Signature) -> list[float]:
    return [
        value
        for site in signature.sites
        for value in (site.population, site.stderr, site.low, site.high, *site.influence)
    ]


def by_hand(x: Tensor, y: Tensor, index: Any = None) -> sg.PopulationScore:
    moments = sg.Moments()
    moments.update(x, y, index)
    return moments.score()


def as_tuple(site: Any) -> tuple[float, ...]:
    return site.population, site.stderr, site.low, site.high, *site.influence


def told(score: sg.PopulationScore) -> tuple[float, ...]:
    return score.score, score.stderr, score.low, score.high, *score.influence


def test_it_is_that_of_all_averages() -> None:
    network = built()
    site = sg.signature(network, images().split(70)).sites[0]
    x = network[0](images()).detach()
    assert as_tuple(site) == pytest.approx(
        told(by_hand(x.mean((2, 3)), x.relu().mean((2, 3)))), abs=EXACT
    )
    assert (site.population_n, site.population_reason) == (300, "")
    assert site.low < site.population < site.high
    assert site.bias == site.score - site.population > 0


@pytest.mark.parametrize("estimator", ["both", "population"])
@pytest.mark.parametrize("size", SIZES)
def test_batches_of_any_size_give_the_same(size: int, estimator: Any) -> None:
    whole = sg.signature(built(), images(), estimator="population")
    found = sg.signature(built(), images().split(size), estimator=estimator)
    assert populations(found) == pytest.approx(populations(whole), abs=EXACT)
    assert [site.population_n for site in found.sites] == [300] * 3
    assert all(map(math.isfinite, populations(found)))
    for one, other in zip(found.sites, whole.sites, strict=True):
        assert (one.moved, one.tested) == (other.moved, other.tested)


@pytest.mark.parametrize("most", [5, 64])
@pytest.mark.parametrize("size", SIZES)
def test_positions_do_not_depend_on_the_batches(size: int, most: int) -> None:
    options: dict[str, Any] = {"samples": "positions", "max_positions": most}
    whole = sg.signature(built(), images(), **options)
    found = sg.signature(built(), images().split(size), **options)
    assert populations(found) == pytest.approx(populations(whole), abs=EXACT)
    assert whole.options.estimator == "population"
    # 36 and 16 positions, and what has none
    assert [site.population_n for site in found.sites] == [
        300 * min(most, 36),
        300 * min(most, 16),
        300,
    ]


def test_a_loader_without_batches() -> None:
    """DataLoader without batch_size yields batches of one sample."""
    loader = DataLoader(list(images(80)))
    found = sg.signature(built(), loader, activations=["relu"])
    (site,) = found.sites
    whole = sg.signature(built(), images(80), activations=["relu"], estimator="population")
    assert site.population == pytest.approx(whole.scores[0], abs=EXACT)
    assert math.isnan(site.score)
    assert "use larger batches" in site.reason
    assert (found.coverage.scored, found.coverage.failed) == (1, 0)


def test_every_position_is_a_sample_of_its_image() -> None:
    network = built()
    site = sg.signature(network, images().split(90), samples="positions").sites[0]
    x = network[0](images()).detach().permute(0, 2, 3, 1).reshape(-1, 6)
    index = torch.arange(300).repeat_interleave(36)
    assert as_tuple(site) == pytest.approx(told(by_hand(x, x.relu(), index)), abs=EXACT)
    # negative control: positions of an image are not independent samples
    assert by_hand(x, x.relu()).stderr != pytest.approx(site.stderr, rel=1e-3)


def test_positions_that_are_drawn_stand_for_all() -> None:
    every, some, other = (
        sg.signature(built(), images(), samples="positions", **more)
        for more in ({}, {"max_positions": 9}, {"max_positions": 9, "seed": 1})
    )
    for whole, drawn in zip(every.sites, some.sites, strict=True):
        assert abs(drawn.population - whole.population) <= drawn.high - drawn.low
    assert some.sites[0].population != other.sites[0].population
    assert some.sites[2].population == other.sites[2].population


def test_the_published_score_of_positions_takes_some_rows() -> None:
    network = built()
    options: dict[str, Any] = {"samples": "positions", "estimator": "both"}
    site = sg.signature(network, images(50), **options, max_tokens=100).sites[0]
    x = network[0](images(50)).detach().permute(0, 2, 3, 1).reshape(-1, 6)[::18]
    assert (site.n, site.population_n) == (100, 1800)
    expected = sg.affinity(x, x.relu())
    assert site.score == pytest.approx(float(expected), abs=EXACT)
    alone = sg.signature(network, images(50), samples="positions", metrics="cka", max_tokens=100)
    assert alone.sites[0].metrics["cka"] == pytest.approx(
        sg.signature(network, images(50), **options, metrics="cka", max_tokens=100)
        .sites[0]
        .metrics["cka"]
    )


class Embedded(nn.Module):
    """Every token stands for itself."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.linear, self.act = nn.Embedding(50, 6), nn.Linear(6, 5), nn.GELU()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.act(self.linear(self.embedding(input_ids)))


def sentences(count: int = 120, padding: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 50, (count, 9), generator=generator)
    lengths = torch.randint(0, 10, (count, 1), generator=generator)
    mask = torch.arange(9) < lengths
    return {"input_ids": ids.where(mask, torch.tensor(padding)), "attention_mask": mask.long()}


def halves(batch: dict[str, Tensor], size: int) -> list[dict[str, Tensor]]:
    parts = zip(*(tensor.split(size) for tensor in batch.values()), strict=True)
    return [dict(zip(batch, part, strict=True)) for part in parts]


@pytest.mark.parametrize("most", [3, 64])
def test_positions_are_not_padding(most: int) -> None:
    options: dict[str, Any] = {"samples": "positions", "max_positions": most}
    network = built(Embedded)
    plain, padded = (
        sg.signature(network, sentences(padding=padding), **options) for padding in (0, 17)
    )
    assert populations(plain) == pytest.approx(populations(padded), abs=EXACT)
    lengths = sentences()["attention_mask"].sum(1)
    assert plain.sites[0].population_n == int(lengths.clamp(max=most).sum())
    for size in (1, 32):
        found = sg.signature(network, halves(sentences(), size), **options)
        assert populations(found) == pytest.approx(populations(plain), abs=EXACT)


def test_tokens_are_grouped_by_their_sentence() -> None:
    network, batch = built(Embedded), sentences()
    (site,) = sg.signature(network, batch, samples="tokens").sites
    with torch.no_grad():
        x = network.linear(network.embedding(batch["input_ids"]))
    chosen = batch["attention_mask"].bool()
    index = torch.arange(120)[:, None].expand(120, 9)[chosen]
    expected = by_hand(x[chosen], nn.functional.gelu(x[chosen]), index)
    assert as_tuple(site) == pytest.approx(told(expected), abs=EXACT)


def test_nothing_is_transported_for_the_population_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """But a row of each of the first samples, once, to see whether the identity is optimal."""
    scored: list[list[int]] = []
    for name in ("batch_scores", "accumulating"):
        module = importlib.import_module(f"sigmascope.measure.{name}")
        original = module.scored

        def looking(pairs: Sequence[Any], *more: Any, original: Any = original) -> Any:
            scored.append([len(x) for x, _ in pairs])
            return original(pairs, *more)

        monkeypatch.setattr(module, "scored", looking)
    sg.signature(built(), images().split(64), estimator="population")
    assert scored == [[SAMPLED] * 3]
    scored.clear()
    sg.signature(built(), images().split(64), estimator="both")
    assert scored == [[64] * 3] * 4 + [[SAMPLED] * 3]


def test_readings_that_are_alike_are_kept_once() -> None:
    """So that a stream of many small batches does not fill the memory."""
    batches = importlib.import_module("sigmascope.measure.running")
    found: list[Any] = []
    original = batches.Run.over

    def over(self: Any, items: Any, **more: Any) -> Any:
        found.extend(original(self, items, **more))
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batches.Run, "over", over)
        sg.signature(built(), images(60).split(2), estimator="population")
    assert len(found) == 30
    assert len({id(one.readings) for one in found}) == 1


def test_rows_that_another_coupling_moves() -> None:
    """In one dimension the identity is optimal if and only if the activation is monotone."""
    x = torch.randn(400, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    folded = sg.signature(nn.Sequential(nn.SiLU()), 3 * x, estimator="population").sites[0]
    monotone = sg.signature(nn.Sequential(nn.Tanh()), 3 * x, estimator="population").sites[0]
    assert folded.moved > 0 == monotone.moved
    assert folded.tested == monotone.tested == SAMPLED
    assert sg.signature(nn.Sequential(nn.SiLU()), 3 * x, estimator="published").sites[0].tested == 0


class Changing(nn.Module):
    """Another number of channels for the second batch, spoilt values, and a call now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        torch.relu(x[:, : 3 if self.calls == 2 else 4])
        torch.tanh(x * (math.nan if self.calls == 2 else 1))
        if self.calls != 2:
            torch.sigmoid(x)
        return torch.nn.functional.silu(x * 0)


def test_reasons() -> None:
    x = torch.randn(240, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    sites = sg.signature(Changing(), x.split(80)).sites
    reasons = {site.kind: site.population_reason for site in sites}
    assert reasons["relu"] == "x has 3 columns, and the samples so far have 4"
    assert "contains NaN" in reasons["tanh"]
    assert "constant" in reasons["silu"]
    assert reasons["sigmoid"] == ""
    (sometimes,) = (site for site in sites if site.kind == "sigmoid")
    kept = torch.cat([x[:80], x[160:]])
    index = torch.cat([torch.arange(80), torch.arange(160, 240)])
    assert sometimes.population == pytest.approx(
        by_hand(kept, kept.sigmoid(), index).score, abs=EXACT
    )
    assert sometimes.population_n == 160
    for site in sites[:2]:
        assert math.isfinite(site.score)  # of the other batches
        assert math.isnan(site.population)


def test_too_few_samples_say_how_many_would_do() -> None:
    wide = nn.Sequential(nn.Linear(4, 40), nn.ReLU())
    (site,) = sg.signature(wide, torch.randn(60, 4)).sites
    assert math.isnan(site.population)
    assert site.population_reason == "60 samples are too few for 40 channels: 100 would do"


def test_calls_that_only_the_last_batch_makes() -> None:
    class Late(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x = torch.relu(x)
            return torch.tanh(x) if len(x) == 40 else x

    x = torch.randn(100, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    relu, tanh = sg.signature(Late(), [x[:60], x[60:]]).sites
    assert (relu.batches, relu.population_n, tanh.batches, tanh.population_n) == (1, 100, 0, 40)
    assert math.isfinite(tanh.population)
    assert math.isnan(tanh.score)
    assert tanh.reason == "only a last batch that is smaller than the first makes this call"


class Windows(nn.Module):
    """Each sample becomes four consecutive rows."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 6)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.linear(x.reshape(-1, 5)))


@pytest.mark.parametrize(
    ("options", "each"),
    [
        ({}, 1),
        ({"samples": "tokens"}, 4),
        ({"samples": "positions"}, 4),
        ({"pool": "published"}, 4),
        ({"pool": lambda t: t}, 4),
    ],
    ids=["pooled", "tokens", "positions", "published", "function"],
)
def test_rows_follow_their_sample(options: dict[str, Any], each: int) -> None:
    network = built(Windows)
    x = torch.randn(200, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    (site,) = sg.signature(network, x.split(50), estimator="population", **options).sites
    with torch.no_grad():
        rows = network.linear(x.reshape(-1, 5))
    y = rows.relu()
    if each == 1:
        rows, y = rows.reshape(-1, 4, 6).mean(1), y.reshape(-1, 4, 6).mean(1)
    expected = by_hand(rows, y, torch.arange(200).repeat_interleave(each))
    assert as_tuple(site) == pytest.approx(told(expected), abs=EXACT)


def test_rows_in_no_known_order_are_divided_evenly() -> None:
    class Shuffled(Windows):
        def forward(self, x: Tensor) -> Tensor:
            rows = x.reshape(-1, 5)
            return torch.relu(self.linear(rows[torch.arange(len(rows)).flip(0)]))

    x = torch.randn(200, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for options, most in (({"samples": "tokens"}, 800), ({"samples": "positions"}, 800)):
        (site,) = sg.signature(built(Shuffled), x, estimator="population", **options).sites
        assert site.population_n == most
        assert math.isfinite(site.stderr)
    capped = sg.signature(built(Shuffled), x, samples="positions", max_positions=2)
    assert capped.sites[0].population_n == 400


def test_the_order_of_sites_and_scores_is_that_of_the_published() -> None:
    both = sg.signature(built(), images().split(100))
    alone = sg.signature(built(), images().split(100), estimator="published")
    assert [site.name for site in both.sites] == [site.name for site in alone.sites]
    assert np.array_equal(both.scores, alone.scores)
    assert both.data == alone.data == sg.signature(built(), images().split(100), seed=1).data
    # an incomplete batch counts for one of them only
    assert (
        sg.signature(built(), images().split(70)).data
        != sg.signature(built(), images().split(70), estimator="published").data
    )
