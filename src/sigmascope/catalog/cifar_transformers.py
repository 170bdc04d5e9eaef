"""ViT, Swin and ConvNeXt for images of 3 × 32 × 32 and ten classes."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class EncoderBlock(nn.Module):
    """Attention and an MLP, each after a layer norm and added to its input.

    The MLP is `expansion` times as wide.
    """

    def __init__(self, width: int, attention: nn.Module, expansion: int = 2) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), attention
        self.norm2, self.fc1 = nn.LayerNorm(width), nn.Linear(width, expansion * width)
        self.act, self.fc2 = nn.GELU(), nn.Linear(expansion * width, width)

    def attend(self, x: Tensor) -> Tensor:
        """Return the output of the attention, of the shape of x."""
        out: Tensor = self.attention(x, x, x, need_weights=False)[0]
        return out

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        out: Tensor = x + self.fc2(self.act(self.fc1(self.norm2(x))))
        return out


class VisionTransformer(nn.Module):
    """A ViT (Dosovitskiy et al. 2021) that averages its tokens; patches of `patch` × `patch`."""

    def __init__(self, width: int = 128, depth: int = 6, heads: int = 4, *, patch: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.positions = nn.Parameter(0.02 * torch.randn(1, (32 // patch) ** 2, width))
        blocks = [
            EncoderBlock(width, nn.MultiheadAttention(width, heads, batch_first=True))
            for _ in range(depth)
        ]
        self.blocks = nn.Sequential(*blocks)
        self.norm, self.fc = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (n, 10) of images (n, 3, 32, 32)."""
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        out: Tensor = self.fc(self.norm(self.blocks(x)).mean(dim=1))
        return out


