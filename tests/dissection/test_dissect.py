"""Intersection over union against brute force, planted detectors, and what must not change a
result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import sigmascope as sg
from sigmascope.dissection.dissecting import dissect
from sigmascope.dissection.masks import Masks, image_masks, join_masks, pixel_masks
from sigmascope.dissection.settings import DissectSettings
from sigmascope.errors import FileFormatError, InputError, InputTypeError, OptionError
from sigmascope.symmetry.rotations import random_rotation, rotation_power

CONCEPTS = [("red", "color"), ("blue", "color"), ("wheel", "part")]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def some_masks(
    samples: int = 12, size: int = 6, seed: int = 1
) -> tuple[Tensor, dict[str, Tensor], Masks]:
    masks = random(samples, 3, size, size, seed=seed) > 1.0
    annotated = {
        "color": torch.ones(samples, dtype=torch.bool),
        "part": torch.arange(samples) % 3 > 0,
    }
    return masks, annotated, pixel_masks(masks, CONCEPTS, annotated=annotated)


def brute_force(
    maps: Tensor, masks: Tensor, annotated: dict[str, Tensor], quantile: float
) -> np.ndarray[Any, Any]:
    """One pixel at a time, in Python."""
    size = tuple(masks.shape[2:])
    found = np.zeros((maps.shape[1], masks.shape[1]))
    for unit in range(maps.shape[1]):
        threshold = np.quantile(maps[:, unit].numpy(), quantile)
        resized = F.interpolate(
            maps[:, unit : unit + 1], size=size, mode="bilinear", align_corners=False
        )[:, 0]
        for concept in range(masks.shape[1]):
            both = either = 0
            for sample in range(len(maps)):
                if not annotated[CONCEPTS[concept][1]][sample]:
                    continue
                for y in range(size[0]):
                    for x in range(size[1]):
                        active, labeled = (
                            bool(resized[sample, y, x] > threshold),
                            bool(masks[sample, concept, y, x]),
                        )
                        both += active and labeled
                        either += active or labeled
            found[unit, concept] = both / either
    return found


@pytest.mark.parametrize("shape", [(3, 3), (6, 6), (2, 4), (9, 9)])
def test_iou_by_brute_force(shape: tuple[int, int]) -> None:
    masks, annotated, concepts = some_masks()
    maps = random(12, 4, *shape)
    found = dissect(maps, concepts, quantile=0.9)
    assert found.iou[0, 0].numpy() == pytest.approx(
        brute_force(maps, masks, annotated, 0.9), abs=1e-15
    )
    assert found.thresholds[0, 0].numpy() == pytest.approx(
        np.quantile(maps.movedim(1, 0).flatten(1).numpy(), 0.9, axis=1)
    )


def test_annotation_matters() -> None:
    masks, _, concepts = some_masks()
    maps = random(12, 4, 6, 6)
    everywhere = dissect(maps, pixel_masks(masks, CONCEPTS), quantile=0.9).iou[0, 0]
    found = dissect(maps, concepts, quantile=0.9).iou[0, 0]
    assert torch.equal(everywhere[:, :2], found[:, :2])
    assert not torch.equal(everywhere[:, 2], found[:, 2])


def test_planted_detectors_have_iou_1() -> None:
    masks = random(40, 3, 8, 8) > 2.8  # sparser than 1 - quantile
    noise = random(40, 3, 8, 8, seed=5)
    planted = dissect(
        torch.where(masks, 10 + noise, noise),
        pixel_masks(masks, CONCEPTS),
        quantile=float(1 - masks[:, 0].double().mean()),
    )
    assert planted.iou[0, 0, 0, 0] == pytest.approx(1, abs=0.06)
    exact = dissect(masks.double(), pixel_masks(masks, CONCEPTS))
    assert torch.equal(exact.iou[0, 0].diagonal(), torch.ones(3, dtype=torch.float64))
    assert [exact.unit(k)[0].name for k in range(3)] == ["red", "blue", "wheel"]  # type: ignore[union-attr]
    assert exact.fraction.tolist() == [[1.0]]
    assert exact.unique_concepts.tolist() == [[3]]
    assert exact.categories() == {"color": 2, "part": 1}


def test_noise_detects_nothing() -> None:
    masks, _, concepts = some_masks(60, 12)
    found = dissect(random(60, 5, 12, 12, seed=9), concepts)
    assert found.fraction.tolist() == [[0.0]]
    assert found.categories() == {"color": 0, "part": 0}
    assert float(found.best_iou.max()) < 0.04
    assert masks.any()


@pytest.mark.parametrize("chunk", [1, 5, 12])
def test_batches_memory_and_chunks_change_nothing(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, concepts = some_masks()
    maps, Q = random(12, 4, 3, 3), random_rotation(4, 0)
    whole = dissect(maps, concepts, rotation=Q, powers=[0, 0.5, 1], quantile=0.9)
    monkeypatch.setattr("sigmascope.dissection.readings.PIXELS", 4 * 36 * chunk)
    for memory in (1e9, 500.0, 1.0):
        parts = dissect(
            list(maps.split(chunk)),
            concepts,
            rotation=Q,
            powers=[0, 0.5, 1],
            quantile=0.9,
            memory=memory,
        )  # type: ignore[no-untyped-call]
        assert torch.equal(parts.iou, whole.iou)
        assert float((parts.thresholds - whole.thresholds).abs().max()) < 1e-12


def test_little_memory_means_more_readings() -> None:
    _, _, concepts = some_masks()
    maps = random(12, 4, 3, 3)
    readings = []

    class Counted:
        def __iter__(self) -> Any:
            readings.append(1)
            return iter([maps])

    dissect(Counted(), concepts)  # type: ignore[arg-type]
    assert len(readings) == 4  # whether it begins again, a look, thresholds, counts
    dissect(Counted(), concepts, memory=1.0)  # type: ignore[arg-type]
    assert len(readings) == 4 + 3 + 4


def test_power_0_changes_nothing_and_power_1_is_the_rotation() -> None:
    _, _, concepts = some_masks()
    maps, Q = random(12, 5, 3, 3), random_rotation(5, 2)
    plain = dissect(maps, concepts, quantile=0.9)
    turned = dissect(maps, concepts, rotation=Q, powers=[0, 0.5, 1], quantile=0.9)
    assert torch.equal(turned.iou[0, 0], plain.iou[0, 0])
    assert torch.equal(turned.thresholds[0, 0], plain.thresholds[0, 0])
    for place, power in ((1, 0.5), (2, 1.0)):
        by_hand = torch.einsum("oc,nchw->nohw", rotation_power(Q, power), maps)
        assert torch.equal(turned.iou[0, place], dissect(by_hand, concepts, quantile=0.9).iou[0, 0])
    assert not torch.equal(turned.iou[0, 2], plain.iou[0, 0])  # the rotation does something


def test_a_rotation_undone_gives_the_planted_detectors_back() -> None:
    masks = random(40, 3, 8, 8) > 2.8
    Q = random_rotation(3, 1)
    mixed = torch.einsum("oc,nchw->nohw", Q.T, masks.double())
    found = dissect(mixed, masks, rotation=Q, powers=[0, 1])
    assert found.iou[0, 1].diagonal().tolist() == pytest.approx([1, 1, 1], abs=0.05)
    assert float(found.iou[0, 0].diagonal().min()) < 0.9


def test_seeds_are_rotations_beside_each_other() -> None:
    _, _, concepts = some_masks()
    maps = random(12, 4, 3, 3)
    both = dissect(maps, concepts, seeds=[3, 8], powers=[0.5, 0, 1])
    assert both.seeds == (3, 8)
    for place, seed in enumerate(both.seeds):
        one = dissect(maps, concepts, rotation=random_rotation(4, seed), powers=[0.5, 0, 1])
        assert torch.equal(one.iou[0], both.iou[place])
    stacked = dissect(
        maps,
        concepts,
        rotation=torch.stack([random_rotation(4, seed) for seed in (3, 8)]),
        powers=[0.5, 0, 1],
    )
    assert torch.equal(stacked.iou, both.iou)
    assert len(dissect(maps, concepts, seeds=[3]).powers) == 11


def test_permuting_units_permutes_the_result() -> None:
    _, _, concepts = some_masks()
    maps, order = random(12, 4, 3, 3), [2, 0, 3, 1]
    assert torch.equal(
        dissect(maps[:, order], concepts).iou, dissect(maps, concepts).iou[:, :, order]
    )
    # nor does a positive scale matter
    assert torch.equal(dissect(7 * maps, concepts).iou, dissect(maps, concepts).iou)


def test_whole_images_count_as_full_masks() -> None:
    labels = torch.tensor([0, 1, -1, 1, 0, 1])
    maps = random(6, 2, 3, 3)
    found = dissect(maps, image_masks(labels, ["day", "night"], (6, 6)), quantile=0.8)
    dense = torch.stack([(labels == one)[:, None, None].expand(6, 6, 6) for one in (0, 1)], dim=1)
    known = {"class": labels >= 0}
    by_hand = pixel_masks(dense, [("day", "class"), ("night", "class")], annotated=known)
    assert torch.equal(found.iou, dissect(maps, by_hand, quantile=0.8).iou)


def test_joined_masks_are_side_by_side() -> None:
    maps = random(12, 4, 3, 3)
    one = pixel_masks(random(12, 2, 6, 6, seed=3) > 1, [("a", "x"), ("b", "x")])
    two = pixel_masks(random(12, 1, 6, 6, seed=4) > 1, [("a", "y")])
    joined = dissect(maps, join_masks(one, two))
    apart = [dissect(maps, part).iou for part in (one, two)]
    assert torch.equal(joined.iou, torch.cat(apart, dim=-1))


def test_silent_units_and_absent_concepts_are_said() -> None:
    maps = random(12, 3, 6, 6)
    maps[:, 1] = 2.0
    masks = torch.zeros(12, 2, 6, 6, dtype=torch.bool)
    masks[:, 0, 2] = True
    found = dissect(maps, masks)
    assert found.notes == ("1 of 3 units are never above their threshold",)
    assert found.iou[0, 0, 1, 0] == 0
    assert found.iou[0, 0, 1, 1].isnan()
    assert found.iou[0, 0, 0, 1] == 0
    assert int(found.best_concept[0, 0, 1]) == -1
    assert found.unit(1) == (None, 0.0)


def test_constant_maps_are_not_made_active_by_rounding() -> None:
    maps = torch.full((4, 1, 3, 3), 0.1, dtype=torch.float32)
    masks = torch.ones(4, 1, 7, 7, dtype=torch.bool)
    assert float(dissect(maps, masks).iou.max()) == 0


def test_large_concepts_are_out_of_reach() -> None:
    masks = torch.zeros(10, 2, 10, 10, dtype=torch.bool)
    masks[:, 0, :5] = True
    masks[:, 1, 0, :5] = True
    found_masks = pixel_masks(masks, ["half", "strip"])
    found = dissect(random(10, 2, 10, 10), found_masks)
    assert [one.name for one in found.out_of_reach] == ["half"]
    assert found.tensors["coverage"].tolist() == [0.5, 0.05]
    assert float(found.iou[..., 0].max()) <= 0.04
    assert (
        "Out of reach, since they cover too many pixels: half (concept). Pass a lower quantile, "
        "below 0.98, so that units are active at more pixels." in repr(found)
    )
    lower = dissect(random(10, 2, 10, 10), found_masks, quantile=0.97)
    assert lower.out_of_reach == ()


def test_half_precision_and_flat_features() -> None:
    masks, _, concepts = some_masks()
    half = random(12, 4, 3, 3).bfloat16()
    assert torch.equal(dissect(half, concepts).iou, dissect(half.float(), concepts).iou)
    flat = random(12, 4)
    assert torch.equal(dissect(flat, concepts).iou, dissect(flat[:, :, None, None], concepts).iou)
    assert torch.equal(
        dissect(half.float().numpy(), masks.numpy()).best_iou, dissect(half, masks).best_iou
    )


def test_inputs_are_not_changed() -> None:
    masks, _, concepts = some_masks()
    maps = random(12, 4, 3, 3)
    before = maps.clone(), masks.clone()
    dissect(maps, concepts, seeds=[0])
    assert torch.equal(maps, before[0])
    assert torch.equal(masks, before[1])


def test_it_prints_itself() -> None:
    _, _, concepts = some_masks()
    text = repr(dissect(random(12, 4, 3, 3), concepts, seeds=[0, 1], powers=[0, 1]))
    lines = text.splitlines()
    assert lines[0] == (
        "Dissection of features: 4 units, 12 samples, 3 concepts, 2 rotations; active above "
        "the 99.5 % quantile, interpretable "
        "if IoU > 0.04"
    )
    assert lines[1].split() == [
        "power",
        "interpretable",
        "spread",
        "concepts",
        "mean",
        "best",
        "IoU",
        "color",
        "part",
    ]
    assert [line.split()[0] for line in lines[2:4]] == ["0.0000", "1.0000"]
    assert "rotation" not in repr(dissect(random(12, 4, 3, 3), concepts))


def test_files_come_back_unchanged(tmp_path: Path) -> None:
    _, _, concepts = some_masks()
    found = dissect(random(12, 4, 3, 3), concepts, seeds=[0, 1], powers=[0, 1])
    back = sg.Dissection.load(found.save(tmp_path / "a.json"))
    assert repr(back) == repr(found)
    assert all(torch.equal(back.tensors[name], found.tensors[name]) for name in found.tensors)
    assert back.concepts == found.concepts
    with pytest.raises(InputError, match=r"does not end in \.json"):
        found.save(tmp_path / "a.txt")
    dissect(random(12, 5, 3, 3), concepts).save(tmp_path / "b.json")
    (tmp_path / "a.safetensors").write_bytes((tmp_path / "b.safetensors").read_bytes())
    with pytest.raises(FileFormatError, match="do not belong together"):
        sg.Dissection.load(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"features": random(11, 4, 3, 3)},
            InputError,
            "features have 11 samples and masks have 12",
        ),
        ({"features": random(13, 4, 3, 3)}, InputError, "more than the 12 samples"),
        ({"features": random(12, 4, 3)}, InputError, "must be maps"),
        ({"features": random(12, 4, 3, 3).long()}, InputTypeError, "floating"),
        ({"features": random(12, 4, 3, 3) / 0}, InputError, "not finite"),
        ({"features": iter([random(12, 4, 3, 3)])}, InputTypeError, "read twice"),
        ({"features": []}, InputError, "no batch"),
        ({"features": [random(6, 4, 3, 3), random(6, 5, 3, 3)]}, InputError, "one shape"),
        ({"features": torch.nn.ReLU()}, InputTypeError, "network_features"),
        ({"features": "maps"}, InputTypeError, "got a str"),
        ({"masks": random(12, 2, 6, 6)}, InputTypeError, "booleans"),
        ({"masks": random(12, 6, 6) > 0}, InputError, r"must be \(n, k, h, w\)"),
        ({"rotation": random_rotation(3, 0)}, InputError, r"must be \(4, 4\), the channels"),
        ({"rotation": torch.ones(4, 4)}, InputError, "not orthogonal"),
        ({"rotation": random_rotation(4, 0), "seeds": [1]}, OptionError, "Pass one of them"),
        ({"powers": [1]}, OptionError, "powers need a rotation"),
        ({"quantile": 1.0}, OptionError, "quantile must be .* got 1.0"),
        ({"least_iou": -1}, OptionError, "least_iou must be .* got -1"),
        ({"memory": 0}, OptionError, "memory must be .* got 0"),
        ({"quantil": 0.9}, OptionError, "Did you mean 'quantile'"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], error: type[Exception], message: str) -> None:
    given: dict[str, Any] = {
        "features": random(12, 4, 3, 3),
        "masks": random(12, 2, 6, 6) > 0,
    } | change
    with pytest.raises(error, match=message):
        dissect(given.pop("features"), given.pop("masks"), **given)


def test_it_shows_itself() -> None:
    _, _, concepts = some_masks()
    found = dissect(random(12, 4, 3, 3), concepts, seeds=[0, 1], powers=[0, 1], quantile=0.9)
    assert found._repr_html_().startswith("<pre>Dissection of features")
    numbers = found.to_dict("net/")
    assert numbers["net/1/interpretable"] == pytest.approx(found.fraction[:, 1].mean())
    [line] = found.plot().axes[0].get_lines()
    assert line.get_xdata().tolist() == [0, 1]
    assert line.get_ydata().tolist() == pytest.approx(found.fraction.mean(axis=0).tolist())


def test_settings_can_be_passed_as_a_whole() -> None:
    _, _, concepts = some_masks()
    maps, settings = random(12, 4, 3, 3), DissectSettings(quantile=0.9, least_iou=0.1)
    whole = dissect(maps, concepts, settings=settings)
    assert repr(whole) == repr(dissect(maps, concepts, quantile=0.9, least_iou=0.1))
    assert dissect(maps, concepts, settings=settings, least_iou=0.2).least_iou == 0.2
