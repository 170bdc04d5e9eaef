"""How many activations can a network lose, and who should go first? CIFAR-10, four networks of the
published sizes, three seeds:

    python zoo/linearize_experiment.py run --data DIR --out DIR --scratch DIR --minutes 9 --jobs 3
    python zoo/linearize_experiment.py summary OUT [--points FILE]

`--only resnet18,vgg16` and `--stage train,curves,untuned,tuned,penalized` choose. 5,000 training
images are held out: 2,000 rank the activations and calibrate the maps, 3,000 measure accuracy
without tuning. The test set is measured once for each final network, and chooses nothing among
these networks (a first guess of the recipe came from 1,000 test images and the zoo's ResNet-20).

- `train`: the originals.
- `curves`: the activations with the highest affinity (population score of positions, measured once
  on the original) become per-channel affine maps, fitted by least squares, and the network is tuned
  by at most 20 epochs in all: 0.9 of the loss is the distance from the answers of the original
  (temperature 4), the rest from the labels, and in the first 40 % of the steps the output goes in
  a line from that of the activation to that of the map, whose parameters are trained as well. The
  control is the original, tuned as long by the same recipe. The *drop* of a seed is the accuracy of
  the better of original and control, less that of the point.
  With `--by gradient` another criterion chooses; its points have a table of their own.
- `untuned`: all criteria and five random draws without tuning, with affine maps and with the
  identity, on the 3,000 held-out images.
- `tuned`: the same after half an epoch of the tuning above, on ResNet-18 and VGG-16.
- `--pilot "fade=0,epochs=4;rounds=2"`: other recipes for the tuning, on held-out images only, for
  seed 0 with the largest number removed. The recipe of the curves may be chosen so. With `rounds=2`
  three quarters go first, and the rest after half of the epochs, by the affinity and with the maps
  that the tuned network then has.
- `penalized`: ResNet-20 trained with `AffinityPenalty` (`zoo/penalty`), its nine penalized sites
  replaced without tuning.

The rule, written before the first run.

A *unit* is one network and seed. The *advantage* of affinity over a rival in a unit is the mean
over the numbers removed of the difference of accuracies, in points, with affine maps. `random` is
the mean of its five draws. An interval is a 95 % t-interval over units, and is given for all
networks together and for each alone.

1. Affinity *helps* if the interval of its advantage over `random` lies above zero, and its mean is
   above zero on at least three of four networks (both of two). It *hurts* if the interval lies
   below zero. Anything else is undecided.
2. Affinity *beats* another rival if the interval lies above zero, *loses* if it lies below zero,
   *ties* if it contains zero and lies within 1 point (tuned) or 3 points (untuned) on both sides.
   Anything else is undecided. A cheaper rival that ties (`r2`, `depth`, `early`, `positive`) is
   named in the conclusion.
3. Local scores *fail* on a network if the mean advantage over `random` there is not above zero.
4. A goal of the table is *reached* if the mean drop of the three seeds is at most the goal.

Prediction: without tuning affinity helps, by 10 to 20 points, and r2 ties; it fails on Swin. With
tuning the advantages shrink below 2 points. ResNet-18 and VGG-16 reach all goals but the drop of
0.0 for ResNet-18 with 8 removed, where it is 0.2.

The recipes of VGG-16, MobileNetV2 and Swin-T were changed once, after a first run whose test
accuracies were seen (`zoo/linearize/tried`), those of the last two once more before they were
measured again: batches of 128, for the tuning after pilots on networks of the zoo
(`linearize_networks.py`), from scratch without. Rule, goals and criteria were not.

The journal has one row for each result. A row that is there is not computed again, and a training
that was stopped by `--minutes` goes on: the same command continues.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from linearize_jobs import CURVE, Job, Options, keys, needs, product
from linearize_networks import PLANS
from linearize_penalized import penalized
from linearize_pool import Journal, Pool
from linearize_selection import CRITERIA
from linearize_summary import curves_of, summarized

SEEDS = (0, 1, 2)
TUNED = ("resnet18", "vgg16")
PUBLIC = ("train", "curves", "untuned", "tuned", "penalized")


def wanted(networks: Iterable[str], stages: Iterable[str], seeds: Iterable[int]) -> list[Job]:
    """Return the jobs in their order: the trainings first, then the table, then the criteria."""
    jobs, asked = list[Job](), set(stages)
    pairs = [(network, seed) for network in networks for seed in seeds]
    if "train" in asked:
        jobs += [Job("train", *pair) for pair in pairs]
    if "curves" in asked:
        for network, seed in sorted(pairs, key=lambda pair: pair[1]):  # whole units first
            jobs.append(Job("control", network, seed))
            jobs += [Job("curve", network, seed, n) for n in reversed(PLANS[network].removed)]
    if "untuned" in asked:
        jobs += [Job("untuned", *pair) for pair in pairs]
    if "tuned" in asked:
        jobs += [
            Job("tuned", network, seed, PLANS[network].removed[place])
            for place in (1, 2, 0)  # what takes long for all units before the next number
            for network, seed in pairs
            if network in TUNED
        ]
    return jobs


def is_open(job: Job, journal: Journal, options: Options) -> bool:
    """Return whether a job must be done: a row is missing, or a file where it is needed."""
    path = product(job, options)
    if path is not None and not path.exists():
        return True
    return any(key not in journal.rows for key in keys(job, options))


def planned(jobs: list[Job], journal: Journal, options: Options) -> list[Job]:
    """Return the jobs that are open, each after those whose files it needs."""
    plan: dict[Job, None] = {}
    for job in jobs:
        if any(key not in journal.rows for key in keys(job, options)):
            missing = (one for one in needs(job) if is_open(one, journal, options))
            plan.update(dict.fromkeys(missing))
            plan[job] = None
    return list(plan)


def chosen(text: str, table: Iterable[str], what: str) -> list[str]:
    """Return the names of a list with commas."""
    names, known = text.split(","), list(table)
    if strange := [name for name in names if name not in known]:
        raise SystemExit(f"{what}: {', '.join(strange)} not known; choose from {', '.join(known)}")
    return names


def run(args: argparse.Namespace) -> None:
    deadline = time.monotonic() + 60 * args.minutes
    networks = chosen(args.only, PLANS, "--only")
    stages = chosen(args.stage, PUBLIC, "--stage")
    options = Options(args.data, args.scratch, args.device, args.epochs, args.tune)
    [by] = chosen(args.by, CRITERIA, "--by")
    options = replace(options, by=by, narrow=args.narrow, images=args.images, deadline=deadline)
    options = replace(options, compile_with="inductor" if args.compiled else "")
    args.scratch.mkdir(parents=True, exist_ok=True)
    journal = Journal(args.out / "journal.jsonl", args.scratch / "journal.jsonl")
    if "penalized" in stages:
        for row in penalized(args.data, args.device, set(journal.rows)):
            journal.add(row)
            print(f"{row['key']}: {row['test']}", flush=True)
    seeds = [int(seed) for seed in args.seeds.split(",")]
    jobs = [
        Job("pilot", network, seeds[0], PLANS[network].removed[-1], variant)
        for variant in filter(None, args.pilot.split(";"))
        for network in networks
    ]
    plan = planned(jobs or wanted(networks, stages, seeds), journal, options)
    if args.compiled:  # what is compiled serves one network
        plan.sort(key=lambda job: networks.index(job.network))
    pool = Pool(plan, journal, options)
    if plan:
        pool.run(min(args.jobs, len(plan)))
    print(summarized(list(journal.rows.values())))
    for job, reason in pool.failed.items():
        print(f"{job.label} failed:\n{reason}", file=sys.stderr)
    if pool.stopped or pool.plan:
        left = ", ".join(job.label for job in [*pool.stopped, *pool.plan][:12])
        print(f"Unfinished: {left} … The same command goes on with them.")
    if pool.failed:
        raise SystemExit(1)


def main(arguments: list[str] | None = None) -> None:
    parser: Any = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("--data", type=Path, required=True)
    runs.add_argument("--out", type=Path, required=True)
    runs.add_argument("--scratch", type=Path, required=True, help="for weights, which are large")
    runs.add_argument("--only", default="resnet18,vgg16", help=f"of {', '.join(PLANS)}")
    runs.add_argument("--stage", default="train,curves,untuned,tuned", help=f"of {PUBLIC}")
    runs.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    runs.add_argument("--minutes", type=float, default=math.inf)
    runs.add_argument("--jobs", type=int, default=3, help="processes that share the device")
    runs.add_argument("--epochs", type=float, help="of the tuning for the curves, at most 20")
    runs.add_argument("--tune", default="", help="changes of its recipe, as a pilot found them")
    runs.add_argument("--by", default=CURVE, help="what chooses for the curves and pilots")
    runs.add_argument("--pilot", default="", help="recipes to try, instead of the stages")
    runs.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    runs.add_argument("--narrow", action="store_true", help="tiny networks, one epoch: a trial")
    runs.add_argument("--images", type=int, help="train on the first so many: a trial")
    runs.add_argument("--compiled", action="store_true", help="with torch.compile")
    tables = commands.add_parser("summary")
    tables.add_argument("out", type=Path)
    tables.add_argument("--points", type=Path, help="a file to write for `beyond-linearize`")
    args = parser.parse_args(arguments)
    if args.command == "summary":
        journal = args.out / "journal.jsonl"
        if not journal.is_file():
            raise SystemExit(f"{journal} does not exist; name the --out of a run")
        rows = list(Journal(journal).rows.values())
        if args.points:
            curves_of(rows).save(args.points)
        print(summarized(rows))
        return
    run(args)


if __name__ == "__main__":
    main()
