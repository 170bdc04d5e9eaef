"""Several networks measured into one directory, by one process or by many, and read back.

`request` says what to measure, `folder` where everything lies, `measuring` does the work, `one` a
part of it for any process, `isolation` and `worker` in a child process; `started` marks what is
under way. `splitting` divides one network's data among tasks, see `division`, `part_tasks` and
`parts_folder`; `loading` reads signatures, and `any_file` any file of sigmascope.
"""

from sigmascope.runs.isolation import Isolation
from sigmascope.runs.loading import Run, Runs, load_runs, read_runs
from sigmascope.runs.measuring import measure_runs
from sigmascope.runs.one import measure_one, outcome_in
from sigmascope.runs.outcome import Facts, Failure, Outcome
from sigmascope.runs.request import Request, Selection, Shard, request_for
from sigmascope.runs.splitting import measure_split, split_signature

__all__ = [
    "Facts",
    "Failure",
    "Isolation",
    "Outcome",
    "Request",
    "Run",
    "Runs",
    "Selection",
    "Shard",
    "load_runs",
    "measure_one",
    "measure_runs",
    "measure_split",
    "outcome_in",
    "read_runs",
    "request_for",
    "split_signature",
]
