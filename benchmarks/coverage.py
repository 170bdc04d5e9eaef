"""How often the interval of the population score contains the truth: bias, error, coverage, width.

`python benchmarks/coverage.py` runs everything (an hour on two cores, some minutes on sixteen and a
GPU). `python benchmarks/coverage.py short` runs what CI runs. Real features need CIFAR-10 as
`zoo/data.py` writes it: `python benchmarks/coverage.py --data DIR`. Where a CUDA device is there,
rows of 256 channels and more are computed on it.

The truth of a law is the score of 10⁶ samples or more; that of real features is the plain score of
the 10,000 images from which the samples are drawn with replacement. The published score is the mean
over batches of 512.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import math
import multiprocessing
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from setting import describe, progress
from torch import Tensor
from torch.nn import functional as F

import sigmascope as sg
from sigmascope.capture.observer import Call
from sigmascope.catalog.zoo import MEAN, STD
from sigmascope.maths.scoring import score_all

Draw = Callable[[int, torch.Generator], Tensor]
Activation = Callable[[Tensor], Tensor]

BATCH = 512
COMMAND = "`python benchmarks/coverage.py --data DIR`"
WIDTHS = (8, 16, 32, 64, 128, 256, 512)
# Zoo network -> a site of it.
REAL = {
    "sigmascope/resnet20": "blocks.8.act1",
    "sigmascope/vit": "blocks.3.act",
    "sigmascope/efficientnet": "8.layers.2",
}
# Share of runs below which a row fails, by samples per channel.
GOALS = {8: 0.90, 4: 0.85}
WIDEST, LARGEST_ERROR = 1.5, 1.05


def noise(n: int, d: int, generator: torch.Generator) -> Tensor:
    return torch.randn(n, d, generator=generator, dtype=torch.float64, device=generator.device)


def student(n: int, d: int, freedom: int, generator: torch.Generator) -> Tensor:
    """Return rows of a multivariate t distribution: one scale for all channels of a row."""
    scale = noise(n, freedom, generator).square().mean(dim=1, keepdim=True).sqrt()
    return noise(n, d, generator) / scale


def own_student(n: int, d: int, freedom: int, generator: torch.Generator) -> Tensor:
    """Return independent t variables."""
    squares = sum(noise(n, d, generator).square() for _ in range(freedom))
    return noise(n, d, generator) / (squares / freedom).sqrt()


def fixed(d: int, device: torch.device, *shape: int) -> Tensor:
    """Return the parameters of a law, the same in every run."""
    rng = np.random.default_rng([d, *shape])
    return torch.tensor(rng.standard_normal(shape), device=device)


def correlating(d: int, device: torch.device) -> Tensor:
    """Return a matrix that gives noise the eigenvalues 1, 1/2, 1/3, ... along random axes."""
    axes = torch.linalg.qr(fixed(d, device, d, d)).Q
    spectrum = 1 / torch.arange(1, d + 1, dtype=torch.float64, device=device)
    return (axes * (d * spectrum / spectrum.sum()).sqrt()) @ axes.mT


def gaussian(n: int, d: int, g: torch.Generator) -> Tensor:
    return noise(n, d, g)


def correlated(n: int, d: int, g: torch.Generator) -> Tensor:
    return noise(n, d, g) @ correlating(d, g.device) + fixed(d, g.device, d) / 2


def wide(n: int, d: int, g: torch.Generator) -> Tensor:
    return 2 * noise(n, d, g) @ correlating(d, g.device)


def mixture(n: int, d: int, g: torch.Generator) -> Tensor:
    means = 1.5 * fixed(d, g.device, 10, d)
    return noise(n, d, g) + means[torch.randint(10, (n,), generator=g, device=g.device)]


def sparse(n: int, d: int, g: torch.Generator) -> Tensor:
    there = torch.rand(n, d, generator=g, dtype=torch.float64, device=g.device) < 0.1
    return 3 * noise(n, d, g) * there


def laplace(n: int, d: int, g: torch.Generator) -> Tensor:
    uniform = torch.rand(n, d, generator=g, dtype=torch.float64, device=g.device) - 0.5
    return -uniform.sign() * torch.log1p(-2 * uniform.abs())


def two_scales(n: int, d: int, g: torch.Generator) -> Tensor:
    far = torch.rand(n, 1, generator=g, dtype=torch.float64, device=g.device) < 0.2
    return noise(n, d, g) * torch.where(far, 3.0, 1.0)


def skewed(n: int, d: int, g: torch.Generator) -> Tensor:
    return (0.5 * noise(n, d, g) @ correlating(d, g.device)).exp() - 1.2


def normalized(n: int, d: int, g: torch.Generator) -> Tensor:
    """Channels with means and scales of their own, as after a batch norm."""
    scale, shift = fixed(d, g.device, 2, d)
    return noise(n, d, g) @ correlating(d, g.device) * (0.5 + scale.abs()) + shift


def low_rank(n: int, d: int, g: torch.Generator) -> Tensor:
    rank = max(2, d // 8)
    return noise(n, rank, g) @ fixed(d, g.device, rank, d) / math.sqrt(rank) + 0.1 * noise(n, d, g)


@dataclass(frozen=True)
class Law:
    """A distribution of inputs (n, d) and an activation; `judged` if it has fourth moments."""

    draw: Callable[[int, int, torch.Generator], Tensor]
    activation: Activation
    judged: bool = True


LAWS: dict[str, Law] = {
    "Gaussian, ReLU": Law(gaussian, torch.relu),
    "Gaussian, GELU": Law(gaussian, F.gelu),
    "correlated, ReLU": Law(correlated, torch.relu),
    "correlated, tanh": Law(wide, torch.tanh),
    "normalized, ReLU6": Law(normalized, F.relu6),
    "low rank, ReLU": Law(low_rank, torch.relu),
    "mixture of ten, ReLU": Law(mixture, torch.relu),
    "sparse, GELU": Law(sparse, F.gelu),
    "Laplace, Hardtanh": Law(laplace, F.hardtanh),
    "skewed, LeakyReLU": Law(skewed, F.leaky_relu),
    "two scales, SiLU": Law(two_scales, F.silu),
    "t5 rows, SiLU": Law(lambda n, d, g: student(n, d, 5, g), F.silu),
    "t5 entries, ReLU": Law(lambda n, d, g: own_student(n, d, 5, g), torch.relu),
    "t3 rows, ReLU": Law(lambda n, d, g: student(n, d, 3, g), torch.relu, judged=False),
}


@dataclass(frozen=True)
class Row:
    """One line of the table: a law, or real features, with a width and a number of samples."""

    name: str
    dim: int
    n: int
    runs: int
    judged: bool

    @property
    def per_channel(self) -> int:
        """The goal it is judged by: 8 or 4 samples per channel."""
        return 8 if self.n >= max(256, 8 * self.dim) else 4


@dataclass(frozen=True)
class Outcome:
    """What the runs of a row gave, against the truth."""

    row: Row
    truth: float
    scores: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    published: np.ndarray

    @property
    def coverage(self) -> float:
        return float(np.mean((self.lows <= self.truth) & (self.truth <= self.highs)))

    @property
    def width(self) -> float:
        """The mean half-width over 1.96 standard deviations."""
        half = np.mean(self.highs - self.lows) / 2
        return float(half / (1.96 * self.scores.std(ddof=1)))

    def error(self, values: np.ndarray) -> float:
        return float(np.sqrt(np.mean((values - self.truth) ** 2)))

    @property
    def gain(self) -> float:
        return self.error(self.scores) / self.error(self.published)


def rows(short: bool, real: dict[str, tuple[Tensor, Tensor]]) -> Iterator[Row]:
    if short:
        for name in ("Gaussian, ReLU", "correlated, tanh", "t5 rows, SiLU"):
            yield Row(name, 16, 256, 60, judged=True)
        return
    for d in WIDTHS:
        counts = dict.fromkeys(max(256, k * d) for k in ((4, 8, 32) if d <= 64 else (4, 8)))
        for n in counts:
            for name, law in LAWS.items():
                yield Row(name, d, n, 200 if d <= 128 else 40, law.judged)
    for name, (x, _) in real.items():
        d = x.shape[1]
        for n in dict.fromkeys(max(256, k * d) for k in (4, 8)):
            yield Row(name, d, n, 200 if d <= 128 else 40, judged=True)


def measure(row: Row, device: str, real: tuple[Tensor, Tensor] | None) -> Outcome:
    """Run a row; every run draws its own samples."""
    truth = true_score(row, device, real)
    found, published = [], []
    for start in range(0, row.runs, 20):
        pairs = [pair(row, run, device, real) for run in range(start, min(start + 20, row.runs))]
        moments = [sg.Moments() for _ in pairs]
        for one, (x, y) in zip(moments, pairs, strict=True):
            one.update(x, y)
        found += score_all(moments)
        for x, y in pairs:
            batches = list(zip(x.split(BATCH), y.split(BATCH), strict=True))
            full = [batch for batch in batches if len(batch[0]) == len(batches[0][0])]
            published.append(np.mean([float(one) for one in sg.affinities(full)]))
    scores, lows, highs = (
        np.array([getattr(one, name) for one in found]) for name in ("score", "low", "high")
    )
    return Outcome(row, truth, scores, lows, highs, np.array(published))


def pair(
    row: Row, run: int, device: str, real: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor]:
    seed = zlib.crc32(f"{row.name} {row.dim} {row.n} {run}".encode())
    generator = torch.Generator(device).manual_seed(seed)
    if real is not None:
        chosen = torch.randint(len(real[0]), (row.n,), generator=generator, device=device)
        return real[0].to(device)[chosen], real[1].to(device)[chosen]
    law = LAWS[row.name]
    x = law.draw(row.n, row.dim, generator)
    return x, law.activation(x)


def true_score(row: Row, device: str, real: tuple[Tensor, Tensor] | None) -> float:
    moments = sg.Moments()
    if real is not None:
        moments.update(*real)
        return moments.score().plain
    law, generator = LAWS[row.name], torch.Generator(device).manual_seed(zlib.crc32(b"truth"))
    for _ in range(100 if row.dim <= 128 else 200):
        x = law.draw(10_000, row.dim, generator)
        moments.update(x, law.activation(x))
    return moments.score().score


def features(data: Path | None) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the pooled features (10,000, d) of a site of each zoo network."""
    return (
        {}
        if data is None
        else {f"{name} {site}": pooled_features(name, site, data) for name, site in REAL.items()}
    )


