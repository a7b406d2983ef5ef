"""The loader: a home's files become a library; a bad file costs itself alone (N13, N30, N31)."""

from __future__ import annotations

import gc
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from narval.core.definitions.action.definition import Action
from narval.core.definitions.parsing import read_definition
from narval.core.errors import DefinitionError
from narval.files import import_places
from narval.files.loaded import Loaded
from narval.files.reading import Reading, load
from narval.files.snapshot import differences, first_loaded
from narval.kinds.recipe.language.definition import Recipe
from tests.files.rereading import Loader

ACTION = "from narval import Input, Output, action\n"
MAIL = ACTION + '@action(inputs=[Input("mail", "email")])\ndef send(mail):\n    return "<sent/>"\n'


def recipe(target: str, name: str = "triage", group: str = "mail", type: str = "action") -> str:
    step = f'<step id="a" type="{type}" target="{target}"/>'
    return f'<recipe group="{group}" name="{name}" start_step="a" end_step="a">{step}</recipe>'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for folder in ("recipes", "modules"):
        (tmp_path / folder).mkdir()
    return tmp_path


def put(home: Path, files: dict[str, str | bytes]) -> None:
    for name, data in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)


def names(loaded: Loaded) -> list[str]:
    return sorted(definition.full_name for definition in loaded.library)


def faults_of(loaded: Loaded) -> list[str]:
    return [str(fault) for fault in loaded.faults]


def test_a_home_in_memory_has_nothing() -> None:
    loaded = Loaded()
    assert (len(loaded.library), loaded.faults, loaded.files) == (0, (), ())


