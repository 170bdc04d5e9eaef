"""Batches of every form, what is computed over them, and which of them count."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import sigmascope as sg

Pair = namedtuple("Pair", ["inputs", "labels"])


class Named(nn.Module):
    """Takes its argument by name."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = perceptron()

    def forward(self, pixels: Tensor) -> Tensor:
        return self.layers(pixels)


class Stream(IterableDataset):
    """A data set without a length."""

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.x)


def perceptron(seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.Tanh())


def normal(n: int = 32, seed: int = 1) -> Tensor:
    return torch.randn(n, 4, generator=torch.Generator().manual_seed(seed))


X = normal()
LABELS = torch.arange(len(X)) % 3
HALVES = (X[:16], X[16:])


def rows(signature: sg.Signature) -> list[tuple[str, tuple[float, ...]]]:
    return [(site.name, site.scores) for site in signature.sites]


WHOLE = rows(sg.signature(perceptron(), X))
IN_HALVES = rows(sg.signature(perceptron(), list(HALVES)))

ONE_BATCH: dict[str, Callable[[], Any]] = {
    "list of a tensor": lambda: [X],
    "array": lambda: X.numpy(),
    "array of float64": lambda: X.double().numpy(),
    "array that is not contiguous": lambda: np.ascontiguousarray(X.numpy().T).T,
    "list of an array": lambda: [X.numpy()],
    "list of pairs": lambda: [(X, LABELS)],
    "list of lists": lambda: [[X, LABELS]],
    "list of pairs of arrays": lambda: [(X.numpy(), LABELS.numpy())],
    "pair": lambda: (X, LABELS),
    "pair of arrays": lambda: (X.numpy(), LABELS.numpy()),
    "list of inputs and labels": lambda: [X, LABELS],
    "first of a loader": lambda: next(iter(DataLoader(TensorDataset(X, LABELS), batch_size=32))),
    "named tuple": lambda: Pair(X, LABELS),
    "list of named tuples": lambda: [Pair(X, LABELS)],
    "loader": lambda: DataLoader(TensorDataset(X, LABELS), batch_size=32),
    "loader of tensors": lambda: DataLoader(X, batch_size=32),
    "generator": lambda: (x for x in [X]),
    "dict": lambda: {"input": X, "labels": LABELS},
    "list of dicts": lambda: [{"input": X}],
}
TWO_BATCHES: dict[str, Callable[[], Any]] = {
    "tuple of tensors": lambda: HALVES,
    "list of arrays": lambda: [half.numpy() for half in HALVES],
    "stacked": lambda: torch.stack(HALVES).unbind(),
    "pairs": lambda: [(half, LABELS[:16]) for half in HALVES],
    "loader": lambda: DataLoader(TensorDataset(X, LABELS), batch_size=16),
    "loader without a length": lambda: DataLoader(Stream(X), batch_size=16),
    "generator": lambda: (half for half in HALVES),
    "dicts": lambda: [{"input": half} for half in HALVES],
}


@pytest.mark.parametrize("form", ONE_BATCH)
def test_one_batch_of_every_form(form: str) -> None:
    result = sg.signature(perceptron(), ONE_BATCH[form]())
    assert rows(result) == WHOLE
    assert (result.batches, result.samples) == (1, 32)


@pytest.mark.parametrize("form", TWO_BATCHES)
def test_two_batches_of_every_form(form: str) -> None:
    result = sg.signature(perceptron(), TWO_BATCHES[form]())
    assert rows(result) == IN_HALVES
    assert (result.batches, result.samples) == (2, 32)


def test_the_forms_are_told_apart() -> None:
    """Negative control: the same samples in other batches have other scores."""
    assert [scores for _, scores in WHOLE] != [scores[:1] for _, scores in IN_HALVES]


def test_two_images_are_not_inputs_and_labels() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True))
    images = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    result = sg.signature(network, images)
    assert (result.batches, result.samples, result.sites[0].shape) == (1, 2, (2, 4, 6, 6))
    assert sg.signature(network, [images[:1], images[1:]]).batches == 2


@pytest.mark.parametrize(
    "extra", [{}, {"labels": LABELS}, {"label": LABELS, "targets": LABELS}, {"identity": LABELS}]
)
def test_a_mapping_gives_arguments_by_name(extra: dict[str, Tensor]) -> None:
    """Labels and what the network does not take are left out, wherever they stand."""
    for content in (
        {"pixels": X, **extra},
        {**extra, "pixels": X},
        {"step": torch.tensor(3), **extra, "pixels": X},
    ):
        result = sg.signature(Named(), [content])
        assert [scores for _, scores in rows(result)] == [scores for _, scores in WHOLE]
        assert result.samples == 32


