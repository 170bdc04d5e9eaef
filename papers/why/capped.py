"""Why is ReLU6 more affine than ReLU on the inputs of some calls (real-relu6)?

    python papers/why/capped.py

The two differ where inputs exceed 6. For the first calls of EfficientNet-Lite0 on 512 crops: how
many inputs do; and the scores of both, on all channels, on those of which more than 1 % of the
inputs exceed 6, and on the others, with the share of the capped ones in the variance of the pooled
inputs and outputs, by which the score weighs channels. MobileNetV2 has next to no such inputs.

Fetches both networks and the images, 75 MB, once. A few minutes on one core.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from sigmascope import affinity
from sigmascope_papers.chance import Array
from sigmascope_papers.real.measuring import OF_IMAGENET, RUN
from sigmascope_papers.real.networks import network

NETWORKS = {"efficientnet-lite0": OF_IMAGENET, "mobilenet_v2": 4 * RUN}
CALLS, CAP, RARE = 8, 6, 0.01


def pooled(x: Tensor) -> Array:
    """Return inputs, outputs of ReLU and of ReLU6, and the share above the cap, (4, n, d)."""
    parts = (x, x.relu(), x.clamp(0, CAP), (x > CAP).to(x))
    return np.stack([part.double().mean((2, 3)).numpy() for part in parts])


@torch.no_grad()
def calls_of(name: str, count: int) -> Iterator[Array]:
    """Yield what is pooled of the first calls of ReLU6, (4, n, d) each."""
    one, seen = network(name), list[Array]()
    model = one.trained()
    for module in model.modules():
        if isinstance(module, nn.ReLU6):
            module.register_forward_pre_hook(lambda _, inputs: seen.append(pooled(*inputs)))
    batches = []
    for start in range(0, count, RUN):
        model(one.inputs(one.source, start, start + RUN))
        batches.append(seen[:CALLS])
        seen.clear()
    for parts in zip(*batches, strict=True):
        yield np.concatenate(parts, axis=1)


def told(values: Array) -> Iterator[str]:
    """Yield the cells of a row."""
    x, *outputs, above = values
    capped = above.mean(0) > RARE
    yield f"{x.shape[1]} | {capped.sum()} | {above.mean():.3f}"
    for channels in (capped | True, capped, ~capped):
        for y in outputs:
            known = channels.any()
            yield f"{affinity(x[:, channels], y[:, channels]).score:.3f}" if known else "–"
    for y in (x, *outputs):
        variance = y.var(0)
        yield f"{variance[capped].sum() / variance.sum():.2f}"


def main() -> None:
    """Print a table for each network."""
    kinds = itertools.product(("all", "capped", "others"), ("ReLU", "ReLU6"))
    head = " | ".join(f"{channels}: {kind}" for channels, kind in kinds)
    shares = "variance of capped: inputs | ReLU | ReLU6"
    for name, count in NETWORKS.items():
        print(f"\n{network(name).title}, {count} crops\n")
        print(f"| call | channels | capped | above {CAP} | {head} | {shares} |")
        print(f"|{'--:|' * 13}")
        for number, values in enumerate(calls_of(name, count), 1):
            print(f"| {number} | {' | '.join(told(values))} |", flush=True)


if __name__ == "__main__":
    main()
