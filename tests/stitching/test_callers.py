"""Whatever a caller has switched off, mixed up or passed in another shape: it works all the same,
or is named.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.stitching.result import StitchResult
from tests.stitching.small import cross_validate, data, moved, samples, trained

MODES = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
SHORT: dict[str, Any] = {"at": "2", "preset": "fast", "batch": 64, "epochs": 1, "progress": False}


class Sized(nn.Module):
    """Reads a size before the site and uses it behind."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.last = nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        count = x.size(0)
        out: Tensor = self.last(self.act(self.first(x.reshape(count, -1))).reshape(count, 8))
        return out


def stitched(front: nn.Module, back: nn.Module, given: object, family: str) -> StitchResult:
    return sg.stitch(front, back, data=given, family=family, **SHORT)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", ["full", "relu-group"])
def test_gradients_that_are_switched_off(mode: str, family: str) -> None:
    """A stitch does not depend on the mode of its caller, also where data and networks were made in
    that mode.
    """
    expected = stitched(trained(), moved(), data(), family)
    with MODES[mode]():
        before = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        given = samples(512, 1), samples(256, 2)
        front, back = trained(), moved()
        found = stitched(front, back, given, family)
        assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == before
        made = [given[0][0], next(front.parameters()), next(back.buffers())]
        assert [one.is_inference() for one in made] == [mode == "inference_mode"] * 3
    assert not found.matrix.is_inference()
    assert torch.equal(found.matrix, expected.matrix)
    assert found.history == expected.history
    assert found.penalty == expected.penalty


def test_a_front_and_a_back_of_different_dtypes() -> None:
    with pytest.raises(
        sg.InputTypeError,
        match=r"the front has dtype torch\.float64 and the back torch\.float32\. Convert one",
    ):
        stitched(trained().double(), moved(), data(), "identity")


@pytest.mark.parametrize("kind", [np.array, iter], ids=["array", "iterator"])
def test_alphas_of_any_kind(kind: Any) -> None:
    found = cross_validate(trained(), moved(), alphas=kind([0.01, 1.0]), data=data(), **SHORT)
    assert found.alphas == (0.01, 1.0)
    assert [one.settings.alpha for one in found.results] == [0.01, 1.0]
    assert len(repr(found).splitlines()) == 2
    with pytest.raises(sg.OptionError, match="chooses from alphas"):
        cross_validate(trained(), moved(), alphas=kind([]), data=data(), **SHORT)


def test_a_size_that_goes_past_the_site_is_not_cached() -> None:
    network, given = Sized(), {**SHORT, "at": "act", "front_mode": "eval"}
    assert sg.stitch(network, network, data=data(), family="least-squares", **given).penalty == 0
    with pytest.raises(
        sg.InputError, match="cache_front keeps tensors, but something else, such as a size"
    ):
        sg.stitch(network, network, data=data(), family="identity", cache_front=True, **given)
