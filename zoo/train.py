"""Train the networks of the zoo on CIFAR-10: `python zoo/train.py resnet20 --seed 0 --data DIR`, one after another.

Every run is seeded; a network that is finished is not trained again. `--data` is a folder with the arrays that
`python zoo/data.py` writes. The weights go to `--out` as safetensors, at initialisation and at the end (and on the way with
`--snapshots`), with a log in JSON lines.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from sigmascope.catalog.cifar import NETWORKS

MEAN, STD = (125.307, 122.961, 113.8575), (51.5865, 50.847, 51.255)


@dataclass(frozen=True)
class Recipe:
    """How a network is trained: one cycle of the learning rate, flips and shifts of up to four pixels."""

    optimizer: str = "sgd"
    rate: float = 0.4
    decay: float = 5e-4
    epochs: int = 60
    batch: int = 512
    smoothing: float = 0.0
    warm: float = 0.25  # the share of the steps in which the rate rises
    cutout: int = 0  # side of a square that is blanked


ADAM = Recipe(optimizer="adamw", rate=2e-3, decay=0.05, epochs=100, batch=256, smoothing=0.1, warm=0.1, cutout=8)
RECIPES: dict[str, Recipe] = {
    "resnet20": Recipe(epochs=80),
    "plain56": Recipe(rate=0.1, epochs=100),
    "plain32": Recipe(rate=0.2, epochs=80),
    "vit": replace(ADAM, epochs=150),
    "convnext": replace(ADAM, epochs=80),
    "myrtle": Recipe(epochs=40),
    "myrtle-nobn": Recipe(optimizer="adamw", rate=1e-3, decay=1e-2, epochs=50, batch=128, warm=0.2),
    "vgg": Recipe(rate=0.2),
    "resnet20-leaky0.9": Recipe(rate=0.1),
    "resnet20-leaky1": Recipe(rate=0.1),
}


def augmented(images: Tensor, recipe: Recipe) -> Tensor:
    """Flip and shift every image at random, and blank a square of it."""
    n, device = len(images), images.device
    images = torch.where(torch.rand(n, 1, 1, 1, device=device) < 0.5, images.flip(3), images)
    padded = F.pad(images, (4, 4, 4, 4))
    offset = torch.randint(0, 9, (2, n, 1), device=device) + torch.arange(32, device=device)
    picked = padded[torch.arange(n, device=device)[:, None, None], :, offset[0][:, :, None], offset[1][:, None, :]]
    images = picked.permute(0, 3, 1, 2)
    if recipe.cutout:
        corner = torch.randint(0, 33 - recipe.cutout, (2, n, 1, 1), device=device)
        row, column = torch.arange(32, device=device)[:, None], torch.arange(32, device=device)[None, :]
        inside = (row >= corner[0]) & (row < corner[0] + recipe.cutout)
        inside = inside & (column >= corner[1]) & (column < corner[1] + recipe.cutout)
        images = images.masked_fill(inside[:, None], 0.0)
    return images


def normalised(pixels: Tensor) -> Tensor:
    mean, std = (torch.tensor(values, device=pixels.device).view(1, 3, 1, 1) for values in (MEAN, STD))
    return (pixels.float() - mean) / std


def one_cycle(step: int, steps: int, recipe: Recipe) -> float:
    rising = recipe.warm * steps
    if step < rising:
        return recipe.rate * (0.04 + 0.96 * step / rising)
    return recipe.rate * 0.5 * (1 + math.cos(math.pi * (step - rising) / (steps - rising)))


class Trainer:
    """One training run on one device; on a GPU the step is captured once and replayed, so that launches cost nothing."""

    def __init__(self, model: nn.Module, recipe: Recipe, images: Tensor, labels: Tensor) -> None:
        self.model, self.recipe = model, recipe
        self.device = labels.device
        self.images, self.labels = images, labels
        self.steps_per_epoch = len(images) // recipe.batch
        self.rate = torch.zeros((), device=self.device)
        self.optimizer = self._optimizer()
        self.chosen = torch.zeros(recipe.batch, dtype=torch.long, device=self.device)
        self.loss = torch.zeros((), device=self.device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def _optimizer(self) -> torch.optim.Optimizer:
        decayed = [p for p in self.model.parameters() if p.ndim > 1]
        others = [p for p in self.model.parameters() if p.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": self.recipe.decay}, {"params": others, "weight_decay": 0.0}]
        fused = self.device.type == "cuda"
        if self.recipe.optimizer == "sgd":
            return torch.optim.SGD(groups, lr=self.rate, momentum=0.9, nesterov=True, fused=fused)
        return torch.optim.AdamW(groups, lr=self.rate, capturable=fused, fused=fused)

    def _step(self) -> None:
        x = augmented(self.images[self.chosen], self.recipe)
        x = x.contiguous(memory_format=torch.channels_last)
        self.optimizer.zero_grad(set_to_none=False)
        with torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False, enabled=self.device.type == "cuda"):
            logits = self.model(x)
        loss = F.cross_entropy(logits.float(), self.labels[self.chosen], label_smoothing=self.recipe.smoothing)
        loss.backward()
        if self.recipe.optimizer != "sgd":
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
        self.optimizer.step()
        self.loss.add_(loss.detach())

    def epoch(self, number: int, generator: torch.Generator) -> float:
        """Run one epoch and return the mean loss."""
        self.model.train()
        order = torch.randperm(len(self.images), generator=generator).to(self.device)
        self.loss.zero_()
        steps = self.recipe.epochs * self.steps_per_epoch
        for step in range(self.steps_per_epoch):
            self.rate.fill_(one_cycle(number * self.steps_per_epoch + step, steps, self.recipe))
            self.chosen.copy_(order[step * self.recipe.batch : (step + 1) * self.recipe.batch])
            self._replay()
        return float(self.loss) / self.steps_per_epoch

    def _replay(self) -> None:
        if self.device.type != "cuda":
            self._step()
            return
        if self.graph is None:
            self.graph = self._captured()
        self.graph.replay()

    def _captured(self) -> torch.cuda.CUDAGraph:
        """Warm up on a copy of the state, put it back, and capture the step."""
        saved = {name: value.clone() for name, value in self.model.state_dict().items()}
        rate = self.rate.clone()
        self.rate.zero_()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        self.model.load_state_dict(saved)
        for state in self.optimizer.state.values():
            for value in state.values():
                if isinstance(value, Tensor):
                    value.zero_()
        self.loss.zero_()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        self.model.load_state_dict(saved)
        self.rate.copy_(rate)
        self.loss.zero_()
        return graph


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the share of images that the network, in float32, puts into the right class."""
    model.eval()
    right = sum(int((model(x).argmax(1) == y).sum()) for x, y in zip(images.split(1000), labels.split(1000), strict=True))
    return right / len(images)


