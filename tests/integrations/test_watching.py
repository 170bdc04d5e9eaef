"""What the callbacks of all frameworks share: a failing measurement never ends the training."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from sigmascope.errors import NetworkError
from sigmascope.integrations.watching import Watch
from sigmascope.monitoring.health import TrainingWarning
from sigmascope.monitoring.track import Track

PROBE = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))


def watch(tmp_path: Path, **options: Any) -> Watch:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    found = Watch(
        [PROBE],
        every=1,
        name="sigmascope",
        errors=options.pop("errors", "warn"),
        options={"file": tmp_path / "track.json", **options},
    )
    found.begin(network, is_first=True)
    return found


def synchronized() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.SyncBatchNorm(8), nn.ReLU(), nn.Linear(8, 2))


def full(*_: object) -> Path:
    raise OSError("no space left")


def test_a_file_that_cannot_be_written_does_not_end_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = watch(tmp_path)
    assert found.step(0)
    monkeypatch.setattr(Track, "save", full)
    with pytest.warns(TrainingWarning, match="no space left") as told:
        assert found.step(1) is None
    assert [str(one.message)[:7] for one in told] == ["the end", "step 1:"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found.step(2) is None  # it has stopped
        found.end()
    assert found.track is not None
    assert found.track.steps[0] == 0
    assert found.state_dict()["track"]


def test_an_end_that_cannot_be_written_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = watch(tmp_path)
    assert found.step(0)
    monkeypatch.setattr(Track, "save", full)
    with pytest.warns(TrainingWarning, match="the end of the track: .*no space left"):
        found.end()
    found.end()  # once is enough
    assert found.state_dict()["track"]


def test_it_is_an_error_if_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = watch(tmp_path, errors="raise")
    assert found.step(0)
    monkeypatch.setattr(Track, "save", full)
    with pytest.raises(OSError, match="no space left"):
        found.end()


def test_layers_that_wait_for_other_ranks_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = watch(tmp_path, mode="as-is")
    found.begin(synchronized(), is_first=True)  # the only rank
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    for is_first in (True, False):
        with pytest.raises(NetworkError, match="'1' is a SyncBatchNorm"):
            found.begin(synchronized(), is_first=is_first)
    network = synchronized().eval()
    found.begin(network, is_first=True)
    network.train()
    with pytest.warns(TrainingWarning, match="'1' is a SyncBatchNorm"):
        assert found.step(0) is None
    watch(tmp_path).begin(synchronized(), is_first=True)  # in evaluation mode nothing waits


def test_the_empty_state_of_a_process_that_did_not_measure_is_taken(tmp_path: Path) -> None:
    found = watch(tmp_path)
    found.load_state_dict({})
    found.begin(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), is_first=True)
    assert found.step(0)
