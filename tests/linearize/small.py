"""Small networks that use activations in every way that a plan must handle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Modules(nn.Module):
    """Convolutions with an activation module after each."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 6, 3), nn.Conv2d(6, 5, 3)
        self.act1, self.act2 = nn.ReLU(), nn.ReLU()
        self.head = nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act2(self.two(self.act1(self.one(x))))
        return self.head(x.mean((2, 3)))


class Functions(Modules):
    """The same with functions."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.two(F.relu(self.one(x))).relu()
        return self.head(x.mean((2, 3)))


class InPlace(Modules):
    """The same with functions in place, whose results are read through their inputs."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.one(x)
        x.relu_()
        x = self.two(x)
        torch.relu_(x)
        return self.head(x.mean((2, 3)))


class Reusing(Modules):
    """The same with one module for both."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.act1(self.two(self.act1(self.one(x))))
        return self.head(x.mean((2, 3)))


class Shared(Modules):
    """The same with one module under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.act2 = self.act1


class Block(nn.Module):
    """A residual block whose sum is formed in place, and whose activations work in place."""

    def __init__(self, channels: int = 6) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(self.conv(x))
        y += x
        return self.act(y)


class Residual(nn.Module):
    """Blocks in a list, one of them twice, and functions of the network itself between them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.stem(x))
        for block in [*self.blocks, self.blocks[0]]:
            x = F.leaky_relu(block(x), 0.5)
        return self.head(x.mean((2, 3)))


class Aliased(nn.Module):
    """An activation in place whose input is read again under its old name."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 6), nn.Linear(6, 4)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.one(x)
        y = self.act(x)
        return self.two(y + x)


class ChangedOutput(nn.Module):
    """An activation whose output is changed in place while its input is still needed."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 6), nn.Linear(6, 4)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.one(x)
        y = self.act(x)
        y *= 2
        return self.two(y + x)


class Walking(nn.Module):
    """A network that runs whatever modules it contains."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        for child in self.children():
            x = F.relu(child(x))
        return x


IMAGES = (Modules, Functions, InPlace, Reusing, Shared, Residual)
VECTORS = (Aliased, ChangedOutput)


def images(n: int = 40, seed: int = 0) -> Tensor:
    return torch.randn(n, 3, 7, 7, generator=torch.Generator().manual_seed(seed))


def vectors(n: int = 40, seed: int = 0) -> Tensor:
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))


def built(kind: type[nn.Module], seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return kind().double()


def expected(network: Any, x: Tensor, activations: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
    """Return what a network computes with these activations, in order of execution."""
    following = iter(activations)

    def act(x: Tensor) -> Tensor:
        return next(following)(x)

    if isinstance(network, Residual):
        x = act(network.stem(x))
        for block in [*network.blocks, network.blocks[0]]:
            y = act(block.conv(x)) + x
            x = act(act(y))
        return network.head(x.mean((2, 3)))
    if isinstance(network, Modules):
        x = act(network.two(act(network.one(x))))
        return network.head(x.mean((2, 3)))
    x = network.one(x)
    y = act(x)
    return network.two(y + y if isinstance(network, Aliased) else 2 * y + x)
