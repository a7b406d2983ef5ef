"""Sources: encodings, digests and places."""

from __future__ import annotations

import pytest

from narval.core.source.text import Source
from narval.core.source.xml import read_xml
from tests.core.source.places import fault_of, root_of


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_says_how_the_bytes_are_to_be_read(encoding: str) -> None:
    assert Source("a.xml", "<é>😀</é>".encode(encoding)).text == "<é>😀</é>"


def test_utf_16_without_a_mark_is_recognised() -> None:
    assert Source("a.xml", "<é/>".encode("utf-16-be")).text == "<é/>"
    assert Source("a.xml", "<é/>".encode("utf-16-le")).text == "<é/>"


@pytest.mark.parametrize("name", ["latin-1", "ISO-8859-1", "iso-8859-15", "windows-1252"])
def test_N6_latin_1_files_load_as_they_declare(name: str) -> None:
    text = f"<?xml version='1.0' encoding='{name}'?><é x='à'/>"
    assert root_of(text.encode("latin-1")).attributes == {"x": "à"}


def test_a_python_file_declares_its_encoding_as_python_files_do() -> None:
    text = "#!/usr/bin/python\n# -*- coding: latin-1 -*-\nname = 'é'\n"
    assert Source("m.py", text.encode("latin-1")).text == text


def test_a_byte_that_is_not_utf_8_is_a_fault_at_its_place() -> None:
    fault = fault_of("<a>\n éé".encode() + b"\xe9</a>")
    assert fault.startswith("a.xml:2:4: expected utf-8 text, found the byte 0xe9; save the file as UTF-8")


@pytest.mark.parametrize(
    "name", ["latin-99", "hex", "rot13", "idna", "utf-7", "undefined", "é", "unicode_escape"]
)
def test_an_encoding_that_no_file_has_is_a_fault_at_its_name(name: str) -> None:
    fault = fault_of(f"\n<?xml version='1.0' encoding='{name}'?><a/>".encode())
    assert fault.startswith("a.xml:2:31: unknown encoding")


def test_a_file_that_declares_utf_16_but_is_not_is_a_fault() -> None:
    assert "says it is UTF-16, but it is not" in fault_of("<?xml version='1.0' encoding='UTF-16'?><a/>")


def test_a_text_that_was_a_string_already_is_not_decoded_again() -> None:
    source = Source.of_text("m.py", "<?xml version='1.0' encoding='latin-1'?><a b='é'/>", 7, 5)
    root = read_xml(source)
    assert root.attributes == {"b": "é"}
    assert (root.line, root.column) == (7, 5 + 40)


def test_the_digest_is_that_of_the_bytes() -> None:
    assert Source("a", b"x").digest == Source("b", b"x").digest != Source("a", b"y").digest


def test_places_count_lines_and_characters_from_one() -> None:
    source = Source("a", "é1\r\n😀2\r3\n".encode())
    places = [source.place(offset) for offset in range(len(source.text) + 1)]
    assert places == [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1)]
    assert [source.offset(line) for line in (1, 2, 3, 4, 5)] == [0, 4, 7, 9, 9]
