"""Concepts that are computed from images."""

from __future__ import annotations

import pytest
import torch
from matplotlib import colors
from torch import Tensor

from sigmascope.dissection.pictures import COLORS, EDGES, cielab, color_masks, edge_masks
from sigmascope.errors import InputError, InputTypeError, OptionError

# Published CIELab values of sRGB colors under D65.
LAB = {
    (255, 255, 255): (100.0, 0.0, 0.0),
    (0, 0, 0): (0.0, 0.0, 0.0),
    (255, 0, 0): (53.24, 80.09, 67.20),
    (0, 255, 0): (87.73, -86.18, 83.18),
    (0, 0, 255): (32.30, 79.19, -107.86),
    (128, 128, 128): (53.59, 0.0, 0.0),
}


def picture(rgb: tuple[int, int, int], size: int = 2) -> Tensor:
    return (
        torch.tensor(rgb, dtype=torch.uint8)[None, :, None, None]
        .expand(1, 3, size, size)
        .contiguous()
    )


@pytest.mark.parametrize(("rgb", "lab"), LAB.items())
def test_cielab_of_known_colors(rgb: tuple[int, int, int], lab: tuple[float, float, float]) -> None:
    assert cielab(torch.tensor([rgb], dtype=torch.uint8))[0].tolist() == pytest.approx(
        lab, abs=0.02
    )
    assert torch.allclose(
        cielab(torch.tensor([rgb], dtype=torch.float64)),
        cielab(torch.tensor([rgb], dtype=torch.uint8)),
    )


def test_colors_are_those_of_the_survey() -> None:
    for name, code in COLORS.items():
        assert colors.XKCD_COLORS[f"xkcd:{'grey' if name == 'gray' else name}"] == code
    assert len(COLORS) == 11


@pytest.mark.parametrize(
    ("rgb", "name"),
    [
        *[
            (tuple(int(code[i : i + 2], 16) for i in (1, 3, 5)), name)
            for name, code in COLORS.items()
        ],
        ((30, 30, 30), "black"),
        ((240, 245, 240), "white"),
        ((200, 20, 30), "red"),
        ((250, 220, 40), "yellow"),
        ((90, 60, 20), "brown"),
        ((40, 60, 200), "blue"),
        ((130, 130, 125), "gray"),
    ],
)
def test_pixels_are_named(rgb: tuple[int, int, int], name: str) -> None:
    masks = color_masks(picture(rgb))
    found = masks.read(0, 1)["color"]
    assert {masks.concepts[place].name for place in found.labels.flatten().tolist()} == {name}
    assert found.annotated.tolist() == [True]


def test_colors_depend_on_their_own_image_only() -> None:
    images = torch.randint(
        256, (5, 3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    masks = color_masks(images)
    together = masks.read(0, 5)["color"].labels
    assert torch.equal(
        torch.cat([masks.read(k, k + 1)["color"].labels for k in range(5)]), together
    )
    assert together.unique().numel() > 3  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("name", EDGES)
def test_edges_have_a_direction(name: str) -> None:
    y, x = torch.meshgrid(torch.arange(9), torch.arange(9), indexing="ij")
    side = {"horizontal": y > 4, "vertical": x > 4, "rising": x + y > 8, "falling": x > y}[name]
    images = (side * 200).to(torch.uint8)[None, None].repeat(1, 3, 1, 1)
    labels = edge_masks(images).read(0, 1)["edge"].labels[0, 0, 2:-2, 2:-2]
    assert {EDGES[place] for place in labels[labels >= 0].tolist()} == {name}
    assert bool((edge_masks(images, threshold=500).read(0, 1)["edge"].labels == -1).all())


def test_bad_images_are_named() -> None:
    images = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    with pytest.raises(InputTypeError, match="not normalized"):
        color_masks(images.float())
    with pytest.raises(InputError, match="must be"):
        color_masks(images[:, :1])
    with pytest.raises(OptionError, match="threshold must be a number > 0"):
        edge_masks(images, threshold=0)
