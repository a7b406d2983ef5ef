"""The cluster on which heavy calls are answered, as the settings name it (G65, G67)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import msgspec

from narval.core.definitions.action.resources import Resources, resources_of

LOCAL = "local"
"""The cluster of this machine, which the daemon starts."""

CERTIFICATES = ("ca.pem", "cert.pem", "key.pem")
"""The files in a folder of certificates: the authority's, one's own, and the key of that."""


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The place where heavy calls are answered.

    `address` is that of a scheduler of dask, or LOCAL; "" names none. `certificates` is the folder of those
    by which both sides know one another. A local cluster has so many `workers`, and `resources` at the first
    of them. At most `memory` bytes of results wait to be recorded.
    """

    address: str = ""
    certificates: str = ""
    workers: int = max(2, os.cpu_count() or 1)
    memory: int = 512 * 1024 * 1024
    resources: Resources = ()


def read_address(value: object) -> str:
    """Read the address of a scheduler: over TLS alone, for who may connect owns all that take part (G67)."""
    if value in ("", LOCAL) or (isinstance(value, str) and re.fullmatch(r"tls://\S+:\d{1,5}", value)):
        return str(value)
    raise ValueError('"local", the address of a scheduler such as "tls://host:8786", or none at all')


def read_table(value: object) -> Mapping[str, float]:
    """Read resources of this machine, by name."""
    return dict(resources_of(value, "names with numbers, such as { GPU = 1 }"))
