"""Several networks measured into one directory, by one process or by many, and read back.

`request` says what to measure, `folder` where everything lies, `network` measures one network,
`measuring` one after the other, `one` a single one for any process, `isolation` and `worker` in a
child process; `started` marks what is under way, `listing` says what there is, `loading` reads
signatures, and `any_file` any file of sigmascope. `surveying` measures many networks by `tasks` on
one of the `executors`, driven by `conducting`; `splitting` divides the data of one network among
tasks, see `division`, `part_tasks` and `parts_folder`.
"""

from sigmascope.runs.executors import LostTaskError, Resources
from sigmascope.runs.isolation import Isolation
from sigmascope.runs.listing import Listing, list_runs
from sigmascope.runs.loading import Run, Runs, load_runs, read_runs
from sigmascope.runs.measuring import measure_runs
from sigmascope.runs.one import measure_one, outcome_in
from sigmascope.runs.outcome import Facts, Failure, Outcome
from sigmascope.runs.request import Request, Selection, Shard, request_for
from sigmascope.runs.splitting import measure_split, split_signature
from sigmascope.runs.surveying import survey, survey_outcomes
from sigmascope.runs.tally import Tally

__all__ = [
    "Facts",
    "Failure",
    "Isolation",
    "Listing",
    "LostTaskError",
    "Outcome",
    "Request",
    "Resources",
    "Run",
    "Runs",
    "Selection",
    "Shard",
    "Tally",
    "list_runs",
    "load_runs",
    "measure_one",
    "measure_runs",
    "measure_split",
    "outcome_in",
    "read_runs",
    "request_for",
    "split_signature",
    "survey",
    "survey_outcomes",
]