class ConvNeXtBlock(nn.Module):
    """A filter of 7 × 7 on each channel and an MLP on each position, scaled and added."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 7, 1, 3, groups=width)
        self.norm, self.fc1 = nn.LayerNorm(width), nn.Linear(width, 4 * width)
        self.act, self.fc2 = nn.GELU(), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.conv(x).permute(0, 2, 3, 1))
        y = self.scale * self.fc2(self.act(self.fc1(y)))
        out: Tensor = x + y.permute(0, 3, 1, 2)
        return out


class ConvNeXt(nn.Sequential):
    """A ConvNeXt (Liu et al. 2022) of three stages, with batch norm between them."""

    def __init__(
        self, widths: tuple[int, ...] = (48, 96, 192), blocks: tuple[int, ...] = (2, 2, 4)
    ) -> None:
        before, modules = 3, list[nn.Module]()
        for width, count in zip(widths, blocks, strict=True):
            modules += [nn.BatchNorm2d(before)] if modules else []
            modules.append(nn.Conv2d(before, width, 2, 2))
            modules += [ConvNeXtBlock(width) for _ in range(count)]
            before = width
        pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(before)]
        super().__init__(*modules, *pool, nn.Linear(before, 10))


def _offsets(window: int) -> Tensor:
    """Return (window², window²): the row of the bias for each offset between two positions."""
    place = torch.cartesian_prod(torch.arange(window), torch.arange(window))
    offset = place[:, None] - place[None, :] + window - 1
    return offset[..., 0] * (2 * window - 1) + offset[..., 1]


def windows_of(x: Tensor, window: int) -> Tensor:
    """Return (n, h, w, c) cut into windows (n, windows, window², c)."""
    n, height, width, channels = x.shape
    cut = x.view(n, height // window, window, width // window, window, channels)
    return cut.permute(0, 1, 3, 2, 4, 5).reshape(n, -1, window * window, channels)


def put_together(x: Tensor, side: int, window: int) -> Tensor:
    """Return the inverse of `windows_of`: (n, windows, window², c) to (n, side, side, c)."""
    n, channels = x.shape[0], x.shape[-1]
    cut = x.view(n, side // window, side // window, window, window, channels)
    return cut.permute(0, 1, 3, 2, 4, 5).reshape(n, side, side, channels)


def _shifted_mask(side: int, window: int, shift: int) -> Tensor:
    """Return (windows, window², window²): −∞ for pairs that are neighbors by the shift only."""
    wrapped = (torch.arange(side) >= side - shift).long()
    region = (2 * wrapped[:, None] + wrapped[None, :]).view(1, side, side, 1)
    label = windows_of(region, window)[0, :, :, 0]
    return torch.zeros(1).masked_fill(label[:, :, None] != label[:, None, :], -torch.inf)


class WindowAttention(nn.Module):
    """Attention within cyclically shifted windows, with a bias for each relative position."""

    offsets: Tensor
    mask: Tensor

    def __init__(self, width: int, heads: int, *, side: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.side, self.window, self.shift = heads, side, window, shift
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(0.02 * torch.randn((2 * window - 1) ** 2, heads))
        self.register_buffer("offsets", _offsets(window), persistent=False)
        self.register_buffer("mask", _shifted_mask(side, window, shift), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, side, side, width) from the same shape."""
        n, channels = x.shape[0], x.shape[-1]
        cut = windows_of(torch.roll(x, (-self.shift, -self.shift), (1, 2)), self.window)
        qkv = self.qkv(cut).view(*cut.shape[:3], 3, self.heads, channels // self.heads)
        # each (n, windows, heads, window², channels of a head)
        q, k, v = qkv.permute(3, 0, 1, 4, 2, 5)
        # (windows, heads, window², window²)
        bias = self.bias[self.offsets].permute(2, 0, 1) + self.mask[:, None]
        weights = torch.softmax((q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5 + bias, dim=-1)
        y = (weights.to(v.dtype) @ v).transpose(2, 3).reshape(n, -1, self.window**2, channels)
        return torch.roll(
            put_together(self.out(y), self.side, self.window), (self.shift, self.shift), (1, 2)
        )


class SwinBlock(EncoderBlock):
    """An encoder block on (n, h, w, c)."""

    def attend(self, x: Tensor) -> Tensor:
        """Return the output of the attention, of the shape of x."""
        out: Tensor = self.attention(x)
        return out


class PatchMerging(nn.Module):
    """Merges four neighbors into one position: (n, h, w, c) to (n, h / 2, w / 2, width)."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(4 * before), nn.Linear(4 * before, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        corners = [x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        out: Tensor = self.fc(self.norm(torch.cat(corners, dim=-1)))
        return out


class SwinTransformer(nn.Module):
    """A Swin transformer (Liu et al. 2021) on patches of 2 × 2; channels come last throughout.

    Every second block is shifted by half a window, except where one window is the whole image. A
    window is at most as large as the image.
    """

    def __init__(
        self,
        widths: tuple[int, ...] = (32, 64, 128),
        blocks: tuple[int, ...] = (2, 4, 2),
        window: int = 4,
        *,
        heads: int = 2,
        expansion: int = 2,
    ) -> None:
        super().__init__()
        self.patches, self.norm0 = nn.Conv2d(3, widths[0], 2, 2), nn.LayerNorm(widths[0])
        modules: list[nn.Module] = []
        for stage, (width, count) in enumerate(zip(widths, blocks, strict=True)):
            side = 16 >> stage
            modules += [PatchMerging(widths[stage - 1], width)] if stage else []
            for number in range(count):
                shift = window // 2 if number % 2 and side > window else 0
                attention = WindowAttention(
                    width, heads << stage, side=side, window=min(window, side), shift=shift
                )
                modules.append(SwinBlock(width, attention, expansion))
        self.blocks = nn.Sequential(*modules)
        self.norm, self.fc = nn.LayerNorm(widths[-1]), nn.Linear(widths[-1], 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (n, 10) of images (n, 3, 32, 32)."""
        x = self.norm0(self.patches(x).permute(0, 2, 3, 1))
        out: Tensor = self.fc(self.norm(self.blocks(x)).mean(dim=(1, 2)))
        return out
