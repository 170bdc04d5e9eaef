"""Does a penalty make activations affine, and at what price? ResNet-20 on CIFAR-10:
`python zoo/penalty_experiment.py --data DIR --out DIR`, some minutes on an H200.

Ten trainings of 60 epochs by the recipe of the zoo (batches of 512, one cycle), two seeds each:

- `none`: as in the zoo;
- `affinity-W`: `sg.AffinityPenalty` on the positions (`samples="positions"`) of the nine sites
  inside the blocks, `blocks.*.act1`, of 19 sites in all, with the weights W of 0.1, 0.3 and 1;
- `prelu-0.3`: the same sites are PReLUs that start as ReLUs, with one slope a each, and
  0.3 · mean (1 - a)² is added to the loss (as in Layer Folding, Dror et al. 2021).

The ten other sites, after the additions and in the stem, are never penalized: a linearized site
there would fold no layer.

The rule, written before the first run. Scores are population scores of positions on 2,000 test
images; accuracies are those of all test images after the last epoch, which are looked at once, and
not to choose anything. A difference is the mean over both seeds, and must have its sign in each.

1. The penalty *works* if at one weight at least the mean score of the nine sites is 0.10 higher
   than with `none`, and the accuracy at most 1.0 points lower. It does *not* if at every weight the
   score rises by less than 0.05 or the accuracy falls by more than 2.0 points. Anything else is
   undecided, and is reported so.
2. It is *selective* if the mean score of the ten other sites changes by less than half as much.
3. It *beats the slope* if some weight has a higher mean score of the nine sites than `prelu-0.3` at
   an accuracy that is not more than 0.2 points lower. It *loses* if `prelu-0.3` has the higher
   score and the higher accuracy against every weight.

Prediction: at 0.3 the nine scores rise by about 0.15 and the accuracy falls by 0.5 points; the
slopes of `prelu-0.3` end near 1 in most sites, with scores near 1 there, and 1 to 3 points lost.

Each training writes its weights (safetensors), so that the sites can be replaced by affine maps
later, and one JSON file with its log and its scores; `summary.json` and `summary.md` apply the
rule. A training that has its JSON file is not repeated: the same command goes on. `--only RUN` runs
one.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from objectives import Objective, augmented
from recipes import LAYOUTS, Recipe
from torch import Tensor, nn
from train import accuracy, load_data, save_weights
from trainer import Trainer

import sigmascope as sg
from sigmascope.catalog.cifar import NETWORKS
from sigmascope.training.cuda_graph import Step, optimizer_tensors

SITES = "blocks.*.act1"
EPOCHS, SEEDS, IMAGES = 60, (0, 1), 2000
WEIGHTS, SLOPE_WEIGHT = (0.1, 0.3, 1.0), 0.3
WAYS = ("none", *(f"affinity-{weight:g}" for weight in WEIGHTS), f"prelu-{SLOPE_WEIGHT:g}")
RUNS = tuple(f"{way}-s{seed}" for seed in SEEDS for way in WAYS)
Penalized = Callable[[Tensor], tuple[Tensor, Tensor]]


def build(way: str, seed: int, device: str) -> tuple[nn.Module, Penalized]:
    """Return the network, and a function from images to logits and what is added to the loss."""
    torch.manual_seed(seed)
    model: nn.Module = NETWORKS["resnet20"]().to(device)
    kind, _, weight = way.partition("-")
    if kind == "affinity":
        penalty = sg.AffinityPenalty(model, sites=SITES, weight=float(weight), samples="positions")

        def with_scores(x: Tensor) -> tuple[Tensor, Tensor]:
            with penalty:
                logits = model(x)
            return logits, penalty.value

        return model, with_scores
    if kind == "prelu":
        blocks = model.get_submodule("blocks")
        for block in blocks:
            block.act1 = nn.PReLU(init=0.0, device=device)
        slopes = [block.act1.weight for block in blocks]

        def with_slopes(x: Tensor) -> tuple[Tensor, Tensor]:
            return model(x), float(weight) * (1 - torch.cat(slopes)).square().mean()

        return model, with_slopes
    return model, lambda x: (model(x), x.new_zeros(()))


class PenalizedTrainer(Trainer):
    """Trains as the zoo does; the step is captured where the penalty allows it."""

    def __init__(self, model: nn.Module, penalized: Penalized, *args: Any, **options: Any) -> None:
        super().__init__(model, *args, **options)
        self.added = torch.zeros((), device=self.device)  # the penalties of an epoch

        def loss(_: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
            x = augmented(images, self.recipe)
            logits, more = penalized(x.contiguous(memory_format=LAYOUTS[self.recipe.layout]))
            self.added.add_(more.detach())
            return F.cross_entropy(logits.float(), labels) + more

        self.objective = Objective(loss)
        self.replayed = Step(self._run, self._changed)

    def _run(self, chosen: Tensor) -> None:
        self.chosen.copy_(chosen)
        self._step()

    def _changed(self) -> list[Tensor]:
        held = [*self.model.parameters(), *self.model.buffers()]
        held += [self.loss, self.added, self.chosen]
        return [*held, *optimizer_tensors(self.optimizer)]

    def step(self) -> None:
        self.replayed(self.chosen.clone())


def train(run: str, data: dict[str, Tensor], out: Path, epochs: int) -> None:
    """Train one network; write its weights, then what is known of it."""
    way, _, seed = run.rpartition("-s")
    device, started = data["train_labels"].device.type, time.monotonic()
    model, penalized = build(way, int(seed), device)
    trainer = PenalizedTrainer(
        model,
        penalized,
        Recipe(epochs=epochs),
        data["train_images"],
        data["train_labels"],
        seed=int(seed),
    )
    log = []
    for epoch in range(epochs):
        trainer.added.zero_()
        loss = trainer.epoch(epoch)
        log.append({"loss": loss, "added": float(trainer.added) / trainer.steps_per_epoch})
        if epoch % 10 == 9:
            print(f"{run}: epoch {epoch + 1}, loss {loss:.3f}, {log[-1]['added']:.3f} added")
    save_weights(model, out / f"{run}.safetensors")
    slopes = [float(one.weight.detach()) for one in model.modules() if isinstance(one, nn.PReLU)]
    found = {
        "run": run,
        "way": way,
        "seed": int(seed),
        "epochs": epochs,
        "accuracy": accuracy(model, data["test_images"], data["test_labels"]),
        "scores": {
            samples: scores(model, data["test_images"][:IMAGES], samples)
            for samples in ("positions", "batch")
        },
        "slopes": slopes,
        "captured": trainer.replayed._graph is not None,
        "seconds": round(time.monotonic() - started, 1),
        "torch": torch.__version__,
        "log": log,
    }
    (out / f"{run}.json").write_text(json.dumps(found))


def scores(model: nn.Module, images: Tensor, samples: str) -> dict[str, float]:
    """Return the population scores by site; NaN where there is none."""
    signature = sg.signature(
        model, list(images.split(500)), estimator="population", samples=samples, progress=False
    )
    return {site.name: site.population for site in signature.sites}


def mean_scores(found: dict[str, Any], samples: str = "positions") -> tuple[float, float]:
    """Return the mean scores of the penalized sites and of the others."""
    values = [pair for pair in found["scores"][samples].items() if not math.isnan(pair[1])]
    inside = [score for name, score in values if name.endswith(".act1")]
    others = [score for name, score in values if not name.endswith(".act1")]
    return statistics.fmean(inside), statistics.fmean(others)


def summarize(out: Path) -> str:
    """Apply the rule to all trainings, and return a table with its verdicts."""
    found = {run: json.loads((out / f"{run}.json").read_text()) for run in RUNS}
    rows, summary = [], {}
    for way in WAYS:
        runs = [found[f"{way}-s{seed}"] for seed in SEEDS]
        inside, others = zip(*(mean_scores(one) for one in runs), strict=True)
        points = [100 * one["accuracy"] for one in runs]
        summary[way] = {"accuracy": points, "inside": inside, "others": others}
        cells = (
            " | ".join(f"{value:.{digits}f}" for value in values)
            for values, digits in ((points, 2), (inside, 3), (others, 3))
        )
        rows.append(f"| {way} | {' | '.join(cells)} |")
    verdicts = judged(summary)
    (out / "summary.json").write_text(json.dumps({"ways": summary, "verdicts": verdicts}, indent=1))
    head = f"| training | accuracy, % | | nine sites | | ten others | |\n|---|{6 * '---:|'}"
    text = "\n".join([head, *rows, "", *(f"- {name}: {text}" for name, text in verdicts.items())])
    (out / "summary.md").write_text(text + "\n")
    return text


def change(summary: dict[str, Any], way: str, what: str) -> float:
    """Return the mean change against `none`; 0 where the seeds do not agree on its sign."""
    pairs = zip(summary[way][what], summary["none"][what], strict=True)
    changes = [one - other for one, other in pairs]
    return statistics.fmean(changes) if len({one > 0 for one in changes}) == 1 else 0.0


def judged(summary: dict[str, Any]) -> dict[str, str]:
    """Return the verdicts of the rule in the docstring."""
    ways = [way for way in WAYS if way.startswith("affinity")]
    rise = {way: change(summary, way, "inside") for way in ways}
    lost = {way: -change(summary, way, "accuracy") for way in ways}
    working = [way for way in ways if rise[way] >= 0.10 and lost[way] <= 1.0]
    hopeless = all(rise[way] < 0.05 or lost[way] > 2.0 for way in ways)
    verdicts = {
        "works": f"yes, {', '.join(working)}" if working else "no" if hopeless else "undecided"
    }
    moved = {way: abs(change(summary, way, "others")) for way in ways}
    selective = [way for way in ways if moved[way] < rise[way] / 2]
    verdicts["selective"] = ", ".join(selective) or "no"
    slope = {name: statistics.fmean(values) for name, values in summary[WAYS[-1]].items()}
    means = {way: {k: statistics.fmean(v) for k, v in summary[way].items()} for way in ways}
    beating = [
        way
        for way in ways
        if means[way]["inside"] > slope["inside"]
        and means[way]["accuracy"] >= slope["accuracy"] - 0.2
    ]
    losing = all(
        means[way]["inside"] < slope["inside"] and means[way]["accuracy"] < slope["accuracy"]
        for way in ways
    )
    verdicts["beats the slope"] = (
        f"yes, {', '.join(beating)}" if beating else "loses" if losing else "neither"
    )
    return verdicts


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--processes", type=int, default=5, help="trainings at once")
    parser.add_argument("--only", choices=RUNS, metavar="RUN", help=f"one of {', '.join(RUNS)}")
    args = parser.parse_args(arguments)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.only:
        train(args.only, load_data(args.data, args.device), args.out, args.epochs)
        return
    options = ["--data", args.data, "--out", args.out, "--device", args.device]
    options += ["--epochs", args.epochs]

    def started(run: str) -> int:
        command = [sys.executable, __file__, "--only", run, *options]
        return subprocess.run([str(part) for part in command], check=False).returncode

    missing = [run for run in RUNS if not (args.out / f"{run}.json").exists()]
    with ThreadPoolExecutor(args.processes) as pool:
        codes = dict(zip(missing, pool.map(started, missing), strict=True))
    failed = [run for run, code in codes.items() if code]
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}; the same command repeats only these")
    print(summarize(args.out))


if __name__ == "__main__":
    main()
