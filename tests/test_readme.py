"""The README says what the documents behind it say, and works on the page of a package index."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import sigmascope as sg

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def module_of(path: str) -> ModuleType:
    """A script that is not part of a package."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def project(path: str) -> dict[str, Any]:
    content: dict[str, Any] = tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]
    return content


def test_the_tally_is_that_of_the_gallery() -> None:
    """`make gallery` writes both."""
    gallery = module_of("papers/gallery.py")
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert gallery.with_tally(README, text) == README
    other = text.replace(" claims: ", " claims: 1")
    assert gallery.with_tally(README, other) != README
    with pytest.raises(ValueError, match="no tally"):
        gallery.with_tally("", text)


def test_small_pictures_keep_the_color_of_a_rare_marker() -> None:
    image = pytest.importorskip("PIL.Image")
    steps = np.linspace(0, 1, 256)
    sheet = np.full((300, 256, 3), 255.0)
    for row, color in enumerate(((0, 114, 178), (213, 94, 0), (86, 180, 233))):  # antialiased
        sheet[100 * row + 10 : 100 * row + 60] = 255 + steps[:, None] * (np.array(color) - 255.0)
    sheet[80:83, 20:23] = green = (0, 158, 115)
    picture = image.fromarray(sheet.astype(np.uint8))

    def off(shown: Any) -> int:
        found = np.asarray(shown.convert("RGB")).astype(int)[81, 21]
        return int(np.abs(found - green).max())

    assert off(module_of("papers/gallery.py").small(picture)) <= 24
    assert off(picture.quantize(256, dither=image.Dither.NONE)) > 24  # the usual way loses it


def test_the_numbers_are_those_of_the_tables() -> None:
    told = " ".join(README.split())
    audited = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    [row] = re.findall(r"^\| \*\*all\*\* \|(.*)$", audited, re.MULTILINE)
    cells = [cell.strip() for cell in row.split("|")]
    assert f"{cells[0]} networks of ten libraries" in told
    assert cells[4:8] == ["0"] * 4
    broken = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    kills = re.findall(r"^\| kills at random [^|]*\| (\d+) \| (\d+) \|", broken, re.MULTILINE)
    tried, changed = (sum(map(int, column)) for column in zip(*kills, strict=True))
    assert f"{tried} kills at random moments, of which {changed} changed a result" in told
    covered = (ROOT / "benchmarks/results/coverage.md").read_text(encoding="utf-8")
    [(met, judged)] = re.findall(r"^(\d+) of (\d+) judged rows meet every goal", covered, re.M)
    assert f"of {judged} settings" in told
    assert f"{met} meet every goal" in told
    speed = (ROOT / "benchmarks/results/resnet50-cpu.md").read_text(encoding="utf-8")
    [(seconds, ratio)] = re.findall(
        r"textbook.*\| [\d.]+ \| (\d+) \|\n\|.*\| ([\d.]+) \| 1 \|", speed
    )
    assert f"{float(ratio):.1f} s on two cores, {seconds} times as fast" in told
    cost = (ROOT / "benchmarks/results/signature-cpu.md").read_text(encoding="utf-8")
    [share] = re.findall(r"512 images, seconds \|[^|]*\|[^|]*\| ([\d.]+) \|", cost)
    assert f"{share} times the forward pass" in told


def told_commands(text: str) -> list[str]:
    """Return the commands of this repository that a text names."""
    return re.findall(r"`((?:python [\w/]+\.py|make [a-z])[^`]*)`", text)


def complaint(command: str) -> str:
    """Return why a command of this repository cannot be run; empty if it can."""
    program, name, *arguments = command.split()
    if program == "make":
        made = (ROOT / "Makefile").read_text(encoding="utf-8")
        return "" if re.search(rf"^{name}:", made, re.MULTILINE) else f"no target {name}"
    if not (ROOT / name).is_file():
        return f"no file {name}"
    if name != "benchmarks/run.py":
        return ""
    known = module_of("benchmarks/run.py").BENCHMARKS
    return ", ".join(f"no benchmark {one}" for one in arguments if one not in known)


def test_every_table_of_the_benchmarks_has_its_command() -> None:
    results = sorted((ROOT / "benchmarks" / "results").glob("*.md"))
    assert len(results) > 20
    for path in results:
        commands = told_commands(path.read_text(encoding="utf-8"))
        assert commands, f"{path.name} does not say what printed it"
        assert {command: complaint(command) for command in commands if complaint(command)} == {}


def test_commands_of_the_readme_are_there() -> None:
    commands = told_commands(README)
    assert "make audit" in commands
    assert {command: complaint(command) for command in commands if complaint(command)} == {}
    assert complaint("make coffee") == "no target coffee"
    assert complaint("python benchmarks/none.py") == "no file benchmarks/none.py"
    assert complaint("python benchmarks/run.py coverage") == "no benchmark coverage"


def test_links_work_on_a_package_index(monkeypatch: pytest.MonkeyPatch) -> None:
    base = ModuleType("hatchling.metadata.plugin.interface")
    monkeypatch.setattr(base, "MetadataHookInterface", object, raising=False)
    monkeypatch.setitem(sys.modules, base.__name__, base)  # only a build has it
    hook = module_of("hatch_build.py")
    text = hook.with_absolute_links(README, "https://host/owner/name", "1.2.3")
    assert "(https://host/owner/name/blob/v1.2.3/docs/gallery.md)" in text
    assert 'srcset="https://host/owner/name/raw/v1.2.3/docs/hero-dark.png"' in text
    assert "(https://arxiv.org/abs/2310.11439)" in text
    assert re.findall(r"\]\((?!https?:|#)[^)]*\)|=\"docs/", text) == []
    assert hook.with_absolute_links("[a](#b) `x`", "https://host", "1") == "[a](#b) `x`"


def test_versions_agree() -> None:
    library, papers = project("pyproject.toml"), project("papers/pyproject.toml")
    assert sg.__version__ == library["version"] == papers["version"]
    major, minor, _ = sg.__version__.split(".")
    assert f"sigmascope>={major}.{minor},<{major}.{int(minor) + 1}" in papers["dependencies"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heads = re.findall(r"^## \[([^\]]+)\](?: - \d{4}-\d\d-\d\d)?$", changes, re.MULTILINE)
    assert heads[:2] == ["Unreleased", sg.__version__]
    assert all(re.search(rf"^\[{re.escape(head)}\]: https://", changes, re.M) for head in heads)
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {sg.__version__}\n" in cited
    for package in ("src/sigmascope", "papers/src/sigmascope_papers"):
        assert (ROOT / package / "py.typed").is_file()


def test_the_lowest_versions_are_those_of_the_ranges() -> None:
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.lower().split("==") for line in lines if "==" in line)
    declared = project("pyproject.toml")["dependencies"]
    for lowest in map(re.compile(r"([\w-]+)>=([\d.]+)").fullmatch, declared):
        assert lowest is not None
        name, version = lowest.groups()
        if name != "torch":
            assert pinned[name].removesuffix(".0").removesuffix(".0") == version.removesuffix(".0")
