"""One network over one data set, divided among tasks: the signature is that of one process."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import sigmascope as sg
from sigmascope.maths import kept_rows
from sigmascope.runs import measure_runs, measure_split, split_signature
from sigmascope.runs.division import divided
from sigmascope.runs.executors import open_executor
from sigmascope.runs.folder import files_of
from sigmascope.runs.part_tasks import PartTask
from sigmascope.runs.started import Started
from sigmascope.store import encode, write_json
from tests.measure.same_signature import assert_same
from tests.runs.tiny import asked, names_in

IMAGES = torch.randn(331, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
BATCHES = list(IMAGES.split(40))  # the last has 11


class Body(nn.Module):
    """Convolutions, a gate, and an expert that some samples are sent to."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 6, 3), nn.Conv2d(6, 8, 3)
        self.route, self.expert = nn.Linear(8, 1, bias=False), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.second(torch.relu(self.first(x)))
        x = (x * torch.sigmoid(x)).mean((2, 3))
        rows = (self.route(x - x.mean(0))[:, 0] > 0).nonzero()[:, 0]
        out = x.tanh()
        out[rows] = torch.nn.functional.gelu(self.expert(x[rows]))
        return out


class Exits(nn.Module):
    """Makes a second call for some batches only, and one of another width for others."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.linear(x))
        if x.sum() > 42:
            x = torch.tanh(x)
        return torch.nn.functional.gelu(x if x[0, 0] > 0 else x[:, :5])


class Words(nn.Module):
    """Embeds tokens, of which a mask hides some."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.linear = nn.Embedding(50, 8), nn.Linear(8, 8)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return torch.relu(self.linear(self.embed(input_ids)))


def built(make: Callable[[], nn.Module] = Body) -> nn.Module:
    torch.manual_seed(0)
    return make().double()


def sentences() -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 13, (200,), generator=generator)
    ids = torch.randint(50, (200, 12), generator=generator)
    mask = (torch.arange(12) < lengths[:, None]).long()
    return [
        {"input_ids": one, "attention_mask": other}
        for one, other in zip(ids.split(30), mask.split(30), strict=True)
    ]


def vectors() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return list(torch.randn(240, 8, dtype=torch.float64, generator=generator).split(20))


@pytest.mark.parametrize("parts", [1, 2, 4, 9, 50])
def test_any_number_of_parts_gives_the_signature_of_one_process(parts: int) -> None:
    alone = sg.signature(built(), BATCHES, metrics="all", progress=False)
    assert any("the last batch of 11 samples" in note for note in alone.coverage.notes)
    assert {site.kind for site in alone.sites} == {"relu", "sigmoid", "tanh", "gelu"}
    assert max(site.tested for site in alone.sites) == 128
    assert_same(split_signature(built(), BATCHES, parts=parts, metrics="all"), alone)


@pytest.mark.parametrize(
    ("make", "batches", "options"),
    [
        (Body, BATCHES, {"samples": "positions", "max_positions": 9}),
        (Body, BATCHES, {"samples": "tokens", "max_tokens": 100}),
        (Body, BATCHES, {"estimator": "published"}),
        (Body, BATCHES, {"estimator": "population", "max_batches": 5, "sites": "relu"}),
        (Words, sentences(), {}),
        (Words, sentences(), {"samples": "positions", "max_positions": 3}),
        (Words, sentences(), {"samples": "tokens", "max_tokens": 64}),
        (Exits, vectors(), {}),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value)[:40],
)
def test_samples_masks_and_exits(make: Any, batches: list[Any], options: dict[str, Any]) -> None:
    alone = sg.signature(built(make), batches, progress=False, **options)
    assert_same(split_signature(built(make), batches, parts=3, **options), alone)


def test_calls_of_some_batches_only_are_tested_as_such() -> None:
    found = split_signature(built(Exits), vectors(), parts=3)
    tanh = next(site for site in found.sites if site.kind == "tanh")
    assert 0 < tanh.population_n < 240
    reasons = [site.population_reason for site in found.sites if site.kind == "gelu"]
    assert any("columns, and the samples so far have" in reason for reason in reasons)


