r"""The rotation penalty: the accuracy it costs a network to work in another basis.

A layer ℓ becomes $x \mapsto M\,\ell(x)$ with a fixed matrix M, everything up to it is frozen, and
the rest is trained again (Godfrey et al., NeurIPS 2022, arXiv:2205.14258). An element of the group
of the activation behind ℓ costs nothing, because the next layer can undo it. A rotation costs
something, because no later layer can undo what the activation does to mixed channels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import torch
from torch import Tensor, nn

from sigmascope.capture.guard import copied, randomness_kept, unwrapped
from sigmascope.checks import options_from, with_old_names
from sigmascope.dissection.fine_tuning import FineTuner
from sigmascope.dissection.settings import FineTuning, FineTuningOptions
from sigmascope.errors import FileFormatError, InputError, OptionError, printable
from sigmascope.maths.randomness import as_number
from sigmascope.maths.samples import Array
from sigmascope.measure.batches import place_of
from sigmascope.measure.progress import progress_bar
from sigmascope.measure.subject import current_versions
from sigmascope.stitching.layer import act
from sigmascope.store import decode, encode, read_json, write_json
from sigmascope.symmetry.matrices import as_square
from sigmascope.symmetry.monomial import Monomial
from sigmascope.symmetry.rotations import deviation
from sigmascope.tables import Preformatted
from sigmascope.training.data import as_data
from sigmascope.training.evaluation import accuracy, check_labels, classes_of
from sigmascope.training.feed import feeds_of

if TYPE_CHECKING:
    from sigmascope.figures.drawn import Drawn

KIND, VERSION = "rotation-penalty", 1
MOST = 60  # layers that an error lists


class RotatedLayer(nn.Module):
    """A layer followed by a fixed matrix on its output channels, axis 1."""

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
                f"the matrix acts on {len(self.matrix)} channels, but the layer returns "
                f"{tuple(y.shape)}. Pass a matrix of its size, for axis 1."
            )
        return act(self.matrix, y, "conv")


@dataclass(frozen=True, repr=False)
class RotationPenalty(Preformatted):
    """The accuracy that a matrix behind a layer costs.

    Attributes:
        layer: its path.
        channels: of the layer.
        deviation: spectral norm of M - I.
        base_accuracy: of the original network on the test data, in percent.
        start_accuracy: with the matrix, before training.
        accuracy: with the matrix, at the best epoch.
        best_epoch: its number, from 1; 0 if no epoch was better than the start.
        history: accuracies on the selection samples, before training and after each epoch.
        frozen: the number of frozen parameters.
        trained: the number of trained parameters.
        settings: how they were trained.
        samples: the numbers of samples trained on, selected on and tested on.
        seed: of the order, the held-out samples and the augmentation.
        versions: of the packages that matter.

    >>> import torch
    >>> from sigmascope import dissection
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> samples = torch.randn(64, 2), torch.arange(64) % 2
    >>> found = dissection.rotation_penalty(net, "0", torch.eye(4), (samples, samples), epochs=1)
    >>> found.penalty == found.base_accuracy - found.accuracy, found.layer, found.channels
    (True, '0', 4)
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
        """Accuracy of the original network minus that at the best epoch, in percentage points."""
        return self.base_accuracy - self.accuracy

    def __repr__(self) -> str:
        return printable(
            f"Rotation of {self.channels} channels behind {self.layer} (distance from the identity "
            f"{self.deviation:.3f})\n"
            f"penalty {self.penalty:.2f} points: {self.accuracy:.2f} % at epoch {self.best_epoch} "
            f"of {self.settings.epochs}, {self.start_accuracy:.2f} % before training, "
            f"{self.base_accuracy:.2f} % without the matrix; {self.trained} parameters trained, "
            f"{self.frozen} frozen, {self.samples[2]} test samples"
        )

    def to_dict(self, prefix: str = "") -> dict[str, float]:
        """Return the numbers for a logger: `{prefix}{name}` -> number."""
        names = ("penalty", "accuracy", "start_accuracy", "base_accuracy", "best_epoch")
        return {f"{prefix}{name}": getattr(self, name) for name in (*names, "deviation")}

    def plot(self) -> Drawn:
        """Draw accuracy by epoch; see `sigmascope.figures.draw_rotation_penalty`."""
        from sigmascope.figures.stitching import draw_rotation_penalty

        return draw_rotation_penalty(self)

    def save(self, path: str | Path) -> Path:
        """Write a JSON file, atomically."""
        write_json(path, KIND, VERSION, encode(self))
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> RotationPenalty:
        """Return what `save` wrote; raise a FileFormatError if it is not a rotation penalty."""
        penalty = decode(cls, read_json(path, KIND, VERSION), str(path))
        if len(penalty.history) != penalty.settings.epochs + 1:
            raise FileFormatError(f"{path} is corrupt: its history is not one entry per epoch.")
        return penalty


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
    network = copied(model)
    paths = [path for path, _ in network.named_modules() if path]
    if layer not in paths:
        listing = ", ".join(paths[:MOST]) + ", …" * (len(paths) > MOST)
        raise OptionError(
            f"layer={layer!r} is not a module of this network. Choose from {listing}."
        )
    device, dtype = place_of(network)
    values = as_square(matrix, "matrix").to(device, dtype or torch.get_default_dtype())
    parent, _, name = layer.rpartition(".")
    setattr(network.get_submodule(parent), name, RotatedLayer(network.get_submodule(layer), values))
    return network


