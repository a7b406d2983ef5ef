"""The page of metrics: their names, kinds, labels and what they say."""

from __future__ import annotations

from collections.abc import Iterator

from narval.ask.daemon.metrics import METRICS
from tests.house.pages.tables import code, table

PATH = "reference/metrics.md"

HEAD = """\
# Metrics

Made from the code by `python -m tests.house.pages`; a test compares. These are the numbers that
`narval status --metrics` prints and `narval web` gives at `/metrics`, in the format OpenMetrics
([how to watch narval with Prometheus](../how-to/watch-narval-with-prometheus.md)). A counter counts from the
start of the daemon, and its samples end in `_total`. What is said of agents in memory leaves out those that
are passive. Definitions are named up to the first 1,000 that ended; the rest is `(others)`. The last rows are
of daemons that share a store.
"""


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield HEAD
    yield from table(
        ("metric", "kind", "labels", "is"),
        [
            (code(metric.name), metric.kind, ", ".join(map(code, metric.labels)), metric.doc)
            for metric in METRICS
        ],
    )
