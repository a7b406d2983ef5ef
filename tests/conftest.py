"""Settings of all tests: they depend on no machine, and a run is like the one before.

Examples of hypothesis are the same each time; `HYPOTHESIS_PROFILE=random make test` looks for others. A turn
of an agent in this process takes no time, so that what is done within one does not depend on how fast that
goes; a test of that time sets the stopwatch itself.
"""

from __future__ import annotations

import gc
import os

from hypothesis import HealthCheck, settings

from narval.runtime.system import stopwatch

ANY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("same", ANY_MACHINE, derandomize=True)
settings.register_profile("random", ANY_MACHINE, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

stopwatch.seconds = lambda: 0.0


def pytest_runtest_teardown() -> None:
    """Free what commands made: at its start each leaves all there is out of the collection, for its process
    ends soon, but this one goes on.
    """
    gc.unfreeze()
