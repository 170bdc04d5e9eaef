"""One architecture under different trainings, which Table 3 and Figures 19 and 20 are about.

The paper has 17 checkpoints of ResNet-50: supervised, contrastive with prototypes, contrastive with
relations. Here it is ResNet-20 on CIFAR-10: supervised with and without augmentation; perturbed, by
wrong labels or by adversarial examples; and self-supervised, by telling rotations apart or by
contrasting views. The last ones have never seen a class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sigmascope.compare.distances import Distances, distances
from sigmascope.measure.signature import Signature
from sigmascope_papers.nonlinearity.cases import Array
from sigmascope_papers.setting import Setting

__all__ = ["KINDS", "Trainings", "measure_trainings"]

KINDS: dict[str, str] = {
    "resnet20": "supervised",
    "resnet20-noaug": "supervised",
    "resnet20-noisy": "perturbed",
    "resnet20-adversarial": "perturbed",
    "resnet20-rotation": "self-supervised",
    "resnet20-simclr": "self-supervised",
}
"""Training -> its kind."""
SEEDS = {"resnet20": (0, 1, 2, 3)}


@dataclass(frozen=True, eq=False)
class Trainings:
    """Signatures of one architecture under different trainings, and of other architectures.

    Attributes:
        trained: all of the one architecture; their names begin with that of the training.
        others: one network for each other group of the cast.
    """

    trained: tuple[Signature, ...]
    others: tuple[Signature, ...]

    @property
    def trainings(self) -> list[str]:
        """The training of each of `trained`."""
        return [one.name.removeprefix("sigmascope/").partition(":")[0] for one in self.trained]

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of training, by name."""
        return {
            one.name: KINDS[training]
            for one, training in zip(self.trained, self.trainings, strict=True)
        }

    def distances(self) -> Distances:
        """Return the distances between the trainings."""
        return distances(self.trained)

    def averaged(self) -> tuple[list[str], Array]:
        """Return the trainings, and their distances (t, t) averaged over pairs of seeds; on the
        diagonal those of two seeds.
        """
        matrix, labels = self.distances().matrix, np.array(self.trainings)
        names = list(dict.fromkeys(self.trainings))
        off = ~np.eye(len(labels), dtype=bool)
        means = [
            [float(matrix[off & np.outer(labels == a, labels == b)].mean()) for b in names]
            for a in names
        ]
        return names, np.array(means)


def measure_trainings(setting: Setting) -> Trainings:
    """Read or measure the signatures."""
    names = [f"{training}:{seed}" for training in KINDS for seed in SEEDS.get(training, (0, 1))]
    trained = setting.runs(names)
    groups = setting.cast.groups()
    others = [name for name in setting.cast.leads if groups[name] != "ResNets"]
    return Trainings(
        *(tuple(run.signature for run in runs) for runs in (trained, setting.runs(others)))
    )
