"""The page: numbers, scripts and style sheet in one HTML file that asks for nothing from anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from sigmascope.measure.signature import Signature
from sigmascope.reporting.beside import Missing
from sigmascope.reporting.document import KIND, VERSION, document_of
from sigmascope.store.documents import wrap
from sigmascope.store.files import Location, write_atomic

__all__ = ["LARGEST", "page_of", "report"]

LARGEST = 1_500_000  # bytes; the companion metrics go first
LIBRARIES = ("vendor/d3.min.js", "vendor/plot.umd.min.js")
STYLES = ("theme", "frame", "charts", "tables", "media")
# In this order they become one script, which keeps its names to itself.
SCRIPTS = (
    "dom",
    "data",
    "lens",
    "choice",
    "signatures",
    "networks",
    "distances",
    "densities",
    "sites",
    "settings",
    "page",
)
PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
# What could end a script element, start a comment in it, or end a line in old scripts.
UNSAFE = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def report(
    signatures: Sequence[Signature],
    path: Location,
    *,
    facts: Mapping[str, Any] | None = None,
    data: str | None = None,
    missing: Missing = (),
) -> Path:
    """Write signatures side by side as one HTML page: charts, tables, distances, settings.

    The page is self-contained and may be opened from a disk, mailed or printed. Names of networks
    and layers are shown as text, whatever they contain. A page below 1.5 MB is a goal, kept for 60
    networks of 260 sites with names of usual length: where it would be missed, the companion
    metrics are left out and the page says so; what is larger still is written all the same.

    Args:
        signatures: of the networks, in the order to show; networks of the same name are told apart
            by a number.
        path: the file, which is replaced at once or not at all.
        facts: name of a network -> what is known of it: an object with `accuracy` (in percent),
            `depth` and `flops`, each a number or None. What is known of any network becomes a
            column of the table.
        data: what the networks were shown, in words, such as "cifar10, 2560 samples".
        missing: names of networks that could not be measured, each with the reason.

    Returns:
        The path.

    Raises:
        InputTypeError: `signatures` is no sequence of signatures; facts, data or missing networks
            of a wrong type.
        InputError: there is none; the path is a folder.

    >>> import tempfile, torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
    >>> found = sg.signature(network, [torch.randn(64, 4)], progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report([found], f"{folder}/report.html").name
    'report.html'
    """
    document = partial(document_of, signatures, facts=facts, data=data, missing=missing)
    page = page_of(document())
    if len(page) > LARGEST:
        page = page_of(document(companions=False))
    write_atomic(path, page)
    return Path(path)


def page_of(document: dict[str, Any]) -> bytes:
    """Put a document into the page.

    Scripts and styles are admitted by their hashes alone, so that nothing in the document can
    become one.

    Args:
        document: see `document_of`.
    """
    libraries = [_asset(name) for name in LIBRARIES]
    own = "".join(
        [
            '(() => {\n"use strict";\n',
            *(_asset(f"scripts/{name}.js") for name in SCRIPTS),
            "})();\n",
        ]
    )
    style = "".join(_asset(f"styles/{name}.css") for name in STYLES)
    parts = {
        "policy": _policy([*libraries, own], [style]),
        "style": f"<style>{style}</style>",
        "data": json.dumps(
            wrap(KIND, VERSION, document), allow_nan=False, separators=(",", ":")
        ).translate(UNSAFE),
        "scripts": "\n".join(f"<script>{script}</script>" for script in [*libraries, own]),
    }
    # In one pass: what is put in is not searched again for places to fill.
    return PLACEHOLDER.sub(lambda found: parts[found[1]], _asset("page.html")).encode()


def _asset(name: str) -> str:
    return files("sigmascope.reporting").joinpath(name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """Write the content-security policy: nothing but these scripts and styles, and no string may
    become markup or code.
    """
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts))}",
            f"style-src {' '.join(map(_hash, styles))}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
