"""Sums that merge, and the population score they determine."""

from __future__ import annotations

import functools
import itertools
import operator

import mpmath
import numpy as np
import pytest
import torch
from torch import Tensor

import sigmascope as sg
from sigmascope.errors import FileFormatError, InputError, InputTypeError
from sigmascope.maths import kept_rows, memory, moments as module, paired_score, population, scoring
from sigmascope.maths.grouped_sums import GROUPS
from sigmascope.maths.moments import Moments
from sigmascope.maths.population import design_of, samples_needed
from sigmascope.maths.scoring import score_all


def samples(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) @ (np.eye(d) + 0.3 * rng.standard_normal((d, d))) + 0.3
    return x, np.maximum(x, 0)


def accumulated(x, y, *sizes: int, **options) -> Moments:
    """Return the moments of samples that arrive in batches of the given sizes, in turn."""
    moments, start, turns = Moments(**options), 0, itertools.cycle(sizes or (len(x),))
    while start < len(x):
        stop = start + next(turns)
        moments.update(x[start:stop], y[start:stop])
        start = stop
    return moments


def merged(parts) -> Moments:
    return functools.reduce(operator.add, parts)


def assert_same(one: sg.PopulationScore, other: sg.PopulationScore, tolerance: float) -> None:
    for name in ("score", "stderr", "low", "high", "plain"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), abs=tolerance)
    assert one.influence == pytest.approx(other.influence, abs=tolerance)
    assert (one.n, one.dim, one.reason) == (other.n, other.dim, other.reason)


class TestSums:
    @pytest.mark.parametrize("sizes", [(1,), (7,), (64, 3), (400,)])
    def test_any_batch_size_gives_the_same(self, sizes):
        x, y = samples(400, 5)
        assert_same(accumulated(x, y, *sizes).score(), accumulated(x, y).score(), 1e-12)

    def test_folded_rows_give_the_same_as_kept_ones(self):
        x, y = samples(600, 20)
        kept, folded = accumulated(x, y, 100), accumulated(x, y, 100)
        folded._fold()
        assert kept._rows
        assert not folded._rows
        assert_same(kept.score(), folded.score(), 1e-12)

    def test_rows_become_sums_when_they_take_more_memory(self, monkeypatch):
        x, y = samples(2000, 4)
        assert accumulated(x, y, 100)._sums is None  # little enough to wait
        monkeypatch.setattr(kept_rows, "KEPT", 0)
        moments = accumulated(x, y, 100)
        assert moments._sums is not None
        assert (
            sum(rows.x.nbytes + rows.y.nbytes for rows in moments._rows.parts) <= 8 * GROUPS * 8**2
        )

    def test_any_order_and_tree_of_merges(self):
        x, y = samples(640, 6, seed=1)
        parts = []
        for start in range(0, 640, 40):
            part = Moments()
            part.update(x[start : start + 40], y[start : start + 40], start)
            parts.append(part)
        whole = accumulated(x, y).score()
        order = np.random.default_rng(0).permutation(len(parts))
        assert_same(merged(parts[k] for k in order).score(), whole, 1e-12)
        pairs = [parts[k] + parts[k + 1] for k in range(0, 16, 2)]
        tree = (pairs[5] + pairs[0]) + (merged(pairs[1:5]) + (pairs[7] + pairs[6]))
        assert_same(tree.score(), whole, 1e-12)
        assert parts[0].n == 40  # untouched

    def test_merging_around_different_shifts(self):
        x, y = samples(4000, 3, seed=2)
        far = accumulated(x[:2000] + 5, y[:2000] + 5, 2000)
        near = Moments()
        near.update(x[2000:], y[2000:], 2000)
        far._fold(), near._fold()
        together = Moments()
        together.update(
            np.concatenate([x[:2000] + 5, x[2000:]]), np.concatenate([y[:2000] + 5, y[2000:]])
        )
        assert_same((near + far).score(), together.score(), 1e-12)

    def test_the_number_of_a_sample_decides_its_group(self):
        x, y = samples(512, 4)
        order = np.random.default_rng(3).permutation(512)
        shuffled = Moments()
        shuffled.update(x[order], y[order], order)
        assert_same(shuffled.score(), accumulated(x, y).score(), 1e-12)
        renumbered = Moments()
        renumbered.update(x[order], y[order])
        assert renumbered.score().influence != pytest.approx(shuffled.score().influence, abs=1e-6)

    def test_numpy_and_torch_agree(self):
        x, y = samples(300, 4)
        tensors = accumulated(torch.from_numpy(x), torch.from_numpy(y))
        assert_same(tensors.score(), accumulated(x, y).score(), 1e-12)
        single = [one.astype(np.float32) for one in (x, np.full_like(y, 3) + 1e-7 * y)]
        for given in (single, [torch.from_numpy(one) for one in single]):
            assert "output is constant up to rounding" in accumulated(*given).score().reason

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
    def test_half_types(self, dtype):
        x, y = (torch.from_numpy(one).to(dtype) for one in samples(400, 4))
        wide = accumulated(x.double(), y.double()).score()
        assert accumulated(x, y).score().score == pytest.approx(wide.score, abs=1e-12)

    def test_wide_rows_share_cells(self, monkeypatch):
        monkeypatch.setattr(module, "SHARED", 10)
        monkeypatch.setattr(scoring, "SHARED", 10)
        monkeypatch.setattr(population, "WIDE", 10)
        x, y = samples(160, 12)
        shared, split = accumulated(x, y), accumulated(x, y)
        split._fold()
        assert len(shared._folded().second) == 3
        assert len(split._folded().second) == GROUPS
        assert_same(shared.score(), split.score(), 1e-12)


