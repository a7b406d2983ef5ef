"""A folder that cannot be read is a fault, and what was read from it before stays in effect (N13)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from narval.files.found_files import find_files
from narval.files.reading import Reading
from narval.files.snapshot import Snapshot

STEP = '<step id="a" type="action" target="{1}"/>'
RECIPE = f'<recipe group="g" name="{{0}}" start_step="a" end_step="a">{STEP}</recipe>'
MODULE = "from narval import action\n@action()\ndef go(): ...\n"
SCHEMA = '<element name="note" xmlns="http://relaxng.org/ns/structure/1.0"><empty/></element>'
FILES = {
    "data/memory.xml": "<memory><note/></memory>",
    "recipes/a.xml": RECIPE.format("a", "m.go"),
    "recipes/in/b.xml": RECIPE.format("b", "n.go"),
    "modules/m.py": MODULE,
    "modules/n/__init__.py": MODULE,
    "modules/n/more/x.py": "",
    "etc/schemas/note.rng": SCHEMA,
    "etc/people.toml": "[people.ann]\n",
    "etc/peers.toml": '[office]\nurl = "https://narval.example.org:8766"\ntoken = "link-office"\n',
    "agents/ada/recipes/c.xml": RECIPE.format("c", "m.go"),
    "agents/ada/data/memory.xml": "<memory><own/></memory>",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "etc/link-office").write_text("x" * 43)
    (tmp_path / "etc/link-office").chmod(0o600)
    return tmp_path


@pytest.fixture
def forbid(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Forbid folders, as their modes would to anyone but root."""
    folders: list[str] = []

    def without(original: Any, of_folder: bool) -> Any:
        def call(path: Any = ".", *rest: Any, **named: Any) -> Any:
            text = os.fspath(path) if not isinstance(path, int) else ""
            inside = any(text.startswith(f"{one}/") or (of_folder and text == one) for one in folders)
            if inside:
                raise PermissionError(13, "Permission denied", text)
            return original(path, *rest, **named)

        return call

    for name in ("scandir", "listdir"):
        monkeypatch.setattr(os, name, without(getattr(os, name), of_folder=True))
    for name in ("stat", "lstat", "open"):
        monkeypatch.setattr(os, name, without(getattr(os, name), of_folder=False))
    return lambda path: folders.append(str(path))


def shown(snapshot: Snapshot) -> dict[str, Any]:
    """What is in effect."""
    ada, own = snapshot.agents.get("ada"), snapshot.own
    return {
        "names": sorted(each.full_name for each in own.loaded.library),
        "of ada": sorted(each.full_name for each in ada.loaded.library) if ada else None,
        "declared by ada": bool(ada and (ada.declared is None or ada.declared)),
        "people": sorted(snapshot.people.people) if snapshot.people else [],
        "peers": sorted(snapshot.peers),
        "refused": own.schemas.refusal(b"<note>x</note>") is not None,
    }


@pytest.mark.parametrize(
    "folder",
    [
        *("recipes", "recipes/in", "modules", "modules/n", "modules/n/more", "etc", "etc/schemas"),
        *("agents", "agents/ada", "agents/ada/recipes", "agents/ada/data"),
    ],
)
def test_what_was_read_before_stays(home: Path, folder: str, forbid: Any) -> None:
    before = Reading(home).snapshot()
    assert not before.own.faults + before.agents["ada"].faults
    forbid(home / folder)
    again = Reading(home, before).snapshot()
    assert shown(again) == shown(before)
    faults = {*again.own.faults, *again.agents["ada"].faults}
    assert any(str(fault).endswith(":1:1: cannot be read: Permission denied") for fault in faults)
    assert all(fault.path.startswith(folder) for fault in faults)


@pytest.mark.parametrize("folder", ["recipes", "modules"])
def test_a_start_reports_a_folder_that_cannot_be_read(home: Path, folder: str, forbid: Any) -> None:
    forbid(home / folder)
    faults = Reading(home).snapshot().own.faults
    assert f"{folder}:1:1: cannot be read: Permission denied" in map(str, faults)


def test_a_module_with_an_unreadable_part_has_its_stored_version(home: Path, forbid: Any) -> None:
    [former] = [text for text in find_files(home).modules if text.is_folder]
    stored = {former.path: [former.data]}
    forbid(home / "modules/n/more")
    assert Reading(home).snapshot().own.loaded.library.get("action", "n.go") is None
    own = Reading(home, stored=lambda path: stored.get(path, ())).snapshot().own
    assert own.loaded.library.get("action", "n.go") is not None
    assert [fault.path for fault in own.faults] == ["modules/n/more"]


def test_a_collection_that_nobody_follows_is_reported_too(home: Path, forbid: Any) -> None:
    (home / "collections/c/recipes").mkdir(parents=True)
    forbid(home / "collections/c")
    reading = Reading(home)
    faults = {str(fault) for loaded in reading.libraries(reading.snapshot()) for fault in loaded.faults}
    assert "collections/c/recipes:1:1: cannot be read: Permission denied" in faults
