"""The criterion that weighs the error of a fitted map by the gradient of the loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from sigmascope.capture.chosen_calls import Key, chosen_calls
from sigmascope.capture.guard import preserve_state
from sigmascope.capture.observer import Finish
from sigmascope.capture.pools import Axes
from sigmascope.errors import GradientError
from sigmascope.linearize.collecting import ActivationCall
from sigmascope.linearize.evidence import Evidence, shared_copy
from sigmascope.linearize.maps import Affine, Identity


def gradient_costs(evidence: Evidence) -> list[float]:
    r"""Return the mean over samples of |Σ g · (a·x + b - y)|, from one backward pass per batch.

    To first order, it is how much the loss of a sample changes when the map takes the place of the
    activation: g is the gradient of the loss with respect to its output y.

    NaN for a call that no gradient reaches. The backward pass is that of the sum over a batch,
    since gradients of its mean may vanish in half precision; errors are taken in float32 at least.

    Raises:
        InputError: batches without labels.
        GradientError: the loss has no gradient at an activation.
    """
    network = shared_copy(evidence.network, trainable=True)
    costs = _Costs(evidence)
    parameters = [one for one in network.parameters() if one.requires_grad]
    with (
        preserve_state(network, mode="eval"),
        chosen_calls(network, costs.calls, costs.observe),
        torch.enable_grad(),
    ):
        for batch in evidence.data.batches(network):
            costs.size = max(1, batch.size)
            loss = evidence.data.loss_of(network, batch)
            _propagate(loss.float() * costs.scale, parameters)
            costs.samples += costs.size
    return [costs.total.get(call.key, math.nan) / costs.samples for call in evidence.calls]


def _propagate(loss: Tensor, parameters: list[nn.Parameter]) -> None:
    """Run the backward pass, without adding a gradient to the parameters."""
    if not loss.requires_grad:
        raise GradientError(
            "the loss has no gradient, so that by='gradient' cannot rank. Call it outside of "
            "torch.inference_mode, and pass a network that does not detach its outputs; or pass "
            "another criterion."
        )
    try:
        torch.autograd.grad(loss, parameters, allow_unused=True)
    except RuntimeError as error:
        raise GradientError(
            f"the backward pass, which by='gradient' needs, failed: {error} If the network uses "
            "gradient checkpointing, use it with use_reentrant=False; or pass another criterion."
        ) from error


LARGEST = 2**15
"""The largest power of two in float16."""


class _Costs:
    """Adds up the costs of calls while gradients arrive."""

    def __init__(self, evidence: Evidence) -> None:
        self.calls = {call.key: call for call in evidence.calls}
        self._maps = {
            call.key: _out_of_place(evidence.module(call, least=torch.float32))
            for call in evidence.calls
        }
        self.total: dict[Key, float] = {}
        self.samples, self.size = 0, 1

    @property
    def scale(self) -> int:
        """What multiplies the loss: the size of the batch, as far as half precision reaches."""
        return min(self.size, LARGEST)

    def observe(self, key: Key, x: Tensor) -> Finish:
        with torch.no_grad():
            replaced = self._maps[key](_precise(x.detach()))

        def finish(y: Tensor) -> None:
            if not y.requires_grad or y.shape != replaced.shape:
                return
            error = replaced - _precise(y.detach())

            def arrived(gradient: Tensor) -> None:
                found = per_sample(_precise(gradient) * error, self.calls[key]).abs().sum()
                # of the mean over the batch; of a sample it is as many times as large
                rest = self.size / self.scale
                self.total[key] = self.total.get(key, 0.0) + rest * float(found)

            y.register_hook(arrived)  # type: ignore[no-untyped-call]

        return finish


def _precise(tensor: Tensor) -> Tensor:
    """Return a tensor in float32, or as it is if it is more precise."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def per_sample(tensor: Tensor, call: ActivationCall) -> Tensor:
    """Return the sum (n,) over everything of each sample, at least in float32."""
    outer, inner = call.parts
    axis = None if call.axis is None else call.axis % tensor.ndim
    ordered = Axes(call.samples, axis, outer, inner, "").ordered(tensor)
    return ordered.flatten(1).sum(dim=1, dtype=torch.float64)


def _out_of_place(placed: nn.Module) -> nn.Module:
    """Return a map that leaves its input as it is."""
    if isinstance(placed, Affine):
        placed.inplace = False
        return placed
    return Identity()
