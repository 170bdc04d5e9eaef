"""What it costs to read every value of the data and the weights when a run can be resumed.

The floor: SHA-256 has to see all bytes, at 0.4 GB/s (plain) to 2 GB/s (with instructions of its
own) on one core. A batch of 128 images of 224 × 224 in float32 has 77 MB, the weights of ResNet-50
have 102 MB. Prediction: below 0.2 s each, and below 3 % of a forward pass of ResNet-50 on one core.

Run as `python benchmarks/digests.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from setting import describe
from workload import torchvision_models

from sigmascope.measure.batches import fingerprint
from sigmascope.measure.digests import digest_of, digest_of_weights

IMAGES = 32


def seconds(work: Callable[[], object], *, rounds: int) -> float:
    """Return the median time of some rounds."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return sorted(times)[rounds // 2]


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    network = torchvision_models().resnet50().eval()
    batch = torch.randn(IMAGES, 3, 224, 224)
    weights = [*network.parameters(), *network.buffers()]
    with torch.no_grad():
        network(batch[:2])
        forward = seconds(lambda: network(batch), rounds=3)
    size, large = batch.nbytes / 1e6, sum(one.nbytes for one in weights) / 1e6
    rows = {
        f"forward pass of ResNet-50, {IMAGES} images": forward,
        f"fingerprint of the batch ({size:.0f} MB)": seconds(
            lambda: fingerprint([batch]), rounds=9
        ),
        f"digest of the batch ({size:.0f} MB)": seconds(lambda: digest_of([batch]), rounds=9),
        f"digest of the weights ({large:.0f} MB), once": seconds(
            lambda: digest_of_weights(network), rounds=9
        ),
    }
    print(f"# Reading every value\n\n`python benchmarks/digests.py`\n\n{describe('cpu')}")
    print("\n| | seconds | of the forward pass |\n|---|---:|---:|")
    for name, took in rows.items():
        print(f"| {name} | {took:.3f} | {took / forward:.1%} |")


if __name__ == "__main__":
    main()
