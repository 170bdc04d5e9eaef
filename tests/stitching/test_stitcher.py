"""A stitcher does what the one-liner does; earlier keywords work; results show themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import sigmascope as sg
from sigmascope.figures import draw_stitch
from sigmascope.stitching import Stitcher, StitchResult, Task
from tests.resealing import edit
from tests.stitching.small import data, equal, moved, trained

SHORT: dict[str, Any] = {"batch": 64, "epochs": 2}


def stitcher(**options: Any) -> Stitcher:
    given = {"site": "2", "preset": "fast", "progress": False, **options}
    return Stitcher(trained(), moved(), data(), **given)


def test_it_fits_what_the_one_liner_does() -> None:
    held = stitcher()
    one = held.fit("full", **SHORT)
    [many] = held.fit_many([Task("full", SHORT)])
    given: dict[str, Any] = {"preset": "fast", "family": "full", "progress": False, **SHORT}
    new = sg.stitch(trained(), moved(), data(), site="2", **given)
    old = sg.stitch(trained(), moved(), at="2", data=data(), **given)
    for other in (many, new, old):
        assert equal(one.tensors, other.tensors)
        assert one.record() == other.record()


def test_a_generator_is_a_seed() -> None:
    one, two, other = (
        stitcher(seed=torch.Generator().manual_seed(number)).seed for number in (3, 3, 4)
    )
    assert one == two != other


def test_an_earlier_name_of_a_setting_works() -> None:
    new, old = (stitcher().fit(**{name: "rms"}, **SHORT) for name in ("regularizer", "regulariser"))
    assert new.settings.regularizer == "rms"
    assert new.record() == old.record()
    with pytest.raises(sg.OptionError, match=r"regulariser='rms' is read by family='relu-group'"):
        stitcher().fit("full", **{"regulariser": "rms"})


def test_files_of_earlier_versions_are_read(tmp_path: Path) -> None:
    result = stitcher().fit("identity")
    path = result.save(tmp_path / "stitch.json")

    def rename(document: Any) -> None:
        settings = document["content"]["settings"]
        settings["regulariser"] = settings.pop("regularizer")

    edit(path, rename)
    assert StitchResult.load(path).record() == result.record()


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"site": "2"}, r"pass the data as batches=\(train, test\), once"),
        ({"site": "2", "batches": 1, "data": 2}, "once"),
        ({"batches": 1}, "site is missing"),
        ({"batches": 1, "site": "2", "at": "2"}, "site is given twice"),
        ({"batches": 1, "site": "2", "seed": -1}, "seed must be a whole number"),
    ],
)
def test_what_is_missing_or_given_twice_is_named(given: dict[str, Any], match: str) -> None:
    with pytest.raises(sg.OptionError, match=match):
        Stitcher(trained(), moved(), **given)


def test_unknown_options_are_named() -> None:
    with pytest.raises(
        sg.OptionError, match=r"'stile' is not a valid choice\. Did you mean 'style'"
    ):
        stitcher(stile="conv")
    with pytest.raises(sg.OptionError, match="style='last' is not a valid choice"):
        stitcher(style="last")


def test_results_show_themselves() -> None:
    result = stitcher().fit("full", **SHORT)
    assert (
        result._repr_html_()
        == f"<pre>{repr(result).replace('<', '&lt;').replace('>', '&gt;')}</pre>"
    )
    numbers = result.to_dict("stitch/")
    assert numbers["stitch/penalty"] == result.penalty
    assert all(isinstance(value, (int, float)) for value in numbers.values())
    drawn = result.plot()
    line, *levels = drawn.axes[0].get_lines()
    assert line.get_xdata().tolist() == [1, 2]
    assert line.get_ydata().tolist() == [epoch.accuracy for epoch in result.history]
    assert {level.get_ydata()[0] for level in levels} == {
        result.stitched_accuracy,
        result.front_accuracy,
        result.back_accuracy,
    }
    untrained = stitcher().fit("identity").plot()
    assert untrained.axes[0].get_lines()[0].get_xdata().tolist() == [0]
    with pytest.raises(sg.InputTypeError, match=r"sigmascope\.stitch"):
        draw_stitch(torch.zeros(2))  # type: ignore[arg-type]


def test_a_cross_validation_shows_itself() -> None:
    found = stitcher().cross_validate((0.01, 1.0), batch=64, epochs=1)
    assert found._repr_html_().startswith("<pre>α = 0.01: ")
    assert found.to_dict("cv/")["cv/0.01/penalty"] == found.results[0].penalty
    axes = found.plot().axes[0]
    assert axes.get_xscale() == "log"
    held_out, test = axes.get_lines()
    assert held_out.get_ydata().tolist() == [one.chosen_accuracy for one in found.results]
    assert test.get_ydata().tolist() == [one.stitched_accuracy for one in found.results]


def test_functions_of_earlier_versions() -> None:
    common: dict[str, Any] = {"at": "2", "data": data(), "preset": "fast", "progress": False}
    [many] = sg.stitching.stitch_many(trained(), moved(), [Task("full", SHORT)], **common)
    assert many.record() == stitcher().fit("full", **SHORT).record()
    changes = {"alphas": (0.01, 1.0), "batch": 64, "epochs": 1}
    found = sg.stitching.cross_validate(trained(), moved(), **common, **changes)
    expected = stitcher().cross_validate((0.01, 1.0), batch=64, epochs=1)
    assert found.to_dict() == expected.to_dict()


def test_the_largest_seed() -> None:
    assert stitcher(seed=2**63 - 1).fit("full", **SHORT).seed == 2**63 - 1
    with pytest.raises(sg.OptionError, match="seed must be a whole number from 0"):
        stitcher(seed=2**63)


def test_families_may_be_named() -> None:
    named = stitcher().fit_many(["identity", "permutation"])
    tasks = stitcher().fit_many([Task("identity"), Task("permutation")])
    assert [one.penalty for one in named] == [one.penalty for one in tasks]
    assert [one.family for one in named] == ["identity", "permutation"]
