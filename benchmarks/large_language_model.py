"""A language model of the size of LLaMA-7B with random weights: time and memory against the pass.

Run as `python benchmarks/large_language_model.py` on a CUDA device, where the network is in
bfloat16; `--size tiny --device cpu` tries the script in seconds. Random weights cost what trained
ones cost; the numbers of the measurement itself say nothing.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from setting import describe, progress
from torch import nn

import sigmascope as sg
from sigmascope.catalog.optional import optional

# width, hidden width, layers, heads, vocabulary
SIZES = {"7b": (4096, 11008, 32, 32, 32000), "1b": (2048, 5632, 16, 16, 32000)}
SIZES["tiny"] = (64, 160, 2, 4, 100)


@dataclass(frozen=True)
class Cost:
    """The seconds of a step, and the most memory that was in use, in bytes."""

    seconds: float
    memory: int


def network(size: str, device: str) -> Any:
    """Return the network in evaluation mode, built on its device."""
    width, hidden, layers, heads, vocabulary = SIZES[size]
    transformers = optional("transformers")
    config = transformers.LlamaConfig(
        hidden_size=width,
        intermediate_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        vocab_size=vocabulary,
        dtype="bfloat16" if device == "cuda" else "float32",
    )
    torch.manual_seed(0)
    with torch.device(device):
        built = transformers.LlamaForCausalLM(config)
    return built.to(torch.bfloat16 if device == "cuda" else torch.float32).eval()


def batches(size: str, count: int, sequences: int, length: int) -> list[dict[str, torch.Tensor]]:
    """Return random tokens; every one counts."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(SIZES[size][-1], (count * sequences, length), generator=generator)
    return [
        {"input_ids": one, "attention_mask": torch.ones_like(one)} for one in ids.split(sequences)
    ]


def cost(step: Callable[[], object], device: str) -> Cost:
    """Return what a step costs; on the CPU the memory is the peak of the process so far."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    step()
    if device == "cuda":
        torch.cuda.synchronize()
        return Cost(time.perf_counter() - started, torch.cuda.max_memory_allocated())
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Cost(time.perf_counter() - started, peak)


def body(model: nn.Module, batch: Any) -> object:
    """Run the network without its output layer, in which there is no activation."""
    inner: Any = model
    return inner.model(**batch, use_cache=False)


def steps(model: nn.Module, data: list[dict[str, torch.Tensor]]) -> dict[str, Callable[[], object]]:
    """Return what is timed, by name."""
    device = next(model.parameters()).device
    moved = [{key: value.to(device) for key, value in batch.items()} for batch in data]

    def plain() -> None:
        with torch.no_grad():
            for batch in moved:
                body(model, batch)

    common: dict[str, Any] = {"forward": body, "progress": False}
    tokens: dict[str, Any] = {"samples": "tokens", "estimator": "population"}
    scored = sg.signature(model, moved[:1], **common, **tokens)
    return {
        "plain pass": plain,
        "signature, tokens": lambda: sg.signature(model, moved, **common, **tokens),
        'signature, gates="unit"': lambda: sg.signature(
            model, moved, gates="unit", **common, **tokens
        ),
        "blocks, two passes": lambda: sg.blocks(model, moved, signature=scored, **common),
    }


def main() -> None:
    """Print a table of the costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="7b")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--sequences", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    asked = parser.parse_args()
    if asked.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("There is no CUDA device. Try --size tiny --device cpu.")
    model = network(asked.size, asked.device)
    data = batches(asked.size, asked.batches, asked.sequences, asked.length)
    count = sum(parameter.numel() for parameter in model.parameters())
    timed = steps(model, data)
    timed["plain pass"]()  # warms up
    found = {}
    for name, step in timed.items():
        progress(name)
        found[name] = cost(step, asked.device)
    progress("")
    plain = found["plain pass"]
    tokens = asked.batches * asked.sequences * asked.length
    print(describe(asked.device))
    print(f"\n{count / 1e9:.3g} billion parameters, {tokens:,} tokens.\n")
    print("| step | seconds | times the pass | peak memory, GiB | more than the pass |")
    print("|---|---|---|---|---|")
    for name, one in found.items():
        more = (one.memory - plain.memory) / 2**30
        ratio = one.seconds / plain.seconds
        print(
            f"| {name} | {one.seconds:.3g} | {ratio:.2f} | {one.memory / 2**30:.2f} | {more:.2f} |"
        )


if __name__ == "__main__":
    main()
