"""Tests for how networks are watched batch after batch: hooks show what the recorder shows, and
nothing is left behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sigmascope.capture.recording import recording
from sigmascope.symmetry import passes
from sigmascope.symmetry.cross_grams import CrossGrams, PairedGrams
from sigmascope.symmetry.layers import compare
from sigmascope.symmetry.passes import tapped
from sigmascope.symmetry.procrustes_similarity import procrustes
from sigmascope.symmetry.similarity_options import RunOptions
from tests.symmetry.test_streaming import add


class Modules(nn.Module):
    """Activations that are modules, one of them called twice; tokens after maps."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.relu = nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(inplace=True)
        self.linear, self.gelu = nn.Linear(4, 6), nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.conv(x))
        y = self.relu(y - y.mean(dim=(1, 2, 3), keepdim=True))
        tokens: Tensor = self.gelu(self.linear(y.flatten(2).mT))
        return tokens.mul_(2)


class Functions(Modules):
    """The same, but for one activation that is a function."""

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(super().forward(x))


class Fickle(Modules):
    """Calls an activation or not, whatever the shapes of its inputs."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.relu(self.conv(x))
        return self.gelu(y) if bool(x.sum() > 0) else y


def images(n: int = 6, seed: int = 0) -> Tensor:
    return torch.randn(n, 3, 4, 4, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that gets an entry each time that a batch is recorded."""
    found: list[object] = []

    @contextmanager
    def counted(*args: Any, **kwargs: Any) -> Iterator[Any]:
        found.append(args)
        with recording(*args, **kwargs) as recorder:
            yield recorder

    monkeypatch.setattr(passes, "recording", counted)
    return found


def shown(tap: passes.Tap, item: object) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    tap.run(item, lambda site, features: found.__setitem__(site, features.clone()))
    return found


def assert_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert list(one) == list(other)
    assert all(torch.equal(one[site], other[site]) for site in one)


def test_hooks_show_what_the_recorder_shows(recordings: list[object]) -> None:
    first, second = images(), images(seed=1)
    with tapped(Modules(), RunOptions()) as tap, tapped(Modules(), RunOptions()) as fresh:
        recorded = shown(tap, first)
        assert {site: tuple(one.shape) for site, one in recorded.items()} == {
            "relu": (6, 4, 4, 4),
            "relu#1": (6, 4, 4, 4),
            "gelu": (6, 6, 16),
        }
        assert_equal(shown(tap, first), recorded)
        assert len(recordings) == 1
        assert_equal(shown(tap, second), shown(fresh, second))
        assert len(recordings) == 2


def test_other_inputs_and_functions_are_recorded_again(recordings: list[object]) -> None:
    with tapped(Modules(), RunOptions()) as tap:
        for item in (images(), images(5), images(5), images(5).double()):
            shown(tap, item)
    assert len(recordings) == 2  # doubles become floats, as the network is
    with tapped(Functions(), RunOptions()) as tap:
        assert_equal(shown(tap, images()), shown(tap, images()))
    assert len(recordings) == 4


def test_hooks_on_all_modules_are_met_alike_in_every_batch(recordings: list[object]) -> None:
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, _, output: output + 1 if isinstance(module, nn.ReLU) else None
    )
    try:
        with tapped(Modules(), RunOptions()) as tap:
            assert_equal(shown(tap, images()), shown(tap, images()))
    finally:
        handle.remove()
    assert len(recordings) == 2


def test_what_hooks_of_others_do_happens_outside() -> None:
    network = Modules()
    network.relu.register_forward_hook(lambda _, __, output: output + 1)
    with tapped(network, RunOptions()) as tap:
        recorded = shown(tap, images())
        assert float(recorded["relu"].min()) == 0
        assert_equal(shown(tap, images()), recorded)
    assert len(network.relu._forward_hooks) == 1


def test_no_hook_outlives_a_network_that_fails() -> None:
    network = Modules()

    def fail(*_: object) -> None:
        raise RuntimeError("no more")

    with tapped(network, RunOptions()) as tap:
        shown(tap, images())
        handle = network.linear.register_forward_hook(fail)
        with pytest.raises(RuntimeError, match="no more"):
            shown(tap, images())
        handle.remove()
    assert not any(module._forward_hooks for module in network.modules())


