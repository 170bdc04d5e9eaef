"""The setting in which the examples of the gallery run, and the pictures that are taken of them."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# The examples as a newcomer reads them; others follow by name.
ORDER = (
    "first_signature", "residual_split", "where_inputs_lie", "channels_of_a_layer",
    "batch_size", "how_many_samples", "other_measures", "blocks_of_a_transformer",
    "gated_units", "formulas", "your_own_activation", "compare_two_networks",
    "families_of_networks", "survey_of_networks", "share_a_report", "before_and_after_training",
    "monitor_plain_loop", "monitor_lightning", "monitor_huggingface", "monitor_accelerate",
    "torchmetrics_affinity", "affinity_penalty", "remove_one_activation", "linearize_a_network",
    "same_function_other_weights", "similarity_of_layers", "align_two_networks",
    "stitch_two_networks", "concepts_of_channels",
)  # fmt: skip
SHOWN = "figures that were shown"  # kept among the variables of an example; no name in Python


class Order:
    """The key by which sphinx-gallery sorts examples."""

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> tuple[int, str]:
        """Return the place of an example."""
        name = Path(filename).stem
        return (ORDER.index(name) if name in ORDER else len(ORDER)), name


def reset(gallery_conf: dict[str, Any], file: str) -> None:
    """Two examples run at a time, on two cores; warnings of frameworks are not for readers."""
    import torch

    from sigmascope.catalog.optional import optional

    optional("torchvision")  # which others import; it may be one for another torch
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.filterwarnings("ignore", category=UserWarning, module="lightning|pytorch_lightning")


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Show the figures that a block has made without pyplot, as `.plot()` of every result does."""
    from sphinx_gallery.scrapers import figure_rst

    source = Path(block_vars["src_file"]).read_text(encoding="utf-8")
    title = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    paths = []
    for figure in new_figures(block_vars["example_globals"]):
        paths.append(next(block_vars["image_path_iterator"]))
        figure.savefig(paths[-1], dpi=150)
    rst: str = figure_rst(paths, gallery_conf["src_dir"], fig_titles=title)
    return rst


def new_figures(variables: dict[str, Any]) -> Iterator[Any]:
    """Yield the figures among the variables of an example that were not yielded before."""
    from matplotlib.figure import Figure

    from sigmascope.figures import Drawn

    shown = variables.setdefault(SHOWN, [])
    for value in list(variables.values()):
        figure = value.figure if isinstance(value, Drawn) else value
        if not isinstance(figure, Figure) or any(figure is one for one in shown):
            continue
        shown.append(figure)
        if figure.canvas.manager is None:  # pyplot gives its figures one, and has its own scraper
            yield figure
