"""Seeds: a whole number or a torch.Generator, wherever something is drawn at random."""

from __future__ import annotations

from typing import TypeAlias

import torch

from sigmascope.checks import LARGEST_SEED, check_seed
from sigmascope.errors import InputTypeError

FixedSeed: TypeAlias = int | torch.Generator
Seed: TypeAlias = FixedSeed | None


def as_generator(seed: Seed, device: torch.device | str = "cpu") -> torch.Generator | None:
    """Return a generator: the given one, or a new one from a whole number; None is torch's own.

    Raises:
        InputTypeError: neither.
        OptionError: a number that is not from 0 to 2⁶³ - 1.

    >>> as_generator(3).initial_seed()
    3
    """
    if seed is None or isinstance(seed, torch.Generator):
        return seed
    if not hasattr(seed, "__index__") or isinstance(seed, bool):
        raise InputTypeError(f"seed must be a whole number or a torch.Generator, got {seed!r:.80}.")
    return torch.Generator(device).manual_seed(check_seed(seed))


def as_number(seed: FixedSeed, largest: int = LARGEST_SEED) -> int:
    """Return a whole number, see `check_seed`: the given one, or one drawn from a generator."""
    if isinstance(seed, torch.Generator):
        return int(torch.randint(2**32, (), generator=seed, device=seed.device))
    return check_seed(seed, largest)
