"""The trunk of Inception-v3 as the FID network has it.

Batch norms have no scale, averages leave the padding out, and the last block has a maximum instead
of an average.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sigmascope.errors import FileFormatError

Size = tuple[int, int]
PARTS = ("weight", "beta", "mean", "var")


class Convolution(nn.Module):
    """A convolution, a batch norm, and a ReLU."""

    def __init__(self, channels: tuple[int, int], size: Size, *, stride: int = 1, pad: bool = True):
        super().__init__()
        padding = (size[0] // 2, size[1] // 2) if pad else (0, 0)
        self.conv = nn.Conv2d(*channels, size, stride, padding, bias=False)
        self.norm = nn.BatchNorm2d(channels[1], eps=1e-3)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, c, h, w)."""
        out: Tensor = self.relu(self.norm(self.conv(x)))
        return out


class Branches(nn.ModuleList):
    """Branches whose channels are put side by side."""

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, c, h, w)."""
        return torch.cat([branch(x) for branch in self], dim=1)


def chain(width: int, *steps: tuple[int, Size], first: nn.Module | None = None) -> nn.Sequential:
    """Return convolutions one after the other, of so many channels and these sizes."""
    modules: list[nn.Module] = [first] if first else []
    for channels, size in steps:
        modules.append(Convolution((width, channels), size))
        width = channels
    return nn.Sequential(*modules)


def ending(before: nn.Sequential, width: int, channels: int) -> nn.Sequential:
    """Return a chain with a convolution at its end that halves height and width."""
    return nn.Sequential(*before, Convolution((width, channels), (3, 3), stride=2, pad=False))


def average() -> nn.AvgPool2d:
    """Return the mean of what is there, without the padding."""
    return nn.AvgPool2d(3, 1, 1, count_include_pad=False)


ONE, THREE, FIVE, WIDE, TALL = (1, 1), (3, 3), (5, 5), (1, 7), (7, 1)


def block_a(width: int, pooled: int) -> Branches:
    """Return a block at 35 x 35."""
    three = chain(width, (64, ONE), (96, THREE), (96, THREE))
    end = chain(width, (pooled, ONE), first=average())
    return Branches([chain(width, (64, ONE)), chain(width, (48, ONE), (64, FIVE)), three, end])


def block_b(width: int) -> Branches:
    """Return the block from 35 x 35 to 17 x 17."""
    long = ending(chain(width, (64, ONE), (96, THREE)), 96, 96)
    return Branches([ending(nn.Sequential(), width, 384), long, nn.MaxPool2d(3, 2)])


def block_c(width: int, inside: int) -> Branches:
    """Return a block at 17 x 17."""
    short = chain(width, (inside, ONE), (inside, WIDE), (192, TALL))
    steps = [(inside, ONE), (inside, TALL), (inside, WIDE), (inside, TALL), (192, WIDE)]
    end = chain(width, (192, ONE), first=average())
    return Branches([chain(width, (192, ONE)), short, chain(width, *steps), end])


def block_d(width: int) -> Branches:
    """Return the block from 17 x 17 to 8 x 8."""
    short = ending(chain(width, (192, ONE)), 192, 320)
    long = ending(chain(width, (192, ONE), (192, WIDE), (192, TALL)), 192, 192)
    return Branches([short, long, nn.MaxPool2d(3, 2)])


def block_e(width: int, pool: nn.Module) -> Branches:
    """Return a block at 8 x 8, with branches that fork."""
    forks = [Branches([chain(384, (384, (1, 3))), chain(384, (384, (3, 1)))]) for _ in range(2)]
    short = nn.Sequential(*chain(width, (384, ONE)), forks[0])
    long = nn.Sequential(*chain(width, (448, ONE), (384, THREE)), forks[1])
    return Branches([chain(width, (320, ONE)), short, long, chain(width, (192, ONE), first=pool)])


def trunk() -> nn.Sequential:
    """Return the network, images (n, 3, 299, 299) -> features (n, 2048), with random weights."""
    return nn.Sequential(
        Convolution((3, 32), THREE, stride=2, pad=False),
        Convolution((32, 32), THREE, pad=False),
        Convolution((32, 64), THREE),
        nn.MaxPool2d(3, 2),
        Convolution((64, 80), ONE),
        Convolution((80, 192), THREE, pad=False),
        nn.MaxPool2d(3, 2),
        *(block_a(192, 32), block_a(256, 64), block_a(288, 64), block_b(288)),
        *(block_c(768, 128), block_c(768, 160), block_c(768, 160), block_c(768, 192)),
        *(block_d(768), block_e(1280, average()), block_e(2048, nn.MaxPool2d(3, 1, 1))),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


@torch.no_grad()
def fill(network: nn.Sequential, tensors: Mapping[str, Tensor]) -> nn.Sequential:
    """Copy the parameters of the scripted network, whose convolutions have the same order.

    Raises:
        FileFormatError: there are others, or more or fewer.
    """
    paths = list(dict.fromkeys(path.rpartition(".")[0] for path in tensors))
    own = [module for module in network.modules() if isinstance(module, Convolution)]
    if len(paths) != len(own):
        raise FileFormatError(f"expected {len(own)} convolutions, got {len(paths)}.")
    for path, module in zip(paths, own, strict=True):
        targets = module.conv.weight, module.norm.bias, module.norm.running_mean
        for part, target in zip(PARTS, (*targets, module.norm.running_var), strict=True):
            found = tensors[f"{path}.{part}"]
            if target is None or target.shape != found.shape:
                raise FileFormatError(f"{path}.{part} has the shape {tuple(found.shape)}.")
            target.copy_(found)
    return network
