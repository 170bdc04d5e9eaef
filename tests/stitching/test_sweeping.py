"""Many stitches, one file each; what is there is not trained again."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import sigmascope as sg
from sigmascope.stitching import sweeping as module
from sigmascope.stitching.run import Task
from sigmascope.stitching.sweeping import sweep
from tests.stitching.small import data, moved, trained

TASKS = [
    Task("full"),
    Task("low-rank", {"rank": 1}),
    Task("low-rank", {"rank": 2}),
    Task("identity"),
]


def test_a_sweep_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    networks: dict[str, nn.Module] = {"a": trained(), "b": trained(1), "c": moved()}
    pairs = [("a", "b"), ("a", "c")]
    given: dict[str, Any] = {
        "data": data(),
        "folder": tmp_path,
        "preset": "fast",
        "progress": False,
    }
    tasks = [Task(task.family, {**task.changes, "epochs": 1, "batch": 128}) for task in TASKS]
    part = sweep(networks, pairs[:1], ["2", "5"], tasks[:2], **given)
    assert [(one.site, one.family) for one in part] == [
        (s, f) for s in ("2", "5") for f in ("full", "low-rank")
    ]
    asked: list[tuple[str, int]] = []
    stitch_many = module.stitch_many

    def counted(front: nn.Module, back: nn.Module, chosen: list[Task], **more: Any) -> Any:
        asked.append((f"{more['names'][1]} {more['at']}", len(chosen)))
        return stitch_many(front, back, chosen, **more)

    monkeypatch.setattr(module, "stitch_many", counted)
    every = sweep(networks.__getitem__, pairs, ["2", "5"], tasks, **given)
    assert asked == [("b 2", 2), ("b 5", 2), ("c 2", 4), ("c 5", 4)]
    assert len(every) == 16
    assert torch.equal(every[0].matrix, part[0].matrix)
    assert [one.settings.rank for one in every[:4]] == [1, 1, 2, 1]
    assert len(list(tmp_path.glob("*.json"))) == 16
    again = sweep(networks, pairs, ["2", "5"], tasks, **given)
    assert len(asked) == 4
    assert [one.record() for one in again] == [one.record() for one in every]


def test_other_networks_data_or_devices_have_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks: dict[str, nn.Module] = {"a": trained(), "b": trained(1)}
    given: dict[str, Any] = {"data": data(), "preset": "fast", "seed": 0, "style": "auto"}

    def found(**changes: Any) -> tuple[int, float]:
        """Return how many files there are, and the accuracy."""
        options = {"networks": networks, **given, **changes}
        task = Task("identity", {"batch_norm_pass": False})
        [one] = sweep(
            pairs=[("a", "b")],
            sites=["2"],
            tasks=[task],
            folder=tmp_path,
            progress=False,
            **options,
        )
        return len(list(tmp_path.glob("*.json"))), one.back_accuracy

    first = found()
    assert found() == first
    # equal weights are the same network
    assert found(networks={"a": trained(), "b": trained(1)}) == first
    assert found(networks={"a": trained(), "b": dead(trained(1))})[0] == 2
    assert found(networks={"a": dead(trained()), "b": trained(1)})[0] == 3
    count, accuracy = found(networks={"a": trained(), "b": dead(trained(1))})
    assert (count, accuracy < first[1]) == (3, True)
    assert found(data=data(400))[0] == 4
    assert found(data=dataclasses.replace(data(), augment="flip-shift"))[0] == 5
    assert found(seed=1)[0] == 6
    assert found(style="conv")[0] == 7
    usual = module.circumstances
    monkeypatch.setattr(module, "circumstances", lambda *one: usual(*one) | {"device": "cuda"})
    assert found()[0] == 8


def dead(network: nn.Sequential) -> nn.Sequential:
    """The same, answering one class only."""
    with torch.no_grad():
        network[8].weight.zero_()
    return network


def test_changes_that_a_family_ignores_are_refused(tmp_path: Path) -> None:
    networks: dict[str, nn.Module] = {"a": trained(), "b": trained(1)}
    with pytest.raises(
        sg.OptionError,
        match=r"alpha=1\.0 is read by family='relu-group' only, and not by 'softsort'",
    ):
        sweep(
            networks,
            [("a", "b")],
            ["2"],
            [Task("softsort", {"alpha": 1.0})],
            data=data(),
            folder=tmp_path,
            progress=False,
        )


def test_fixed_elements_have_no_file(tmp_path: Path) -> None:
    with pytest.raises(sg.InputError, match="no place for fixed elements"):
        sweep({}, [], [], [Task("fixed", {}, torch.eye(2))], data=data(), folder=tmp_path)
