"""Processes in a home: hot loading does what the loaders of the source do (section 13, N13, N31)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.core.definitions.parsing import read_definition
from narval.core.errors import DefinitionError
from narval.files.loaded import Loaded
from narval.files.reading import Reading, load
from narval.kinds.process.language.definition import Process
from tests.files.rereading import Loader

EXT = '<process-definition name="ext"><node name="A"/></process-definition>'


def importing(name: str, definition: str, node: str = "A") -> str:
    return (
        f'<process-definition name="{name}"><node name="N"><arc external="x" to="{node}"/></node>'
        f'<external name="x" processDefinition="{definition}"/></process-definition>'
    )


def put(home: Path, **files: str) -> None:
    (home / "recipes").mkdir(exist_ok=True)
    for name, text in files.items():
        (home / "recipes" / f"{name}.wf.xml").write_text(text, encoding="utf-8")


def digests(loaded: Loaded) -> dict[str, str]:
    return {name: definition.digest for name, definition in loaded.library.of("process").items()}


def nodes(loaded: Loaded, name: str) -> list[str]:
    found = loaded.library.get("process", name)
    assert isinstance(found, Process)
    return list(found.nodes)


def test_section_13_new_and_changed_definitions_are_loaded_and_what_depends_on_them(tmp_path: Path) -> None:
    put(
        tmp_path,
        a=importing("outer", "middle", "N"),
        b=importing("middle", "ext"),
        c=EXT,
        d=EXT.replace("ext", "x"),
    )
    loader = Loader(tmp_path)
    before = loader.load()
    assert before.faults == ()
    assert nodes(before, "a.outer") == ["x:x:A", "x:N", "N"]
    again = loader.load().library
    assert all(again.get("process", definition.full_name) is definition for definition in before.library)
    put(tmp_path, c=EXT.replace("<node", '<node name="B"/><node'))
    after = loader.load()
    assert nodes(after, "a.outer") == ["x:x:A", "x:x:B", "x:N", "N"]
    assert {name for name, digest in digests(after).items() if digest != digests(before)[name]} == {
        "a.outer",
        "b.middle",
        "c.ext",
    }


def test_section_13_a_missing_external_is_a_fault_of_the_file_that_wants_it(tmp_path: Path) -> None:
    put(tmp_path, a=importing("outer", "middle", "N"), b=importing("middle", "ext"))
    loaded = load(tmp_path)
    assert [(fault.path, fault.line, fault.column) for fault in loaded.faults] == [
        ("recipes/a.wf.xml", 1, 120),
        ("recipes/b.wf.xml", 1, 121),
    ]
    outer, middle = (fault.message for fault in loaded.faults)
    assert outer.endswith(
        "no process 'middle', because recipes/b.wf.xml did not load; correct its faults first"
    )
    assert middle.startswith("external 'x': there is no process 'ext'")


def test_section_17_recursion_of_externals_costs_only_the_processes_in_it(tmp_path: Path) -> None:
    put(tmp_path, a=importing("p", "q", "N"), b=importing("q", "p", "N"), c=EXT, d=importing("r", "ext"))
    loaded = load(tmp_path)
    assert sorted(digests(loaded)) == ["c.ext", "d.r"]
    assert sorted(fault.path for fault in loaded.faults) == ["recipes/a.wf.xml", "recipes/b.wf.xml"]
    assert any("a process cannot import itself" in fault.message for fault in loaded.faults)


def test_N13_what_an_external_does_not_define_any_more_leaves_the_last_good_version(tmp_path: Path) -> None:
    put(tmp_path, a=importing("outer", "ext"), c=EXT)
    loader = Loader(tmp_path)
    before = loader.load()
    put(tmp_path, c=EXT.replace('"A"', '"B"'))
    after = loader.load()
    assert [fault.path for fault in after.faults] == ["recipes/a.wf.xml"]
    assert "expected a node that c.ext itself defines, found 'A'; there is 'B'" in after.faults[0].message
    assert digests(after)["a.outer"] == digests(before)["a.outer"]
    assert nodes(after, "a.outer") == ["x:A", "N"]
    assert nodes(after, "c.ext") == ["B"]
    put(tmp_path, c=EXT)
    assert digests(loader.load()) == digests(before)


def test_N13_across_restarts_the_store_gives_the_last_good_version_with_its_externals(tmp_path: Path) -> None:
    put(tmp_path, a=importing("outer", "ext"), c=EXT)
    library = load(tmp_path).library
    kept = {f"recipes/{Path(definition.path).name}": definition.xml for definition in library}
    put(tmp_path, a="<process-definition", c="<process-definition")
    loaded = Reading(tmp_path, stored=lambda path: [kept[path]]).library()
    assert nodes(loaded, "a.outer") == ["x:A", "N"]


def test_N35_a_run_reads_its_version_again_without_a_library(tmp_path: Path) -> None:
    put(tmp_path, a=importing("outer", "ext"), c=EXT)
    found = load(tmp_path).library.get("process", "a.outer")
    assert isinstance(found, Process)
    again = read_definition("process", found.path, found.xml)
    assert (again.digest, again.full_name) == (found.digest, "a.outer")


def test_section_13_loading_on_demand_needs_what_it_imports_first(tmp_path: Path) -> None:
    loaded = Loaded()
    with pytest.raises(DefinitionError, match="there is no process 'ext'"):
        loaded.with_definitions(importing("outer", "ext"))
    put(tmp_path, c=EXT, a=importing("outer", "ext"))
    with_ext = loaded.with_definitions(tmp_path / "recipes" / "c.wf.xml")
    both = with_ext.with_definitions(tmp_path / "recipes" / "a.wf.xml")
    assert nodes(both, "a.outer") == ["x:A", "N"]
    put(tmp_path, c=EXT.replace("<node", '<node name="B"/><node'))
    changed = both.with_definitions(tmp_path / "recipes" / "c.wf.xml")
    assert nodes(changed, "a.outer") == ["x:A", "x:B", "N"]
    put(tmp_path, c=EXT.replace('"A"', '"B"'))
    with pytest.raises(DefinitionError, match="found 'A'"):
        both.with_definitions(tmp_path / "recipes" / "c.wf.xml")


def test_section_14_files_of_the_editor_lie_beside_definitions(tmp_path: Path) -> None:
    put(tmp_path, c=EXT)
    (tmp_path / "recipes" / "c.editor.xml").write_text("<editor-properties/>", encoding="utf-8")
    loaded = load(tmp_path)
    assert loaded.faults == ()
    assert sorted(digests(loaded)) == ["c.ext"]
