"""The layer between two networks: a matrix on the channels of whatever comes by."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.checks import check_choice
from sigmascope.errors import InputError, OptionError
from sigmascope.maths.samples import Array
from sigmascope.stitching.families import FAMILIES, Parameters
from sigmascope.stitching.settings import Settings
from sigmascope.symmetry.monomial import Monomial

__all__ = ["STYLES", "Stitch", "act", "as_matrix", "channel_axis", "style_of"]

STYLES = {"conv": 1, "linear": -1}
"""Name -> the axis of the channels: (n, c, h, w) or (n, c) and (n, l, c)."""


class Stitch(nn.Module):
    """A stitch of one family.

    In training mode it applies the relaxation that is trained, in evaluation mode the exact member
    of the family, computed anew each time.

    Args:
        family: a row of `FAMILIES`.
        channels: of the site.
        style: "conv" for channels on axis 1, "linear" for channels on the last axis.
        settings: whatever the family reads, such as the rank.
        seed: of the parameters at the start.

    Attributes:
        scaled: whether the scales of a group element are applied; a head start leaves them out.

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
        begun = row.begin(channels, torch.Generator().manual_seed(seed), self.settings)
        self.values = nn.ParameterDict(
            {
                name: nn.Parameter(value.to(dtype), requires_grad=name not in row.constant)
                for name, value in begun.items()
            }
        )

    def parameters_by_name(self) -> Parameters:
        """Return the parameters, with neutral scales during a head start."""
        row = FAMILIES[self.family]
        found = dict(self.values.items())
        if row.scales is not None and not self.scaled:
            found[row.scales] = torch.full_like(found[row.scales], row.neutral)
        return found

    def matrix(self, *, exact: bool) -> Tensor:
        """Return the matrix (c, c): the relaxation, or the exact member of the family."""
        return FAMILIES[self.family].matrix(self.parameters_by_name(), self.settings, exact)

    def term(self) -> Tensor | None:
        """Return what the family adds to the loss; None for nothing."""
        term = FAMILIES[self.family].term
        return None if term is None else term(self.parameters_by_name(), self.settings)

    @torch.no_grad()
    def project(self) -> None:
        """Do what the family does after a step, such as going back into the polytope."""
        project = FAMILIES[self.family].project
        if project is not None:
            project(dict(self.values.items()), self.settings)

    @torch.no_grad()
    def set_matrix(self, matrix: Tensor) -> None:
        """Replace the matrix of a family that is one."""
        self.values["weight"].copy_(matrix)

    def forward(self, x: Tensor) -> Tensor:
        """Act on features: (n, c, …) in the style "conv", (…, c) in the style "linear"."""
        return act(self.matrix(exact=not self.training), x, self.style)

    def extra_repr(self) -> str:
        """Say what it is."""
        return f"{self.family}, {self.channels} channels, {self.style}"


def act(matrix: Tensor, x: Tensor, style: str) -> Tensor:
    """Apply a matrix (c, c) to the channels of features; the result is new.

    >>> act(torch.tensor([[0.0, 2.0], [1.0, 0.0]]), torch.tensor([[[3.0], [4.0]]]), "conv").flatten()
    tensor([8., 3.])
    """
    if style == "linear" or x.ndim == 2:
        return F.linear(x, matrix)
    if x.ndim == 4:
        return F.conv2d(x, matrix[:, :, None, None])
    return (matrix @ x.flatten(2)).reshape(x.shape)


def style_of(shape: tuple[int, ...], style: str, axis: int | None = None) -> str:
    """Return the style for features of a shape; "auto" goes by the axis of the channels, where
    there is a choice.

    Args:
        shape: (n, …) of the features.
        style: "auto", or what it is to be.
        axis: where the evidence says that the channels are; None if there is none.

    Raises:
        InputError: no channels.
        OptionError: nothing tells where they are.

    >>> style_of((2, 8, 20), "auto", 1), style_of((2, 16, 16, 96), "auto", 3)
    ('conv', 'linear')
    """
    check_choice("style", style, ("auto", *STYLES))
    if len(shape) < 2:
        raise InputError(
            f"the value at the site has the shape {shape}, without channels. Choose another site."
        )
    if style != "auto":
        return style
    if len(shape) == 2 or axis == len(shape) - 1:
        return "linear"
    if axis == 1:
        return "conv"
    told = "nothing tells which axis" if axis is None else f"axis {axis}"
    raise OptionError(
        f"style='auto': of the value {shape} at the site, {told} holds the channels. Pass "
        'style="conv" to stitch axis 1, or '
        'style="linear" to stitch the last axis.'
    )


def channel_axis(shape: tuple[int, ...], style: str) -> int:
    """Return the axis of the channels, counted from 0."""
    return STYLES[style] % len(shape)


def as_matrix(element: Monomial | Array, channels: int) -> Tensor:
    """Return a given element or matrix as a tensor (c, c), float64.

    Raises:
        InputError: of another size, or not finite.
    """
    matrix = (
        element.matrix()
        if isinstance(element, Monomial)
        else torch.as_tensor(element).detach().double()
    )
    if tuple(matrix.shape) != (channels, channels):
        raise InputError(
            f"element has the shape {tuple(matrix.shape)}, and the site has {channels} "
            "channels. Pass (c, c)."
        )
    if not bool(matrix.isfinite().all()):
        raise InputError("element has entries that are not finite.")
    return matrix
