"""Other threads wait before they run a network that a measurement has put into another mode."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from sigmascope.capture import threads
from sigmascope.capture.layers import Replaced, remove_hook
from sigmascope.capture.threads import Wait, name_of, runs_networks, threads_inside
from sigmascope.errors import NetworkError

LOOK = 0.01  # seconds between looks at the other thread
OWN = 0.05  # seconds in which a thread that runs a network waits, until it waits for its own
REMEDY = "Measure a copy, copy.deepcopy(model), or in the thread that runs the network."


class Gate:
    """Lets one thread run a network, or switch its mode; others wait until it is opened.

    They wait where they call the network, and at every module that a recorder watches.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._modules = frozenset(modules)
        self._network, self._name = modules[0], type(modules[0]).__name__
        self._thread = threading.get_ident()
        self._waiting: set[int] = set()
        self._opened = threading.Event()
        self._trains: list[Replaced] = []
        # a function: of a method, a copy of the network would copy the gate
        self._hook: Callable[..., None] = lambda *_: self.wait()

    def close(self) -> None:
        """Let no other thread enter; wait until those that are inside have left."""
        _closed.append(self)
        # of every module, since people freeze single layers
        self._trains = [Replaced(one, self._gated(one), "train") for one in self._modules]
        for train in self._trains:
            train.add()
        # the first of all hooks: what others do happens behind the gate
        self._network.register_forward_pre_hook(self._hook, prepend=True)
        wait = Wait(f"waiting for a thread that runs {self._name}, to measure it")
        while inside := [one for one in threads_inside(self._modules) if one not in self._waiting]:
            if wait.is_endless(inside[0]):
                raise NetworkError(
                    f"the thread {name_of(inside[0])} is running {self._name}, and waits for "
                    f"another thread, perhaps for this one. {REMEDY}"
                )
            self._opened.wait(LOOK)

    def open(self) -> None:
        """Let the others go on."""
        remove_hook(self._network, self._hook)
        for train in self._trains:
            train.remove()
        # both refer to the gate, and the gate to the network: without them it is freed in time
        self._hook, self._trains = _nothing, []
        if self in _closed:
            _closed.remove(self)
        # after a fork another thread opens it: nobody waits, and the lock of the event may be held
        if threading.get_ident() == self._thread:
            self._opened.set()

    def wait(self) -> None:
        """Wait until the gate is opened, unless the thread that may pass waits for this one."""
        me = threading.get_ident()
        if me == self._thread:
            return
        wait = Wait(f"waiting for the thread {name_of(self._thread)}, which measures {self._name}")
        self._waiting.add(me)
        try:
            while not self._opened.wait(LOOK):
                waited = wait.seconds(self._thread)
                # a network may run parts of itself in threads of its own
                if waited > OWN and runs_networks(self._thread):
                    return
                if waited > threads.LIMIT:
                    raise NetworkError(
                        f"the thread {name_of(self._thread)} measures {self._name} in another mode "
                        f"and waits for another thread, perhaps for this one ({name_of(me)}), "
                        f"which runs the same network. {REMEDY}"
                    )
        finally:
            self._waiting.discard(me)

    def guards(self, module: nn.Module) -> bool:
        """Return whether a module is part of the network."""
        return module in self._modules

    def _gated(self, module: nn.Module) -> Callable[..., Any]:
        train = module.train

        def gated(*args: Any, **kwargs: Any) -> Any:
            self.wait()
            # meanwhile another gate may have been closed
            again = threading.get_ident() != self._thread and self._opened.is_set()
            return (module.train if again else train)(*args, **kwargs)

        return gated


def _nothing(*_: object) -> None:
    """Take the place of a hook."""


_closed: list[Gate] = []


def wait_at_gate(module: nn.Module) -> None:
    """Wait where a module is part of a network that another thread has put into another mode."""
    for gate in [*_closed]:
        if gate.guards(module):
            gate.wait()
