"""The page: numbers, scripts and style sheet in one HTML file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from sigmascope.choices import ScoreKind
from sigmascope.measure.result import Signature
from sigmascope.monitoring.track import Track
from sigmascope.reporting.content import Shown, content_of
from sigmascope.reporting.context import Missing
from sigmascope.reporting.document import KIND, VERSION, without_companions, without_details
from sigmascope.store.documents import wrap
from sigmascope.store.files import Location, write_atomic

LARGEST = 1_500_000  # bytes; details of sites go first, then companion metrics
LIBRARIES = ("vendor/d3.min.js", "vendor/plot.umd.min.js")
STYLES = ("theme", "frame", "charts", "tables", "tracks", "detail", "media")
# Concatenated in this order, in a scope of their own.
SCRIPTS = (
    *("dom", "data", "lens", "choice", "signatures", "networks", "distances", "densities"),
    *("sites", "detail", "detailcharts", "settings"),
    *("tracks", "trackmap", "tracklines", "tracktables", "training"),
    *("download", "view", "refresh", "frame", "page"),
)
PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
# Characters that could end a script element, start a comment in it, or end a line in old scripts.
UNSAFE = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def report(
    signatures: Signature | Track | Sequence[Signature | Track | Location],
    path: Location,
    *,
    facts: Mapping[str, Any] | None = None,
    data: str | None = None,
    missing: Missing = (),
    by: ScoreKind | None = None,
) -> Path:
    """Write signatures and tracks as one HTML page: charts, tables, distances, settings.

    The page is self-contained and can be opened from a disk, mailed or printed. Names of networks
    and layers are shown as text, whatever they contain. A click on a site opens what is known of
    it; the numbers can be downloaded, and the address of the page is a link to the view. Where the
    page would exceed 1.5 MB, the details of sites are left out (beyond about 1,500 sites), then the
    companion metrics (about 60 networks of 260 sites), and the page says so.

    Args:
        signatures: one per network, in the order to show, or a single one; repeated names get a
            number. Tracks may stand among them or alone: the page shows them over the steps of
            their training. Files of either are read.
        path: the file, which is replaced at once or not at all.
        facts: network -> an object or mapping with `accuracy` (in percent), `depth` and `flops`,
            each a number or None. Facts known of any network become columns of the table.
        data: name of the data, such as "cifar10, test split".
        missing: names of networks that could not be measured, each with the reason.
        by: the scores to compare, "published" or "population"; by default published scores if all
            have them. Where population scores were measured too, they stand beside the published
            ones with their intervals, and rank what is most non-linear.

    Returns:
        The path.

    Raises:
        InputTypeError: `signatures` is not a sequence of signatures and tracks; facts, data or
            missing networks of a wrong type.
        InputError: there is no signature; the path is a directory.
        OptionError: another `by`, or one that was not measured.

    >>> import tempfile, torch
    >>> import sigmascope as sg
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
    >>> found = sg.signature(network, [torch.randn(64, 4)], progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report([found], f"{folder}/report.html").name
    'report.html'
    """
    shown = Shown.of(signatures)
    document = content_of(shown, facts=facts, data=data, missing=missing, by=by)
    page = page_of(document)
    for lighter in (without_details, without_companions) if document["networks"] else ():
        if len(page) > LARGEST:
            document = lighter(document)
            page = page_of(document)
    write_atomic(path, page)
    return Path(path)


def page_of(
    document: dict[str, Any],
    *,
    template: str = "page.html",
    scripts: Sequence[str] = SCRIPTS,
    kind: str = "",
) -> bytes:
    """Return a page with a document in it; by default that of `document_of`.

    Scripts and styles are allowed by their hashes only, so nothing in the document can become one.
    """
    own = "".join(_asset(f"scripts/{name}.js") for name in scripts)
    own = f'(() => {{\n"use strict";\n{own}}})();\n'
    every = [*map(_asset, LIBRARIES), own]
    style = "".join(_asset(f"styles/{name}.css") for name in STYLES)
    content = json.dumps(
        wrap(kind or KIND, VERSION, document), allow_nan=False, separators=(",", ":")
    )
    parts = {
        "policy": _policy(every, style),
        "style": f"<style>{style}</style>",
        "data": content.translate(UNSAFE),
        "scripts": "\n".join(f"<script>{script}</script>" for script in every),
    }
    # In one pass, so that inserted text is not searched for placeholders.
    return PLACEHOLDER.sub(lambda found: parts[found[1]], _asset(template)).encode()


def _asset(name: str) -> str:
    return files("sigmascope.reporting").joinpath(name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str], style: str) -> str:
    """Return the content security policy: only these scripts and this style, no other markup."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts))}",
            f"style-src {_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
