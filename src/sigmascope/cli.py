"""The command line: parse, make one library call, print. torch is imported only by the commands that need it."""

from __future__ import annotations

from collections import Counter

import click

from sigmascope import __version__

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="sigmascope", message="%(prog)s %(version)s")
def main() -> None:
    """Look at σ, the activation function, inside real networks."""


@main.command()
@click.option("--samples", default=1024, show_default=True, type=click.IntRange(min=2), help="Rows to draw.")
@click.option("--channels", default=16, show_default=True, type=click.IntRange(min=1), help="Columns to draw.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**63 - 1), help="Seed of the draw.")
def demo(samples: int, channels: int, seed: int) -> None:
    """Score the common activation functions on Gaussian and uniform inputs."""
    from rich.console import Console
    from rich.table import Table

    from sigmascope.demo import LAWS, activation_table

    rows = activation_table(samples=samples, channels=channels, seed=seed)
    table = Table(box=None, pad_edge=False)
    table.add_column("activation")
    for law in LAWS:
        table.add_column(law, justify="right")
    table.add_column("the first as a bar")
    for row in rows:
        table.add_row(row.activation, *(f"{float(result):.3f}" for result in row.scores), _bar(float(row.scores[0])))
    proofs = Counter(result.certified for row in rows for result in row.scores)
    console = Console(highlight=False)
    console.print("Affinity score: 1 is affine, lower is more non-linear.")
    console.print(f"{samples} samples of {channels} independent channels, Ledoit–Wolf covariances, exact transport.\n")
    console.print(table)
    console.print("\nOptimum proved by " + ", ".join(f"{name} ({count})" for name, count in proofs.most_common()) + ".")


def _bar(score: float, width: int = 20) -> str:
    """Draw a score between 0 and 1 in eighths of a character."""
    eighths = round(8 * width * min(max(score, 0.0), 1.0))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
