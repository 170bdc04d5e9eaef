"""The style of all figures: readable in print and with color blindness."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import matplotlib as mpl
from cycler import cycler
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.lines import Line2D

COLUMN, PAGE = 3.3, 7.0  # inches: the widths of a column and of a page in print
SMALL = 6.5  # points; nothing is smaller, except the names in a large heat map
# Okabe and Ito's colors, distinct for every kind of color vision; a wine red replaces their yellow,
# which is too faint on paper.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255")
# Color never stands alone: 8 colors make 72 looks with 9 markers, 56 with 7 line styles.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (5, 1)))
LONGEST = 32
FONT = "DejaVu Sans"  # ships with matplotlib, so a figure is the same everywhere
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.prop_cycle": cycler(color=COLORS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 8.5,
    "font.family": "sans-serif",
    "font.sans-serif": [FONT],
    "font.size": 8,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "legend.handletextpad": 0.4,
    "lines.linewidth": 1.2,
    "pdf.fonttype": 42,  # searchable text, as journals ask for
    "savefig.dpi": 300,
    "svg.fonttype": "none",
    "svg.hashsalt": "sigmascope",  # the same figure gives the same file
    "text.parse_math": True,
    "text.usetex": False,
    "xtick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.labelsize": 7,
    "ytick.major.width": 0.6,
}


@contextmanager
def styled() -> Iterator[None]:
    """Apply the style in a `with` block, or to a function as `@styled()`.

    >>> import matplotlib as mpl
    >>> with styled():
    ...     mpl.rcParams["axes.grid"]
    True
    """
    with mpl.rc_context(STYLE):
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return a figure of this size in inches, without a window.

    >>> panel = new_figure(4, 3).subplots()
    >>> panel.figure.get_size_inches().tolist()
    [4.0, 3.0]
    """
    return Figure(figsize=(width, height), layout="constrained")


def panel_in(axes: Axes | None, width: float, height: float) -> Axes:
    """Return the axes, or those of a new figure of this size in inches."""
    return new_figure(width, height).subplots() if axes is None else axes


def figure_of(axes: Axes) -> Figure:
    """Return the whole figure that contains the axes."""
    figure = axes.figure
    while not isinstance(figure, Figure):  # a subfigure
        figure = figure.figure
    return figure


class Look(NamedTuple):
    """Color, marker and line style of one of several things."""

    color: str
    marker: str
    line: Any

    def points(self, size: float) -> dict[str, Any]:
        """Return the options of `Axes.plot` for markers of this size, without a line."""
        how = {"color": self.color, "marker": self.marker, "markersize": size}
        return {**how, "markeredgewidth": 0, "linestyle": "none"}


def look(number: int) -> Look:
    """Return the look with this number, counted from 0.

    >>> look(0)
    Look(color='#0072B2', marker='o', line='-')
    """
    return Look(
        COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)], LINES[number % len(LINES)]
    )


def shown(name: str, longest: int = LONGEST) -> str:
    r"""Return a name as it is drawn: one line, cut in its middle, never read as a formula.

    Letters that the font lacks are replaced. The table of a figure has the names in full.

    >>> shown("a\nb  $x$ \ud800"), shown("x" * 50, 9), shown("_private"), shown("")
    ('a b \\$x\\$ �', 'xxxx…xxxx', ' _private', '(no name)')
    """
    plain = "".join(
        letter if letter.isprintable() or "\ud800" <= letter <= "\udfff" else " " for letter in name
    )
    line = "".join(
        letter if ord(letter) in _letters() else "\ufffd" for letter in " ".join(plain.split())
    )
    if len(line) > longest:
        front = (longest - 1) // 2
        line = f"{line[: longest - 1 - front]}…{line[-front:]}"
    # Legends leave out what begins with an underscore.
    return (" " * line.startswith("_") + line).replace("$", r"\$") or "(no name)"


def short_names(names: Sequence[str], longest: int = LONGEST) -> list[str]:
    """Return names as they are drawn side by side, without the directory that all share.

    >>> short_names(["zoo/resnet20", "zoo/plain20"]), short_names(["zoo/resnet20", "vgg"])
    (['resnet20', 'plain20'], ['zoo/resnet20', 'vgg'])
    """
    folder = names[0].rpartition("/")[0] if len(names) > 1 else ""
    while folder and not all(name.startswith(f"{folder}/") for name in names):
        folder = folder.rpartition("/")[0]
    return [shown(name.removeprefix(f"{folder}/") if folder else name, longest) for name in names]


@functools.cache
def _letters() -> frozenset[int]:
    return frozenset(get_font(findfont(FontProperties(family=FONT))).get_charmap())


def add_legend(figure: Figure, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """Add a legend above all panels, in as many columns as fit; the figure grows by its height."""
    if not handles:
        return
    widths = [4.2 * len(label) + 34 for label in labels]  # points
    room = 72 * figure.get_figwidth()
    fitting = len(labels) if sum(widths) < room else max(1, int(room / max(widths)))
    lines = math.ceil(len(labels) / fitting)
    columns = math.ceil(len(labels) / lines)
    figure.set_figheight(figure.get_figheight() + 0.165 * lines)
    legend = figure.legend(handles, labels, loc="outside upper center", ncols=columns)
    for handle in legend.legend_handles:
        # the markers of 250 sites are too small to be told apart
        if isinstance(handle, Line2D):
            handle.set_markersize(max(4.0, handle.get_markersize()))


def add_panel_legend(figure: Figure, panels: Iterable[Axes]) -> None:
    """Add one legend for panels that share their looks."""
    found = {
        label: handle
        for panel in panels
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    add_legend(figure, list(found.values()), list(found))


def mark_missing(axes: Axes, places: Sequence[float]) -> None:
    """Draw a cross at the bottom of the axes wherever there is no score."""
    if len(places):
        how: dict[str, Any] = {"color": "0.35", "markersize": 3.5, "label": "no score"}
        axes.plot(places, [0.04] * len(places), "x", transform=axes.get_xaxis_transform(), **how)


def add_scale(mapped: ScalarMappable, axes: Sequence[Axes], label: str, **where: Any) -> None:
    """Add a thin color bar beside the axes; `where` goes to `Figure.colorbar`."""
    bar = figure_of(axes[0]).colorbar(mapped, ax=list(axes), **where)
    bar.set_label(label, fontsize=8)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL, width=0.6, length=2)
