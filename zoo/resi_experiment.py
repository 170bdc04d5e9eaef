"""Which measure of similarity finds the differences that were made? Six tests on CIFAR-10:

    python zoo/resi_experiment.py run --data DIR --out OUT --scratch DIR --minutes 40
    python zoo/resi_experiment.py summary OUT [--store FILE]

The tests follow the design of the ReSi benchmark (Klabunde et al. 2024, arXiv:2408.00531), rebuilt
at a size that one core trains in half an hour. Everything is smaller than there: one network of
six convolutions, 32 channels wide, instead of 14 architectures; 5,000 training images and 12
epochs; 4 networks a group; 1,000 test images as the inputs that are represented; 9 measures instead
of 24; one data set instead of seven. A larger form, for a GPU, is `--images 50000 --epochs 30
--width 128 --seeds 5 --probe 5000`.

Networks. Convolutions, batch norm and ReLU in a plain chain of constant width, so that every
measure can compare every two layers. No two networks share a seed. A *representation* has one row
for each test image and one column for each channel after ReLU, averaged over positions; it is that
of the last of six layers, but in test 4.

Tests 1 to 3 have five groups of networks, of degree 0, 25, 50, 75 and 100 %, that were trained
alike but for their seeds. Networks of one group should be more alike than networks of two.

1. `label`: the share of training labels that are drawn anew from all classes, the same ones for all
   networks of a group. Clean test images.
2. `shortcut`: a dot in the corner of every image has the color of its class with this probability,
   otherwise a random one of ten. On the test images all colors are random.
3. `augmentation`: nothing; flips and shifts; squares of 8, 16, 24 pixels blanked as well. Clean
   test images.
4. `monotonicity`: in each of ten networks of degree 0, two layers should be at least as similar as
   any two between which they lie.
5. `accuracy`: among these ten, the less similar two networks are, the more should their accuracies
   differ.
6. `output`: ... the more should their predictions differ, on all test images.

The rule, written before the first run. The score of a measure is, in tests 1 to 3, the area under
the precision-recall curve (average precision) of similarity as a sign that two networks are of one
group; in 4 the share of nested pairs of pairs of layers in the right order; in 5 and 6 Spearman's
correlation of dissimilarity with the difference of accuracies, and with the share of images that
get different classes. A second score is printed and not ranked: in 1 to 3 the *conformity*, the
share of triples, a network, one of its group, one of another, in the right order; in 4 Spearman's
correlation with the number of layers between; in 6 that with the Jensen-Shannon divergence of the
predictions. Ties count half. A measure that is NaN anywhere in a test is ranked last in it.

- `worked`: a test of design counts only if its treatment shows. From each degree to the next, the
  mean over the group falls for the accuracy (1), and rises for the share of test images that get
  the class of their dot (2); in 3 the mean accuracy on test images with the strongest augmentation
  is at degree 100 at least 5 points above that at degree 0. A test that does not count is printed,
  outside the mean rank.
- `ranks`: measures are ranked in each test by the score, ties at their mean. The spread of a rank
  is the lowest and highest when all networks of one seed number are left out.
- `against`: ours, G-Procrustes and G-CKA of the ReLU group, *lose* a test if the 95 % interval of
  their score less that of the best rival in it lies below 0, *win* it if it lies above, otherwise
  it is *open*. The intervals are Student's t from the jackknife over seed numbers. The rival is
  chosen for its score, which favors it.
- `group`: what it costs or gains to allow only the symmetries of ReLU instead of all rotations:
  G-Procrustes less orthogonal Procrustes and G-CKA less linear CKA, by test, and the mean over the
  tests that count. It *helps* if the interval lies above 0, *hurts* below, otherwise open.

Prediction: all treatments work. Of 1 to 3 the measures find shortcuts best. Restricting the group
hurts Procrustes in tests 1 to 3, because narrow networks of different seeds do not have the same
channels, and is open for CKA. All measures are above 0.9 in test 4. In 5 nothing is above chance by
its interval, since ten networks trained alike differ little in accuracy; in 6 our measures neither
win nor lose.

What was known: the speed and the accuracy, 59 %, of one network of degree 0 after 16 epochs.

The journal has one row for each training, pair of networks, and network of test 4. A row that is
there is not computed again: the same command continues.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import fields
from functools import partial
from pathlib import Path

import torch
from journal import Journal, follow
from resi_jobs import Job, Setting, missing, planned, ready, work
from resi_summary import summarized, tests_of

FILE = "journal.jsonl"


def run(args: argparse.Namespace) -> None:
    """Do what is missing, and print what is known."""
    deadline = time.monotonic() + 60 * args.minutes
    setting = Setting(**{one.name: getattr(args, one.name) for one in fields(Setting)})
    args.scratch.mkdir(parents=True, exist_ok=True)
    journal = Journal(args.out / FILE)
    plan = planned(setting)
    left = missing(plan, journal.rows, setting)
    failed = []
    for job in left:
        job.forget(setting)
    if args.jobs > 1:
        failed = follow(
            left,
            partial(work, setting),
            partial(ready, setting),
            journal,
            processes=args.jobs,
            deadline=deadline,
        )
    else:
        _in_order(left, setting, journal, deadline)
    text = summarized(list(journal.rows.values()), setting.facts)
    (args.out / "summary.md").write_text(text + "\n")
    print(text)
    for reason in failed:
        print(f"failed: {reason}", file=sys.stderr)
    left = missing(plan, journal.rows, setting)
    if left:
        print(f"Unfinished: {len(left)}, from {left[0].key} on. The same command continues.")
    if failed:
        raise SystemExit(1)


def _in_order(left: list[Job], setting: Setting, journal: Journal, deadline: float) -> None:
    began = time.monotonic()
    for number, job in enumerate(left, 1):
        if time.monotonic() >= deadline:
            return
        journal.add(work(setting, job))
        if number % 10 == 0 or job.slow:
            spent = time.monotonic() - began
            print(f"{spent:6.1f} s  {number}/{len(left)}  {job.key}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("--data", type=Path, required=True, help="that zoo/data.py wrote")
    runs.add_argument("--out", type=Path, required=True)
    runs.add_argument("--scratch", type=Path, required=True, help="for representations")
    runs.add_argument("--images", type=int, default=5000, help="trained on")
    runs.add_argument("--epochs", type=int, default=12)
    runs.add_argument("--batch", type=int, default=128)
    runs.add_argument("--width", type=int, default=32, help="channels of every layer")
    runs.add_argument("--probe", type=int, default=1000, help="test images that are represented")
    runs.add_argument("--seeds", type=int, default=4, help="networks in a group")
    runs.add_argument("--alike", type=int, default=10, help="networks of tests 4 to 6")
    runs.add_argument("--minutes", type=float, default=math.inf, help="nothing begins later")
    runs.add_argument("--jobs", type=int, default=1, help="processes")
    runs.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    tables = commands.add_parser("summary")
    tables.add_argument("out", type=Path)
    tables.add_argument("--store", type=Path, help="a file to write for `beyond-resi`")
    args = parser.parse_args(arguments)
    if args.command == "run":
        run(args)
        return
    path = args.out / FILE
    if not path.is_file():
        raise SystemExit(f"{path} does not exist; name the --out of a run")
    rows = list(Journal(path).rows.values())
    setting = rows[-1]["setting"] if rows else {}
    print(summarized(rows, setting))
    if args.store:
        found = tests_of(rows, setting)
        if found is None:
            raise SystemExit(f"{path} is not complete; the command that wrote it continues")
        found.save(args.store)


if __name__ == "__main__":
    main()
