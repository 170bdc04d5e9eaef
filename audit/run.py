"""Audit networks of model libraries that others wrote, and write `docs/compatibility.md`.

`make audit` runs all; `python audit/run.py timm transformers/bert` those whose names begin so, and
prints their table only. Networks run in processes of their own, with a limit of time, so that one
that crashes or hangs does not end the audit. Libraries that are not installed are left out and
named; networks that need another package or do not run here are counted.

A journal keeps every outcome with a digest of the code that gave it. An audit that was interrupted
continues there, but for networks that did not run; other code begins again. With `--trust` networks
that were complete with other code are not audited again, for a quick look at a change.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import multiprocessing
import queue
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from network import Case

import sigmascope as sg
from sigmascope.catalog.optional import optional

DOCUMENT = Path(__file__).parents[1] / "docs" / "compatibility.md"
# Package -> the module of this directory that builds its networks, whose names begin with it.
LIBRARIES = {
    "torchvision": "torchvision_cases",
    "timm": "timm_cases",
    "transformers": "transformers_cases",
    "diffusers": "diffusers_cases",
    "segmentation_models_pytorch": "smp_cases",
    "torch_geometric": "geometric_cases",
    "x_transformers": "x_transformers_cases",
    "vit_pytorch": "vit_pytorch_cases",
    "ultralytics": "ultralytics_cases",
    "monai": "monai_cases",
}
COLUMNS = ("tried", "complete", "refused", "raw error", "missed", "false", "wrong axis", "changed")
# Networks without an audit: a package is missing; the network does not run, or takes too long.
UNTRIED = ("not installed", "not run")
WORDS = {"refused": "refused clearly"}


@dataclass
class Outcome:
    """What is known of a network after its audit.

    Attributes:
        row: the numbers of the table.
        lines: what is wrong, in words.
        counts: operators, sites, and how many of them were skipped, explained and checked.
        seconds: how long it took.
        code: a digest of the code that gave it.
    """

    name: str
    row: dict[str, int]
    lines: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    code: str = ""

    @property
    def tried(self) -> bool:
        return bool(self.row.get("tried"))


def untried(name: str, why: str, reason: str) -> Outcome:
    return Outcome(name, dict.fromkeys((*COLUMNS, *UNTRIED), 0) | {why: 1}, [f"{why}: {reason}"])


def audited(case: Case) -> Outcome:
    """Return the outcome for one network; one that does not run here at all was not tried."""
    started = time.monotonic()
    try:
        model, batch, forward = case.build()
        found = sg.audit(model, batch, name=case.name, forward=forward)
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        missing = any(isinstance(one, ImportError) for one in (error, error.__cause__))
        return untried(case.name, UNTRIED[0 if missing else 1], text[:300])
    lines = [str(one) for one in found.findings]
    lines += [f"refused: {found.refused}"] if found.refused else []
    lines += [f"raw error: {found.error}"] if found.error else []
    row = {name: int(found.row()[name]) for name in COLUMNS}
    counts = ("operators", "sites", "skipped", "explained", "samples", "channels")
    numbers = {name: getattr(found, name) for name in counts}
    return Outcome(case.name, row, lines, numbers, time.monotonic() - started)


def work(pipe: Any) -> None:
    """Audit the networks whose names come through a pipe."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    known: dict[str, Case] = {}
    while (name := pipe.recv()) is not None:
        if name not in known:
            known |= cases_of(name.partition("/")[0])
        pipe.send(audited(known[name]))


def cases_of(library: str) -> dict[str, Case]:
    optional("torchvision")  # which most of them import; it may not fit torch, see there
    return {case.name: case for case in importlib.import_module(LIBRARIES[library]).cases()}


def chosen_names(beginnings: list[str]) -> tuple[list[str], list[str]]:
    """Return the names that begin so, and the libraries that are not installed."""
    found: list[str] = []
    missing: list[str] = []
    for library in LIBRARIES:
        wanted = [one for one in beginnings if f"{library}/".startswith(one.partition("/")[0])]
        if beginnings and not wanted:
            continue
        if importlib.util.find_spec(library) is None:
            missing.append(library)
            continue
        names = list(cases_of(library))
        found += [one for one in names if one.startswith(tuple(wanted or [""]))]
    return found, missing


