"""Run the tests that need a GPU and store the outcome: `make test-gpu`.

Needs torch and pytest, and what the library itself imports; nothing of the other tests.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "benchmarks" / "results" / "test-gpu.md"
PACKAGES = ("torch", "numpy", "scipy", "pytest")


class Outcomes:
    """Counts how tests end, and keeps the names and reasons of those that did not pass."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.others: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self._note(report.outcome, report.nodeid, report.longrepr)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._note("failed", report.nodeid, report.longrepr)

    def _note(self, outcome: str, name: str, detail: object) -> None:
        self.counts[outcome] += 1
        if outcome != "passed":
            reason = detail[2] if isinstance(detail, tuple) else str(detail).splitlines()[-1]
            self.others.append(f"- {outcome}: `{name}`: {reason}")

    def document(self) -> str:
        """Return the outcome as Markdown."""
        versions = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
        lines = [
            "# Tests on a GPU (`make test-gpu`)",
            "",
            f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}; {torch.cuda.get_device_name()}; "
            f"CUDA {torch.version.cuda}; Python {platform.python_version()}, "
            f"{', '.join(versions)}.",
            "",
            ", ".join(f"{self.counts[one]} {one}" for one in ("passed", "failed", "skipped")) + ".",
        ]
        return "\n".join([*lines, *(["", *self.others] if self.others else [])]) + "\n"


def main() -> int:
    """Run them; return the exit status of pytest, or 1 where there is no GPU."""
    if not torch.cuda.is_available():
        print(f"torch {torch.__version__} sees no GPU here: nothing was tested.", file=sys.stderr)
        return 1
    outcomes = Outcomes()
    files = sorted(str(path) for path in (ROOT / "tests").rglob("test_cuda*.py"))
    code = pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:], *files], plugins=[outcomes])
    STORED.write_text(outcomes.document(), encoding="utf-8")
    print(f"Stored in {STORED.relative_to(ROOT)}")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
