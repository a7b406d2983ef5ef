"""The stopwatch of turns and rounds: asked through this module, so that a test may say how long they take."""

from __future__ import annotations

import time

seconds = time.perf_counter
"""Seconds from a moment that is always the same."""
