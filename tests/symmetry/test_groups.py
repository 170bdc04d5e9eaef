"""The laws of intertwiner groups over the whole table, with negative controls outside."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from sigmascope.errors import InputError, InputTypeError, OptionError
from sigmascope.symmetry import Group, Monomial, group
from sigmascope.symmetry.group_table import GROUPS
from sigmascope.symmetry.numeric import infer_scalars, is_intertwiner, numeric_phi
from sigmascope.symmetry.scalars import SCALARS

GOLDEN = np.load(Path(__file__).resolve().parents[1] / "golden" / "symmetry_groups.npz")
PARAMETERS = {
    "leaky_relu": [{}, {"slope": 0.1}, {"slope": 2.0}, {"slope": -0.5}],
    "power": [{}, {"degree": 3}, {"degree": 4}],
    "elu": [{}, {"alpha": 0.5}, {"alpha": -2.0}],
    "celu": [{}, {"alpha": 0.5}],
    "hardtanh": [
        {},
        {"low": -3.0, "high": 3.0},
        {"low": -1.0, "high": 2.0},
        {"low": 0.0, "high": 6.0},
    ],
}
ROWS = [group(name, **parameters) for name in GROUPS for parameters in PARAMETERS.get(name, [{}])]
MONOMIAL = [row for row in ROWS if row.is_monomial]
N = 5

every_row = pytest.mark.parametrize("row", ROWS, ids=repr)
every_monomial_row = pytest.mark.parametrize("row", MONOMIAL, ids=repr)


def points(n: int = N, seed: int = 0) -> torch.Tensor:
    """Columns of both signs and several scales, (n, 400)."""
    normal = torch.randn(
        4, n, 100, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    return torch.cat(
        [scale * part for scale, part in zip((0.1, 1.0, 3.0, 10.0), normal, strict=True)], dim=1
    )


def error_of(A: torch.Tensor, B: torch.Tensor, row: Group) -> float:
    """The largest |σ(Ax) - Bσ(x)|, each coordinate measured by its own largest value."""
    x = points(len(A))
    target = row.sigma(A @ x)
    return float(((target - B @ row.sigma(x)).abs().amax(1) / target.abs().amax(1)).max())


def test_the_table_holds_every_activation_of_the_specification() -> None:
    of_the_paper = {"identity", "relu", "leaky_relu", "sigmoid", "gaussian", "power", "gelu"}
    assert of_the_paper | {"tanh", "sin", "abs", "softplus", "elu", "silu"} <= {*GROUPS}
    assert {row.scalars.name for row in ROWS} == {*SCALARS}


@every_row
@pytest.mark.parametrize("seed", range(3))
def test_sigma_intertwines(row: Group, seed: int) -> None:
    A = row.sample(N, generator=seed)
    assert row.contains(A)
    assert error_of(A, row.phi(A), row) < 1e-9
    if row.name != "identity":
        torch.testing.assert_close(numeric_phi(A, row.sigma), row.phi(A), atol=1e-12, rtol=1e-12)
    assert is_intertwiner(A, row.sigma)


@every_row
def test_phi_is_a_homomorphism(row: Group) -> None:
    A, B = row.sample(N, generator=1), row.sample(N, generator=2)
    product = row.compose(A, B)
    torch.testing.assert_close(product, A @ B, atol=1e-14, rtol=1e-13)
    assert row.contains(product)
    torch.testing.assert_close(row.phi(product), row.phi(A) @ row.phi(B), atol=1e-12, rtol=1e-12)
    identity = torch.eye(N, dtype=torch.float64)
    assert torch.equal(row.phi(identity), identity)


@every_row
def test_inverse_belongs_to_the_group(row: Group) -> None:
    A, identity = row.sample(N, generator=3), torch.eye(N, dtype=torch.float64)
    inverse = row.inverse(A)
    assert row.contains(inverse)
    torch.testing.assert_close(A @ inverse, identity, atol=1e-12, rtol=0)
    torch.testing.assert_close(row.phi(inverse) @ row.phi(A), identity, atol=1e-12, rtol=0)


@every_monomial_row
def test_monomials_and_matrices_agree(row: Group) -> None:
    first, second = row.draw(N, generator=4), row.draw(N, generator=5)
    assert torch.equal(row.sample(N, generator=4), first.matrix())
    assert torch.equal(row.factor(first.matrix()).matrix(), first.matrix())
    assert row.factor(first) is first
    torch.testing.assert_close(row.phi(first).matrix(), row.phi(first.matrix()), atol=0, rtol=1e-15)
    assert torch.equal(row.inverse(first).matrix(), row.inverse(first.matrix()))
    assert torch.equal(
        row.compose(first, second).matrix(), row.compose(first.matrix(), second.matrix())
    )


# The scales that each kind of group leaves out.
OUTSIDE = {"one": (-1.0, 2.0, 0.5), "signs": (2.0, -0.5), "positive": (-1.0, -2.0), "nonzero": ()}


@every_monomial_row
def test_other_scales_do_not_intertwine(row: Group) -> None:
    for scale in OUTSIDE[row.scalars.name]:
        A = torch.eye(N, dtype=torch.float64)
        A[2, 2] = scale
        assert not row.contains(A)
        assert error_of(A, numeric_phi(A, row.sigma), row) > 1e-4
        assert not is_intertwiner(A, row.sigma)
        with pytest.raises(
            InputError, match=f"not in the group of {row.name}.*channel 2 is {scale:g}"
        ):
            row.phi(A)


@every_monomial_row
def test_mixing_channels_does_not_intertwine(row: Group) -> None:
    A = row.sample(N, generator=6)
    order = row.factor(A).permutation
    A[0, order[1]] = 0.3
    assert not row.contains(A)
    assert not is_intertwiner(A, row.sigma)
    assert row.why_not(A) == "row 0 has 2 non-zero entries instead of one"
    turn = torch.linalg.qr(
        torch.randn(N, N, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    )[0]
    assert not row.contains(turn)
    assert not is_intertwiner(turn, row.sigma)


@every_monomial_row
def test_scalars_of_the_table_are_those_found_by_numbers(row: Group) -> None:
    found = infer_scalars(row.sigma)
    assert found.kind == row.scalars.name
    torch.testing.assert_close(
        torch.tensor(found.images, dtype=torch.float64),
        row.image(torch.tensor(found.admitted, dtype=torch.float64)),
        atol=0,
        rtol=1e-9,
    )


def test_identity_takes_every_invertible_matrix() -> None:
    row = group("identity")
    A = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert row.contains(A)
    assert torch.equal(row.phi(A), A)
    assert row.why_not(torch.ones(2, 2)) == "it has no inverse"
    assert row.why_not(torch.zeros(2, 2)) == "it has no inverse"
    assert row.contains(torch.diag(torch.tensor([1e-12, 1.0])))
    with pytest.raises(InputError, match="every invertible matrix"):
        row.factor(A)
    with pytest.raises(InputError, match="no inverse"):
        row.inverse(torch.ones(2, 2))
    assert not is_intertwiner(torch.ones(2, 2), row.sigma)
    assert is_intertwiner(A, row.sigma)


@pytest.mark.parametrize(
    ("name", "parameters", "other"),
    [
        ("leaky_relu", {"slope": 1}, "identity"),
        ("leaky_relu", {"slope": 0}, "relu"),
        ("leaky_relu", {"slope": -1.0}, "abs"),
        ("power", {"degree": 1}, "identity"),
        ("elu", {"alpha": 0}, "relu"),
    ],
)
def test_parameters_that_make_another_activation(
    name: str, parameters: dict[str, float], other: str
) -> None:
    assert group(name, **parameters) == group(other)
    x = points()
    special = (
        torch.nn.functional.leaky_relu(x, parameters["slope"]) if name == "leaky_relu" else None
    )
    if special is not None:
        assert torch.equal(special, group(other).sigma(x))


@pytest.mark.parametrize(
    ("key", "name", "parameters"),
    [
        ("relu", "relu", {}),
        ("leaky_relu_0.1", "leaky_relu", {"slope": 0.1}),
        ("sigmoid", "sigmoid", {}),
        ("gaussian_rbf", "gaussian", {}),
        ("poly2", "power", {"degree": 2}),
        ("poly3", "power", {"degree": 3}),
        ("gelu", "gelu", {}),
    ],
)
def test_golden(key: str, name: str, parameters: dict[str, float]) -> None:
    row = group(name, **parameters)
    A, B = GOLDEN[f"phi__{key}__A"], GOLDEN[f"phi__{key}__B"]
    assert row.contains(A)
    np.testing.assert_allclose(row.phi(A), B, atol=1e-12, rtol=1e-12)
    np.testing.assert_allclose(numeric_phi(A, row.sigma), B, atol=1e-10, rtol=1e-10)
    np.testing.assert_allclose(row.phi(row.factor(A)).matrix(), B, atol=1e-12, rtol=1e-12)


@settings(max_examples=50)
@given(
    row=st.sampled_from(MONOMIAL),
    n=st.integers(1, 7),
    seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)),
)
def test_factors_of_products(row: Group, n: int, seeds: tuple[int, int]) -> None:
    A, B = (row.draw(n, seed) for seed in seeds)
    product = row.factor(A.matrix() @ B.matrix())
    assert torch.equal(product.permutation, (A @ B).permutation)
    torch.testing.assert_close(product.scales, (A @ B).scales, atol=0, rtol=1e-15)
    assert error_of(product.matrix(), row.phi(product).matrix(), row) < 1e-9


def test_samples_have_the_stated_law() -> None:
    generator = torch.Generator().manual_seed(0)
    scales = group("relu").draw(200_000, generator).scales
    assert float(scales.mean()) == pytest.approx(1, abs=0.02)
    assert float(scales.log().mean()) == pytest.approx(-0.5, abs=0.01)
    assert float(scales.log().std()) == pytest.approx(1, abs=0.01)
    assert float(
        group("relu").draw(100_000, generator, log_std=0.3).scales.log().std()
    ) == pytest.approx(0.3, abs=0.01)
    signs = group("tanh").draw(100_000, generator).scales
    assert {*signs.tolist()} == {-1.0, 1.0}
    assert float(signs.mean()) == pytest.approx(0, abs=0.02)
    both = group("abs").draw(100_000, generator).scales
    assert float(both.sign().mean()) == pytest.approx(0, abs=0.02)
    assert float(both.abs().log().std()) == pytest.approx(1, abs=0.01)
    assert group("gelu").draw(50, generator).is_permutation
    assert torch.equal(
        group("relu").draw(9, 1, log_std=0).scales, torch.ones(9, dtype=torch.float64)
    )


def test_permutations_are_uniform() -> None:
    generator = torch.Generator().manual_seed(0)
    counts = torch.zeros(3, 3, 3)
    for _ in range(6000):
        counts[tuple(group("gelu").draw(3, generator).permutation)] += 1
    frequencies = counts[counts > 0]
    assert len(frequencies) == 6
    assert float((frequencies / 1000 - 1).abs().max()) < 0.15


@every_row
def test_samples_follow_the_generator(row: Group) -> None:
    assert torch.equal(row.sample(4, 7), row.sample(4, torch.Generator().manual_seed(7)))
    assert not torch.equal(row.sample(9, 7), row.sample(9, 8))
    generator = torch.Generator().manual_seed(7)
    assert not torch.equal(row.sample(9, generator), row.sample(9, generator))
    assert row.sample(4).dtype == torch.float64


@pytest.mark.parametrize("log_std", [0.0, 3.0, 8.0])
def test_tiny_and_huge_scales_side_by_side(log_std: float) -> None:
    row = group("relu")
    for seed in range(20):
        A = row.sample(8, seed, log_std=log_std)
        assert row.contains(A)
        assert torch.equal(row.factor(A).matrix(), A)


def test_tolerance_is_relative() -> None:
    row = group("relu")
    A = row.sample(4, 0)
    noise = 1e-7 * A.max(dim=1, keepdim=True).values
    assert row.contains(A + noise, tol=1e-5)
    assert not row.contains(A + noise)
    # one per row, but column 1 holds two equals
    assert not row.contains(torch.tensor([[1.0, 1e-12], [0.0, 1e-12]]))
    assert group("sigmoid").contains((1 + 1e-8) * torch.eye(3, dtype=torch.float64), tol=1e-7)
    assert not group("sigmoid").contains((1 + 1e-8) * torch.eye(3, dtype=torch.float64))


def test_kinds_stay_as_they_come() -> None:
    row = group("power", degree=3)
    for dtype in (np.float32, np.float64):
        A = np.array([[0, -2], [3, 0]], dtype=dtype)
        kept = A.copy()
        for out in (row.phi(A), row.inverse(A), row.compose(A, A)):
            assert isinstance(out, np.ndarray)
            assert out.dtype == dtype
        np.testing.assert_array_equal(row.phi(A), [[0, -8], [27, 0]])
        np.testing.assert_array_equal(A, kept)
    tensor = torch.tensor([[0.0, -2], [3, 0]])
    image = row.phi(tensor)
    assert image.dtype == torch.float32
    image[0, 0] = 5.0
    assert tensor[0, 0] == 0
    assert row.phi(torch.tensor([[0, -2], [3, 0]])).tolist() == [[0, -8], [27, 0]]
    assert isinstance(row.phi(Monomial([1, 0], [1.0, 2.0])), Monomial)


def test_groups_are_values() -> None:
    assert group("relu") == group("relu")
    assert hash(group("leaky_relu", slope=0.1)) == hash(group("leaky_relu", slope=0.1))
    assert group("leaky_relu", slope=0.1) != group("leaky_relu", slope=0.2)
    assert repr(group("leaky_relu", slope=0.1)) == "Group(leaky_relu, slope=0.1: d > 0, φ(A) = A)"
    assert repr(group("gaussian")) == "Group(gaussian: d = ±1, φ(A) = |A|)"
    assert repr(group("power", degree=3)) == "Group(power, degree=3: d ≠ 0, φ(A) = A^⊙3)"
    assert copy.deepcopy(group("leaky_relu", slope=0.1)) == group("leaky_relu", slope=0.1)
    with pytest.raises(AttributeError, match="name"):
        group("relu").name = "tanh"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("rellu", {}, "Did you mean 'relu'"),
        ("SiLU", {}, "Choose from"),
        (3, {}, "activation=3 is not a valid choice"),
        ("relu", {"slope": 0.1}, "relu has no parameter 'slope': it takes no parameter"),
        ("leaky_relu", {"negative_slope": 0.1}, "takes slope"),
        ("leaky_relu", {"slope": float("nan")}, "must be a finite number, got nan"),
        ("leaky_relu", {"slope": "steep"}, "must be a finite number"),
        ("power", {"degree": 0}, "whole number >= 1"),
        ("power", {"degree": 2.5}, "whole number >= 1"),
        ("power", {"degree": -1}, "whole number >= 1"),
        ("power", {"degree": True}, "must be a finite number"),
        ("celu", {"alpha": 0}, "celu divides by it"),
        ("hardtanh", {"low": 1.0}, "needs low < high"),
    ],
)
def test_refuses_names_and_parameters(
    name: str, parameters: dict[str, float], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        group(name, **parameters)


def test_refuses_matrices() -> None:
    row = group("relu")
    with pytest.raises(InputError, match=r"shape \(2, 3\).*square"):
        row.contains(torch.ones(2, 3))
    with pytest.raises(InputError, match="square"):
        row.phi(np.ones(3))
    with pytest.raises(InputError, match="repair"):
        row.contains(torch.full((2, 2), float("nan")))
    with pytest.raises(InputTypeError, match="A "):
        row.contains([[1.0]])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="row 1 has 0 non-zero"):
        row.factor(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    with pytest.raises(InputError, match="column 0 has 2 non-zero"):
        row.factor(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    with pytest.raises(InputError, match="channel 1 is -2"):
        row.factor(Monomial([1, 0], [1.0, -2.0]))
    with pytest.raises(InputError, match="A acts on 2 channels and B on 3"):
        row.compose(torch.eye(2), torch.eye(3))
    with pytest.raises(OptionError, match="tol must be a number >= 0 and < 1, got -1"):
        row.contains(torch.eye(2), tol=-1)


def test_refuses_to_draw() -> None:
    row = group("relu")
    with pytest.raises(OptionError, match="n must be a whole number >= 1, got 0"):
        row.sample(0)
    with pytest.raises(OptionError, match="whole number"):
        row.sample(2.0)  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match=r"a whole number or a torch\.Generator"):
        row.sample(2, "today")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="log_std must be a number >= 0, got -1"):
        row.sample(2, log_std=-1)


@pytest.mark.parametrize("slope", [np.float32(0.5), np.float64(0.5)])
def test_scalars_of_numpy_are_numbers(slope: Any) -> None:
    assert repr(group("leaky_relu", slope=slope)) == repr(group("leaky_relu", slope=0.5))
    assert repr(group("power", degree=np.int64(3))) == repr(group("power", degree=3))
    assert torch.equal(
        group("relu").sample(4, generator=np.int32(3)), group("relu").sample(4, generator=3)
    )
    with pytest.raises(OptionError, match="of leaky_relu must be a finite number"):
        group("leaky_relu", slope=np.bool_(True))