class TestPrecision:
    def test_a_large_mean_costs_no_digits(self):
        """Against 60 digits."""
        x, y = samples(64, 3, seed=4)
        x, y = x + 1e7, y + 3e8
        found = accumulated(x, y, 7, eps=0.0).score()
        assert found.plain == pytest.approx(exact_plain(x, y), abs=1e-8)
        # negative control: float64 sums without a shift
        naive = np.cov(y.T) - (y.T @ y - 64 * np.outer(y.mean(0), y.mean(0))) / 63
        assert np.abs(naive).max() > 1e-3

    @pytest.mark.parametrize("power", [*range(-30, 31, 10), -100, -80, 80, 100, 140])
    def test_the_scale_does_not_matter(self, power):
        x, y = samples(400, 6)
        c = 10.0**power
        assert_same(accumulated(c * x, c * y, 50).score(), accumulated(x, y, 50).score(), 1e-9)

    def test_a_constant_column_changes_nothing(self):
        x, y = samples(400, 6)
        mask = np.full((400, 1), -1e30)
        masked = accumulated(np.hstack([x, mask]), np.hstack([y, mask]), 37).score()
        assert masked.score == pytest.approx(accumulated(x, y).score().score, abs=1e-6)

    @pytest.mark.parametrize("wide", [False, True])
    def test_a_huge_column_that_is_constant_up_to_rounding_changes_nothing(self, monkeypatch, wide):
        if wide:  # groups share matrices of products
            monkeypatch.setattr(module, "SHARED", 4)
            monkeypatch.setattr(population, "WIDE", 4)
        x, y = (one.astype(np.float32) for one in samples(400, 6))
        steps = np.random.default_rng(1).integers(-1, 2, (400, 1))
        mask = (-1e30 * (1 + 1e-7 * steps)).astype(np.float32)
        assert len(np.unique(mask)) > 1
        found = accumulated(np.hstack([x, mask]), np.hstack([y, mask]), 37).score()
        assert found.score == pytest.approx(accumulated(x, y).score().score, abs=1e-6)
        assert found.influence == pytest.approx(accumulated(x, y).score().influence, abs=1e-6)
        mask *= 1 + np.float32(1e-5) * steps.astype(np.float32)  # more than rounding
        varying = accumulated(np.hstack([x, mask]), np.hstack([y, mask]), 37).score()
        assert varying.score > 0.99

    def test_plain_is_the_paired_score_of_everything(self):
        x, y = samples(500, 8)
        paired = sg.affinity(x, y, covariance="unbiased", coupling="paired", eps=0.01)
        found = accumulated(x, y, eps=0.01).score()
        # affinity averages distances over n, the covariances divide by n - 1
        assert (1 - found.plain) ** 2 * 499 / 500 == pytest.approx(
            (1 - paired.score) ** 2, abs=1e-12
        )


