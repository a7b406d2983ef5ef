"""Settings of dataflows: their limits, and their sources, `[sources.NAME]` (TA19, TA20)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec

from narval.core.errors import ActionError
from narval.core.source.number_forms import NumberForm, form_of
from narval.files import toml
from narval.files.outside.services import address

SOURCES = "sources"
"""The table of the settings with the sources."""

DATAFLOWS = "dataflows"
"""The table of the settings with the limits of dataflows."""


class FlowLimits(msgspec.Struct, frozen=True):
    """The limits of a session; a run may be started with others."""

    ttl: Annotated[float | None, toml.or_none(toml.duration)] = None
    """The seconds after which an idle session is abandoned; None: never."""
    restarts: Annotated[int, _whole] = 3
    """The number of times that a transaction with a temporary failure is restarted."""
    depth: Annotated[int, toml.count(1_000_000)] = 1_000
    """The depth to which dataflows may call one another."""
    frames: Annotated[int, toml.count(1_000_000)] = 10_000
    """The most calls of dataflows in a transaction."""
    spill: Annotated[bool, toml.flag] = True
    """True if data that does not fit in memory may go to disk."""

    def with_asked(self, asked: Mapping[str, Any]) -> FlowLimits:
        """These limits, with those in `asked`, by name, with which a run was started."""
        made = {
            name: read(asked[name])
            for name, read in (
                ("ttl", float),
                ("restarts", int),
                ("depth", int),
                ("frames", int),
                ("spill", bool),
            )
            if asked.get(name) is not None
        }
        return msgspec.structs.replace(self, **made)


SourceKind = Literal["sqlite", "csv", "json", "rss", "xml"]


class FlowSource(msgspec.Struct, frozen=True):
    """A source: a file, or a page of the web, and its form."""

    name: str
    """The name of its table."""
    kind: Annotated[SourceKind, toml.one_of("sqlite", "csv", "json", "rss", "xml")]
    """The form of what is read."""
    path: Annotated[str, toml.text] = ""
    """The file; a relative path starts at the home."""
    url: Annotated[str, address] = ""
    """The web page, if it is not a file."""
    records: Annotated[str, toml.text] = ""
    """The name of the elements that are tuples, or the key of the list that contains them."""
    write: Annotated[bool, toml.flag] = False
    """True if statements and exports may alter it."""
    numbers: Annotated[Mapping[str, NumberForm | None], _numbers] = MappingProxyType({})
    """The attributes whose texts are numbers, each with its form; None: plain ones."""

    def file(self, home: Path | None) -> Path:
        """Its file. Raises ActionError without one."""
        if not self.path:
            raise ActionError(
                f"expected path=… in [sources.{self.name}], found url", "bad-source", final=True
            )
        return (home or Path()) / Path(self.path).expanduser()


def _numbers(value: object) -> Mapping[str, NumberForm | None]:
    if isinstance(value, list) and all(isinstance(name, str) and name for name in value):
        return MappingProxyType(dict.fromkeys(value))
    if isinstance(value, dict) and all(isinstance(text, str) for text in value.values()):
        return MappingProxyType({name: form_of(text) for name, text in value.items()})
    raise ValueError('names of attributes, such as ["price"], or forms by name: {price = "1.234,56"}')


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 1_000_000:
        raise ValueError("a whole number, 0 or more")
    return value


def read_sources(file: toml.TomlFile) -> Mapping[str, FlowSource]:
    """The sources of a file of settings; faults are noted there."""
    sources: dict[str, FlowSource] = {}
    for name, values in file.named(SOURCES, FlowSource, "homes"):
        is_file, is_page = "path" in values, "url" in values
        if "kind" not in values or is_file == is_page or (values["kind"] == "sqlite" and is_page):
            expected = 'kind = "csv" (or json, rss, xml) and path or url; kind = "sqlite" and path'
            file.note((SOURCES, name), f"sources.{name}: expected {expected}")
        else:
            sources[name] = FlowSource(name, **values)
    return MappingProxyType(sources)
