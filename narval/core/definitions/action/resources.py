"""Resources that an action needs of a worker of the cluster: the amount of each, by name (G65)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

Resources = tuple[tuple[str, float], ...]
"""The amount of each resource, sorted by name."""

_WANTED = 'names with numbers, such as {"GPU": 1}'
_WRITTEN = "names with numbers, such as GPU=1"


def resources_of(value: object, expectation: str = _WANTED) -> Resources:
    """Validate the resources of a declaration in Python. Raises ValueError with what was expected."""
    if not isinstance(value, Mapping) or not all(_is_resource(*item) for item in value.items()):
        raise ValueError(expectation)
    return tuple(sorted((name, float(number)) for name, number in value.items()))


def read_resources(text: str) -> Resources:
    """Parse the resources in an attribute, such as `GPU=1 license=0.5`. Raises ValueError."""
    try:
        amounts = {name: float(number) for name, number in (word.split("=") for word in text.split())}
    except ValueError:
        raise ValueError(_WRITTEN) from None
    return resources_of(amounts, _WRITTEN)


def shown_resources(resources: Resources) -> str:
    """Resources in the form of an attribute."""
    return " ".join(f"{name}={number:g}" for name, number in resources)


def _is_resource(name: object, number: object) -> bool:
    if not isinstance(name, str) or not re.fullmatch(r"[^\W\d][\w.-]*", name):
        return False
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 < number < math.inf
