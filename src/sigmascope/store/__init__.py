"""Files that survive: written atomically, read strictly, and continued after an interruption.

`documents` holds JSON, `codec` turns dataclasses into it and back, `tensors` holds tensors,
`paired` a document with tensors, `journal` grows line by line, and `kept` says which run a file
belongs to and who works on it. What is written is read back unchanged; the rest is rejected.
"""

from __future__ import annotations

from sigmascope.store.codec import decode, encode
from sigmascope.store.documents import kind_of, read_json, write_json
from sigmascope.store.files import write_atomic
from sigmascope.store.journal import Journal
from sigmascope.store.kept import KeptRun, check_identity, claim, claim_beside, differences
from sigmascope.store.paired import read_paired, record_of, write_paired
from sigmascope.store.tensors import read_features, write_features

__all__ = [
    "Journal",
    "KeptRun",
    "check_identity",
    "claim",
    "claim_beside",
    "decode",
    "differences",
    "encode",
    "kind_of",
    "read_features",
    "read_json",
    "read_paired",
    "record_of",
    "write_atomic",
    "write_features",
    "write_json",
    "write_paired",
]
