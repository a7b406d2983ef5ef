"""Packed collections: the files of a collection as one sequence of bytes, as a store has them for all (G58).

Only the effective files of a folder are packed: definitions, modules, schemas, declarations. Packed bytes
come from outside, so every path and size is checked before anything is written.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from narval.core.definitions.parsing import suffixes
from narval.core.errors import Fault, UnreadableError
from narval.core.source.text import Source
from narval.files.found_files import MODULES, RECIPES, find_files, is_ours, names_in
from narval.files.memory_file import SHOWN as MEMORY
from narval.files.module_text import FIRST
from narval.files.schemas import SHOWN as SCHEMAS
from narval.files.schemas import SUFFIXES
from narval.system.regular_file import read_file

MOST_FILES = 5_000
"""The most files of a packed collection."""

MOST_BYTES = 32 * 1024 * 1024
"""The most bytes of a packed collection."""

MOST_DEEP = 10
"""The most names in a path."""

_LONGEST_NAME = 100

_Files = list[tuple[str, bytes]]
_read = msgspec.msgpack.Decoder(_Files)


class PackedCollection(NamedTuple):
    """The files of a collection as bytes, and their SHA-256 in hexadecimal; equal for equal files."""

    digest: str
    data: bytes
    files: Mapping[str, bytes]


def pack(folder: Path, *, declares: bool = True) -> tuple[PackedCollection, list[Fault]]:
    """The effective files of a folder, and the faults of those that cannot be packed, which are left out.

    Without `declares`, its `data/memory.xml` is left out.
    """
    found, faults = dict[str, bytes](), list[Fault]()
    for read in _files(folder, declares):
        if isinstance(read, Fault):
            faults.append(read)
        elif (wrong := wrong_path(read.path)) is not None:
            shown = read.path.encode("utf-8", "backslashreplace").decode()
            faults.append(Fault(shown[:200], 1, 1, wrong))
        else:
            found[read.path] = read.data
    data = msgspec.msgpack.encode(sorted(found.items()))
    if len(found) > MOST_FILES or len(data) > MOST_BYTES:
        wanted = f"expected at most {MOST_FILES:,} files and {MOST_BYTES:,} bytes of a collection"
        faults.append(Fault(RECIPES, 1, 1, f"{wanted}, found {len(found):,} and {len(data):,}"))
    return PackedCollection(hashlib.sha256(data).hexdigest(), data, found), sorted(faults)


def unpack(data: bytes, digest: str) -> Mapping[str, bytes]:
    """The packed files, by their paths in the folder, after all checks.

    Raises UnreadableError if the bytes are not a packed collection, or have files that no home may have.
    """
    if len(data) > MOST_BYTES:
        raise UnreadableError(f"expected at most {MOST_BYTES:,} bytes of a collection, found {len(data):,}")
    if (found := hashlib.sha256(data).hexdigest()) != digest:
        raise UnreadableError(f"expected a collection with the SHA-256 {digest:.80}, found {found}")
    try:
        files = _read.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableError(f"expected the files of a collection, found something else: {error}") from None
    if len(files) > MOST_FILES:
        raise UnreadableError(f"expected at most {MOST_FILES:,} files of a collection, found {len(files):,}")
    paths = {path for path, _ in files}
    if len(paths) < len(files):
        raise UnreadableError("expected each path of a collection once, found one twice")
    for path in paths:
        wrong = wrong_path(path) or (f"{path} cannot be in a file" if _is_within(path, paths) else None)
        if wrong is not None:
            raise UnreadableError(f"{path!r:.200}: {wrong}")
    return dict(files)


def wrong_path(path: str) -> str | None:
    """The reason why no collection can have a file of that path; None if one can."""
    *folders, name = path.split("/")
    plain = all(_is_plain(part) for part in folders) and (_is_plain(name) or name == FIRST)
    if not plain or len(folders) >= MOST_DEEP:
        return f"expected at most {MOST_DEEP} names of printable characters, none of them hidden"
    if folders[:1] == [RECIPES] and name.endswith(tuple(suffixes())):
        return None
    if folders[:1] == [MODULES] and name.endswith(".py"):
        return None
    if (folders == SCHEMAS.split("/") and name.endswith(SUFFIXES)) or path == MEMORY:
        return None
    return f"expected a file in {RECIPES}/, {MODULES}/ or {SCHEMAS}/, or {MEMORY}"


def _is_plain(name: str) -> bool:
    return 0 < len(name) <= _LONGEST_NAME and is_ours(name) and name.isprintable() and name == name.strip()


def _is_within(path: str, paths: set[str]) -> bool:
    """True if `paths` has a file where this path has a folder."""
    parts = path.split("/")
    return any("/".join(parts[:length]) in paths for length in range(1, len(parts)))


def _files(folder: Path, declares: bool) -> Iterator[Source | Fault]:
    """The effective files of a folder, with their paths in it, and the faults of unreadable ones."""
    found = find_files(folder)
    yield from found.faults
    yield from found.sources
    for module in found.modules:
        yield from module.faults
        yield from module.files.values()
    inside = folder.resolve()
    names = [f"{SCHEMAS}/{name}" for name in names_in(folder / SCHEMAS) if name.endswith(SUFFIXES)]
    if declares and (folder / MEMORY).exists():
        names.append(MEMORY)
    for name in names:
        if not is_ours(os.path.basename(name)):
            continue
        real = Path(os.path.realpath(folder / name))
        if not real.is_relative_to(inside):
            yield Fault(name, 1, 1, "this link leads out of the folder; put a copy here instead")
        else:
            yield read_file(real, name)
