"""Without a network a test that needs a download is skipped; `make test-real` sets
SIGMASCOPE_REQUIRE_REAL=1, and it fails.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from sigmascope_papers.real.packages import DownloadError


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    try:
        yield
    except DownloadError as error:
        if os.environ.get("SIGMASCOPE_REQUIRE_REAL") == "1":
            raise
        pytest.skip(str(error))