def exact_plain(x: np.ndarray, y: np.ndarray) -> float:
    """Return the score of paired samples in high precision, by matrix roots."""
    with mpmath.workdps(60):
        n = len(x)

        def centered(values: np.ndarray) -> mpmath.matrix:
            matrix = mpmath.matrix(values.tolist())
            for k in range(matrix.cols):
                mean = mpmath.fsum(matrix[i, k] for i in range(n)) / n
                for i in range(n):
                    matrix[i, k] -= mean
            return matrix

        a, b = centered(x), centered(y)
        sx, sy, sxy = (left.T * right / (n - 1) for left, right in ((a, a), (b, b), (a, b)))
        root, back = symmetric_power(sx, 0.5), symmetric_power(sx, -0.5)
        affine = back * symmetric_power(root * sy * root, 0.5) * back
        trace = mpmath.fsum(sy[k, k] for k in range(sy.rows))
        product = affine * sxy
        share = 1 - mpmath.fsum(product[k, k] for k in range(sy.rows)) / trace
        return float(1 - mpmath.sqrt(share))


def symmetric_power(matrix: mpmath.matrix, power: float) -> mpmath.matrix:
    values, vectors = mpmath.eigsy(matrix)
    return vectors * mpmath.diag([value**power for value in values]) * vectors.T


class TestScore:
    def test_the_influences_are_those_of_deleting_a_group(self):
        x, y = samples(8000, 4, seed=5)
        found = accumulated(x, y).score()
        assert sum(found.influence) == pytest.approx(0, abs=1e-15)
        for group in range(GROUPS):
            keep = np.arange(8000) % GROUPS != group
            change = accumulated(x[keep], y[keep]).score().plain - found.plain
            assert change == pytest.approx(-found.influence[group] * 8 / 7, abs=3e-4)

    def test_the_bias_goes(self):
        """Of 60 runs of 128 samples with 16 channels, against 200,000 samples."""
        truth = accumulated(*samples_of(200_000, 16, seed=99)).score().plain
        runs = [accumulated(*samples_of(128, 16, seed)).score() for seed in range(60)]
        plain, debiased = (
            np.mean([getattr(run, name) for run in runs]) - truth for name in ("plain", "score")
        )
        assert plain > 0.01
        assert abs(debiased) < plain / 5

    @pytest.mark.parametrize("slope", [1.0, 0.25])
    def test_an_affine_map_scores_one(self, slope):
        x, _ = samples(300, 5)
        found = accumulated(x, slope * x + 3).score()
        assert (found.score, found.stderr, found.high) == (1.0, 0.0, 1.0)

    def test_a_reflection_is_far_from_one(self):
        x, _ = samples(300, 5)
        assert accumulated(x, -x).score().score < 0

    def test_samples_of_one_number_count_as_one_group(self):
        """Repeating every row four times does not narrow the interval."""
        x, y = samples(400, 4)
        once, often = accumulated(x, y).score(), Moments()
        often.update(np.repeat(x, 4, axis=0), np.repeat(y, 4, axis=0), np.repeat(np.arange(400), 4))
        assert often.score().stderr > 0.9 * once.stderr
        apart = accumulated(np.repeat(x, 4, axis=0), np.repeat(y, 4, axis=0)).score()
        assert apart.stderr != pytest.approx(often.score().stderr, rel=0.01)

    def test_a_score_prints_and_is_a_number(self):
        found = accumulated(*samples(400, 4)).score()
        assert repr(found).startswith("PopulationScore(score=0.")
        assert float(found) == found.score

    def test_many_are_scored_as_one_by_one(self):
        several = [accumulated(*samples(200, d, seed=d)) for d in (3, 7, 3)]
        for found, one in zip(score_all(several), several, strict=True):
            assert_same(found, one.score(), 1e-12)