def test_sums_and_rows_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_rows, "KEPT", 2**12)  # rows of most sites become sums in every part
    alone = sg.signature(built(), BATCHES, samples="positions", progress=False)
    for parts in (2, 7):
        assert_same(split_signature(built(), BATCHES, parts=parts, samples="positions"), alone)


def test_infinite_values_in_one_part_are_told() -> None:
    batches = [one.clone() for one in BATCHES]
    batches[5][3] = math.inf
    alone = sg.signature(built(), batches, estimator="population", progress=False)
    found = split_signature(built(), batches, parts=4, estimator="population")
    assert found.sites[0].population_reason
    assert_same(found, alone)


def test_a_negative_control() -> None:
    alone = sg.signature(built(), BATCHES, progress=False)
    other = [BATCHES[1], BATCHES[0], *BATCHES[2:]]
    with pytest.raises(AssertionError, match="signature"):
        assert_same(split_signature(built(), other, parts=3), alone)


def loader(shuffle: bool = False) -> DataLoader[Any]:
    labels = torch.zeros(331)
    return DataLoader(TensorDataset(IMAGES, labels), batch_size=64, shuffle=shuffle)


@pytest.mark.parametrize("shuffle", [False, True])
def test_loaders(shuffle: bool) -> None:
    alone = sg.signature(built(), loader(shuffle), seed=5, progress=False)
    state = torch.get_rng_state()
    assert_same(split_signature(built(), loader(shuffle), parts=4, seed=5), alone)
    assert torch.equal(state, torch.get_rng_state())


class Stream(IterableDataset[Tensor]):
    """Samples without a length."""

    def __iter__(self) -> Any:
        return iter(IMAGES)


