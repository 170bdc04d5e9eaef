"""What a network is trained for: to name classes, also under attack, to see how an image was
turned, to know it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from recipes import LAYOUTS, MEAN, STD, Recipe
from torch import Tensor, nn

CLASSES, TURNS = 10, 4
TEMPERATURE = 0.2
NOISE_SEED = 1_000_003  # added to the seed, whose own numbers order the images
# of the radius: a signed step from a random start goes further, and is brought back
OVERSTEP = 1.25
PROBE_STEPS, PROBE_PENALTY = 200, 1e-5


def flipped(images: Tensor) -> Tensor:
    """Flip every image (n, 3, 32, 32) at random."""
    return torch.where(
        torch.rand(len(images), 1, 1, 1, device=images.device) < 0.5, images.flip(3), images
    )


def shifted(images: Tensor, reach: int) -> Tensor:
    """Shift every image at random, by up to `reach` pixels each way; what comes in is zero."""
    n, device = len(images), images.device
    padded = F.pad(images, (reach,) * 4)
    offset = torch.randint(0, 2 * reach + 1, (2, n, 1), device=device) + torch.arange(
        32, device=device
    )
    picked = padded[
        torch.arange(n, device=device)[:, None, None],
        :,
        offset[0][:, :, None],
        offset[1][:, None, :],
    ]
    return picked.permute(0, 3, 1, 2)


def blanked(images: Tensor, side: int) -> Tensor:
    """Set a square of every image, at random, to zero."""
    device = images.device
    corner = torch.randint(0, 33 - side, (2, len(images), 1, 1), device=device)
    row, column = torch.arange(32, device=device)[:, None], torch.arange(32, device=device)[None, :]
    inside = (row >= corner[0]) & (row < corner[0] + side)
    inside = inside & (column >= corner[1]) & (column < corner[1] + side)
    return images.masked_fill(inside[:, None], 0.0)


def augmented(images: Tensor, recipe: Recipe) -> Tensor:
    """Return the images as a recipe shows them: flipped, shifted, with a square blanked, or as they
    are.
    """
    if not recipe.augment:
        return images
    images = shifted(flipped(images), 4)
    return blanked(images, recipe.cutout) if recipe.cutout else images


def _channels(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Return (1, 3, 1, 1), filled on the device, so that a captured step copies nothing."""
    return torch.stack([torch.full((), value, device=device) for value in values]).view(1, 3, 1, 1)


def _range(images: Tensor) -> tuple[Tensor, Tensor]:
    """Return what black and white are after normalization, each (1, 3, 1, 1)."""
    mean, std = (_channels(values, images.device) for values in (MEAN, STD))
    return -mean / std, (255 - mean) / std


def _factors(n: int, channels: int, spread: float, device: torch.device) -> Tensor:
    return 1 + spread * (2 * torch.rand(n, channels, 1, 1, device=device) - 1)


def recolored(images: Tensor) -> Tensor:
    """Jitter brightness, contrast and channels of every image; one in five becomes gray."""
    (black, white), n, device = _range(images), len(images), images.device
    pixels = (images - black) * _factors(n, 1, 0.4, device) * _factors(n, 3, 0.3, device)
    middle = pixels.mean(dim=(1, 2, 3), keepdim=True)
    pixels = middle + (pixels - middle) * _factors(n, 1, 0.4, device)
    pixels = torch.where(
        torch.rand(n, 1, 1, 1, device=device) < 0.2, pixels.mean(dim=1, keepdim=True), pixels
    )
    return torch.clamp(pixels + black, black, white)


def noisy_labels(labels: Tensor, share: float, seed: int) -> Tensor:
    """Return labels of which a share, drawn by the seed, is replaced by another class; all others
    are as likely.
    """
    random = torch.Generator().manual_seed(seed + NOISE_SEED)
    count = round(share * len(labels))
    chosen = torch.randperm(len(labels), generator=random)[:count].to(labels.device)
    step = torch.randint(1, CLASSES, (count,), generator=random).to(labels.device)
    replaced = labels.clone()
    replaced[chosen] = (labels[chosen] + step) % CLASSES
    return replaced


def final_layer(model: nn.Module) -> nn.Linear:
    """Return the layer that a probe replaces, or stop where there is none."""
    layer = getattr(model, "fc", None)
    if not isinstance(layer, nn.Linear):
        raise SystemExit(
            f"{type(model).__name__} has no final linear layer `fc` to fit on its features; "
            "train it with objective='classify'"
        )
    return layer


def features(model: nn.Module, images: Tensor) -> Tensor:
    """Return what the final layer is given, (n, width)."""
    held: list[Tensor] = []
    handle = final_layer(model).register_forward_pre_hook(lambda _, inputs: held.append(inputs[0]))
    try:
        model(images)
    finally:
        handle.remove()
    return held[0]


