"""Modules that are folders: good as a whole, imported as one, the group the folder's name (N30, N31)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from narval.core.errors import DefinitionError
from narval.files.found_files import ModuleText
from narval.files.loaded import Loaded
from narval.files.reading import Reading, load
from tests.files.rereading import Loader

ACTION = "from narval import Output, action\n"
FIRST = ACTION + (
    "from .words import GREETING\nfrom . import more\n"
    '@action(outputs=[Output("said", "said")])\n'
    'def say():\n    return f"<said>{GREETING} {more.WHOM}</said>"\n'
)
MORE = ACTION + "WHOM = 'all'\n@action\ndef rest(): ...\n"
WHY = "the module cannot be imported"
FILES = {
    "modules/talk/__init__.py": FIRST,
    "modules/talk/words.py": "from ..deep.inner import word\nGREETING = word.WORD\n",
    "modules/talk/more.py": MORE,
    "modules/deep/inner/word.py": "from ...plain import WORD\n",
    "modules/plain.py": "WORD = 'hello'\n",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    put(tmp_path, FILES)
    return tmp_path


def put(home: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(loaded: Loaded) -> list[str]:
    return sorted(definition.full_name for definition in loaded.library)


def faults_of(loaded: Loaded) -> list[str]:
    return [re.sub(r"narval_home_\d+", "HOME", str(fault)) for fault in loaded.faults]


def test_the_group_of_all_actions_in_a_folder_is_its_name(home: Path) -> None:
    loaded = load(home)
    assert faults_of(loaded) == []
    assert names(loaded) == ["talk.rest", "talk.say"]
    assert loaded.functions["talk.say"]() == "<said>hello all</said>"
    paths = {definition.full_name: definition.path for definition in loaded.library}
    assert paths == {"talk.rest": "modules/talk/more.py", "talk.say": "modules/talk/__init__.py"}
    assert [file.path for file in loaded.files] == [
        "modules/deep/inner/word.py",
        "modules/plain.py",
        "modules/talk/__init__.py",
        "modules/talk/more.py",
        "modules/talk/words.py",
    ]


def test_a_folder_needs_no_first_file(home: Path) -> None:
    (home / "modules/talk/__init__.py").unlink()
    assert names(load(home)) == ["talk.rest"]


def test_N31_a_change_of_any_file_is_a_new_version_of_all_its_actions(home: Path) -> None:
    loader = Loader(home)
    before = loader.load()
    put(home, {"modules/talk/more.py": MORE.replace("all", "you")})
    after = loader.load()
    assert after.functions["talk.say"]() == "<said>hello you</said>"
    assert before.functions["talk.say"]() == "<said>hello all</said>"
    digests = [loaded.library.get("action", "talk.say").digest for loaded in (before, after)]
    assert digests[0] != digests[1]


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("words.py", "def f(:\n", "modules/talk/words.py:1:7: not Python: invalid syntax"),
        ("words.py", "x = y\n", f"modules/talk/words.py:1:5: {WHY}: NameError: name 'y' is not defined"),
        ("more.py", ACTION + "@action\ndef rest(m): ...\n", "modules/talk/more.py:3:1: rest: no input gives"),
        ("alone.py", "1/0", f"modules/talk/alone.py:1:1: {WHY}: ZeroDivisionError"),
        (
            "alone.py",
            ACTION + "@action\ndef rest(): ...\n",
            "modules/talk/alone.py:3:1: expected a new name, found the action 'rest' of modules/talk/more.py",
        ),
    ],
)
def test_N13_a_folder_is_good_as_a_whole_or_not_at_all(home: Path, name: str, text: str, fault: str) -> None:
    loader = Loader(home)
    loader.load()
    put(home, {f"modules/talk/{name}": text, "modules/plain.py": "WORD = 'new'\n"})
    after = loader.load()
    (told,) = faults_of(after)
    assert told.startswith(fault)
    assert names(after) == ["talk.rest", "talk.say"]
    assert after.functions["talk.say"]() == "<said>new all</said>", "its last good version, with new siblings"


def test_N13_across_restarts_the_store_gives_the_last_good_version_of_a_folder(home: Path) -> None:
    kept = load(home).sources
    put(home, {"modules/talk/words.py": "1/0"})
    assert names(load(home)) == []
    loaded = Reading(home, stored=lambda path: [kept[path]] if path in kept else []).library()
    assert loaded.functions["talk.say"]() == "<said>hello all</said>"
    assert ModuleText.of("modules/talk", kept["modules/talk"]).files.keys() == {
        "__init__.py",
        "more.py",
        "words.py",
    }
    assert names(Reading(home, stored=lambda path: [b"\xff"]).library()) == []


def test_a_file_and_a_folder_of_one_name_are_a_fault_at_both(home: Path) -> None:
    loader = Loader(home)
    loader.load()
    put(home, {"modules/talk.py": ACTION + "@action\ndef other(): ...\n"})
    after = loader.load()
    assert names(after) == ["talk.rest", "talk.say"], "the last that was good"
    message = (
        "expected one module of the name 'talk', found modules/talk and modules/talk.py; rename or remove one"
    )
    assert faults_of(after) == [f"modules/talk:1:1: {message}", f"modules/talk.py:1:1: {message}"]
    assert names(load(home)) == []


def test_hidden_files_backups_and_other_things_in_a_folder_are_passed_over(home: Path) -> None:
    put(
        home,
        {
            f"modules/talk/{name}": "1/0"
            for name in (".x.py", "x.py~", "__pycache__/x.py", ".git/x.py", "x.txt")
        },
    )
    put(home, {"modules/data/x.txt": "", "modules/.hidden/x.py": "1/0"})
    loaded = load(home)
    assert (names(loaded), faults_of(loaded)) == (["talk.rest", "talk.say"], [])


def test_a_link_out_of_the_home_makes_a_folder_bad_as_a_whole(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "x.py"
    outside.write_text("")
    loader = Loader(home)
    loader.load()
    (home / "modules/talk/x.py").symlink_to(outside)
    loaded = loader.load()
    assert names(loaded) == ["talk.rest", "talk.say"]
    assert faults_of(loaded) == [
        "modules/talk/x.py:1:1: this link leads out of the home; put a copy here instead"
    ]


def test_a_module_whose_sibling_folder_did_not_load_says_so(home: Path) -> None:
    put(home, {"modules/talk/more.py": "1/0", "modules/user.py": "from .talk import say\n"})
    assert faults_of(load(home)) == [
        f"modules/talk/more.py:1:1: {WHY}: ZeroDivisionError: division by zero",
        f"modules/user.py:1:1: {WHY}: ImportError: modules/talk/more.py did not load: {WHY}: "
        "ZeroDivisionError: division by zero",
    ]


@pytest.mark.parametrize("name", ["modules/talk", "modules/talk/__init__.py"])
def test_a_folder_is_added_by_its_path(home: Path, name: str) -> None:
    loaded = Loaded().with_definitions(home / name)
    assert names(loaded) == ["talk.rest", "talk.say"]
    assert loaded.functions["talk.say"]() == "<said>hello all</said>"
    put(home, {"modules/talk/more.py": "WHOM = 'you'\n"})
    again = loaded.with_definitions(str(home / name))
    assert names(again) == ["talk.say"], "it takes the place of all that it was"
    put(home, {"modules/talk/more.py": "1/0"})
    with pytest.raises(DefinitionError, match=r"talk/more\.py:1:1: the module cannot be imported"):
        again.with_definitions(home / name)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("from . import a, b as c\n", {"a", "b"}),
        ("from . import (  # these\n    a,\n    b,\n)\n", {"a", "b"}),
        ("def f():\n    from .a import x; from .b.c import y\n", {"a", "b"}),
        ("from ..a import x\nfrom a import y\nimport b\n", set()),
    ],
)
def test_the_siblings_of_a_module_are_read_from_its_text(text: str, names: set[str]) -> None:
    assert ModuleText.of("modules/m.py", text.encode()).siblings == names