def samples_of(n: int, d: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    return x, x.relu()


class TestReasons:
    def test_too_few_samples(self):
        found = accumulated(*samples(100, 64)).score()
        assert np.isnan(found.score)
        assert found.influence == ()
        assert found.reason == "100 samples are too few for 64 channels: 160 would do"
        assert not np.isnan(accumulated(*samples(samples_needed(64), 64)).score().score)

    def test_what_is_constant(self):
        x, y = samples(300, 4)
        assert accumulated(x, 0 * x + 0.1).score().reason == "the output is constant up to rounding"
        assert accumulated(0 * x - 7.3, y).score().reason == "the input is constant up to rounding"
        assert accumulated(x, 1e-25 * y).score().reason == ""

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_values_that_are_not_numbers(self, bad):
        x, y = samples(300, 4)
        x[17, 2] = bad
        assert "contains NaN, infinite" in accumulated(x, y).score().reason

    def test_one_number_for_all(self):
        x, y = samples(300, 4)
        moments = Moments()
        moments.update(x, y, np.zeros(300, dtype=int))
        assert "8 groups" in moments.score().reason

    def test_no_sample_at_all(self):
        assert Moments().score().reason == "no samples yet"

    def test_an_output_that_varies_in_one_half_only(self):
        x, y = samples(320, 3)
        y[np.arange(320) % 2 == 0] = 0
        found = accumulated(x, y).score()
        assert np.isnan(found.score)
        assert "does not vary" in found.reason

    def test_what_does_not_fit(self, monkeypatch):
        monkeypatch.setattr(scoring, "free_memory", lambda device: 2**10)
        monkeypatch.setattr(scoring, "LITTLE", 0)
        reason = accumulated(*samples(200, 20)).score().reason
        assert "20 channels need about" in reason
        assert "pool to fewer channels" in reason

    def test_rows_beyond_the_memory_are_not_kept(self, monkeypatch):
        monkeypatch.setattr(memory, "free_memory", lambda device: 2**10)
        monkeypatch.setattr(module, "LITTLE", 2**12)
        x, y = samples(400, 20)
        moments = accumulated(x, y, 50)
        assert (moments.n, moments._rows.parts) == (400, [])
        assert "no memory is free for more" in moments.score().reason
        assert (Moments() + moments).score().reason == moments.score().reason

    def test_newer_rows_leave_an_accelerator_too(self, monkeypatch):
        asked = []
        monkeypatch.setattr(module, "lacks_memory", lambda device, wanted: asked.append(device))
        monkeypatch.setattr(module, "LITTLE", 0)
        host, other = torch.ones(4, 2), torch.ones(4, 2, device="meta")
        moments = Moments()
        moments.take(host, host, rounding=0)
        moments.take(other, other, rounding=0)
        assert [device.type for device in asked] == ["cpu", "meta", "cpu"]

    def test_rows_are_copied(self):
        """A buffer that is filled again and again gives what separate arrays give."""
        x, y = (torch.from_numpy(one) for one in samples(400, 4))
        buffers, reused = (torch.empty(50, 4), torch.empty(50, 4)), Moments()
        buffers = tuple(one.double() for one in buffers)
        for start in range(0, 400, 50):
            for buffer, values in zip(buffers, (x, y), strict=True):
                buffer.copy_(values[start : start + 50])
            reused.update(*buffers)
        assert_same(reused.score(), accumulated(x, y).score(), 1e-12)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
    def test_the_rounding_of_a_type_is_constant(self, dtype):
        x, _ = samples(300, 4)
        step = torch.finfo(dtype).eps
        rng = np.random.default_rng(0)
        jitter = torch.from_numpy(1 + step * rng.integers(0, 2, (300, 4))).to(dtype)
        moments = Moments()
        moments.update(torch.from_numpy(x).to(dtype), jitter)
        assert moments.score().reason == "the output is constant up to rounding"
        wide = accumulated(x, jitter.double().numpy())
        assert wide.score().reason == ""  # in float64 the same values vary


class TestInput:
    def test_widths_must_agree(self):
        moments = accumulated(*samples(50, 3))
        with pytest.raises(InputError, match="x has 4 columns, and the samples so far have 3"):
            moments.update(*samples(50, 4))
        with pytest.raises(InputError, match="cannot be merged"):
            moments.merge(accumulated(*samples(50, 4)))
        assert moments.n == 50

    def test_rows_must_agree(self):
        x, y = samples(50, 3)
        with pytest.raises(InputError, match="x has 50 rows and y 49"):
            Moments().update(x, y[1:])

    @pytest.mark.parametrize("index", [np.arange(49), np.zeros((50, 1), dtype=int)])
    def test_one_number_per_row(self, index):
        with pytest.raises(InputError, match="one for each of the 50 rows"):
            Moments().update(*samples(50, 3), index)

    @pytest.mark.parametrize("index", ["first", [None, 1], object()])
    def test_numbers_are_numbers(self, index):
        with pytest.raises(InputTypeError, match="index must be whole numbers, got "):
            Moments().update(np.ones((2, 3)), np.ones((2, 3)), index=index)

    def test_numbers_are_whole(self):
        with pytest.raises(InputTypeError, match="index must be whole numbers"):
            Moments().update(*samples(50, 3), np.arange(50.0))

    def test_only_moments_are_merged(self):
        with pytest.raises(InputTypeError, match="other is a int"):
            Moments().merge(3)  # type: ignore[arg-type]


class TestFiles:
    @pytest.mark.parametrize("fold", [True, False])
    def test_round_trip(self, tmp_path, fold):
        x, y = samples(600, 5)
        moments = accumulated(x[:400], y[:400], 50)
        if fold:
            moments._fold()
        path = moments.save(tmp_path / "sums.safetensors")
        again = Moments.load(path)
        assert_same(again.score(), moments.score(), 1e-12)
        again.update(x[400:], y[400:])  # the count runs on
        assert_same(again.score(), accumulated(x, y).score(), 1e-12)

    def test_other_files_are_refused(self, tmp_path):
        from sigmascope.store import write_features

        path = tmp_path / "other.safetensors"
        write_features(path, {"a": torch.ones(2)}, {})
        with pytest.raises(FileFormatError, match="holds no moments"):
            Moments.load(path)
        accumulated(*samples(400, 3)).save(path)
        tensors, info = module.read_features(path)
        tensors["sums.shift"] = torch.ones(5, dtype=torch.float64)
        info["moments"]["sums"] = True
        write_features(path, tensors, info)
        with pytest.raises(FileFormatError, match="holds no moments"):
            Moments.load(path)


@pytest.mark.parametrize("eps", [None, 0.1])
def test_matrix_products_give_the_same_scores(eps):
    """As they are computed on a GPU."""
    x, y = (torch.from_numpy(one) for one in samples(500, 12))
    joint = torch.stack([torch.cov(torch.cat([x[:n], y[:n]], dim=1).T) for n in (500, 100, 14)])
    parts = joint[:, :12, :12], joint[:, 12:, 12:], joint[:, :12, 12:]
    given = paired_score._in_units(*parts, eps)
    expected = paired_score.scores_of(*parts, eps=eps)
    assert 1 - paired_score._shares_by_products(given).sqrt() == pytest.approx(expected, abs=1e-9)


def test_designs_are_balanced():
    for dim in (8, 200):
        for parts in (design_of(dim).quarters, design_of(dim).halves):
            counts = np.bincount(np.concatenate(parts), minlength=GROUPS)
            assert len({*counts}) == 1
