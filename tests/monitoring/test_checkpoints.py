"""Tracks of checkpoints that are measured in several calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

import sigmascope as sg

PROBE = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))


def test_a_checkpoint_in_between_leaves_the_later_ones(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    files = {}
    for step in (0, 5, 10):
        nn.init.normal_(model[0].weight)
        files[step] = tmp_path / f"{step}.pt"
        torch.save(model.state_dict(), files[step])
    wanted = sg.track(files, model, [PROBE], progress=False)
    file = tmp_path / "track.json"
    sg.track([files[0], files[10]], model, [PROBE], file=file, progress=False)
    found = sg.track([files[5]], model, [PROBE], file=file, progress=False)
    kept = sg.Track.load(file)
    for one in (found, kept):
        assert one.steps == [0, 5, 10]
        assert np.array_equal(one.scores, wanted.scores)
        assert one.ended == "finished"
