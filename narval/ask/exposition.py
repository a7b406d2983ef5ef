"""The metrics of a daemon as text: OpenMetrics, which Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest

from narval.ask.text import Row

MEDIA_TYPE = str(CONTENT_TYPE_LATEST)


class _Families:
    """The families of samples, as the package collects them."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = rows

    def collect(self) -> Iterable[Metric]:
        for row in self._rows:
            family = Metric(row["name"], row["doc"], row["kind"])
            sample = f"{row['name']}_total" if row["kind"] == "counter" else row["name"]
            for one in row["samples"]:
                family.add_sample(sample, one["labels"], one["value"])
            yield family


def openmetrics(rows: Iterable[Row]) -> bytes:
    """The answer of the operation `metrics` as OpenMetrics."""
    return bytes(generate_latest(_Families(rows)))


def down() -> bytes:
    """The metrics if no daemon answers."""
    return openmetrics(
        [
            {
                "name": "narval_up",
                "kind": "gauge",
                "doc": "1 while a daemon is running, else 0, alone.",
                "samples": [{"labels": {}, "value": 0.0}],
            }
        ]
    )
