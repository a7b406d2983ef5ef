"""What holds for all tests: how quick a machine is says nothing about the code."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")
