"""What no figure can be drawn of is refused, with a remedy, before anything is drawn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import sigmascope as sg
from sigmascope import figures
from tests.figures.examples import networks

FOUND = networks(["a", "b"])
WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "distances": (
        lambda: figures.draw_distances(3),
        "distances must be of type Distances, got int. Pass the result of sigma",
    ),  # type: ignore[arg-type]
    "signature": (
        lambda: figures.draw_signature("x"),
        "signature must be of type Signature, got str. Pass the result of",
    ),  # type: ignore[arg-type]
    "parts": (lambda: figures.parts_of(FOUND), "signature must be of type Signature, got list"),  # type: ignore[arg-type]
    "signatures": (
        lambda: figures.draw_signatures(FOUND[0]),
        "signatures is a single Signature. Pass a list",
    ),  # type: ignore[arg-type]
    "densities": (lambda: figures.draw_densities([None]), "not a Signature. Measure it"),  # type: ignore[list-item]
    "statistics": (
        lambda: figures.draw_statistics(FOUND),
        "statistics must be of type Statistics, got list",
    ),  # type: ignore[arg-type]
    "embedding": (
        lambda: figures.draw_embedding(None),
        r"embedding must be of type Embedding, got NoneType. Pass the result",
    ),  # type: ignore[arg-type]
    "families": (
        lambda: figures.draw_embedding(sg.distances(FOUND).embed(), families=["a"]),  # type: ignore[arg-type]
        "families must be a mapping such as .*, got list",
    ),
    "accuracy": (
        lambda: figures.draw_accuracy([]),
        "fits must be of type AccuracyFits, got list. Pass the result of sigmascope",
    ),  # type: ignore[arg-type]
    "curves": (
        lambda: figures.draw_curves([1, 2], [[0.1, 0.2]]),
        "curves must be a mapping such as .*, got list",
    ),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", WRONG)
def test_the_wrong_thing_is_refused_with_a_remedy(case: str) -> None:
    draw, message = WRONG[case]
    with pytest.raises(sg.InputTypeError, match=message):
        draw()
