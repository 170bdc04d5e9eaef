"""A stitch that starts at a matching, and penalties beside what adapting alone costs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import sigmascope as sg
from sigmascope.stitching import Stitcher, Task
from sigmascope.stitching.layer import Stitch
from sigmascope.stitching.result import StitchResult
from sigmascope.symmetry.groups import group
from sigmascope.training.data import StitchData
from tests.stitching.small import conv_net, data, moved, samples, trained

QUICK: dict[str, Any] = {"preset": "fast", "progress": False}
ELEMENT = group("relu").sample(8, seed=5)


@pytest.mark.parametrize("family", ["relu-group", "softsort"])
def test_the_parameters_of_a_start_stand_for_its_matrix(family: str) -> None:
    matrix = ELEMENT
    layer = Stitch(family, 8, "conv").double()
    assert not torch.allclose(layer.matrix(exact=True), matrix)
    layer.start_at(matrix)
    torch.testing.assert_close(layer.matrix(exact=True), matrix, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("family", ["relu-group", "softsort"])
def test_a_planted_element_is_found_from_any_seed(family: str) -> None:
    """Without training: a rate of 0 leaves the start, which no random one would be."""
    given: dict[str, Any] = {"site": "2", "batches": data(), "rate": 0.0, "epochs": 1, **QUICK}
    there = sg.stitch(trained(), moved(), family="permutation", **given)
    given["scale_rate"] = 0.0
    orders = []
    for seed in range(3):
        matched = sg.stitch(trained(), moved(), family=family, seed=seed, start="matched", **given)
        random = sg.stitch(trained(), moved(), family=family, seed=seed, **given)
        torch.testing.assert_close(matched.matrix, there.matrix, atol=1e-5, rtol=1e-5)
        assert abs(matched.adapted_penalty) < 1 < random.adapted_penalty
        orders.append(matched.matrix > 0)
    assert all(torch.equal(one, orders[0]) for one in orders)


@pytest.mark.parametrize("family", ["relu-group", "softsort"])
def test_a_stitch_starts_at_a_given_element(family: str) -> None:
    """A matched element, given: without training it is what was found, as candidate 0."""
    given: dict[str, Any] = {"site": "2", "batches": data(), "rate": 0.0, "epochs": 1, **QUICK}
    there = sg.stitch(trained(), moved(), family="permutation", **given)
    still = {"family": family, "start": "given", "scale_rate": 0.0}
    found = sg.stitch(trained(), moved(), element=there.element, **still, **given)
    torch.testing.assert_close(found.matrix, there.matrix, atol=1e-5, rtol=1e-5)
    assert abs(found.adapted_penalty) < 1
    other = sg.stitch(trained(), moved(), element=ELEMENT, **still, **given)
    torch.testing.assert_close(other.matrix, ELEMENT.float().double(), atol=1e-5, rtol=1e-5)
    assert other.adapted_penalty > 1


def test_a_given_start_is_refused_without_a_positive_scaled_permutation() -> None:
    given: dict[str, Any] = {"batches": data(64, 64), "site": "2", "start": "given", **QUICK}
    negative = ELEMENT.clone()
    negative[negative > 0] *= -1
    for element in (negative, torch.ones(8, 8), torch.zeros(8, 8)):
        with pytest.raises(sg.InputError, match="one positive entry in every row"):
            sg.stitch(trained(), moved(), element=element, **given)
    with pytest.raises(sg.OptionError, match=r"element=\.\.\. belongs to .* start='given'"):
        sg.stitch(trained(), moved(), **given)
    with pytest.raises(sg.OptionError, match="start='given' is read by family='relu-group'"):
        sg.stitch(trained(), moved(), element=ELEMENT, family="full", **given)


def test_training_that_ruins_a_matching_does_not_lose_it() -> None:
    given: dict[str, Any] = {"site": "2", "batches": data(), "epochs": 2, **QUICK}
    ruined = {"rate": 1e4, "scale_rate": 30.0, "momentum": 0.0}
    found = sg.stitch(trained(), moved(), start="matched", **ruined, **given)
    assert found.best_epoch == 0
    assert len(found.history) == 2
    assert min(epoch.accuracy for epoch in found.history) < found.chosen_accuracy - 5
    assert abs(found.adapted_penalty) < 1


def test_a_matched_start_has_no_head_start() -> None:
    given: dict[str, Any] = {"site": "2", "batches": data(64, 64), "epochs": 2, "head_start": 1}
    found = {
        start: sg.stitch(trained(), moved(), start=start, **given, **QUICK)
        for start in ("random", "matched")
    }
    scaled = {start: [epoch.scaled for epoch in one.history] for start, one in found.items()}
    assert scaled == {"random": [False, True], "matched": [True, True]}


def test_other_families_cannot_start_at_a_matching() -> None:
    with pytest.raises(sg.OptionError, match="start='matched' is read by family='relu-group'"):
        sg.stitch(trained(), moved(), data(), site="2", family="full", start="matched")


def test_adapting_alone_is_not_the_fault_of_a_stitch() -> None:
    """A network stitched to itself loses what adapting costs, and nothing else."""
    noisy = StitchData(samples(64, 1, noise=2.0), samples(256, 2, noise=2.0))
    given: dict[str, Any] = {"site": "2", "batches": noisy, **QUICK}
    found = sg.stitch(trained(), trained(), family="identity", **given)
    front, back = found.adapted_accuracies
    assert front == back == found.stitched_accuracy != found.front_accuracy
    assert found.adapted_penalty == 0 != found.penalty
    assert "against both networks with batch norms adapted" in repr(found)
    assert found.to_dict()["adapted_penalty"] == 0


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("final_pass", [True, False])
def test_both_networks_go_through_the_pass_of_the_stitched_one(mode: str, final_pass: bool) -> None:
    given: dict[str, Any] = {"front_mode": mode, "final_pass": final_pass, **QUICK}
    given |= {"site": "2", "batches": data(64, 256), "family": "identity"}
    pair = sg.stitch(trained(0), trained(1), **given)
    own = [sg.stitch(trained(seed), trained(seed), **given) for seed in (0, 1)]
    assert pair.adapted_accuracies == tuple(one.stitched_accuracy for one in own)
    assert pair.adapted_penalty > 1


def test_without_a_pass_both_stay_as_they_are() -> None:
    given: dict[str, Any] = {"batches": data(64, 256), "epochs": 1, **QUICK}
    trainable = sg.stitch(trained(), moved(), site="2", family="full", **given)
    assert not trainable.settings.batch_norm_pass
    plain = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 4))
    without = sg.stitch(plain, plain, site="2", family="permutation", **given)
    for found in (trainable, without):
        assert found.adapted_accuracies == (found.front_accuracy, found.back_accuracy)
        assert found.adapted_penalty == found.penalty
        assert "adapted" not in repr(found)


def test_stitches_on_the_same_batches_may_differ_in_the_start() -> None:
    stitcher = Stitcher(trained(), moved(), data(), site="2", **QUICK)
    starts = [Task("relu-group", {"start": start, "epochs": 2}) for start in ("matched", "random")]
    together = stitcher.fit_many(starts)
    alone = [stitcher.fit("relu-group", **dict(task.changes)) for task in starts]
    for one, other in zip(together, alone, strict=True):
        assert torch.equal(one.matrix, other.matrix)
    assert together[0].adapted_accuracies == together[1].adapted_accuracies


def test_a_matched_training_continues_from_its_checkpoint(tmp_path: Path) -> None:
    given: dict[str, Any] = {"site": "2", "batches": data(64, 64), "epochs": 2, **QUICK}
    kept = {"checkpoint": tmp_path / "run.safetensors", "start": "matched"}
    first = sg.stitch(trained(), moved(), **kept, **given)
    assert torch.equal(first.matrix, sg.stitch(trained(), moved(), **kept, **given).matrix)
    with pytest.raises(sg.ResumeError, match="start"):
        sg.stitch(trained(), moved(), **kept | {"start": "random"}, **given)


def test_files_of_earlier_versions(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network, some = conv_net().eval(), samples(40, 1)
    found = sg.stitch(network, network, (some, some), site="2", family="identity", **QUICK)
    path = found.save(tmp_path / "stitch.json")
    content = json.loads(path.read_text())
    del (
        content["digest"],
        content["content"]["adapted_accuracies"],
        content["content"]["settings"]["start"],
    )
    path.write_text(json.dumps(content))
    there = StitchResult.load(path)
    assert there.settings == found.settings
    assert there.adapted_accuracies == ()
    assert math.isnan(there.adapted_penalty)
    assert "adapted" not in repr(there)
