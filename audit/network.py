"""A network of a library, how to build it, and what to give it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

# Not a size that other axes of networks usually have.
SAMPLES = 3


class Built(NamedTuple):
    """A network, a batch for it, and how to run it where that is not plain."""

    model: nn.Module
    batch: Any
    forward: Callable[[nn.Module, Any], object] | None = None


@dataclass(frozen=True)
class Case:
    """A network to audit; `name` begins with the library."""

    name: str
    build: Callable[[], Built]

    @property
    def library(self) -> str:
        return self.name.partition("/")[0]


def noise(*shape: int, samples: int = SAMPLES) -> Tensor:
    """Return samples that differ, the same in every run."""
    return torch.randn(samples, *shape, generator=torch.Generator().manual_seed(0))


def tokens(length: int, vocabulary: int = 90, first: int = 6) -> Tensor:
    """Return token ids (samples, length), none of them special."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(first, vocabulary, (SAMPLES, length), generator=generator)
