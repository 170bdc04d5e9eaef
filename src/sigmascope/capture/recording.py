"""Watching a network: its activation calls, in order of execution, passed to an observer."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from weakref import WeakKeyDictionary

from torch import nn

from sigmascope.capture.activations import chosen_kinds
from sigmascope.capture.ending import ending
from sigmascope.capture.gathered import GatheredFollowing
from sigmascope.capture.gating import ALONE
from sigmascope.capture.guard import called_within, plain_path, unwrapped
from sigmascope.capture.mode import restoring_functions
from sigmascope.capture.observer import Observer
from sigmascope.capture.recorder import Recorder
from sigmascope.capture.sharded import sharded_parts
from sigmascope.capture.turns import one_at_a_time
from sigmascope.capture.unforeseen import CarefulFollowing
from sigmascope.capture.walk import modules_of, tensors_of
from sigmascope.errors import NetworkError

# What is known of the functions that a network calls, for the next time that it is watched.
_followed: WeakKeyDictionary[nn.Module, CarefulFollowing] = WeakKeyDictionary()
_active: dict[Recorder, set[nn.Module]] = {}  # with the modules that they watch


@contextmanager
def recording(
    model: nn.Module,
    observe: Observer,
    *,
    activations: str | Collection[str] = "pointwise",
    fuse: bool = True,
    gates: str = ALONE,
) -> Iterator[Recorder]:
    """Pass every activation call that a network makes inside the context to an observer.

    The network computes exactly what it computes otherwise, with one exception: the fused path of
    `nn.TransformerEncoderLayer`, which hides its activations, is not taken. Activations in other
    threads, in functions compiled by `torch.jit.script` and inside the fused kernels of recurrent
    layers are not seen.

    Args:
        model: any network. Its hooks are restored when the context ends, however it ends.
        observe: see `Observer`.
        activations: which kinds to pass on, see `chosen_kinds`.
        fuse: whether an activation that is written as a formula, such as `x * torch.sigmoid(x)`, is
            one call. It is recognized when the network has run, so that its parts are passed on
            the first time.
        gates: "unit" for a gate and the product with it as one call, which is known, too, when the
            network has run; otherwise "alone".

    Raises:
        NetworkError: a network whose calls cannot be watched.

    >>> import torch
    >>> def show(call, x):
    ...     return lambda y: print(call.path, call.number, call.kind, tuple(x.shape))
    >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    >>> with recording(model, show):
    ...     _ = model(torch.zeros(2, 3))
    1 0 relu (2, 4)
    """
    network = unwrapped(called_within(model), sharded=True)
    with one_at_a_time(f"watches {type(network).__name__}"):
        modules = modules_of(network)
        _refuse_inside(modules)
        fresh = GatheredFollowing if sharded_parts(network) else CarefulFollowing
        following = _followed.pop(network, None) or fresh()
        following.begin(tensors_of(modules))
        recorder = Recorder(observe, chosen_kinds(activations), following, fuse=fuse, gates=gates)
        with ending() as steps:
            steps.append(restoring_functions())
            steps.append(partial(_active.pop, recorder, None))
            _active[recorder] = {module for _, module in modules}
            for path, module in modules:
                watcher = recorder.watcher(module, plain_path(path))
                if watcher is not None:
                    steps.append(watcher.remove)
                    watcher.add()
            steps.append(recorder.stop)
            recorder.start()
            yield recorder
        # not where the network was interrupted, perhaps in the middle of a step
        following.end_pass()
        following.begin_pass()
        following.where = lambda: ("", False)  # a recorder keeps its observer
        _followed[network] = following


def _refuse_inside(modules: list[tuple[str, nn.Module]]) -> None:
    """Raise where a module runs under another recorder, which would take its calls for its own."""
    for recorder, watched in _active.items():
        if recorder.passing and any(module in watched for _, module in modules):
            raise NetworkError(
                "the network is being measured, and a measurement of it began inside its forward "
                "pass. Measure it before, or a copy: copy.deepcopy(model)."
            )