def probe(model: nn.Module, images: Tensor, labels: Tensor) -> None:
    """Fit the final layer to frozen features of the images as they are: logistic regression, a
    linear probe.

    The features are standardized to fit, which the weights then take up; a feature that never
    varies keeps the weight zero.
    """
    model.eval()
    layer = final_layer(model)
    with torch.no_grad():
        x = torch.cat([features(model, part) for part in images.split(1000)]).double()
    mean, std = x.mean(0), x.std(0)
    x = torch.where(std > 0, (x - mean) / std.clamp_min(1e-12), 0.0)
    weight = torch.zeros_like(layer.weight, dtype=torch.float64).requires_grad_()
    bias = torch.zeros_like(weight[:, 0]).requires_grad_()
    solver = torch.optim.LBFGS([weight, bias], max_iter=PROBE_STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        loss = F.cross_entropy(x @ weight.T + bias, labels) + PROBE_PENALTY * weight.square().sum()
        loss.backward()
        return loss

    solver.step(closure)
    with torch.no_grad():
        scaled = torch.where(std > 0, weight / std.clamp_min(1e-12), 0.0)
        layer.weight.copy_(scaled)
        layer.bias.copy_(bias - scaled @ mean)


def _nothing(model: nn.Module, images: Tensor, labels: Tensor) -> None:
    """Leave a network that names classes as it is."""


@dataclass(frozen=True)
class Objective:
    """What is minimized, the module that only training needs, and what is done with the network in
    the end.
    """

    # of a network, images and labels; it draws what is random itself
    loss: Callable[[nn.Module, Tensor, Tensor], Tensor]
    # trained with the network, then thrown away
    head: nn.Module = field(default_factory=nn.Identity)
    finish: Callable[[nn.Module, Tensor, Tensor], None] = _nothing


def classify(recipe: Recipe, model: nn.Module) -> Objective:
    """Name the class of augmented images."""

    def loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        logits = model(augmented(images, recipe).contiguous(memory_format=LAYOUTS[recipe.layout]))
        return F.cross_entropy(logits.float(), labels, label_smoothing=recipe.smoothing)

    return Objective(loss)


@contextmanager
def statistics_kept(model: nn.Module) -> Iterator[None]:
    """Batch norms go on using the batch, but do not remember it."""
    norms = [
        module
        for module in model.modules()
        if isinstance(module, nn.BatchNorm2d) and module.track_running_stats
    ]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True


def attacked(model: nn.Module, images: Tensor, labels: Tensor, radius: float) -> Tensor:
    """Return images within `radius` steps of 255 of each pixel, after one step against the network
    from a random start.

    Running statistics stay as they are; the images returned, which train the network, are the only
    ones that move them.
    """
    reach = radius / _channels(STD, images.device)
    start = (images + reach * (2 * torch.rand_like(images) - 1)).detach().requires_grad_()
    with statistics_kept(model):
        loss = F.cross_entropy(model(start).float(), labels)
    with torch.autocast(images.device.type, enabled=False):
        (slope,) = torch.autograd.grad(loss, start)
    moved = start.detach() + OVERSTEP * reach * slope.sign()
    black, white = _range(images)
    return torch.clamp(torch.clamp(moved, images - reach, images + reach), black, white)


def adversarial(recipe: Recipe, model: nn.Module) -> Objective:
    """Name the class of augmented images that were changed against the network."""

    def loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        images = augmented(images, recipe).contiguous(memory_format=LAYOUTS[recipe.layout])
        logits = model(attacked(model, images, labels, recipe.radius))
        return F.cross_entropy(logits.float(), labels, label_smoothing=recipe.smoothing)

    return Objective(loss)


def turned(images: Tensor, turns: Tensor) -> Tensor:
    """Turn image i (n, 3, 32, 32) by `turns[i]` quarters."""
    every = torch.stack([images.rot90(quarter, (2, 3)) for quarter in range(TURNS)])
    return every[turns, torch.arange(len(images), device=images.device)]


def rotation(recipe: Recipe, model: nn.Module) -> Objective:
    """Tell by how many quarters each augmented image was turned; the first four logits say it."""
    final_layer(model)

    def loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        turns = torch.randint(0, TURNS, labels.shape, device=images.device)
        images = turned(augmented(images, recipe), turns).contiguous(
            memory_format=LAYOUTS[recipe.layout]
        )
        return F.cross_entropy(
            model(images)[:, :TURNS].float(), turns, label_smoothing=recipe.smoothing
        )

    return Objective(loss, finish=probe)


def nt_xent(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Return how badly each of two views (n, d) finds the other among all 2n − 1, by cosine: the
    mean cross entropy.
    """
    z = F.normalize(torch.cat([first, second]).float())
    n, same = len(first), torch.eye(2 * len(first), dtype=torch.bool, device=z.device)
    with torch.autocast(z.device.type, enabled=False):
        likeness = (z @ z.T / temperature).masked_fill(same, -torch.inf)
    return F.cross_entropy(likeness, torch.arange(2 * n, device=z.device).roll(n))


def simclr(recipe: Recipe, model: nn.Module) -> Objective:
    """Know two views of one image among those of all others (Chen et al. 2020), by a projection of
    the features.
    """
    head = nn.Sequential(
        nn.Linear(final_layer(model).in_features, 128), nn.ReLU(), nn.Linear(128, 64)
    )

    def loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        views = blanked(shifted(flipped(recolored(images.repeat(2, 1, 1, 1))), 8), 12)
        projected = head(features(model, views.contiguous(memory_format=LAYOUTS[recipe.layout])))
        return nt_xent(*projected.chunk(2), TEMPERATURE)

    return Objective(loss, head, probe)


OBJECTIVES: dict[str, Callable[[Recipe, nn.Module], Objective]] = {
    "classify": classify,
    "adversarial": adversarial,
    "rotation": rotation,
    "simclr": simclr,
}
