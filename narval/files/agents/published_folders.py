"""Published collections, which a store has for all daemons that share it (G58): a folder is checked, packed
into one sequence of bytes, and written by each daemon as `collections/NAME/`.

Only the effective files of a folder are packed: definitions, modules, schemas, declarations. Packed bytes
come from outside, so every path and size is checked before anything is written. A mark in a folder says that
narval has written it. A folder without the mark is the user's own, and is never touched.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from narval.core.agent_name import NAME
from narval.core.definitions.parsing import suffixes
from narval.core.errors import DefinitionError, Fault, RequestError, SurroundingsError, UnreadableError
from narval.core.source.text import Source
from narval.files.agents.settings import COLLECTIONS, HOME_COLLECTION, OWN, PUBLISHED_MARK, AgentSettings
from narval.files.found_files import FIRST, MODULES, RECIPES, find_files, is_ours, names_in
from narval.files.home import Home
from narval.files.memory_file import SHOWN as MEMORY
from narval.files.reading import Reading
from narval.files.schemas import SHOWN as SCHEMAS
from narval.files.schemas import SUFFIXES, Schemas
from narval.system.regular_file import read_file


def packed_and_checked(folder: Path, name: str, home: Mapping[str, bytes]) -> PackedCollection:
    """A folder packed as a collection of a name. `home` are the files of the collection `home`, which is
    followed together with it, unless the folder is that collection.

    The declarations of a home in `data/memory.xml` are for its own agent, and left out. Raises
    DefinitionError with all faults, RequestError for an invalid name.
    """
    check_name(name)
    packed, faults = pack(folder, declares=not is_home(folder))
    faults = faults or faults_of(packed, name, home)
    if not faults and not packed.files:
        expectation = "recipes/, modules/, etc/schemas/ or data/memory.xml with something in it"
        faults = [Fault(str(folder), 1, 1, f"expected a folder with {expectation}, found none of that")]
    if faults:
        raise DefinitionError(faults)
    return packed


def is_home(folder: Path) -> bool:
    """True of the folder of a home, not of a collection in it."""
    return Home(folder).settings.exists() or Home(folder).var.exists()


def faults_of(packed: PackedCollection, name: str, home: Mapping[str, bytes]) -> list[Fault]:
    """The faults of a packed collection, as its followers would have them: alone, or together with `home`."""
    with tempfile.TemporaryDirectory(prefix="narval-publish-") as scratch:
        place, within = Path(scratch), f"{COLLECTIONS}/{name}/"
        write_published(place, name, packed.digest, packed.files)
        faults = _faults(place, (within,))
        if faults and name != HOME_COLLECTION:
            for path, data in home.items():
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                (place / path).write_bytes(data)
            faults = _faults(place, ("", within))
    own = (fault for fault in faults if fault.path.startswith(within) and not fault.warning)
    return sorted(fault._replace(path=fault.path.removeprefix(within)) for fault in own)


def _faults(place: Path, collections: tuple[str, ...]) -> tuple[Fault, ...]:
    beneath = Schemas(Home(place).schemas)
    return Reading(place, starts=True).followed(collections, beneath, AgentSettings()).faults


# --- packing --------------------------------------------------------------------------------------------

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
    data_of, faults = dict[str, bytes](), list[Fault]()
    for read in _files(folder, declares):
        if isinstance(read, Fault):
            faults.append(read)
        elif (wrong := wrong_path(read.path)) is not None:
            path = read.path.encode("utf-8", "backslashreplace").decode()
            faults.append(Fault(path[:200], 1, 1, wrong))
        else:
            data_of[read.path] = read.data
    data = msgspec.msgpack.encode(sorted(data_of.items()))
    if len(data_of) > MOST_FILES or len(data) > MOST_BYTES:
        expectation = f"expected at most {MOST_FILES:,} files and {MOST_BYTES:,} bytes of a collection"
        faults.append(Fault(RECIPES, 1, 1, f"{expectation}, found {len(data_of):,} and {len(data):,}"))
    return PackedCollection(hashlib.sha256(data).hexdigest(), data, data_of), sorted(faults)


def unpack(data: bytes, digest: str) -> Mapping[str, bytes]:
    """The packed files, by their paths in the folder, after all checks.

    Raises UnreadableError if the bytes are not a packed collection, or have files that no home may have.
    """
    if len(data) > MOST_BYTES:
        raise UnreadableError(f"expected at most {MOST_BYTES:,} bytes of a collection, found {len(data):,}")
    if (digest_of_data := hashlib.sha256(data).hexdigest()) != digest:
        raise UnreadableError(f"expected a collection with the SHA-256 {digest:.80}, found {digest_of_data}")
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
    home_files = find_files(folder)
    yield from home_files.faults
    yield from home_files.sources
    for module in home_files.modules:
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


# --- writing --------------------------------------------------------------------------------------------

_SCRATCH = ".narval-"
"""The prefix of the names of folders that are unfinished or moved aside."""

_NOTE = "written by narval from its store; what is changed here is written over: narval collection publish"


def check_name(name: str) -> None:
    """Refuse the name of a collection that cannot be published. Raises RequestError."""
    if NAME.fullmatch(name) is None or name == OWN:
        expectation = f"expected the name of a collection, a lower-case letter and up to 62 more, not {OWN!r}"
        raise RequestError(f"{expectation}, got {name!r:.80}")


def published_here(home: Path) -> frozenset[str]:
    """The names of the folders that were written from a store."""
    names = (name for name in names_in(home / COLLECTIONS) if NAME.fullmatch(name))
    return frozenset(name for name in names if os.path.isfile(home / COLLECTIONS / name / PUBLISHED_MARK))


def is_own(home: Path, name: str) -> bool:
    """True if a home has a folder of that name that is the user's own."""
    folder = home / COLLECTIONS / name
    return os.path.lexists(folder) and not (folder / PUBLISHED_MARK).is_file()