def test_a_home_without_folders_has_nothing(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    assert (names(loaded), faults_of(loaded), loaded.files) == ([], [], ())


def test_recipes_transforms_and_modules_become_a_library(home: Path) -> None:
    sheet = """<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
      <prototype/><xsl:template match="/"/></xsl:stylesheet>"""
    put(home, {
        "modules/mail.py": MAIL,
        "recipes/mail.xml": recipe("mail.send"),
        "recipes/deeper/more.xml": recipe("mail.send", "more"),
        "recipes/mail.page.xsl": sheet,
    })  # fmt: skip
    loaded = load(home)
    assert faults_of(loaded) == []
    assert names(loaded) == ["mail.more", "mail.page", "mail.send", "mail.triage"]
    assert loaded.functions["mail.send"](mail=None) == "<sent/>"
    assert loaded.sources == {"modules/mail.py": MAIL.encode()}
    assert [file.path for file in loaded.files] == [
        "recipes/deeper/more.xml",
        "recipes/mail.page.xsl",
        "recipes/mail.xml",
        "modules/mail.py",
    ]
    assert all(file.loaded is not None and file.error is None for file in loaded.files)


def test_hidden_backup_and_other_files_are_no_definitions(home: Path) -> None:
    bad = "this is no XML"
    put(
        home,
        {
            f"recipes/{name}": bad
            for name in (".mail.xml", "mail.xml~", "mail.xml.bak", "#mail.xml#", "README")
        },
    )
    put(
        home,
        {
            f"modules/{name}": bad
            for name in (".m.py", "m.py~", "__init__.py", "__pycache__/m.py", "sub/.m.py", "a.b/m.py")
        },
    )
    put(home, {"recipes/.git/config.xml": bad})
    loaded = load(home)
    assert (names(loaded), faults_of(loaded), loaded.files) == ([], [], ())


def test_a_link_out_of_the_home_is_not_followed(home: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "mail.xml"
    outside.write_text(recipe("mail.triage", type="recipe"))
    (home / "recipes/mail.xml").symlink_to(outside)
    loaded = load(home)
    assert names(loaded) == []
    assert faults_of(loaded) == [
        "recipes/mail.xml:1:1: this link leads out of the home; put a copy here instead"
    ]


def test_a_link_within_the_home_is_followed(home: Path) -> None:
    put(home, {"data/mail.xml": recipe("mail.triage", type="recipe")})
    (home / "recipes/mail.xml").symlink_to(home / "data/mail.xml")
    assert names(load(home)) == ["mail.triage"]


def test_what_cannot_be_read_is_a_fault(home: Path) -> None:
    (home / "recipes/gone.xml").symlink_to(home / "nowhere.xml")
    put(home, {"recipes/big.xml": b"<recipe>" + b" " * 17_000_000 + b"</recipe>"})
    faults = faults_of(load(home))
    assert faults[0].startswith("recipes/big.xml:1:1: expected at most 16,777,216 bytes, found 17,0")
    assert faults[1] == "recipes/gone.xml:1:1: cannot be read: No such file or directory"


# --- bad files ------------------------------------------------------------------------------------------


def test_a_function_that_a_step_names_and_no_action_declares_is_pointed_at(home: Path) -> None:
    put(home, {"recipes/a.xml": recipe("go.now", "go"), "modules/go.py": "x = 1\nasync def now(): ...\n"})
    assert faults_of(load(home)) == [
        "recipes/a.xml:1:95: step 'a': there is no action 'go.now'; modules/go.py:2 has a function "
        "of that name: put @action() before it"
    ]


def test_N13_a_bad_recipe_costs_itself_alone(home: Path) -> None:
    put(home, {"recipes/good.xml": recipe("good.one", "one", "good", "recipe"), "recipes/bad.xml": "<recipe"})
    loaded = load(home)
    assert names(loaded) == ["good.one"]
    assert faults_of(loaded) == ["recipes/bad.xml:1:1: not well-formed XML: unclosed token"]
    state = {file.path: (file.loaded is not None, file.error) for file in loaded.files}
    assert state["recipes/bad.xml"] == (False, faults_of(loaded)[0])


def test_N13_a_bad_file_leaves_its_last_good_version(home: Path) -> None:
    put(home, {"modules/mail.py": MAIL, "recipes/mail.xml": recipe("mail.send")})
    loader = Loader(home)
    before = loader.load()
    put(home, {"modules/mail.py": MAIL + "def (", "recipes/mail.xml": recipe("mail.snd")})
    after = loader.load()
    assert set(after.library.of("recipe").values()) == set(before.library.of("recipe").values())
    assert after.functions["mail.send"](mail=None) == "<sent/>"
    assert after.sources["modules/mail.py"] == MAIL.encode()
    assert faults_of(after) == [
        "modules/mail.py:5:5: not Python: invalid syntax",
        "recipes/mail.xml:1:99: step 'a': there is no action 'mail.snd'; did you mean 'mail.send'?",
    ]
    states = {file.path: file for file in after.files}
    assert (
        states["recipes/mail.xml"].loaded
        == {file.path: file for file in before.files}["recipes/mail.xml"].loaded
    )
    put(home, {"modules/mail.py": MAIL, "recipes/mail.xml": recipe("mail.send", "other")})
    mended = loader.load()
    assert (names(mended), faults_of(mended)) == (["mail.other", "mail.send"], [])


def test_N13_across_restarts_the_store_gives_the_last_good_version(home: Path) -> None:
    put(home, {"modules/mail.py": MAIL, "recipes/mail.xml": recipe("mail.send")})
    first = load(home)
    stored = {
        "recipes/mail.xml": [definition.xml for definition in first.library.of("recipe").values()],
        "modules/mail.py": [first.sources["modules/mail.py"]],
    }
    put(home, {"modules/mail.py": "import no_such_module_anywhere", "recipes/mail.xml": "<recipe"})
    loaded = Reading(home, stored=lambda path: stored.get(path, [])).library()
    assert names(loaded) == ["mail.send", "mail.triage"]
    before, after = ({found.digest for found in library} for library in (first.library, loaded.library))
    assert after == before
    assert len(loaded.faults) == 2
    assert all(file.loaded is not None and file.error for file in loaded.files)


def test_what_the_store_kept_may_be_bad_too(home: Path) -> None:
    put(home, {"modules/post.py": "1/0", "modules/more/x.py": "1/0", "recipes/mail.xml": "<recipe"})
    loaded = Reading(home, stored=lambda path: [b"\xff"]).library()
    assert (names(loaded), len(loaded.faults)) == ([], 3)


def test_a_file_that_cannot_be_read_any_more_leaves_its_last_good_version(home: Path) -> None:
    put(home, {"modules/mail.py": MAIL, "recipes/mail.xml": recipe("mail.send")})
    loader = Loader(home)
    before = loader.load()
    (home / "recipes/mail.xml").unlink()
    (home / "recipes/mail.xml").mkdir()
    after = loader.load()
    assert faults_of(after) == [
        "recipes/mail.xml:1:1: expected a file, found a folder; move it away, or rename it"
    ]
    assert names(after) == names(before) == ["mail.send", "mail.triage"]
    assert not [line for line in differences([before], [after]) if "is gone" in line]


def test_what_ships_is_told_at_the_start_by_the_names_of_modules(home: Path) -> None:
    files = {"modules/post.py": MAIL, "modules/more/__init__.py": "", "recipes/mail.xml": recipe("mail.send")}
    put(home, files)
    assert sorted(first_loaded([Loader(home).load()])) == [
        "loaded modules that ship with narval: mail",
        "loaded modules/more/__init__.py: no definitions",
        "loaded modules/post.py: action post.send",
        "loaded recipes/mail.xml: recipe mail.triage",
    ]


def test_N31_the_definitions_of_a_removed_file_are_removed(home: Path) -> None:
    put(home, {"modules/mail.py": MAIL, "recipes/mail.xml": recipe("mail.send")})
    loader = Loader(home)
    loader.load()
    (home / "recipes/mail.xml").unlink()
    loaded = loader.load()
    assert (names(loaded), faults_of(loaded)) == (["mail.send"], [])


def test_a_file_that_did_not_change_is_the_same_definition(home: Path) -> None:
    put(
        home, {"modules/mail.py": MAIL, "recipes/a.xml": recipe("mail.send", "a"), "recipes/b.xml": "<recipe"}
    )
    loader = Loader(home)
    before = loader.load()
    put(home, {"recipes/b.xml": recipe("mail.send", "b")})
    after = loader.load()
    assert after.library.get("recipe", "mail.a") is before.library.get("recipe", "mail.a")
    assert after.functions["mail.send"] is before.functions["mail.send"]
    assert names(after) == ["mail.a", "mail.b", "mail.send"]


def test_N13_a_target_that_did_not_load_is_given_as_the_reason(home: Path) -> None:
    put(home, {
        "modules/post.py": "def (",
        "recipes/a.xml": recipe("post.send", "a"),
        "recipes/b.xml": recipe("mail.a", "b", type="recipe"),
        "recipes/c.xml": recipe("c.x", "c", type="recipe"),
        "recipes/d.xml": "<recipe",
        "recipes/e.xml": recipe("d.x", "e", type="recipe"),
    })  # fmt: skip
    faults = [fault.split(": ", 1)[1].partition(";")[0] for fault in faults_of(load(home))]
    assert faults == [
        "not Python: invalid syntax",
        "step 'a': there is no action 'post.send', because modules/post.py did not load",
        "step 'a': there is no recipe 'mail.a', because recipes/a.xml did not load",
        "step 'a': there is no recipe 'c.x'",
        "not well-formed XML: unclosed token",
        "step 'a': there is no recipe 'd.x', because recipes/d.xml did not load",
    ]


def test_N13_faults_within_a_file_and_with_regard_to_others_come_together(home: Path) -> None:
    one, two = recipe("mail.none", "one"), recipe("mail.one", "two", type="recipe")
    put(home, {"recipes/mail.xml": f"<cookbook>{one}{two.replace('end_step', 'end')}</cookbook>"})
    faults = faults_of(load(home))
    assert [fault.split(": ", 1)[1].partition(";")[0] for fault in faults] == [
        "step 'a': there is no action 'mail.none'",
        "recipe needs the attribute 'end_step'",
        "recipe has no attribute 'end'",
    ]


def test_two_files_cannot_give_one_name(home: Path) -> None:
    put(home, {f"recipes/{name}.xml": recipe("mail.triage", type="recipe") for name in "ab"})
    loaded = load(home)
    assert [definition.path for definition in loaded.library] == ["recipes/a.xml"]
    assert faults_of(loaded) == [
        "recipes/b.xml:1:1: expected a new name, found the recipe mail.triage of recipes/a.xml again; "
        "give one another group"
    ]


# --- modules --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = x / 0\n", "2:5: the module cannot be imported: ZeroDivisionError: division by zero"),
        ("def f(:\n", "1:7: not Python: invalid syntax"),
        (
            "import sys\nif True:\n    sys.exit(3)\n",
            "3:5: the module ends the program when it is imported (sys.exit)",
        ),
        ("raise SystemExit\n", "1:1: the module ends the program"),
        ("import narval_no_such_module\n", "1:1: the module cannot be imported: ModuleNotFoundError"),
        ("def f():\n    f()\nf()\n", "2:5: the module cannot be imported: RecursionError"),
        (
            "def f():\n    raise KeyboardInterrupt\nf()\n",
            "2:5: the module cannot be imported: KeyboardInterrupt",
        ),
        ("raise BaseException('odd')\n", "1:1: the module cannot be imported: BaseException: odd"),
        ("x = '\0'\n", "1:1: the module cannot be imported: "),
        (b"x = '\xe9'\n", "1:6: expected utf-8 text, found the byte 0xe9"),
        ("# coding: klingon\n", "1:11: unknown encoding 'klingon'"),
        (ACTION + "@action(inputs=3)\ndef f(): ...\n", "2:2: the module cannot be imported: TypeError"),
        (ACTION + "@action\ndef f(mail): ...\n", "3:1: f: no input gives the parameter 'mail'"),
        ("MODULE_XML = '<module'\n", "1:15: not well-formed XML"),
        (
            ACTION + "@action\ndef f(): ...\n\n@action\ndef f(): ...\n",
            "3:1: @action: 'f' is defined again in line 6",
        ),
        (
            ACTION + "@action()\nasync def f(): ...\ndef f(): ...\n",
            "3:1: @action: 'f' is defined again in line 4",
        ),
        (
            "import narval\nclass A:\n    @narval.action\n    def f(self): ...\n",
            "4:5: @action: expected a function of the module, found the method A.f",
        ),
        (
            "import narval\n@narval.action\ndef f():\n    narval.sleep(1)\n",
            "4:5: narval.sleep() does nothing without await; write `await narval.sleep(…)`, in an async def",
        ),
    ],
)
def test_N30_a_module_that_cannot_be_imported_costs_itself_alone(
    home: Path, text: str | bytes, message: str
) -> None:
    put(home, {"modules/mail.py": MAIL, "modules/odd.py": text})
    loaded = load(home)
    assert names(loaded) == ["mail.send"]
    (fault,) = faults_of(loaded)
    assert fault.startswith(f"modules/odd.py:{message}")


