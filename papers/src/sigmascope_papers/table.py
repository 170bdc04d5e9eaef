"""The names of all items, with what they show; their files are imported when they are run."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from sigmascope.checks import check_choice
from sigmascope_papers.item import Item

__all__ = ["ITEMS", "PAPERS", "check_names", "file_of", "item"]

NONLINEARITY: dict[str, str] = {
    "fig2a": "one ReLU, by the range of its inputs",
    "fig2b": "ReLU, Tanh and Sigmoid on inputs of one law",
    "fig2c": "polynomials, by their degree",
    "fig3": "the two parts of the score of ReLU, in closed form",
    "fig4a": "random networks as images, by the scale of their weights",
    "fig4b": "the same with slightly shifted weights",
    "fig5a": "a decade of networks: least, median and largest score by year",
    "fig5b": "how far the representatives of a decade lie from each other",
    "fig5c": "how the scores of the representatives of a decade are spread",
    "fig6": "accuracy explained by the signature and by size, by family",
    "fig7": "networks with and without residual connections",
    "fig8": "nine activation functions, by the range of their inputs",
    "fig9": "the score by pooling, and by the number of channels with and without shrinkage",
    "fig10": "VGG16 by the size of the batches and by the seed of the training",
    "fig11": "VGG16 at initialization and after training, nine seeds",
    "fig12": "the raw signatures of the representatives of a decade",
    "fig13": "ViTs by the size of their patches",
    "fig14": "VGGs of different depths",
    "fig15": "ResNets of different depths",
    "fig16": "distances between the signatures of all networks, and groups",
    "fig17": "all networks in the plane, by the distances of their signatures",
    "fig18": "networks on other data and on noise, against their own data",
    "fig19": "trainings of one architecture, clustered",
    "fig20": "one architecture beside others, however it is trained",
    "table1": "the score's correlations with other metrics, by groups",
    "table2": "the score's correlations with other metrics, by networks",
    "table3": "which metric changes least with the training of one architecture",
    "claim-accuracy": "a correlation above 0.92 between signature and accuracy?",
    "beyond-axes": "the paper's claims with the right axes and a clean capture",
    "beyond-covariance": "the ranking of networks with shrunk and unbiased covariance",
    "beyond-images": "how fast the scores converge with the number of images",
}
"""Name -> what it shows, of the paper on non-linearity."""

SYMMETRY: dict[str, str] = {
    "sym-fig1": "what it costs to stitch two Myrtle CNNs, by the family of the stitch",
    "sym-fig2": "CKA of the layers of two Myrtle CNNs",
    "sym-fig3": "interpretable units under rotations, with and without ReLU after the residual addition",
    "sym-fig4": "what it costs a network to work in another basis",
    "sym-fig5": "CKA of the layers of two ResNet-20",
    "sym-fig6": "what it costs to stitch two ResNet-20",
    "sym-fig7": "what it costs to stitch two ResNet-18",
    "sym-fig8": "what it costs to stitch two ResNet-20 with LeakyReLU, by its slope",
    "sym-fig9": "layers of two ResNet-20, aligned",
    "sym-fig10": "layers of two ResNet-18, aligned",
    "sym-fig11": "CKA of the layers of two ResNet-18",
    "sym-fig12": "what it costs to stitch two vision transformers",
    "sym-fig13": "stitches of two Myrtle CNNs, α chosen by cross-validation",
    "sym-fig14": "which α is chosen",
    "sym-fig15": "sparse stitches by an l1 term, beside the group of ReLU",
    "sym-fig16": "CKA of the layers of two Myrtle CNNs of constant width",
    "sym-fig17": "how far GELU is from positively homogeneous",
    "sym-fig18": "interpretable units under rotations, by category",
    "sym-fig19": "interpretable units under rotations, inside residual blocks",
    "sym-table2": "layers of two Myrtle CNNs, aligned up to the symmetries of ReLU and up to rotations",
    "sym-table3": "accuracy of ResNet-20 by the slope of LeakyReLU",
    "sym-table4": "layers of two Myrtle CNNs of constant width, aligned",
    "sym-orderings": "what comes before what: the claims of the figures that need no exact numbers",
    "sym-capacity": "how many elements the group of ReLU has, beside matrices of low rank",
}
"""Name -> what it shows, of the paper on symmetries."""

PAPERS: dict[str, dict[str, str]] = {"nonlinearity": NONLINEARITY, "symmetry": SYMMETRY}
"""Folder -> its items."""
PREFIXES = {"symmetry": "sym-"}
"""Folder -> what the names of its items begin with; both papers have a Figure 2."""

ITEMS: dict[str, str] = {name: shows for rows in PAPERS.values() for name, shows in rows.items()}
"""Name -> what it shows, of all items."""


def check_names(names: Sequence[str]) -> list[str]:
    """Return the names, each once.

    Raises:
        OptionError: there is no such item; the names are listed.
    """
    for name in names:
        check_choice("name", name, ITEMS)
    return list(dict.fromkeys(names))


def item(name: str) -> Item:
    """Return an item by name.

    Raises:
        OptionError: there is none; the names are listed.
    """
    check_names([name])
    found: Item = importlib.import_module(f"sigmascope_papers.{file_of(name)}").ITEM
    return found


def file_of(name: str) -> str:
    """Return the module of an item inside this package: its name without the prefix, with
    underscores for dashes.

    >>> file_of("fig7"), file_of("sym-fig2"), file_of("beyond-axes")
    ('nonlinearity.fig7', 'symmetry.fig2', 'nonlinearity.beyond_axes')
    """
    folder = next(folder for folder, rows in PAPERS.items() if name in rows)
    return f"{folder}.{name.removeprefix(PREFIXES.get(folder, '')).replace('-', '_')}"
