"""Keeping what a front puts out: the same result, files of its own, and fronts for which that would
be wrong.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.stitching import stitcher as running
from sigmascope.stitching.front_cache import FrontCache, _repeats
from sigmascope.stitching.result import StitchResult
from sigmascope.training import evaluation
from sigmascope.training.feed import Feed, split_samples
from tests.stitching.small import data, equal, moved, state, trained


def short(front: nn.Module, back: nn.Module, **changes: Any) -> StitchResult:
    usual = {
        "at": "2",
        "data": data(),
        "preset": "fast",
        "batch": 64,
        "epochs": 2,
        "progress": False,
    }
    return sg.stitch(front, back, **{**usual, **changes})


class Alone(nn.Module):
    """Puts out what crosses: one value."""

    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (x,)


@pytest.mark.parametrize("where", ["memory", "folder"])
@pytest.mark.parametrize("family", ["full", "relu-group"])
def test_a_cached_front_gives_the_same(where: str, family: str, tmp_path: Path) -> None:
    front, back = trained(), trained(1)
    plain = short(front, back, family=family, front_mode="eval")
    cached = short(
        front,
        back,
        family=family,
        front_mode="eval",
        cache_front=True if where == "memory" else tmp_path / "kept",
    )
    assert cached.stitched_accuracy == plain.stitched_accuracy
    # The front sees other batch sizes, which rounds differently.
    torch.testing.assert_close(cached.matrix, plain.matrix, atol=1e-4, rtol=1e-3)
    assert not list(tmp_path.glob("kept/*"))


def test_a_front_that_changes_cannot_be_cached() -> None:
    with pytest.raises(sg.InputError, match=r"1 does in training mode\. Pass front_mode='eval'"):
        short(trained(), moved(), cache_front=True)
    augmented = dataclasses.replace(data(), augment="flip-shift")
    with pytest.raises(sg.InputError, match="cache_front needs inputs that never change"):
        short(trained(), moved(), cache_front=True, front_mode="eval", data=augmented)


class Attending(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.attention, self.act, self.head = (
            nn.MultiheadAttention(6, 2, dropout, batch_first=True),
            nn.ReLU(),
            nn.Linear(36, 4),
        )

    def forward(self, x: Tensor) -> Tensor:
        tokens = x[:, 0]
        out: Tensor = self.head(
            self.act(self.attention(tokens, tokens, tokens, need_weights=False)[0]).flatten(1)
        )
        return out


class Recurrent(nn.Module):
    """Its dropout is no module, but the LSTM is one that torch.fx does not look into."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.lstm, self.act, self.head = (
            nn.LSTM(6, 5, 2, batch_first=True, dropout=dropout),
            nn.ReLU(),
            nn.Linear(30, 4),
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.act(self.lstm(x[:, 0])[0]).flatten(1))
        return out


class Centered(nn.Module):
    """Depends on the batch in either mode."""

    def __init__(self) -> None:
        super().__init__()
        self.act, self.head = nn.ReLU(), nn.Linear(36, 4)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        out: Tensor = self.head(self.act(flat - flat.mean(dim=0)))
        return out


@pytest.mark.parametrize(("build", "name"), [(Attending, "attention"), (Recurrent, "it")])
def test_hidden_dropout_is_not_cached(build: Any, name: str) -> None:
    torch.manual_seed(0)
    random, steady = build(0.5).eval(), build(0.0).eval()
    with pytest.raises(
        sg.InputError, match=rf"{name} does in training mode\. Pass front_mode='eval'"
    ):
        short(random, random, at="act", family="full", cache_front=True)
    short(random, random, at="act", family="full", cache_front=True, front_mode="eval")
    short(steady, steady, at="act", family="full", cache_front=True)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_front_that_depends_on_the_batch_is_not_cached(mode: str) -> None:
    torch.manual_seed(0)
    network = Centered().eval()
    with pytest.raises(sg.InputError, match=r"even in evaluation mode.*Leave cache_front out"):
        short(network, network, at="act", family="full", cache_front=True, front_mode=mode)


def test_checking_a_front_leaves_it_alone() -> None:
    front, samples = nn.Sequential(trained(), Alone()).eval(), data()
    before = state(front)
    feed = Feed(samples.train, samples, torch.device("cpu"), None)
    assert not _repeats(front, feed, "train")
    assert _repeats(front, feed, "eval")
    assert equal(before, state(front))
    assert not front.training


def test_two_caches_in_one_folder(tmp_path: Path) -> None:
    samples = data(64, 8)
    feed = Feed(samples.train, samples, torch.device("cpu"), None)
    fronts = [nn.Sequential(nn.Conv2d(1, 2, 1), Alone()).eval() for _ in range(2)]
    caches = [FrontCache(front, feed, tmp_path) for front in fronts]
    assert not list(tmp_path.iterdir())  # nothing is asked for yet
    numbers = torch.tensor([5, 0, 63])
    with torch.no_grad():
        for front, cache in zip(fronts, caches, strict=True):
            torch.testing.assert_close(cache(numbers)[0], front(feed.inputs[numbers])[0])
    caches[0].close()
    with torch.no_grad():
        torch.testing.assert_close(caches[1](numbers)[0], fronts[1](feed.inputs[numbers])[0])
    caches[1].close()
    assert not list(tmp_path.iterdir())


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from sigmascope.stitching.front_cache import FrontCache
from sigmascope.training import evaluation
from sigmascope.training.data import StitchData
from sigmascope.training.feed import Feed

