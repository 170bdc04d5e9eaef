r"""Intertwiner groups: the matrices A with a φ(A) such that σ(A x) = φ(A) σ(x) for every x.

For σ neither constant nor linear and differentiable off a finite set, every element is
$P\,\mathrm{diag}(d)$: scales d of the channels, each admissible for σ in one dimension, then a
permutation P; φ keeps P and maps each scale. So a group is σ, its admissible scales, and φ of one
scale. Godfrey et al., NeurIPS 2022, arXiv:2205.14258.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from sigmascope.checks import check_whole, with_old_names
from sigmascope.errors import InputError
from sigmascope.maths.randomness import Seed, as_generator
from sigmascope.maths.samples import Array
from sigmascope.symmetry.matrices import (
    Element,
    as_square,
    factor_monomial,
    is_invertible,
    like,
    sample_dense,
)
from sigmascope.symmetry.monomial import Monomial
from sigmascope.symmetry.scalars import SAME, ScalarMap, Scalars

TOLERANCE = 1e-9
"""What counts as zero in a dense matrix, relative to its row and column; how far ±1 may be off."""


@dataclass(frozen=True, repr=False)
class Group:
    r"""The intertwiner group of an activation; returned by `sigmascope.symmetry.group`.

    Elements are `Monomial`s or matrices (n, n), torch or NumPy, that act on columns of channels;
    results are of the kind of the arguments. Dense matrices are checked with a relative tolerance,
    see `contains`. Godfrey et al., NeurIPS 2022, arXiv:2205.14258.

    Args:
        name: of the activation.
        sigma: σ, elementwise, tensor in and tensor out.
        scalars: the admissible scales, such as `d > 0`; "linear" for the identity, whose group is
            all of GL_n.
        image: the map of one scale, φ(λ).
        parameters: of the activation, names and values.

    >>> import torch
    >>> from sigmascope import symmetry
    >>> tanh = symmetry.group("tanh")
    >>> A = tanh.sample(3, seed=0)
    >>> tanh.contains(A), tanh.contains(2 * A), tanh.contains(-A)
    (True, False, True)
    """

    name: str
    sigma: Callable[[Tensor], Tensor] = field(compare=False)
    scalars: Scalars
    image: ScalarMap = SAME
    parameters: tuple[tuple[str, float], ...] = ()

    def __repr__(self) -> str:
        given = "".join(f", {key}={value:g}" for key, value in self.parameters)
        return f"Group({self.name}{given}: {self.scalars}, φ(A) = {self.image})"

    @property
    def is_monomial(self) -> bool:
        """Whether every element is a scaling and a permutation: true for all but the identity."""
        return self.scalars.name != "linear"

    def contains(self, A: Monomial | Array, tol: float = TOLERANCE) -> bool:
        """Return whether A (n, n) belongs to the group.

        An entry counts as zero up to `tol` times the largest of its row or column, and a scale as
        ±1 up to `tol`. For the identity, singular values count as zero in the same way.
        """
        return self.why_not(A, tol) is None

    def why_not(self, A: Monomial | Array, tol: float = TOLERANCE) -> str | None:
        """Return why A does not belong to the group; None if it does."""
        if not self.is_monomial:
            sound = isinstance(A, Monomial) or is_invertible(as_square(A), tol)
            return None if sound else "it has no inverse"
        found = self._split(A, tol)
        return found if isinstance(found, str) else None

    def factor(self, A: Monomial | Array, tol: float = TOLERANCE) -> Monomial:
        """Return A as a permutation and scales; in the group of the identity there are none."""
        if not self.is_monomial:
            raise InputError(
                f"the group of {self.name} contains every invertible matrix, which in general is "
                "not a scaled permutation. Use the matrix itself."
            )
        found = self._split(A, tol)
        if isinstance(found, str):
            raise self._outside(found)
        return found

    def phi(self, A: Element) -> Element:
        r"""Return $\varphi(A)$, with which σ(A x) = φ(A) σ(x), for A in the group."""
        self._check(A)
        if isinstance(A, Monomial):
            mapped: Any = Monomial(A.permutation, self.image(A.scales))
        else:
            mapped = like(self.image(as_square(A)), A)
        return mapped  # type: ignore[no-any-return]

    def inverse(self, A: Element) -> Element:
        """Return the inverse, from the factors; by a solver only in the group of the identity."""
        self._check(A)
        inverted: Any
        if isinstance(A, Monomial):
            inverted = A.inverse()
        elif self.is_monomial:
            inverted = like(self.factor(A).inverse().matrix(), A)
        else:
            inverted = like(torch.linalg.inv(as_square(A)), A)
        return inverted  # type: ignore[no-any-return]

    def compose(self, A: Element, B: Element) -> Element:
        """Return the product A B, which applies B first, for elements of one size."""
        self._check(A)
        self._check(B)
        if isinstance(A, Monomial) and isinstance(B, Monomial):
            return A @ B
        first, second = as_square(A), as_square(B)
        if first.shape != second.shape:
            raise InputError(
                f"A acts on {len(first)} channels and B on {len(second)}. Pass equal sizes."
            )
        product: Element = like(first @ second.to(first.device), A)
        return product

    @with_old_names(generator="seed")
    def draw(self, n: int, seed: Seed = None, *, log_std: float = 1.0) -> Monomial:
        """Return a random element as a `Monomial` (of the identity, with d ≠ 0); see `sample`."""
        source = as_generator(seed)
        order = torch.randperm(check_whole("n", n, 1), generator=source)
        return Monomial(order, self.scalars.sample(n, source, log_std))

    @with_old_names(generator="seed")
    def sample(self, n: int, seed: Seed = None, *, log_std: float = 1.0) -> Tensor:
        """Return a random element (n, n), float64.

        The permutation is uniform; scales are exp(s z - s²/2) with mean 1, or fair signs, or both,
        or 1. For the identity: two uniform rotations with such a scaling between them.

        Args:
            n: number of channels.
            seed: a whole number or a torch.Generator; torch's own by default.
            log_std: s, the standard deviation of the logarithm of the scales.
        """
        if self.is_monomial:
            return self.draw(n, seed, log_std=log_std).matrix()
        return sample_dense(check_whole("n", n, 1), as_generator(seed), log_std)

    def _split(self, A: Monomial | Array, tol: float) -> Monomial | str:
        found = A if isinstance(A, Monomial) else factor_monomial(as_square(A), tol)
        if isinstance(found, str):
            return found
        outside = (~self.scalars.admits(found.scales, tol)).nonzero()
        if len(outside):
            column = int(outside[0])
            return f"the scale of channel {column} is {float(found.scales[column]):.6g}"
        return found

    def _check(self, A: Monomial | Array) -> None:
        reason = self.why_not(A)
        if reason is not None:
            raise self._outside(reason)

    def _outside(self, reason: str) -> InputError:
        return InputError(f"A is not in the group of {self.name} ({self.scalars}): {reason}.")


def group(name: str, **parameters: Any) -> Group:
    """Return the intertwiner group of an activation.

    Godfrey et al., NeurIPS 2022, arXiv:2205.14258.

    Args:
        name: of the activation; see `sigmascope.symmetry.group_table.GROUPS`.
        **parameters: `slope` of leaky_relu, `degree` of power, `alpha` of elu and celu, `low` and
            `high` of hardtanh.

    Returns:
        The group. Where parameters make it another activation, the group of that one: leaky_relu
        with slope 1 is the identity, with slope 0 relu, with slope -1 abs; power of degree 1 is
        the identity.

    Raises:
        OptionError: an unknown name or parameter, or a value that makes no activation.

    >>> relu = group("relu")
    >>> relu
    Group(relu: d > 0, φ(A) = A)
    >>> A = relu.sample(3, seed=0)
    >>> relu.contains(A), relu.contains(-A), group("sigmoid").contains(A)
    (True, False, False)
    >>> group("power", degree=2).phi(torch.tensor([[0.0, -3.0], [2.0, 0.0]]))
    tensor([[0., 9.],
            [4., 0.]])
    """
    from sigmascope.symmetry.group_table import find_group

    return find_group(name, parameters)