def pooled_features(name: str, site: str, data: Path) -> tuple[Tensor, Tensor]:
    """Return the pooled input and output of a site for all test images, from a file if there."""
    stored = data / f"features-{name.replace('/', '-')}-{site}.npz"
    if not stored.is_file():
        network = sg.catalog.model(name).network.eval()
        pixels = torch.from_numpy(np.load(data / "test_images.npy"))
        mean, std = (torch.tensor(of)[:, None, None] for of in (MEAN, STD))
        found: dict[str, list[Tensor]] = {"x": [], "y": []}

        def observe(call: Call, x: Tensor) -> Callable[[Tensor], None] | None:
            if call.path != site:
                return None
            axes = tuple(axis for axis in range(1, x.ndim) if axis != call.layout.axis)
            found["x"].append(x.mean(dim=axes) if axes else x.clone())
            return lambda y: found["y"].append(y.mean(dim=axes) if axes else y.clone())

        with torch.no_grad(), sg.recording(network, observe):
            for part in pixels.split(500):
                network((part / 255 - mean) / std)
        np.savez(stored, **{key: torch.cat(parts).numpy() for key, parts in found.items()})
    arrays = np.load(stored)
    return torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"])


def verdict(outcome: Outcome) -> str:
    row = outcome.row
    if not row.judged:
        return "not judged"
    goal = GOALS[row.per_channel]
    slack = 3 * math.sqrt(goal * (1 - goal) / row.runs)
    failures = []
    if row.dim <= 128 and outcome.coverage < goal - slack:
        failures.append("coverage")
    if outcome.width > WIDEST * (1 + 3 / math.sqrt(2 * row.runs)):
        failures.append("width")
    if outcome.gain > LARGEST_ERROR * (1 + 3 / math.sqrt(2 * row.runs)):
        failures.append("rmse")
    return ", ".join(failures) or "ok"


