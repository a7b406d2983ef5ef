"""The cluster for heavy calls, as the settings name it (G65, G67)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated

import msgspec

from narval.core.definitions.action.needs import Resources, resources_of
from narval.files import toml

LOCAL_CLUSTER = "local"
"""The cluster of this machine, which the daemon starts."""

CLUSTER_PACKAGE = "distributed"
"""The package of its client, which is an extra."""

CERTIFICATES = ("ca.pem", "cert.pem", "key.pem")
"""The files in a folder of certificates: the authority's, the home's own, and its key."""


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The place for heavy calls; CLUSTER_KEYS has the names of its settings."""

    address: Annotated[str, _cluster_address] = ""
    """The address of a scheduler of dask, or LOCAL_CLUSTER; "" names none."""
    certificates: Annotated[str, toml.fitting(lambda text: True, "a folder, or none")] = ""
    """The folder of the certificates with which both sides authenticate each other."""
    workers: Annotated[int, toml.count(1000)] = max(2, os.cpu_count() or 1)
    """The number of workers of a local cluster."""
    memory: Annotated[int, toml.size] = 512 * 1024 * 1024
    """The most bytes of results that wait to be recorded."""
    resources: Annotated[Resources, _resources] = ()
    """The resources of the first worker of a local cluster, by name."""


CLUSTER_KEYS: Mapping[str, str] = {
    name: "cluster" if name == "address" else f"cluster_{name}" for name in ClusterSettings.__struct_fields__
}
"""The keys of the file that set its fields."""


def _cluster_address(value: object) -> str:
    """The address of a scheduler: only TLS, since whoever may connect controls all members."""
    if value in ("", LOCAL_CLUSTER) or (isinstance(value, str) and re.fullmatch(r"tls://\S+:\d{1,5}", value)):
        return str(value)
    raise ValueError('"local", the address of a scheduler such as "tls://host:8786", or none at all')


def _resources(value: object) -> Resources:
    """Resources of this machine, by name."""
    return resources_of(value, "names with numbers, such as { GPU = 1 }")
