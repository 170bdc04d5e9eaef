"""What a network must show before it is measured: that its weights are in the right places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from sigmascope.errors import InputError
from sigmascope_papers.real import images
from sigmascope_papers.real.networks import Network

KNOWN, ASKED, NEAREST, SIDE = 240, 120, 10, 96
BATCH = 40


@dataclass(frozen=True)
class Proof:
    """What was seen, in words and as a share, and the least share that convinces."""

    seen: str
    share: float
    least: float

    @property
    def convinces(self) -> bool:
        """Whether the share is large enough."""
        return self.share >= self.least


@torch.no_grad()
def _outputs(model: nn.Module, inputs: Tensor) -> Tensor:
    return torch.cat([model(part) for part in torch.split(inputs, BATCH)])


def classes(network: Network, model: nn.Module) -> Proof:
    """Recognize the 70 labeled images of ImageNet; by chance one in a thousand is right."""
    pictures, labels = images.labeled()
    middles = [images.tensor_of(images.middle(one, network.side)) for one in pictures]
    best = _outputs(model, network.prepare(torch.stack(middles))).topk(5).indices
    first = (best[:, 0] == labels).double().mean()
    five = int((best == labels[:, None]).any(1).sum())
    count = len(labels)
    told = f"top-1 {round(float(first) * count)}/{count}, top-5 {five}/{count} on ImageNet images"
    return Proof(told, float(first), 0.6)


def cifar10(network: Network, model: nn.Module, count: int = 500) -> Proof:
    """Recognize test images of CIFAR-10; by chance one in ten is right."""
    inputs = network.prepare(images.cifar10(0, count))
    right = _outputs(model, inputs).argmax(1) == images.cifar10_classes(count)
    share = float(right.double().mean())
    return Proof(f"{share:.1%} of {count} test images of CIFAR-10", share, 0.89)


def neighbors(network: Network, model: nn.Module) -> Proof:
    """Find classes of CIFAR-10 by the nearest images in the space of features, trained and not."""
    shares = [_neighbors(network, one) for one in (model, network.untrained())]
    told = f"kNN {shares[0]:.1%} on CIFAR-10, {shares[1]:.1%} with random weights"
    return Proof(told, shares[0] - shares[1], 0.08)


def _neighbors(network: Network, model: nn.Module) -> float:
    side = SIDE if network.side == 224 and network.name != "vit_s14" else network.side
    features = []
    for split, count in (("train", KNOWN), ("test", ASKED)):
        starts = range(0, count, BATCH)
        rows = [images.cifar10(start, start + BATCH, side, split=split) for start in starts]
        found = torch.cat([_features(model, network.prepare(one)) for one in rows])
        features.append(normalize(found, dim=1))
    known, asked = features
    votes = images.cifar10_classes(KNOWN, split="train")[(asked @ known.T).topk(NEAREST).indices]
    return float((votes.mode(1).values == images.cifar10_classes(ASKED)).double().mean())


def _features(model: nn.Module, inputs: Tensor) -> Tensor:
    """Return the outputs (n, d), maps averaged."""
    found = _outputs(model, inputs)
    return found.mean((2, 3)) if found.ndim == 4 else found


def unit_means(network: Network, model: nn.Module) -> Proof:
    """Find mean activations of about 1, to which the channels were rescaled on ImageNet."""
    means: list[float] = []
    hooks = [
        module.register_forward_hook(lambda *call: means.append(float(call[-1].mean())))
        for module in model.modules()
        if isinstance(module, nn.ReLU)
    ]
    _outputs(model, network.inputs("pictures", 0, 16))
    for hook in hooks:
        hook.remove()
    told = f"mean output of the {len(means)} ReLUs from {min(means):.2f} to {max(means):.2f}"
    return Proof(told, min(min(means), 1 / max(means)), 0.6)


PROOFS: dict[str, Callable[[Network, nn.Module], Proof]] = {
    "classes": classes,
    "cifar10": cifar10,
    "neighbors": neighbors,
    "unit means": unit_means,
}


def prove(network: Network, model: nn.Module) -> Proof:
    """Return what a network shows.

    Raises:
        InputError: it does not recognize what it should; its weights are in the wrong places.
    """
    found = PROOFS[network.proof](network, model)
    if not found.convinces:
        raise InputError(
            f"{network.title} of {network.package_version} does not prove itself: {found.seen}; "
            f"expected {found.least:g} at least, got {found.share:.3f}. Remove it from the cache "
            "and fetch it again."
        )
    return found