UNDONE = """from narval import Input, Output, action

@action(inputs=[Input("order", "order")], outputs=[Output("bill", "bill")], undo="UNDO")
def pay(order): ...

@action(inputs=[Input("bill", "bill"), Input("why", "why", optional=True)])
def refund(bill, why): ...

@action(inputs=[Input("parcel", "parcel")])
def fetch(parcel): ...
"""


@pytest.mark.parametrize(
    ("undo", "message"),
    [
        ("shop.refund", None),
        ("mail.send", "modules/shop.py:3:83: undo of shop.pay: expected mail.send to take what the call was"),
        (
            "shop.refnd",
            "modules/shop.py:3:83: undo of shop.pay: there is no action 'shop.refnd'; did you mean",
        ),
        ("nobody.has", "modules/shop.py:3:83: undo of shop.pay: there is no action 'nobody.has'"),
        (
            "shop.fetch",
            "modules/shop.py:3:83: undo of shop.pay: expected shop.fetch to take what the call was given and "
            "gave, found its input parcel (parcel), which nothing there fits",
        ),
        ("files.read_text", "modules/shop.py:3:83: undo of shop.pay: expected files.read_text to take"),
    ],
)
def test_what_is_to_undo_a_call_is_there_and_takes_what_that_had(
    home: Path, undo: str, message: str | None
) -> None:
    put(home, {"modules/shop.py": UNDONE.replace("UNDO", undo), "modules/mail.py": MAIL})
    loaded = load(home)
    assert "shop.pay" in names(loaded), "the action is good nevertheless"
    faults = faults_of(loaded)
    expected = [message] if message else []
    assert [fault[: len(message or "")] for fault in faults] == expected


