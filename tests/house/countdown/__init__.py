"""A toy kind: a countdown calls an action so many times. It shows how little a new kind needs."""

from narval.core.kinds import Kind

ROW = Kind(
    "tests.house.countdown",
    run="countdown-run",
    suffixes=(".countdown",),
)
"""The row of the table of kinds."""

WITH_DESKS = ROW._replace(
    besides={"countdown-desk": "desk"},
    standing="countdown-desk",
    cases="countdown-run",
)
"""The same, with a standing run for each countdown; objects are put to them."""
