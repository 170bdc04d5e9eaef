"""The layer between two networks: a matrix on the channels, and the axis that holds these."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from sigmascope.capture.channel_axis import Layout
from sigmascope.capture.guard import preserve_state
from sigmascope.capture.observer import Call
from sigmascope.capture.recording import recording
from sigmascope.checks import check_choice
from sigmascope.choices import Style
from sigmascope.errors import InputError, OptionError
from sigmascope.maths.samples import Array
from sigmascope.stitching.families import FAMILIES, Parameters
from sigmascope.stitching.settings import Settings
from sigmascope.symmetry.monomial import Monomial

STYLES = {"conv": 1, "linear": -1}
"""Name -> the axis of the channels: (n, c, h, w), or (n, c) and (n, l, c)."""


class Stitch(nn.Module):
    """A stitch of one family.

    In training mode it applies the relaxation that is trained; in evaluation mode the exact member
    of the family.

    Args:
        family: a row of `FAMILIES`.
        channels: of the site.
        style: "conv" for channels on axis 1, "linear" for channels on the last axis.
        settings: what the family reads, such as the rank.
        seed: of the initial parameters.

    Attributes:
        scaled: whether the scales of a group element are applied; not during a head start.

    >>> stitch = Stitch("relu-group", 3, "linear").eval()
    >>> sorted(stitch(torch.tensor([[1.0, 2.0, 3.0]])).flatten().tolist())
    [1.0, 2.0, 3.0]
    """

    def __init__(
        self,
        family: str,
        channels: int,
        style: str,
        *,
        settings: Settings | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_choice("family", family, FAMILIES)
        check_choice("style", style, STYLES)
        self.family, self.channels, self.style = family, channels, style
        self.settings = settings or Settings()
        self.scaled = True
        row, dtype = FAMILIES[family], torch.get_default_dtype()
        started = row.start(channels, torch.Generator().manual_seed(seed), self.settings)
        self.values = nn.ParameterDict(
            {
                name: nn.Parameter(value.to(dtype), requires_grad=name not in row.constant)
                for name, value in started.items()
            }
        )

    def parameters_by_name(self) -> Parameters:
        """Return the parameters, with neutral scales during a head start."""
        row = FAMILIES[self.family]
        parameters = dict(self.values.items())
        if row.scales is not None and not self.scaled:
            parameters[row.scales] = torch.full_like(parameters[row.scales], row.neutral)
        return parameters

    def matrix(self, *, exact: bool) -> Tensor:
        """Return the matrix (c, c): the relaxation, or the exact member of the family."""
        return FAMILIES[self.family].matrix(self.parameters_by_name(), self.settings, exact)

    def term(self) -> Tensor | None:
        """Return what the family adds to the loss; None for nothing."""
        term = FAMILIES[self.family].term
        return None if term is None else term(self.parameters_by_name(), self.settings)

    @torch.no_grad()
    def project(self) -> None:
        """Apply the in-place projection of the family, which follows a step."""
        project = FAMILIES[self.family].project
        if project is not None:
            project(dict(self.values.items()), self.settings)

    @torch.no_grad()
    def set_matrix(self, matrix: Tensor) -> None:
        """Replace the matrix of a family whose only parameter is the matrix."""
        self.values["weight"].copy_(matrix)

    @torch.no_grad()
    def start_at(self, matrix: Tensor) -> None:
        """Overwrite the start of a group element by a scaled permutation (c, c)."""
        row = FAMILIES[self.family]
        for name, value in {} if row.start_at is None else row.start_at(matrix).items():
            self.values[name].copy_(value)

    def forward(self, x: Tensor) -> Tensor:
        """Return stitched features: (n, c, …) in the style "conv", (…, c) in the style "linear"."""
        return act(self.matrix(exact=not self.training), x, self.style)

    def extra_repr(self) -> str:
        """Return family, channels and style."""
        return f"{self.family}, {self.channels} channels, {self.style}"


def act(matrix: Tensor, x: Tensor, style: str) -> Tensor:
    """Return features with a matrix (c, c) applied to their channels.

    >>> matrix, x = torch.tensor([[0.0, 2.0], [1.0, 0.0]]), torch.tensor([[[3.0], [4.0]]])
    >>> act(matrix, x, "conv").flatten()
    tensor([8., 3.])
    """
    if style == "linear" or x.ndim == 2:
        return F.linear(x, matrix)
    if x.ndim == 4:
        return F.conv2d(x, matrix[:, :, None, None])
    return (matrix @ x.flatten(2)).reshape(x.shape)


def style_of(shape: tuple[int, ...], style: str, axis: int | None = None) -> str:
    """Return the style of features (n, …): the given one, or for "auto" that of the channel axis.

    >>> style_of((2, 8, 20), "auto", 1), style_of((2, 16, 16, 96), "auto", 3)
    ('conv', 'linear')
    """
    check_choice("style", style, Style)
    if len(shape) < 2:
        raise InputError(
            f"features at the site have the shape {shape}, without channels. Choose another site."
        )
    if style != "auto":
        return style
    if len(shape) == 2 or axis == len(shape) - 1:
        return "linear"
    if axis == 1:
        return "conv"
    where = "is unknown" if axis is None else f"is {axis}"
    raise OptionError(
        f"style='auto': the channel axis of the features {shape} at the site {where}. Pass "
        'style="conv" to stitch axis 1, or style="linear" to stitch the last axis.'
    )


def channel_axis(shape: tuple[int, ...], style: str) -> int:
    """Return the axis of the channels, counted from 0."""
    return STYLES[style] % len(shape)


def as_matrix(element: Monomial | Array, channels: int) -> Tensor:
    """Return a group element or matrix as a tensor (c, c), float64; raise if it does not fit."""
    given = element.matrix() if isinstance(element, Monomial) else torch.as_tensor(element)
    matrix = given.detach().double()
    if tuple(matrix.shape) != (channels, channels):
        raise InputError(
            f"element must be ({channels}, {channels}), the channels of the site, got the shape "
            f"{tuple(matrix.shape)}."
        )
    if not bool(matrix.isfinite().all()):
        raise InputError("element has entries that are not finite. Pass finite numbers.")
    return matrix


def as_scaled_permutation(matrix: Tensor) -> Tensor:
    """Return a matrix (c, c) if it has one positive entry in every row and column, else raise.

    >>> as_scaled_permutation(torch.tensor([[0.0, 2.0], [1.0, 0.0]])).sum()
    tensor(3.)
    """
    occupied = matrix != 0
    alone = all(bool((occupied.sum(dim=axis) == 1).all()) for axis in (0, 1))
    if not alone or bool((matrix < 0).any()):
        raise InputError(
            "element must have one positive entry in every row and column, where start='given'. "
            "Pass a Monomial with positive scales, as symmetry.align finds them for ReLU."
        )
    return matrix


class _Marked(nn.Module):
    """The front with an activation after the site: a recorder reports the layout of its input."""

    def __init__(self, before: nn.Module) -> None:
        super().__init__()
        self.before = before
        self.mark = nn.ReLU()

    def forward(self, inputs: Tensor) -> None:
        """Run the front, then the activation on the value at the site."""
        self.mark(self.before(inputs)[0])


def layout_at(before: fx.GraphModule, inputs: Tensor) -> Layout:
    """Return the layout of the features at the site, inferred from the layers before it.

    The shape does not tell it, and a stitch on the wrong axis would run and mix positions.
    """
    layout = Layout(None, "the site was not reached")

    def observe(call: Call, _: Tensor) -> None:
        nonlocal layout
        if call.path == "mark":
            layout = call.layout

    marked = _Marked(before)
    with (
        preserve_state(marked, mode="eval"),
        recording(marked, observe) as recorder,
        recorder.forward_pass([inputs], size=len(inputs)),
    ):
        marked(inputs)
    return layout
