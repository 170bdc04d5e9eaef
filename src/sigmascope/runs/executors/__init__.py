"""Where tasks run: processes of this machine, Ray, Slurm, or anything that has `submit`.

`resources` says what a task needs and reads texts such as "ray://host:10001"; `local`,
`ray_cluster` and `slurm` are one engine each; `window` submits calls, a limited number at a time,
and submits again what an engine has lost. A task is any function of a module, with plain values.

    with open_executor("local:2", Resources(cpus=1)) as executor:
        for call in finished_calls(executor, [(measure, "a"), (measure, "b")], pending=64):
            print(call.number, call.value, call.error)
"""

from sigmascope.runs.executors.opening import open_executor
from sigmascope.runs.executors.resources import Engine, Resources, read_size
from sigmascope.runs.executors.window import (
    Executor,
    Finished,
    FutureLike,
    LostTaskError,
    finished_calls,
)

__all__ = [
    "Engine",
    "Executor",
    "Finished",
    "FutureLike",
    "LostTaskError",
    "Resources",
    "finished_calls",
    "open_executor",
    "read_size",
]
