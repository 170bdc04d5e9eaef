"""The items on networks of the zoo: from stored signatures, judged by rules that can fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sigmascope as sg
from sigmascope.measure.signature import Signature
from sigmascope.reproduce.item import DIRECTION, FAILS, HOLDS, overall
from sigmascope.reproduce.nonlinearity import fig7
from sigmascope.reproduce.nonlinearity.places import separation
from sigmascope.reproduce.setting import Setting

ZOO = Path(__file__).resolve().parents[2] / "zoo"


def with_scores(signature: Signature, scores: np.ndarray) -> Signature:
    sites = tuple(replace(site, score=float(score)) for site, score in zip(signature.sites, scores, strict=True))
    return replace(signature, sites=sites)


def shuffled(signature: Signature, seed: int = 0) -> Signature:
    """The same scores at other calls: no place of a block is special."""
    return with_scores(signature, np.random.default_rng(seed).permutation(signature.scores))


def test_figure_7_holds_and_notices_a_network_without_a_split() -> None:
    twins = fig7.ITEM.measure(Setting(zoo=ZOO))
    assert overall(fig7.ITEM.judge(twins)) == HOLDS
    name, one = next(iter(twins.residual.items()))
    assert overall(fig7.ITEM.judge(replace(twins, residual=twins.residual | {name: shuffled(one)}))) == FAILS
    assert overall(fig7.ITEM.judge(replace(twins, residual=twins.plain, plain=twins.residual))) == FAILS
    blurred = with_scores(one, one.scores + np.random.default_rng(0).normal(0, 0.12, len(one.scores)))
    assert 0.75 < separation(blurred) < 0.9
    assert fig7.ITEM.judge(replace(twins, residual=twins.residual | {name: blurred}))[0].verdict == DIRECTION


def test_figure_7_draws_the_pair() -> None:
    twins = fig7.ITEM.measure(Setting(zoo=ZOO))
    drawn = fig7.ITEM.draw(twins)[""]
    rows = [row for row in drawn.table if row["panel"] == "sigmascope/resnet20:0, signature"]
    assert [row["score"] for row in rows] == twins.residual["resnet20:0"].scores.tolist()


def test_what_is_not_stored_is_named(tmp_path: Path) -> None:
    with pytest.raises(sg.InputError, match=r"has no signature of sigmascope/vit:0\. .*--from-scratch"):
        Setting(zoo=tmp_path).runs(["vit:0"])