def table(outcomes: list[Outcome]) -> list[str]:
    lines = [
        "| law | d | n | runs | truth | bias | rmse | published rmse | coverage | half-width "
        "/ 1.96 sd | |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for one in outcomes:
        row, bias = one.row, float(one.scores.mean() - one.truth)
        lines.append(
            f"| {row.name} | {row.dim} | {row.n} | {row.runs} | {one.truth:.4f} | {bias:+.4f} | "
            f"{one.error(one.scores):.4f} | {one.error(one.published):.4f} | "
            f"{100 * one.coverage:.0f} % | {one.width:.2f} | {verdict(one)} |"
        )
    return lines


def pooled(outcomes: list[Outcome]) -> list[str]:
    """Say the coverage of wide rows, pooled over the laws, and how many rows failed."""
    lines = []
    for d in sorted({one.row.dim for one in outcomes if one.row.dim > 128}):
        for goal in GOALS:
            some = [
                one
                for one in outcomes
                if one.row.dim == d and one.row.per_channel == goal and one.row.judged
            ]
            if some:
                runs = sum(one.row.runs for one in some)
                hits = sum(one.coverage * one.row.runs for one in some)
                lines.append(
                    f"d = {d}, n >= {goal} d, pooled: coverage {100 * hits / runs:.1f} % of "
                    f"{runs} runs (goal {100 * GOALS[goal]:.0f} %)."
                )
    failed = [one for one in outcomes if verdict(one) not in ("ok", "not judged")]
    judged = sum(one.row.judged for one in outcomes)
    return [*lines, f"{judged - len(failed)} of {judged} judged rows meet every goal."]


def main(short: bool = False, data: Path | None = None) -> str:
    real = features(data)
    wanted = list(rows(short, real))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    here = [row for row in wanted if row.dim >= 256] if device == "cuda" else []
    elsewhere = [row for row in wanted if row not in here]
    outcomes: dict[Row, Outcome] = {}
    workers = max(1, (os.cpu_count() or 1) - bool(here))
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        workers, context, torch.set_num_threads, (1,)
    ) as pool:
        started = {pool.submit(measure, row, "cpu", real.get(row.name)): row for row in elsewhere}
        for row in here:
            outcomes[row] = measure(row, device, real.get(row.name))
            progress(f"{len(outcomes)} rows")
        for done in concurrent.futures.as_completed(started):
            outcomes[started[done]] = done.result()
            progress(f"{len(outcomes)}/{len(wanted)} rows")
    ordered = [outcomes[row] for row in wanted]
    head = ["# Coverage of the population score's 95 % interval", "", COMMAND, "", describe(device)]
    goals = (
        "Goals, up to three binomial standard errors: coverage 90 % from max(256, 8 d) samples on, "
        "85 % down to 4 d (from 256 channels on pooled over the laws); mean half-width at most 1.5 "
        "times 1.96 standard deviations; rmse at most 1.05 times that of the published score. Of "
        "widths and errors, which are ratios, 3 / sqrt(2 runs) is allowed for."
    )
    return "\n".join([*head, "", *table(ordered), "", *pooled(ordered), "", goals])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("form", nargs="?", choices=["short"])
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    print(main(arguments.form == "short", arguments.data))
