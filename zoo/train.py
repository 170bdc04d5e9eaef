"""Train the networks of the zoo on CIFAR-10: `python zoo/train.py resnet20:0 plain20:0 --data DIR`,
one after another.

Every run is seeded. A network that is finished is not trained again, and one that was interrupted
goes on from its file `.partial`. `--data` is a folder with the arrays that `python zoo/data.py`
writes. The weights go to `--out` as safetensors, at initialization and at the end (and on the way
with `--snapshots`), with a log in JSON lines.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from recipes import MEAN, STD, Job, planned
from safetensors.torch import save_file
from torch import Tensor, nn
from trainer import Trainer

from sigmascope.catalog.cifar import NETWORKS

SNAPSHOTS = (1, 3, 10, 30)
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
PAUSE = 20.0  # seconds of training, at least, between two writings of a partial file


class OutOfTime(Exception):  # noqa: N818 (not an error: the run goes on later)
    """Training stopped between two epochs, and what it needs to go on is written."""


def normalized(pixels: Tensor) -> Tensor:
    mean, std = (
        torch.tensor(values, device=pixels.device).view(1, 3, 1, 1) for values in (MEAN, STD)
    )
    return (pixels.float() - mean) / std


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the share of images that the network, in float32, puts into the right class."""
    model.eval()
    right = sum(
        int((model(x).argmax(1) == y).sum())
        for x, y in zip(images.split(1000), labels.split(1000), strict=True)
    )
    return right / len(images)


def save_weights(model: nn.Module, path: Path) -> None:
    save_file(
        {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()},
        path,
    )


class Progress:
    """How far a run has come, on disk and on the screen: its log, its partial file, a line on
    standard error.
    """

    def __init__(self, job: Job, trainer: Trainer, out: Path) -> None:
        self.job, self.trainer = job, trainer
        self.partial, self.log_file = out / f"{job.label}.partial", out / f"{job.label}.jsonl"
        self.epoch, self.seconds_before, self.log = 0, 0.0, []
        # What must agree for a partial file to be of the same run; random numbers differ between
        # kinds of device.
        self.run = {"recipe": asdict(job.recipe), "device": trainer.device.type}
        if self.partial.exists():
            self._resume()
        self.first = self.epoch
        self.started = self.saved = time.monotonic()

    def _resume(self) -> None:
        try:
            found = torch.load(self.partial, map_location="cpu", weights_only=True)
            run, state = found["run"], found["state"]
            self.epoch, self.seconds_before, self.log = (
                found["epoch"],
                found["seconds"],
                found["log"],
            )
        except Exception as error:  # of zip, of pickle, or of what is in it
            raise SystemExit(
                f"{self.partial}: not a whole partial file; remove it to train afresh"
            ) from error
        if run != self.run:
            raise SystemExit(
                f"{self.partial}: written by another recipe or device; remove it to train afresh"
            )
        self.trainer.restore(state)

    @property
    def seconds(self) -> float:
        """The time that training has taken so far, in all its parts."""
        return round(self.seconds_before + time.monotonic() - self.started, 1)

    def save(self) -> None:
        """Write the partial file under a temporary name first, so that it is always complete."""
        held = {"epoch": self.epoch, "seconds": self.seconds, "log": self.log}
        new = self.partial.with_name(f"{self.partial.name}.new")
        torch.save({"run": self.run, "state": self.trainer.state(), **held}, new)
        new.replace(self.partial)
        self.saved = time.monotonic()

    def add(self, loss: float, accuracy: float) -> None:
        """Add a line to the log and drop lines written after the last partial file."""
        self.log.append(
            {"epoch": self.epoch, "loss": loss, "accuracy": accuracy, "seconds": self.seconds}
        )
        self.log_file.write_text("".join(json.dumps(line) + "\n" for line in self.log))

    def show(self, loss: float, *, last: bool) -> None:
        """Say where the run stands: on a terminal in one line that is rewritten, elsewhere ten
        times in all.
        """
        epochs = self.job.recipe.epochs
        left = (time.monotonic() - self.started) / (self.epoch - self.first) * (epochs - self.epoch)
        line = f"{self.job.label}: epoch {self.epoch}/{epochs}, loss {loss:.3f}, {left:.0f} s left"
        if sys.stderr.isatty():
            print(f"\r{line}\x1b[K", end="\n" if last else "", file=sys.stderr, flush=True)
        elif last or 10 * self.epoch // epochs > 10 * (self.epoch - 1) // epochs:
            print(line, file=sys.stderr, flush=True)


