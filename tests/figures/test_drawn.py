"""Figures as files: whole or not at all, with their data beside them."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from sigmascope.errors import InputError, OptionError
from sigmascope.figures.drawn import FORMATS, finished, save, table_bytes
from sigmascope.figures.style import new_figure

STARTS = {"pdf": b"%PDF", "png": b"\x89PNG", "svg": b"<?xml"}


def read(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


@pytest.mark.parametrize("ending", FORMATS)
def test_the_ending_chooses_the_format(ending: str, tmp_path: Path) -> None:
    path = save(new_figure(1, 1), tmp_path / "new" / f"resnet.v2.{ending.upper()}", [{"a": 1}])
    assert path.read_bytes().startswith(STARTS[ending])
    assert sorted(one.name for one in path.parent.iterdir()) == sorted(["resnet.v2.csv", path.name])
    assert b"20" + b"26-" not in path.read_bytes()


def test_without_a_table_there_is_no_csv(tmp_path: Path) -> None:
    save(new_figure(1, 1), tmp_path / "a.png")
    assert [one.name for one in tmp_path.iterdir()] == ["a.png"]


@pytest.mark.parametrize("name", ["figure", "figure.jpg", "figure.csv"])
def test_other_endings_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match=r"format=.* is not a valid choice.* Choose from 'pdf', 'png', 'svg'"
    ):
        save(new_figure(1, 1), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").mkdir()
    with pytest.raises(InputError, match="is a directory"):
        save(new_figure(1, 1), tmp_path / "a.png")


def test_a_figure_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = save(new_figure(1, 1), tmp_path / "a.png", [{"a": 1}])
    before = path.read_bytes()
    broken = new_figure(1, 1)
    broken.text(0.5, 0.5, "$\\frac{1$")
    with pytest.raises(ValueError, match="frac"):
        save(broken, path, [{"a": 2}])
    assert path.read_bytes() == before
    assert (tmp_path / "a.csv").read_bytes() == b"a\n1\n"
    assert len(list(tmp_path.iterdir())) == 2


def test_the_table_has_all_columns_in_order() -> None:
    table = [{"b": 1, "a": 0.1}, {"c": None, "a": math.nan}, {"c": "x", "b": -2.5}]
    assert read(table_bytes(table)) == [
        ["b", "a", "c"],
        ["1", "0.1", ""],
        ["", "", ""],
        ["-2.5", "", "x"],
    ]


def test_numbers_survive_to_the_last_digit() -> None:
    values = [0.1 + 0.2, 1e-300, -1 / 3, math.inf]
    assert [
        float(line[0]) for line in read(table_bytes([{"v": value} for value in values]))[1:]
    ] == values


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx"])
def test_formulas_become_text(text: str) -> None:
    assert read(table_bytes([{"v": text}]))[1] == [f"'{text}"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("＝1+1", "'＝1+1"),
        ("＋1", "'＋1"),
        ("－1", "'－1"),
        ("＠a", "'＠a"),
        ("a;=1", "a;'=1"),
        ("a\n=1\n@b", "a\n'=1\n'@b"),
        ("a\t+1", "a\t'+1"),
        ("a\u2028=1", "a\u2028'=1"),
        ("=1;=2", "'=1;'=2"),
    ],
)
def test_a_formula_behind_a_separator_is_text_too(text: str, expected: str) -> None:
    assert read(table_bytes([{"v": text, "w": "."}]))[1] == [expected, "."]


@pytest.mark.parametrize(
    "text",
    ["1=1", "a-b", "a; b", "x;y=1", "comma, and\nline", 'a "quoted" word', "'=1", "  =1", ""],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert read(table_bytes([{"v": text, "w": "."}]))[1] == [text, "."]


def test_a_carriage_return_does_not_end_the_line() -> None:
    assert read(table_bytes([{"v": "a\rb"}])) == [["v"], ["a\\rb"]]


def test_half_a_letter_is_written_out() -> None:
    assert table_bytes([{"v": "a\ud800"}]) == b"v\na\\ud800\n"


def test_an_empty_table_is_an_empty_line() -> None:
    assert table_bytes([]) == b"\n"


def test_drawn_in_a_part_of_a_figure() -> None:
    figure = Figure()
    axes = figure.subfigures(1, 2)[0].subplots()
    assert finished([axes], []).figure is figure
