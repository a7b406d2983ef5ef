"""Schemas: element types may say what their elements must look like (N7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.files.schemas import Schemas

EMAIL = """<?xml version="1.0"?>
<element name="email" xmlns="http://relaxng.org/ns/structure/1.0"
         datatypeLibrary="http://www.w3.org/2001/XMLSchema-datatypes">
  <attribute name="from"/>
  <optional><attribute name="size"><data type="integer"/></attribute></optional>
  <zeroOrMore><element name="part"><text/></element></zeroOrMore>
</element>"""
NOTE = "<!ELEMENT note (text+)>\n<!ELEMENT text (#PCDATA)>\n<!ATTLIST note lang CDATA #REQUIRED>\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "email.rng").write_text(EMAIL)
    (tmp_path / "note.dtd").write_text(NOTE)
    (tmp_path / "README.md").write_text("Schemas go here.")
    return tmp_path


def test_N7_a_valid_element_is_accepted(folder: Path) -> None:
    schemas = Schemas(folder)
    assert schemas.refusal(b"<email from='a@example.org' size='3'><part>x</part></email>") is None
    assert schemas.refusal(b"<note lang='en'><text>x</text></note>") is None
    assert schemas.faults() == []


def test_N7_an_element_that_is_not_is_refused_with_line_column_and_reason(folder: Path) -> None:
    schemas = Schemas(folder)
    message = schemas.refusal(b"<email from='a'>\n  <part>x</part>\n  <prt/>\n</email>") or ""
    assert message.startswith("line 3, column 3: <email> is not valid by etc/schemas/email.rng: ")
    assert "prt" in message
    message = schemas.refusal(b"<note><text/></note>") or ""
    assert message.startswith("line 1, column 1: ")
    assert "etc/schemas/note.dtd" in message
    assert "lang" in message


def test_N7_a_refusal_is_one_text_for_people(folder: Path) -> None:
    schemas = Schemas(folder)
    assert schemas.refusal(b"<email from='a'/>") is None
    refusal = schemas.refusal(b"<email/>")
    assert refusal is not None
    assert refusal.startswith("line 1, column 1: <email> is not valid by etc/schemas/email.rng: ")


def test_N7_elements_without_a_schema_are_accepted_as_they_are(folder: Path) -> None:
    assert Schemas(folder).refusal(b"<feed/>") is None
    assert Schemas(None).refusal(b"<email/>") is None
    assert Schemas(folder / "none").refusal(b"<email/>") is None


def test_N7_a_schema_is_for_a_local_name_in_any_namespace(folder: Path) -> None:
    assert Schemas(folder).refusal(b"<email xmlns='urn:other' from='a'/>") is not None


def test_N7_relax_ng_goes_before_a_dtd_of_the_same_name(folder: Path) -> None:
    (folder / "email.dtd").write_text("<!ELEMENT email EMPTY>")
    assert Schemas(folder).refusal(b"<email from='a'><part/></email>") is None


def test_schemas_are_as_they_were_when_they_were_read(folder: Path) -> None:
    schemas = Schemas(folder)
    (folder / "email.rng").unlink()
    assert schemas.refusal(b"<email from='a'/>") is None
    assert schemas.refusal(b"<email sender='a'/>") is not None


def test_N31_a_bad_schema_leaves_its_last_good_version(folder: Path) -> None:
    schemas = Schemas(folder)
    for text in ("<element", EMAIL.replace("<empty/>", "<emtpy/>") + "<"):
        (folder / "email.rng").write_text(text)
        before, schemas = schemas, Schemas(folder, schemas)
        assert schemas.digest != before.digest
        assert [fault.path for fault in schemas.faults()] == ["etc/schemas/email.rng"]
        assert schemas.refusal(b"<email from='a'/>") is None
        assert schemas.refusal(b"<email sender='a'/>") is not None
    (folder / "email.rng").write_text(EMAIL.replace('name="from"', 'name="sender"'))
    mended = Schemas(folder, schemas)
    assert mended.faults() == []
    assert mended.refusal(b"<email sender='a'/>") is None
    assert Schemas(folder, mended).digest == mended.digest


BAD = {
    "not XML": ("email.rng", "<element", "email.rng:1:"),
    "not RELAX NG": (
        "email.rng",
        '<elment xmlns="http://relaxng.org/ns/structure/1.0"/>',
        "not a RELAX NG schema",
    ),
    "a doctype": ("email.rng", "<!DOCTYPE x><element/>", "a DOCTYPE is not accepted"),
    "an include": (
        "email.rng",
        '<grammar xmlns="http://relaxng.org/ns/structure/1.0">\n<include href="/etc/passwd"/></grammar>',
        "email.rng:2:1: a schema is one file: include is not followed",
    ),
    "an external reference": (
        "email.rng",
        '<externalRef href="x" xmlns="http://relaxng.org/ns/structure/1.0"/>',
        "externalRef is not followed",
    ),
    "not a DTD": ("email.dtd", "<!ELEMENT email (", "not a DTD"),
    "an external entity": (
        "email.dtd",
        '<!ELEMENT email EMPTY>\n<!ENTITY % x SYSTEM "file:///etc/passwd">%x;',
        "email.dtd:2:1: a schema is one file: external entities are not followed",
    ),
    "too large": ("email.dtd", " " * 2_000_000, "expected at most 1,048,576 bytes"),
}


@pytest.mark.parametrize("name", BAD)
def test_N7_a_bad_schema_refuses_nothing_silently(tmp_path: Path, name: str) -> None:
    file, text, message = BAD[name]
    (tmp_path / file).write_text(text)
    schemas = Schemas(tmp_path)
    refusal = schemas.refusal(b"<email from='a'/>")
    assert refusal is not None
    assert "the schema of 'email' cannot be used" in refusal
    (fault,) = schemas.faults()
    assert fault.path == f"etc/schemas/{file}"
    assert message in str(fault)
    assert str(fault) in refusal
    assert schemas.refusal(b"<note/>") is None


def test_a_schema_that_is_gone_is_a_fault(folder: Path) -> None:
    (folder / "email.rng").unlink()
    (folder / "email.rng").symlink_to("nowhere")
    schemas = Schemas(folder)
    assert "cannot be read: No such file or directory" in (schemas.refusal(b"<email/>") or "")


def test_validation_leaves_the_element_as_it_is(folder: Path) -> None:
    (folder / "note.dtd").write_text(NOTE.replace("#REQUIRED", "'en'"))
    schemas = Schemas(folder)
    xml = b"<note><text>x</text></note>"
    assert schemas.refusal(xml) is None
    assert xml == b"<note><text>x</text></note>"
