"""Settings of all tests: hypothesis draws the same examples everywhere, and no test has a deadline.

`pytest --hypothesis-profile=explore` draws other examples every time.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

if importlib.util.find_spec("hypothesis"):  # the GPU tests run where it is missing
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.register_profile("explore", settings.get_profile("same"), derandomize=False)
    settings.load_profile("same")


SET_BY_LIBRARIES = ("PYTEST_", "PYTORCH_", "TORCH", "KMP_")  # the last by scikit-learn


@pytest.fixture(autouse=True)
def _leaves_the_process_as_it_was() -> Iterator[None]:
    """Fail a test that leaves variables or a working directory behind.

    Which tests come after it in the same process differs from run to run.
    """
    variables, folder = dict(os.environ), Path.cwd()
    yield
    names = dict(variables.items() ^ os.environ.items())
    changed = {name for name in names if not name.startswith(SET_BY_LIBRARIES)}
    assert not changed, "restore them with monkeypatch"
    assert Path.cwd() == folder, "restore it with monkeypatch"