def test_labels_are_left_out_where_the_network_takes_anything() -> None:
    class Anything(Named):
        def forward(self, **given: Tensor) -> Tensor:
            assert set(given) == {"pixels", "other"}
            return self.layers(given["pixels"])

    result = sg.signature(Anything(), {"pixels": X, "labels": LABELS, "other": LABELS})
    assert [scores for _, scores in rows(result)] == [scores for _, scores in WHOLE]


class Needing(Named):
    """Cannot run without labels; a target it can do without."""

    def forward(self, pixels: Tensor, labels: Tensor, target: Tensor | None = None) -> Tensor:
        assert target is None
        assert labels is not None
        return self.layers(pixels)


@pytest.mark.parametrize(
    "batch",
    [{"pixels": X, "labels": LABELS, "target": LABELS}, [(X, LABELS)], [(X, LABELS, LABELS)]],
    ids=["mapping", "pair", "triple"],
)
def test_labels_are_given_to_a_network_that_needs_them(batch: Any) -> None:
    result = sg.signature(Needing(), batch)
    assert [scores for _, scores in rows(result)] == [scores for _, scores in WHOLE]


@pytest.mark.parametrize(("n", "few"), [(31, True), (32, False)])
@pytest.mark.parametrize("estimator", ["both", "published"])
def test_few_samples_get_a_note(n: int, few: bool, estimator: Any) -> None:
    result = sg.signature(perceptron(), normal(n), estimator=estimator)
    notes = [note for note in result.coverage.notes if "fewer than 32 samples" in note]
    expected = (
        "the published score rests on fewer than 32 samples a batch at 2 of 2 sites (1: 31) and "
        "depends much on which ones; use larger batches"
    )
    assert notes == [expected] * few


def test_a_mapping_without_any_argument() -> None:
    with pytest.raises(
        sg.InputError,
        match=r"keys image, labels has none of the network's arguments pixels\. Pass forward=",
    ):
        sg.signature(Named(), {"image": X, "labels": LABELS})


def test_forward_runs_the_network_on_batches_of_any_form() -> None:
    batches = [{"deep": {"x": half}, "word": "ignored"} for half in HALVES]
    result = sg.signature(
        perceptron(), batches, forward=lambda network, batch: network(batch["deep"]["x"])
    )
    assert rows(result) == IN_HALVES


BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "nothing": (
        [],
        sg.InputError,
        r"batches is empty\. Pass a loader or a list with at least one batch",
    ),
    "an empty generator": (iter(()), sg.InputError, r"batches is empty"),
    "a number": (
        3,
        sg.InputTypeError,
        r"batches is a int\. Pass a DataLoader, a list of batches, or one batch",
    ),
    "a word": ("cifar10", sg.InputTypeError, r"batches is a str\. Pass a DataLoader"),
    "words": (
        ["a", "b"],
        sg.InputError,
        r"a batch of type str holds no tensor\. Yield tensors, tuples .*, or pass forward=",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_batch_is_named(case: str) -> None:
    batches, error, match = BAD[case]
    with pytest.raises(error, match=match):
        sg.signature(perceptron(), batches)


def test_half_precision_follows_the_network() -> None:
    network = perceptron().to(torch.bfloat16)
    result = sg.signature(network, X)
    assert [site.dtype for site in result.sites] == ["bfloat16", "bfloat16"]
    assert result.scores == pytest.approx(sg.signature(perceptron(), X).scores, abs=0.02)
    assert not np.array_equal(result.scores, sg.signature(perceptron(), X).scores)
    exact = sg.signature(network.double(), X)
    assert [site.dtype for site in exact.sites] == ["float64", "float64"]


def test_autocast_is_respected_and_does_not_reach_the_scores() -> None:
    plain = sg.signature(perceptron(), X, metrics="all")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        lowered = sg.signature(perceptron(), X, metrics="all")
        assert torch.is_autocast_enabled("cpu")
    assert [site.dtype for site in lowered.sites] == ["bfloat16", "bfloat16"]
    assert [site.dtype for site in plain.sites] == ["float32", "float32"]
    assert lowered.scores == pytest.approx(plain.scores, abs=0.02)
    assert lowered.sites[0].metrics["norm_per_sample"] == pytest.approx(
        plain.sites[0].metrics["norm_per_sample"], rel=0.01
    )
    assert not np.array_equal(lowered.scores, plain.scores)


def test_a_score_per_batch_their_mean_and_interval() -> None:
    batches = [normal(24, seed) for seed in range(7)]
    result = sg.signature(perceptron(), batches)
    assert (result.batches, result.samples) == (7, 168)
    for place, site in enumerate(result.sites):
        alone = [sg.signature(perceptron(), batch).sites[place].score for batch in batches]
        assert site.scores == pytest.approx(alone, abs=1e-12)
        assert site.batches == 7
        assert site.score == pytest.approx(np.mean(alone))
        assert site.std == site.scatter.std == pytest.approx(np.std(alone, ddof=1))
        interval = stats.t.interval(0.95, 6, loc=np.mean(alone), scale=stats.sem(alone))
        assert (site.scatter.low, site.scatter.high) == pytest.approx(interval)
        assert site.scatter.low < site.score < site.scatter.high


def test_a_single_batch_has_no_spread() -> None:
    for site in sg.signature(perceptron(), X).sites:
        assert math.isfinite(site.score)
        assert [math.isnan(value) for value in vars(site.scatter).values()] == [True] * 3


LEFT_OUT = "the last batch of {} samples was left out, the first has {}"
COUNTED = "the last batch of {} samples counts for the population score only, the first has {}"
# the sizes of all batches, and of the last one that the published score leaves out
SIZES: dict[str, tuple[list[int], int]] = {
    "an incomplete last one": ([8, 8, 5], 5),
    "two incomplete ones at the end": ([8, 8, 5, 4], 4),
    "a smaller one in the middle": ([8, 5, 8], 0),
    "two smaller ones in the middle": ([8, 5, 4, 8], 0),
    "a single small one": ([3], 0),
    "a larger last one": ([5, 8], 0),
    "smaller ones around a larger": ([5, 8, 5], 0),
}


@pytest.mark.parametrize("estimator", ["published", "both", "population"])
@pytest.mark.parametrize("case", SIZES)
def test_which_batches_count(case: str, estimator: Any) -> None:
    sizes, left = SIZES[case]
    batches = [normal(size, seed) for seed, size in enumerate(sizes)]
    used = sizes[:-1] if left and estimator != "population" else sizes
    note = ""
    if used != sizes:
        note = (COUNTED if estimator == "both" else LEFT_OUT).format(left, sizes[0])
    for form in (batches, iter(batches)):
        result = sg.signature(perceptron(), form, estimator=estimator)
        assert (result.batches, result.samples) == (len(used), sum(used))
        notes = [one for one in result.coverage.notes if "fewer than 32" not in one]
        assert notes == [note] * bool(note)
        published = 0 if estimator == "population" else len(used)
        assert [site.batches for site in result.sites] == [published] * 2
        every = 0 if estimator == "published" else sum(sizes)
        assert [site.population_n for site in result.sites] == [every] * 2
    assert (f"Note: {note}." in repr(result)) == bool(note)


def test_max_batches_stops_the_loader() -> None:
    drawn = []

    def loader() -> Iterator[Tensor]:
        for seed in range(10):
            drawn.append(seed)
            yield normal(8, seed)

    result = sg.signature(perceptron(), loader(), max_batches=3)
    assert (result.batches, drawn) == (3, [0, 1, 2])
    assert rows(result) == rows(sg.signature(perceptron(), [normal(8, seed) for seed in range(3)]))
    assert sg.signature(perceptron(), X, max_batches=3).batches == 1


def test_batch_axis() -> None:
    class TimeFirst(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = perceptron()

        def forward(self, x: Tensor) -> Tensor:
            return self.layers(x)

    # (time, samples, channels)
    x = torch.randn(6, 20, 4, generator=torch.Generator().manual_seed(0))
    result = sg.signature(TimeFirst(), x, batch_axis=1)
    assert (result.samples, [site.n for site in result.sites]) == (20, [20, 20])
    moved = sg.signature(TimeFirst(), x.transpose(0, 1))
    assert result.scores == pytest.approx(moved.scores, abs=1e-5)
    assert sg.signature(TimeFirst(), x).samples == 6


def test_the_fingerprint_of_the_data() -> None:
    """It depends on the values and their order, not on the network."""
    network = perceptron()
    first = sg.signature(network, list(HALVES))
    assert first.data == sg.signature(perceptron(1), DataLoader(X, batch_size=16)).data
    assert first.model != sg.signature(perceptron(1), X).model
    others = {
        sg.signature(network, batches).data
        for batches in (HALVES[::-1], [X], [X[:16], X[16:] + 1], [X[:16].double()])
    }
    assert len(others | {first.data}) == 5


def test_the_fingerprint_of_the_network() -> None:
    """It depends on weights, kinds of layers and their settings."""
    linear = perceptron()[0]
    networks = [
        nn.Sequential(linear, last)
        for last in (nn.ReLU(), nn.Tanh(), nn.LeakyReLU(0.1), nn.LeakyReLU(0.2))
    ]
    assert len({sg.signature(network, X).model for network in networks}) == 4
    assert sg.signature(perceptron(), X).model == sg.signature(perceptron(), X).model
