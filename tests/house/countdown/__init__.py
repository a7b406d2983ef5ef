"""A toy kind: a countdown calls an action so many times. It shows how little a new kind needs."""

from narval.definitions.kinds import Kind

ROW = Kind(
    "tests.house.countdown.definitions",
    engine="tests.house.countdown.engine",
    run="countdown-run",
    suffixes=(".countdown",),
)
"""The row of the table of kinds."""
