"""Settings of all tests: hypothesis draws the same examples everywhere, and no test has a deadline.

`pytest --hypothesis-profile=explore` draws other examples every time.
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("hypothesis"):  # the GPU tests run where it is missing
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.register_profile("explore", settings.get_profile("same"), derandomize=False)
    settings.load_profile("same")