@pytest.mark.parametrize(
    ("batches", "error", "text"),
    [
        (iter(BATCHES), sg.InputTypeError, "a list_iterator gives one batch after the other"),
        (DataLoader(Stream()), sg.InputTypeError, "over Stream gives one batch after the other"),
        (DataLoader(BATCHES, batch_size=None), sg.InputTypeError, "no task can begin in"),
        ([], sg.InputError, "batches is empty"),
        ([BATCHES[0], {"a": 1}], sg.InputError, "batch 1 does not tell its number of samples"),
        ("embedded", sg.InputTypeError, "must both be names of the catalog"),
    ],
    ids=["iterator", "stream", "unbatched", "empty", "no size", "name"],
)
def test_what_cannot_be_divided_is_refused(batches: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        split_signature(built(), batches, parts=2)


def test_bad_options_are_refused() -> None:
    with pytest.raises(sg.OptionError, match="parts must be a whole number"):
        split_signature(built(), BATCHES, parts=0)
    with pytest.raises(sg.OptionError, match="mode='as-is' with layers in training mode"):
        split_signature(built(), BATCHES, parts=2, mode="as-is")
    with pytest.raises(sg.NoActivationError, match="made no activation call"):
        sg.signature(built(nn.Flatten), BATCHES)
    with pytest.raises(sg.PartError, match="Flatten made no activation call"):
        split_signature(built(nn.Flatten), BATCHES, parts=1)


class Backwards:
    """An executor that runs the last call first, and loses each of them once."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], tuple[Any, ...]]] = []
        self.lost: list[Any] = []

    def submit(self, function: Any, task: PartTask, network: Any) -> Any:
        self.waiting.append((Future(), (function, task, network)))
        outer = self

        class Asked:
            def __init__(self, future: Future[Any]) -> None:
                self.future = future

            def done(self) -> bool:
                if outer.waiting:
                    future, (function, task, network) = outer.waiting.pop()
                    if task.span in outer.lost:
                        future.set_result(function(task, network))
                    else:
                        outer.lost.append(task.span)
                        future.set_exception(BrokenExecutor("killed"))
                return self.future.done()

            def result(self) -> Any:
                return self.future.result()

        return Asked(self.waiting[-1][0])


def test_any_order_with_every_task_lost_once() -> None:
    executor = Backwards()
    alone = sg.signature(built(), BATCHES, progress=False)
    assert_same(split_signature(built(), BATCHES, parts=5, executor=executor), alone)
    assert len(executor.lost) == 5


def test_threads(tmp_path: Path) -> None:
    alone = sg.signature(built(), BATCHES, progress=False)
    with ThreadPoolExecutor(2) as executor:
        found = split_signature(built(), BATCHES, parts=3, executor=executor, out=tmp_path)
    assert_same(found, alone)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        f"batches-{first:06d}-{end:06d}.safetensors" for first, end in [(0, 3), (3, 6), (6, 9)]
    ]


class Counted(nn.Sequential):
    """A network that fails at one batch, and counts how many it has run."""

    seen: ClassVar[list[float]] = []
    fails_at: ClassVar[Tensor | None] = None

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(float(x.flatten()[0]))
        if Counted.fails_at is not None and torch.equal(x, Counted.fails_at):
            raise RuntimeError("no room for this one")
        return super().forward(x)


def counted() -> nn.Module:
    torch.manual_seed(0)
    return Counted(nn.Conv2d(3, 4, 3), nn.ReLU()).double()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setattr(Counted, "seen", [])
    monkeypatch.setattr(Counted, "fails_at", None)
    return Counted.seen


def test_a_part_that_fails_is_told_and_the_others_are_kept(
    tmp_path: Path, seen: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = sg.signature(counted(), BATCHES, progress=False)
    monkeypatch.setattr(Counted, "fails_at", BATCHES[4])
    told = r"1 of 3 parts failed: batches 3 to 5 \(RuntimeError: no room.*the others are kept"
    with pytest.raises(sg.PartError, match=told):
        split_signature(counted(), BATCHES, parts=3, out=tmp_path)
    with pytest.raises(sg.PartError, match="nothing is kept without a directory"):
        split_signature(counted(), BATCHES, parts=3)
    assert len(list(tmp_path.iterdir())) == 2
    monkeypatch.setattr(Counted, "fails_at", None)
    seen.clear()
    assert_same(split_signature(counted(), BATCHES, parts=3, out=tmp_path), alone)
    assert set(seen) == {float(one.flatten()[0]) for one in BATCHES[3:6]}
    seen.clear()
    assert_same(split_signature(counted(), BATCHES, parts=3, out=tmp_path), alone)
    assert seen == []


def test_another_number_of_parts_continues(tmp_path: Path, seen: list[float]) -> None:
    alone = sg.signature(counted(), BATCHES, progress=False)
    split_signature(counted(), BATCHES, parts=3, out=tmp_path)
    (tmp_path / "batches-000003-000006.safetensors").unlink()
    seen.clear()
    assert_same(split_signature(counted(), BATCHES, parts=8, out=tmp_path), alone)
    assert set(seen) == {float(one.flatten()[0]) for one in BATCHES[3:6]}


def test_an_interrupted_run_continues(tmp_path: Path, seen: list[float]) -> None:
    class Stops:
        most, left = 1, 2

        def submit(self, function: Any, *arguments: Any) -> Future[Any]:
            if not self.left:
                raise KeyboardInterrupt("enough")
            self.left -= 1
            future: Future[Any] = Future()
            future.set_result(function(*arguments))
            return future

    with pytest.raises(KeyboardInterrupt, match="enough"):
        split_signature(counted(), BATCHES, parts=9, executor=Stops(), out=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    seen.clear()
    split_signature(counted(), BATCHES, parts=9, out=tmp_path)
    assert {float(one.flatten()[0]) for one in BATCHES[:2]}.isdisjoint(seen)


def test_damaged_parts_are_measured_again(tmp_path: Path, seen: list[float]) -> None:
    alone = split_signature(counted(), BATCHES, parts=3, out=tmp_path)
    first, second, _ = sorted(tmp_path.iterdir())
    first.write_bytes(first.read_bytes()[:100])
    assert_same(split_signature(counted(), BATCHES, parts=3, out=tmp_path), alone)
    content = bytearray(second.read_bytes())
    content[-5] ^= 1
    second.write_bytes(content)
    with pytest.raises(sg.PartError, match="It was removed: the same call measures it again"):
        split_signature(counted(), BATCHES, parts=3, out=tmp_path)
    assert_same(split_signature(counted(), BATCHES, parts=3, out=tmp_path), alone)


def test_parts_of_another_run_are_refused(tmp_path: Path) -> None:
    split_signature(built(), BATCHES, parts=2, out=tmp_path)
    with pytest.raises(sg.ResumeError, match=r"belongs to another run: options\.seed is 0 there"):
        split_signature(built(), BATCHES, parts=2, out=tmp_path, seed=1)
    with pytest.raises(sg.ResumeError, match="belongs to another run: weights is"):
        split_signature(Body().double(), BATCHES, parts=2, out=tmp_path)
    with pytest.raises(sg.ResumeError, match="belongs to another run: batches is 9 there"):
        split_signature(built(), BATCHES[:8], parts=2, out=tmp_path)
    for number in (0, 1):
        changed = list(BATCHES)
        changed[number] = changed[number] + 1e-9
        with pytest.raises(sg.ResumeError, match="belongs to another run: values is"):
            split_signature(built(), changed, parts=2, out=tmp_path)


def test_parts_of_another_loader_are_refused(tmp_path: Path) -> None:
    """Of a loader the first batch of each part is read again, and no other."""

    def loader(images: Tensor) -> DataLoader[Any]:
        return DataLoader(TensorDataset(images), batch_size=40)

    split_signature(built(), loader(IMAGES), parts=2, out=tmp_path)
    with pytest.raises(sg.ResumeError, match="belongs to another run: batch 0 is"):
        split_signature(built(), loader(IMAGES + 1e-9), parts=2, out=tmp_path)
    with pytest.raises(sg.ResumeError, match="belongs to another run: samples is 331 there"):
        split_signature(built(), loader(IMAGES[:330]), parts=2, out=tmp_path)


def test_parts_of_other_layers_or_functions_are_refused(tmp_path: Path) -> None:
    linear, batches = nn.Linear(8, 8).double(), vectors()

    def divided_up(activation: nn.Module, **more: Any) -> Any:
        network = nn.Sequential(linear, activation)
        return split_signature(network, batches, parts=2, out=tmp_path, **more)

    first = divided_up(nn.ReLU(), forward=lambda network, x: network(x * 2))
    again = divided_up(nn.ReLU(), forward=lambda network, x: network(x * 2))
    assert_same(first, again)
    with pytest.raises(sg.ResumeError, match="belongs to another run: layers is"):
        divided_up(nn.Tanh(), forward=lambda network, x: network(x * 2))
    with pytest.raises(sg.ResumeError, match=r"another run: functions\.forward is"):
        divided_up(nn.ReLU(), forward=lambda network, x: network(x * 3))
    with pytest.raises(sg.ResumeError, match=r"another run: functions\.forward is"):
        divided_up(nn.ReLU())


class Drifting(nn.Module):
    """Differs in every process, as a network with random weights and no seed."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.linear(x))


def test_tasks_with_different_networks_are_told() -> None:
    class Reloads:
        most = 1

        def submit(self, function: Any, task: PartTask, network: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_result(function(task, Drifting().double()))
            return future

    with pytest.raises(sg.NetworkError, match="from batch 0 and 4 on are of different networks"):
        split_signature(Drifting().double(), vectors(), parts=3, executor=Reloads())


def test_buffers_that_change_are_told() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.count += 1  # type: ignore[operator]
            return torch.relu(self.linear(x))

    notes = split_signature(built(Counts), vectors(), parts=3).coverage.notes
    assert sum("changes its buffers while it runs" in note for note in notes) == 1


def test_divisions() -> None:
    assert divided(9, 3) == [(0, 3), (3, 6), (6, 9)]
    assert divided(9, 3, [(0, 4), (8, 9)]) == [(4, 6), (6, 8)]
    for parts in range(1, 12):
        spans = divided(9, parts)
        assert [number for first, end in spans for number in range(first, end)] == list(range(9))
        assert max(end - first for first, end in spans) <= -(-9 // parts)


class TestNamed:
    """Networks and data by their names, in a directory of runs."""

    def test_it_is_what_one_process_measures(self, tmp_path: Path) -> None:
        names = names_in(tmp_path, "conv", "wide")
        request = asked(names)
        alone = {one.name: one for one in measure_runs(request, tmp_path / "alone")}
        for outcome in measure_split(request, tmp_path / "split", parts=3):
            assert outcome.state == "measured"
            assert_same(outcome.signature, alone[outcome.name].signature)
            assert outcome.facts == alone[outcome.name].facts
        written = [
            {path.name for path in (tmp_path / folder).rglob("*") if path.is_file()}
            for folder in ("alone", "split")
        ]
        assert written[0] == written[1]
        assert list((tmp_path / "split").rglob("*.parts")) == []
        again = measure_split(request, tmp_path / "split", parts=2)
        assert {one.state for one in again} == {"kept"}

    def test_failures_are_outcomes(self, tmp_path: Path) -> None:
        request = asked(names_in(tmp_path, "broken", "linear", "conv"))
        found = list(measure_split(request, tmp_path / "runs", parts=2))
        assert [one.state for one in found] == ["failed", "failed", "measured"]
        messages = [one.failure.message for one in found if one.failure]
        assert "2 of 2 parts failed: batches 0 to 1 (RuntimeError: the first line" in messages[0]
        assert "made no activation call" in messages[1]

    def test_one_file_and_nothing_written(self, tmp_path: Path) -> None:
        request = asked(names_in(tmp_path, "conv"))
        (first,) = measure_split(request, tmp_path / "one.json", parts=2)
        (second,) = measure_split(request, parts=3)
        assert_same(first.signature, second.signature)
        assert_same(sg.load(tmp_path / "one.json"), second.signature)

    def test_by_name_in_python(self, tmp_path: Path) -> None:
        (name,) = names_in(tmp_path, "conv")
        data = asked([name]).data
        found = split_signature(name, data, parts=2, out=tmp_path / "runs", seed=3)
        (alone,) = measure_runs(asked([name], options={"seed": 3}))
        assert_same(found, alone.signature)
        (broken,) = names_in(tmp_path, "broken")
        with pytest.raises(sg.PartError, match="the first line and the second"):
            split_signature(broken, data, parts=2)


def killed_once(marker: str, model: nn.Module, batch: Tensor) -> object:
    """Run a network, and end the process at the first time that it is called anywhere."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return model(batch)
    os.kill(os.getpid(), signal.SIGKILL)
    return None


class KilledOnce:
    """A forward function that can be sent to a process."""

    def __init__(self, marker: Path) -> None:
        self.marker = str(marker)

    def __call__(self, model: nn.Module, batch: Tensor) -> object:
        return killed_once(self.marker, model, batch)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_a_process_that_is_killed_is_replaced(tmp_path: Path) -> None:
    alone = sg.signature(built(), BATCHES, progress=False)
    forward = KilledOnce(tmp_path / "killed")
    with open_executor("local:1") as executor:
        found = split_signature(
            built(), BATCHES, parts=3, executor=executor, out=tmp_path / "runs", forward=forward
        )
    assert (tmp_path / "killed").exists()
    assert_same(found, alone)


def test_the_parts_of_an_owner_that_died_elsewhere_are_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sigmascope.runs.started.BEAT", 0.05)
    monkeypatch.setattr("sigmascope.runs.started.SILENCE", 0.1)
    [name] = names_in(tmp_path, "conv")
    list(measure_runs(asked([name]), tmp_path / "runs", skip=[name]))
    mark = files_of(tmp_path / "runs", name).started
    assert mark is not None
    write_json(mark, "started", 1, encode(Started(name, "there", 1, 0, "elsewhere")))
    with pytest.warns(UserWarning, match="process 1 on there ended while it measured"):
        [found] = measure_split(asked([name]), tmp_path / "runs", parts=2, progress=False)
    assert found.state == "measured"
