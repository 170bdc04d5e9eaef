"""Relu-group stitches that differ in α, and the one chosen on held-out data."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sigmascope.errors import InputError
from sigmascope.stitching.result import StitchResult

if TYPE_CHECKING:
    from sigmascope.figures.drawn import Drawn

__all__ = ["ALPHAS", "CrossValidation"]

ALPHAS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)


@dataclass(frozen=True, repr=False)
class CrossValidation:
    """Relu-group stitches that differ in α; see `Stitcher.cross_validate`.

    Attributes:
        alphas: the values of α.
        results: one stitch per α, trained on the same part of the training data and evaluated on
            the rest of it.
    """

    alphas: tuple[float, ...]
    results: tuple[StitchResult, ...]

    @property
    def chosen(self) -> StitchResult:
        """The stitch with the best accuracy on held-out training data.

        Its `stitched_accuracy` is that on the test data.

        Raises:
            InputError: training diverged for every α.
        """
        return self.results[self._place()]

    @property
    def alpha(self) -> float:
        """The chosen α."""
        return self.alphas[self._place()]

    def _place(self) -> int:
        accuracies = {
            place: result.chosen_accuracy
            for place, result in enumerate(self.results)
            if not math.isnan(result.chosen_accuracy)
        }
        if not accuracies:
            tried = ", ".join(f"{alpha:g}" for alpha in self.alphas)
            raise InputError(f"training diverged for every α ({tried}). Pass a lower rate.")
        return max(accuracies, key=accuracies.__getitem__)

    def __repr__(self) -> str:
        lines = [
            f"α = {alpha:g}: diverged"
            if math.isnan(result.chosen_accuracy)
            else f"α = {alpha:g}: {result.chosen_accuracy:.2f} % held out, penalty "
            f"{result.penalty:.2f}" + " ←" * (result is self.chosen)
            for alpha, result in zip(self.alphas, self.results, strict=True)
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"

    def to_dict(self, prefix: str = "") -> dict[str, float]:
        """Return the numbers for a logger: `{prefix}{α}/{name}` -> number."""
        return {
            name: value
            for alpha, result in zip(self.alphas, self.results, strict=True)
            for name, value in result.to_dict(f"{prefix}{alpha:g}/").items()
        }

    def plot(self) -> Drawn:
        """Draw accuracy against α; see `sigmascope.figures.draw_cross_validation`."""
        from sigmascope.figures.stitching import draw_cross_validation

        return draw_cross_validation(self)