@with_old_names(data="batches")
@torch.inference_mode(False)
@torch.enable_grad()  # the rest is trained, even if the caller has switched gradients off
def rotation_penalty(
    model: nn.Module,
    layer: str,
    matrix: Monomial | Array,
    batches: Any,
    *,
    seed: int | torch.Generator = 0,
    progress: bool = True,
    settings: FineTuning | None = None,
    **options: Unpack[FineTuningOptions],
) -> RotationPenalty:
    """Return the accuracy lost when a fixed matrix follows a layer and the rest is trained again.

    All that runs up to the layer is frozen and stays in evaluation mode, so that its batch norms
    keep their statistics. With the identity as the matrix, the result shows the effect of training
    alone. The protocol is that of Godfrey et al., NeurIPS 2022, arXiv:2205.14258.

    Args:
        model: a classifier, (n, …) -> (n, classes), whose modules run in an order that does not
            depend on the input.
        layer: see `rotate_layer`.
        matrix: see `rotate_layer`; such as `group("relu").sample(c, seed)` or
            `random_rotation(c, seed)`.
        batches: a pair (train, test) of loaders or samples, or a `StitchData`.
        seed: of the order, the held-out samples and the augmentation; a number or torch.Generator.
        progress: whether to show a progress bar on a terminal.
        settings: how the rest is trained.
        **options: changes of the settings, such as epochs=10; see `FineTuning`.

    Raises:
        InputError: a matrix of another size, labels outside the classes, nothing to train behind
            the layer, or training that diverged.
        NetworkError: the network does not return logits.
        OptionError: an unknown layer or setting.

    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> samples = torch.randn(64, 2), torch.arange(64) % 2
    >>> found = rotation_penalty(net, "0", torch.eye(4), (samples, samples), epochs=2)
    >>> found.deviation, found.frozen, found.trained, len(found.history)
    (0.0, 12, 10, 3)
    """
    chosen = options_from(FineTuning, options, settings)
    data, network = as_data(batches), rotate_layer(model, layer, matrix)
    number = as_number(seed)
    feeds = feeds_of(data, chosen, number, place_of(network))
    with randomness_kept():
        torch.manual_seed(number)
        few = next(feeds.test.batches(2)).inputs
        classes = classes_of(unwrapped(model), few)
        for feed in (feeds.everything, feeds.test):
            check_labels(feed.labels, classes)
        base, start = (accuracy(one, feeds.test) for one in (unwrapped(model), network))
        tuner = FineTuner(network, layer, few, chosen, number)
        with progress_bar(f"Fine-tuning behind {layer}", chosen.epochs, shown=progress) as advance:
            for _ in tuner.epochs(feeds):
                advance()
    used = network.get_submodule(layer).get_buffer("matrix")
    trained = sum(parameter.numel() for parameter in tuner.parameters)
    return RotationPenalty(
        layer=layer,
        channels=len(used),
        deviation=deviation(used),
        base_accuracy=base,
        start_accuracy=start,
        accuracy=accuracy(network, feeds.test),
        best_epoch=tuner.best_epoch,
        history=tuple(tuner.history),
        frozen=sum(parameter.numel() for parameter in network.parameters()) - trained,
        trained=trained,
        settings=chosen,
        samples=feeds.sizes,
        seed=number,
        versions=current_versions(),
    )
