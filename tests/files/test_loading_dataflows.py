"""Dataflows in a home: plans of files and folders, and the operators, wrappers and functions of modules."""

from __future__ import annotations

from pathlib import Path

from narval.core.definitions.parsing import read_definition
from narval.core.errors import Fault
from narval.files.check import check_home
from narval.files.home import Home
from narval.files.loaded import Loaded
from narval.files.reading import load
from narval.kinds.dataflow.language.definition import DataflowDefinition
from tests.files.rereading import Loader

MODULE = '''\
from narval import function, operator, wrapper

@operator(inputs="TupleStream in", outputs="TupleStream out", io_bound=True, granularity=5)
class geocode:
    """Look up addresses."""
    def on_in(self, tuples): ...

@wrapper(attributes={"price": "Number", "address": "String"})
def homes(query):
    yield {}

@function
def is_nice(home):
    return True
'''
HOMES = """\
PLAN Homes {
  INPUT: String city
  OUTPUT: cheap
  BODY {
    retrieve("homes", city : all)
    select("price < 500000", all : some)
    filter(is_nice, some : nice)
    geocode(nice : cheap)
    other/Pages( : pages) print(pages)
  }
}
"""
PAGES = """\
OPERATOR geocode { INPUT: TupleStream in; OUTPUT: TupleStream out; GRANULARITY: 10; }
PLAN Pages { OUTPUT: pages BODY { fetch("http://x/" : raw) GEOCODE(raw : pages) } }
"""


def home(path: Path, **files: str) -> Path:
    """A home with a module and these files of dataflows, `__` in whose names is a slash."""
    (path / "modules").mkdir()
    (path / "modules" / "geo.py").write_text(MODULE, encoding="utf-8")
    for name, text in files.items():
        file = path / "recipes" / f"{name.replace('__', '/')}.plan"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return path


def faults(loaded: Loaded) -> list[str]:
    return [str(fault) for fault in loaded.faults]


def dataflow(loaded: Loaded, name: str) -> DataflowDefinition:
    found = loaded.library.get("dataflow", name)
    assert isinstance(found, DataflowDefinition)
    return found


def test_T57_dataflows_use_what_modules_declare(tmp_path: Path) -> None:
    loaded = load(home(tmp_path, flats=HOMES, other=PAGES))
    assert faults(loaded) == []
    found = dataflow(loaded, "flats.Homes")
    assert set(found.graphs) == {"flats.Homes", "other.Pages"}
    assert found.graph.data["all"].attributes == ("price", "address")
    calls = {call.key: call.operator for graph in found.graphs.values() for call in graph.calls}
    assert (calls["geocode-1"].granularity, calls["geocode-1"].io) == (5, True)
    pages = next(call for call in found.graphs["other.Pages"].calls if call.operator.name == "geocode")
    assert pages.operator.granularity == 10
    assert {"operator:geocode", "wrapper:homes", "function:is_nice"} <= set(loaded.functions)
    again = read_definition("dataflow", found.path, found.xml)
    assert isinstance(again, DataflowDefinition)
    assert [call.key for call in again.graph.calls] == [call.key for call in found.graph.calls]


def test_T7_a_selection_by_what_a_wrapper_does_not_have_is_a_fault(tmp_path: Path) -> None:
    wrong = HOMES.replace("price <", "prise <")
    loaded = load(home(tmp_path, flats=wrong, other=PAGES))
    assert faults(loaded) == [
        "recipes/flats.plan:6:13: select: in has no attribute 'prise'; did you mean 'price'?"
    ]


def test_a_source_that_is_nowhere_is_warned_of(tmp_path: Path) -> None:
    calls = 'retrieve("flats", "" : a) importrelation("there", "t" : b) retrieve("homes", "" : c)'
    home(tmp_path, p=f"PLAN P {{ BODY {{\n{calls} print((a, b, c)) }} }}")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/narval.toml").write_text('[sources.there]\nkind = "sqlite"\npath = "a.db"\n')
    message = "there is no wrapper or source 'flats'; correct it, or add [sources.flats] to etc/narval.toml"
    assert check_home(Home(tmp_path)) == [Fault("recipes/p.plan", 2, 1, message, warning=True)]


