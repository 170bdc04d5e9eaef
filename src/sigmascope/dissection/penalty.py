r"""The rotation penalty: what it costs a network to work in another basis.

A layer ℓ becomes $x \mapsto M\,\ell(x)$ with a fixed matrix M, everything up to it is frozen, and
the rest is trained again. An element of the group of the activation behind ℓ costs nothing: the
next layer can undo it. A rotation does, since no later layer can undo what the activation does to
mixed channels.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import randomness_kept, unwrapped
from sigmascope.dissection.settings import FineTuning
from sigmascope.dissection.tuning import Tuning, accuracy, check_classes, feeds
from sigmascope.errors import FileFormatError, InputError, OptionError
from sigmascope.maths.samples import Array
from sigmascope.measure.batches import place_of
from sigmascope.measure.progress import progress_bar
from sigmascope.measure.subject import current_versions
from sigmascope.stitching.data import StitchData, as_data
from sigmascope.stitching.layer import act
from sigmascope.store import decode, encode, read_json, write_json
from sigmascope.symmetry.matrices import as_square
from sigmascope.symmetry.monomial import Monomial
from sigmascope.symmetry.rotations import deviation

__all__ = ["FineTuning", "RotatedLayer", "RotationPenalty", "rotate_layer", "rotation_penalty"]

KIND, VERSION = "rotation-penalty", 1
SHOWN = 60  # choices that an error lists


class RotatedLayer(nn.Module):
    """A layer, and a fixed matrix on the channels that it puts out, axis 1."""

    matrix: Tensor

    def __init__(self, layer: nn.Module, matrix: Tensor) -> None:
        super().__init__()
        self.layer = layer
        self.register_buffer("matrix", matrix)

    def forward(self, x: Tensor) -> Tensor:
        """Return M ℓ(x)."""
        y: Tensor = self.layer(x)
        if y.ndim < 2 or y.shape[1] != len(self.matrix):
            raise InputError(
                f"the layer puts out {tuple(y.shape)}, and the matrix acts on "
                f"{len(self.matrix)} channels, axis 1."
            )
        return act(self.matrix, y, "conv")


@dataclass(frozen=True, repr=False)
class RotationPenalty:
    """What a matrix behind a layer costs.

    Attributes:
        layer: its path.
        channels: of the layer.
        deviation: spectral norm of M - I.
        base_accuracy: of the network as it was, on the test data, in percent.
        start_accuracy: with the matrix, before any training.
        accuracy: with the matrix, at the best epoch.
        best_epoch: its number, from 1; 0 if no epoch was better than none.
        history: on the data by which the epoch is chosen, before training and after each epoch.
        frozen: parameters that were not trained.
        trained: parameters that were.
        settings: how.
        samples: how many were trained on, chosen by, and tested on.
        seed: of the order and the augmentation.
        versions: of the packages that matter.
    """

    layer: str
    channels: int
    deviation: float
    base_accuracy: float
    start_accuracy: float
    accuracy: float
    best_epoch: int
    history: tuple[float, ...]
    frozen: int
    trained: int
    settings: FineTuning
    samples: tuple[int, int, int]
    seed: int
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def penalty(self) -> float:
        """The accuracy of the network as it was minus that at the best epoch, in percentage points."""
        return self.base_accuracy - self.accuracy

    def __repr__(self) -> str:
        return (
            f"Rotation of {self.channels} channels behind {self.layer} (off the identity by "
            f"{self.deviation:.3f})\n"
            f"penalty {self.penalty:.2f} points: {self.accuracy:.2f} % at epoch "
            f"{self.best_epoch} of {self.settings.epochs}, "
            f"{self.start_accuracy:.2f} % before training, {self.base_accuracy:.2f} % "
            "without the matrix; "
            f"{self.trained} parameters trained, {self.frozen} frozen, {self.samples[2]} "
            "test samples"
        )

    def save(self, path: str | Path) -> Path:
        """Write a JSON file, which replaces an older one at once or not at all."""
        write_json(path, KIND, VERSION, encode(self))
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> RotationPenalty:
        """Read what `save` wrote.

        Raises:
            FileNotFoundError: there is no such file.
            FileFormatError: truncated, foreign, newer than this version, or hostile.
        """
        found = decode(cls, read_json(path, KIND, VERSION), str(path))
        if len(found.history) != found.settings.epochs + 1:
            raise FileFormatError(
                f"{path}: {len(found.history)} entries in its history. Write it again."
            )
        return found


def rotate_layer(model: nn.Module, layer: str, matrix: Monomial | Array) -> nn.Module:
    """Return a copy of a network with a fixed matrix behind one layer.

    Args:
        model: any network; it is not changed.
        layer: the path of a module, such as "0" or "blocks.3.conv1", whose channels are on axis 1.
        matrix: (c, c) or a `Monomial`; it acts on columns of channels.

    Raises:
        OptionError: no such module.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    >>> x = torch.randn(5, 2)
    >>> torch.equal(rotate_layer(net, "0", torch.eye(2))(x), net(x))
    True
    """
    network = copy.deepcopy(unwrapped(model))
    paths = [path for path, _ in network.named_modules() if path]
    if layer not in paths:
        more = f" and {len(paths) - SHOWN} more, see named_modules()" if len(paths) > SHOWN else ""
        raise OptionError(
            f"layer={layer!r} is no module of this network. Choose one of "
            f"{', '.join(paths[:SHOWN])}{more}."
        )
    device, dtype = place_of(network)
    values = as_square(matrix, "matrix").to(device, dtype or torch.get_default_dtype())
    parent, _, name = layer.rpartition(".")
    setattr(network.get_submodule(parent), name, RotatedLayer(network.get_submodule(layer), values))
    return network


@torch.inference_mode(False)
@torch.enable_grad()  # whatever the caller has switched off: the rest is trained
def rotation_penalty(
    model: nn.Module,
    layer: str,
    matrix: Monomial | Array,
    data: StitchData | object,
    *,
    settings: FineTuning | None = None,
    seed: int = 0,
    progress: bool = True,
) -> RotationPenalty:
    """Put a fixed matrix behind a layer, freeze all that runs up to it, train the rest, and measure
    what was lost.

    Frozen parts stay in evaluation mode, so that their batch norms keep their statistics. With the
    identity for a matrix the result tells how much training alone changes.

    Args:
        model: a classifier, (n, …) -> (n, classes), whose modules run in an order that does not
            depend on the input.
        layer: see `rotate_layer`.
        matrix: see `rotate_layer`; such as `group("relu").sample(c, seed)` or `random_rotation(c,
            seed)`.
        data: a pair (training, test) of loaders or samples, or a `StitchData`.
        settings: see `FineTuning`.
        seed: of the order, the held-out samples and the augmentation.
        progress: whether to show a bar on a terminal.

    Raises:
        InputError: a matrix of another size, labels outside the classes, nothing behind the layer
            that could be trained, or training that diverged.
        NetworkError: the network does not put out logits.
        OptionError: no such layer.
    """
    chosen, found = settings or FineTuning(), as_data(data)
    network = rotate_layer(model, layer, matrix)
    train, held, test = feeds(found, chosen, seed, *place_of(network))
    with randomness_kept():
        torch.manual_seed(seed)
        few = next(test.batches(2))[1]
        check_classes(unwrapped(model), few, found)
        base, start = accuracy(unwrapped(model), test), accuracy(network, test)
        tuning = Tuning(network, layer, few, chosen, seed)
        with progress_bar(f"Fine-tuning behind {layer}", chosen.epochs, shown=progress) as advance:
            for _ in tuning.epochs(train, held):
                advance()
    used = network.get_submodule(layer).get_buffer("matrix")
    trained = sum(parameter.numel() for parameter in tuning.parameters)
    return RotationPenalty(
        layer=layer,
        channels=len(used),
        deviation=deviation(used),
        base_accuracy=base,
        start_accuracy=start,
        accuracy=accuracy(network, test),
        best_epoch=tuning.best_epoch,
        history=tuple(tuning.history),
        frozen=sum(parameter.numel() for parameter in network.parameters()) - trained,
        trained=trained,
        settings=chosen,
        samples=(len(train), len(held), len(test)),
        seed=seed,
        versions=current_versions(),
    )
