"""Numbers that the non-linearity paper prints in its tables."""

from __future__ import annotations

__all__ = ["METRICS", "TABLE_1", "TABLE_1_STD", "TABLE_2", "TABLE_3"]

METRICS = ("cka", "norm", "sparsity", "entropy", "r2")
"""The columns of Tables 1 and 2, under our names."""

Row = tuple[float, float, float, float, float]

TABLE_1: dict[str, Row] = {
    "VGGs": (0.0, -0.67, -0.18, -0.90, -0.21),
    "ResNets": (0.53, -0.41, -0.68, -0.38, -0.48),
    "DenseNets": (0.88, -0.76, -0.89, -0.66, 0.85),
    "MNASNets": (0.67, -0.54, -0.63, -0.55, 0.45),
    "EffNets": (0.42, -0.16, -0.17, -0.16, 0.21),
    "ViTs": (-0.22, -0.67, -0.09, 0.17, -0.10),
    "Swins": (-0.15, -0.53, -0.26, 0.06, -0.13),
    "ConvNeXts": (0.69, 0.21, 0.23, 0.02, 0.79),
}
"""Group -> correlations of the affinity score with the metrics, averaged over its networks."""

TABLE_1_STD: dict[str, Row] = {
    "VGGs": (0.05, 0.06, 0.03, 0.04, 0.06),
    "ResNets": (0.04, 0.19, 0.02, 0.12, 0.24),
    "DenseNets": (0.02, 0.02, 0.02, 0.03, 0.04),
    "MNASNets": (0.11, 0.14, 0.07, 0.16, 0.17),
    "EffNets": (0.10, 0.22, 0.23, 0.14, 0.12),
    "ViTs": (0.40, 0.20, 0.56, 0.25, 0.34),
    "Swins": (0.13, 0.10, 0.17, 0.35, 0.13),
    "ConvNeXts": (0.08, 0.15, 0.16, 0.09, 0.05),
}
"""Group -> standard deviations of the same over its networks."""

TABLE_2: dict[str, Row] = {
    "alexnet": (-0.75, -0.86, 0.14, -0.80, -0.41),
    "vgg11": (-0.07, -0.76, -0.15, -0.95, -0.27),
    "vgg13": (0.08, -0.66, -0.23, -0.93, -0.26),
    "vgg16": (0.01, -0.63, -0.19, -0.88, -0.17),
    "vgg19": (-0.01, -0.62, -0.15, -0.86, -0.14),
    "googlenet": (0.74, -0.60, -0.83, -0.49, 0.73),
    "inception_v3": (0.69, -0.66, -0.75, -0.45, 0.35),
    "resnet18": (0.59, -0.17, -0.67, -0.30, -0.44),
    "resnet34": (0.48, -0.18, -0.65, -0.19, -0.08),
    "resnet50": (0.56, -0.60, -0.71, -0.50, -0.78),
    "resnet101": (0.51, -0.57, -0.70, -0.51, -0.64),
    "resnet152": (0.52, -0.51, -0.68, -0.42, -0.48),
    "densenet121": (0.84, -0.75, -0.87, -0.62, 0.82),
    "densenet161": (0.87, -0.74, -0.87, -0.67, 0.81),
    "densenet169": (0.87, -0.74, -0.87, -0.67, 0.81),
    "densenet201": (0.89, -0.75, -0.91, -0.67, 0.90),
    "efficientnet_b1": (0.35, -0.41, -0.39, 0.01, 0.03),
    "efficientnet_b2": (0.49, -0.02, -0.44, -0.06, 0.34),
    "efficientnet_b3": (0.32, -0.12, -0.18, -0.13, 0.18),
    "efficientnet_b4": (0.30, -0.51, -0.29, -0.44, 0.11),
    "vit_b_32": (0.47, -0.31, -0.29, 0.39, 0.51),
    "vit_l_32": (-0.14, -0.61, -0.47, -0.02, -0.06),
    "vit_b_16": (-0.27, -0.71, 0.04, 0.39, -0.22),
    "vit_l_16": (-0.39, -0.89, -0.66, -0.23, -0.24),
    "vit_h_14": (-0.77, -0.83, 0.92, 0.31, -0.49),
    "swin_t": (-0.12, -0.39, -0.02, -0.42, -0.06),
    "swin_s": (-0.003, -0.61, -0.31, 0.18, -0.03),
    "swin_b": (-0.32, -0.59, -0.43, 0.42, -0.32),
    "convnext_tiny": (0.77, -0.01, -0.04, 0.09, 0.80),
    "convnext_small": (0.57, 0.22, 0.25, 0.13, 0.72),
    "convnext_base": (0.67, 0.41, 0.35, -0.03, 0.82),
    "convnext_large": (0.75, 0.23, 0.35, -0.10, 0.84),
}
"""Network, as torchvision calls it, -> its correlations. The last line of the table is not the mean
of these rows.
"""

TABLE_3: dict[str, tuple[float, float]] = {
    "score": (0.76, 0.04),
    "cka": (0.90, 0.07),
    "norm": (448.56, 404.61),
    "sparsity": (0.56, 0.16),
    "entropy": (0.39, 0.46),
}
"""Criterion -> mean and standard deviation over 17 trainings of ResNet-50."""
