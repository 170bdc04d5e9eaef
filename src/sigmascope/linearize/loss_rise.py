"""The rise of the loss on held-out batches, for a budget of loss."""

from __future__ import annotations

from torch import nn

from sigmascope.errors import InputError
from sigmascope.linearize.budgets import LossRise
from sigmascope.linearize.data import Data
from sigmascope.linearize.evidence import finite_loss


class Judge:
    """The rise of the loss on held-out batches."""

    def __init__(self, network: nn.Module, budget: LossRise, data: Data) -> None:
        if budget.batches is None:
            raise InputError(
                "a budget of loss needs held-out batches (inputs, labels): LossRise(rise, batches)."
            )
        self.budget = budget
        self._data = Data(budget.batches, data.forward, data.loss)
        self._before = finite_loss(self._data.mean_loss(network), "the held-out batches")

    def rise(self, network: nn.Module) -> float:
        """Return by how much the mean loss of a network is above that of the original."""
        return self._data.mean_loss(network) - self._before
