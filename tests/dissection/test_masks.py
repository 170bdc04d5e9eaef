"""Masks of concepts: how they are laid out, and what is refused."""

from __future__ import annotations

import pytest
import torch

from sigmascope.dissection.masks import NONE, Concept, Masks, image_masks, join_masks, pixel_masks
from sigmascope.errors import InputError, InputTypeError


def test_overlapping_masks_come_back_from_their_layers() -> None:
    masks = torch.rand(7, 5, 4, 3, generator=torch.Generator().manual_seed(0)) > 0.5
    names = [("a", "x"), ("b", "y"), ("c", "x"), ("d", "x"), ("e", "y")]
    source = pixel_masks(masks, names)
    assert source.categories == ("x", "y")
    read = source.read(2, 6)
    for place, (_, category) in enumerate(names):
        assert torch.equal((read[category].labels == place).any(dim=1), masks[2:6, place])
        assert bool(((read[category].labels == place).sum(dim=1) <= 1).all())
    assert read["x"].labels.shape[1] == int(masks[2:6, [0, 2, 3]].sum(dim=1).max())


def test_separate_masks_need_one_layer() -> None:
    labels = torch.randint(50, (3, 8, 8), generator=torch.Generator().manual_seed(0))
    source = pixel_masks(torch.stack([labels == one for one in range(50)], dim=1))
    assert torch.equal(source.read(0, 3)["concept"].labels[:, 0], labels)
    assert source.concepts[7] == Concept("7")


def test_whole_images_take_no_memory() -> None:
    labels = image_masks(torch.tensor([1, -1]), ["a", "b"], (100, 100)).read(0, 2)["class"]
    assert labels.labels.shape == (2, 1, 100, 100)
    assert labels.labels.untyped_storage().nbytes() == 16
    assert labels.annotated.tolist() == [True, False]


def test_joining_moves_the_numbers() -> None:
    one = pixel_masks(torch.eye(2, dtype=torch.bool)[None, None], [("a", "x")])
    two = pixel_masks(torch.eye(2, dtype=torch.bool)[None, None], [("b", "y")])
    found = join_masks(one, two).read(0, 1)
    assert found["x"].labels.flatten().tolist() == [0, NONE, NONE, 0]
    assert found["y"].labels.flatten().tolist() == [1, NONE, NONE, 1]


def test_bad_masks_are_named() -> None:
    masks = torch.zeros(3, 2, 4, 4, dtype=torch.bool)
    with pytest.raises(InputError, match="2 concepts, but 1 names were given"):
        pixel_masks(masks, ["a"])
    with pytest.raises(InputError, match="occurs twice"):
        pixel_masks(masks, ["a", "a"])
    with pytest.raises(InputTypeError, match="a concept must be a name or a pair"):
        pixel_masks(masks, [("a", "b", "c"), "d"])  # type: ignore[list-item]
    with pytest.raises(InputError, match="must be the flags of 3 samples"):
        pixel_masks(masks, ["a", "b"], annotated={"color": torch.ones(3, dtype=torch.bool)})
    with pytest.raises(InputError, match="have no concepts"):
        pixel_masks(masks[:, :0])
    with pytest.raises(InputError, match="at least one sample and pixel"):
        pixel_masks(masks[:0])
    with pytest.raises(InputError, match="places in the 2 names"):
        image_masks(torch.tensor([0, 2]), ["a", "b"], (2, 2))
    with pytest.raises(InputTypeError, match="whole numbers"):
        image_masks(torch.tensor([0.5]), ["a"], (2, 2))
    with pytest.raises(InputError, match="must be of the same samples and size"):
        join_masks(pixel_masks(masks), pixel_masks(masks[:2], [("a", "x"), ("b", "x")]))
    with pytest.raises(InputError, match="categories must differ"):
        join_masks(pixel_masks(masks), pixel_masks(masks))


def test_masks_without_a_reader_say_how_they_are_made() -> None:
    for given in ((), (torch.zeros(3, 2, 4, 4, dtype=torch.bool), ["a", "b"])):
        with pytest.raises(InputTypeError, match=r"Make them with pixel_masks\(tensor, names\)"):
            Masks(*given)  # type: ignore[arg-type]
