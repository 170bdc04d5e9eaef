"""Threads that measure, train and run networks at the same time: nothing wrong, nothing changed."""

from __future__ import annotations

import copy
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader

import sigmascope as sg
from sigmascope.capture import gate, threads, turns
from sigmascope.capture.guard import copied, preserve_state, randomness_kept
from sigmascope.capture.recording import recording
from sigmascope.capture.turns import one_at_a_time
from tests.faults.scale import as_many, write_down

PATIENCE = 120.0  # seconds after which a thread counts as one that hangs


class Drawing(nn.Module):
    """Batch norm, dropout, and random numbers of torch, NumPy and Python in its forward."""

    def __init__(self, seed: int, body: nn.Module | None = None) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.body = body or nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU())
            self.drop, self.last = nn.Dropout(0.5), nn.Linear(12, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x + torch.rand(6) + random.random() + np.random.rand())
        return torch.tanh(self.last(self.drop(x)))


def batches(count: int = 2) -> list[Tensor]:
    return [
        torch.randn(16, 6, generator=torch.Generator().manual_seed(seed)) for seed in range(count)
    ]


def shuffled() -> DataLoader[Any]:
    return DataLoader(torch.cat(batches(4)), batch_size=16, shuffle=True)  # type: ignore[arg-type]


def measured(network: nn.Module, mode: str = "eval") -> list[float]:
    options: dict[str, Any] = {"estimator": "published", "progress": False, "mode": mode}
    return sg.signature(network, shuffled(), **options).scores.tolist()


def state_of(network: nn.Module) -> dict[str, Any]:
    tables = [name for name in vars(network) if "hooks" in name]
    return {
        "flags": [module.training for module in network.modules()],
        "hooks": [[list(getattr(one, name)) for name in tables] for one in network.modules()],
        "attributes": [sorted(vars(module)) for module in network.modules()],
        "values": [tensor.tolist() for tensor in network.state_dict().values()],
    }


def randomness() -> tuple[object, ...]:
    return torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()


def together(*works: Callable[[], object]) -> list[Any]:
    """Run functions in threads that begin at once; return what they return or raise."""
    barrier, results = threading.Barrier(len(works)), [None] * len(works)

    def work(number: int) -> None:
        barrier.wait(PATIENCE)
        try:
            results[number] = works[number]()  # type: ignore[call-overload]
        except BaseException as error:
            results[number] = error  # type: ignore[call-overload]

    started = [
        threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(works))
    ]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in started), "a thread hangs"
    return results


def shared_networks(count: int) -> list[nn.Module]:
    """Networks that share a part with batch norm."""
    body = Drawing(0).body
    return [Drawing(seed, body) for seed in range(count)]


SCENES: dict[str, Callable[[int], list[nn.Module]]] = {
    "one network": lambda count: [Drawing(0)] * count,
    "several networks": lambda count: [Drawing(seed) for seed in range(count)],
    "networks that share layers": shared_networks,
}


