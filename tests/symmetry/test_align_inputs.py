"""Networks and batches that are unusual: other dtypes, inputs overwritten, nothing in a batch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from sigmascope.errors import InputError, InputTypeError, NetworkError, OptionError
from sigmascope.symmetry import (
    UnmovableError,
    align,
    average,
    barrier,
    check_equivalence,
    compare,
    equivalence,
    move,
)
from tests.symmetry.lively import lively

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def mlp(seed: int, *, norm: bool = False, dtype: torch.dtype = torch.float64) -> nn.Module:
    norms = [nn.BatchNorm1d(7)] if norm else []
    network = nn.Sequential(nn.Linear(4, 7), *norms, nn.ReLU(), nn.Linear(7, 3))
    return lively(network, seed).to(dtype)


def inputs(count: int = 24) -> Tensor:
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(3)).double()


def labels(count: int = 24) -> Tensor:
    return torch.arange(count) % 3


class Greedy(nn.Module):
    """Overwrites its input, as a normalization in place does."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.inner = mlp(seed)

    def forward(self, x: Tensor) -> Tensor:
        x -= 1.0
        out: Tensor = self.inner(x)
        return out


class Tied(nn.Module):
    """Functional activations, of which modules tell nothing."""

    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.enter, self.leave, self.activation = nn.Linear(3, 5), nn.Linear(5, 2), activation

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.leave(self.activation(self.enter(x)))
        return out


