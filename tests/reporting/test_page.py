from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

import sigmascope.reporting.page
from sigmascope.errors import InputError
from sigmascope.reporting.linearization import SCRIPTS as LINEARIZATION
from sigmascope.reporting.page import SCRIPTS, STYLES, page_of, report
from tests.reporting.examples import HOSTILE, example, hostile, residual_paths

EVERY = sorted({*SCRIPTS, *LINEARIZATION})
REPORT = Path(sigmascope.reporting.page.__file__).parent
VENDORED = [(REPORT / "vendor", name) for name in ("d3.min.js", "plot.umd.min.js")] + [
    (Path(__file__).parent / "vendor", "axe.min.js")
]
PAIR = [example("a", residual_paths(3), seed=1), example("b", residual_paths(4), seed=2)]


def data_in(page: str) -> str:
    found = re.search('<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return found[1]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return report(hostile(), tmp_path_factory.mktemp("report") / "report.html").read_text(
        encoding="utf-8"
    )


def test_report_returns_the_path_and_makes_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    assert report(PAIR, str(path)) == path
    assert path.read_bytes().startswith(b"<!doctype html>")
    assert [one.name for one in path.parent.iterdir()] == ["report.html"]


def test_the_same_signatures_give_the_same_page(tmp_path: Path) -> None:
    assert (
        report(PAIR, tmp_path / "one.html").read_bytes()
        == report(PAIR, tmp_path / "two.html").read_bytes()
    )


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory"):
        report(PAIR, tmp_path)


def test_an_old_page_survives_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(InputError, match="no signatures"):
        report([], path)
    assert path.read_text() == "old"


def test_policy_admits_these_scripts_and_styles_and_nothing_else(page: str) -> None:
    [policy] = re.findall('<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert (
        rules["default-src"]
        == rules["base-uri"]
        == rules["form-action"]
        == rules["trusted-types"]
        == "'none'"
    )
    assert "unsafe" not in policy
    assert set(re.findall(r"\w+-src", policy)) == {
        "default-src",
        "script-src",
        "style-src",
        "img-src",
    }
    assert rules["img-src"] == "data:"
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        contents = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        sums = [
            base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            for content in contents
        ]
        assert rules[rule].split() == [f"'sha256-{one}'" for one in sums]


def test_data_come_back_from_the_page(page: str) -> None:
    text = data_in(page)
    assert not re.search("[<>&\u2028\u2029]", text)
    found = json.loads(text)
    assert {key: found[key] for key in ("format", "kind", "version")} == {
        "format": "sigmascope",
        "kind": "report",
        "version": 1,
    }
    # Two hostile names may be alike, and none is empty on the page.
    assert [network["name"] for network in found["content"]["networks"]] == [
        text or "(no name)" for text in HOSTILE
    ]


def test_markup_of_the_page_does_not_depend_on_its_data(page: str, tmp_path: Path) -> None:
    other = report(PAIR, tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.replace(data_in(page), "") == other.replace(data_in(other), "")


def test_what_is_put_in_is_not_filled_again() -> None:
    found = page_of({"networks": "{{style}}{{nothing}}"}).decode()
    assert found.count("{{style}}{{nothing}}") == 1


def test_page_names_no_other_place(page: str) -> None:
    own = re.sub("<script>.*?</script>", "", page.replace(data_in(page), ""), flags=re.DOTALL)
    assert set(re.findall(r"https?://[^'\" ]+", own)) == {"http://www.w3.org/2000/svg"}
    scripts = "".join(
        (REPORT / "scripts" / f"{name}.js").read_text(encoding="utf-8") for name in EVERY
    )
    assert set(re.findall(r"https?://[^'\" ]+", scripts)) == {"http://www.w3.org/2000/svg"}


def test_every_script_and_style_is_used() -> None:
    assert {path.stem for path in (REPORT / "scripts").iterdir()} == set(EVERY)
    assert {path.stem for path in (REPORT / "styles").iterdir()} == set(STYLES)


@pytest.mark.parametrize(
    "word",
    [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        ".html(",
    ],
)
def test_own_scripts_never_turn_text_into_markup(word: str) -> None:
    assert [
        name
        for name in EVERY
        if word in (REPORT / "scripts" / f"{name}.js").read_text(encoding="utf-8")
    ] == []


@pytest.mark.parametrize(
    ("folder", "name"), VENDORED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_vendored_files_are_those_that_were_published(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    rows = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    [row] = [row for row in rows if row.startswith(f"| `{name}`")]
    *_, version, licenses, expected, _ = (cell.strip() for cell in row.split("|"))
    assert hashlib.sha256(content).hexdigest() == expected.strip("`")
    assert f" v{version} " in content[:200].decode().replace("\n", " ")
    for license in re.findall("`([^`]+)`", licenses):
        assert (folder / license).is_file()


@pytest.mark.parametrize(
    "name",
    ["vendor/d3.min.js", "vendor/plot.umd.min.js", *(f"scripts/{name}.js" for name in SCRIPTS)],
)
def test_no_script_can_end_its_own_element(name: str) -> None:
    content = (REPORT / name).read_text(encoding="utf-8")
    assert not re.search("</script|<!--|<script|\r|\ufeff", content, re.IGNORECASE)
