"""The command line: parse, make one library call, print. torch is imported only by the commands that need it."""

from __future__ import annotations

from pathlib import Path

import click

from sigmascope import __version__

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="sigmascope", message="%(prog)s %(version)s")
def main() -> None:
    """Look at σ, the activation function, inside real networks."""


@main.command()
@click.option("-o", "--out", default="demo", show_default=True, type=click.Path(file_okay=False), help="Folder to write to.")
def demo(out: str) -> None:
    """Measure a residual network and its plain twin on real images, all of them embedded: no download."""
    from rich.console import Console

    from sigmascope.demo import demo_signatures, draw_demo, finding

    try:
        Path(out).mkdir(parents=True, exist_ok=True)  # before the work, so that none is lost
    except OSError as error:
        raise click.ClickException(f"cannot write to {out}: {error.strerror}. Choose another folder with --out.") from error
    console = Console(highlight=False, soft_wrap=True)
    signatures = demo_signatures()
    for one in signatures:
        console.print(repr(one), markup=False)
        console.print()
    residual, plain = (finding(one) for one in signatures)
    for name, found in (("with residual connections", residual), ("without", plain)):
        console.print(
            f"{name:>25}: inside a block {found.inside:.3f}, at its end {found.after:.3f}; "
            f"the end scores higher in {100 * found.separation:.0f} % of pairs"
        )
    console.print(
        "\nA residual network splits its activations in two: those that follow an addition stay nearly affine, and the work is "
        "done inside the blocks.\nTake the connections away, and the same layers share the work evenly."
    )
    console.print("\nWritten: " + ", ".join(str(path) for path in draw_demo(signatures, out)))


@main.command("list")
@click.argument("what", type=click.Choice(["models", "data", "activations"]))
def listing(what: str) -> None:
    """Print the names that are known."""
    if what == "activations":
        from sigmascope.capture.activations import known_activations

        for family, kinds in known_activations().items():
            click.echo(f"{family}: {', '.join(kinds)}")
        return
    from sigmascope.catalog import DATA, model_names

    names = [name for group in model_names().values() for name in group] if what == "models" else list(DATA)
    for name in names:
        click.echo(name)
