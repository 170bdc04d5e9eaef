"""The population score of an activation as a metric of torchmetrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sigmascope.catalog.optional import optional
from sigmascope.errors import InputTypeError
from sigmascope.integrations.deriving import lazy_class
from sigmascope.maths.grouped_sums import Index
from sigmascope.maths.moments import Moments
from sigmascope.maths.packed_sums import merged, pack
from sigmascope.maths.population import PopulationScore
from sigmascope.maths.samples import check_eps

NAME = "AffinityScore"

if TYPE_CHECKING:
    # what is used of torchmetrics.Metric, which the class derives from
    class _Metric(torch.nn.Module):
        device: torch.device
        add_state: Callable[..., None]
        set_dtype: Callable[..., object]
        _plot: Callable[..., Any]
        _apply: Callable[..., Any]

else:
    _Metric = object


class _AffinityScore(_Metric):
    r"""The population score of pairs (x, y), the inputs and outputs of an activation.

    The state is $n$, $\sum z$ and $\sum zz^\top$ of the pairs $z = (x, y)$ in float64, in 8 groups
    of samples, as in `sigmascope.Moments`: it does not grow with the number of samples, and states
    of processes add up. It takes $256 d^2$ bytes for $d$ channels.

    `compute` returns the debiased score, a tensor of float64, at most 1; NaN where there is none.
    `result` then has its interval, or the reason.

    Args:
        eps: added to the diagonals of both covariances; None for 1e-6 of their mean variance.
        **kwargs: those of `torchmetrics.Metric`.

    Attributes:
        result: the score that `compute` has returned last, with its 95 % interval.

    >>> from sigmascope.integrations.torchmetrics import AffinityScore
    >>> seeded = torch.Generator().manual_seed(0)
    >>> metric = AffinityScore()
    >>> for _ in range(4):
    ...     x = torch.randn(512, 16, generator=seeded)
    ...     metric.update(x, torch.relu(x))
    >>> f"{float(metric.compute()):.2f}, n = {metric.result.n}"
    '0.62, n = 2048'
    """

    is_differentiable = False
    higher_is_better = None
    full_state_update = True  # samples are numbered from those before on
    plot_upper_bound = 1.0

    affinity_sums: list[Tensor] | Tensor

    def __init__(self, *, eps: float | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.eps = None if eps is None else check_eps(eps)
        self.result: PopulationScore | None = None
        self.set_dtype(torch.float64)  # also of what a process without samples sends to the others
        self.add_state("affinity_sums", default=[], dist_reduce_fx="cat", persistent=False)

    def update(self, x: Tensor, y: Tensor, index: Index | None = None) -> None:
        """Add pairs of samples.

        Args:
            x: (n, d), the input of the activation.
            y: (n, d), its output, row by row.
            index: the numbers of the samples in the data set, by which they are grouped; by default
                a running count in each process. With the same numbers, processes that share a data
                set have the same score as one alone; otherwise it differs by less than its error.

        Raises:
            InputError, InputTypeError: not two matrices of one shape, or of another width.
        """
        moments = self._moments()
        moments.update(x.detach(), y.detach(), moments.n if index is None else index)
        self.affinity_sums = [pack(moments)]

    def compute(self) -> Tensor:
        """Return the score of all pairs so far, in all processes."""
        self.result = self._moments().score()
        return torch.tensor(self.result.score, dtype=torch.float64, device=self.device)

    def merge_state(self, incoming_state: Any) -> None:
        """Add the samples of another metric, or of its state.

        Raises:
            InputTypeError: neither of the two.
        """
        if isinstance(incoming_state, _AffinityScore):
            sums = incoming_state.affinity_sums
        elif isinstance(incoming_state, Mapping) and "affinity_sums" in incoming_state:
            sums = incoming_state["affinity_sums"]
        else:
            raise InputTypeError(
                f"incoming_state must be an {NAME} or its state, got "
                f"{type(incoming_state).__name__}."
            )
        self.affinity_sums = [pack(self._moments().merge(merged(_listed(sums), eps=self.eps)))]

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw one score or several; see `torchmetrics.Metric.plot`."""
        return self._plot(val, ax)

    def _moments(self) -> Moments:
        return merged(_listed(self.affinity_sums), eps=self.eps)

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Sequence[str] = "") -> Any:
        """Follow the network to its device, but not to its precision."""
        this = super()._apply(
            lambda tensor: tensor.to(fn(tensor.new_empty(0)).device), exclude_state
        )
        this._dtype = torch.float64
        return this


def _listed(sums: list[Tensor] | Tensor) -> list[Tensor]:
    return [sums] if isinstance(sums, Tensor) else [*sums]


def metric_classes() -> tuple[type, ...]:
    """Return the class that metrics derive from.

    Raises:
        MissingExtraError: torchmetrics is not installed.
    """
    return (optional("torchmetrics").Metric,)


if TYPE_CHECKING:
    AffinityScore = _AffinityScore
else:
    __getattr__ = lazy_class(globals(), _AffinityScore, NAME, metric_classes)
