"""A language model of the size of LLaMA-7B with random weights: time and memory against the pass.

    python benchmarks/large_language_model.py [--seconds 80] [--out FILE]

It needs a CUDA device, where the weights are drawn in bfloat16. `--size tiny --device cpu` tries
the script in seconds. Random weights cost what trained ones cost; the values that are measured say
nothing.

A population score needs 2.5 tokens per channel, 27,520 for the 11,008 channels of a feed-forward
part, whose rows and covariances are kept in float64: 2.5 GiB and 50 GiB at this size. Measuring
linear maps takes sums of channels² for each block. So these steps measure `--layers` of the 32
layers, spread over the depth, while the whole network runs. The published score of 256 tokens of
each batch is measured in all of them.

No step starts once `--seconds` have passed since the script began, and the table is written again
after each step, so that an interrupted run leaves what it found.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from setting import describe, progress
from torch import Tensor, nn

import sigmascope as sg
from sigmascope.catalog.optional import optional

# width, hidden width, layers, heads, vocabulary
SIZES = {"7b": (4096, 11008, 32, 32, 32000), "1b": (2048, 5632, 16, 16, 32000)}
SIZES["tiny"] = (64, 160, 4, 4, 100)
DRAWN = 256  # tokens of a batch for a published score
LATE = "not started: {:.0f} of {:.0f} s were over"
Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Cost:
    """What a step cost.

    Attributes:
        seconds: of the step.
        memory: the most that was in use, in bytes; on the CPU by the process so far.
        measured: what it measured.
    """

    seconds: float
    memory: int
    measured: str


def network(size: str, device: str) -> nn.Module:
    """Return the network in evaluation mode, its weights drawn on the device."""
    width, hidden, layers, heads, vocabulary = SIZES[size]
    transformers = optional("transformers")
    config = transformers.LlamaConfig(
        hidden_size=width,
        intermediate_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        vocab_size=vocabulary,
    )
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    torch.manual_seed(0)
    with torch.device(device):
        built: nn.Module = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
    return built.eval()


def batches_of(size: str, sequences: int, length: int, device: str) -> list[Batch]:
    """Return batches of random tokens, as many as the population score of the widest layer needs.

    Every token counts.
    """
    count = math.ceil(2.5 * SIZES[size][1] / (sequences * length))
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(SIZES[size][-1], (count * sequences, length), generator=generator)
    parts = ids.to(device).split(sequences)
    return [{"input_ids": one, "attention_mask": torch.ones_like(one)} for one in parts]


def body(model: nn.Module, batch: Any) -> object:
    """Run the network without its output layer, in which there is no activation."""
    inner: Any = model
    return inner.model(**batch, use_cache=False)


def spread_layers(total: int, wanted: int) -> list[str]:
    """Return the paths of some layers, spread over the depth."""
    count = min(total, wanted)
    return [f"model.layers.{(2 * place + 1) * total // (2 * count)}" for place in range(count)]


def steps(model: nn.Module, data: list[Batch], paths: list[str]) -> dict[str, Callable[[], str]]:
    """Return what is timed, by name, the cheapest first; each says what it measured."""
    common: dict[str, Any] = {"forward": body, "progress": False}
    few = {"sites": [f"{path}.*" for path in paths], "estimator": "population", **common}

    def plain() -> str:
        with torch.no_grad():
            for batch in data:
                body(model, batch)
        return "–"

    def published() -> str:
        told: Any = {"estimator": "published", "max_tokens": DRAWN, **common}
        return _scored(sg.signature(model, data, samples="tokens", **told).scores)

    def population(gates: str) -> str:
        found = sg.signature(model, data, samples="tokens", gates=gates, **few)  # type: ignore[arg-type]
        return _scored(found.scores_by("population"))

    def linear() -> str:
        empty = sg.signature(model, data[:1], samples="tokens", **few)
        found = sg.blocks(model, data, blocks=paths, signature=empty, **common)
        return f"{sum(math.isfinite(float(one.stream)) for one in found)} of {len(found)} blocks"

    return {
        "plain pass": plain,
        f"published score, {DRAWN} tokens a batch": published,
        "linear maps of blocks, two passes": linear,
        "population score, all tokens": lambda: population("alone"),
        "population score of the gated units": lambda: population("unit"),
    }


def _scored(scores: Any) -> str:
    return f"{sum(math.isfinite(one) for one in scores)} of {len(scores)} activations"


def cost(step: Callable[[], str], device: str) -> Cost:
    """Return what a step costs."""
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    measured = step()
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    if device == "cuda":
        return Cost(seconds, torch.cuda.max_memory_allocated(), measured)
    return Cost(seconds, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, measured)


def table(found: dict[str, Cost | str]) -> str:
    """Return the costs in Markdown."""
    lines = [
        "| step | measured | seconds | less the pass | peak memory, GiB | more than the pass |",
        "|---|---|--:|--:|--:|--:|",
    ]
    plain = found["plain pass"]
    for name, one in found.items():
        if isinstance(one, str) or isinstance(plain, str):
            lines.append(f"| {name} | {one} | | | | |")
            continue
        more = (one.memory - plain.memory) / 2**30
        lines.append(
            f"| {name} | {one.measured} | {one.seconds:.3g} | {one.seconds - plain.seconds:.3g} "
            f"| {one.memory / 2**30:.2f} | {more:.2f} |"
        )
    return "\n".join(lines)


def options() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="7b")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--layers", type=int, default=2, help="with population scores and maps")
    parser.add_argument("--sequences", type=int, default=4, help="in a batch")
    parser.add_argument("--length", type=int, default=512, help="of a sequence")
    parser.add_argument("--seconds", type=float, default=80, help="after which no step starts")
    parser.add_argument("--out", type=Path, help="a Markdown file to write the table to")
    asked = parser.parse_args()
    if asked.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no CUDA device. Try --size tiny --device cpu.")
    return asked


def main() -> None:
    """Time the steps, and print and write the table."""
    began, asked = time.perf_counter(), options()
    model = network(asked.size, asked.device)
    data = batches_of(asked.size, asked.sequences, asked.length, asked.device)
    timed = steps(model, data, spread_layers(SIZES[asked.size][2], asked.layers))
    timed["plain pass"]()  # warms up
    count = sum(parameter.numel() for parameter in model.parameters())
    head = (
        f"# Measuring a language model of {count / 1e9:.3g} billion parameters\n\n"
        f"`python benchmarks/large_language_model.py`\n\n{describe(asked.device)}\n\n"
        f"Random weights, {next(model.parameters()).dtype}; "
        f"{len(data)} batches of {asked.sequences} × {asked.length} tokens. Ready after "
        f"{time.perf_counter() - began:.1f} s. Each step ran once.\n"
    )
    found: dict[str, Cost | str] = {}
    for name, step in timed.items():
        progress(name)
        over = time.perf_counter() - began
        late = over > asked.seconds and bool(found)
        found[name] = LATE.format(over, asked.seconds) if late else cost(step, asked.device)
        if asked.out:
            asked.out.write_text(f"{head}\n{table(found)}\n", encoding="utf-8")
    progress("")
    print(f"{head}\n{table(found)}")


if __name__ == "__main__":
    main()
