"""Modules that ship: they count where a home names them and has none of their name (N31)."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

import narval
from narval.core.errors import DefinitionError, Fault
from narval.files import modules
from narval.files.agents.collections import parse_file
from narval.files.grants import shipped_definitions
from narval.files.loaded import Loaded
from narval.files.reading import load
from narval.files.shipped import ShippedModules, shipped, shipped_modules
from narval.system.regular_file import read_file
from tests.files.rereading import Loader

ACTION = "from narval import action\n"
MINE = ACTION + "@action\ndef send(): ...\n"
SHIPPED = "<narval>/modules/mail/__init__.py"


def recipe(target: str, name: str = "r") -> str:
    step = f'<step id="a" type="action" target="{target}"/>'
    return f'<recipe group="w" name="{name}" start_step="a" end_step="a">{step}</recipe>'


def put(home: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def groups(loaded: Loaded) -> dict[str, str]:
    """The first of the files that have actions, by group."""
    actions = [found for found in loaded.library if found.kind == "action"]
    return {
        found.group: found.path for found in sorted(actions, key=lambda action: action.path, reverse=True)
    }


def told(loaded: Loaded) -> list[str]:
    return [str(fault) for fault in loaded.faults]


def test_a_module_counts_once_a_recipe_names_it_and_no_longer(tmp_path: Path) -> None:
    loader = Loader(tmp_path)
    assert groups(loader.load()) == {}
    put(tmp_path, {"recipes/w.xml": recipe("mail.read")})
    loaded = loader.load()
    assert groups(loaded) == {"mail": SHIPPED}, "and files, which nothing names, is not even looked at"
    assert loaded.texts.keys() == {"mail"}
    assert {file.path for file in loaded.files if file.loaded is None} == set()
    put(tmp_path, {"recipes/w.xml": recipe("basic.nothing")})
    loaded = loader.load()
    assert groups(loaded) == {"basic": "<narval>/modules/basic.py"}, "not files, which it imports itself"
    (tmp_path / "recipes/w.xml").unlink()
    assert (groups(loader.load()), loader.load().files) == ({}, ())


def test_a_home_that_names_none_imports_none(tmp_path: Path) -> None:
    put(tmp_path, {"modules/w.py": MINE, "recipes/w.xml": recipe("w.send")})
    program = (
        "import sys; from pathlib import Path; from narval.files.reading import load\n"
        f"loaded = load(Path({str(tmp_path)!r}))\n"
        "assert not loaded.faults and len(loaded.library) == 2\n"
        "print([name for name in sys.modules if name.startswith('narval_shipped')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "text",
    ["from .files import watch\n", "def later():\n    from .files.places import place\n    return place\n"],
)
def test_a_module_of_the_home_that_imports_one_names_it(tmp_path: Path, text: str) -> None:
    put(tmp_path, {"modules/w.py": text})
    loaded = load(tmp_path)
    assert groups(loaded) == {"files": "<narval>/modules/files/__init__.py"}
    assert "later" not in text or loaded.modules["w"].later() is loaded.modules["files"].places.place


def test_the_home_s_own_module_takes_its_place_whole_and_what_ships_does_not_mind(tmp_path: Path) -> None:
    put(tmp_path, {"modules/files.py": MINE, "recipes/w.xml": recipe("basic.write_file")})
    loader = Loader(tmp_path)
    loaded = loader.load()
    assert told(loaded) == []
    assert groups(loaded) == {"files": "modules/files.py", "basic": "<narval>/modules/basic.py"}
    assert [name for name in loaded.library.of("action") if name.startswith("files.")] == ["files.send"]
    put(tmp_path, {"recipes/w.xml": recipe("files.watch")})
    assert told(loader.load()) == [
        "recipes/w.xml:1:91: step 'a': there is no action 'files.watch'; it ships, but a module of the home "
        "has taken its place: narval diff files"
    ]
    (tmp_path / "modules/files.py").unlink()
    assert groups(loader.load()) == {"files": "<narval>/modules/files/__init__.py"}


def test_N13_of_a_faulty_replacement_the_last_good_version_is_the_one_that_ships(tmp_path: Path) -> None:
    put(tmp_path, {"recipes/w.xml": recipe("mail.send"), "modules/mail/__init__.py": "1/0"})
    loader = Loader(tmp_path)
    loaded = loader.load()
    assert groups(loaded) == {"mail": SHIPPED}
    (fault,) = told(loaded)
    assert fault.startswith("modules/mail/__init__.py:1:1: the module cannot be imported")
    put(tmp_path, {"modules/mail/__init__.py": MINE})
    assert groups(loader.load()) == {"mail": "modules/mail/__init__.py"}
    put(tmp_path, {"modules/mail/__init__.py": MINE + "1/0"})
    assert groups(loader.load()) == {"mail": "modules/mail/__init__.py"}, "its own last good version"


def test_N13_a_sibling_of_a_faulty_replacement_gets_what_ships(tmp_path: Path) -> None:
    put(tmp_path, {"modules/files.py": "1/0", "modules/w.py": "from .files.places import place\n" + MINE})
    loaded = load(tmp_path)
    assert groups(loaded) == {"files": "<narval>/modules/files/__init__.py", "w": "modules/w.py"}
    assert [fault.path for fault in loaded.faults] == ["modules/files.py"]


def test_N13_a_last_good_version_keeps_what_it_names(tmp_path: Path) -> None:
    put(tmp_path, {"recipes/w.xml": recipe("mail.read")})
    loader = Loader(tmp_path)
    loader.load()
    put(tmp_path, {"recipes/w.xml": recipe("nothing.at_all")})
    loaded = loader.load()
    assert len(loaded.faults) == 1
    assert groups(loaded) == {"mail": SHIPPED}


@pytest.mark.parametrize(("target", "meant"), [("mial.send", "mail.send"), ("mail.raed", "mail.read")])
def test_a_target_near_one_that_ships_gets_its_suggestion(tmp_path: Path, target: str, meant: str) -> None:
    put(tmp_path, {"recipes/w.xml": recipe(target)})
    message = f"step 'a': there is no action {target!r}; did you mean {meant!r}?"
    assert [fault.message for fault in load(tmp_path).faults] == [message]
    with pytest.raises(DefinitionError, match="did you mean"):
        Loaded().with_definitions(recipe(target))


def test_the_names_that_are_suggested_are_those_of_the_actions_that_ship() -> None:
    ships = shipped_modules()
    found = [module.found for module in ships.load(ships.names).modules.values()]
    assert ships.actions == {action.full_name for actions in found for action in actions}


def test_a_home_in_memory_has_them_too() -> None:
    with narval.open() as agent:
        agent.load(recipe("basic.nothing"))
        run = agent.start("w.r")
        assert agent.wait(run)["phase"] == "done"
        actions = {row["name"] for row in agent.ask("actions")}
        assert "basic.write_file" in actions
        assert not any(name.startswith("files.") for name in actions)


def test_a_module_added_by_its_path_takes_the_place_of_one_that_ships(tmp_path: Path) -> None:
    put(tmp_path, {"basic.py": ACTION + "@action\ndef nothing(): ...\n"})
    with narval.open() as agent:
        agent.load(recipe("basic.nothing"))
        agent.load(tmp_path / "basic.py")
        assert [row["name"] for row in agent.ask("actions")] == ["basic.nothing"]


def test_an_action_that_ships_fails_with_the_lines_it_passed_and_no_path_of_the_machine(
    tmp_path: Path,
) -> None:
    put(tmp_path, {"recipes/w.xml": recipe("files.read_text")})
    with narval.open(tmp_path) as agent:
        agent.add("<file path='nowhere.txt'/>")
        run = agent.start("w.r")
        assert agent.wait(run)["phase"] == "failed"
        (error,) = agent.memory("error")
        assert re.fullmatch(
            r"<narval>/modules/files/__init__\.py:\d+ in read_text: with opening\(path\) as opened:\n"
            r"<narval>/modules/files/places\.py:\d+ in opening: raise ActionError.*",
            str(error.tree().findtext("detail")),
        )
        assert str(Path(narval.__file__).parent.parent) not in error.xml.decode()


def test_an_error_that_a_sibling_raised_has_its_line_as_its_place(tmp_path: Path) -> None:
    act = "from narval import action\nfrom .util import check\n@action\ndef a():\n    check()\n"
    put(tmp_path, {
        "modules/big.py": act,
        "modules/util.py": "def check():\n    raise ValueError('wrong')\n",
        "recipes/w.xml": recipe("big.a"),
    })  # fmt: skip
    with narval.open(tmp_path) as agent:
        agent.wait(agent.start("w.r"))
        (error,) = agent.memory("error")
        assert error.tree().findtext("detail", "").splitlines() == [
            "modules/big.py:5 in a: check()",
            "modules/util.py:2 in check: raise ValueError('wrong')",
        ]
        (row,) = agent.ask("incidents")
        assert row["place"] == "modules/util.py:2"


WORKER = """
from narval import Output, action, ActionError
from .mail.texts import unflow
from .talk import greeting

