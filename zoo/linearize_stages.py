"""The work of the experiment with linearized activations, cut into jobs that one process does one
after another: each writes a file into the scratch directory or hands out rows of the journal.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from linearize_jobs import (
    CURVE,
    NARROW_BATCH,
    TUNED_EPOCHS,
    Job,
    Options,
    key,
    keys,
    pilot_recipe,
    product,
    tune_recipe,
    variant,
)
from linearize_networks import NARROW, NETWORKS, PLANS, Recipe
from linearize_rounds import in_rounds
from linearize_selection import CRITERIA, Selection, fitted, ranked
from linearize_training import (
    Fading,
    Maps,
    OutOfTime,
    Training,
    accuracy,
    answers,
    linearized,
    save_whole,
)
from linearize_views import Images
from linearize_workshop import Workshop
from torch import Tensor, nn
from train import load_data

HELD_OUT = 5000  # training images that are never trained on
CALIBRATION = 2000  # of those, to rank and to fit maps; the others measure accuracy
WIDTHS = 64  # of those, to learn the widths of the activations
TUNE_SEED = 1000  # added to the seed: the views of the tuning
APART = 10_000  # between the seeds of the views of two rounds
Row = dict[str, Any]


class Bench:
    """The data on the device, and what the jobs have written."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.kept: tuple[Job, nn.Module, str] | None = None  # the last original
        self.workshop: tuple[str, Workshop] | None = None  # that of the last network
        data = load_data(options.data, options.device)
        order = torch.randperm(
            len(data["train_labels"]), generator=torch.Generator().manual_seed(0)
        )
        order = order.to(options.device)
        held = min(HELD_OUT, len(order) // 2)
        calibration = held * CALIBRATION // HELD_OUT
        parts = {
            "calibration": order[:calibration],
            "held_out": order[calibration:held],
            "train": order[held:][: options.images],
        }
        images, labels = data["train_images"], data["train_labels"]
        self.parts = {name: (images[part], labels[part]) for name, part in parts.items()}
        self.parts["test"] = data["test_images"], data["test_labels"]
        self.train = Images.of(*self.parts.pop("train"))
        torch.backends.cuda.matmul.allow_tf32 = True

    def build(self, job: Job) -> nn.Module:
        """Return the network with the random weights of a seed."""
        torch.manual_seed(job.seed)
        made = (NARROW if self.options.narrow else NETWORKS)[job.network]()
        return made.to(self.options.device)

    def read(self, job: Job, stage: str) -> Any:
        """Return what the job of another stage has written."""
        path = product(Job(stage, job.network, job.seed), self.options)
        assert path is not None
        return torch.load(path, map_location=self.options.device, weights_only=True)

    def original(self, job: Job) -> tuple[nn.Module, str]:
        """Return the trained network, not to be changed, and a digest of its weights."""
        wanted = Job("train", job.network, job.seed)
        if self.kept is None or self.kept[0] != wanted:
            model, state = self.build(job), self.read(job, "train")
            model.load_state_dict(state)
            digest = hashlib.sha256()
            for value in state.values():
                digest.update(value.cpu().numpy().tobytes())
            self.kept = wanted, model.eval(), digest.hexdigest()[:12]
        return self.kept[1:]

    def score(self, model: nn.Module, part: str, *, half: bool = False) -> float:
        """Return the accuracy in percent on `held_out` or `test`."""
        return accuracy(model, *self.parts[part], half=half)

    def trained(
        self,
        job: Job,
        model: nn.Module,
        recipe: Recipe,
        *,
        seed: int,
        sites: Sequence[str] = (),
        maps: Maps | None = None,
        teacher: Tensor | None = None,
        resumable: bool = True,
    ) -> tuple[nn.Module, Training]:
        """Return the network trained on, without the activations at the sites, and its training."""
        chosen, maps = list(sites), maps or {}
        is_whole = not any(isinstance(one, Fading) for one in model.modules())
        if not self.options.compile_with or not is_whole:
            made, share = linearized(model, chosen, maps)
            share = share if chosen else None
            training = Training(made, recipe, self.train, seed=seed, teacher=teacher, share=share)
            self._run(job, training, resumable=resumable)
            return made, training
        workshop = self._workshop(job, recipe)
        training = workshop.begin(
            model.state_dict(), recipe, seed=seed, sites=chosen, maps=maps, teacher=teacher
        )
        self._run(job, training, resumable=resumable)
        return workshop.finished(model, chosen, maps), training

    def _workshop(self, job: Job, recipe: Recipe) -> Workshop:
        """Return what trains this network; it is there if the last job was about this network."""
        if self.workshop is None or self.workshop[0] != job.network:
            self.workshop = None  # its captured steps hold memory
            model = self.build(job)
            maps = fitted(model, self.parts["calibration"][0][:WIDTHS])
            backend = self.options.compile_with
            self.workshop = job.network, Workshop(model, maps, recipe, self.train, backend=backend)
        return self.workshop[1]

    def _run(self, job: Job, training: Training, *, resumable: bool) -> None:
        """Train to the end or to the deadline."""
        resumable &= job.stage != "tuned"
        changes = job.variant + variant(job, self.options) if job.stage != "train" else ""
        partial = self.options.scratch / f"{job.label}-{training.recipe.epochs:g}{changes}.partial"
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.benchmark_limit = 4  # the search for kernels took 20 s for MobileNetV2
        try:
            training.run(
                deadline=self.options.deadline if resumable else math.inf,
                partial=partial if resumable else None,
            )
        finally:
            torch.backends.cudnn.benchmark = False


def train(job: Job, bench: Bench, done: set[str]) -> Iterator[Row]:
    """Train one network from scratch."""
    model, recipe = bench.build(job), PLANS[job.network].train
    if bench.options.narrow:
        recipe = replace(recipe, epochs=3, batch=NARROW_BATCH)
    model, training = bench.trained(job, model, recipe, seed=job.seed)
    path = product(job, bench.options)
    assert path is not None
    save_whole(model.state_dict(), path)
    bench.kept = None
    model, origin = bench.original(job)
    yield {
        **finished(job, bench, model, training),
        "key": key("train", job),
        "origin": origin,
        "recipe": asdict(recipe),
    }


def finished(job: Job, bench: Bench, model: nn.Module, training: Training) -> Row:
    """Return what every row of a training says; the test set is looked at here, but by no pilot."""
    tested = {} if job.stage == "pilot" else {"test": bench.score(model, "test")}
    return tested | {
        "stage": job.stage,
        "network": job.network,
        "seed": job.seed,
        "removed": job.removed,
        "epochs": training.recipe.epochs,
        "held_out": bench.score(model, "held_out"),
        "seconds": round(training.seconds, 1),
        "losses": training.losses,
    }


def rank(job: Job, bench: Bench, done: set[str]) -> Iterator[Row]:
    """Rank the activations by all criteria, and fit their maps."""
    started = time.monotonic()
    model, origin = bench.original(job)
    selection = ranked(model, *bench.parts["calibration"], seed=job.seed)
    path = product(job, bench.options)
    assert path is not None
    save_whole(asdict(selection), path)
    yield {
        **{"key": key("rank", job), "stage": "rank", "network": job.network, "seed": job.seed},
        **{"orders": selection.orders, "scores": selection.scores, "origin": origin},
        "seconds": round(time.monotonic() - started, 1),
    }


def teacher(job: Job, bench: Bench, done: set[str]) -> Iterator[Row]:
    """Keep the answers of the original to all views of the tuning."""
    path = product(job, bench.options)
    assert path is not None
    epochs = int(path.stem.rpartition("-")[2])
    model, _ = bench.original(job)
    save_whole(answers(model, bench.train, seed=TUNE_SEED + job.seed, epochs=epochs), path)
    yield from ()


def tuned_point(
    job: Job, bench: Bench, sites: list[str], told: Tensor, recipe: Recipe
) -> tuple[nn.Module, Training, str]:
    """Return the original without some activations, tuned."""
    model, origin = bench.original(job)
    maps = Selection(**bench.read(job, "rank")).maps if sites else {}
    options: dict[str, Any] = {"seed": TUNE_SEED + job.seed, "teacher": told}
    made, training = bench.trained(job, model, recipe, sites=sites, maps=maps, **options)
    return made, training, origin


def point_in_rounds(
    job: Job, bench: Bench, recipe: Recipe
) -> tuple[nn.Module, list[str], Training, str]:
    """Return the same, removed in rounds, and the sites. What was stopped begins anew: a round
    depends on the weights of the one before.
    """
    original, origin = bench.original(job)

    def tune(
        number: int, model: nn.Module, part: Recipe, sites: list[str], maps: Maps
    ) -> tuple[nn.Module, Training]:
        seed = TUNE_SEED + job.seed + APART * number
        told = answers(original, bench.train, seed=seed, epochs=math.ceil(part.epochs))
        options: dict[str, Any] = {"seed": seed, "teacher": told, "resumable": False}
        return bench.trained(job, model, part, sites=sites, maps=maps, **options)

    data, by = bench.parts["calibration"], bench.options.by
    return (*in_rounds(original, job.removed, recipe, data, by, tune), origin)


def curve(job: Job, bench: Bench, done: set[str]) -> Iterator[Row]:
    """Tune one point of the table; without removed activations, the control; a pilot otherwise."""
    is_pilot, options = job.stage == "pilot", bench.options
    recipe = pilot_recipe(job, options) if is_pilot else tune_recipe(job.network, options)
    if job.removed and recipe.rounds > 1:
        model, sites, training, origin = point_in_rounds(job, bench, recipe)
    else:
        selected = Selection(**bench.read(job, "rank")).orders[options.by] if job.removed else []
        sites = selected[: job.removed]
        told = bench.read(job, "teacher")
        model, training, origin = tuned_point(job, bench, sites, told, recipe)
    axes = {site: model.get_submodule(site).axis for site in sites}
    state = {"network": job.network, "axes": axes, "state": model.state_dict()}
    if not is_pilot:
        named = "-".join(filter(None, (job.label, f"{recipe.epochs:g}", variant(job, options))))
        save_whole(state, options.scratch / f"{named}.pt")
    yield {
        **finished(job, bench, model, training),
        **{"key": keys(job, options)[0], "criterion": options.by if job.removed else CURVE},
        **{"maps": "affine", "sites": sites, "origin": origin, "recipe": asdict(recipe)},
    }


def untuned(job: Job, bench: Bench, done: set[str]) -> Iterator[Row]:
    """Compare all criteria without tuning, on held-out images."""
    model, origin = bench.original(job)
    selection = Selection(**bench.read(job, "rank"))
    known: dict[tuple[str, frozenset[str]], float] = {}
    for name in CRITERIA:
        for removed in PLANS[job.network].grid:
            for maps in ("affine", "identity"):
                named = key("untuned", job, removed, name, maps)
                if named in done:
                    continue
                in_time(bench)
                sites = selection.orders[name][:removed]
                same = maps, frozenset(sites)
                if same not in known:
                    made, _ = linearized(model, sites, selection.maps_of(maps))
                    known[same] = bench.score(made, "held_out", half=True)
                yield {
                    **{"key": named, "stage": "untuned", "network": job.network, "seed": job.seed},
                    **{"removed": removed, "criterion": name, "maps": maps, "epochs": 0},
                    **{"held_out": known[same], "origin": origin},
                }


def tuned(job: Job, bench: Bench, done: set[str]) -> Iterator[Row]:
    """Compare all criteria with a short tuning; sets of activations that agree are tuned once."""
    recipe = replace(tune_recipe(job.network, bench.options), epochs=TUNED_EPOCHS)
    orders, told = Selection(**bench.read(job, "rank")).orders, bench.read(job, "teacher")
    known: dict[frozenset[str], Row] = {}
    for name, named in zip(CRITERIA, keys(job, bench.options), strict=True):
        sites = orders[name][: job.removed]
        if named in done:
            continue
        if frozenset(sites) not in known:
            in_time(bench)
            model, training, origin = tuned_point(job, bench, sites, told, recipe)
            row = finished(job, bench, model, training)
            known[frozenset(sites)] = row | {"maps": "affine", "origin": origin}
        yield known[frozenset(sites)] | {"key": named, "criterion": name}


def in_time(bench: Bench) -> None:
    """Stop where the deadline has passed."""
    if time.monotonic() > bench.options.deadline:
        raise OutOfTime("the deadline has passed")


STAGES: dict[str, Callable[[Job, Bench, set[str]], Iterator[Row]]] = {
    "train": train,
    "rank": rank,
    "teacher": teacher,
    "control": curve,
    "curve": curve,
    "pilot": curve,
    "untuned": untuned,
    "tuned": tuned,
}
