"""What is to be done for the tests of similarity: trainings, pairs of networks, pairs of layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from resi_measures import MEASURES
from resi_trainings import DEGREES, DESIGNS, PLAIN, Training, member, train
from train import load_data

Row = dict[str, Any]
Rows = dict[str, Row]
SIZES = ("images", "epochs", "batch", "width", "probe")


@dataclass(frozen=True)
class Setting:
    """Where things are, and how large the experiment is."""

    data: Path
    scratch: Path
    device: str
    images: int
    epochs: int
    batch: int
    width: int
    probe: int
    seeds: int
    alike: int

    @property
    def size(self) -> dict[str, int]:
        """The numbers on which a network depends."""
        return {name: getattr(self, name) for name in SIZES}

    @property
    def facts(self) -> dict[str, int]:
        """All numbers, for the journal."""
        return {**self.size, "seeds": self.seeds, "alike": self.alike}


def known(row: Row | None, setting: Setting) -> bool:
    """Return whether a row is of networks of this size."""
    return row is not None and {name: row["setting"][name] for name in SIZES} == setting.size


@lru_cache(maxsize=1)
def loaded(folder: Path, device: str) -> dict[str, torch.Tensor]:
    return load_data(folder, device)


@lru_cache(maxsize=512)
def arrays(file: Path) -> dict[str, np.ndarray]:
    with np.load(file) as found:
        return {"layers": found["layers"], "logits": found["logits"]}


@dataclass(frozen=True)
class TrainingJob:
    """Train one network."""

    training: Training
    slow = True

    @property
    def key(self) -> str:
        return f"train/{self.training.name}"

    def reads(self) -> tuple[Training, ...]:
        """Return the networks whose representations are needed."""
        return ()

    def forget(self, setting: Setting) -> None:
        """Remove its file, which may be of another size: no comparison may read it."""
        file_of(self.training, setting).unlink(missing_ok=True)

    def work(self, setting: Setting) -> Row:
        data, file = loaded(setting.data, setting.device), file_of(self.training, setting)
        found = train(self.training, data, file, size=setting.size)
        return {"key": self.key, "setting": setting.facts, **found}


@dataclass(frozen=True)
class PairJob:
    """Compare the last layers of two networks, and their outputs."""

    test: str
    a: Training
    b: Training
    slow = False

    @property
    def key(self) -> str:
        return f"{self.test}/{self.a.name}/{self.b.name}"

    def reads(self) -> tuple[Training, ...]:
        """Return the networks whose representations are needed."""
        return self.a, self.b

    def forget(self, setting: Setting) -> None:
        """Do nothing: it has no file."""

    def work(self, setting: Setting) -> Row:
        a, b = (arrays(file_of(one, setting)) for one in (self.a, self.b))
        ends = [[one.degree, one.seed] for one in (self.a, self.b)]
        return {
            "key": self.key,
            "setting": setting.facts,
            "ends": ends,
            "values": measured(a["layers"][-1], b["layers"][-1]),
            "outputs": output_differences(a["logits"], b["logits"]),
        }


@dataclass(frozen=True)
class LayersJob:
    """Compare all layers of one network."""

    training: Training
    slow = False

    @property
    def key(self) -> str:
        return f"monotonicity/{self.training.name}"

    def reads(self) -> tuple[Training, ...]:
        """Return the network whose representations are needed."""
        return (self.training,)

    def forget(self, setting: Setting) -> None:
        """Do nothing: it has no file."""

    def work(self, setting: Setting) -> Row:
        layers = arrays(file_of(self.training, setting))["layers"]
        pairs = list(combinations(range(len(layers)), 2))
        values = [measured(layers[i], layers[j]) for i, j in pairs]
        facts = {"key": self.key, "setting": setting.facts, "seed": self.training.seed}
        return {**facts, "pairs": pairs, "values": values}


Job = TrainingJob | PairJob | LayersJob


def missing(plan: Sequence[Job], rows: Rows, setting: Setting) -> list[Job]:
    """Return the jobs that are left; what was trained already is trained again only if its file is
    missing and a comparison needs it.
    """
    left = [job for job in plan if not known(rows.get(job.key), setting)]
    read = {training for job in left for training in job.reads()}
    lost = {one for one in read if not file_of(one, setting).is_file()}
    again = [job for job in plan if isinstance(job, TrainingJob) and job.training in lost]
    return [job for job in plan if job in {*left, *again}]


def ready(setting: Setting, job: Job) -> bool:
    """Return whether the files are there that a job reads."""
    return all(file_of(one, setting).is_file() for one in job.reads())


def work(setting: Setting, job: Job) -> Row:
    """Do a job and return its row."""
    torch.backends.cudnn.allow_tf32 = False  # a measurement is in float32
    return job.work(setting)


def file_of(training: Training, setting: Setting) -> Path:
    """Return the file with the representations and outputs of a network."""
    return setting.scratch / f"{training.name}.npz"


def measured(x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    return {name: round(measure(x, y), 9) for name, measure in MEASURES.items()}


def output_differences(a: np.ndarray, b: np.ndarray) -> dict[str, float]:
    """Return the share of inputs that get different classes, and the mean Jensen-Shannon divergence
    of the probabilities, in nats.

    >>> far = output_differences(np.array([[99.0, 0.0]]), np.array([[0.0, 99.0]]))
    >>> far["disagreement"], bool(np.isclose(far["jsd"], np.log(2)))
    (1.0, True)
    """
    one, two = (torch.from_numpy(side).double().log_softmax(1) for side in (a, b))
    mean = torch.logaddexp(one, two) - np.log(2)
    divergences = [(side.exp() * (side - mean)).sum(1).mean() for side in (one, two)]
    differ = (a.argmax(1) != b.argmax(1)).mean()
    return {"disagreement": float(differ), "jsd": float(sum(divergences) / 2)}


def groups(design: str, seeds: int) -> list[Training]:
    """Return all networks of a design."""
    return [member(design, degree, seed) for degree in DEGREES for seed in range(seeds)]


def planned(setting: Setting) -> list[Job]:
    """Return what there is to do: the trainings by their seeds, then the comparisons."""
    alike = [Training(PLAIN, 0, seed) for seed in range(setting.alike)]
    designs = {design: groups(design, setting.seeds) for design in DESIGNS}
    every = dict.fromkeys([*(one for group in designs.values() for one in group), *alike])
    jobs: list[Job] = [TrainingJob(one) for one in sorted(every, key=lambda one: one.seed)]
    for design, networks in designs.items():
        jobs += [PairJob(design, a, b) for a, b in combinations(networks, 2)]
    jobs += [LayersJob(one) for one in alike]
    jobs += [PairJob("alike", a, b) for a, b in combinations(alike, 2)]
    return jobs