@pytest.mark.parametrize(
    ("file", "text", "statement"),
    [
        ("modules/odd.py", "import helper\n", "from . import helper"),
        ("modules/odd.py", "from helper.x import y\n", "from . import helper"),
        ("modules/odd/part.py", "import helper\n", "from .. import helper"),
        ("modules/odd/part.py", "import other\n", "from . import other"),
        ("modules/odd/in/part.py", "import other\n", "from .. import other"),
        ("modules/odd.py", "import nobody\n", None),
    ],
)
def test_how_a_module_is_imported_is_told_where_its_bare_name_is_not_found(
    home: Path, file: str, text: str, statement: str | None
) -> None:
    put(home, {"modules/helper.py": "", file: text})
    if file != "modules/odd.py":
        put(home, {"modules/odd/other.py": ""})
    (fault,) = faults_of(load(home))
    assert fault.startswith(
        f"{file}:1:1: the module cannot be imported: ModuleNotFoundError: No module named"
    )
    assert fault.partition("; modules of the home import each other so: ")[2] == (statement or "")


def test_what_is_no_action_may_be_defined_again_and_be_a_method(home: Path) -> None:
    text = "def f(): ...\n@action\ndef f(): ...\nclass A:\n    def action(self): return self\n"
    text += "    @property\n    def of(self): ...\na = A()\nclass B:\n    @staticmethod\n    def x(): ...\n"
    text += (
        "import time\nfrom narval import sleep\nasync def waits():\n    time.sleep(0)\n    await sleep(0)\n"
    )
    put(home, {"modules/odd.py": f"{ACTION}{text}"})
    assert faults_of(load(home)) == []


