"""`demo`: tells the finding and ends in the report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import Result

import sigmascope as sg
from sigmascope.demo import finding
from sigmascope.measure.result import Signature
from sigmascope.store import encode
from tests.cli.running import document, run


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """What the demo prints, and the folder that it writes."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    return run("demo", "-o", folder), folder


@pytest.fixture(scope="module")
def signatures(told: tuple[Result, Path]) -> list[Signature]:
    return [sg.load(told[1] / f"{name}.json") for name in ("resnet20", "plain20")]


def test_it_tells_the_finding(told: tuple[Result, Path], signatures: list[Signature]) -> None:
    result, _ = told
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.count("19 activation calls seen, 19 scored.") == 2
    for one in signatures:
        for site in one.sites:
            assert re.search(
                rf"^{re.escape(site.name)} +relu +{site.dim} +{site.score:.4f} ",
                result.stdout,
                re.MULTILINE,
            )
    residual, plain = map(finding, signatures)
    assert f"inside a block {residual.inside:.3f}, at its end {residual.after:.3f}" in result.stdout
    assert f"inside a block {plain.inside:.3f}, at its end {plain.after:.3f}" in result.stdout


def test_it_ends_in_the_report(told: tuple[Result, Path]) -> None:
    result, folder = told
    last = result.stdout.splitlines()[-1]
    assert last.startswith("Written: ")
    assert last.endswith(f"{folder}/report.html")
    names = {path.name for path in folder.iterdir()}
    assert {"demo.png", "demo.svg", "plain20.json", "resnet20.json", "report.html"} <= names
    page = (folder / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "sigmascope/plain20" in page


def test_the_document(
    tmp_path: Path, signatures: list[Signature], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sigmascope.demo.demo_signatures", lambda: signatures)
    kind, content = document(run("demo", "-o", tmp_path, "--json"))
    assert kind == "demo"
    assert content["signatures"] == encode(signatures)
    assert content["findings"] == encode([finding(one) for one in signatures])
    assert f"{tmp_path}/report.html" in content["written"]
    assert all(Path(path).exists() for path in content["written"])


def test_it_says_at_once_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run("demo", "-o", tmp_path / "file" / "out")
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: {tmp_path}/file/out: cannot write to this directory (Not a directory); choose "
        "another one\n"
    )
