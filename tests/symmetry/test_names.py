"""The names that the package offers."""

from __future__ import annotations

from pathlib import Path

import pytest

from sigmascope import symmetry
from sigmascope.symmetry.wiring.network import UnmovableError

FOLDER = Path(symmetry.__file__).parent


def test_every_name_resolves() -> None:
    assert len({*symmetry.__all__}) == len(symmetry.__all__)
    assert [name for name in symmetry.__all__ if not callable(getattr(symmetry, name))] == []
    assert {*symmetry.__all__} <= {*dir(symmetry)}


def test_what_the_functions_return_and_raise_has_a_name() -> None:
    assert {
        "CrossGram",
        "Equivalence",
        "Kernel",
        "LayerSimilarity",
        "Procrustes",
        "Spaces",
        "UnmovableError",
    } <= {*dir(symmetry)}
    assert symmetry.UnmovableError is UnmovableError


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'groupe'"):
        symmetry.groupe  # noqa: B018


def test_no_module_has_the_name_of_a_function() -> None:
    """Importing such a module would put it in the place of the function, as an attribute of the
    package.
    """
    assert {path.stem for path in FOLDER.glob("*.py")} & {*symmetry.__all__} == set()
