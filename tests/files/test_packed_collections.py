"""Packed collections: what a home may have and nothing else, the same bytes for the same files (G58)."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
import pytest

from narval.core.errors import UnreadableError
from narval.files.agents.published_folders import MOST_BYTES, MOST_FILES, pack, unpack, wrong_path

FILES = {
    "recipes/mail/triage.xml": b"<recipe/>",
    "recipes/page.xsl": b"<x/>",
    "modules/mail/__init__.py": b"",
    "modules/mail/boxes.py": b"A = 1\n",
    "modules/w.py": b"",
    "etc/schemas/guest.dtd": b"<!ELEMENT guest EMPTY>",
    "data/memory.xml": b"<memory/>",
}
OTHERS = {
    "etc/narval.toml": b"",
    "etc/people.toml": b"",
    "var/store.db": b"",
    "modules/w.txt": b"",
    "recipes/.hidden.xml": b"<recipe/>",
    "recipes/w.xml~": b"<recipe/>",
    "data/memory.xml.bak": b"<memory/>",
    "README.md": b"",
}


def put(folder: Path, files: dict[str, bytes]) -> Path:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def packed_by_hand(*files: tuple[str, bytes]) -> tuple[bytes, str]:
    data = msgspec.msgpack.encode(list(files))
    return data, hashlib.sha256(data).hexdigest()


def test_G58_what_counts_of_a_folder_is_packed_and_unpacked_again(tmp_path: Path) -> None:
    packed, faults = pack(put(tmp_path, FILES | OTHERS))
    assert (dict(packed.files), faults) == (FILES, [])
    assert unpack(packed.data, packed.digest) == FILES
    assert pack(tmp_path, declares=False)[0].files == {
        path: data for path, data in FILES.items() if path != "data/memory.xml"
    }


def test_G58_equal_files_are_equal_bytes_in_whatever_order_they_were_made(tmp_path: Path) -> None:
    one = pack(put(tmp_path / "one", FILES))[0]
    two = pack(put(tmp_path / "two", dict(reversed(FILES.items()))))[0]
    assert (one.digest, one.data) == (two.digest, two.data)
    put(tmp_path / "two", {"modules/w.py": b"B = 1\n"})
    assert pack(tmp_path / "two")[0].digest != one.digest


def test_G58_a_link_out_of_the_folder_is_a_fault(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside", {"secret": b"x"}) / "secret"
    for path in ("recipes/a.xml", "modules/a.py", "etc/schemas/a.dtd", "data/memory.xml"):
        folder = put(tmp_path / path.replace("/", "-"), {"recipes/w.xml": b"<recipe/>"})
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).symlink_to(outside)
        packed, faults = pack(folder)
        assert [fault.path for fault in faults] == [path]
        assert "leads out" in faults[0].message
        assert path not in packed.files


def test_G58_a_name_that_is_no_text_is_a_fault(tmp_path: Path) -> None:
    folder = put(tmp_path, {"recipes/w.xml": b"<recipe/>"})
    (folder / "recipes" / os.fsdecode(b"\xff.xml")).write_bytes(b"<recipe/>")
    packed, faults = pack(folder)
    assert list(packed.files) == ["recipes/w.xml"]
    assert "printable" in str(faults[0])
    str(faults[0]).encode()


def test_G58_more_than_a_collection_may_have_is_a_fault(tmp_path: Path) -> None:
    many = {f"etc/schemas/a{number}.dtd": b"" for number in range(MOST_FILES + 1)}
    _, faults = pack(put(tmp_path, many))
    assert f"at most {MOST_FILES:,} files" in faults[0].message


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../recipes/a.xml",
        "recipes/../../a.xml",
        "recipes//a.xml",
        "recipes/./a.xml",
        "recipes/a.xml/",
        "recipes/.a.xml",
        "recipes/a\n.xml",
        "recipes/a\0.xml",
        "recipes/" + "a" * 200 + ".xml",
        "recipes/" + "a/" * 12 + "a.xml",
        "recipes/a.so",
        "modules/a.so",
        "modules/__pycache__/a.py",
        "etc/narval.toml",
        "etc/people.toml",
        "etc/schemas/more/a.dtd",
        "data/other.xml",
        "agents/ada/agent.toml",
        "var/store.db",
        "inbox/a.xml",
        ".published",
        "",
    ],
)
def test_G58_a_path_that_no_collection_has_is_never_unpacked(path: str) -> None:
    assert wrong_path(path) is not None
    with pytest.raises(UnreadableError):
        unpack(*packed_by_hand(("recipes/w.xml", b""), (path, b"")))


def test_G58_what_is_damaged_or_too_large_is_never_unpacked(tmp_path: Path) -> None:
    packed, _ = pack(put(tmp_path, FILES))
    for data in (packed.data[:-1], packed.data + b"\0", b"", b"\xc1"):
        with pytest.raises(UnreadableError, match="SHA-256"):
            unpack(data, packed.digest)
    for text in (b"", b"\xc1", msgspec.msgpack.encode({"recipes/a.xml": b""}), b"\x91" * 100_000):
        with pytest.raises(UnreadableError, match="files of a collection"):
            unpack(text, hashlib.sha256(text).hexdigest())
    with pytest.raises(UnreadableError, match="at most"):
        unpack(bytes(MOST_BYTES + 1), packed.digest)
    with pytest.raises(UnreadableError, match="at most"):
        unpack(*packed_by_hand(*((f"recipes/a{number}.xml", b"") for number in range(MOST_FILES + 1))))
    with pytest.raises(UnreadableError, match="twice"):
        unpack(*packed_by_hand(("recipes/a.xml", b"1"), ("recipes/a.xml", b"2")))
    with pytest.raises(UnreadableError, match="cannot be in a file"):
        unpack(*packed_by_hand(("recipes/a.xml", b""), ("recipes/a.xml/b.xml", b"")))