@action(outputs=[Output("n", "n")], runs="worker")
def give():
    from .basic import LONGEST_LINE
    from .files.places import place
    from .files import mine
    return f"<n>{unflow('a', False)} {greeting()} {LONGEST_LINE} {mine} {__name__.rpartition('.')[2]}</n>"

@action(runs="worker")
def fail():
    raise ActionError("no", "no")
"""


def test_N33_in_workers_modules_are_folders_and_ship_as_they_do_elsewhere(tmp_path: Path) -> None:
    put(tmp_path, {
        "modules/w/act.py": WORKER.replace("from .", "from .."),
        "modules/talk/__init__.py": "from .words import WORD\ndef greeting():\n    return WORD\n",
        "modules/talk/words.py": "WORD = 'hello'\n",
        "modules/files/__init__.py": "mine = 'mine'\n",
        "modules/files/places.py": "place = None\n",
        "recipes/w.xml": f"<cookbook>{recipe('w.give')}{recipe('w.fail', 'f')}</cookbook>",
    })  # fmt: skip
    with narval.open(tmp_path) as agent:
        run = agent.start("w.r")
        assert agent.wait(run)["phase"] == "done", agent.memory("error")
        assert [each.text for each in agent.memory("n")] == ["a hello 2000 mine act"]
        put(tmp_path, {"modules/talk/words.py": "1/0"})
        agent.start("w.r")
        agent.until_idle()
        assert [each.text for each in agent.memory("n")][1:] == ["a hello 2000 mine act"], "nothing is read"
        agent.wait(agent.start("w.f"))
        (error,) = agent.memory("error[@type='no']")
        detail = error.tree().findtext("detail", "")
        assert detail.startswith("modules/w/act.py:15 in fail: raise ActionError")


def version(folder: Path, word: str) -> Path:
    """An installed narval whose module `talk` says a word."""
    package = folder / word / "narval"
    put(package / "home", {
        "recipes/README": "",
        "modules/talk/__init__.py": "from .words import said\n" + SAY,
        "modules/talk/words.py": f"said = '<said>{word}</said>'\n",
    })  # fmt: skip
    return package / "__init__.py"


SAY = """from narval import Output, action

