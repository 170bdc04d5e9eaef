"""Files that were changed: the same meaning, or an error of ours, quickly and in little memory."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import sigmascope as sg
from tests.faults.formats import EARLIER, SEALED, Format, formats, note_run, write_all
from tests.faults.mutating import flipped, mutations
from tests.faults.scale import as_many, write_down

FORMATS = dict(formats())
MEMORY = Path("/dev/shm")
SECONDS, MEGABYTES = 2.0, 200


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder with a file of every format, in memory where the system has such a place."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        write_all(Path(name) / "now")
        shutil.copytree(EARLIER, Path(name) / "earlier")
        note_run(Path(name) / "earlier")
        yield Path(name)


def peak() -> float:
    """Return the most memory that this process has had, in megabytes."""
    if sys.platform == "win32":
        return 0.0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def outcome(place: Path, form: Format, meaning: object) -> str:
    """Return what came of loading a changed file: "refused", "same", "other", or an escape."""
    try:
        found = form.load(place)
    except sg.SigmascopeError:
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if found == meaning:
        return "same"
    is_beginning = form.may_lose and isinstance(meaning, list) and found == meaning[: len(found)]
    return "same" if is_beginning else "other"


def tried(folder: Path, name: str, changes: Iterable[bytes]) -> tuple[Counter[str], float]:
    """Load every change of a file; return the outcomes and the longest time."""
    form = FORMATS[name]
    place = folder / ("earlier" if name.endswith("(0.1.0)") else "now")
    file, slowest = place / form.path, 0.0
    whole, meaning = file.read_bytes(), form.load(place)
    outcomes: Counter[str] = Counter()
    try:
        for data in changes:
            file.write_bytes(data)
            began = time.process_time()
            told = outcome(place, form, meaning)
            slowest = max(slowest, time.process_time() - began)
            if told == "other" and form.sealed and has_digest(data):
                told = "silent"
            is_known = told in ("refused", "same", "other", "silent")
            outcomes[told if is_known else f"escape: {told}"[:300]] += 1
    finally:
        file.write_bytes(whole)
    return outcomes, slowest


def has_digest(data: bytes) -> bool:
    """Return whether a digest still covers a file: who removes the entry accepts what is there."""
    return b'"digest"' in data or b'"format"' not in data


def escapes(outcomes: Counter[str]) -> dict[str, int]:
    return {
        told: count for told, count in outcomes.items() if told.startswith(("escape", "silent"))
    }


def test_mutated_files(folder: Path) -> None:
    each = as_many(3_000, 200_000) // len(FORMATS) + 1
    before, total, bad, slowest = peak(), 0, {}, 0.0
    for seed, name in enumerate(FORMATS):
        place = folder / ("earlier" if name.endswith("(0.1.0)") else "now")
        data = (place / FORMATS[name].path).read_bytes()
        outcomes, seconds = tried(folder, name, mutations(data, each, seed))
        total, slowest = total + each, max(slowest, seconds)
        bad |= {f"{name}: {told}": count for told, count in escapes(outcomes).items()}
        assert FORMATS[name].may_lose or outcomes["refused"] > each // 4, (name, outcomes)
    grown = peak() - before
    note = f"{len(FORMATS)} formats; slowest {slowest:.2f} s, {grown:.0f} MB in all"
    write_down("mutated files", tried=total, failed=sum(bad.values()), note=note)
    assert not bad
    assert slowest < SECONDS
    assert grown < MEGABYTES


def test_single_bits_of_files_with_a_digest(folder: Path) -> None:
    """No inverted bit gives another meaning."""
    step, total, bad = as_many(97, 1), 0, {}
    for name, form in SEALED.items():
        data = (folder / "now" / form.path).read_bytes()
        bits = range(0, 8 * len(data), step)
        outcomes, _ = tried(folder, name, (flipped(data, bit // 8, bit % 8) for bit in bits))
        total += len(bits)
        bad |= {f"{name}: {told}": count for told, count in escapes(outcomes).items()}
    write_down("single bits of files with a digest", tried=total, failed=sum(bad.values()))
    assert not bad
