"""Which axis holds the channels at a site: inferred from the layers before it, not from the shape.

Maps may have their channels last and sequences on axis 1; a stitch on the wrong axis would run and
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
    """The front with an activation after the site: a recorder reports the layout of its input."""

    def __init__(self, before: nn.Module) -> None:
        super().__init__()
        self.before = before
        self.mark = nn.ReLU()

    def forward(self, inputs: Tensor) -> None:
        """Run the front."""
        self.mark(self.before(inputs)[0])


def layout_at(before: fx.GraphModule, inputs: Tensor) -> Layout:
    """Return the layout of the features at the site, as `sigmascope.symmetry.compare` infers it.

    Args:
        before: the first half of a network, which returns the value at the site first.
        inputs: (n, …), a few samples.
    """
    layout = Layout(None, "the site was not reached")

    def observe(call: Call, _: Tensor) -> None:
        nonlocal layout
        if call.path == MARK:
            layout = call.layout

    marked = _Marked(before)
    with (
        preserve_state(marked, mode="eval"),
        recording(marked, observe) as recorder,
        recorder.forward_pass([inputs], size=len(inputs)),
    ):
        marked(inputs)
    return layout
