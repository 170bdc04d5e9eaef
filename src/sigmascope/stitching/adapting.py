"""What adapting batch norms alone does to a network, beside which a penalty is to be read.

The batch norms of a stitched network get new statistics from a pass over the training data. The
two networks as they are did not go through that pass, so that a part of the penalty is its doing,
even for a network stitched to itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from sigmascope.stitching.assembly import prepare
from sigmascope.stitching.layer import Stitch
from sigmascope.stitching.loop import TrainingLoop
from sigmascope.stitching.settings import Settings
from sigmascope.stitching.trainer import StitchTrainer
from sigmascope.training.feed import Feeds


class AdaptedAccuracies:
    """The accuracies of networks stitched to themselves by the identity, computed once.

    Args:
        networks: the front and the back.
        own: their accuracies as they are.
        feeds: the samples on their device.
        site, style: where and how they are stitched.
        inputs: a few inputs of both.
        seed: of the pass.
    """

    def __init__(
        self,
        networks: tuple[nn.Module, nn.Module],
        own: Sequence[float],
        feeds: Feeds,
        *,
        site: str,
        style: str,
        inputs: Tensor,
        seed: int,
    ) -> None:
        self._networks, self._own, self._feeds = networks, tuple(own), feeds
        self._site, self._style, self._inputs, self._seed = site, style, inputs, seed
        self._found: dict[bool, tuple[float, ...]] = {}

    def after(self, trainer: StitchTrainer) -> tuple[float, ...]:
        """Return both accuracies after the pass that a stitch goes through, or without one."""
        if not trainer.adapts:
            return self._own
        with_final_pass = trainer.settings.final_pass  # all others are shared by the stitches
        if with_final_pass not in self._found:
            pairs = zip(self._networks, self._own, strict=True)
            self._found[with_final_pass] = tuple(
                self._adapted(network, trainer.settings) if has_statistics(network) else own
                for network, own in pairs
            )
        return self._found[with_final_pass]

    def _adapted(self, network: nn.Module, settings: Settings) -> float:
        joint = prepare(network, network, site=self._site, inputs=self._inputs, style=self._style)
        layer = Stitch("identity", joint.channels, joint.style).to(self._inputs.device)
        layer = layer.to(next((p.dtype for p in network.parameters()), torch.get_default_dtype()))
        given = replace(settings, batch_norm_pass=True)
        trainer = StitchTrainer(layer, joint.back.after, "identity", given)
        loop = TrainingLoop(joint.front.before, [trainer], self._feeds, given, self._seed)
        loop.evaluate_starts()
        loop.finish(trainer)
        [found] = loop.accuracies([trainer], self._feeds.test)
        return found


def has_statistics(network: nn.Module) -> bool:
    """Return whether a network has batch norms with running statistics."""
    return any(
        isinstance(one, nn.modules.batchnorm._BatchNorm) and one.track_running_stats
        for one in network.modules()
    )
