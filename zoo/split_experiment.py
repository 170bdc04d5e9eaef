"""How does the split of Figure 7 come about? ResNet-20 and its plain twin, watched in training:
`python zoo/split_experiment.py DATA OUT`, some minutes on an H200.

Four trainings of 80 epochs by the recipe of ResNet-20 in the zoo (batches of 512, one cycle): with
and without residual connections, two seeds each. The last 2,000 training images are not trained
on; they are the probe of the monitors, one batch, averaged over pixels as the published score does,
one sample per image. Population scores with their 95 % intervals are measured after 0, 1, 2, 3, 5,
7, 10, 15, 20, 30, 50 and 70 steps, after each of the first six epochs, and after every second epoch
from then on.

A batch norm starts with running statistics of 0 and 1, which lag behind in the first dozens of
steps. So each network is measured in two ways: with the statistics of the probe (`batch`, the
network as it trains), which the rule is about, and with the running ones (`running`), as the
signatures of Figure 7 are.

The rule, written before the first run. Each of the nine blocks calls ReLU twice: inside, `act1`,
and at its end, `act2`, after the addition if there is one. The *gap* at a step is the mean over the
blocks of the score at the end less that inside, with a 95 % interval by Student's t over the nine
differences. The split *has come about* at the first step from which on every measurement has at
least half of the final gap; never if the interval of the final gap contains 0. The plain twin is
compared at the same positions.

1. `split`: with connections, the final gap is at least 0.1 and its interval above 0, in both seeds;
   weakly if only the latter. Otherwise Figure 7 is not confirmed here.
2. `not split`: without them, the gap, in absolute value, is at most a quarter of the final one with
   them and the same seed, at every measurement from the end of the first epoch on; weakly if only
   at the last.
3. `built in`: the split has come about at step 0 in both seeds: the connections alone make it, and
   training keeps it. Weakly if within the first epoch in both. Refuted if later in one of them: it
   is then learned; or, if half of it is there at step 0, lost and learned again.
4. `ends rise`: the paper says that connections enable the learning of the identity. If that is how
   the split comes about, the calls after the additions become more affine in training: their mean
   score is at the end 0.05 higher than at step 0, in both seeds; weakly if higher at all.
5. `alike`: the final gaps by both kinds of statistics are at most 0.02 apart in each training;
   weakly if at most 0.05.

What was known: by published scores of test images, the networks of the zoo have final gaps of 0.25
and 0.26 with connections, and of 0.02 and 0.01 without. Of steps before the last nothing was known
when the rule was written. Since then this script was tested on 640 images of noise: there the gap
was 0.17 at step 0 with connections and 0.01 without, and was lost within ten steps; only the words
after "it is then learned" were added.

Prediction: 1, 2, 3 and 5 hold, 4 does not. Before training, what is added to a block's output is a
sum of outputs of ReLU, thus positive, so that the ReLU after the addition has little left to cut;
a batch norm in front of the ReLU inside centers its input, whatever the weights are.

Each training writes its tracks, and a JSON file with its log; `split.json` has the scores of all of
them in short, and `summary.md` applies the rule. A training that has its JSON file is not repeated:
the same command goes on. `--only RUN` runs one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from recipes import LAYOUTS, RECIPES, Recipe
from torch import Tensor, nn
from train import accuracy, load_data
from trainer import Trainer

import sigmascope as sg
from sigmascope.catalog.cifar import NETWORKS
from sigmascope_papers.nonlinearity.courses import (
    BATCH,
    PLAIN,
    RESIDUAL,
    RUNNING,
    Course,
    Courses,
    table,
)

SEEDS = (0, 1)
RUNS = tuple(f"{network}-s{seed}" for seed in SEEDS for network in (RESIDUAL, PLAIN))
EARLY = (0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70)  # steps
EVERY, FIRST = 2, 6  # epochs: between measurements, and up to where after each
PROBE = 2000
# Statistics of batch norm -> the mode of `signature` in which a network in training uses them.
MODES = {BATCH: "as-is", RUNNING: "eval"}


def due(steps_per_epoch: int, epochs: int) -> list[int]:
    """Return after which steps the network is measured.

    >>> due(93, 10)[10:]
    [50, 70, 93, 186, 279, 372, 465, 558, 744, 930]
    """
    after = {epoch for epoch in range(1, epochs + 1) if epoch <= FIRST or epoch % EVERY == 0}
    last = steps_per_epoch * epochs
    early = {step for step in EARLY if step < min(steps_per_epoch, last)}
    return sorted(early | {steps_per_epoch * epoch for epoch in after} | {last})


class WatchedTrainer(Trainer):
    """Trains as the zoo does, and measures the probe after some of the steps."""

    def __init__(
        self, model: nn.Module, recipe: Recipe, data: dict[str, Tensor], *, seed: int, images: int
    ) -> None:
        train = data["train_images"][:-images], data["train_labels"][:-images]
        super().__init__(model, recipe, *train, seed=seed)
        layout = {"memory_format": LAYOUTS[recipe.layout]}
        probe = [data["train_images"][-images:].contiguous(**layout)]
        self.monitors = {name: sg.Monitor(model, probe, mode=mode) for name, mode in MODES.items()}
        self.due, self.steps = due(self.steps_per_epoch, recipe.epochs), 0

    def measure(self) -> None:
        """Measure, if it is time."""
        if self.steps in self.due:
            for monitor in self.monitors.values():
                monitor.measure(self.steps)

    def step(self) -> None:
        super().step()
        self.steps += 1
        self.measure()


def train(run: str, data: dict[str, Tensor], out: Path, recipe: Recipe, images: int) -> None:
    """Train one network; write its tracks, then what is known of it."""
    network, _, seed = run.rpartition("-s")
    started = time.monotonic()
    torch.manual_seed(int(seed))
    model: nn.Module = NETWORKS[network]().to(data["train_labels"].device)
    trainer = WatchedTrainer(model, recipe, data, seed=int(seed), images=images)
    model.train()
    trainer.measure()  # before the first step
    log = []
    for epoch in range(recipe.epochs):
        log.append({"loss": trainer.epoch(epoch), "seconds": round(time.monotonic() - started, 1)})
        if epoch % 10 in (0, 9):
            line = f"epoch {epoch + 1}, loss {log[-1]['loss']:.3f}, {log[-1]['seconds']} s"
            print(f"{run}: {line}", flush=True)
    for name, monitor in trainer.monitors.items():
        monitor.track.save(track_of(out, run, name))
    found = {
        "network": network,
        "seed": int(seed),
        "epoch": trainer.steps_per_epoch,
        "epochs": recipe.epochs,
        "accuracy": accuracy(model, data["test_images"], data["test_labels"]),
        "seconds": round(time.monotonic() - started, 1),
        "measuring": {name: round(one.seconds, 1) for name, one in trainer.monitors.items()},
        "torch": torch.__version__,
        "log": log,
    }
    (out / f"{run}.json").write_text(json.dumps(found))
    told = (
        f"{100 * found['accuracy']:.2f} % in {found['seconds']} s, measuring {found['measuring']}"
    )
    print(f"{run}: {told}", flush=True)


def track_of(out: Path, run: str, statistics: str) -> Path:
    """Return the file of a track."""
    return out / f"{run}-{statistics}.track.json"


def gathered(out: Path) -> Courses:
    """Read the tracks of all trainings."""
    courses = []
    for run in RUNS:
        found = json.loads((out / f"{run}.json").read_text())
        facts = {name: found[name] for name in ("network", "seed", "epoch", "accuracy")}
        for statistics in MODES:
            track = sg.Track.load(track_of(out, run, statistics))
            courses.append(Course.of(track, statistics=statistics, **facts))
    return Courses(tuple(courses))


def summarize(out: Path) -> str:
    """Write the scores in short and the verdicts of the rule, and return the latter."""
    found = gathered(out)
    found.save(out / "split.json")
    text = table(found)
    (out / "summary.md").write_text(text + "\n")
    return text


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    recipe = RECIPES[RESIDUAL]
    parser.add_argument("data", type=Path, help="the folder that zoo/data.py wrote")
    parser.add_argument("out", type=Path, help="the folder to write to")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int, default=recipe.epochs)
    parser.add_argument("--batch", type=int, default=recipe.batch)
    parser.add_argument("--probe", type=int, default=PROBE, help="images that are measured")
    parser.add_argument("--processes", type=int, default=4, help="trainings at once")
    parser.add_argument("--only", choices=RUNS, metavar="RUN", help=f"one of {', '.join(RUNS)}")
    return parser


def main(arguments: list[str] | None = None) -> None:
    args = options().parse_args(arguments)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.only:
        torch.backends.cudnn.allow_tf32 = False  # a measurement is in float32
        recipe = replace(RECIPES[RESIDUAL], epochs=args.epochs, batch=args.batch)
        train(args.only, load_data(args.data, args.device), args.out, recipe, args.probe)
        return
    numbers: list[Any] = ["--epochs", args.epochs, "--batch", args.batch, "--probe", args.probe]
    numbers += ["--device", args.device]
    # processes that share the cores would otherwise each start a thread for every one of them
    shared = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // args.processes))}

    def started(run: str) -> int:
        command = [sys.executable, __file__, args.data, args.out, "--only", run, *numbers]
        words = [str(word) for word in command]
        return subprocess.run(words, check=False, env={**shared, **os.environ}).returncode

    missing = [run for run in RUNS if not (args.out / f"{run}.json").exists()]
    with ThreadPoolExecutor(args.processes) as pool:
        codes = dict(zip(missing, pool.map(started, missing), strict=True))
    failed = [run for run, code in codes.items() if code]
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}; the same command repeats only these")
    print(summarize(args.out))


if __name__ == "__main__":
    main()