def test_all_that_is_missing_is_told(tmp_path: Path) -> None:
    text = (
        HOMES.replace("is_nice", "is_nise").replace("other/Pages", "other/Page").replace("geocode", "geokode")
    )
    loaded = load(home(tmp_path, flats=text, other=PAGES))
    assert faults(loaded) == [
        "recipes/flats.plan:7:12: function: there is no function 'is_nise'; did you mean 'is_nice'?",
        "recipes/flats.plan:8:5: there is no operator or dataflow 'geokode'; did you mean 'geocode'?",
        "recipes/flats.plan:9:5: there is no dataflow other/Page; did you mean '/other/Pages'?",
    ]


def test_a_file_that_did_not_load_is_named(tmp_path: Path) -> None:
    loaded = load(home(tmp_path, flats=HOMES, other=PAGES.replace("raw :", "row :")))
    assert faults(loaded) == [
        "recipes/flats.plan:9:5: there is no dataflow 'Pages', because recipes/other.plan did not load; "
        "correct its faults first",
        "recipes/other.plan:2:55: nothing consumes 'raw'; write _ in its place, or declare it as an OUTPUT",
        "recipes/other.plan:2:68: nothing produces 'row'; did you mean 'raw'?",
    ]


def test_T17_a_declaration_in_a_file_must_be_that_of_the_module(tmp_path: Path) -> None:
    ports = PAGES.replace("TupleStream out;", "Relation out;").replace("raw : pages", "raw : some") + " "
    ports = ports.replace("(raw : some)", "(raw : pages)")
    loaded = load(home(tmp_path, other=ports))
    assert faults(loaded) == [
        "recipes/other.plan:1:10: geocode: its module has geocode (TupleStream in : TupleStream out); "
        "write the same, or remove this"
    ]


def test_T6_types_are_those_of_narval_and_of_modules(tmp_path: Path) -> None:
    text = "PLAN Draw { INPUT: {0} place BODY { show(place : ) } }"
    home(
        tmp_path, maps=text.replace("{0}", "Map"), others=text.replace("{0}", "Mapp").replace("Draw", "Other")
    )
    module = MODULE + '\n@operator(inputs="Map place", outputs="")\ndef show(place): ...\n'
    (tmp_path / "modules" / "geo.py").write_text(module, encoding="utf-8")
    assert faults(load(tmp_path)) == [
        "recipes/others.plan:1:26: there is no type 'Mapp'; did you mean 'Map'?",
        "recipes/others.plan:1:44: show: place: expected Map, found 'place', of type Mapp",
    ]


def test_T15_folders_of_recipes_are_the_hierarchy(tmp_path: Path) -> None:
    files = {
        "amazon__popular": PAGES.replace("Pages", "Books"),
        "shops": "PLAN All { OUTPUT: all BODY { /amazon/Books( : all) } }",
    }
    loaded = load(home(tmp_path, **files))
    assert faults(loaded) == []
    assert set(dataflow(loaded, "shops.All").graphs) == {"shops.All", "popular.Books"}


def test_N13_T48_a_plan_that_changes_makes_new_versions_of_those_that_call_it(tmp_path: Path) -> None:
    loader = Loader(home(tmp_path, flats=HOMES, other=PAGES))
    before = dataflow(loader.load(), "flats.Homes")
    (tmp_path / "recipes" / "other.plan").write_text(PAGES.replace("//x/", "//y/"), encoding="utf-8")
    after = dataflow(loader.load(), "flats.Homes")
    assert before.digest != after.digest
    (tmp_path / "recipes" / "other.plan").write_text("PLAN", encoding="utf-8")
    assert dataflow(loader.load(), "flats.Homes").digest == after.digest
