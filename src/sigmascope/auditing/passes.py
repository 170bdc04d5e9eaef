"""The passes of a network that an audit compares: plain, counted, tagged and measured."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.auditing.matching import SeenSite
from sigmascope.auditing.operators import Operator, OperatorCounter
from sigmascope.auditing.producers import Producers
from sigmascope.auditing.samples import count_samples, with_sample_replaced
from sigmascope.auditing.state import differences, seeded, state_of
from sigmascope.auditing.tagging import TagReader, tagged_layers
from sigmascope.capture.guard import preserve_state
from sigmascope.capture.observer import Call
from sigmascope.capture.pooled import PooledCall
from sigmascope.capture.recording import recording
from sigmascope.errors import InputError
from sigmascope.measure.batches import Forward, to_model
from sigmascope.measure.kept_features import kept_calls
from sigmascope.measure.result import Signature
from sigmascope.measure.signature import signature

RUNS = 4  # of a pass at most, until its formulas are known


@dataclass
class Plain:
    """Two passes that nobody watches."""

    output: Any
    replaced: Any
    moved: set[str]  # the state that the network itself changes


@dataclass
class Seen:
    """What an observer and the dispatcher saw of one pass."""

    sites: list[SeenSite]
    operators: list[Operator]


@dataclass
class Watched:
    """What a signature of the batch, and of the one with a sample replaced, has found."""

    signature: Signature
    calls: list[list[PooledCall]]
    outputs: list[Any]
    moved: set[str]


class Passes:
    """A network with its batch, and the passes that an audit needs."""

    def __init__(self, network: nn.Module, batch: Any, forward: Forward, softmax: bool) -> None:
        self.network = network
        self.batch = to_model(batch, network, batch_axis=0).content
        self.size = count_samples(self.batch)
        self.other = with_sample_replaced(self.batch, self.size)
        self.activations = "all" if softmax else "pointwise"
        self._forward, self._softmax = forward, softmax

    def run(self, batch: Any) -> Any:
        """Return the outputs for a batch, with random numbers that are always the same."""
        return seeded(functools.partial(self._forward, self.network, batch))

    def plain(self) -> Plain:
        """Run the network on both batches where nobody watches."""
        before = state_of(self.network)
        try:
            with preserve_state(self.network, mode="eval"):
                output, replaced = self.run(self.batch), self.run(self.other)
        except Exception as error:  # whatever the network raises
            raise InputError(
                f"the network does not run on this batch ({one_line(error)}). "
                "Pass a batch that it accepts, or forward=lambda model, batch: model(...)."
            ) from error
        self._state = state_of(self.network)
        return Plain(output, replaced, differences(before, self._state))

    def seen(self) -> Seen:
        """Return the sites that an observer meets, and the operators of the same pass.

        It is run again where its formulas are not those of the pass before, as where sizes depend
        on the values.
        """
        with (
            preserve_state(self.network, mode="eval"),
            recording(self.network, self._observe, activations=self.activations) as recorder,
        ):
            recorder.stop()
            for _ in range(RUNS):
                self._sites, self._producers = list[SeenSite](), Producers()
                self._counter = OperatorCounter(self.network, softmax=self._softmax)
                with recorder.forward_pass(), self._counter.counting(), self._producers.watching():
                    self.run(self.batch)
                if not recorder.changed:
                    break
        return Seen(self._sites, self._counter.operators)

    def _observe(self, call: Call, x: Tensor) -> Callable[[Tensor], None]:
        counter = self._counter
        start, channels = counter.step, self._producers.channels(x)
        site = SeenSite(call.name, call.path, call.kind, start, start, channels)
        self._sites.append(site)

        def finish(_: Tensor) -> None:
            site.stop = counter.step

        return finish

    def sample_sums(self, batch: Any) -> dict[str, Tensor]:
        """Return the sum of each sample at the sites whose inputs have the samples first."""
        sums: dict[str, Tensor] = {}

        def observe(call: Call, x: Tensor) -> None:
            if torch._C._functorch.is_functorch_wrapped_tensor(x):
                return  # it cannot be read once the transformation has ended
            plain = x.layout == torch.strided and not x.is_nested and x.dtype.is_floating_point
            if plain and x.ndim and x.shape[0] == self.size:
                sums[call.name] = x.detach().cpu().double().reshape(self.size, -1).sum(dim=1)

        with (
            preserve_state(self.network, mode="eval"),
            recording(self.network, observe, activations=self.activations),
        ):
            self.run(batch)
        return sums

    def computed(self) -> list[Operator]:
        """Return the activation operators that the network computes where nobody watches."""
        counter = OperatorCounter(self.network, softmax=self._softmax)
        with preserve_state(self.network, mode="eval"), counter.counting():
            self.run(self.batch)
        return [one for one in counter.operators if one.activation]

    def tagged(self, calls: Sequence[PooledCall]) -> TagReader | None:
        """Read channels by their numbers; None where the network cannot run with them."""
        known = {
            one.call.name: one.call.channel_axis
            for one in calls
            if one.x is not None and one.call.channel_axis is not None
        }
        reader = TagReader(known)
        try:
            with (
                preserve_state(self.network, mode="eval"),
                recording(self.network, reader.observe, activations=self.activations),
                tagged_layers(),
            ):
                self.run(self.batch)
        except Exception:  # whatever a network raises on numbers that it never has
            return None
        return reader

    def watched(self) -> Watched:
        """Measure the network on the batch and on the one with a sample replaced, after `plain`."""
        outputs: list[tuple[Any, Any]] = []  # of each batch, which may run twice

        def forward(model: nn.Module, batch: Any) -> Any:
            if outputs and outputs[-1][0] is batch:
                outputs.pop()
            outputs.append((batch, seeded(functools.partial(self._forward, model, batch))))
            return outputs[-1][1]

        with tempfile.TemporaryDirectory() as keep:
            result = signature(
                self.network,
                iter([self.batch, self.other]),
                forward=forward,
                keep=keep,
                progress=False,
                estimator="published",
                activations=self.activations,
            )
            calls = kept_calls(keep)
        moved = differences(self._state, state_of(self.network))
        # one of both, where no sample could be replaced
        return Watched(result, calls, ([output for _, output in outputs] * 2)[:2], moved)


def one_line(error: BaseException) -> str:
    """Return the type and message of an error on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]
