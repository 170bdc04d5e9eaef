"""Language models that others have trained: the time of measuring them, beside the plain pass.

    python benchmarks/language_models.py [cpu | cuda] [NAME ...]
    python benchmarks/language_models.py fetch

SmolLM2-135M, TinyStories-15M and MiniLM-L6 on 128 sequences of 128 tokens of documentation, as
items `language-…` of `sigmascope reproduce` measure them: population scores of the activations, and
of the gated units, on all tokens of the first 32 sequences; then `sigmascope.blocks` on all, which
takes these scores. Fetches the models by name and sha256, 290 MB, once; `fetch` does nothing else,
for a machine without network: see `benchmarks/README.md`. With NAMEs only these models are
measured.

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
from sigmascope_papers.language.models import PACKAGES, LanguageModel, language_model
from sigmascope_papers.language.packages import FLASK
from sigmascope_papers.language.texts import Batch, batches
from sigmascope_papers.real.packages import unpacked

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


def told(found: Signature) -> str:
    """Say how many activations have a population score, and why others have none."""
    missing = [site for site in found.sites if not math.isfinite(site.population)]
    count = f"{len(found) - len(missing)} of {len(found)} activations"
    return "; ".join([count, *(f"{one.name}: {one.population_reason}" for one in missing)])


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
        return told(scored)

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
    wait: Callable[[], object] = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    clock, processor = time.perf_counter(), time.process_time()
    measured = step()
    wait()
    return Cost(time.perf_counter() - clock, time.process_time() - processor, measured)


def fetch() -> str:
    """Fetch the models and the text, and say where they are."""
    return "\n".join(str(unpacked(one)) for one in (*PACKAGES.values(), FLASK))


def main(device: str = "cpu", *names: str) -> str:
    """Return a table in Markdown."""
    if device == "fetch":
        return fetch()
    if unknown := {*names} - {*MEASURED.values()}:
        raise SystemExit(f"no model {', '.join(unknown)}; there are {', '.join(MEASURED.values())}")
    lines = [
        "# Measuring language models that others have trained",
        f"\n{describe(device)}\n",
        f"128 sequences of 128 tokens in batches of {BATCH}, float32, threads: "
        f"{torch.get_num_threads()}. Each step ran once, after a batch to warm up.\n",
        "| model | step | measured | seconds | of the processor |",
        "|---|---|---|--:|--:|",
    ]
    for name, title in MEASURED.items():
        if names and title not in names:
            continue
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
            print(lines[-1], file=sys.stderr, flush=True)  # what an interrupted run leaves
    progress("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
