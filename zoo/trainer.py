"""One training run: the step and its capture on a GPU, and the state from which it goes on."""

from __future__ import annotations

import torch
from objectives import OBJECTIVES, noisy_labels
from recipes import LAYOUTS, PRECISIONS, Recipe, one_cycle
from torch import Tensor, nn


class Trainer:
    """One training run on one device; on a GPU the step is captured once and replayed, so that
    launches cost nothing.
    """

    def __init__(
        self, model: nn.Module, recipe: Recipe, images: Tensor, labels: Tensor, *, seed: int = 0
    ) -> None:
        self.precision = PRECISIONS[recipe.precision]
        self.model, self.recipe = model.to(memory_format=LAYOUTS[recipe.layout]), recipe
        self.device = labels.device
        self.on_gpu = self.device.type == "cuda"
        self.images, self.labels = (
            images,
            noisy_labels(labels, recipe.noise, seed) if recipe.noise else labels,
        )
        self.objective = OBJECTIVES[recipe.objective](recipe, model)
        self.head = self.objective.head.to(self.device)
        self.parameters = [*model.parameters(), *self.head.parameters()]
        self.steps_per_epoch = len(images) // recipe.batch
        self.rate = torch.zeros((), device=self.device)
        self.optimizer = self._optimizer()
        self.chosen = torch.zeros(recipe.batch, dtype=torch.long, device=self.device)
        self.loss = torch.zeros((), device=self.device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.generators = {
            "order": torch.Generator().manual_seed(seed),
            "augmentation": torch.cuda.default_generators[self.device.index]
            if self.on_gpu
            else torch.default_generator,
        }
        torch.backends.cudnn.benchmark = recipe.search

    def _optimizer(self) -> torch.optim.Optimizer:
        decayed = [p for p in self.parameters if p.ndim > 1]
        others = [p for p in self.parameters if p.ndim <= 1]
        groups = [
            {"params": decayed, "weight_decay": self.recipe.decay},
            {"params": others, "weight_decay": 0.0},
        ]
        if self.recipe.optimizer == "sgd":
            return torch.optim.SGD(
                groups, lr=self.rate, momentum=0.9, nesterov=True, fused=self.on_gpu
            )
        return torch.optim.AdamW(groups, lr=self.rate, capturable=self.on_gpu, fused=self.on_gpu)

    def state(self) -> dict[str, dict]:
        """Return copies of all that training changes: weights, optimizer, random numbers."""
        moments = [self.optimizer.state[p] for p in self.parameters]
        return {
            "model": {name: value.clone() for name, value in self.model.state_dict().items()},
            "head": {name: value.clone() for name, value in self.head.state_dict().items()},
            "optimizer": {
                i: {key: value.clone() for key, value in held.items()}
                for i, held in enumerate(moments)
            },
            "generators": {
                name: generator.get_state() for name, generator in self.generators.items()
            },
        }

    @torch.no_grad()
    def restore(self, state: dict[str, dict]) -> None:
        """Go back to a state. A captured step knows its tensors by address, so they are
        overwritten, never replaced.
        """
        self.model.load_state_dict(state["model"])
        self.head.load_state_dict(state["head"])
        for i, parameter in enumerate(self.parameters):
            held, wanted = self.optimizer.state[parameter], state["optimizer"][i]
            for key in held.keys() | wanted.keys():
                if key not in held:
                    held[key] = wanted[key].to(self.device, copy=True)
                elif key in wanted:
                    held[key].copy_(wanted[key])
                else:  # an optimizer before its first step: all its tensors are zero
                    held[key].zero_()
        for name, generator in self.generators.items():
            generator.set_state(state["generators"][name])

    def _step(self) -> None:
        images, labels = self.images[self.chosen], self.labels[self.chosen]
        self.optimizer.zero_grad(set_to_none=False)
        halved = self.on_gpu and self.precision is not torch.float32
        with torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False, enabled=halved):
            loss = self.objective.loss(self.model, images, labels)
        loss.backward()
        if self.recipe.optimizer != "sgd":
            nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        self.optimizer.step()
        self.loss.add_(loss.detach())

    def epoch(self, number: int) -> float:
        """Run one epoch and return the mean loss."""
        self.model.train()
        order = torch.randperm(len(self.images), generator=self.generators["order"]).to(self.device)
        self.loss.zero_()
        steps = self.recipe.epochs * self.steps_per_epoch
        for step in range(self.steps_per_epoch):
            self.rate.fill_(one_cycle(number * self.steps_per_epoch + step, steps, self.recipe))
            self.chosen.copy_(order[step * self.recipe.batch : (step + 1) * self.recipe.batch])
            self.step()
        return float(self.loss) / self.steps_per_epoch

    def finish(self) -> None:
        """Turn the network into a classifier after its last epoch, if its objective was another."""
        self.objective.finish(self.model, self.images, self.labels)

    def step(self) -> None:
        """Make one step with the images `chosen`; on a GPU the first one captures it."""
        if not self.on_gpu:
            self._step()
            return
        if self.graph is None:
            self.graph = self._captured()
        self.graph.replay()

    def _captured(self) -> torch.cuda.CUDAGraph:
        """Warm up, so that gradients and moments have their tensors, capture the step, and undo
        what the warm-up changed.
        """
        before, loss = self.state(), self.loss.clone()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        self.restore(before)
        self.loss.copy_(loss)
        return graph
