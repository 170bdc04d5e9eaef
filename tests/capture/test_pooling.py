"""Pooling against plain references, for every way in which a tensor may be laid out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from sigmascope.capture.channel_axis import Layout
from sigmascope.capture.marks import Descent
from sigmascope.capture.observer import Call
from sigmascope.capture.pooling import Pooling
from sigmascope.capture.pools import POOLS, Axes, NotSamplesError, UnreadableError
from sigmascope.capture.positions import Draws

N, C = 6, 5


def call(
    axis: int | None,
    *,
    path: str = "block.act",
    sequence_first: bool = False,
    reason: str = "evidence",
    descent: Descent | None = None,
) -> Call:
    return Call(
        path, 0, "relu", Layout(axis, reason), descent or Descent("unknown"), sequence_first
    )


def parted(axis: int | None, parts: int, *, outer: int = 1, path: str = "block.act") -> Call:
    """Samples that each have so many consecutive rows and are repeated as a whole."""
    return call(axis, path=path, descent=Descent("known", 0, outer, parts))


def pooling(pool: Any = "channels", **changed: Any) -> Pooling:
    options: dict[str, Any] = {
        "samples": "batch",
        "channel_axis": {},
        "batch_axis": 0,
        "size": N,
        "masks": {},
        "limit": 2048,
        "generator": torch.Generator().manual_seed(0),
        **changed,
    }
    drawn = options.pop("limit"), options.pop("generator")
    draws = Draws(options["samples"] == "tokens", options["size"], *drawn)
    return Pooling(pool, **options, draws=draws)


def pooled(tensor: Tensor, how: Call, pool: Any = "channels", **changed: Any) -> Tensor:
    way = pooling(pool, **changed)
    return way.matrix(tensor, way.axes(how, tensor))


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


# Layout -> shape, what is known of it, options, and the einsum that brings it to (samples,
# others..., channels).
LAYOUTS: dict[str, tuple[tuple[int, ...], Call, dict[str, Any], str]] = {
    "matrix": ((N, C), call(1), {}, "nc->nc"),
    "matrix, samples behind": ((C, N), call(1), {}, "cn->nc"),
    "channels first": ((N, C, 3, 4), call(1), {}, "nchw->nhwc"),
    "channels first, square": ((N, N, N, N), call(1), {}, "nchw->nhwc"),
    "channels last": ((N, 3, 4, C), call(3), {}, "nhwc->nhwc"),
    "channels last, square": ((N, N, N, N), call(3), {}, "nhwc->nhwc"),
    "channels in the middle": ((N, 3, C, 4), call(2), {}, "nhcw->nhwc"),
    "volume": ((N, C, 2, 3, 4), call(1), {}, "ncdhw->ndhwc"),
    "sequence": ((N, 7, C), call(2), {}, "ntc->ntc"),
    "sequence first": ((7, N, C), call(2), {}, "tnc->ntc"),
    "sequence first, told by the layer": ((N, N, C), call(2, sequence_first=True), {}, "tnc->ntc"),
    "sequence first, told by the user": ((N, N, C), call(2), {"batch_axis": 1}, "tnc->ntc"),
    "sequence first, longer": ((2 * N, N, C), call(2), {}, "tnc->ntc"),
    "samples last": ((C, 7, N), call(0), {}, "ctn->ntc"),
    "known, samples in the middle": (
        (N, N, N, N),
        call(3, descent=Descent("known", 2)),
        {},
        "hwnc->nhwc",
    ),
    "known, samples behind the channels": (
        (N, N, N),
        call(0, descent=Descent("known", 1)),
        {},
        "cnt->ntc",
    ),
    "known, a matrix": ((N, N), call(1, descent=Descent("known", 1)), {}, "cn->nc"),
    "known, against the sizes": ((N, N, C), call(2, descent=Descent("known", 1)), {}, "tnc->ntc"),
}


def ordered(tensor: Tensor, name: str) -> Tensor:
    """(samples, others, channels)."""
    moved = torch.einsum(LAYOUTS[name][3], tensor)
    return moved.reshape(N, -1, moved.shape[-1])


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("pool", ["channels", "sum"])
def test_pools_of_all_layouts(name: str, pool: str) -> None:
    shape, how, options, _ = LAYOUTS[name]
    tensor = numbers(*shape)
    reference = ordered(tensor, name)
    expected = reference.mean(1) if pool == "channels" else reference.sum(1)
    torch.testing.assert_close(pooled(tensor, how, pool, **options), expected)


@pytest.mark.parametrize("name", LAYOUTS)
def test_flatten_keeps_every_value_of_a_sample(name: str) -> None:
    shape, how, options, _ = LAYOUTS[name]
    tensor = numbers(*shape)
    found = pooled(tensor, how, "flatten", **options)
    assert torch.equal(found.sort(1).values, ordered(tensor, name).flatten(1).sort(1).values)


def test_flatten_keeps_the_order() -> None:
    tensor = numbers(N, C, 3, 4)
    assert torch.equal(pooled(tensor, call(1), "flatten"), tensor.flatten(1))
    assert torch.equal(pooled(tensor.movedim(0, 2), call(0), "flatten"), tensor.flatten(1))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((N, C), lambda x: x),
        ((N, 7, C), lambda x: torch.einsum("ntc->nt", x) / C),
        ((N, C, 3, 4), lambda x: torch.einsum("nchw->nc", x) / 12),
        ((N, 3, 4, C), lambda x: torch.einsum("nhwc->nh", x) / (4 * C)),
    ],
)
def test_published_averages_by_the_number_of_axes_alone(
    shape: tuple[int, ...], expected: Callable[[Tensor], Tensor]
) -> None:
    tensor = numbers(*shape)
    torch.testing.assert_close(pooled(tensor, call(len(shape) - 1), "published"), expected(tensor))


@pytest.mark.parametrize("channels", [C, N])
@pytest.mark.parametrize("parts", [1, 4])
def test_windows_are_parts_of_their_sample(parts: int, channels: int) -> None:
    tensor = numbers(parts * N, 7, channels)
    way = pooling()
    how = parted(2, parts)
    assert way.axes(how, tensor) == Axes(0, 2, 1, parts, "evidence")
    reference = tensor.reshape(N, parts * 7, channels)
    torch.testing.assert_close(pooled(tensor, how), reference.mean(1))
    torch.testing.assert_close(pooled(tensor, how, "sum"), reference.sum(1))
    assert torch.equal(pooled(tensor, how, "flatten"), reference.flatten(1))
    assert pooled(tensor, how, samples="tokens").shape == (parts * N * 7, channels)
    if parts > 1:
        repeated = parted(2, 1, outer=parts)
        assert not torch.allclose(pooled(tensor, how), pooled(tensor, repeated))


@pytest.mark.parametrize("channels", [C, N])
@pytest.mark.parametrize(("outer", "inner"), [(2, 1), (3, 4), (N, 1)])
def test_repeated_samples_are_views_of_one(outer: int, inner: int, channels: int) -> None:
    tensor = numbers(outer * N * inner, 7, channels)
    how = parted(2, inner, outer=outer)
    assert pooling().axes(how, tensor) == Axes(0, 2, outer, inner, "evidence")
    reference = tensor.reshape(outer, N, inner, 7, channels).movedim(1, 0).reshape(N, -1, channels)
    torch.testing.assert_close(pooled(tensor, how), reference.mean(1))
    torch.testing.assert_close(pooled(tensor, how, "sum"), reference.sum(1))
    assert torch.equal(pooled(tensor, how, "flatten"), reference.flatten(1))
    assert torch.equal(pooled(tensor, how, samples="tokens"), reference.flatten(0, 1))


def test_windows_of_matrices() -> None:
    tensor = numbers(4 * N, N)
    torch.testing.assert_close(pooled(tensor, parted(1, 4)), tensor.reshape(N, 4, N).mean(1))
    torch.testing.assert_close(
        pooled(tensor, parted(1, 1, outer=4)), tensor.reshape(4, N, N).mean(0)
    )
    behind = call(1, descent=Descent("known", 1, 1, 4))
    torch.testing.assert_close(pooled(tensor.T, behind), tensor.reshape(N, 4, N).mean(1))


def test_multiples_of_the_samples_are_no_samples_by_themselves() -> None:
    """Consecutive parts and repeated views have the same size."""
    with pytest.raises(NotSamplesError, match=r"no axis of \[12, 7, 5\] counts the 6 samples"):
        pooled(numbers(2 * N, 7, C), call(2))


def test_tokens_in_one_axis_are_tokens_of_their_sample() -> None:
    tensor = numbers(N * 7, C)
    torch.testing.assert_close(pooled(tensor, parted(1, 7)), tensor.reshape(N, 7, C).mean(1))
    assert torch.equal(pooled(tensor, parted(1, 7), samples="tokens"), tensor)
    steps_first = parted(1, 1, outer=7)
    torch.testing.assert_close(pooled(tensor, steps_first), tensor.reshape(7, N, C).mean(0))
    assert torch.equal(
        pooled(tensor, steps_first, samples="tokens"),
        tensor.reshape(7, N, C).transpose(0, 1).flatten(0, 1),
    )


def test_drawn_tokens_do_not_depend_on_how_they_lie() -> None:
    tensor = numbers(N, 70, C)
    way = pooling(samples="tokens", limit=20)
    rows = way.matrix(tensor, way.axes(call(2), tensor))
    way = pooling(samples="tokens", limit=20)
    flat = tensor.flatten(0, 1)
    assert torch.equal(way.matrix(flat, way.axes(parted(1, 70), flat)), rows)


def test_one_number_per_sample() -> None:
    tensor = numbers(N)
    for pool in ("channels", "sum", "flatten"):
        assert torch.equal(pooled(tensor, call(None), pool), tensor[:, None])
    assert pooling().axes(call(None), tensor).channels is None
    assert torch.equal(
        pooled(numbers(2 * N), parted(None, 2)), numbers(2 * N).reshape(N, 2).mean(1, keepdim=True)
    )
    assert torch.equal(
        pooled(numbers(2 * N), parted(None, 1, outer=2)),
        numbers(2 * N).reshape(2, N).mean(0)[:, None],
    )


MASK = torch.arange(7) < torch.tensor([7, 5, 3, 1, 0, 6])[:, None]


@pytest.mark.parametrize(
    ("order", "axis", "parts"),
    [
        ("ntc->ntc", 2, 1),
        ("ntc->ntc", 2, 3),
        ("ntc->nct", 1, 1),
        ("ntc->nct", 1, 3),
        ("ntc->tnc", 2, 1),
        ("ntc->ctn", 0, 1),
    ],
)
@pytest.mark.parametrize("pool", ["channels", "sum"])
def test_hidden_tokens_do_not_count(order: str, axis: int, parts: int, pool: str) -> None:
    how = call(axis) if parts == 1 else parted(axis, parts)
    tensor = numbers(parts * N, 7, C)
    mask = MASK.repeat_interleave(parts, 0)
    tensor[~mask] = 1e9
    rows = [
        tensor[i][mask[i]].sum(0) / (max(int(mask[i].sum()), 1) if pool == "channels" else 1)
        for i in range(parts * N)
    ]
    reference = torch.stack(rows).reshape(N, parts, C)
    expected = reference.mean(1) if pool == "channels" else reference.sum(1)
    torch.testing.assert_close(
        pooled(torch.einsum(order, tensor), how, pool, masks={"": MASK}), expected
    )
    assert not torch.allclose(pooled(torch.einsum(order, tensor), how, pool), expected)


@pytest.mark.parametrize("outer", [1, 3])
def test_hidden_tokens_of_flattened_sequences_do_not_count(outer: int) -> None:
    sequences = numbers(outer, N, 7, C)
    sequences[:, ~MASK] = 1e9
    counts = (outer * MASK.sum(1, keepdim=True)).clamp_min(1)
    total = torch.where(MASK[..., None], sequences, 0.0).sum((0, 2))
    flat = sequences.flatten(0, 2)
    how = parted(1, 7, outer=outer)
    torch.testing.assert_close(pooled(flat, how, "sum", masks={"": MASK}), total)
    torch.testing.assert_close(pooled(flat, how, masks={"": MASK}), total / counts)
    assert not torch.allclose(pooled(flat, how), total / counts)
    found = pooled(flat, how, samples="tokens", masks={"": MASK})
    assert torch.equal(found, sequences.transpose(0, 1)[MASK[:, None].expand(N, outer, 7)])


def test_hidden_tokens_of_sequences_with_the_steps_first() -> None:
    sequences = numbers(N, 7, C)
    sequences[~MASK] = 1e9
    flat = sequences.transpose(0, 1).flatten(0, 1)
    how = parted(1, 1, outer=7)
    assert torch.equal(pooled(flat, how, samples="tokens", masks={"": MASK}), sequences[MASK])


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("decoder.layers.0.act", "decoder"),
        ("model.decoder_block.act", "decoder"),
        ("encoder.layers.0.act", ""),
        ("block.act", ""),
        ("block.predecoder", ""),
    ],
)
def test_decoders_have_a_mask_of_their_own(path: str, hidden: str) -> None:
    tensor = numbers(N, 7, C)
    masks = {"": MASK, "decoder": MASK.flip(1)}
    assert pooling(masks=masks).axes(call(2, path=path), tensor).part == hidden
    found = pooled(tensor, call(2, path=path), masks=masks)
    assert torch.equal(found, pooled(tensor, call(2), masks={"": masks[hidden]}))
    other = masks["" if hidden else "decoder"]
    assert not torch.allclose(found, pooled(tensor, call(2), masks={"": other}))
    rows = pooled(tensor, call(2, path=path), samples="tokens", masks=masks)
    assert torch.equal(rows, tensor[masks[hidden]])


def test_a_decoder_without_a_mask_of_its_own_has_that_of_the_network() -> None:
    how = call(2, path="decoder.act")
    assert pooling(masks={"": MASK}).axes(how, numbers(N, 7, C)).part == ""
    assert torch.equal(
        pooled(numbers(N, 7, C), how, samples="tokens", masks={"": MASK}), numbers(N, 7, C)[MASK]
    )


def test_draws_of_two_parts_are_not_confused() -> None:
    tensor = numbers(N, 7, C)
    way = pooling(samples="tokens", masks={"": MASK, "decoder": ~MASK})
    for path, mask in (("encoder.act", MASK), ("decoder.act", ~MASK)):
        assert torch.equal(way.matrix(tensor, way.axes(call(2, path=path), tensor)), tensor[mask])


@pytest.mark.parametrize(
    ("shape", "axis"), [((11, C), 1), ((N, C), 1), ((11, 3, C), 2), ((11,), None)]
)
def test_rows_in_no_known_order_are_samples_of_their_own(
    shape: tuple[int, ...], axis: int | None
) -> None:
    tensor, how = numbers(*shape), call(axis, descent=Descent("lost"))
    axes = pooling(samples="tokens").axes(how, tensor)
    assert (axes.samples, axes.channels) == (None, axis)
    assert axes.reason.endswith("every row a sample, in no known order")
    expected = tensor[:, None] if len(shape) == 1 else tensor.flatten(0, -2)
    assert torch.equal(pooled(tensor, how, samples="tokens"), expected)
    # A mask says nothing of rows whose sample is not known.
    mask = torch.zeros(shape[0], 3, dtype=torch.bool)
    assert torch.equal(
        pooled(tensor, how, samples="tokens", size=shape[0], masks={"": mask}), expected
    )


def test_a_mask_of_another_length_is_not_used() -> None:
    tensor = numbers(N, 8, C)
    assert torch.equal(pooled(tensor, call(2), masks={"": MASK}), pooled(tensor, call(2)))
    assert torch.equal(pooled(numbers(N, C), call(1), masks={"": MASK}), numbers(N, C))


@pytest.mark.parametrize("name", LAYOUTS)
def test_all_tokens_are_rows(name: str) -> None:
    shape, how, options, _ = LAYOUTS[name]
    tensor = numbers(*shape)
    expected = ordered(tensor, name).flatten(0, 1)
    assert torch.equal(pooled(tensor, how, samples="tokens", **options), expected)


@pytest.mark.parametrize("parts", [1, 3])
def test_tokens_that_are_hidden_are_never_drawn(parts: int) -> None:
    tensor = numbers(parts * N, 7, C)
    mask = MASK.repeat_interleave(parts, 0)
    tensor[~mask] = torch.nan
    how = parted(2, parts)
    found = pooled(tensor, how, samples="tokens", masks={"": MASK})
    assert torch.equal(found, tensor[mask])
    few = pooled(tensor, how, samples="tokens", masks={"": MASK}, limit=10)
    assert few.shape == (10, C)
    assert few.isfinite().all()
    assert pooled(tensor, how, samples="tokens").isnan().any()


def test_drawn_tokens_are_the_same_rows_in_order() -> None:
    x = torch.arange(N * 70.0).reshape(N, 70, 1).expand(N, 70, C)
    way = pooling(samples="tokens", limit=20)
    axes = way.axes(call(2), x)
    rows = way.matrix(x, axes)
    assert rows.shape == (20, C)
    assert (rows[1:, 0] > rows[:-1, 0]).all()
    assert torch.equal(way.matrix(-x, axes), -rows)
    moved = x.movedim(2, 1)
    assert torch.equal(way.matrix(moved, way.axes(call(1), moved)), rows)


def test_draws_follow_the_seed() -> None:
    def draw(seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return pooled(numbers(N, 70, C), call(2), samples="tokens", limit=20, generator=generator)

    state = torch.get_rng_state()
    assert torch.equal(draw(3), draw(3))
    assert not torch.equal(draw(3), draw(4))
    assert torch.equal(torch.get_rng_state(), state)


def test_draws_are_uniform() -> None:
    x = torch.arange(40.0).reshape(N - 2, 10, 1)
    counts = torch.zeros(40)
    way = pooling(samples="tokens", size=4, limit=10)
    for _ in range(400):
        way.draws._drawn.clear()
        counts[way.matrix(x, Axes(0, 2, 1, 1, ""))[:, 0].long()] += 1
    assert counts.sum() == 4000
    assert (counts - 100).abs().max() < 45  # five standard deviations


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("pool", [*POOLS, lambda x: x.flatten(1)])
def test_half_types_are_raised(dtype: torch.dtype, pool: Any) -> None:
    found = pooled(torch.ones(N, C, 3, 3, dtype=dtype), call(1), pool)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mask", [None, torch.ones(N, 4096, dtype=torch.bool)])
def test_half_types_are_summed_in_float32(dtype: torch.dtype, mask: Tensor | None) -> None:
    tensor = (torch.rand(N, 4096, C) + 100).to(dtype)
    expected = tensor.double().sum(1).float()
    # the control
    assert torch.isinf(tensor.sum(1)).any() or not torch.allclose(
        tensor.sum(1).float(), expected, rtol=1e-5
    )
    torch.testing.assert_close(
        pooled(tensor, call(2), "sum", masks={"": mask}), expected, rtol=1e-5, atol=0
    )
    torch.testing.assert_close(
        pooled(tensor, call(2), masks={"": mask}), expected / 4096, rtol=1e-5, atol=0
    )


@pytest.mark.parametrize("shape", [(N,), (N, C), (N, 1, C), (N, 4, C), (2 * N, 1, C), (N, 1, 1, C)])
@pytest.mark.parametrize("mask", [None, torch.ones(N, 1, dtype=torch.bool)])
@pytest.mark.parametrize(
    ("pool", "samples"),
    [
        ("channels", "tokens"),
        (lambda x: x.reshape(len(x), -1), "batch"),
        *((pool, "batch") for pool in POOLS),
    ],
)
def test_a_matrix_does_not_change_with_the_tensor(
    shape: tuple[int, ...], mask: Tensor | None, pool: Any, samples: str
) -> None:
    if pool == "published" and len(shape) == 1:
        shape = (N, C)  # it has no rule for fewer axes
    tensor = numbers(*shape)
    how = parted(len(shape) - 1 if len(shape) > 1 else None, shape[0] // N)
    found = pooled(tensor, how, pool, samples=samples, masks={"": mask})
    kept = found.clone()
    tensor.zero_()
    assert torch.equal(found, kept)
    assert found.ndim == 2
    assert found.any()


@pytest.mark.parametrize(
    ("patterns", "axis", "reason"),
    [
        ({}, 1, "evidence"),
        ({"block.act": 2}, 2, "channel_axis={'block.act': 2}"),
        ({"block.*": -1}, 3, "channel_axis={'block.*': -1}"),
        ({"other*": 2, "*": 3}, 3, "channel_axis={'*': 3}"),
        ({"block*": 2, "*": 3}, 2, "channel_axis={'block*': 2}"),
        ({"BLOCK*": 2}, 1, "evidence"),
    ],
)
def test_the_user_overrules_by_pattern(patterns: dict[str, int], axis: int, reason: str) -> None:
    axes = pooling(channel_axis=patterns).axes(call(1), numbers(N, 3, 4, C))
    assert (axes.channels, axes.reason) == (axis, reason)


def test_an_unknown_layout_can_be_overruled() -> None:
    tensor = numbers(N, 3, C)
    found = pooled(tensor, call(None), channel_axis={"*": -1})
    torch.testing.assert_close(found, tensor.mean(1))


UNREADABLE: dict[str, tuple[type[Exception], Tensor, Call, dict[str, Any], str]] = {
    "number": (NotSamplesError, torch.tensor(1.0), call(None), {}, "a single number, not samples"),
    "weights": (
        NotSamplesError,
        numbers(N, C),
        call(1, descent=Descent("constant")),
        {},
        "computed from the weights alone, it does not depend on the samples",
    ),
    "weights, token by token": (
        NotSamplesError,
        numbers(N, C),
        call(1, descent=Descent("constant")),
        {"samples": "tokens"},
        "computed from the weights alone",
    ),
    "merged": (
        NotSamplesError,
        numbers(N, C),
        call(1, descent=Descent("merged")),
        {},
        "a tensor of shape [6, 5] that no longer has an axis of samples",
    ),
    "merged, token by token": (
        NotSamplesError,
        numbers(N, C),
        call(1, descent=Descent("merged")),
        {"samples": "tokens"},
        "no longer has an axis of samples",
    ),
    "lost": (
        UnreadableError,
        numbers(N, C),
        call(1, descent=Descent("lost")),
        {},
        "which sample each row of [6, 5] belongs to is not known, so they cannot be averaged "
        "by sample; samples='tokens'",
    ),
    "known, both": (
        UnreadableError,
        numbers(N, 7, 9),
        call(1, descent=Descent("known", 1)),
        {},
        "axis 1 would be both samples and channels",
    ),
    "known, overruled onto the samples": (
        UnreadableError,
        numbers(N, 7, 9),
        call(2, descent=Descent("known", 1)),
        {"channel_axis": {"*": 1}},
        "channel_axis={'*': 1} does not fit",
    ),
    "a function that fails": (
        UnreadableError,
        numbers(N, C),
        call(1),
        {"pool": lambda x: x.reshape(7)},
        "the function given as pool raised RuntimeError: shape '[7]' is invalid",
    ),
    "two axes as long as the batch, none where it should be": (
        NotSamplesError,
        numbers(7, N, N),
        call(2),
        {},
        "no axis of [7, 6, 6] counts the 6 samples of the batch",
    ),
    "no samples": (
        NotSamplesError,
        numbers(5, 7, 9),
        call(2),
        {},
        "no axis of [5, 7, 9] counts the 6 samples of the batch",
    ),
    "no samples in a vector": (
        NotSamplesError,
        numbers(C),
        call(None),
        {},
        "no axis of [5] counts the 6 samples",
    ),
    "no evidence": (
        UnreadableError,
        numbers(N, 7, 9),
        call(None, reason="nothing is known; why"),
        {},
        "nothing is known; why",
    ),
    "both": (
        UnreadableError,
        numbers(N, 7, 9),
        call(0),
        {},
        "axis 0 would be both samples and channels; pass channel_axis={pattern: axis}",
    ),
    "overruled too far": (
        UnreadableError,
        numbers(N, 7, 9),
        call(2),
        {"channel_axis": {"block.*": 3}},
        "channel_axis={'block.*': 3} does not fit a tensor of shape [6, 7, 9]",
    ),
    "overruled onto the samples": (
        UnreadableError,
        numbers(N, 7, 9),
        call(2),
        {"channel_axis": {"block.*": -3}},
        "channel_axis={'block.*': -3} does not fit",
    ),
    "published": (
        UnreadableError,
        numbers(N, C, 2, 2, 2),
        call(1),
        {"pool": "published"},
        "the published code has no rule for 5 axes",
    ),
    "a function that returns a vector": (
        UnreadableError,
        numbers(N, C),
        call(1),
        {"pool": lambda x: x[:, 0]},
        "the function given as pool returned a tensor of shape (6,), not a matrix (n, d)",
    ),
    "a function that returns no tensor": (
        UnreadableError,
        numbers(N, C),
        call(1),
        {"pool": lambda x: x.tolist()},
        "the function given as pool returned a list, not a matrix (n, d)",
    ),
}


@pytest.mark.parametrize(
    ("error", "tensor", "how", "options", "message"), UNREADABLE.values(), ids=UNREADABLE
)
def test_unreadable(
    error: type[Exception], tensor: Tensor, how: Call, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UnreadableError, match=re.escape(message)) as caught:
        pooled(tensor, how, **options)
    assert caught.type is error


def test_a_function_as_pool_sees_the_tensor_itself() -> None:
    tensor = numbers(N, C, 3)
    assert torch.equal(pooled(tensor, call(1), lambda x: x[:, :, 0]), tensor[:, :, 0])
