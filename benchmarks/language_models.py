"""Language models that others have trained: the time of measuring them, beside the plain pass.

    python benchmarks/language_models.py [cuda]

SmolLM2-135M, TinyStories-15M and MiniLM-L6 on 128 sequences of 128 tokens of documentation, as
items `language-…` of `sigmascope reproduce` measure them: population scores of the activations, and
of the gated units, on all tokens of the first 32 sequences; then `sigmascope.blocks` on all, which
takes these scores. Fetches the models by name and sha256, 290 MB, once.

Processor time is shown beside the clock, since it depends less on what else the machine does.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from setting import describe, progress

import sigmascope as sg
from sigmascope.measure.result import Signature
from sigmascope_papers.language.measuring import BATCH, CAST, SCORED, data_of
from sigmascope_papers.language.models import LanguageModel, language_model
from sigmascope_papers.language.texts import Batch, batches

MEASURED = {  # measurement of the items -> what the table calls it
    "SmolLM2-135M on documentation": "SmolLM2-135M",
    "TinyStories-15M on documentation": "TinyStories-15M",
    "MiniLM-L6 on documentation": "MiniLM-L6",
}


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock and of the processor, and what was measured."""

    clock: float
    processor: float
    measured: str


def steps(model: LanguageModel, data: list[Batch]) -> dict[str, Callable[[], str]]:
    """Return what is timed, by name; each says what it measured."""
    network: Any = model.network
    body: Any = network.model if model.predicts else network
    scored: Signature | None = None
    tokens = sum(int(batch["attention_mask"].sum()) for batch in data)
    # the output layer has no activation
    common: dict[str, Any] = {"forward": lambda _, batch: body(**batch), "progress": False}
    all_tokens: dict[str, Any] = {"samples": "tokens", "estimator": "population", **common}

    def plain() -> str:
        with torch.no_grad():
            for batch in data:
                body(**batch)
        return f"{tokens:,} tokens"

    def population(gates: str) -> str:
        nonlocal scored
        scored = sg.signature(network, data[:SCORED], gates=gates, **all_tokens)  # type: ignore[arg-type]
        scores = scored.scores_by("population")
        return f"{sum(map(math.isfinite, scores))} of {len(scores)} activations"

    def linear() -> str:
        found = sg.blocks(network, data, blocks=model.blocks, signature=scored, **common)
        return f"{sum(math.isfinite(float(one.stream)) for one in found)} of {len(found)} blocks"

    return {
        "plain pass": plain,
        "population scores of the activations": lambda: population("alone"),
        "population scores of the gated units": lambda: population("unit"),
        "linear maps of blocks, two passes": linear,
    }


def cost(step: Callable[[], str], device: str) -> Cost:
    """Return what a step costs."""
    clock, processor = time.perf_counter(), time.process_time()
    measured = step()
    if device == "cuda":
        torch.cuda.synchronize()
    return Cost(time.perf_counter() - clock, time.process_time() - processor, measured)


def main(device: str = "cpu") -> str:
    """Return a table in Markdown."""
    lines = [
        "# Measuring language models that others have trained",
        f"\n{describe(device)}\n",
        f"128 sequences of 128 tokens in batches of {BATCH}, float32, threads: "
        f"{torch.get_num_threads()}. Each step ran once, after a batch to warm up.\n",
        "| model | step | measured | seconds | of the processor |",
        "|---|---|---|--:|--:|",
    ]
    for name, title in MEASURED.items():
        model = language_model(CAST[name][0])
        numbers = data_of(name)
        model.network.to(device)
        data = [
            {key: value.to(device) for key, value in batch.items()}
            for batch in batches(numbers, BATCH)
        ]
        timed = steps(model, data)
        steps(model, data[:1])["plain pass"]()
        for step, function in timed.items():
            progress(f"{title}: {step}")
            one = cost(function, device)
            row = f"{one.measured} | {one.clock:.3g} | {one.processor:.3g} |"
            lines.append(f"| {title} | {step} | {row}")
    progress("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
