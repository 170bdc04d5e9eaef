"""All 49 ReLU calls of ResNet-50 for 512 images: sigmascope against the textbook pipeline, and
against the forward pass.

Run as `python benchmarks/resnet50.py` (two CPU cores, a few minutes) or `python
benchmarks/resnet50.py cuda`.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
import torch
from setting import describe, progress
from torch import Tensor
from workload import IMAGES, photographs, relu_features, resnet50

import sigmascope as sg

Pairs = list[tuple[Tensor, Tensor]]


def textbook(x: np.ndarray, y: np.ndarray, eps: float = 1e-6) -> float:
    """Compute the score as one would write it down: sklearn's Ledoit-Wolf, two matrix roots, an
    inverse, POT.
    """
    import ot
    import scipy.linalg
    from sklearn.covariance import LedoitWolf

    unit = np.eye(x.shape[1])
    source, target = (LedoitWolf().fit(sample).covariance_ + eps * unit for sample in (x, y))
    root = scipy.linalg.sqrtm(target).real
    matrix = root @ np.linalg.inv(scipy.linalg.sqrtm(root @ source @ root).real) @ root
    mapped = (x - x.mean(axis=0)) @ matrix
    squared = ot.emd2([], [], ot.dist(mapped, y - y.mean(axis=0)), numItermax=10**7)
    return 1 - float(np.sqrt(squared / (2 * np.trace(target))))


def operations(n: int, d: int) -> float:
    """Count the floating-point operations of one pair on the CPU; the eigendecomposition as 9 r³,
    what LAPACK needs.
    """
    r = min(d, 2 * n)
    span = 2 * d * r**2 if d > r else 0
    covariances = 2 * 2 * n * r**2
    # Cholesky, product, eigenvectors, whitening, coloring
    factors = r**3 / 3 + 4 * r**3 + 9 * r**3 + r**3 + 4 * r**3
    return span + covariances + factors + 4 * n * r**2 + 2 * n**2 * r


def matmul_rate(device: str) -> float:
    """Measure the rate of float64 matrix products, in operations per second."""
    matrix = torch.randn(4, 1024, 1024, dtype=torch.float64, device=device)
    return 4 * 2 * 1024**3 / seconds(lambda: matrix @ matrix, device, repeats=5)


def seconds(call: Callable[[], object], device: str, repeats: int = 3) -> float:
    """Return the median time of a call after a warm-up, waiting for the device."""
    times = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return sorted(times[1:])[repeats // 2]


def proofs(results: list[sg.Affinity]) -> str:
    """Count how the optima were proved."""
    return ", ".join(
        f"{name} {number}"
        for name, number in Counter(result.certified for result in results).most_common()
    )


def on_cpu() -> str:
    pairs = relu_features(
        resnet50(),
        photographs(IMAGES),
        progress=lambda done: progress(f"forward pass {done}/{IMAGES}"),
    )
    ours = seconds(lambda: sg.affinities(pairs), "cpu")
    results = sg.affinities(pairs, eps=1e-6)
    theirs, slow, widths = [], 0.0, Counter[int]()
    for index, (x, y) in enumerate(pairs):
        progress(f"textbook {index}/{len(pairs)}")
        a, b = x.double().numpy(), y.double().numpy()
        started = time.perf_counter()
        theirs.append(textbook(a, b))
        slow += time.perf_counter() - started
        widths[x.shape[1]] += 1
    gap = max(abs(float(result) - other) for result, other in zip(results, theirs, strict=True))
    count = sum(operations(IMAGES, x.shape[1]) for x, _ in pairs)
    rate = matmul_rate("cpu")
    return "\n".join(
        [
            "| | seconds | ratio |",
            "|---|---:|---:|",
            f"| textbook pipeline (sklearn, 2 × sqrtm, inverse, emd2) | {slow:.1f} | "
            f"{slow / ours:.0f} |",
            f"| `sigmascope.affinities` | {ours:.2f} | 1 |",
            f"| floor: {count / 1e9:.0f} GFLOP at {rate / 1e9:.0f} GFLOP/s, the measured "
            "rate of float64 products "
            f"| {count / rate:.2f} | {count / rate / ours:.2f} |",
            "",
            f"Widths: {', '.join(f'{d} × {k}' for d, k in sorted(widths.items()))}; n = {IMAGES}.",
            f"Largest difference between the two pipelines: {gap:.1e}. Optimum proved by: "
            f"{proofs(results)}.",
            "What is left above the floor is the symmetric eigendecomposition, half of which "
            "runs at the speed of memory.",
        ]
    )


def on_cuda() -> str:
    model, images = resnet50(device="cuda"), photographs(IMAGES, device="cuda")

    def forward() -> None:
        with torch.no_grad():
            model(images)

    plain = seconds(forward, "cuda", repeats=7)
    torch.backends.cudnn.allow_tf32 = False
    strict = seconds(forward, "cuda", repeats=7)
    torch.backends.cudnn.allow_tf32 = True
    pairs = relu_features(model, images, batch=IMAGES)
    for _ in range(5):  # memory, handles and clocks
        sg.affinities(pairs)
    ours = seconds(lambda: sg.affinities(pairs), "cuda", repeats=25)
    easy = [
        pair
        for pair, result in zip(pairs, sg.affinities(pairs), strict=True)
        if result.certified == "diagonal"
    ]
    easily = seconds(lambda: sg.affinities(easy), "cuda", repeats=15)
    results = sg.affinities(pairs)
    single = [sg.affinity(x, y) for x, y in pairs]
    host = sg.affinities([(x.cpu(), y.cpu()) for x, y in pairs])
    gaps = [
        max(abs(float(a) - float(b)) for a, b in zip(results, other, strict=True))
        for other in (single, host)
    ]
    rate = matmul_rate("cuda")
    count = sum(33 * 2 * min(x.shape[1], 2 * IMAGES) ** 3 for x, _ in pairs)
    return "\n".join(
        [
            "| | milliseconds | of the forward pass |",
            "|---|---:|---:|",
            "| forward pass, float32 as torch does it (TF32 convolutions) | "
            f"{1e3 * plain:.1f} | 1 |",
            f"| forward pass, float32 without TF32 | {1e3 * strict:.1f} | {strict / plain:.2f} |",
            f"| `sigmascope.affinities`, 49 pairs | {1e3 * ours:.1f} | {ours / plain:.2f} "
            f"({ours / strict:.2f} without TF32) |",
            f"| the {len(easy)} of them whose optimum is proved on sight | "
            f"{1e3 * easily:.1f} | {easily / plain:.2f} |",
            f"| floor: 33 products for the polar factors, {count / 1e9:.0f} GFLOP at the "
            f"measured {rate / 1e12:.1f} TFLOP/s | "
            f"{1e3 * count / rate:.1f} | {count / rate / plain:.2f} |",
            "",
            f"Largest difference from one by one: {gaps[0]:.1e}; from the CPU: {gaps[1]:.1e}. "
            f"Optimum proved by: {proofs(results)}.",
        ]
    )


def main(device: str = "cpu") -> str:
    return f"# ResNet-50, 49 ReLU calls, {IMAGES} images ({device})\n\n{describe(device)}\n\n" + (
        on_cuda() if device == "cuda" else on_cpu()
    )


if __name__ == "__main__":
    print(main(*sys.argv[1:2]))
