"""What `make test-real` leaves to `make test-real-all`, because of its downloads or its time."""

from __future__ import annotations

import os

import pytest

FULL = os.environ.get("SIGMASCOPE_REAL") == "all"
in_full = pytest.mark.skipif(not FULL, reason="only make test-real-all does this")
