"""Orbits of rays under the group of ReLU: finite for the coordinate axes only."""

from __future__ import annotations

import math

import pytest
import torch

from sigmascope.errors import InputError
from sigmascope.symmetry import group
from sigmascope_papers.theory.orbits import ray_orbit_size


def rays(v: torch.Tensor, draws: int) -> int:
    """How many different rays random elements of the group of ReLU make of one."""
    generator = torch.Generator().manual_seed(0)
    images = [group("relu").draw(len(v), generator).apply(v) for _ in range(draws)]
    return len(
        {tuple(torch.round(image / image.abs().max(), decimals=9).tolist()) for image in images}
    )


@pytest.mark.parametrize("v", [[0, 0, 2.0, 0], [-1.0, 0, 0, 0], [5.0]], ids=str)
def test_coordinate_rays_have_finite_orbits(v: list[float]) -> None:
    assert ray_orbit_size(v) == len(v)
    assert rays(torch.tensor(v, dtype=torch.float64), 200) == len(v)


@pytest.mark.parametrize("v", [[0, 1.0, 2.0, 0], [1.0, 1.0, 1.0, 1.0], [1.0, -1.0]], ids=str)
def test_other_rays_have_infinite_orbits(v: list[float]) -> None:
    assert ray_orbit_size(v) == math.inf
    vector = torch.tensor(v, dtype=torch.float64)
    # every element makes another one
    assert [rays(vector, draws) for draws in (50, 200)] == [50, 200]


def test_coordinate_rays_stay_among_themselves() -> None:
    axes = torch.eye(4, dtype=torch.float64)
    for seed in range(20):
        moved = group("relu").draw(4, seed).apply(axes)
        assert bool(((moved > 0).sum(dim=0) == 1).all())
        assert bool(((moved > 0).sum(dim=1) == 1).all())
        assert bool((moved >= 0).all())


def test_refuses_rays() -> None:
    with pytest.raises(InputError, match="spans no ray"):
        ray_orbit_size([0.0, 0.0])
    with pytest.raises(InputError, match="finite numbers"):
        ray_orbit_size([math.nan, 1.0])
    with pytest.raises(InputError, match="real vector"):
        ray_orbit_size(torch.eye(2))
