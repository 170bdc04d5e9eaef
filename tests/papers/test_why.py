"""The scripts of `papers/why` that need only stored results print what the items quote."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from sigmascope.measure.result import Signature
from sigmascope_papers.real.measuring import signatures
from sigmascope_papers.setting import Setting
from sigmascope_papers.table import prose

WHY = Path(__file__).resolve().parents[2] / "papers" / "why"
QUOTED = {
    ("norm", "table1"): ("Spearman 0.72", "5 of 6", "−0.66", "−0.88", "−0.26", "−0.36", "−0.06"),
    ("resnet18", "real-table2"): ("0.03", "0.18", "0.33", "0.47", "-0.22", "-0.31", "-0.25"),
}


@pytest.mark.parametrize(("script", "name"), QUOTED)
def test_numbers_are_those_that_are_printed(
    script: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(WHY / f"{script}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    for number in QUOTED[script, name]:
        assert number in prose(name).reason
        assert number.replace("−", "-") in printed


def test_a_correlation_without_a_call_is_that_of_the_others() -> None:
    row = runpy.run_path(str(WHY / "resnet18.py"))["row"]
    one: Signature = signatures(Setting(), ["resnet18"])["resnet18"]
    found = row(one, "norm")
    norms = [site.metrics["norm"] for site in one.sites]
    assert found.whole == pytest.approx(np.corrcoef(one.scores, norms)[0, 1])
    last = np.corrcoef(one.scores[:-1], norms[:-1])[0, 1]
    assert found.without_one[-1] == pytest.approx(last)
    assert len(found.without_one) == 17
    narrow = [place for place, site in enumerate(one.sites) if site.dim < 512]
    assert len(narrow) == 13
    rest = np.corrcoef(one.scores[narrow], np.array(norms)[narrow])[0, 1]
    assert found.without_widest == pytest.approx(rest)
