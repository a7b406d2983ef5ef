"""Settings of all tests: they depend on no machine, and a run is like the one before.

Examples of hypothesis are the same each time; `HYPOTHESIS_PROFILE=random make test` looks for others.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

ANY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("same", ANY_MACHINE, derandomize=True)
settings.register_profile("random", ANY_MACHINE, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
