"""The language models prove themselves; `SIGMASCOPE_REAL=all` fetches them, 290 MB."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence

import pytest
import torch

import sigmascope as sg
from sigmascope_papers.language.models import LanguageModel, language_model
from sigmascope_papers.language.perplexity import continued, perplexity
from sigmascope_papers.language.stories import stories
from sigmascope_papers.language.texts import Batch, batches, sequences, shuffled, texts
from sigmascope_papers.real.packages import DownloadError
from tests.real.table import record

pytestmark = pytest.mark.skipif(
    os.environ.get("SIGMASCOPE_REAL") != "all", reason="only make test-real-all does this"
)


def fetched(name: str) -> LanguageModel:
    try:
        return language_model(name)
    except DownloadError as error:
        if os.environ.get("SIGMASCOPE_REQUIRE_REAL") == "1":
            raise
        pytest.skip(str(error))


def found_calls(model: LanguageModel, data: Sequence[Batch]) -> Counter[str]:
    """Return how many activation calls of each kind were found, all of which are scored."""
    found = sg.signature(model.network, data, estimator="published", progress=False)
    assert all(math.isfinite(site.score) for site in found.sites)
    assert found.coverage.never_called == ()
    return Counter(site.kind for site in found.sites)


def test_smollm2_knows_a_capital_and_prefers_text_to_shuffled_tokens() -> None:
    model = fetched("smollm2")
    assert model.decode(continued(model, "The capital of France is", 1)).endswith(" Paris")
    numbers = sequences(model, texts("documentation"), 128)[:8]
    own = perplexity(model, batches(numbers))
    mixed = perplexity(model, batches(shuffled(numbers, keep=1)))
    assert own < 60
    assert mixed > 20 * own
    calls = found_calls(model, batches(numbers))
    assert calls == {"silu": 30}
    told = f"perplexity {own:.0f} on documentation, {mixed:,.0f} with its tokens shuffled"
    record(model.name, told, calls)


def test_tinystories_continues_a_story_and_prefers_it_to_shuffled_tokens() -> None:
    model = fetched("tinystories")
    story = continued(model, "Once upon a time", 120)
    assert model.decode(story).startswith("Once upon a time, there was a")
    own = perplexity(model, batches([story]))
    mixed = perplexity(model, batches(shuffled([story], keep=1)))
    assert own < 2
    assert mixed > 1000 * own
    calls = found_calls(model, batches(stories(model, count=8, length=32)))
    assert calls == {"silu": 6}
    told = f"perplexity {own:.1f} on a story of its own, {mixed:,.0f} with its tokens shuffled"
    record(model.name, told, calls)


def test_minilm_finds_a_kitten_near_a_cat() -> None:
    model = fetched("minilm")
    wanted = [
        "The cat sits outside.",
        "A kitten is sitting in the garden.",
        "The stock market fell sharply.",
    ]
    (batch,) = batches([model.encode(one) for one in wanted])
    with torch.no_grad():
        states = model.network(**batch).last_hidden_state
    kept = batch["attention_mask"][..., None]
    means = torch.nn.functional.normalize((states * kept).sum(1) / kept.sum(1), dim=1)
    near, far = (means[0] @ means[1]).item(), (means[0] @ means[2]).item()
    assert near > 0.4
    assert far < 0.2
    calls = found_calls(model, [batch])
    assert calls == {"gelu": 6, "tanh": 1}
    told = (
        f"cosine of sentences about a cat and a kitten {near:.2f}, about a cat and stocks {far:.2f}"
    )
    record(model.name, told, calls)


@pytest.mark.slow
def test_gates_of_tinystories_are_units_and_its_blocks_are_found() -> None:
    model = fetched("tinystories")
    # 2,048 tokens: a population score of 768 channels needs 2.5 each
    data = batches(stories(model, count=64, length=32), 16)
    alone = sg.signature(model.network, data, samples="tokens", estimator="population")
    unit = sg.signature(model.network, data, samples="tokens", estimator="population", gates="unit")
    assert len(alone) == len(unit) == 6
    assert {site.role for site in alone} == {"gate"}
    assert {site.kind for site in alone} == {"silu"}
    assert all(math.isfinite(one.population) for one in (*alone, *unit))
    assert all(one.population != two.population for one, two in zip(alone, unit, strict=True))
    found = sg.blocks(model.network, data, signature=unit)
    assert [one.name for one in found] == [f"model.layers.{place}" for place in range(6)]
    assert all(math.isfinite(float(one.activation)) for one in found)
