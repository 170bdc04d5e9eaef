"""Runs that are killed and continued: the same bits as a run in one piece, and nobody else's."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import sigmascope as sg
from sigmascope.store import encode, read_features, write_features
from tests.resealing import edit_record

# Noise in evaluation mode and a loader that shuffles: everything that a run draws must be drawn
# again in the same way. Each attempt is a process of its own, forked to be spared the import of
# torch. It comes to a batch that it waits for in vain, and is killed once it has noted another one.
SCRIPT = """
import json, os, random, signal, sys, time, torch
from pathlib import Path
from torch import nn
from torch.utils.data import DataLoader
import sigmascope as sg
from sigmascope.measure import accumulating
from sigmascope.store import encode

if sys.argv[2] == "often":  # sums are written after every batch, otherwise never before the end
    accumulating.PAUSE = accumulating.PATIENCE = 0

class Noisy(nn.Module):
    def forward(self, x):
        return x + 0.1 * torch.randn_like(x)

class Held(DataLoader):
    last = None  # the batch that never comes

    def __iter__(self):
        for number, batch in enumerate(super().__iter__()):
            while number == self.last:
                time.sleep(9)
            yield batch

torch.manual_seed(0)
network = nn.Sequential(nn.Linear(4, 6), Noisy(), nn.ReLU(), nn.Linear(6, 5), nn.Tanh())
loader = Held(torch.randn(8 * 12 + 5, 4), batch_size=12, shuffle=True)
journal = Path(sys.argv[1])

def run(resume, seed):
    torch.manual_seed(seed)
    return encode(sg.signature(network, loader, resume=resume, seed=3, metrics="cka"))

def noted():
    return journal.read_bytes().count(b"\\n") if journal.exists() else 0

def killed(attempt):
    before, process = max(noted(), 1), os.fork()
    if not process:
        loader.last = min(3 * attempt, 8)
        run(journal, attempt)
        os._exit(0)
    while noted() <= before:
        time.sleep(0.001)
    time.sleep(random.Random(attempt).uniform(0, 0.02))
    os.kill(process, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(process, 0)[1])

