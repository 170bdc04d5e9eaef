"""What happens to images and sentences on the way into a network, against torchvision's own
preprocessing.
"""

from __future__ import annotations

import pytest
import torch

from sigmascope.catalog import Transform
from sigmascope.catalog.optional import optional
from sigmascope.catalog.transforms import IMAGENET, normalize, resize_and_crop


def images(height: int, width: int) -> torch.Tensor:
    return torch.randint(
        0, 256, (2, 3, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


@pytest.mark.parametrize(
    "shape", [(300, 260), (261, 333), (256, 256), (97, 41), (224, 225), (1000, 231)]
)
@pytest.mark.parametrize(("crop", "resize"), [(224, 256), (64, 73), (224, 224)])
def test_it_is_what_torchvision_does(shape: tuple[int, int], crop: int, resize: int) -> None:
    preset = optional("torchvision.transforms._presets").ImageClassification(
        crop_size=crop, resize_size=resize
    )
    ours = resize_and_crop((crop, crop), *IMAGENET, resize=resize)
    assert (ours(images(*shape)) - preset(images(*shape))).abs().max() < 1e-6
    moved = resize_and_crop((crop, crop), *IMAGENET, resize=resize + 8)
    assert (moved(images(*shape)) - preset(images(*shape))).abs().max() > 0.1


@pytest.mark.parametrize("shape", [(40, 40), (10, 90), (90, 10), (48, 30)])
def test_the_cut_need_not_be_square(shape: tuple[int, int]) -> None:
    assert resize_and_crop((24, 40), *IMAGENET)(images(*shape)).shape == (2, 3, 24, 40)


def test_an_image_of_the_right_size_is_only_normalized() -> None:
    pixels = images(24, 40)
    assert torch.equal(resize_and_crop((24, 40), *IMAGENET)(pixels), normalize(*IMAGENET)(pixels))


def test_a_transform_is_a_function_that_says_what_it_takes() -> None:
    upper = Transform("text", lambda sentences: [one.upper() for one in sentences])
    assert (upper.takes, upper(["a", "b"])) == ("text", ["A", "B"])
    assert repr(upper) == "Transform(takes='text')"