class Front(torch.nn.Module):
    def forward(self, x):
        return x, x + 1

samples = torch.rand(8, 3), torch.zeros(8, dtype=torch.long)
feed = Feed(samples, StitchData(samples, samples), torch.device("cpu"), None)
evaluation.BATCH, filled = 4, []

def advance():
    filled.append(1)
    if len(filled) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

cache = FrontCache(Front(), feed, Path(sys.argv[1]), advance)
assert torch.equal(cache(torch.tensor([6]))[1], samples[0][6:7] + 1)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="elsewhere mapped files cannot be removed")
@pytest.mark.parametrize("after", [1, 3])
def test_a_killed_run_leaves_nothing(after: int, tmp_path: Path) -> None:
    """Once in the middle of filling the cache, and once in the middle of using it."""
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(after)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert not list(tmp_path.iterdir())


def test_values_on_disk_are_mapped_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: dict[str, int] = {}
    from_file = torch.from_file

    def watched(path: str, **given: Any) -> Tensor:
        mapped = from_file(path, **given)
        sizes[Path(path).name] = Path(path).stat().st_size
        return mapped

    monkeypatch.setattr(torch, "from_file", watched)
    samples = data(64, 8)
    feed = Feed(samples.train, samples, torch.device("cpu"), None)
    cache = FrontCache(nn.Sequential(nn.Conv2d(1, 2, 1), Alone()).eval(), feed, tmp_path)
    assert sizes == {}
    cache.fill()
    assert sizes == {"0.bin": 64 * 2 * 36 * 4}
    cache.close()


def test_a_cache_that_fails_leaves_nothing(tmp_path: Path) -> None:
    samples = data(64, 8)
    feed = Feed(samples.train, samples, torch.device("cpu"), None)

    def stop() -> None:
        raise KeyboardInterrupt("stopped")

    with pytest.raises(KeyboardInterrupt, match="stopped"):
        FrontCache(nn.Sequential(Alone()), feed, tmp_path, stop).fill()
    assert not list(tmp_path.iterdir())


def test_it_is_filled_once_in_evaluation_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "BATCH", 25)
    samples, steps = data(64, 8), [0]
    front = nn.Sequential(nn.BatchNorm2d(1), Alone()).train()
    before = state(front)
    cache = FrontCache(front, Feed(samples.train, samples, torch.device("cpu"), None), None)

    def count() -> None:
        steps[0] += 1

    cache.advance = count
    [found] = cache(torch.tensor([1, 60]))
    cache.fill()
    assert (cache.steps, steps) == (3, [3])
    assert front.training
    assert equal(state(front), before)
    torch.testing.assert_close(found, samples.train[0][[1, 60]] / (1 + 1e-5) ** 0.5)


@pytest.mark.parametrize("final_pass", [False, True])
def test_a_finished_run_fills_it_only_if_it_must(
    final_pass: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the final pass it must: the front on other batches would round differently. Filling shows
    a bar of its own.
    """
    bars: list[tuple[str, int, list[int]]] = []
    filled: list[int] = []
    place = FrontCache._room

    @contextmanager
    def noted(title: str, total: int, *, shown: bool) -> Iterator[Callable[[], None]]:
        assert shown
        bars.append((title, total, []))
        yield lambda: bars[-1][2].append(1)

    def placed(self: FrontCache, value: Tensor, count: int, number: int) -> Tensor:
        filled.append(count)
        return place(self, value, count, number)

    monkeypatch.setattr(evaluation, "BATCH", 100)
    monkeypatch.setattr(running, "progress_bar", noted)
    monkeypatch.setattr(FrontCache, "_room", placed)
    given: dict[str, Any] = {
        "front_mode": "eval",
        "cache_front": True,
        "checkpoint": tmp_path / "a",
        "progress": True,
    }
    one = short(trained(), trained(1), names=("a", "b"), final_pass=final_pass, **given)
    assert [(title, total, len(steps)) for title, total, steps in bars] == [
        ("a → b: front", 6, 6),
        ("a → b", 14, 14),
    ]
    assert filled == [512]
    two = short(trained(), trained(1), names=("a", "b"), final_pass=final_pass, **given)
    assert [bar[0] for bar in bars[2:]] == ["a → b"]
    assert filled == [512, 512][: 1 + final_pass]
    assert equal(one.tensors, two.tensors)
    assert one.record() == two.record()


@pytest.mark.parametrize("family", ["least-squares", "permutation"])
def test_computed_stitches_are_those_of_all_training_samples(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorted by class, the first batches would be another distribution."""
    monkeypatch.setattr(evaluation, "BATCH", 50)
    inputs, labels = data().train
    order = labels.argsort(stable=True)
    chosen = dataclasses.replace(data(), train=(inputs[order], labels[order]))
    some, every = (
        short(trained(), trained(1), family=family, data=chosen, pass_batches=k) for k in (1, None)
    )
    assert torch.equal(some.matrix, every.matrix)
    if family == "least-squares":
        kept, _ = split_samples(512, 0.1, 0)
        with torch.no_grad():
            x, y = (
                one[:3](chosen.train[0][kept]).double().movedim(1, -1).flatten(0, -2)
                for one in (trained(), trained(1))
            )
        torch.testing.assert_close(
            every.matrix.T, torch.linalg.lstsq(x, y).solution, atol=1e-4, rtol=1e-3
        )
