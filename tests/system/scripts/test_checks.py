"""A script that cannot be read is a fault of its file, at its place (N13, section 10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.files.reading import load
from narval.system.scripts.checks import syntax_fault

TEXT = """<process-definition name="p">
  <node name="a" isStart="true" type="script">
    <custom>{}</custom>
  </node>
</process-definition>"""


def faults(home: Path, custom: str) -> list[tuple[int, str]]:
    (home / "recipes").mkdir(exist_ok=True)
    (home / "recipes" / "p.wf.xml").write_text(TEXT.format(custom), encoding="utf-8")
    return [(fault.line, fault.message) for fault in load(home).faults]


@pytest.mark.parametrize(
    "custom",
    [
        "<execute><![CDATA[ java.lang.System.out.println('a < b'); ]]></execute>",
        "<execute type='js'>var a = {{}};\n// done</execute><backtrack>a</backtrack>",
        "<execute type='python'>x = [1]\nfor y in x:\n  print(y)</execute>"
        "<allowBacktrack type='py'>True</allowBacktrack>",
    ],
)
def test_section_10_good_scripts_load(tmp_path: Path, custom: str) -> None:
    assert faults(tmp_path, custom.replace("{{}}", "{}")) == []


def test_section_10_slips_in_scripts_are_found_on_their_lines(tmp_path: Path) -> None:
    found = faults(
        tmp_path,
        "\n<execute>\n  var a = 1;\n  var b = ;\n</execute>\n"
        "<backtrack type='python'>\nx = 1\ny = = 2</backtrack><allowBacktrack type='tcl'>1</allowBacktrack>",
    )
    assert [line for line, _ in found] == [6, 10, 10]
    assert found[0][1].startswith("execute: ")
    assert found[1][1] == "backtrack: invalid syntax"
    assert "expected a script in ecmascript, javascript, js, py, python, found 'tcl'" in found[2][1]


@pytest.mark.parametrize("language", ["js", "python"])
@pytest.mark.parametrize("text", ["(" * 50_000, "{" * 50_000, "a." * 50_000, "\0", "'", "[" * 100_000 + "]"])
def test_hostile_scripts_are_refused(language: str, text: str) -> None:
    assert syntax_fault(language, text) is not None


@pytest.mark.parametrize("text", ["while (true) {}", "throw 'x'", "__never_called__()", "'use strict'; 1"])
def test_nothing_of_a_script_is_run_to_read_it(text: str) -> None:
    assert syntax_fault("js", text) is None