class Worker:
    """A process that audits one network after the other, started again when it dies or hangs."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._process: Any = None

    def outcome(self, name: str) -> Outcome:
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, other = context.Pipe()
            self._process = context.Process(target=work, args=(other,), daemon=True)
            self._process.start()
        outcome = untried(name, "not run", f"no result in {self._limit:.0f} s")
        try:
            self._pipe.send(name)
            if self._pipe.poll(self._limit):
                return self._pipe.recv()
        except (EOFError, OSError):
            row = dict.fromkeys((*COLUMNS, *UNTRIED), 0) | {"tried": 1, "raw error": 1}
            outcome = Outcome(name, row, ["raw error: the process ended"])
        self._process.kill()
        self._process = None
        return outcome

    def end(self) -> None:
        if self._process is not None:
            self._pipe.send(None)
            self._process.join()


def code_digest() -> str:
    """Return a digest of the code of sigmascope, of the audit, and of the versions beside them."""
    found = hashlib.sha256(versions().encode())
    for root in (Path(sg.__file__).parent, Path(__file__).parent):
        for file in sorted(root.rglob("*.py")):
            found.update(file.read_bytes())
    return found.hexdigest()[:16]


def known_outcomes(journal: Path | None, *, trust: bool) -> dict[str, Outcome]:
    """Return the outcomes in a journal that need no other audit, by network."""
    if journal is None or not journal.exists():
        return {}
    code, found = code_digest(), {}
    for line in journal.read_text(encoding="utf-8").splitlines():
        try:
            one = Outcome(**json.loads(line))
        except (ValueError, TypeError):  # a line that was cut short
            continue
        same = one.code == code or (trust and bool(one.row["complete"]))
        found.pop(one.name, None)
        if same and one.tried:
            found[one.name] = one
    return found


def run_all(
    names: list[str], worker_count: int, limit: float, journal: Path | None, *, trust: bool
) -> list[Outcome]:
    """Audit networks in several processes; return the outcomes in the order of the names.

    Those in the journal are known; it receives the others.
    """
    found, code = known_outcomes(journal, trust=trust), code_digest()
    found = {name: found[name] for name in names if name in found}
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        if name not in found:
            waiting.put(name)
    if journal and journal.exists() and not journal.read_bytes().endswith(b"\n"):
        journal.write_bytes(journal.read_bytes() + b"\n")  # after a line that was cut short
    if found:
        print(f"{len(found)} of {len(names)} networks are known from {journal}", flush=True)
    started, known = time.monotonic(), len(found)

    def serve() -> None:
        worker = Worker(limit)
        while True:
            try:
                name = waiting.get_nowait()
            except queue.Empty:
                worker.end()
                return
            outcome = found[name] = replace(worker.outcome(name), code=code)
            if journal:
                with journal.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(outcome)) + "\n")
            left = (time.monotonic() - started) * waiting.qsize() / (len(found) - known) / 60
            print(progress_line(outcome, len(found), len(names), left), flush=True)

    threads = [threading.Thread(target=serve) for _ in range(worker_count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[name] for name in names]


def progress_line(outcome: Outcome, count: int, total: int, minutes: float) -> str:
    verdict = "complete" if outcome.row["complete"] else "; ".join(outcome.lines[:3])[:300]
    left = f"about {minutes:.0f} min left"
    return f"{count}/{total} ({left}) {outcome.name} {outcome.seconds:.1f} s: {verdict}"


def totals(outcomes: Iterable[Outcome]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in outcomes:
        total.update(one.row)
        total.update(one.counts)
    return total


def table(outcomes: list[Outcome]) -> list[str]:
    """Return the summary: one line per library, and one for all."""
    names = [*COLUMNS, *UNTRIED, "operators", "sites", "skipped"]
    heads = [WORDS.get(name, name) for name in names]
    lines = [f"| library | {' | '.join(heads)} |", "|---" + "|---:" * len(heads) + "|"]
    libraries = dict.fromkeys(one.name.partition("/")[0] for one in outcomes)
    groups = {
        library: [one for one in outcomes if one.name.startswith(f"{library}/")]
        for library in libraries
    }
    for library, some in {**groups, "**all**": outcomes}.items():
        total = totals(some)
        lines.append(f"| {library} | {' | '.join(str(total[name]) for name in names)} |")
    return lines


def findings(outcomes: list[Outcome]) -> list[str]:
    """Return what is wrong or was refused, by network, with the number of such lines."""
    lines = []
    for one in outcomes:
        if one.lines:
            more = f" (and {len(one.lines) - 2} more)" if len(one.lines) > 2 else ""
            lines.append(f"- `{one.name}`: {'; '.join(one.lines[:2])}{more}")
    return lines


def versions() -> str:
    packages = ["torch", *LIBRARIES]
    found = []
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def document(outcomes: list[Outcome], missing: list[str]) -> str:
    total = totals(outcomes)
    wrong = findings(outcomes)
    ran = {one.name.partition("/")[0] for one in outcomes}
    left = [library for library in LIBRARIES if library not in ran and library not in missing]
    text = [
        "# Compatibility",
        "",
        "`make audit` runs `sigmascope.audit` over networks that others wrote, with random weights "
        f"and small inputs. This is its result of {datetime.date.today()}, with sigmascope "
        f"{sg.__version__}, {versions()}.",
        "",
        *table(outcomes),
        "",
        "A network is *complete* if every activation operator that torch's dispatcher computed is "
        "a site or has a reason, no site is without an operator, outputs are the same to the bit, "
        "and parameters, buffers, hooks, attributes, training flags and random numbers are "
        "untouched. *Missed*, *false* and *wrong axis* count sites; *changed* counts outputs and "
        "parts of the state. The axis of samples was checked by replacing one sample "
        f"({total['samples']:,} sites), that of channels against the layer before "
        f"({total['channels']:,} sites). {total['skipped']:,} sites have no score for a reason, "
        f"and {total['explained']:,} operators are named as not seen, such as the gates of "
        "recurrent layers. *Not installed* are networks that need a package which is not there, "
        "*not run* those that do not run on the batch or in the time given.",
        "",
        *(["Not installed: " + ", ".join(missing) + ".", ""] if missing else []),
        *(["Not part of this run: " + ", ".join(left) + ".", ""] if left else []),
        "## Not complete, and why",
        "",
        *(wrong or ["None."]),
        "",
        "## Complete",
        "",
    ]
    for library in dict.fromkeys(one.name.partition("/")[0] for one in outcomes):
        names = [
            f"`{one.name.partition('/')[2]}`"
            for one in outcomes
            if one.row["complete"] and one.name.startswith(f"{library}/")
        ]
        text += [f"**{library}** ({len(names)}): {', '.join(names)}", ""]
    return "\n".join(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of names, such as timm/")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds per network")
    parser.add_argument("--output", type=Path, help="file for the document")
    parser.add_argument("--journal", type=Path, help="file to continue an audit from")
    parser.add_argument("--trust", action="store_true", help="keep what was complete with any code")
    given = parser.parse_args()
    names, missing = chosen_names(given.names)
    outcomes = run_all(names, given.workers, given.limit, given.journal, trust=given.trust)
    text = document(outcomes, missing)
    output = given.output or (None if given.names else DOCUMENT)
    if output is not None:
        output.write_text(text, encoding="utf-8")
    print("\n".join(["", *table(outcomes), "", *findings(outcomes)]))
    total = totals(outcomes)
    wrong = ("raw error", "missed", "false", "wrong axis", "changed", *UNTRIED)
    return int(any(total[name] for name in wrong))


if __name__ == "__main__":
    sys.exit(main())
