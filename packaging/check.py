"""Check what would be released: `make release-check`.

    python packaging/check.py --python python3.11 --python python3.12 --extras vision,ot

Builds wheels and sdists of both distributions, looks into them, and installs the wheels into clean
environments: as they are, with each extra, and with the lowest versions of the ranges, where the
tests of the core are run. Further interpreters get all extras at once, as A+B does. Writes
packaging/checked.md. Needs build, hatchling and twine.

Each environment is new; only torch is in one that all of an interpreter share, and that is kept.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = {"sigmascope": ROOT, "sigmascope_papers": ROOT / "papers"}
CHECK = ROOT / "packaging" / "installed.py"
# In every wheel; the first ones of the package, which would be missed late.
NEEDED = {
    "sigmascope": (
        "py.typed",
        "__init__.pyi",
        "reporting/page.html",
        "reporting/vendor/d3.LICENSE",
    ),
    "sigmascope_papers": ("py.typed", "items.json", "results"),
}
# What the lowest versions have to pass: the arithmetic, files, comparisons, and the command line.
CORE = (
    *("tests/maths", "tests/store", "tests/measure", "tests/compare", "tests/figures"),
    *("tests/cli/test_program.py", "tests/cli/test_compare.py"),
    *("tests/cli/test_mistakes.py", "tests/cli/test_completion.py"),
)
PIP = ("--disable-pip-version-check", "--quiet")
TESTING = ("pytest==8.2.0", "hypothesis", "mpmath", "pandas", "playwright", "pytest-xdist")


@dataclass
class Report:
    """What was checked, and what came out."""

    rows: list[tuple[str, str]] = field(default_factory=list)
    failed: bool = False

    def note(self, what: str, outcome: str, *, failed: bool = False) -> None:
        """Print and keep one outcome."""
        print(f"{what}: {outcome}", flush=True)
        self.rows.append((what, outcome))
        self.failed |= failed
        write(self)  # so that an interrupted run leaves what it found


def run(*command: str | Path, **more: object) -> subprocess.CompletedProcess[str]:
    """Return what a command printed; both streams together."""
    plain = {**os.environ, "NO_COLOR": "1"}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    options = {"text": True, "env": plain, **streams, **more}
    return subprocess.run([str(one) for one in command], **options)  # type: ignore[call-overload,no-any-return]


def attempt(report: Report, what: str, *command: str | Path, **more: object) -> bool:
    """Run a command, keep its last line or its end, and return whether it went well."""
    done = run(*command, **more)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).strip().splitlines() or [""]
    ok = done.returncode == 0
    if not ok:
        print("\n".join(lines[-25:]), flush=True)
    report.note(
        what,
        lines[-1].strip("= ").rpartition("/")[2] if ok else f"FAILED: {lines[-1]}",
        failed=not ok,
    )
    return ok


def built(report: Report, work: Path) -> list[Path]:
    """Return the wheels, after building everything and `twine check`."""
    dist = work / "dist"
    for old in dist.glob("*") if dist.exists() else ():
        old.unlink()
    for name, folder in PROJECTS.items():
        command = (sys.executable, "-m", "build", "--no-isolation", "-o", dist, folder)
        if not attempt(report, f"build of {name}", *command):
            return []
    files = sorted(dist.iterdir())
    attempt(
        report, "twine check --strict", sys.executable, "-m", "twine", "check", "--strict", *files
    )
    for file in files:
        problems = [*problems_of(file)]
        size = f"{file.stat().st_size / 1e6:.1f} MB"
        report.note(file.name, ", ".join(problems) or f"complete, {size}", failed=bool(problems))
    return [file for file in files if file.suffix == ".whl"]


def problems_of(file: Path) -> Iterator[str]:
    """Yield what is missing or wrong in a wheel or an sdist."""
    name = file.name.split("-")[0]
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            [path] = [one for one in names if one.endswith("METADATA")]
            text = archive.read(path).decode()
        needed = [f"{name}/{one}" for one in NEEDED[name]]
        yield from (f"lacks {one}" for one in needed if not any(n.startswith(one) for n in names))
        yield from (f"holds {one}" for one in names if one.startswith(("tests/", "docs/")))
    else:
        with tarfile.open(file) as archive:
            names = archive.getnames()
            [path] = [one for one in names if one.count("/") == 1 and one.endswith("PKG-INFO")]
            text = archive.extractfile(path).read().decode()  # type: ignore[union-attr]
    yield from problems_of_metadata(text)


def problems_of_metadata(text: str) -> Iterator[str]:
    """Yield what a package index would show wrongly."""
    found = Parser().parsestr(text)
    description = found.get_payload()
    for key in ("Version", "License-Expression", "Requires-Python", "Project-URL", "Keywords"):
        if not found[key]:
            yield f"no {key}"
    relative = re.findall(r"\]\((?![a-z]+:|#)[^)]+\)|src=\"(?!https)", str(description))
    if relative:
        yield f"relative links in the description, such as {relative[0]}"


def with_torch(report: Report, python: str, work: Path, constraints: str) -> Path | None:
    """Return an environment with the tested torch and nothing else."""
    version = version_of(python)
    folder = work / f"torch-{version}{'-lowest' if 'lowest' in constraints else ''}"
    if not (folder / "bin" / "python").exists():
        run(python, "-m", "venv", folder)
    pip = (folder / "bin" / "python", "-m", "pip", *PIP, "install")
    done = run(*pip, "torch==2.13.0", "-c", ROOT / constraints)
    if done.returncode:
        report.note(f"torch for {version}", f"FAILED: {done.stdout[-300:]}", failed=True)
        return None
    return folder


def version_of(python: str | Path) -> str:
    """Return the version of an interpreter."""
    told = run(python, "-c", "import platform; print(platform.python_version())")
    return told.stdout.strip()


def fresh(base: Path, folder: Path) -> Path:
    """Return the interpreter of a new environment that also sees the packages of another."""
    shutil.rmtree(folder, ignore_errors=True)
    run(base / "bin" / "python", "-m", "venv", folder)
    [own] = folder.glob("lib/python*/site-packages")
    [other] = base.glob("lib/python*/site-packages")
    (own / "torch.pth").write_text(f"{other}\n")
    return folder / "bin" / "python"


def installed(
    report: Report, inside: Path, wheels: Sequence[Path], what: str, extra: str, constraints: str
) -> bool:
    """Install the wheels, with an extra, and use them from an empty directory."""
    library, papers = wheels
    target = f"{library}[{extra.replace('+', ',')}]" if extra else str(library)
    pip = (inside, "-m", "pip", *PIP)
    done = run(*pip, "install", target, papers, "-c", ROOT / constraints)
    if done.returncode:
        report.note(what, f"FAILED: {done.stdout.strip()[-400:]}", failed=True)
        return False
    told = [line for line in run(*pip, "check").stdout.splitlines() if "sigmascope" in line]
    if told:
        report.note(f"{what}, pip check", f"FAILED: {told[0]}", failed=True)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    folder = inside.parents[1] / "empty"
    folder.mkdir(exist_ok=True)
    return attempt(report, what, inside, "-W", "error", CHECK, extra or "-", cwd=folder, env=clean)


def lowest(report: Report, python: str, work: Path, wheels: Sequence[Path], workers: int) -> None:
    """Install the lowest versions, and run the tests of the core with them."""
    constraints = "constraints-lowest.txt"
    base = with_torch(report, python, work, constraints)
    if base is None:
        return
    inside = fresh(base, work / "lowest")
    if not installed(report, inside, wheels, "lowest versions, no extras", "", constraints):
        return
    run(inside, "-m", "pip", *PIP, "install", *TESTING, "-c", ROOT / constraints)
    command = (inside, "-m", "pytest", "-q", "-n", str(workers), "-p", "no:cacheprovider")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    what = "lowest versions, tests of the core"
    chosen = (*CORE, "-m", "not slow and not thorough")
    attempt(report, what, *command, *chosen, cwd=ROOT, env=environment)


def write(report: Report) -> None:
    """Write the outcomes as a page; rows of earlier runs that this one did not try stay."""
    page, today = ROOT / "packaging" / "checked.md", f"{datetime.date.today():%Y-%m-%d}"
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    rows = dict(re.findall(r"^\| ([^|]+) \| (.*) \|$", text, re.MULTILINE))
    rows.pop("what", None)
    rows |= {what: f"{outcome.replace('|', '/')} | {today}" for what, outcome in report.rows}
    lines = [
        "# What was checked before a release",
        "",
        "Written by `make release-check`; torch 2.13.0 everywhere.",
        "",
        "| what | outcome | date |",
        "|---|---|---|",
        *(f"| {what} | {rest} |" for what, rest in rows.items()),
    ]
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Run all checks and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", action="append", help="an interpreter; repeatable")
    parser.add_argument(
        "--extras", default="analysis,ot,vision,torchmetrics,hf,onnx,lightning,slurm,ray"
    )
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--skip-lowest", action="store_true")
    parser.add_argument("--only-lowest", action="store_true")
    arguments = parser.parse_args()
    report, work = Report(), arguments.work.resolve()
    wheels = built(report, work)
    interpreters = arguments.python or [sys.executable]
    extras = arguments.extras.split(",") if arguments.extras else []
    for number, python in enumerate([] if arguments.only_lowest or not wheels else interpreters):
        base = with_torch(report, python, work, "constraints.txt")
        chosen = extras if number == 0 else ["+".join(extras)] if extras else []
        for extra in ["", *chosen] if base else ():
            told = f"extra {extra.replace('+', ', ')}" if extra else "no extras"
            what = f"Python {version_of(python)}, {told}"
            inside = fresh(base, work / "fresh")
            installed(report, inside, wheels, what, extra, "constraints.txt")
    if wheels and not arguments.skip_lowest:
        lowest(report, interpreters[0], work, wheels, arguments.workers)
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
