"""The pages for contributors: what they name is there, and their code does what they say."""

from __future__ import annotations

import ast
import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import narval
from narval.ask import operations
from narval.core.engines.engine import Engine
from narval.core.errors import RequestError
from narval.files.home import Home
from narval.surfaces.cli import main
from narval.surfaces.cli.without_daemon import serving
from tests.places import ROOT

FOLDER = ROOT / "docs" / "contributing"
PAGES = sorted(FOLDER.glob("add-*.md"))


def code(page: str) -> dict[str, Any]:
    """The names that the code of a page makes."""
    (text,) = re.findall(r"```python\n(.*?)```", (FOLDER / page).read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"__name__": "narval_page"}
    exec(compile(text, page, "exec"), names)
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_rooms_that_a_page_names_are_there(page: Path) -> None:
    named = re.findall(
        r"`((?:narval|tests|docs|recipes|scenarios|modules)/[\w/.-]*)`", page.read_text("utf-8")
    )
    paths = [path for path in named if not (ROOT / path).exists() and "NAME" not in path]
    assert paths == []


def test_the_contract_of_an_engine_is_on_the_page_of_kinds() -> None:
    text = (FOLDER / "add-a-kind.md").read_text(encoding="utf-8")
    contract = text[text.index("## The contract") : text.index("An optional part")]
    members = {name for name in vars(Engine) if not name.startswith("_")}
    assert set(re.findall(r"`(\w+)`", contract)) == members


def names_of(path: Path) -> set[str]:
    """The functions, classes, methods and constants of a module."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.ClassDef(name=name, body=body):
                names |= {name, *(f"{name}.{part.name}" for part in body if hasattr(part, "name"))}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return names


def test_the_functions_of_the_two_pictures_are_where_they_say() -> None:
    text = (FOLDER / "two-pictures.md").read_text(encoding="utf-8")
    places = re.findall(r"`([\w.]+)` in `(narval/[\w/]+\.py)`", text)
    assert places
    gone = [(name, path) for name, path in places if name not in names_of(ROOT / path)]
    assert gone == []


def test_each_number_of_the_two_pictures_has_a_row() -> None:
    for section in (FOLDER / "two-pictures.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        picture, table = section.split("```")[1:3]
        drawn = re.findall(r"^ ?(\d+) ", picture, re.MULTILINE)
        assert drawn == re.findall(r"^\| (\d+) \|", table, re.MULTILINE) != []


def with_hook(place: Path) -> Path:
    """A home that has a webhook."""
    (place / "etc").mkdir()
    settings = f'[hooks.build]\nsha256 = "{"0" * 64}"\nelement = "build"\n'
    (place / "etc" / "narval.toml").write_text(settings)
    return place


def test_the_operation_of_the_page_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = code("add-an-operation.md")["hooks_giving"]
    monkeypatch.setattr(operations, "OPERATIONS", {found.name: found})
    with narval.open(with_hook(tmp_path)) as agent:
        assert agent.ask("hooks_giving", element="build") == ["build"]
        assert agent.ask("hooks_giving", element="other") == []
        with pytest.raises(RequestError, match="element"):
            agent.ask("hooks_giving", element=1)


def test_the_command_of_the_page_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "commands", {"listeners": code("add-a-command.md")["listeners"]})
    home = str(with_hook(tmp_path))
    assert "build" in CliRunner().invoke(main, ["--home", home, "listeners"]).output
    told = CliRunner().invoke(main, ["--home", home, "--json", "listeners"])
    assert json.loads(told.output)[0]["element"] == "build"
    assert "narval listeners" in CliRunner().invoke(main, ["listeners", "--help"]).output


def test_the_surface_of_the_page_shows_what_runs(tmp_path: Path) -> None:
    board = code("add-a-surface.md")["board"]
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "r.xml").write_text(
        "<recipe group='r' name='waits' start_step='a' end_step='b'>"
        "<step id='a' type='action' target='basic.nothing'/>"
        "<step id='b' type='action' target='basic.nothing'/>"
        "<transition id='t'><in idref='a'/><out idref='b'/>"
        "<condition><match>never</match></condition></transition></recipe>"
    )
    with narval.open(tmp_path) as agent:
        agent.start("r.waits")
    assert asyncio.run(_shown(Home.find(tmp_path, {}), board)) == ["r.waits: running"]


async def _shown(home: Home, board: Any) -> list[str]:
    async with serving(home) as daemon:
        work = asyncio.create_task(daemon.main_loop.run())
        lines: list[str] = await asyncio.to_thread(board, home.socket())
        daemon.stop.request()
        await work
    return lines


def test_the_module_of_the_page_acts(tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    (text,) = re.findall(r"```python\n(.*?)```", (FOLDER / "add-a-module.md").read_text("utf-8"), re.DOTALL)
    (tmp_path / "modules" / "frost.py").write_text(text)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "f.xml").write_text(
        "<recipe group='f' name='judge' start_step='a' end_step='a'>"
        "<step id='a' type='action' target='frost.judge'/></recipe>"
    )
    with narval.open(tmp_path) as agent:
        runs = [agent.start("f.judge", f"<temperature celsius='{degrees}'/>") for degrees in ("-3", "4", "x")]
        agent.until_idle()
        assert [agent.run(run)["state"] for run in runs] == ["done", "done", "failed"]
        assert [found.name for found in agent.memory("warning")] == ["warning"]
        assert agent.memory("error[@type='bad-temperature']")
