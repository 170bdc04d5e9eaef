"""What a criterion knows of a network: its activation calls, sums, fitted maps, scores, losses."""

from __future__ import annotations

import copy
import functools
import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from sigmascope.capture.chosen_calls import Key
from sigmascope.errors import InputError, NoActivationError
from sigmascope.linearize.applying import install
from sigmascope.linearize.collecting import ActivationCall
from sigmascope.linearize.data import Data
from sigmascope.linearize.maps import Affine, Identity
from sigmascope.linearize.score import Score
from sigmascope.linearize.sums import PairSums, explained
from sigmascope.linearize.wide import scores_in_blocks, width_of
from sigmascope.measure.batches import place_of
from sigmascope.measure.signature import signature

Values = tuple[Tensor, Tensor]
"""The scale (c,) or matrix (c, c), and the shift (c,), of a map in float64."""


@dataclass
class Evidence:
    """A network, its data and the activation calls among which to choose.

    Attributes:
        network: a copy, which a criterion may run, in evaluation mode.
        data: the batches, with the functions that run the network and compute its loss.
        calls: the candidates, in order of execution; their keys are paths and numbers of calls.
        names: of the candidates, as the plan prints them.
        sums: key of a call -> the sums of its inputs and outputs.
        values: key of a call -> its fitted map.
        seed: for criteria that draw random numbers.

    >>> import torch
    >>> from sigmascope import linearize
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Tanh())
    >>> seen = []
    >>> def in_order(evidence):
    ...     seen.extend(evidence.names)
    ...     return torch.arange(len(evidence.calls))
    >>> _ = linearize.plan(network, torch.randn(256, 4), budget=1, by=in_order)
    >>> seen
    ['1', '2']
    """

    network: nn.Module
    data: Data
    calls: list[ActivationCall]
    names: list[str]
    sums: dict[Key, PairSums]
    values: dict[Key, Values | None]
    seed: int = 0
    _scores: dict[str, list[Score]] = field(default_factory=dict)

    def scores(self, samples: Literal["batch", "positions"]) -> list[Score]:
        """Return the population score of each call, every position a sample, or pooled.

        Where the samples are too few for the channels of a call, they are scored in blocks.
        """
        if samples not in self._scores:
            self._scores[samples] = self._with_blocks(self._measured(samples), samples)
        return self._scores[samples]

    def _measured(self, samples: Literal["batch", "positions"]) -> list[Score]:
        try:
            found = signature(
                self.network,
                self.data.copies(),
                forward=self.data.forward,
                progress=False,
                samples=samples,
                estimator="population",
                fuse=False,
                seed=self.seed,
            )
        except NoActivationError as error:
            return [Score(reason=str(error)) for _ in self.calls]
        scores = {
            (site.path, site.call): Score(
                site.population, site.low, site.high, site.population_reason
            )
            for site in found.sites
        }
        missing = Score(reason="it was not measured")
        return [scores.get(call.key, missing) for call in self.calls]

    def _with_blocks(
        self, scores: list[Score], samples: Literal["batch", "positions"]
    ) -> list[Score]:
        """Return the scores, with those of blocks where calls have too many channels."""
        widths = {
            call.key: width_of(call.channels, self._rows(call, samples))
            for call, score in zip(self.calls, scores, strict=True)
            if math.isnan(score.score) and call.axis is not None
        }
        widths = {key: width for key, width in widths.items() if width}
        if not widths:
            return scores
        found = scores_in_blocks(self.network, self.data, widths, self.calls, samples)
        return [found.get(call.key, score) for call, score in zip(self.calls, scores, strict=True)]

    def _rows(self, call: ActivationCall, samples: Literal["batch", "positions"]) -> int:
        positions = call.elements // call.channels if samples == "batch" else 1
        return self.sums[call.key].count // max(1, positions)

    @functools.cached_property
    def loss(self) -> float:
        """The mean loss over the batches, which need labels."""
        return finite_loss(self.data.mean_loss(self.network), "the batches")

    def loss_without(self, call: ActivationCall) -> float:
        """Return the mean loss with the map in place of one call."""
        trial = shared_copy(self.network)
        install(trial, call, self.module(call))
        return self.data.mean_loss(trial)

    def module(self, call: ActivationCall, *, least: torch.dtype | None = None) -> nn.Module:
        """Return the map of a call as a module, on the device and in the dtype of the network.

        With `least`, in that dtype if it is more precise.
        """
        return module_of(self.values[call.key], call, self.network, least=least)


def finite_loss(loss: float, where: str) -> float:
    """Return the loss of a network that nothing was replaced in.

    Raises:
        InputError: it is NaN or infinite, so that nothing can be compared with it.
    """
    if not math.isfinite(loss):
        raise InputError(
            f"the mean loss of the network on {where} is {loss}, before anything is replaced. "
            "Check the data, the labels and the loss function."
        )
    return loss


def module_of(
    values: Values | None,
    call: ActivationCall,
    network: nn.Module,
    *,
    least: torch.dtype | None = None,
) -> nn.Module:
    """Return a map as a module in place of a call; without values, the identity."""
    if values is None:
        return nn.Identity() if call.inplace else Identity()
    device, dtype = place_of(network)
    dtype = dtype or getattr(torch, call.dtype)
    dtype = torch.promote_types(dtype, least or dtype)
    factor, shift = (one.to(device, dtype) for one in values)
    if factor.ndim == 1:
        return Affine(factor, shift, call.axis, inplace=call.inplace)
    assert call.axis is not None
    return Affine.full(factor, shift, call.axis, inplace=call.inplace)


def fitted(call: ActivationCall, sums: PairSums, maps: str) -> tuple[Values | None, float]:
    """Return the map of a kind that fits a call best, and its R².

    A full matrix needs an axis of channels; without one, the map has one factor.
    """
    if maps == "identity":
        ones = torch.ones(call.channels, dtype=torch.float64)
        return None, explained(sums.residual(ones, torch.zeros_like(ones)), sums)
    if maps == "full" and sums.is_full:
        weight, shift = sums.full_matrix()
        return (weight, shift), explained(sums.full_residual(weight, shift), sums)
    scale, shift = sums.per_channel()
    return (scale, shift), explained(sums.residual(scale, shift), sums)


def shared_copy(network: nn.Module, *, trainable: bool = False) -> nn.Module:
    """Return a copy that shares the values of the parameters, which nobody may change.

    Args:
        network: any network.
        trainable: whether the parameters of the copy need gradients, whatever those of the network
            do.
    """
    memo: dict[int, object] = {}
    for parameter in network.parameters():
        if type(parameter) is nn.Parameter:
            needs = parameter.requires_grad or (trainable and parameter.is_floating_point())
            memo[id(parameter)] = nn.Parameter(parameter.detach(), requires_grad=needs)
        else:
            memo[id(parameter)] = parameter
    return copy.deepcopy(network, memo)