@pytest.mark.parametrize("dtypes", [*itertools.product(DTYPES, DTYPES)])
def test_two_dtypes(dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    original = mlp(0)
    a, b = mlp(0, dtype=dtypes[0]), move(original, 1).to(dtypes[1])
    coarse = max(torch.finfo(dtype).eps for dtype in dtypes)
    for by in ("weights", "activations"):
        found = align(a, b, 100 * inputs(), by=by)
        aligned = found.apply(b)
        assert next(aligned.parameters()).dtype == dtypes[1]
        pairs = zip(original.parameters(), aligned.parameters(), strict=True)
        assert max(float((p - q).detach().abs().max()) for p, q in pairs) < 30 * coarse
        assert found.objective[-1] <= found.before


def test_sums_of_half_precision_do_not_overflow() -> None:
    a, b = mlp(0, dtype=torch.float16), mlp(1, dtype=torch.float16)
    big = 1000 * inputs(200)
    found = align(a, b, big, by="activations")
    exact = align(a.double(), b.double(), big, by="activations")
    one, other = found.elements["0"].permutation, exact.elements["0"].permutation
    assert torch.equal(one, other)


def test_networks_that_overwrite_their_input() -> None:
    a = Greedy(0)
    b, x, y = move(a, 1, example_input=inputs()), inputs(), labels()
    assert check_equivalence(a, b, x).relative_error < 1e-12
    assert align(a, b, [x], by="activations").overall == pytest.approx(1, abs=1e-12)
    line = barrier(a, b, [(x, y)], points=3, progress=False)
    assert abs(line.height("aligned")) < 1e-9
    assert line.curves["naive"].losses[-1] == pytest.approx(line.curves["aligned"].losses[-1])
    merged = average([a, b], [x], progress=False)
    assert check_equivalence(a, merged, x).relative_error < 1e-9
    same = compare(a, b, x, dtype="float64").similarities
    assert same[0][0] == pytest.approx(1, abs=1e-9)
    assert torch.equal(x, inputs())


class Sized(nn.Module):
    """Takes images of 7 by 7 and an offset by name: no size that is tried fits."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        source = torch.Generator().manual_seed(seed)
        self.enter, self.leave = nn.Conv2d(1, 4, 3), nn.Linear(100, 2)
        for one in self.parameters():
            one.data = torch.randn(one.shape, generator=source).double()

    def forward(self, x: Tensor, offset: Tensor | None = None) -> Tensor:
        out: Tensor = self.leave(torch.relu(self.enter(x)).flatten(1))
        return out if offset is None else out + offset


def test_samples_of_the_batches_are_the_example_where_none_can_be_made_up() -> None:
    a, x = Sized(0), torch.randn(9, 1, 7, 7).double()
    b = move(a, 1, example_input=x)
    with pytest.raises(InputError, match="Pass example_input"):
        align(a, b)
    with pytest.raises(InputError, match="Pass example_input"):
        align(a, b, iter([x]))
    y = torch.arange(9) % 2
    for batches in ([x], [(x, y)], {"x": x, "labels": y, "offset": torch.zeros(9, 2).double()}):
        for by in ("weights", "activations"):
            assert align(a, b, batches, by=by).overall == pytest.approx(1, abs=1e-12)
        merged = average([a, b, move(a, 2, example_input=x)], batches, progress=False)
        assert check_equivalence(a, merged, x).holds
    assert abs(barrier(a, b, (x, y), points=3, progress=False).height("aligned")) < 1e-9


def test_batches_without_samples_are_left_out() -> None:
    a, b, x, y = mlp(0, norm=True), mlp(1, norm=True), inputs(), labels()
    none = x[:0]
    found, same = (align(a, b, one, by="activations") for one in ([none, x, none], [x]))
    assert found.objective == same.objective
    line, other = (
        barrier(a, b, one, points=3, progress=False) for one in ([(none, y[:0]), (x, y)], [(x, y)])
    )
    assert line.curves == other.curves
    assert line.samples == len(x)
    merged, again = (average([a, b], one, progress=False) for one in ([x, none], [x]))
    assert torch.equal(merged[1].running_var, again[1].running_var)
    for measured in (
        lambda: align(a, b, [none], by="activations"),
        lambda: barrier(a, b, [(none, y[:0])], progress=False),
        lambda: average([a, b], [none], progress=False),
    ):
        with pytest.raises(InputError, match="batches is empty"):
            measured()


def test_features_that_are_not_finite_are_refused() -> None:
    x = inputs()
    x[3, 1] = math.nan
    with pytest.raises(InputError, match="the layer '1' returns on the batches is NaN"):
        align(mlp(0), mlp(1), x, by="activations")
    line = barrier(mlp(0), mlp(1), (x, labels()), points=3, progress=False)
    assert "no barrier: a loss is NaN or infinite on the line naive, naive, corrected" in repr(line)


def test_statistics_that_are_not_finite_are_named() -> None:
    for place in (0, 1):
        networks = [mlp(0, norm=True), mlp(1, norm=True)]
        networks[place][1].running_var[2] = math.inf
        expected = rf"1\.running_var of the network '{'ab'[place]}' has 1 of 7 values"
        with pytest.raises(InputError, match=expected):
            align(*networks)


def test_weights_so_small_that_their_products_vanish() -> None:
    a, b = mlp(0, dtype=torch.float32), mlp(1, dtype=torch.float32)
    with torch.no_grad():
        for one in b.parameters():
            one *= 1e-30
    found = align(a, b)
    assert all(math.isfinite(one) for one in found.objective)
    assert found.objective[-1] <= found.before


def test_networks_without_real_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="meta device"):
        align(mlp(0), mlp(1).to("meta"))
    unreal = nn.Sequential(*(nn.Linear(3, 3, dtype=torch.complex64) for _ in range(2)))
    with pytest.raises(UnmovableError, match=r"0\.weight has complex numbers"):
        move(unreal, 0)
    with pytest.raises(UnmovableError, match=r"0\.weight has complex numbers"):
        align(unreal, unreal)


def test_a_pruned_network_is_refused_by_name() -> None:
    network = mlp(0)
    prune.l1_unstructured(network[2], "weight", 0.3)
    with pytest.raises(NetworkError, match=r"2\.weight was computed from parameters, as pruning"):
        move(network, 0)
    prune.remove(network[2], "weight")
    assert align(network, move(network, 0)).overall == pytest.approx(1, abs=1e-12)


def test_what_is_not_a_network_and_what_wraps_one() -> None:
    a, b = mlp(0), mlp(1)
    found = align(a, b)
    with pytest.raises(InputTypeError, match=r"not a torch\.nn\.Module"):
        found.apply(b.state_dict())  # type: ignore[arg-type]
    wrapped = found.apply(nn.DataParallel(b))
    assert torch.equal(wrapped[0].weight, found.apply(b)[0].weight)


def test_functional_activations_tell_architectures_apart() -> None:
    with pytest.raises(InputError, match=r"relu admits d > 0.*gelu admits d = 1"):
        align(Tied(torch.relu), Tied(nn.functional.gelu))


def test_a_curve_that_does_not_exist() -> None:
    line = barrier(mlp(0), mlp(1), (inputs(1), labels(1)), points=3, progress=False)
    with pytest.raises(OptionError, match="curve='straight' is not a valid choice"):
        line.height("straight")
    assert "1 sample\n" in repr(line)


@pytest.mark.parametrize(
    ("dtype", "device", "allowed", "expected"),
    [
        (torch.float64, "cuda", True, 1e-9),
        (torch.float32, "cuda", True, 1e-2),
        (torch.float32, "cuda", False, 1e-4),
        (torch.float32, "cpu", True, 1e-4),
        (torch.bfloat16, "cpu", False, 1e-2),
    ],
)
def test_the_tolerance_is_that_of_the_arithmetic(
    dtype: torch.dtype, device: str, allowed: bool, expected: float, monkeypatch: Any
) -> None:
    monkeypatch.setattr(equivalence, "allows_tf32", lambda: allowed)
    assert equivalence._tolerance(dtype, device) == expected
