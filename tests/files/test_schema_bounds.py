"""Schemas that take too much memory or time to compile are refused, and keep no daemon from its work (N7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.files import schemas
from narval.files.schemas import Schemas

RNG = 'xmlns="http://relaxng.org/ns/structure/1.0"'
LEAF = '<element name="part"><empty/></element>'
NESTED = f'<element name="mail" {RNG}>{"<oneOrMore>" * 16}{LEAF}{"</oneOrMore>" * 16}</element>'
DOUBLED = "\n".join(
    [
        f'<grammar {RNG}><start><element name="mail"><ref name="d0"/></element></start>',
        *(f'<define name="d{n}"><ref name="d{n + 1}"/><ref name="d{n + 1}"/></define>' for n in range(19)),
        f'<define name="d19">{LEAF}</define></grammar>',
    ]
)
OPTIONAL = f"<!ELEMENT mail ({','.join(['part?'] * 4000)})>\n<!ELEMENT part EMPTY>"
GOOD = f'<element name="note" {RNG}><zeroOrMore>{LEAF}</zeroOrMore></element>'


@pytest.mark.parametrize(
    ("name", "text"), {"mail.rng": NESTED, "mail.dtd": OPTIONAL}.items(), ids=["relax-ng", "dtd"]
)
def test_N7_a_schema_that_takes_too_long_to_compile_is_refused_and_named(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "note.rng").write_text(GOOD)
    schemas = Schemas(tmp_path)
    (fault,) = schemas.faults()
    assert str(fault).startswith(f"etc/schemas/{name}:1:1: it takes more than 1 s of the processor's time")
    assert "cannot be used" in (schemas.refusal(b"<mail/>") or "")
    assert schemas.refusal(b"<note><part/></note>") is None
    assert schemas.refusal(b"<note><mail/></note>") is not None


def test_N7_a_schema_that_takes_too_much_memory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mail.rng").write_text(DOUBLED)
    (fault,) = Schemas(tmp_path).faults()
    assert "mail.rng:1:1: it takes more than 128 MB of memory to compile" in str(fault)


def test_N31_a_schema_beyond_its_bounds_leaves_its_last_good_version(tmp_path: Path) -> None:
    (tmp_path / "note.rng").write_text(GOOD)
    before = Schemas(tmp_path)
    (tmp_path / "note.rng").write_text(NESTED)
    schemas = Schemas(tmp_path, before)
    assert [fault.path for fault in schemas.faults()] == ["etc/schemas/note.rng"]
    assert schemas.refusal(b"<note><part/></note>") is None


def test_one_child_tries_all_schemas_of_a_folder_and_none_tries_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children: list[int] = []
    tried = schemas.tried_by_child

    def counted(schemas: list[tuple[str, bytes]]) -> tuple[bytes, int]:
        children.append(len(schemas))
        return tried(schemas)

    monkeypatch.setattr(schemas, "tried_by_child", counted)
    for number in range(20):
        (tmp_path / f"own{number}.rng").write_text(GOOD.replace("note", f"own{number}"))
    before = Schemas(tmp_path)
    assert before.faults() == []
    assert children == [20]
    (tmp_path / "own7.rng").write_text(GOOD.replace("note", "another"))
    assert Schemas(tmp_path, before).faults() == []
    assert children == [20, 1]
