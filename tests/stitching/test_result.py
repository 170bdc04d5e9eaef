"""The result: prints, saves, loads, and gives back the network that was evaluated."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import sigmascope as sg
from sigmascope.stitching.result import StitchResult, element_of
from sigmascope.symmetry.monomial import Monomial
from tests.resealing import edit
from tests.stitching.small import data, equal, moved, trained


def made(**changes: Any) -> StitchResult:
    given = {
        "at": "2",
        "data": data(),
        "preset": "fast",
        "epochs": 2,
        "batch": 64,
        "progress": False,
        "names": ("one", "two"),
    }
    return sg.stitch(trained(), moved(), **{**given, **changes})


def test_it_prints_itself() -> None:
    text = repr(made(family="lasso", strength=0.01))
    assert text.startswith(
        "one stitched to two at 2: lasso, strength=0.01, shrinkage=proximal, 8 channels\npenalty "
    )
    assert repr(made(epochs=1)).startswith(
        "one stitched to two at 2: relu-group, alpha=0.1, scale_rate=0.1, 8 channels\n"
    )
    assert "relu-group, alpha=0.1, rounding=monotone, scale_rate=0.1, 8 channels" in repr(
        made(epochs=1, rounding="monotone")
    )
    assert "full, 8 channels" in repr(made(epochs=1, family="full"))
    assert "% on held-out data), batch 64; 256 test samples" in text
    assert "not trained" in repr(made(family="identity"))


def test_it_comes_back_from_its_files(tmp_path: Path) -> None:
    result = made()
    path = result.save(tmp_path / "stitch.json")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["stitch.json", "stitch.safetensors"]
    found = StitchResult.load(path)
    assert found.record() == result.record()
    assert equal(found.tensors, result.tensors)
    assert (found.penalty, found.sparsity, repr(found)) == (
        result.penalty,
        result.sparsity,
        repr(result),
    )
    assert json.loads(path.read_text())["kind"] == "stitch"


def test_a_diverged_one_comes_back_too(tmp_path: Path) -> None:
    result = made(family="lasso", rate=10.0, strength=1e38, shrinkage="gradient")
    found = StitchResult.load(result.save(tmp_path / "stitch.json"))
    assert math.isnan(found.penalty)
    assert found.notes == result.notes
    assert found.matrix.isnan().all()
    assert repr(found) == repr(result)
    *_, trained_line, note = repr(found).splitlines()
    assert trained_line == "no stitch, since training diverged; batch 64; 256 test samples"
    assert (
        note
        == "Note: training diverged in epoch 1: the stitch and the loss are not finite; a lower "
        "rate may help."
    )
    with pytest.raises(
        sg.InputError,
        match=r"no stitched network: training diverged in epoch 1.* with a lower rate",
    ):
        found.network(trained(), moved(), data().test[0][:2])


def test_zeros_of_an_earlier_version_are_no_stitch(tmp_path: Path) -> None:
    """They looked like a stitch: all sparse, and in the group with scales of 1e-6."""
    result = made(alpha=1e39)
    assert result.has_diverged
    old = dataclasses.replace(result, tensors={"matrix": torch.zeros(8, 8, dtype=torch.float64)})
    for one in (result, StitchResult.load(old.save(tmp_path / "old.json"))):
        assert one.element is None
        assert math.isnan(one.sparsity)
        assert one.matrix.isnan().all()
    working = made(epochs=1)
    assert not working.has_diverged
    assert working.element is not None


@pytest.mark.parametrize("family", ["relu-group", "full", "permutation"])
def test_the_network_that_was_evaluated(family: str, tmp_path: Path) -> None:
    result = StitchResult.load(made(family=family).save(tmp_path / "stitch.json"))
    inputs, labels = data().test
    network = result.network(trained(), moved(), inputs[:2])
    assert 100 * float((network(inputs).argmax(dim=1) == labels).double().mean()) == pytest.approx(
        result.stitched_accuracy
    )


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = made().save(tmp_path / "stitch.json")
    other = made(family="full").save(tmp_path / "other.json")
    edit(path, lambda document: document["content"].pop("seed"))
    with pytest.raises(sg.FileFormatError, match="does not have the keys of a stitch"):
        StitchResult.load(path)
    other.with_suffix(".safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="other"):
        StitchResult.load(other)
    with pytest.raises(sg.InputError, match=r"does not end in \.json"):
        made(family="identity").save(tmp_path / "stitch.txt")


def test_elements_are_read_off_matrices() -> None:
    element = Monomial([2, 0, 1], [0.5, 3.0, 7.0])
    found = element_of(element.matrix())
    assert torch.equal(found.matrix(), element.matrix())
    crushed = element.matrix()
    crushed[:, 1] = 0
    back = element_of(crushed)
    assert torch.equal(back.permutation, element.permutation)
    assert back.scales.tolist() == [0.5, 1e-6, 7.0]
    assert made(family="full").element is None
