"""Tokens as samples or averaged, with and without a mask: what is padding has no influence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import sigmascope as sg

LENGTHS = (7, 3, 5, 1, 6, 4)
WIDTH = 8


class Transformer(nn.Module):
    """One block, which lets no token see padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.up, self.act, self.down = nn.Linear(WIDTH, 12), nn.GELU(), nn.Linear(12, WIDTH)
        self.head, self.tanh = nn.Linear(WIDTH, 5), nn.Tanh()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.embedding(input_ids)
        hidden = None if attention_mask is None else attention_mask == 0
        x = x + self.attention(x, x, x, key_padding_mask=hidden, need_weights=False)[0]
        x = x + self.down(self.act(self.up(x)))
        return self.tanh(self.head(x[:, 0]))


class Positionwise(Transformer):
    """The same without attention, so that every token stands for itself."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.embedding(input_ids)
        x = x + self.down(self.act(self.up(x)))
        return self.tanh(self.head(x[:, 0]))


def built(kind: type[Transformer]) -> Transformer:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind()


def sentences(padding: int = 0, *, seed: int = 0) -> dict[str, Tensor]:
    """Six sentences, filled up with `padding`, and the mask that says so."""
    ids = torch.randint(
        1, 50, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(seed)
    )
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return {"input_ids": ids.where(mask, torch.tensor(padding)), "attention_mask": mask.long()}


@pytest.mark.parametrize(
    "options", [{"samples": "tokens"}, {"samples": "batch"}, {"pool": "sum"}], ids=str
)
@pytest.mark.parametrize("kind", [Transformer, Positionwise])
def test_padding_changes_nothing(kind: type[Transformer], options: dict[str, Any]) -> None:
    network = built(kind)
    scores = [
        sg.signature(network, sentences(padding), **options).scores for padding in (0, 17, 49)
    ]
    for other in scores[1:]:
        assert other == pytest.approx(scores[0], abs=1e-6)


@pytest.mark.parametrize(
    "options", [{"samples": "tokens"}, {"samples": "batch"}, {"pool": "sum"}], ids=str
)
def test_padding_changes_scores_without_a_mask(options: dict[str, Any]) -> None:
    """Negative control."""
    network = built(Positionwise)
    one, other = (
        sg.signature(network, {"input_ids": sentences(padding)["input_ids"]}, **options)
        for padding in (0, 17)
    )
    assert abs(one.scores[0] - other.scores[0]) > 1e-3


def hidden_pair(network: Transformer, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """What enters and leaves the GELU, computed by hand."""
    with torch.no_grad():
        x = network.up(network.embedding(batch["input_ids"]))
    return x, nn.functional.gelu(x)


def test_tokens_are_those_of_the_mask() -> None:
    network, batch = built(Positionwise), sentences()
    site = sg.signature(network, batch, samples="tokens").sites[0]
    x, y = hidden_pair(network, batch)
    chosen = batch["attention_mask"].bool()
    assert (site.n, site.dim, site.shape) == (sum(LENGTHS), 12, (6, 7, 12))
    assert site.score == pytest.approx(float(sg.affinity(x[chosen], y[chosen])), abs=1e-9)


def test_averages_are_those_of_the_mask() -> None:
    network, batch = built(Positionwise), sentences()
    result = sg.signature(network, batch, metrics="cka")
    x, y = hidden_pair(network, batch)
    weights = batch["attention_mask"][:, :, None] / torch.tensor(LENGTHS)[:, None, None]
    expected = sg.affinity((x * weights).sum(1), (y * weights).sum(1))
    assert result.sites[0].n == len(LENGTHS)
    assert result.sites[0].score == pytest.approx(float(expected), abs=1e-6)


def test_what_has_no_tokens_is_left_alone() -> None:
    """The head sees one token of each sentence: six samples, with or without the mask."""
    network, batch = built(Positionwise), sentences()
    by_token, by_sentence = (
        sg.signature(network, batch, samples=samples).sites[1] for samples in ("tokens", "batch")
    )
    assert (by_token.n, by_token.path) == (6, "tanh")
    assert by_token.scores == by_sentence.scores


def test_masks_of_booleans_and_of_one_sentence_without_any_token() -> None:
    network, batch = built(Positionwise), sentences()
    plain = sg.signature(network, batch, samples="tokens")
    as_bool = sg.signature(
        network, {**batch, "attention_mask": batch["attention_mask"].bool()}, samples="tokens"
    )
    assert np.array_equal(plain.scores, as_bool.scores)
    batch["attention_mask"][2] = 0
    emptied = sg.signature(network, batch, samples="tokens")
    assert emptied.sites[0].n == sum(LENGTHS) - LENGTHS[2]
    assert sg.signature(network, batch).coverage.failed == 0


def test_no_more_tokens_than_asked_for() -> None:
    network = built(Positionwise)
    batch = {
        "input_ids": torch.randint(1, 50, (20, 30), generator=torch.Generator().manual_seed(0))
    }
    whole = sg.signature(network, batch, samples="tokens")
    capped = sg.signature(network, batch, samples="tokens", max_tokens=100)
    assert [site.n for site in whole.sites] == [600, 20]
    assert [site.n for site in capped.sites] == [100, 20]
    assert capped.scores[0] == pytest.approx(whole.scores[0], abs=0.1)
    assert np.array_equal(
        capped.scores, sg.signature(network, batch, samples="tokens", max_tokens=100).scores
    )
    other = sg.signature(network, batch, samples="tokens", max_tokens=100, seed=1)
    assert other.scores[0] != capped.scores[0]
    assert other.scores[1] == capped.scores[1]
    assert (
        sg.signature(network, batch, samples="tokens", max_tokens=600).scores[0] == whole.scores[0]
    )


def test_every_batch_draws_its_own_tokens() -> None:
    network = built(Positionwise)
    batch = {
        "input_ids": torch.randint(1, 50, (20, 30), generator=torch.Generator().manual_seed(0))
    }
    first, second = (
        sg.signature(network, [batch, batch], samples="tokens", max_tokens=50).sites[0].scores
    )
    assert first != second


def test_the_tokens_that_are_drawn_are_not_padding() -> None:
    network = built(Positionwise)
    results = [
        sg.signature(network, sentences(padding), samples="tokens", max_tokens=10)
        for padding in (0, 17)
    ]
    assert [result.sites[0].n for result in results] == [10, 10]
    assert results[0].scores == pytest.approx(results[1].scores, abs=1e-6)


def test_pixels_are_tokens_of_an_image() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    images = torch.randn(5, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    (site,) = sg.signature(network, images, samples="tokens").sites
    with torch.no_grad():
        x = network[0](images).permute(0, 2, 3, 1).reshape(-1, 4)
    assert site.n == 5 * 16
    assert site.score == pytest.approx(float(sg.affinity(x, x.relu())), abs=1e-9)


def test_masked_averages_are_not_rounded_under_autocast() -> None:
    """The network may run in bfloat16; what is averaged from it is summed in float32."""
    network, batch = built(Positionwise), sentences()
    seen: list[Tensor] = []
    network.up.register_forward_hook(lambda _, __, output: seen.append(output))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        site = sg.signature(network, batch).sites[0]
        x = seen[0].float()
        y = nn.functional.gelu(seen[0]).float()
    weights = batch["attention_mask"][:, :, None] / torch.tensor(LENGTHS)[:, None, None]
    expected = sg.affinity((x * weights).sum(1), (y * weights).sum(1))
    assert site.dtype == "bfloat16"
    assert site.score == pytest.approx(float(expected), abs=1e-6)