def save_weights(model: nn.Module, path: Path, *, half: bool = False) -> None:
    tensors = {}
    for name, value in model.state_dict().items():
        kept = value.detach().cpu().contiguous()
        tensors[name] = kept.half() if half and kept.is_floating_point() else kept
    save_file(tensors, path)


def train(
    name: str, seed: int, data: dict[str, Tensor], out: Path, *, snapshots: bool = False, epochs: int | None = None
) -> dict:
    """Train one network, or go on with it, and return its log entry."""
    recipe = RECIPES.get(name, Recipe())
    recipe = replace(recipe, epochs=epochs or recipe.epochs)
    device = data["train_labels"].device
    torch.manual_seed(seed)
    model = NETWORKS[name]().to(device).to(memory_format=torch.channels_last)
    label = f"{name}-s{seed}"
    save_weights(model, out / f"{label}-init.safetensors")
    trainer = Trainer(model, recipe, data["train_images"], data["train_labels"])
    generator = torch.Generator().manual_seed(seed)
    started, best = time.time(), 0.0
    with (out / f"{label}.jsonl").open("w") as log:
        for number in range(recipe.epochs):
            loss = trainer.epoch(number, generator)
            if number % 10 == 9 or number == recipe.epochs - 1:
                best = accuracy(model, data["test_images"], data["test_labels"])
                line = {"epoch": number + 1, "loss": loss, "accuracy": best, "seconds": round(time.time() - started, 1)}
                log.write(json.dumps(line) + "\n")
                log.flush()
            if snapshots and number + 1 in (1, 3, 10, 30):
                save_weights(model, out / f"{label}-e{number + 1}.safetensors")
    save_weights(model, out / f"{label}.safetensors")
    entry = {"network": name, "seed": seed, "accuracy": best, "seconds": round(time.time() - started, 1)} | asdict(recipe)
    (out / f"{label}.json").write_text(json.dumps(entry))
    return entry


def load_data(folder: Path, device: str) -> dict[str, Tensor]:
    """Load the arrays that `zoo/data.py` writes to the device, the images normalised."""
    data = {path.stem: torch.from_numpy(np.load(path)).to(device) for path in folder.glob("*.npy")}
    return {name: normalised(values) if name.endswith("images") else values.long() for name, values in data.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+", help=f"NAME or NAME:SEED; names: {', '.join(NETWORKS)}")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("zoo/runs"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--snapshots", action="store_true", help="weights after 1, 3, 10 and 30 epochs too")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no further network after so long")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    data, started = load_data(args.data, args.device), time.time()
    for job in args.networks:
        name, _, seed = job.partition(":")
        if time.time() - started > 60 * args.minutes:
            break
        if (args.out / f"{name}-s{seed or 0}.json").exists():
            continue
        entry = train(name, int(seed or 0), data, args.out, snapshots=args.snapshots, epochs=args.epochs)
        print(f"{job}: {100 * entry['accuracy']:.2f} % in {entry['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
