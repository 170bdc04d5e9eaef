"""Files that survive: written whole or not at all, read strictly, and continued where a run was
killed.

`documents` holds JSON, `codec` turns dataclasses into it and back, `journal` grows line by line,
`features` holds tensors, and `paired` a document and tensors that belong together. What is written
can be read back unchanged; everything else is refused by name. None of it knows what it stores.
"""

from __future__ import annotations

from sigmascope.store.codec import decode, encode
from sigmascope.store.documents import kind_of, read_json, write_json
from sigmascope.store.tensors import read_features, write_features
from sigmascope.store.files import write_atomic
from sigmascope.store.journal import Journal
from sigmascope.store.kept import KeptRun, check_identity, claim, differences
from sigmascope.store.paired import read_paired, record_of, write_paired

__all__ = [
    "Journal",
    "KeptRun",
    "check_identity",
    "claim",
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
