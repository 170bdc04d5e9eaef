"""Monomial matrices against dense ones: every operation, computed from the factors, is that of the
matrices.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.symmetry import Monomial

# Powers of two: products and quotients are exact, so equality may be asked for.
SCALES = st.sampled_from([-4.0, -1.0, -0.5, 0.25, 1.0, 2.0, 8.0])


@st.composite
def monomials(draw: st.DrawFn, n: int | None = None) -> Monomial:
    size = draw(st.integers(1, 6)) if n is None else n
    scales = draw(st.lists(SCALES, min_size=size, max_size=size))
    return Monomial(torch.tensor(draw(st.permutations(range(size)))), scales)


PAIRS = st.integers(1, 6).flatmap(lambda n: st.tuples(monomials(n), monomials(n)))
TRIPLES = st.integers(1, 5).flatmap(lambda n: st.tuples(monomials(n), monomials(n), monomials(n)))

fifty = settings(max_examples=50)


def same(first: Monomial, second: Monomial) -> bool:
    return torch.equal(first.permutation, second.permutation) and torch.equal(
        first.scales, second.scales
    )


def by_hand(element: Monomial) -> torch.Tensor:
    """P diag(d), from its two factors as matrices."""
    P = torch.eye(len(element), dtype=torch.float64)[element.permutation]
    return P @ torch.diag(element.scales)


@fifty
@given(monomials())
def test_matrix_is_a_scaling_then_a_permutation(element: Monomial) -> None:
    assert torch.equal(element.matrix(), by_hand(element))
    x = torch.arange(1.0, len(element) + 1, dtype=torch.float64)
    order, scales = element.permutation.tolist(), element.scales.tolist()
    expected = [scales[order[i]] * float(x[order[i]]) for i in range(len(element))]
    assert element.apply(x).tolist() == expected == (element.matrix() @ x).tolist()


@fifty
@given(monomials())
def test_inverse_and_transpose(element: Monomial) -> None:
    identity = Monomial.identity(len(element))
    assert same(element @ element.inverse(), identity)
    assert same(element.inverse() @ element, identity)
    assert torch.equal(element.transpose().matrix(), element.matrix().T)
    assert same(element.inverse().inverse(), element)


@fifty
@given(PAIRS)
def test_product_is_that_of_the_matrices(pair: tuple[Monomial, Monomial]) -> None:
    first, second = pair
    assert torch.equal((first @ second).matrix(), first.matrix() @ second.matrix())
    assert same((first @ second).inverse(), second.inverse() @ first.inverse())
    assert same((first @ second).transpose(), second.transpose() @ first.transpose())


@fifty
@given(TRIPLES)
def test_product_is_associative(triple: tuple[Monomial, Monomial, Monomial]) -> None:
    first, second, third = triple
    assert same((first @ second) @ third, first @ (second @ third))


def test_products_do_not_commute() -> None:
    swap, scale = Monomial([1, 0], [1.0, 1.0]), Monomial([0, 1], [2.0, 1.0])
    assert not same(swap @ scale, scale @ swap)


@fifty
@given(monomials(4), st.integers(0, 2))
def test_acts_on_any_axis(element: Monomial, axis: int) -> None:
    x = torch.randn(4, 4, 4, generator=torch.Generator().manual_seed(axis), dtype=torch.float64)
    kept = x.clone()
    expected = torch.movedim(torch.tensordot(element.matrix(), x, dims=([1], [axis])), 0, axis)
    torch.testing.assert_close(element.apply(x, axis), expected, atol=0, rtol=0)
    assert torch.equal(element.apply(x, axis - 3), element.apply(x, axis))
    assert torch.equal(x, kept)


@fifty
@given(monomials(3))
def test_transposed_inverse_multiplies_from_the_right(element: Monomial) -> None:
    W = torch.arange(12.0, dtype=torch.float64).reshape(4, 3)
    assert torch.equal(element.inverse().transpose().apply(W, 1), W @ element.inverse().matrix())


@fifty
@given(monomials(), st.integers(1, 4))
def test_spread_is_a_kronecker_product(element: Monomial, copies: int) -> None:
    expected = torch.kron(element.matrix(), torch.eye(copies, dtype=torch.float64))
    assert torch.equal(element.spread(copies).matrix(), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_keeps_dtype_and_gradient(dtype: torch.dtype) -> None:
    x = torch.ones(2, 3, dtype=dtype, requires_grad=True)
    y = Monomial([2, 0, 1], [1.0, 2.0, 4.0]).apply(x, 1)
    assert y.dtype == dtype
    assert y[0].tolist() == [4, 1, 2]
    y.sum().backward()
    assert x.grad is not None
    assert x.grad[0].tolist() == [1, 2, 4]


def test_flags() -> None:
    assert Monomial.identity(3).is_permutation
    assert Monomial([1, 0], [1.0, 1.0]).is_permutation
    assert not Monomial([1, 0], [1.0, 2.0]).is_permutation


def test_is_closed_to_later_changes() -> None:
    order, scales = torch.tensor([1, 0]), torch.tensor([2.0, 3.0], dtype=torch.float64)
    element = Monomial(order, scales)
    order[0], scales[0] = 0, 9.0
    assert element.permutation.tolist() == [1, 0]
    assert element.scales.tolist() == [2, 3]
    with pytest.raises(AttributeError, match="scales"):
        element.scales = scales  # type: ignore[misc]


def test_reads_numbers_in_full_precision() -> None:
    assert Monomial([0], [0.1]).scales.item() == 0.1
    assert Monomial(np.array([0]), np.array([0.1])).scales.item() == 0.1
    assert Monomial(torch.tensor([0], dtype=torch.int32), [2]).scales.dtype == torch.float64


def test_prints_itself() -> None:
    assert repr(Monomial([1, 0], [0.5, -2])) == "Monomial(permutation=[1, 0], scales=[0.5, -2])"
    assert repr(Monomial.identity(9)).count("… 9") == 2


@pytest.mark.parametrize(
    ("permutation", "scales", "error", "message"),
    [
        ([0, 0], [1.0, 1.0], InputError, "not each of 0 … 1 once"),
        ([1, 2], [1.0, 1.0], InputError, "not each of 0 … 1 once"),
        ([0, 1], [1.0], InputError, "Pass equal numbers"),
        ([0, 1], [1.0, 0.0], InputError, r"scales\[1\] is 0"),
        ([0, 1], [np.nan, 1.0], InputError, r"scales\[0\] is nan"),
        ([0, 1], [np.inf, 1.0], InputError, r"scales\[0\] is inf"),
        ([0.0, 1.0], [1.0, 1.0], InputTypeError, "whole numbers"),
        ([False, True], [1.0, 1.0], InputTypeError, "whole numbers"),
        ([], [], InputError, "n ≥ 1"),
        ([[0]], [1.0], InputError, r"shape \(1, 1\)"),
        ("swap", [1.0], InputTypeError, "vector of numbers"),
        ([0], None, InputTypeError, "vector of numbers"),
    ],
)
def test_refuses(permutation: object, scales: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Monomial(permutation, scales)  # type: ignore[arg-type]


def test_refuses_what_does_not_fit() -> None:
    element = Monomial.identity(3)
    with pytest.raises(InputError, match="3 and 2 channels"):
        element @ Monomial.identity(2)
    with pytest.raises(InputError, match="axis 1 of x must hold 3 channels"):
        element.apply(torch.ones(3, 4), 1)
    with pytest.raises(InputError, match="axis 2 of x must hold"):
        element.apply(torch.ones(3, 3), 2)
    with pytest.raises(InputTypeError, match="floating tensor"):
        element.apply(torch.ones(3, dtype=torch.long))
    with pytest.raises(OptionError, match="copies must be a whole number >= 1, got 0"):
        element.spread(0)
    with pytest.raises(InputError, match="is inf"):
        Monomial([0], [1e-320]).inverse()
    with pytest.raises(TypeError, match="unsupported operand"):
        element @ 3  # type: ignore[operator]
