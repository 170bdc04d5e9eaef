"""Which axis of the value at a site holds the channels: from what produced it, not from the number
of its axes.

Maps may have their channels last and sequences on axis 1; a stitch on the wrong axis would run, and
mix positions.
"""

from __future__ import annotations

from torch import Tensor, fx, nn

from sigmascope.capture.guard import preserve_state
from sigmascope.capture.layout import Layout
from sigmascope.capture.record import Call, recording

__all__ = ["layout_at"]

MARK = "mark"


class _Marked(nn.Module):
    """The front, with an activation behind the site: a recorder tells where the channels of an
    activation's input are.
    """

    def __init__(self, before: nn.Module) -> None:
        super().__init__()
        self.before = before
        self.mark = nn.ReLU()

    def forward(self, inputs: Tensor) -> None:
        """Run the front."""
        self.mark(self.before(inputs)[0])


def layout_at(before: fx.GraphModule, inputs: Tensor) -> Layout:
    """Follow the channels through the front of a network to the site, as
    `sigmascope.symmetry.compare` does.

    Args:
        before: the first half of a network, which puts out the value of the site first.
        inputs: (n, …), a few samples.
    """
    found = Layout(None, "the site was not reached")

    def observe(call: Call, _: Tensor) -> None:
        nonlocal found
        if call.path == MARK:
            found = call.layout

    marked = _Marked(before)
    with (
        preserve_state(marked, mode="eval"),
        recording(marked, observe) as recorder,
        recorder.forward_pass([inputs], size=len(inputs)),
    ):
        marked(inputs)
    return found
