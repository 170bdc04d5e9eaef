"""Several networks measured into one folder, by one process or by many, and read back.

`request` says what is asked for, `folder` where everything lies, `survey` does the work and
`loading` reads the results.
"""

from sigmascope.runs.loading import Run, Runs, load_runs, read_runs
from sigmascope.runs.outcome import Facts, Failure, Outcome
from sigmascope.runs.request import Request, Selection, Shard, request_for
from sigmascope.runs.measuring import measure_runs

__all__ = [
    "Facts",
    "Failure",
    "Outcome",
    "Request",
    "Run",
    "Runs",
    "Selection",
    "Shard",
    "load_runs",
    "measure_runs",
    "read_runs",
    "request_for",
]
