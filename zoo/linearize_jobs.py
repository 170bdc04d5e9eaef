"""The jobs of the experiment with linearized activations: what there is to do, which rows and files
come out of it, and which files must be there before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from linearize_networks import PLANS, Recipe
from linearize_selection import CRITERIA

CURVE = "affinity"  # the criterion of the table
TUNED_EPOCHS = 0.5  # with which all criteria are compared
NARROW_BATCH = 32


@dataclass(frozen=True)
class Options:
    """What all jobs of a call share."""

    data: Path
    scratch: Path
    device: str
    epochs: float | None = None  # of the tuning of a curve, instead of the recipe's
    tune: str = ""  # what else is changed in that recipe, such as "fade=0,rate=0.05"
    by: str = CURVE  # the criterion that chooses for curves and pilots
    narrow: bool = False
    images: int | None = None  # training images, fewer for a trial
    compile_with: str = ""  # the backend of torch.compile; empty for none
    deadline: float = math.inf  # in the seconds of time.monotonic


@dataclass(frozen=True)
class Job:
    """One piece of work; `removed` is the number of activations, where it is about one number, and
    `variant` what a pilot changes in the recipe, such as `fade=0,rate=0.05`.
    """

    stage: str
    network: str
    seed: int
    removed: int = 0
    variant: str = ""

    @property
    def label(self) -> str:
        return f"{self.stage}-{self.network}-s{self.seed}" + (
            f"-{self.removed}" * bool(self.removed)
        )


def tune_recipe(network: str, options: Options) -> Recipe:
    """Return how a point of the curve is tuned."""
    recipe = changed(PLANS[network].tune, options.tune)
    recipe = replace(recipe, batch=NARROW_BATCH) if options.narrow else recipe
    return replace(recipe, epochs=options.epochs) if options.epochs else recipe


def pilot_recipe(job: Job, options: Options) -> Recipe:
    """Return how a pilot is tuned."""
    return changed(tune_recipe(job.network, options), job.variant)


def changed(recipe: Recipe, text: str) -> Recipe:
    """Return a recipe with some numbers changed.

    Raises:
        SystemExit: a name that is not one, or no number.
    """
    changes: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        kind = {"batch": int, "rounds": int}.get(name, float)
        try:
            changes[name] = kind(value)
            recipe = replace(recipe, **changes)
        except (TypeError, ValueError) as error:
            raise SystemExit(f"{part}: write NAME=NUMBER with a name of {recipe}") from error
    return recipe


def variant(job: Job, options: Options) -> str:
    """Return what tells the tuning of a job from the one that the plan has; empty for that one."""
    # a control too: originals that are trained anew need one of their own
    by = f"by={options.by}" if options.by != CURVE and job.stage != "train" else ""
    return ",".join(filter(None, (options.tune, by)))


def key(stage: str, job: Job, *parts: object) -> str:
    """Return what names a row: a row that is in the journal is not computed again."""
    return "/".join(str(part) for part in (stage, job.network, job.seed, *parts))


def keys(job: Job, options: Options) -> list[str]:
    """Return the keys of all rows of a job; none for a job that only writes a file."""
    plan, recipe = PLANS[job.network], tune_recipe(job.network, options)
    changes = [options.tune] if options.tune else []
    tuning = ",".join(filter(None, (f"{recipe.epochs:g}", variant(job, options))))
    if job.stage == "train":
        return [key("train", job)]
    if job.stage == "control":
        return [key("control", job, tuning)]
    if job.stage == "curve":
        return [key("curve", job, job.removed, tuning)]
    if job.stage == "pilot":
        named = ",".join(filter(None, (job.variant, variant(job, options))))
        return [key("pilot", job, job.removed, named)]
    if job.stage == "tuned":
        return [key("tuned", job, job.removed, name, *changes) for name in CRITERIA]
    if job.stage == "untuned":
        return [
            key("untuned", job, removed, name, maps)
            for name in CRITERIA
            for removed in plan.grid
            for maps in ("affine", "identity")
        ]
    return []


def product(job: Job, options: Options) -> Path | None:
    """Return the file that a job writes for others."""
    stem = f"{job.network}-s{job.seed}"
    if job.stage == "train":
        return options.scratch / f"{stem}.pt"
    if job.stage == "rank":
        return options.scratch / f"{stem}-rank.pt"
    if job.stage == "teacher":
        epochs = math.ceil(max(TUNED_EPOCHS, tune_recipe(job.network, options).epochs))
        return options.scratch / f"{stem}-teacher-{epochs}.pt"
    return None


NEEDS = {
    "train": (),
    "rank": ("train",),
    "teacher": ("train",),
    "control": ("train", "teacher"),
    "curve": ("train", "rank", "teacher"),
    "pilot": ("train", "rank", "teacher"),
    "untuned": ("train", "rank"),
    "tuned": ("train", "rank", "teacher"),
}


def needs(job: Job) -> list[Job]:
    """Return the jobs whose files a job reads."""
    return [Job(stage, job.network, job.seed) for stage in NEEDS[job.stage]]
