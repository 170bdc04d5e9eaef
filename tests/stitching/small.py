"""A small network that is trained in a moment, its moved copy, and data that it can learn."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sigmascope.stitching import ALPHAS, CrossValidation, Stitcher, StitchResult, Task
from sigmascope.stitching.stitcher import StitcherOptions
from sigmascope.symmetry.action import move
from sigmascope.training.data import StitchData

CLASSES, SIDE = 4, 6


def conv_net(width: int = 8) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
        *(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, CLASSES)),
    )


def samples(count: int, seed: int, noise: float = 1.0) -> tuple[Tensor, Tensor]:
    """Draw noisy copies of four patterns."""
    patterns = torch.randn(CLASSES, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(99))
    source = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=source)
    return patterns[labels] + noise * torch.randn(count, 1, SIDE, SIDE, generator=source), labels


def data(train: int = 512, test: int = 256) -> StitchData:
    return StitchData(samples(train, 1), samples(test, 2))


@functools.cache
def _trained(seed: int) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = conv_net()
    inputs, labels = samples(1024, 3)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for step in range(120):
        some = slice(step * 64 % 1024, step * 64 % 1024 + 64)
        optimizer.zero_grad()
        F.cross_entropy(network(inputs[some]), labels[some]).backward()
        optimizer.step()
    return network.eval()


def trained(seed: int = 0) -> nn.Sequential:
    """A network of about 98 %; another seed gives another one."""
    return copy.deepcopy(_trained(seed))


def moved(seed: int = 4) -> nn.Module:
    """The same function with its channels permuted and scaled."""
    return move(trained(), seed=seed, log_std=0.5)


class Dropping(nn.Module):
    """Has a random layer before a batch norm, so that what is drawn shows in its statistics;
    always: in evaluation too.
    """

    def __init__(self, *, always: bool = False) -> None:
        super().__init__()
        self.first, self.act, self.drop = nn.Linear(36, 6), nn.ReLU(), nn.Dropout(0.5)
        self.second, self.norm, self.head = (
            nn.Linear(6, 6),
            nn.BatchNorm1d(6),
            nn.Linear(6, CLASSES),
        )
        self.always = always

    def forward(self, x: Tensor) -> Tensor:
        dropped = self.drop(self.act(self.first(x.flatten(1))))
        out: Tensor = self.head(
            self.norm(
                self.second(F.dropout(dropped, 0.5, training=True) if self.always else dropped)
            )
        )
        return out


def dropping(seed: int, *, always: bool = False) -> nn.Module:
    """A network with dropout, not trained; activated at "act"."""
    torch.manual_seed(seed)
    return Dropping(always=always).eval()


def state(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


def equal(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def stitch_many(
    front: nn.Module,
    back: nn.Module,
    tasks: Sequence[Task],
    *,
    checkpoint: Any = None,
    **given: Any,
) -> list[StitchResult]:
    """Several stitches, by keywords of a stitcher."""
    return Stitcher(front, back, **given).fit_many(tasks, checkpoint=checkpoint)


def cross_validate(
    front: nn.Module, back: nn.Module, *, alphas: Any = ALPHAS, checkpoint: Any = None, **given: Any
) -> CrossValidation:
    """Stitches for several α, by keywords of a stitcher and settings."""
    names = ("preset", "seed", "site", "batches", *StitcherOptions.__annotations__)
    held = {name: given.pop(name) for name in names if name in given}
    return Stitcher(front, back, **held).cross_validate(alphas, checkpoint=checkpoint, **given)