@action(outputs=[Output("said", "said")])
def say():
    return said
"""
WAITING = """<recipe group="w" name="r" start_step="a" end_step="b">
  <step id="a" type="action" target="talk.say"/><step id="b" type="action" target="talk.say"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>go</match></condition></transition>
</recipe>"""


def test_N31_a_new_version_of_narval_is_a_change_of_its_modules_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    put(home, {"recipes/w.xml": WAITING})
    monkeypatch.setattr(narval, "__file__", str(version(tmp_path, "one")))
    with narval.open(home) as agent:
        run = agent.start("w.r")
        agent.until_idle()
        (first,) = agent.memory("action", current=True)
    monkeypatch.setattr(narval, "__file__", str(version(tmp_path, "two")))
    with narval.open(home) as agent:
        (second,) = agent.memory("action", current=True)
        assert first.eid != second.eid, "the definition of before is replaced"
        agent.add("<go/>")
        assert agent.wait(run)["phase"] == "done"
        assert [each.text for each in agent.memory("said")] == ["one", "two"]
    put(tmp_path / "two/narval/home", {"modules/talk/words.py": "1/0"})
    monkeypatch.setattr(narval, "__file__", str(version(tmp_path, "three")))
    put(tmp_path / "three/narval/home", {"modules/talk/words.py": "1/0"})
    with pytest.warns(narval.FaultWarning, match="words.py:1"):
        opened = narval.open(home)
    with opened as agent:
        (fault,) = agent.ask("definitions")["faults"][:1]
        assert (fault["path"], fault["line"]) == ("<narval>/modules/talk/words.py", 1)


def test_a_file_that_ships_is_compiled_once_for_all_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    source_to_code = SourceFileLoader.source_to_code

    def noted(self: SourceFileLoader, data: bytes, path: str, **options: object) -> object:
        compiled.append(path)
        return source_to_code(self, data, path, **options)

    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(SourceFileLoader, "source_to_code", noted)
    monkeypatch.setattr(modules, "compile", None, raising=False)  # nothing else compiles
    (tmp_path / "mine.py").write_text(MINE)
    for _ in range(2):  # as by two programs
        loaded = ShippedModules(tmp_path).load(["mine"])
        assert loaded.modules["mine"].functions.keys() == {"mine.send"}
    assert compiled == [str(tmp_path / "mine.py")]
    (tmp_path / "mine.py").write_text(MINE.replace("send", "receive"))
    assert ShippedModules(tmp_path).load(["mine"]).modules["mine"].functions.keys() == {"mine.receive"}


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
    assert len(of_files) == len({*of_files}) == len(shipped_definitions())
    modules = shipped_modules().load(shipped_modules().names).modules.values()
    of_modules = {(one.kind, one.full_name) for module in modules for one in module.found}
    assert of_modules
    assert of_modules.isdisjoint(of_files)
