"""Every name that the package offers is there."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

import sigmascope as sg


def test_every_name_resolves() -> None:
    package = importlib.import_module("sigmascope.stitching")
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert not any(isinstance(getattr(package, name), ModuleType) for name in package.__all__)
    assert package.stitch is sg.stitch
    assert package.StitchResult is sg.StitchResult
    with pytest.raises(AttributeError, match="no attribute 'knit'"):
        package.knit  # noqa: B018