def train(
    job: Job,
    data: dict[str, Tensor],
    out: Path,
    *,
    snapshots: bool = False,
    deadline: float = math.inf,
) -> dict[str, Any]:
    """Train one network, or go on with it, and return its log entry.

    Raises:
        OutOfTime: An epoch has ended after the `deadline`, in the seconds of `time.monotonic`.
    """
    torch.manual_seed(job.seed)
    model = NETWORKS[job.network]().to(data["train_labels"].device)
    save_weights(model, out / f"{job.label}-init.safetensors")
    trainer = Trainer(model, job.recipe, data["train_images"], data["train_labels"], seed=job.seed)
    progress, epochs = Progress(job, trainer, out), job.recipe.epochs
    for number in range(progress.epoch, epochs):
        loss = trainer.epoch(number)
        progress.epoch = number + 1
        if progress.epoch == epochs:
            trainer.finish()
        if progress.epoch % 10 == 0 or progress.epoch == epochs:
            progress.add(loss, accuracy(model, data["test_images"], data["test_labels"]))
        if snapshots and progress.epoch in SNAPSHOTS:
            save_weights(model, out / f"{job.label}-e{progress.epoch}.safetensors")
        stopping = progress.epoch < epochs and time.monotonic() > deadline
        progress.show(loss, last=stopping or progress.epoch == epochs)
        if stopping or time.monotonic() - progress.saved >= PAUSE:
            progress.save()
        if stopping:
            raise OutOfTime(f"{job.label} ({progress.epoch} of {epochs} epochs)")
    save_weights(model, out / f"{job.label}.safetensors")
    reached = {"accuracy": progress.log[-1]["accuracy"], "seconds": progress.seconds}
    entry = {"network": job.network, "seed": job.seed} | reached | asdict(job.recipe)
    (out / f"{job.label}.json").write_text(json.dumps(entry))
    progress.partial.unlink(missing_ok=True)
    return entry


def load_data(folder: Path, device: str) -> dict[str, Tensor]:
    """Load the arrays that `zoo/data.py` writes to the device, the images normalized."""
    missing = [f"{name}.npy" for name in ARRAYS if not (folder / f"{name}.npy").is_file()]
    if missing:
        raise SystemExit(
            f"{folder}: {', '.join(missing)} not there; write them with python zoo/data.py "
            f"PACKAGE {folder}"
        )
    try:
        data = {
            name: torch.from_numpy(np.load(folder / f"{name}.npy")).to(device) for name in ARRAYS
        }
    except (ValueError, TypeError, EOFError) as error:
        raise SystemExit(
            f"{folder}: an array cannot be read ({error}); write them again with python zoo/data.py"
        ) from error
    for split in ("train", "test"):
        images, labels = data[f"{split}_images"], data[f"{split}_labels"]
        if images.shape != (len(labels), 3, 32, 32):
            told = (
                f"{split}_images.npy is of shape {tuple(images.shape)}, with {len(labels)} labels"
            )
            raise SystemExit(f"{folder}: {told}; write them again with python zoo/data.py")
    return {
        name: normalized(values) if name.endswith("images") else values.long()
        for name, values in data.items()
    }


def check_jobs(jobs: list[Job], images: int, out: Path, *, epochs: int | None) -> None:
    """Stop, before anything is trained, where a job cannot be done or was done otherwise."""
    for job in jobs:
        if images < job.recipe.batch:
            raise SystemExit(
                f"{job.label}: {images} images do not make one batch of {job.recipe.batch}; "
                "take more images"
            )
        finished = out / f"{job.label}.json"
        if epochs is None or not finished.exists():
            continue
        trained = json.loads(finished.read_text())["epochs"]
        if trained != epochs:
            raise SystemExit(
                f"{finished}: trained for {trained} epochs, not {epochs}; remove it, or "
                "choose another --out"
            )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "networks", nargs="+", help=f"NAME or NAME:SEED; names: {', '.join(NETWORKS)}"
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("zoo/runs"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int)
    parser.add_argument(
        "--snapshots", action="store_true", help="weights after 1, 3, 10 and 30 epochs too"
    )
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="stop after so long, at the end of an epoch"
    )
    args = parser.parse_args(arguments)
    jobs = [planned(text, args.epochs) for text in args.networks]
    deadline, unfinished = time.monotonic() + 60 * args.minutes, []
    data = load_data(args.data, args.device)
    args.out.mkdir(parents=True, exist_ok=True)
    check_jobs(jobs, len(data["train_labels"]), args.out, epochs=args.epochs)
    for job in jobs:
        if (args.out / f"{job.label}.json").exists():
            continue
        if time.monotonic() > deadline:
            unfinished.append(job.label)
            continue
        try:
            entry = train(job, data, args.out, snapshots=args.snapshots, deadline=deadline)
        except OutOfTime as stopped:
            unfinished.append(str(stopped))
            continue
        print(f"{job.label}: {100 * entry['accuracy']:.2f} % in {entry['seconds']} s", flush=True)
    if unfinished:
        print(
            f"Unfinished: {', '.join(unfinished)}. The same command goes on with them.", flush=True
        )


if __name__ == "__main__":
    main()
