"""No verb changes the random state of its caller, whose training would not be the same after it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from sigmascope.linearize import Split, apply, fit, fold, load, plan, save, tune


def loader(n: int = 48) -> DataLoader[Any]:
    x = torch.randn(n, 6, generator=torch.Generator().manual_seed(n))
    return DataLoader(TensorDataset(x, x[:, :2].argmax(1)), batch_size=16, shuffle=True)


def network() -> nn.Sequential:
    layers = [nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 6), nn.Tanh(), nn.Linear(6, 2)]
    return nn.Sequential(*layers).eval()


def linearized() -> tuple[nn.Sequential, Any, nn.Module]:
    original = network()
    found = plan(original, loader(), budget=1, by="r2", scores=False, sites="relu")
    return original, found, apply(original, found)


def drawn() -> tuple[list[float], float, float]:
    return torch.rand(3).tolist(), float(np.random.rand()), random.random()


def planning(_: Path) -> Callable[[], object]:
    original = network()
    return lambda: plan(original, loader(), budget=1, by="gradient")


def tuning(_: Path) -> Callable[[], object]:
    original = network()
    return lambda: tune(original, loader(), held_out=loader(32), epochs=1, progress=False)


def fitting(folder: Path) -> Callable[[], object]:
    original, split = network(), Split(loader(), loader(32), loader(16))
    options: dict[str, Any] = {"budget": 1, "by": "r2", "epochs": 1, "progress": False}
    return lambda: fit(original, split, folder=folder, **options)


def folding(_: Path) -> Callable[[], object]:
    made = linearized()[2]
    return lambda: fold(made, keep="fewer")


def loading(folder: Path) -> Callable[[], object]:
    original, found, made = linearized()
    folded = fold(made, keep="fewer")
    assert folded.merges
    save(made, folder, plan=found, folded=folded)
    return lambda: load(folder, original)


@pytest.mark.parametrize("prepared", [planning, tuning, fitting, folding, loading])
def test_the_random_state_is_left_as_it_was(
    prepared: Callable[[Path], Callable[[], object]], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    call = prepared(tmp_path)
    states: Tensor = torch.get_rng_state()
    np.random.seed(1)
    random.seed(1)
    wanted = drawn()
    torch.set_rng_state(states)
    np.random.seed(1)
    random.seed(1)
    call()
    assert drawn() == wanted
