"""The names of what ships."""

from __future__ import annotations

from narval.core.errors import Fault
from narval.files import grants
from narval.files.agents.collections import parse_file
from narval.files.shipped import shipped, shipped_modules
from narval.system.regular_file import read_file


def test_each_name_that_ships_ships_once() -> None:
    """So a file that is as it ships has what ships under its names."""
    folders = [shipped() / "recipes", *(shipped() / "agents").glob("*/recipes")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    of_files = [
        (one.kind, one.full_name)
        for path in files
        if not isinstance(source := read_file(path, path.name), Fault)
        for one in parse_file(source).definitions
    ]
    assert len(of_files) == len({*of_files}) == len(grants.shipped_definitions())
    modules = shipped_modules().load(shipped_modules().names).modules.values()
    of_modules = {(one.kind, one.full_name) for module in modules for one in module.found}
    assert of_modules
    assert of_modules.isdisjoint(of_files)