@pytest.mark.parametrize("mode", ["eval", "as-is"])
@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("scene", SCENES)
def test_signatures_beside_signatures(scene: str, count: int, mode: str) -> None:
    tried, wrong = as_many(1, 400 // count), 0
    expected = [measured(one, mode) for one in SCENES[scene](count)]
    for _ in range(tried):
        networks = SCENES[scene](count)
        before, drawn = [*map(state_of, networks)], randomness()
        found = together(*(lambda one=one: measured(one, mode) for one in networks))
        same = [*map(state_of, networks)] == before and randomness() == drawn
        wrong += found != expected or not same
    write_down(
        f"{count} threads measure {scene} ({mode})",
        tried=tried,
        failed=wrong,
        note="with batch norm, dropout and random numbers: scores, networks and random states as "
        "alone",
    )
    assert wrong == 0


def test_threads_without_turns_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the trials above would find it."""
    monkeypatch.setattr(turns._Turn, "is_mine", lambda _: True)
    monkeypatch.setattr(turns, "_turns", [turns._Turn("does not matter")])
    inside, going = threading.Event(), threading.Event()

    def slow() -> Iterator[Tensor]:
        inside.set()
        assert going.wait(PATIENCE)
        yield from batches()

    def beside() -> None:
        """Begin and end in the middle of the other one."""
        assert inside.wait(PATIENCE)
        with randomness_kept():
            torch.manual_seed(7)
            going.set()
            other.join(PATIENCE)

    drawn = randomness()
    other = threading.Thread(target=lambda: sg.signature(Drawing(0), slow(), progress=False))
    other.start()
    together(beside)
    assert randomness() != drawn


class Quiet(nn.Module):
    """Draws nothing, so that it is trained in the same way whatever else draws."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            self.body = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.GELU())
            self.last = nn.Linear(12, 3)
        self.modes: list[bool] = []  # of all passes with gradients

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            self.modes += [self.training, self.body[1].training]
        return self.last(self.body(x))


def train(network: nn.Module, steps: int = 12) -> None:
    """Train with plain gradient descent, and switch the mode as people do."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    target = torch.arange(16) % 3
    for step in range(steps):
        network.train()
        optimizer.zero_grad()
        F.cross_entropy(network(batches(step + 1)[-1]), target).backward()
        optimizer.step()


def refused(result: object) -> bool:
    return isinstance(result, sg.NetworkError) and "changed while it was measured" in str(result)


@pytest.mark.parametrize("mode", ["eval", "as-is"])
def test_signatures_beside_training(mode: str) -> None:
    tried, wrong, named = as_many(3, 200), 0, 0
    alone = Quiet()
    train(alone)
    for _ in range(tried):
        network = Quiet()

        def measure(network: nn.Module = network) -> object:
            return sg.signature(network, batches(), mode=mode, progress=False)

        _, *found = together(lambda network=network: train(network), measure, measure)
        named += sum(map(refused, found))
        right = all(isinstance(one, sg.Signature) or refused(one) for one in found)
        same = state_of(network) == state_of(alone) and network.modes == alone.modes
        wrong += not (right and same)
    write_down(
        f"2 threads measure a network that a third trains ({mode})",
        tried=tried,
        failed=wrong,
        note=f"trained to the same bits, in training mode; {named} of {2 * tried} signatures "
        "refused, since the weights changed",
    )
    assert wrong == 0


def test_the_training_thread_alone_would_run_in_evaluation_mode() -> None:
    """Negative control: a gate that lets all pass is found out."""
    network, entered, trained = Quiet(), threading.Event(), threading.Event()

    def measure() -> None:
        with preserve_state(network, mode="eval"):
            gate._closed[0].open()
            entered.set()
            assert trained.wait(PATIENCE)

    def run() -> None:
        assert entered.wait(PATIENCE)
        network(batches()[0])
        trained.set()

    together(measure, run)
    assert network.modes == [False, False]


def within(network: nn.Module, mode: str, work: Callable[[], object]) -> tuple[bool, Any]:
    """Return whether work in another thread waits for a measurement, and what it returns."""
    ended, found = threading.Event(), []

    def run() -> None:
        found.append(work())
        ended.set()

    other = threading.Thread(target=run, daemon=True)
    with preserve_state(network, mode=mode):
        other.start()
        waits = not ended.wait(0.3)
    other.join(PATIENCE)
    assert found, "a thread hangs or fails"
    return waits, found[0]


CALLS: dict[str, Callable[[Quiet], object]] = {
    "call": lambda network: network(batches()[0]) is None,
    "train": lambda network: network.train().training,
    "eval": lambda network: network.eval().training,
}


@pytest.mark.parametrize("call", CALLS)
def test_other_threads_wait_for_a_network_in_training(call: str) -> None:
    for mode in ("eval", "as-is"):
        network = Quiet()
        waits, _ = within(network, mode, lambda network=network: CALLS[call](network))
        assert waits
        assert all(network.modes)
        assert network.training is (call != "eval")
        assert "train" not in vars(network)


def test_nobody_waits_for_a_network_in_evaluation_mode() -> None:
    network = Quiet().eval()
    for mode in ("eval", "as-is"):
        assert within(network, mode, lambda: network(batches()[0]).shape) == (False, (16, 3))


def test_parts_that_are_watched_wait_too() -> None:
    network = Quiet()
    entered, found = threading.Event(), []

    def run() -> None:
        assert entered.wait(PATIENCE)
        nn.Sequential(network.body)(batches()[0])  # another network with the same part
        found.append(network.body[1].num_batches_tracked.item())

    def measure() -> None:
        with preserve_state(network, mode="eval"), recording(network, lambda *_: None):
            entered.set()
            time.sleep(0.1)
            found.append("measured")

    together(run, measure)
    assert found == ["measured", 1]


def test_a_measurement_waits_for_who_is_inside() -> None:
    class Slow(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            entered.set()
            assert going.wait(PATIENCE)
            return x if self.training else -x

    network, entered, going = Slow(), threading.Event(), threading.Event()

    def measure() -> object:
        assert entered.wait(PATIENCE)
        threading.Timer(0.1, going.set).start()
        with preserve_state(network, mode="eval"):
            return network(torch.ones(1)).item()

    found = together(lambda: network(torch.ones(1)).item(), measure)
    assert found == [1.0, -1.0]


class Threaded(nn.Module):
    """Runs a part of itself in a thread of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.other, self.act = nn.Linear(6, 6), nn.Linear(6, 6), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        with ThreadPoolExecutor(1) as pool:
            later = pool.submit(self.other, x)
            return self.act(self.first(x)) + later.result(PATIENCE)


def test_threads_of_the_network_itself_run() -> None:
    network = Threaded()
    for network.training in (True, False):
        found = together(lambda: sg.signature(network, batches(), progress=False))[0]
        assert isinstance(found, sg.Signature), found
        assert any("ran in another thread" in note for note in found.coverage.notes)


def test_a_network_that_is_run_in_a_thread_is_refused_and_does_not_hang() -> None:
    def forward(network: nn.Module, batch: Tensor) -> Tensor:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(network, batch).result(PATIENCE)

    run = together(lambda: sg.signature(Quiet(), batches(), forward=forward, progress=False))
    assert isinstance(run[0], sg.NoActivationError)
    assert "ran in another thread" in str(run[0])


def test_batches_that_measure() -> None:
    """In the same thread a measurement may begin between the passes of another one."""
    network = Drawing(0)
    alone = sg.signature(network, batches(), progress=False).scores

    def measuring() -> Iterator[Tensor]:
        for batch in batches():
            assert (sg.signature(network, batches(), progress=False).scores == alone).all()
            yield batch

    found = together(lambda: sg.signature(network, measuring(), progress=False).scores)
    assert (found[0] == alone).all()
    assert network.training


def test_a_measurement_inside_a_pass_of_the_same_network_is_refused() -> None:
    network = Drawing(0)
    before = state_of(network)

    def forward(model: nn.Module, batch: Tensor) -> Tensor:
        sg.signature(model.body, batches(), progress=False)
        return model(batch)

    with pytest.raises(sg.NetworkError, match=r"began inside its forward pass.*copy\.deepcopy"):
        sg.signature(network, batches(), forward=forward, progress=False)
    assert state_of(network) == before


def produced(work: Callable[[], object]) -> Iterator[Tensor]:
    """Yield batches that a thread makes after some work."""
    queue: Queue[Any] = Queue()

    def make() -> None:
        try:
            work()
            for batch in batches():
                queue.put(batch)
            queue.put(None)
        except sg.NetworkError as error:
            queue.put(error)

    threading.Thread(target=make, daemon=True).start()
    while (item := queue.get(timeout=PATIENCE)) is not None:
        if isinstance(item, Exception):
            raise item
        yield item


WAITING = {
    "measures": (
        lambda network: sg.signature(Drawing(1), batches(), progress=False),
        r"which waits for its turn\. Measure in the same thread, or before",
    ),
    "runs the network": (lambda network: network(batches()[0]), r"which runs the same network\."),
}


@pytest.mark.parametrize("work", WAITING)
def test_a_thread_that_makes_the_batches_and_waits_is_told_so(
    work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "LIMIT", 0.5)
    network = Quiet()
    before = state_of(network)
    function, message = WAITING[work]
    with pytest.raises(sg.NetworkError, match=message):
        sg.signature(network, produced(lambda: function(network)), progress=False)
    assert state_of(network) == before
    assert not turns._turns


def test_a_long_wait_leaves_a_message(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(threads, "PATIENCE", 0.0)
    monkeypatch.setattr(turns, "LOOK", 0.01)
    entered, told = threading.Event(), threading.Event()
    monkeypatch.setattr(threads.logger, "warning", lambda text: (told.set(), said.append(text)))
    said: list[str] = []

    def hold() -> None:
        threading.current_thread().name = "first"
        with one_at_a_time("measures ResNet"):
            entered.set()
            assert told.wait(PATIENCE)

    def wait() -> None:
        assert entered.wait(PATIENCE)
        with one_at_a_time("measures VGG"):
            pass

    together(hold, wait)
    assert said == ["waiting for the thread first, which measures ResNet: threads take turns"]


def test_a_wait_can_be_interrupted() -> None:
    """An interrupt is an exception in the wait; the turn is not taken, nor kept by who gave up."""
    entered, ended = threading.Event(), threading.Event()

    def hold() -> None:
        with one_at_a_time("measures"):
            entered.set()
            assert ended.wait(PATIENCE)

    other = threading.Thread(target=hold, daemon=True)
    other.start()
    assert entered.wait(PATIENCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "_await", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt, match=r"^$"), one_at_a_time("measures"):
            pass
    assert len(turns._turns) == 1
    ended.set()
    other.join(PATIENCE)
    assert not turns._turns


def test_a_context_left_open_by_a_thread_that_ended_stops_nobody() -> None:
    kept = []

    def leave_open() -> None:
        kept.append(one_at_a_time("measures"))
        kept[0].__enter__()

    together(leave_open)
    assert turns._turns
    with one_at_a_time("measures"):
        assert len(turns._turns) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_wait_for_threads_that_it_lacks() -> None:
    entered, ended = threading.Event(), threading.Event()

    def hold() -> None:
        with one_at_a_time("measures"):
            entered.set()
            assert ended.wait(PATIENCE)

    other = threading.Thread(target=hold, daemon=True)
    other.start()
    assert entered.wait(PATIENCE)
    assert len(turns._turns) == 1
    child = os.fork()
    if not child:
        os._exit(len(turns._turns))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(turns._turns) == 1
    ended.set()
    other.join(PATIENCE)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_the_network_as_it_was_before_a_thread_measured_it() -> None:
    network, entered, ended = Quiet(), threading.Event(), threading.Event()
    before = [{*vars(module)} for module in network.modules()]

    def hold() -> None:
        with preserve_state(network, mode="eval"), recording(network, lambda *_: None):
            entered.set()
            assert ended.wait(PATIENCE)

    other = threading.Thread(target=hold, daemon=True)
    other.start()
    assert entered.wait(PATIENCE)
    child = os.fork()
    if not child:
        # exits at once, whatever is wrong: this is a copy of the test
        hooks = [one for one in network.modules() if one._forward_pre_hooks or one._forward_hooks]
        modes = all(module.training for module in network.modules())
        names = [{*vars(module)} for module in network.modules()] == before
        os._exit(bool(hooks) + 2 * (not modes) + 4 * (not names) + 8 * bool(gate._closed))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not network.training
    ended.set()
    other.join(PATIENCE)
    assert network.training


def test_who_switches_a_single_layer_waits_too() -> None:
    network, entered, switched = Quiet(), threading.Event(), threading.Event()

    def freeze() -> None:
        assert entered.wait(PATIENCE)
        network.body[1].eval()
        switched.set()

    other = threading.Thread(target=freeze, daemon=True)
    other.start()
    with preserve_state(network, mode="eval"):
        entered.set()
        assert not switched.wait(0.3)
    other.join(PATIENCE)
    assert switched.is_set()
    assert [module.training for module in network.body] == [True, False, True]
    assert all("train" not in vars(module) for module in network.modules())


def test_copies_are_made_between_measurements() -> None:
    network = Quiet()
    entered = threading.Event()

    def measure() -> None:
        with preserve_state(network, mode="eval"), recording(network, lambda *_: None):
            entered.set()
            time.sleep(0.1)

    def take() -> nn.Module:
        assert entered.wait(PATIENCE)
        return copied(network)

    copy_ = together(measure, take)[1]
    assert copy_.training
    assert not copy_._forward_pre_hooks


def test_a_copy_in_the_middle_switches_itself() -> None:
    network = Quiet()
    with preserve_state(network, mode="eval"):
        copy_ = copy.deepcopy(network)
        copy_.train()
        assert copy_.training
        assert not network.training
    assert network.training


def test_who_waits_to_switch_the_mode_waits_for_the_next_measurement_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network, ended = Quiet(), threading.Event()
    first = gate.Gate([*network.modules()])
    first.close()
    other = threading.Thread(target=lambda: (network.train(), ended.set()), daemon=True)
    other.start()
    while not first._waiting:
        time.sleep(0.01)
    second = gate.Gate([*network.modules()])
    with monkeypatch.context() as patch:
        patch.setattr(first, "_opened", threading.Event())  # which nobody waits for
        opened = threading.Event()
        patch.setattr(first._opened, "set", opened.set)
        first.open()
    second.close()
    first._opened.set()
    assert not ended.wait(0.3)
    second.open()
    other.join(PATIENCE)
    assert ended.is_set()
    assert "train" not in vars(network)