whole = run(None, 0)
found = {"killed": [killed(attempt) for attempt in (1, 2, 3)], "noted": noted()}
print(json.dumps({**found, "continued": run(journal, 4), "whole": whole}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
@pytest.mark.parametrize("sums", ["often", "never"])
def test_killed_at_random_moments_and_continued(sums: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, str(script), str(tmp_path / "run.jsonl"), sums]
    done = subprocess.run(
        command,
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["killed"] == [True, True, True]
    assert 3 <= found["noted"] <= 9
    numbers = []
    for one in ("continued", "whole"):
        taken = [
            [*site.pop("influence"), *map(site.pop, ("population", "stderr", "low", "high"))]
            for site in found[one]["sites"]
        ]
        numbers.append(np.array(taken, dtype=float))
    assert numbers[0].shape == (2, 12)
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-12)
    assert found["continued"] == found["whole"]
    assert found["whole"]["batches"] == 8
    assert [site["population_n"] for site in found["whole"]["sites"]] == [101, 101]
    assert found["whole"]["coverage"]["notes"][1:] == [
        "the last batch of 5 samples counts for the population score only, the first has 12"
    ]


def network(seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.Tanh())


def batches(count: int = 5, first: int = 0) -> list[Tensor]:
    return [
        torch.randn(10, 4, generator=torch.Generator().manual_seed(first + seed))
        for seed in range(count)
    ]


def stopping(items: list[Tensor], after: int) -> Iterator[Tensor]:
    yield from items[:after]
    raise KeyboardInterrupt


def cut_off(path: Path, *, after: int = 3, **options: Any) -> None:
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        sg.signature(network(), stopping(batches(), after), resume=path, **options)


@pytest.mark.parametrize("after", range(6))
@pytest.mark.parametrize("metrics", [(), "all"], ids=["alone", "with companions"])
def test_continued_after_any_batch(after: int, metrics: Any, tmp_path: Path) -> None:
    cut_off(tmp_path / "run.jsonl", after=after, metrics=metrics)
    runs = []

    def forward(model: nn.Module, batch: Tensor) -> Tensor:
        runs.append(len(batch))
        return model(batch)

    continued = sg.signature(
        network(), batches(), resume=tmp_path / "run.jsonl", metrics=metrics, forward=forward
    )
    assert encode(continued) == encode(sg.signature(network(), batches(), metrics=metrics))
    assert len(runs) == 5 - after


def test_torn_anywhere(tmp_path: Path) -> None:
    """What a crash leaves of the file is any first part of it."""
    path = tmp_path / "run.jsonl"
    whole = sg.signature(network(), batches(), resume=path)
    content = path.read_bytes()
    for end in range(0, len(content), len(content) // 17):
        path.write_bytes(content[:end])
        assert encode(sg.signature(network(), batches(), resume=path)) == encode(whole)
        assert path.read_bytes() == content


def test_a_finished_run_needs_the_network_no_more(tmp_path: Path) -> None:
    first = sg.signature(network(), batches(), resume=tmp_path / "run.jsonl")
    again = sg.signature(
        network(), batches(), resume=tmp_path / "run.jsonl", forward=lambda model, batch: 1 / 0
    )
    assert encode(again) == encode(first)


def test_more_data_than_before(tmp_path: Path) -> None:
    sg.signature(network(), batches(3), resume=tmp_path / "run.jsonl")
    longer = sg.signature(network(), batches(5), resume=tmp_path / "run.jsonl")
    assert encode(longer) == encode(sg.signature(network(), batches(5)))


class Noise(nn.Module):
    """Random in evaluation mode."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x)


def test_random_networks_and_loaders_continue_alike(tmp_path: Path) -> None:
    noisy = nn.Sequential(nn.Linear(4, 6), Noise(), nn.ReLU())
    loader = DataLoader(torch.cat(batches()), batch_size=10, shuffle=True)
    whole = sg.signature(noisy, loader)
    torch.rand(1)  # the state of the generator outside has no influence

    class Stops(DataLoader):
        def __iter__(self) -> Iterator[Tensor]:
            yield from [batch for batch, _ in zip(super().__iter__(), range(2), strict=False)]
            raise KeyboardInterrupt

    stops = Stops(torch.cat(batches()), batch_size=10, shuffle=True)
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        sg.signature(noisy, stops, resume=tmp_path / "run.jsonl")
    torch.rand(5)
    continued = sg.signature(noisy, loader, resume=tmp_path / "run.jsonl")
    assert encode(continued) == encode(whole)
    other = sg.signature(noisy, loader, seed=1)
    assert other.data != whole.data
    assert other.scores[0] != whole.scores[0]


def test_noise_differs_between_batches() -> None:
    noisy = nn.Sequential(nn.Linear(4, 6), Noise(), nn.ReLU())
    (site,) = sg.signature(noisy, [batches(1)[0]] * 3).sites
    assert len({*site.scores}) == 3


OTHER: dict[str, tuple[Callable[[Path], object], str]] = {
    "data": (
        lambda path: sg.signature(network(), batches(first=50), resume=path),
        r"batch 0 is not the one that the earlier run scored\. Use the same data in the same "
        r"order, or a new file",
    ),
    "data in another order": (
        lambda path: sg.signature(network(), batches()[::-1], resume=path),
        r"batch 0 is not the one",
    ),
    "data that differ later": (
        lambda path: sg.signature(network(), [*batches(2), *batches(3, first=9)], resume=path),
        r"batch 2 is not the one that the earlier run scored",
    ),
    "less data": (
        lambda path: sg.signature(network(), batches(2), resume=path),
        r"the earlier run scored 3 batches, and there are 2\. Use the same data",
    ),
    "weights": (
        lambda path: sg.signature(network(1), batches(), resume=path),
        r"belongs to another run: model is '.*' there and",
    ),
    "layers": (
        lambda path: sg.signature(
            nn.Sequential(*network()[:3], nn.Sigmoid()), batches(), resume=path
        ),
        r"belongs to another run: model is ",
    ),
    "covariance": (
        lambda path: sg.signature(network(), batches(), resume=path, covariance="unbiased"),
        r"options\.covariance is 'ledoit-wolf' there and 'unbiased' here",
    ),
    "metrics": (
        lambda path: sg.signature(network(), batches(), resume=path, metrics="cka"),
        r"options\.metrics: cka only here",
    ),
    "seed": (
        lambda path: sg.signature(network(), batches(), resume=path, seed=1),
        r"options\.seed is 0 there and 1 here",
    ),
    "estimator": (
        lambda path: sg.signature(network(), batches(), resume=path, estimator="published"),
        r"options\.estimator is 'both' there and 'published' here",
    ),
    "max_batches": (
        lambda path: sg.signature(network(), batches(), resume=path, max_batches=4),
        r"options\.max_batches is None",
    ),
}


@pytest.mark.parametrize("case", OTHER)
def test_another_run_is_refused(case: str, tmp_path: Path) -> None:
    cut_off(tmp_path / "run.jsonl")
    before = (tmp_path / "run.jsonl").read_bytes()
    continue_, match = OTHER[case]
    with pytest.raises(sg.ResumeError, match=match):
        continue_(tmp_path / "run.jsonl")
    assert (tmp_path / "run.jsonl").read_bytes() == before
    assert sg.signature(network(), batches(), resume=tmp_path / "run.jsonl").batches == 5


def test_the_order_of_a_set_has_no_influence(tmp_path: Path) -> None:
    """Sets of words have another order in every process."""
    cut_off(tmp_path / "run.jsonl", activations={"relu": 0, "tanh": 0}.keys())
    continued = sg.signature(
        network(),
        batches(),
        resume=tmp_path / "run.jsonl",
        activations={"tanh": 0, "relu": 0}.keys(),
    )
    assert continued.batches == 5


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            lambda record: record.update(size="ten"),
            r"run\.jsonl: line 3\.size: expected a whole number, found 'ten'",
        ),
        (
            lambda record: record["readings"][1].update(score=[]),
            r"run\.jsonl: line 3\.readings\[1\]\.score: expected a number",
        ),
        (lambda record: record.pop("fingerprint"), r"run\.jsonl: line 3: missing 'fingerprint'"),
    ],
)
def test_a_hostile_record_is_named(
    change: Callable[[Any], object], match: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    cut_off(path)
    edit_record(path, 1, change)
    with pytest.raises(sg.FileFormatError, match=match):
        sg.signature(network(), batches(), resume=path)


def test_a_signature_is_no_journal(tmp_path: Path) -> None:
    path = sg.signature(network(), batches()).save(tmp_path / "a.json")
    before = path.read_bytes()
    with pytest.raises(sg.FileFormatError, match=r"a\.json is not a journal of sigmascope"):
        sg.signature(network(), batches(), resume=path)
    assert path.read_bytes() == before


def test_failed_scores_survive(tmp_path: Path) -> None:
    """NaN and its reason come back from the file."""
    spoilt = batches()
    spoilt[1][0, 0] = math.nan
    first = sg.signature(network(), spoilt, resume=tmp_path / "run.jsonl", metrics="all")
    again = sg.signature(network(), spoilt, resume=tmp_path / "run.jsonl", metrics="all")
    assert encode(again) == encode(first)
    assert math.isnan(again.sites[0].scores[1])


def sums_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.moments.safetensors")


def counted(runs: list[int]) -> Callable[[nn.Module, Tensor], Tensor]:
    def forward(model: nn.Module, batch: Tensor) -> Tensor:
        runs.append(len(batch))
        return model(batch)

    return forward


SPOILT: dict[str, Callable[[Path, Path], object]] = {
    "none": lambda sums, other: sums.unlink(),
    "torn": lambda sums, other: sums.write_bytes(sums.read_bytes()[:-9]),
    "of nothing": lambda sums, other: sums.write_bytes(b""),
    "of other data": lambda sums, other: sums.write_bytes(other.read_bytes()),
    "of other tensors": lambda sums, other: write_features(sums, {"a": torch.ones(1)}, {}),
    "without a call": lambda sums, other: write_features(
        sums,
        {
            name: tensor
            for name, tensor in read_features(sums)[0].items()
            if not name.startswith("1/")
        },
        read_features(sums)[1],
    ),
}


@pytest.mark.parametrize("case", SPOILT)
def test_sums_that_are_lost_are_added_up_again(case: str, tmp_path: Path) -> None:
    """The readings of the journal are kept; the batches are run for their sums alone."""
    path = tmp_path / "run.jsonl"
    sg.signature(network(), batches(3, first=50), resume=tmp_path / "other.jsonl")
    cut_off(path)
    # to be recognized
    edit_record(path, 0, lambda record: record["readings"][0].update(score=0.125))
    SPOILT[case](sums_of(path), sums_of(tmp_path / "other.jsonl"))
    runs: list[int] = []
    found = sg.signature(network(), batches(), resume=path, forward=counted(runs))
    assert len(runs) == 5
    assert found.sites[0].scores[0] == 0.125
    whole = sg.signature(network(), batches())
    assert [site.population for site in found.sites] == [site.population for site in whole.sites]
    assert len(path.read_text("utf-8").splitlines()) == 6
    again = sg.signature(network(), batches(), resume=path, forward=lambda model, batch: 1 / 0)
    assert encode(again) == encode(found)


def test_sums_that_are_behind_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    cut_off(path, after=2)
    early = sums_of(path).read_bytes()
    sg.signature(network(), batches(), resume=path)
    sums_of(path).write_bytes(early)
    runs: list[int] = []
    found = sg.signature(network(), batches(), resume=path, forward=counted(runs))
    assert len(runs) == 3
    assert encode(found) == encode(sg.signature(network(), batches()))


@pytest.mark.parametrize("call", range(1, 11))
def test_interrupted_while_sums_are_added(
    call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums to which a batch was added in part are not written."""
    path, calls, original = tmp_path / "run.jsonl", [], sg.Moments.take

    def take(self: sg.Moments, *args: Any, **options: Any) -> None:
        calls.append(self)
        if len(calls) == call:
            raise KeyboardInterrupt
        original(self, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(sg.Moments, "take", take)
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            sg.signature(network(), batches(), resume=path)
    found = sg.signature(network(), batches(), resume=path)
    assert encode(found) == encode(sg.signature(network(), batches()))


@pytest.mark.parametrize("after", [1, 3, 4])
@pytest.mark.parametrize("sizes", [(10, 10, 10, 10, 4), (1,) * 44], ids=["short", "ones"])
def test_positions_continue(sizes: tuple[int, ...], after: int, tmp_path: Path) -> None:
    images = torch.randn(44, 3, 5, 5, generator=torch.Generator().manual_seed(0)).split(list(sizes))
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).double()
    options: dict[str, Any] = {"samples": "positions", "max_positions": 4}
    path = tmp_path / "run.jsonl"
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        sg.signature(model, stopping(list(images), after), resume=path, **options)
    runs: list[int] = []
    found = sg.signature(model, images, resume=path, forward=counted(runs), **options)
    assert encode(found) == encode(sg.signature(model, images, **options))
    assert len(runs) == len(sizes) - after
    assert found.sites[0].population_n == 44 * 4


def test_more_data_after_a_last_batch_that_was_smaller(tmp_path: Path) -> None:
    """It counted for the population only, and counts for both when others follow it."""
    items = [*batches(2), batches(1, first=7)[0][:4], *batches(2, first=8)]
    first = sg.signature(network(), items[:3], resume=tmp_path / "run.jsonl")
    assert (first.batches, first.sites[0].population_n) == (2, 24)
    longer = sg.signature(network(), items, resume=tmp_path / "run.jsonl")
    assert encode(longer) == encode(sg.signature(network(), items))
    assert (longer.batches, longer.sites[0].population_n) == (5, 44)


def test_without_a_population_score_there_are_no_sums(tmp_path: Path) -> None:
    sg.signature(network(), batches(), resume=tmp_path / "run.jsonl", estimator="published")
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl"]


def test_every_value_of_a_batch_counts(tmp_path: Path) -> None:
    """A fingerprint samples values; a run that is resumed reads all of them."""
    first = torch.randn(64, 4_000, generator=torch.Generator().manual_seed(0))
    net = nn.Sequential(nn.Linear(4_000, 2), nn.ReLU())
    sg.signature(net, [first], resume=tmp_path / "run.jsonl")
    for index in (1, 77_777, first.numel() - 2):
        other = first.clone()
        other.view(-1)[index] += 1
        with pytest.raises(sg.ResumeError, match="batch 0 is not the one"):
            sg.signature(net, [other], resume=tmp_path / "run.jsonl")
    assert sg.signature(net, [first.clone()], resume=tmp_path / "run.jsonl").scores.shape == (1,)


@pytest.mark.parametrize("place", ["resume", "keep"])
def test_every_weight_counts(tmp_path: Path, place: str) -> None:
    net = nn.Sequential(nn.Linear(50, 40), nn.ReLU())
    data = torch.randn(64, 50, generator=torch.Generator().manual_seed(0))
    files: dict[str, Any] = {"resume": tmp_path / "run.jsonl", "keep": tmp_path / "kept"}
    sg.signature(net, [data], **files)
    before = sg.signature(net, [data], **files)
    weight: Any = net[0].weight
    with torch.no_grad():
        weight.view(-1)[1_234] += 1
    other = tmp_path / "other.jsonl" if place == "keep" else files["resume"]
    with pytest.raises(sg.SigmascopeError, match=r"weights is|batches of another run"):
        sg.signature(net, [data], **(files | {"resume": other}))
    with torch.no_grad():
        weight.view(-1)[1_234] -= 1
    assert before.data == sg.signature(net, [data]).data  # the same as of a run without files
