"""Images of the experiment with linearized activations, all on the device, and how they are shown:
the views of an epoch follow from seed and number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

REACH = 4  # pixels by which an image is shifted, at most


@dataclass(frozen=True)
class Images:
    """Images with labels, padded so that a shifted view is a plain slice."""

    padded: Tensor  # (n, 3, 40, 40), float16
    labels: Tensor  # (n,)

    @classmethod
    def of(cls, images: Tensor, labels: Tensor) -> Images:
        """Pad normalized images (n, 3, 32, 32)."""
        return cls(F.pad(images.half(), (REACH,) * 4), labels)

    def __len__(self) -> int:
        return len(self.labels)

    def view(self, chosen: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Return (b, 3, 32, 32), channels last in memory, from pixels (b, 32) and (b, 32)."""
        picked = self.padded[chosen[:, None, None], :, rows[:, :, None], columns[:, None, :]]
        return picked.permute(0, 3, 1, 2).float()


@dataclass(frozen=True)
class Views:
    """How every image is shown in one epoch, and in which order."""

    order: Tensor  # (n,)
    rows: Tensor  # (n, 32), by image
    columns: Tensor  # (n, 32)

    @classmethod
    def of(cls, n: int, seed: int, epoch: int, device: torch.device) -> Views:
        """Draw the views on the CPU, so that they do not depend on the device."""
        generator = torch.Generator().manual_seed(1_000_003 * seed + epoch)
        place = torch.randint(0, 2 * REACH + 1, (2, n, 1), generator=generator)
        forth, flip = torch.arange(32), torch.rand(n, 1, generator=generator) < 0.5
        columns = place[1] + torch.where(flip, forth.flip(0), forth)
        order = torch.randperm(n, generator=generator)
        return cls(*(one.to(device) for one in (order, place[0] + forth, columns)))

    def batches(self, size: int, *, whole: bool) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield image numbers, rows and columns; with `whole` no batch that is smaller."""
        end = len(self.order) // size * size if whole else len(self.order)
        for chosen in self.order[:end].split(size):
            yield chosen, self.rows[chosen], self.columns[chosen]
