"""The demo shows what the paper found: with residual connections, two kinds of activations."""

from __future__ import annotations

import csv
import functools
from pathlib import Path

import numpy as np
import pytest

import sigmascope as sg
from sigmascope.demo import AFTER, INSIDE, STEM, demo_signatures, draw_demo, finding, groups_of


@functools.cache
def signatures() -> tuple[sg.Signature, ...]:
    return tuple(demo_signatures(progress=False))


def test_the_groups_are_those_of_the_blocks() -> None:
    assert groups_of(signatures()[0]) == [STEM, *[INSIDE, AFTER] * 9]


def test_the_numbers_are_deterministic() -> None:
    again = demo_signatures(progress=False)
    assert [one.scores.tolist() for one in again] == [one.scores.tolist() for one in signatures()]


def test_residual_connections_split_the_activations_and_without_them_there_is_no_split() -> None:
    residual, plain = (finding(one) for one in signatures())
    assert residual.after - residual.inside > 0.15
    assert residual.separation > 0.95
    assert abs(plain.after - plain.inside) < 0.1
    assert plain.separation < 0.75


def test_the_finding_of_made_up_scores() -> None:
    residual = signatures()[0]
    found = finding(residual)
    groups = np.array(groups_of(residual))
    pairs = [
        (a, b) for a in residual.scores[groups == AFTER] for b in residual.scores[groups == INSIDE]
    ]
    assert found.separation == pytest.approx(sum(a > b for a, b in pairs) / 81)
    assert found.inside == pytest.approx(residual.scores[1::2].mean())
    assert found.after == pytest.approx(residual.scores[2::2].mean())


def test_the_files(tmp_path: Path) -> None:
    paths = draw_demo(signatures(), tmp_path)
    assert [path.name for path in paths] == [
        "demo.png",
        "demo.svg",
        "demo.csv",
        "resnet20.json",
        "plain20.json",
    ]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    text = paths[1].read_text()
    for word in ("sigmascope/resnet20", "sigmascope/plain20", INSIDE, AFTER):
        assert word in text
    with paths[2].open(newline="") as file:
        rows = [
            row for row in csv.DictReader(file) if row["panel"] == "sigmascope/resnet20, signature"
        ]
    assert [float(row["score"]) for row in rows] == signatures()[0].scores.tolist()
    assert sg.load(paths[3]).scores.tolist() == signatures()[0].scores.tolist()