def digest_here(home: Path, name: str) -> str:
    """The digest of the effective files in a collection's current folder; "" without one."""
    folder = home / COLLECTIONS / name
    return pack(folder)[0].digest if folder.is_dir() and not folder.is_symlink() else ""


def own_folder_faults(home: Path, published: Mapping[str, str], there: Mapping[str, str]) -> Iterator[Fault]:
    """The faults of the user's own folders with the names of published collections, unless they have the same
    files. `published` are the digests of the collections, `there` those of the folders.
    """
    for name, digest in sorted(published.items()):
        if there[name] != digest and is_own(home, name):
            own = f"{COLLECTIONS}/{name} is a folder of this home's own, and a collection {name} is published"
            todo = f"publish it (narval collection publish {COLLECTIONS}/{name}), or move it away"
            yield Fault(f"{COLLECTIONS}/{name}", 1, 1, f"{own} ({digest:.12}): {todo}")


def write_published(home: Path, name: str, digest: str, files: Mapping[str, bytes]) -> bool:
    """Replace the folder of a collection by these files, whole or not at all; False if it is the user's own.

    Raises RequestError for an invalid name, SurroundingsError if it cannot be written.
    """
    check_name(name)
    if is_own(home, name):
        return False
    folder = home / COLLECTIONS
    try:
        folder.mkdir(exist_ok=True)
        _tidy(folder)
        new = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=folder))
        new.chmod(0o755)
        for path, data in files.items():
            (new / path).parent.mkdir(parents=True, exist_ok=True)
            (new / path).write_bytes(data)
        (new / PUBLISHED_MARK).write_text(f"{digest}\n{_NOTE}\n", "utf-8")
        _withdraw(folder, name)
        new.rename(folder / name)
        _tidy(folder)
    except OSError as error:
        raise SurroundingsError(f"expected to write the folder {COLLECTIONS}/{name}: {error}") from error
    return True


def remove_published(home: Path, name: str) -> None:
    """Remove the folder of a collection that is no longer published, unless it is the user's own.

    Raises SurroundingsError on failure.
    """
    folder = home / COLLECTIONS
    try:
        if (folder / name / PUBLISHED_MARK).is_file():
            _withdraw(folder, name)
            _tidy(folder)
    except OSError as error:
        raise SurroundingsError(f"expected to remove the folder {COLLECTIONS}/{name}: {error}") from error


def _withdraw(folder: Path, name: str) -> None:
    """Move the folder of a collection aside, if it exists."""
    with suppress(FileNotFoundError):
        (folder / name).rename(Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=folder)) / name)


def _tidy(folder: Path) -> None:
    """Remove folders that were moved aside, and those that a killed daemon left unfinished."""
    for left in names_in(folder):
        if left.startswith(_SCRATCH):
            shutil.rmtree(folder / left, ignore_errors=True)
