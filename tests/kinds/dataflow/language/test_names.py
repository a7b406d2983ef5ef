"""Plans are found by their names and paths, in other files too (T15, TA29, TA30)."""

from __future__ import annotations

from narval.core.definitions.library import Library, check_targets
from narval.core.definitions.parsing import compose, read_definition
from narval.kinds.dataflow.language.definition import DataflowDefinition
from tests.kinds.dataflow.language.reading import read

BOOKS = 'PLAN {0} {{ OUTPUT: books BODY {{ fetch("http://x/" : books) }} }}\n'


def library(files: dict[str, str]) -> tuple[Library, list[str]]:
    """The library that files make, by path, and all their faults."""
    parsed = [read(text, path) for path, text in files.items()]
    wrong = [str(fault) for one in parsed for fault in one.faults]
    found = Library(definition for one in parsed for definition in one.definitions)
    references = [reference for one in parsed for reference in one.references]
    missing = check_targets(references, found)
    whole, misfits = compose(found)
    return whole, [*wrong, *map(str, missing), *map(str, misfits)]


def calling(name: str) -> str:
    return f"PLAN Caller {{ OUTPUT: all BODY {{\n{name}( : all)\n}} }}\n"


def test_T15_plans_call_one_another_by_siblings_paths_and_parents() -> None:
    files = {
        "recipes/amazon/popular/books.plan": BOOKS.format("Popular") + BOOKS.format("Mystery"),
        "recipes/amazon/popular/travel.plan": BOOKS.format("Travel"),
    }
    for at, name in (
        ("recipes/amazon/popular/all.plan", "Travel"),
        ("recipes/amazon/popular/all.plan", "travel/Travel"),
        ("recipes/all.plan", "/amazon/popular/Travel"),
        ("recipes/all.plan", "amazon/popular/travel/Travel"),
        ("recipes/amazon/other/all.plan", "../popular/Mystery"),
        ("recipes/all.plan", "../../amazon/popular/Mystery"),
    ):
        whole, wrong = library({**files, at: calling(name)})
        assert wrong == []
        found = whole.get("dataflow", "all.Caller")
        assert isinstance(found, DataflowDefinition)
        assert len(found.graphs) == 2
        again = read_definition("dataflow", found.path, found.xml)
        assert isinstance(again, DataflowDefinition)
        assert (set(again.graphs), again.digest) == (set(found.graphs), found.digest)


def test_T15_a_name_that_is_not_there_is_a_fault_with_a_suggestion() -> None:
    files = {"recipes/a/books.plan": BOOKS.format("Popular")}
    _, wrong = library({**files, "recipes/a/all.plan": calling("Populer")})
    assert wrong == [
        "recipes/a/all.plan:2:1: there is no operator or dataflow 'Populer'; did you mean 'Popular'?"
    ]
    _, wrong = library({**files, "recipes/all.plan": calling("/a/Populer")})
    assert wrong == ["recipes/all.plan:2:1: there is no dataflow /a/Populer; did you mean '/a/Popular'?"]
    _, wrong = library({"recipes/all.plan": calling("fetsh")})
    assert wrong == ["recipes/all.plan:2:1: there is no operator or dataflow 'fetsh'; did you mean 'fetch'?"]
    _, wrong = library({"recipes/all.plan": calling("VarUnion")})
    assert "'VarUnion'; write merge((a, b) : all), which several may consume" in wrong[0]


def test_T15_several_plans_of_a_path_are_told_apart_by_their_files() -> None:
    files = {"recipes/a.plan": BOOKS.format("Books"), "recipes/b.plan": BOOKS.format("Books")}
    _, wrong = library({**files, "recipes/c.plan": calling("Books")})
    assert wrong == [
        "recipes/c.plan:2:1: Books: a.Books and b.Books are meant by this; write the file too, as in a/Books"
    ]
    assert library({**files, "recipes/c.plan": calling("b/Books")})[1] == []


def test_T4_T15_files_of_one_name_in_two_folders_are_told_apart_by_a_group() -> None:
    books = BOOKS.format("Books")
    text = (
        "PLAN All { OUTPUT: all BODY {\n/amazon/Books( : a) /pool/find/Books( : b) union((a, b) : all) } }\n"
    )
    files = {"recipes/pool/find.plan": books, "recipes/all.plan": text}
    whole, wrong = library({**files, "recipes/amazon/find.plan": f"// group amazon\n{books}"})
    assert wrong == []
    called = whole.get("dataflow", "all.All")
    assert isinstance(called, DataflowDefinition)
    assert set(called.graphs) == {"all.All", "amazon.Books", "find.Books"}
    again = read_definition("dataflow", called.path, called.xml)
    assert isinstance(again, DataflowDefinition)
    assert (set(again.graphs), again.digest) == (set(called.graphs), called.digest)
    own = whole.get("dataflow", "amazon.Books")
    assert own is not None
    assert read_definition("dataflow", own.path, own.xml).full_name == "amazon.Books"


def test_a_group_that_is_no_name_is_a_fault_and_the_order_of_the_examples_may_follow_it() -> None:
    parsed = read("// group a.b\n" + BOOKS.format("Books"), "recipes/x.plan")
    assert [(fault.line, fault.column) for fault in parsed.faults] == [(1, 10)]
    text = 'PLAN P { INPUT: Tuple x OUTPUT: y BODY { SELECT(x, "a = 1" : y) } }\n'
    assert read(f"// group a\n// example aliases\n{text}", "recipes/x.plan").faults == ()


def test_TA30_a_plan_with_the_name_of_an_operator_is_called_by_path() -> None:
    files = {"recipes/a.plan": BOOKS.format("fetch")}
    _, wrong = library({**files, "recipes/c.plan": calling("a/fetch")})
    assert wrong == []
    _, wrong = library({**files, "recipes/c.plan": calling("fetch")})
    assert len(wrong) == 1


def test_a_dataflow_changes_with_a_plan_that_it_calls() -> None:
    files = {"recipes/a.plan": BOOKS.format("Books"), "recipes/c.plan": calling("Books")}
    before, _ = library(files)
    after, _ = library({**files, "recipes/a.plan": files["recipes/a.plan"].replace("//x/", "//y/")})
    digests = [
        found.digest for one in (before, after) if (found := one.get("dataflow", "c.Caller")) is not None
    ]
    assert len(set(digests)) == 2


def test_T9_types_and_columns_are_known_across_files() -> None:
    files = {
        "recipes/a.plan": BOOKS.format("Books"),
        "recipes/c.plan": 'PLAN C { OUTPUT: out BODY { Books( : b)\nselect("price = 1", b : out) } }',
    }
    _, wrong = library(files)
    assert wrong == [
        "recipes/c.plan:2:9: select: in has no attribute 'price'; there is 'content', 'status', 'type', 'url'"
    ]
    files["recipes/c.plan"] = 'PLAN C { OUTPUT: out BODY { Books( : b)\nsort("url", "ascending", b : out) } }'
    _, wrong = library(files)
    assert wrong[0].startswith(
        "recipes/c.plan:2:26: sort: in: expected Relation, found 'b', of type TupleStream"
    )
