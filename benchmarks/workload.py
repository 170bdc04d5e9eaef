"""The pooled inputs and outputs of the 49 ReLU calls of ResNet-50, for 512 images with the
statistics of photographs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import torch
from torch import Tensor, nn

IMAGES = 512
SIDE = 224


def torchvision_models() -> object:
    """Import torchvision's models, also where its wheel was built for another torch.

    Such a wheel fails on two detection operators whose schemas nobody declared. The networks do not
    use them, so declaring the schemas is enough.
    """
    try:
        return importlib.import_module("torchvision.models")
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        torchvision_models.library = library  # type: ignore[attr-defined]  # the declaration lives as long as its object
        return importlib.import_module("torchvision.models")


def photographs(count: int, side: int = SIDE, *, seed: int = 0, device: str = "cpu") -> Tensor:
    """Draw images (count, 3, side, side) with a 1/f amplitude spectrum, mostly gray, of varying
    contrast and brightness.
    """
    generator = torch.Generator().manual_seed(seed)
    frequency = torch.fft.fftfreq(side)
    radius = torch.sqrt(frequency[:, None] ** 2 + frequency[None, :] ** 2).clamp_min(1 / side)
    # Luminance carries most of the energy of a photograph and the two color differences little of
    # it.
    colors = torch.tensor([[1.0, 0.15, 0.05], [1.0, 0.0, -0.1], [1.0, -0.15, 0.05]], device=device)
    images = []
    for start in range(0, count, 64):
        size = min(64, count - start)
        noise = torch.randn(size, 3, side, side, generator=generator).to(device)
        contrast = (0.4 + 0.8 * torch.rand(size, 1, 1, 1, generator=generator)).to(device)
        brightness = (0.5 * torch.randn(size, 1, 1, 1, generator=generator)).to(device)
        field = torch.fft.ifft2(torch.fft.fft2(noise) / radius.to(device)).real
        field = field / field.std(dim=(2, 3), keepdim=True)
        images.append(torch.einsum("rc,nchw->nrhw", colors, field) * contrast + brightness)
    return torch.cat(images)


def resnet50(*, device: str = "cpu") -> nn.Module:
    """Build torchvision's ResNet-50 with seeded weights and batch-norm statistics calibrated on
    four batches of 32.
    """
    torch.manual_seed(0)
    model: nn.Module = torchvision_models().resnet50(weights=None).to(device)  # type: ignore[attr-defined]
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # a plain average over the calibration batches
    model.train()
    with torch.no_grad():
        for batch in photographs(128, seed=1, device=device).split(32):
            model(batch)
    return model.eval()


def relu_features(
    model: nn.Module,
    images: Tensor,
    *,
    batch: int = 32,
    progress: Callable[[int], None] | None = None,
) -> list[tuple[Tensor, Tensor]]:
    """Average the input and output of every ReLU call over space: 49 pairs (x, y) of shape (n,
    channels) in float32.
    """
    calls: list[tuple[list[Tensor], list[Tensor]]] = []
    position = 0

    def before(_: nn.Module, inputs: tuple[Tensor]) -> None:
        if position == len(calls):
            calls.append(([], []))
        calls[position][0].append(inputs[0].mean(dim=(2, 3)))

    def after(_: nn.Module, __: tuple[Tensor], output: Tensor) -> None:
        nonlocal position
        calls[position][1].append(output.mean(dim=(2, 3)))
        position += 1

    handles = []
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            handles += [
                module.register_forward_pre_hook(before),
                module.register_forward_hook(after),
            ]
    with torch.no_grad():
        for start in range(0, len(images), batch):
            position = 0
            model(images[start : start + batch])
            if progress:
                progress(min(start + batch, len(images)))
    for handle in handles:
        handle.remove()
    return [(torch.cat(x), torch.cat(y)) for x, y in calls]
