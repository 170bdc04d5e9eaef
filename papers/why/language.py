"""Why does R² of a block's increment predict the cost of replacing it the wrong way round?

    python papers/why/language.py

R² weighs channels and tokens by their variance. For SmolLM2 on one batch of documentation: the
share of the variance of the stream behind each block, and of what the block adds, that lies in its
largest channel, and in the first token of the sequences. Fetches the model, see
`sigmascope_papers/language`; a minute on one core.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from sigmascope_papers.language.measuring import BATCH, data_of
from sigmascope_papers.language.models import language_model
from sigmascope_papers.language.texts import batches

MEASUREMENT = "SmolLM2-135M on documentation"


def shares(values: Tensor) -> tuple[float, float]:
    """Return the shares of the variance of (n, l, d) in the largest channel, and in token 0."""
    centered = (values - values.mean(dim=(0, 1))).double().square()
    total = centered.sum()
    return float(centered.sum(dim=(0, 1)).max() / total), float(centered[:, 0].sum() / total)


@torch.no_grad()
def main() -> None:
    """Print a row for each block."""
    model = language_model("smollm2")
    network: Any = model.network
    (first, *_) = batches(data_of(MEASUREMENT)[:BATCH], BATCH)
    states = network.model(**first, use_cache=False, output_hidden_states=True).hidden_states
    print("| block | stream: largest channel | first token | increment: largest channel | first |")
    print("|--:|--:|--:|--:|--:|")
    # the last state is normalized, so that the last block is left out
    for block, (x, y) in enumerate(itertools.pairwise(states[:-1])):
        told = " | ".join(f"{share:.3f}" for share in (*shares(y), *shares(y - x)))
        print(f"| {block} | {told} |")


if __name__ == "__main__":
    main()