def test_an_import_that_lasts_is_told_of_with_its_place(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = home / "told"
    waits = f"import pathlib, time\nwhile not pathlib.Path({str(told)!r}).exists():\n    time.sleep(0.01)\n"
    put(home, {"modules/slow.py": waits})
    monkeypatch.setattr(import_places, "LONG", 0.01)
    monkeypatch.setattr(import_places.log, "warning", lambda text, *values: told.write_text(text % values))
    load(home)
    assert told.read_text().startswith(("modules/slow.py:3: its import has been", "modules/slow.py:2: its"))


def test_what_a_module_prints_when_it_is_imported_is_no_output(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(home, {"modules/mail.py": "print('hello')\n"})
    load(home)
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "hello\n")


def test_modules_import_each_other_as_siblings_then_and_later(home: Path) -> None:
    put(home, {
        "modules/a.py": "from .b import twice\ndef later():\n    from . import c\n    return c.N, twice(4)\n",
        "modules/b.py": "from . import c\ndef twice(x):\n    return x * c.N\n",
        "modules/c.py": "N = 2\n",
    })  # fmt: skip
    loaded = load(home)
    assert faults_of(loaded) == []
    assert loaded.modules["a"].later() == (2, 8)
    assert loaded.modules["b"].c is loaded.modules["c"]


def test_a_module_whose_sibling_did_not_load_says_so(home: Path) -> None:
    put(
        home,
        {
            "modules/a.py": "from .b import x\n",
            "modules/b.py": "x = y\n",
            "modules/c.py": "from .none import x",
        },
    )
    faults = [re.sub(r"narval_home_\d+", "HOME", fault) for fault in faults_of(load(home))]
    why = "the module cannot be imported"
    assert faults == [
        f"modules/a.py:1:1: {why}: ImportError: modules/b.py did not load: {why}: "
        "NameError: name 'y' is not defined",
        f"modules/b.py:1:5: {why}: NameError: name 'y' is not defined",
        f"modules/c.py:1:1: {why}: there is no module 'none' beside it",
    ]


def _is_home(name: str) -> bool:
    return name.startswith("narval_home_")


def test_importing_leaves_nothing_behind_but_private_names(home: Path) -> None:
    put(home, {"modules/mail.py": MAIL})
    path, finders, modules = list(sys.path), list(sys.meta_path), set(sys.modules)
    load(home)
    assert (sys.path, sys.meta_path) == (path, finders)
    assert all(name.startswith("narval_home_") for name in set(sys.modules) - modules)
    assert not list(home.rglob("__pycache__"))


def test_two_homes_with_modules_of_one_name_do_not_meet(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    put(home, {"modules/mail.py": "seen = []\n"})
    put(other, {"modules/mail.py": "seen = []\n"})
    first, second = load(home), load(other)
    first.modules["mail"].seen.append(1)
    assert second.modules["mail"].seen == []


def _alive() -> tuple[int, int, int]:
    """The modules of homes that can be imported, those that are in use at all, and the actions there are."""
    gc.collect()
    objects = gc.get_objects()
    homes = [thing for thing in objects if isinstance(thing, ModuleType) and _is_home(thing.__name__)]
    actions = [thing for thing in objects if isinstance(thing, Action)]
    return len([name for name in sys.modules if _is_home(name)]), len(homes), len(actions)


@pytest.mark.usefixtures("small_heap")
def test_N31_many_versions_of_a_home_do_not_pile_up(home: Path) -> None:
    loader, counts = Loader(home), []
    for version in range(60):
        put(home, {"modules/mail.py": MAIL + f"VERSION = {version}\nfrom . import b\n", "modules/b.py": ""})
        loader.load()
        if version % 30 == 29:
            counts.append(_alive())
    first, last = counts
    assert all(now <= then for now, then in zip(last, first, strict=True))


@pytest.mark.usefixtures("small_heap")
def test_N31_a_version_in_use_stays_importable(home: Path) -> None:
    put(
        home,
        {"modules/a.py": "def later():\n    from . import b\n    return b.N\n", "modules/b.py": "N = 1\n"},
    )
    loader = Loader(home)
    first = loader.load()
    put(home, {"modules/b.py": "N = 2\n"})
    second = loader.load()
    gc.collect()
    assert (first.modules["a"].later(), second.modules["a"].later()) == (1, 2)


# --- adding definitions ---------------------------------------------------------------------------------


def test_a_text_adds_its_definitions() -> None:
    loaded = Loaded().with_definitions(recipe("mail.triage", type="recipe"))
    assert names(loaded) == ["mail.triage"]
    again = loaded.with_definitions(
        "\n " + recipe("mail.triage", type="recipe").replace('id="a"', 'id="a" timeout="3"')
    )
    found = again.library.get("recipe", "mail.triage")
    assert isinstance(found, Recipe)
    assert found.start.timeout == 3.0


def test_a_text_may_be_a_stylesheet() -> None:
    text = """<x:stylesheet version="1.0" xmlns:x="http://www.w3.org/1999/XSL/Transform">
      <prototype group="mail" name="page"/><x:template match="/"/></x:stylesheet>"""
    assert names(Loaded().with_definitions(text)) == ["mail.page"]


def test_a_path_adds_its_definitions(home: Path) -> None:
    put(home, {"modules/mail.py": "from .other import N\n" + MAIL, "modules/other.py": "N = 1\n"})
    put(home, {"recipes/mail.xml": recipe("mail.send")})
    loaded = (
        Loaded().with_definitions(home / "modules/mail.py").with_definitions(str(home / "recipes/mail.xml"))
    )
    assert names(loaded) == ["mail.send", "mail.triage"]
    assert loaded.functions["mail.send"](mail=None) == "<sent/>"
    assert list(loaded.sources) == [str(home / "modules/mail.py")]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (recipe("post.send"), r"text\.xml:1:99: step 'a': there is no action 'post\.send'"),
        ("<recipe", r"text\.xml:1:1: not well-formed XML"),
        ("recipes/none.xml", r"recipes/none\.xml:1:1: cannot be read: No such file"),
        ("no\0path", "cannot be read"),
    ],
)
def test_what_cannot_be_added_raises_all_its_faults(what: str, message: str) -> None:
    before = Loaded()
    with pytest.raises(DefinitionError, match=message):
        before.with_definitions(what)
    assert len(before.library) == 0


