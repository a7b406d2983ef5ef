"""What strangers send meets schemas: a bad element, or a schema's own traps, do not keep the loop (N7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.files.schemas import Schemas

TYPED = """<element name="mail" xmlns="http://relaxng.org/ns/structure/1.0"
    datatypeLibrary="http://www.w3.org/2001/XMLSchema-datatypes">
  <attribute name="s"><data type="string"><param name="pattern">{}</param></data></attribute>
</element>"""
AMBIGUOUS = """<element name="mail" xmlns="http://relaxng.org/ns/structure/1.0">
  <zeroOrMore><choice>
    <group><zeroOrMore><element name="a"><empty/></element></zeroOrMore></group>
    <oneOrMore><element name="a"><empty/></element></oneOrMore>
  </choice></zeroOrMore>
  <element name="b"><empty/></element>
</element>"""


def schemas(folder: Path, text: str, name: str = "mail.rng") -> Schemas:
    (folder / name).write_text(text)
    return Schemas(folder)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)+b", "(a*)*b"])
def test_N7_an_expression_that_goes_back_and_forth_in_python_does_not_here(
    tmp_path: Path, pattern: str
) -> None:
    fault = schemas(tmp_path, TYPED.format(pattern)).refusal(b"<mail s='" + b"a" * 3000 + b"'/>")
    assert fault is not None
    assert "mail.rng" in fault


def test_N7_an_ambiguous_schema_refuses_what_ends_otherwise(tmp_path: Path) -> None:
    checked = schemas(tmp_path, AMBIGUOUS)
    assert checked.refusal(b"<mail>" + b"<a/>" * 200 + b"</mail>") is not None
    assert checked.refusal(b"<mail>" + b"<a/>" * 200 + b"<b/></mail>") is None


def test_N7_a_schema_with_entities_or_a_file_beside_it_reads_nothing(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("<!ELEMENT mail EMPTY>")
    for name, text in {
        "mail.rng": f'<!DOCTYPE element [<!ENTITY e SYSTEM "{secret}">]><element name="mail">&e;</element>',
        "mail.dtd": f'<!ENTITY % e SYSTEM "{secret}"> %e;',
    }.items():
        folder = tmp_path / name.partition(".")[2]
        folder.mkdir()
        fault = schemas(folder, text, name).refusal(b"<mail/>")
        assert fault is not None
        assert "cannot be used" in fault