@pytest.mark.parametrize("pairs", ["all", "diagonal"])
def test_an_activation_that_hooks_miss_has_a_reason(pairs: str) -> None:
    positive = images().abs()
    found = compare(Fickle(), Fickle(), [positive, positive, -positive, positive], pairs=pairs)
    assert found.rows == ("relu", "gelu")
    assert found.similarity[0, 0] == 1
    assert np.isnan(found.similarity[1, 1])
    assert "gelu: it is not called in every batch" in next(
        lost.reason for lost in found.missing if lost.row == "gelu"
    )
    assert found.samples == 24


@pytest.mark.parametrize("pairs", ["all", "diagonal"])
@pytest.mark.parametrize("sizes", [(20,), (5, 5, 5, 5), (6, 6, 6, 2), (2, 9, 9), (7, 6, 7)])
def test_batches_of_any_size_give_what_one_gives(sizes: tuple[int, ...], pairs: str) -> None:
    torch.manual_seed(3)
    one, other = Modules().double(), Modules().double()
    nn.init.normal_(other.conv.weight)
    data = images(20)
    whole = compare(one, other, data, pairs=pairs, dtype="float64")
    parts = compare(one, other, torch.split(data, list(sizes)), pairs=pairs, dtype="float64")
    np.testing.assert_allclose(parts.similarity, whole.similarity, rtol=0, atol=1e-12)
    assert parts.live == whole.live


# Layers whose maps grow, shrink, come and go from batch to batch.
BATCHES = [
    {0: (4, 4), 1: (4, 4), 2: (2, 2)},
    {0: (2, 2), 1: (4, 4), 2: (2, 2)},
    {0: (4, 4), 2: (2, 2)},
    {0: (4, 4), 1: (4, 4)},
]
WIDTHS = [3, 2, 5]


def test_layers_that_change_from_batch_to_batch_are_added_up() -> None:
    sums, paired = (
        CrossGrams(WIDTHS, WIDTHS, dtype="float64"),
        PairedGrams(WIDTHS, WIDTHS, dtype="float64"),
    )
    generator = torch.Generator().manual_seed(0)
    seen: list[list[dict[int, Tensor]]] = []
    for batch in BATCHES:
        both = [
            {
                place: torch.rand(6, WIDTHS[place], *size, generator=generator).double()
                for place, size in batch.items()
            }
            for _ in range(2)
        ]
        seen.append(both)
        for side, layers in enumerate(both):
            for place, features in layers.items():
                sums.show(side, place, features)
                paired.show(side, place, features)
        sums.finish()
        paired.finish()
    for place in range(3):
        expected = sum(
            torch.einsum("nchw,ndhw->cd", x[place], y[place])
            for x, y in seen
            if place in x and place in y
        )
        torch.testing.assert_close(sums._gram(place, place), expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(paired._sums[place].gram, expected, rtol=0, atol=1e-12)
    assert sums.live() == paired.live() == (tuple(WIDTHS), tuple(WIDTHS))


@pytest.mark.parametrize("shape", [(50, 16, 16, 16), (300, 40), (40, 24, 3)])
def test_float32_products_stay_within_their_bound(shape: tuple[int, ...]) -> None:
    r"""Sums of k float32 products are off by at most $k \epsilon \|x\| \|y\|$, whatever the order;
    in practice by far less.
    """
    x, y = (
        torch.rand(shape, generator=torch.Generator().manual_seed(seed)).relu() for seed in range(2)
    )
    x, y = (one[..., None] if one.ndim == 2 else one for one in (x, y))
    exact, rounded = (
        CrossGrams([shape[1]], [shape[1]], dtype=dtype) for dtype in ("float64", "float32")
    )
    for sums in (exact, rounded):
        for start in range(0, len(x), 10):
            add(sums, [x[start : start + 10]], [y[start : start + 10]])
    terms = 10 * x[0, 0].numel()
    norms = (
        x.double().flatten(2).square().sum(dim=(0, 2)).sqrt()[:, None]
        * y.double().flatten(2).square().sum(dim=(0, 2)).sqrt()
    )
    error = (rounded._gram(0, 0) - exact._gram(0, 0)).abs() / norms
    assert float(error.max()) <= terms * torch.finfo(torch.float32).eps
    assert float(error.max()) <= 1e-6
    found = rounded.result(0, 0, group="relu", normalizer="authors")
    assert not isinstance(found, str)
    assert found.similarity == pytest.approx(procrustes(x, y, channel_axis=1).similarity, abs=1e-6)
