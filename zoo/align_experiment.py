"""Are networks of different seeds one network up to symmetry? The lines between them, CIFAR-10:

    python zoo/align_experiment.py run --data DIR --out DIR --scratch DIR --minutes 9 --jobs 12
    python zoo/align_experiment.py summary OUT [--store FILE]
    python zoo/align_experiment.py figure OUT       # lines.png, similarity.png
    python zoo/align_experiment.py plan             # how much it computes
    python zoo/align_experiment.py files            # the weights of the zoo that it reads
    python zoo/align_experiment.py gather --data DIR --to NEW     # what --stage lines reads, 54 MB

All pairs of networks of the zoo that differ in their seeds alone (`FAMILIES` in `align_jobs.py`),
and VGG-16 at 2 and 4 times its width, trained here by its recipe. Each pair is aligned in four
ways: by weights and by activations (of the first 1,000 training images), with permutations alone
and with the whole group. Five points on the line to the network as it is and as it was moved are
evaluated on the first 2,500 test images, without and with the correction of `symmetry.barrier`,
whose statistics come from the same images, without their labels.

Three *barriers*, each the largest height above the chord: in cross-entropy, in cross-entropy at the
best temperature of each point (*calibrated*), and in accuracy (points lost). The rule uses the last
two; the first, which also tells how sure of themselves networks are, is printed.

The rule, written before the first run. The *reduction* of a family is 1 less the ratio of the mean
barrier over its pairs to that of the naive line without correction. Pairs share networks: intervals
are 95 % t-intervals from the jackknife over networks, of a family with at least 4; a difference
over all families is the mean of those of the families, with the errors added in squares.

1. `reduced`: with the correction, by activations and the whole group, the reduction is at least
   75 %, calibrated and in accuracy, for Myrtle and for VGG-16; weakly if in one of the two measures
   for both. The same is said of the other ways, but only this one decides.
2. `scales`: accuracy lost with permutations less that with the whole group, in points, in the
   families whose activations admit scales: scales *help* if the interval over all of them lies
   above 0, *hurt* if below 0, *add nothing* if it contains 0 and lies within 1 point on both
   sides; otherwise undecided. Four answers: by weights and by activations, without and with
   correction.
3. `correction`: the accuracy lost on aligned lines (whole group, by activations) is smaller with
   it: the interval over all families with ReLU lies above 0.
4. `width`: accuracy lost and calibrated barrier (whole group, by activations, corrected) fall from
   1 to 2 to 4 times the width of VGG-16, and are at 4 at most half of those at 1; weakly if they
   only fall. It checks the method: wide networks are known to connect.
5. `predicts`: Spearman's correlation over all pairs and widths between the similarity of a pair
   before aligning, its G-Procrustes or G-CKA averaged over activations, and its accuracy lost
   (whole group, by activations, corrected) is at most -0.5, and of the same sign within the
   families, from whose means both are then taken. Two answers.

Prediction: 1 holds for Myrtle and fails for VGG-16, which is 16 to 64 channels wide; 2: scales add
nothing with the correction, and hurt without batch norm where there is none; 3 and 4 hold; 5 holds
over all pairs, and fails within families.

What was known: the loss and accuracy in the middle of lines between Myrtle networks without batch
norm, on 384 images that the package embeds. There the correction raised the loss and the accuracy,
as the ends are more sure of themselves than the mean is; hence the calibrated barrier. Of other
families only squared distances were known. Since then this script was tested on one pair of
ResNet-20 with 100 images; no word of the rule was changed.

The journal has one row for each pair and training. A row of the same numbers of images and epochs
is not computed again: the same command continues, on the same machine or on another one.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from align_gather import gather
from align_jobs import FAMILIES, Options, files, missing, planned, work
from align_plan import plan as counted
from align_summary import lines_of, summarized
from journal import Journal, follow

STAGES, IMAGES = ("lines", "widths"), 2500


def run(args: argparse.Namespace) -> None:
    deadline = time.monotonic() + 60 * args.minutes
    only, stages = _chosen("--only", args.only, FAMILIES), _chosen("--stage", args.stage, STAGES)
    options = Options(args.data, args.scratch, args.device, args.images, args.epochs)
    args.scratch.mkdir(parents=True, exist_ok=True)
    journal = Journal(args.out / "journal.jsonl")
    jobs = planned(only, stages, args.pairs)
    plan = missing(jobs, journal.rows, options)
    for job in plan:
        job.forget(options)
    failed = follow(
        plan,
        partial(work, options),
        lambda job: job.ready(options),
        journal,
        processes=args.jobs,
        deadline=deadline,
    )
    text = summarized(list(journal.rows.values()))
    (args.out / "summary.md").write_text(text + "\n")
    print(text)
    left = [job.key for job in missing(jobs, journal.rows, options)]
    for reason in failed:
        print(f"failed: {reason}", file=sys.stderr)
    if left:
        print(f"Unfinished: {len(left)}, {', '.join(left[:8])} … The same command continues.")
    if failed:
        raise SystemExit(1)


def known(out: Path) -> list[dict[str, Any]]:
    """Return the rows of a journal."""
    path = out / "journal.jsonl"
    if not path.is_file():
        raise SystemExit(f"{path} does not exist; name the --out of a run")
    return list(Journal(path).rows.values())


def _chosen(option: str, text: str, known: Iterable[str]) -> list[str]:
    if strange := [one for one in text.split(",") if one not in known]:
        raise SystemExit(f"{option}: choose from {', '.join(known)}, got {', '.join(strange)}")
    return text.split(",")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("--data", type=Path, required=True, help="that zoo/data.py wrote")
    runs.add_argument("--out", type=Path, required=True)
    runs.add_argument("--scratch", type=Path, required=True, help="for weights")
    runs.add_argument("--only", default=",".join(FAMILIES), help=f"of {', '.join(FAMILIES)}")
    runs.add_argument("--stage", default=",".join(STAGES), help=f"of {', '.join(STAGES)}")
    runs.add_argument("--pairs", type=int, help="the first so many of a family: a trial")
    runs.add_argument("--images", type=int, default=IMAGES, help="of the test set")
    runs.add_argument("--epochs", type=int, help="of the trainings, instead of the recipe's")
    runs.add_argument("--minutes", type=float, default=math.inf, help="nothing begins later")
    runs.add_argument("--jobs", type=int, default=12, help="processes that share the device")
    runs.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    tables = commands.add_parser("summary")
    tables.add_argument("out", type=Path)
    tables.add_argument("--store", type=Path, help="a file to write for `beyond-align`")
    commands.add_parser("figure").add_argument("out", type=Path)
    commands.add_parser("files")
    commands.add_parser("plan")
    gathers = commands.add_parser("gather")
    gathers.add_argument("--data", type=Path, required=True, help="that zoo/data.py wrote")
    gathers.add_argument("--to", type=Path, required=True)
    gathers.add_argument("--only", default=",".join(FAMILIES), help=f"of {', '.join(FAMILIES)}")
    gathers.add_argument("--images", type=int, default=IMAGES, help="of the test set")
    args = parser.parse_args(arguments)
    if args.command == "files":
        print("\n".join(files()))
    elif args.command == "plan":
        nowhere = Options(Path(), Path(), "cpu", IMAGES)
        print("\n".join(counted(planned([*FAMILIES], [*STAGES]), nowhere)))
    elif args.command == "gather":
        size = gather(args.data, args.to, _chosen("--only", args.only, FAMILIES), args.images)
        print(f"{args.to}: {size / 1e6:.1f} MB")
    elif args.command == "figure":
        # where there is a GPU, Matplotlib may be missing
        from sigmascope_papers.symmetry.beyond_align import draw

        for part, drawn in draw(lines_of(known(args.out))).items():
            drawn.save(args.out / f"{part or 'lines'}.png")
    elif args.command == "summary":
        rows = known(args.out)
        if args.store:
            lines_of(rows).save(args.store)
        print(summarized(rows))
    else:
        run(args)


if __name__ == "__main__":
    main()