def test_a_module_that_cannot_be_added_raises_its_faults(tmp_path: Path) -> None:
    put(tmp_path, {"mail.py": "1/0"})
    with pytest.raises(DefinitionError, match="division by zero"):
        Loaded().with_definitions(tmp_path / "mail.py")


def test_N35_a_definition_is_read_again_from_what_the_store_kept(home: Path) -> None:
    put(home, {"modules/mail.py": MAIL, "recipes/mail.xml": f"<cookbook>{recipe('mail.send')}</cookbook>"})
    kept = load(home).library.get("recipe", "mail.triage")
    assert kept is not None
    again = read_definition("recipe", kept.path, kept.xml)
    assert (again.digest, again.full_name, again.path) == (kept.digest, "mail.triage", "recipes/mail.xml")


def test_N35_what_a_later_version_finds_wrong_does_not_stop_what_began() -> None:
    step = '<step id="a" type="action" target="mail.send" unknown="1"/>'
    xml = f'<recipe group="mail" name="r" start_step="a" end_step="a">{step}</recipe>'
    assert read_definition("recipe", "recipes/mail.xml", xml.encode()).full_name == "mail.r"
    with pytest.raises(DefinitionError):
        read_definition("recipe", "recipes/mail.xml", b"<recipe/>")


def test_a_link_that_leads_to_itself_is_a_fault(home: Path) -> None:
    (home / "recipes/x.xml").symlink_to("x.xml")
    assert faults_of(load(home))[0].startswith("recipes/x.xml:1:1: cannot be read")
