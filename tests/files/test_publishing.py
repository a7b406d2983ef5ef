"""Publishing: checked before it is packed; folders written whole, and never over the user's (G58)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.core.errors import DefinitionError, RequestError
from narval.files.agents.published_folders import (
    digest_here,
    own_folder_faults,
    pack,
    packed_and_checked,
    published_here,
    remove_published,
    write_published,
)
from narval.files.check import check_home
from narval.files.home import Home
from tests.acceptance.home import make, one_step

MODULE = """\
from narval import Output, action

@action(outputs=[Output("said", "said")])
def say():
    return "<said/>"
"""


def put(folder: Path, **files: str) -> Path:
    return make(folder, **files).home


def test_G58_a_folder_without_faults_is_packed(tmp_path: Path) -> None:
    folder = put(tmp_path / "office", module=MODULE, recipes=one_step("r", "w.say"))
    packed = packed_and_checked(folder, "office", {})
    assert sorted(packed.files) == ["modules/w.py", "recipes/w.xml"]


def test_G58_all_faults_are_told_and_nothing_is_packed(tmp_path: Path) -> None:
    files = {"recipes": one_step("r", "w.sya"), "memory": "<memory><start-plan recipe='w.s'/></memory>"}
    folder = put(tmp_path / "office", module=MODULE, **files)
    (folder / "etc/schemas").mkdir()
    (folder / "etc/schemas/guest.dtd").write_text("<!ELEMENT")
    with pytest.raises(DefinitionError) as caught:
        packed_and_checked(folder, "office", {})
    assert [fault.path for fault in caught.value.faults] == [
        "data/memory.xml",
        "etc/schemas/guest.dtd",
        "recipes/w.xml",
    ]
    with pytest.raises(DefinitionError, match="expected a folder with"):
        packed_and_checked(put(tmp_path / "empty"), "office", {})
    for name in ("own", "Office", "../office", ""):
        with pytest.raises(RequestError):
            packed_and_checked(folder, name, {})


def test_G58_a_collection_may_name_what_the_home_collection_has(tmp_path: Path) -> None:
    home = pack(put(tmp_path / "home", module=MODULE))[0].files
    folder = put(tmp_path / "office", recipes=one_step("r", "w.say"))
    assert packed_and_checked(folder, "office", home)
    with pytest.raises(DefinitionError, match=r"recipes/w\.xml:.*w\.say"):
        packed_and_checked(folder, "office", {})
    with pytest.raises(DefinitionError, match=r"w\.say"):
        packed_and_checked(folder, "home", home)  # that takes the place of the home's: there is none beside


def test_G58_what_a_home_declares_is_for_its_own_agent_alone(tmp_path: Path) -> None:
    memory = "<memory><guest name='Eve'/></memory>"
    folder = put(tmp_path / "home", module=MODULE, memory=memory)
    assert "data/memory.xml" in packed_and_checked(folder, "office", {}).files
    (folder / "etc/narval.toml").write_text('name = "ada"\n')
    assert "data/memory.xml" not in packed_and_checked(folder, "home", {}).files


def test_G58_a_folder_is_written_whole_over_what_was_published_before(tmp_path: Path) -> None:
    one, two = {"recipes/a.xml": b"1", "data/memory.xml": b"1"}, {"recipes/b.xml": b"2"}
    assert write_published(tmp_path, "office", "d1", one)
    assert write_published(tmp_path, "office", "d2", two)
    folder = tmp_path / "collections/office"
    assert {path.name for path in folder.rglob("*") if path.is_file()} == {"b.xml", ".published"}
    assert (folder / ".published").read_text().startswith("d2\n")
    assert [path.name for path in folder.parent.iterdir()] == ["office"]  # nothing is left of the way there
    assert published_here(tmp_path) == {"office"}
    (folder.parent / ".narval-killed").mkdir()
    remove_published(tmp_path, "office")
    assert list(folder.parent.iterdir()) == []
    remove_published(tmp_path, "office")


def test_G58_a_folder_of_the_users_own_is_never_touched(tmp_path: Path) -> None:
    own = put(tmp_path / "collections/office", module=MODULE)
    assert not write_published(tmp_path, "office", "d1", {"recipes/a.xml": b"1"})
    remove_published(tmp_path, "office")
    assert (own / "modules/w.py").read_text() == MODULE
    (fault,) = own_folder_faults(tmp_path, {"office": "d1"}, {"office": "d2"})
    assert "collections/office is a folder of this home's own" in fault.message
    assert "a collection office is published (d1)" in fault.message
    # with the same files it is as good as published
    same = {"office": digest_here(tmp_path, "office")}
    assert list(own_folder_faults(tmp_path, same, same)) == []
    (tmp_path / "collections/link").symlink_to(own)
    assert not write_published(tmp_path, "link", "d1", {"recipes/a.xml": b"1"})


def test_G58_the_digest_of_a_folder_is_that_of_what_stands_there_now(tmp_path: Path) -> None:
    packed, _ = pack(put(tmp_path / "office", module=MODULE))
    write_published(tmp_path, "office", packed.digest, packed.files)
    assert digest_here(tmp_path, "office") == packed.digest
    (tmp_path / "collections/office/modules/w.py").write_text("")
    assert digest_here(tmp_path, "office") != packed.digest
    assert digest_here(tmp_path, "none") == ""


def test_G58_what_is_published_is_not_checked_again_beside_the_home(tmp_path: Path) -> None:
    narval = make(tmp_path / "home", module=MODULE)
    packed, _ = pack(narval.home)
    write_published(narval.home, "staging", packed.digest, packed.files)
    assert check_home(Home(narval.home)) == []  # though all its names are the home's too


def test_G3_schemas_and_declarations_of_collections_are_checked(tmp_path: Path) -> None:
    narval = make(tmp_path / "home", module=MODULE)
    narval.write("collections/office/etc/schemas/guest.dtd", "<!ELEMENT")
    narval.write("collections/home/data/memory.xml", "<memory><start-plan recipe='w.say'/></memory>")
    assert [fault.path for fault in check_home(Home(narval.home))] == [
        "collections/home/data/memory.xml",
        "collections/office/etc/schemas/guest.dtd",
    ]
