"""Runs with functions of one's own are continued with the same functions only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from sigmascope.errors import ResumeError
from sigmascope.linearize import Criterion, Split, fit, tune
from sigmascope.linearize.functions import functions_of

QUICK: dict[str, Any] = {"budget": 1, "epochs": 1, "fold": False, "progress": False}
X = torch.randn(96, 4, generator=torch.Generator().manual_seed(0))
Y = X[:, :2].argmax(1)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()


def smooth(outputs: Any, labels: Any) -> Any:
    return F.cross_entropy(outputs, labels, label_smoothing=0.1)


def smoother(outputs: Any, labels: Any) -> Any:
    return F.cross_entropy(outputs, labels, label_smoothing=0.2)


def test_a_fit_is_not_continued_with_other_functions(tmp_path: Path) -> None:
    split = Split.divided((X, Y))
    own = {"loss": smooth, "by": lambda evidence: [1.0 for _ in evidence.calls]}
    first = fit(network(), split, **QUICK, **own, folder=tmp_path)
    again = fit(network(), split, **QUICK, **own, folder=tmp_path)
    assert again.after == first.after
    changes: list[dict[str, Any]] = [
        {"loss": smoother},
        {"loss": None},
        {"forward": lambda model, batch: model(batch[0])},
        {"by": lambda evidence: [2.0 for _ in evidence.calls]},
        {"by": Criterion(lambda evidence: [3.0 for _ in evidence.calls])},
    ]
    for change in changes:
        with pytest.raises(ResumeError, match=r"functions|by"):
            fit(network(), split, **{**QUICK, **own, **change}, folder=tmp_path)


def test_a_tuning_is_not_continued_with_other_functions(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"

    def tuned(**own: Any) -> list[float]:
        found = tune(network(), (X, Y), epochs=1, checkpoint=path, progress=False, **own)
        return found.losses

    first = tuned(loss=smooth)
    assert tuned(loss=smooth) == first
    for own in ({"loss": smoother}, {"loss": smooth, "forward": lambda model, batch: model(X)}, {}):
        with pytest.raises(ResumeError, match="functions"):
            tuned(**own)


def test_code_tells_functions_apart() -> None:
    def told(function: Any) -> str:
        return functions_of(one=function)["one"].split()[-1]

    assert told(lambda x: x.relu()) == told(lambda x: x.relu())
    assert told(lambda x: x.relu()) != told(lambda x: x.tanh())
    assert told(lambda x: x + 1) != told(lambda x: x + 2)
    assert told(lambda x: (lambda y: y + 1)(x)) != told(lambda x: (lambda y: y + 2)(x))
    assert told(nn.MSELoss()) != told(nn.L1Loss())
    assert functions_of(one=None, by="r2") == {}
