"""A rank that fails within a forward pass of a network in shards, and lives on.

The other one waits in torch for weights, for as long as the process group allows, and then says
why. This file is also what the two processes run.
"""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import sigmascope as sg

TIMEOUT = 20.0  # seconds that the process group allows; everything else takes far less


class Breaks(nn.Module):
    """Fails on the first rank, in the second pass, before the layers behind it have weights."""

    passes = 0

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        if dist.get_rank() == 0 and self.passes == 2:
            raise OSError("No space left on device")
        return x


def in_shards() -> nn.Sequential:
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    layers = (nn.Linear(8, 16), nn.ReLU(), Breaks(), nn.Linear(16, 16), nn.Tanh())
    model = nn.Sequential(*layers)
    for part in (model[0], model[3], model):
        fully_shard(part)
    return model


def main(rank: int, directory: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{directory}/store",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=TIMEOUT),
    )
    try:
        sg.signature(in_shards(), list(torch.randn(3, 64, 8)), progress=False)
    except (sg.SigmascopeError, OSError) as error:
        (directory / f"{rank}.new").write_text(f"{type(error).__name__}: {error}")
        (directory / f"{rank}.new").rename(directory / f"{rank}.txt")
    while not all((directory / f"{one}.txt").exists() for one in range(2)):
        time.sleep(0.05)  # it lives on: its end would be told at once


@pytest.mark.thorough
@pytest.mark.skipif(
    not dist.is_available() or sys.platform == "win32", reason="gloo and process groups"
)
def test_the_other_rank_is_told_why(tmp_path: Path) -> None:
    from tests.two_ranks import run_two_ranks  # out of reach for the processes it starts

    run_two_ranks(__file__, tmp_path)
    first, other = ((tmp_path / f"{rank}.txt").read_text() for rank in range(2))
    assert first == "OSError: No space left on device"
    assert other.startswith(f"RankError: rank 0 failed, so that no rank has a result: {first}.")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
