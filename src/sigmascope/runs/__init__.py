"""Several networks measured into one directory, by one process or by many, and read back.

`request` says what to measure, `folder` where everything lies, `measuring` does the work, `loading`
reads signatures, and `any_file` any file of sigmascope.
"""

from sigmascope.runs.loading import Run, Runs, load_runs, read_runs
from sigmascope.runs.measuring import measure_runs
from sigmascope.runs.outcome import Facts, Failure, Outcome
from sigmascope.runs.request import Request, Selection, Shard, request_for

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
