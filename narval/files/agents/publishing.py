"""Publishing: checks and packs a folder before all daemons of a store follow it (G58)."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from narval.core.errors import DefinitionError, Fault
from narval.files.agents.packed import PackedCollection, pack
from narval.files.agents.published_folders import check_name, write_published
from narval.files.agents.settings import COLLECTIONS, HOME_COLLECTION, AgentSettings
from narval.files.home import Home
from narval.files.reading import Reading
from narval.files.schemas import Schemas


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
        wanted = "recipes/, modules/, etc/schemas/ or data/memory.xml with something in it"
        faults = [Fault(str(folder), 1, 1, f"expected a folder with {wanted}, found none of that")]
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
        found = _faults(place, (within,))
        if found and name != HOME_COLLECTION:
            for path, data in home.items():
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                (place / path).write_bytes(data)
            found = _faults(place, ("", within))
    own = (fault for fault in found if fault.path.startswith(within) and not fault.warning)
    return sorted(fault._replace(path=fault.path.removeprefix(within)) for fault in own)


def _faults(place: Path, collections: tuple[str, ...]) -> tuple[Fault, ...]:
    beneath = Schemas(Home(place).schemas)
    return Reading(place, starts=True).followed(collections, beneath, AgentSettings()).faults
