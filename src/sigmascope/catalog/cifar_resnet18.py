"""ResNet-18 for images of 3 × 32 × 32 and ten classes: four stages, with convolutions on the
shortcuts between them.
"""

from __future__ import annotations

import itertools

from torch import Tensor, nn

__all__ = ["ResNet18"]


class ProjectedBlock(nn.Module):
    """Two convolutions and a shortcut, which is a convolution where the width or the size changes."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.act1 = nn.ReLU()
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        same = before == width and stride == 1
        projection = (
            () if same else (nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        )
        self.shortcut = nn.Sequential(*projection)
        self.act2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))))
        out: Tensor = self.act2(y + self.shortcut(x))
        return out


class ResNet18(nn.Module):
    """The ResNet-18 of ImageNet (He et al. 2016) with a stem for small images: 3 × 3, no stride, no
    pooling.
    """

    def __init__(self, widths: tuple[int, ...] = (64, 128, 256, 512)) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.act1 = nn.ReLU()
        blocks: list[nn.Module] = []
        for before, width in itertools.pairwise([widths[0], *widths]):
            blocks += [
                ProjectedBlock(before, width, 1 + (before != width)),
                ProjectedBlock(width, width, 1),
            ]
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(widths[-1], 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (n, 10) of images (n, 3, 32, 32)."""
        x = self.blocks(self.act1(self.bn1(self.conv1(x))))
        out: Tensor = self.fc(x.mean(dim=(2, 3)))
        return out
