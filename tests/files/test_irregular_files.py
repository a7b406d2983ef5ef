"""What is no regular file stops nobody who reads a home: whatever its name, it is a fault, and not opened."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from narval.core.errors import ElementError, SurroundingsError
from narval.daemon.dropped import drop_folder
from narval.files.alterations import compare
from narval.files.check import check_alone, check_home
from narval.files.found_files import MOST_OF_CODE
from narval.files.home import Home
from narval.files.reading import load
from narval.system.regular_file import UnfitFileError, read_regular

GOOD = (
    '<recipe group="g" name="r" start_step="a" end_step="a">'
    '<step id="a" type="action" target="basic.nothing"/></recipe>'
)
READ = (
    *(f"recipes/{name}" for name in ("x.xml", "x.plan", "x.task", "x.page.xsl", "below/x.xml")),
    *(f"modules/{name}" for name in ("x.py", "whole/x.py", "whole/__init__.py")),
    *(f"etc/{name}" for name in ("narval.toml", "people.toml", "schemas/x.rng", "schemas/y.dtd")),
    "data/memory.xml",
    *(f"agents/a/{name}" for name in ("agent.toml", "data/memory.xml", "recipes/x.xml", "modules/x.py")),
    *(f"collections/c/{name}" for name in ("recipes/x.xml", "modules/x.py")),
)
"""A file of each kind that a home reads."""


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        before = os.getcwd()
        os.chdir(path.parent)  # the path of a socket is short
        try:
            made.bind(path.name)
        finally:
            os.chdir(before)


KINDS: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a socket": _socket,
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    for path in READ:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "recipes/good.xml").write_text(GOOD)
    (tmp_path / "modules/whole/good.py").write_text("")
    return Home(tmp_path)


def test_a_file_with_more_code_than_is_read_is_a_fault_that_says_so_and_costs_itself_alone(
    home: Home,
) -> None:
    for path in ("modules/x.py", "modules/whole/x.py"):
        (home.path / path).write_bytes(b"#" * (MOST_OF_CODE + 1))
    (home.path / "modules/most.py").write_bytes(b"#" * MOST_OF_CODE)
    assert [(fault.path, fault.message) for fault in check_home(home)] == [
        (path, "expected at most 1,048,576 bytes, found 1,048,577")
        for path in ("modules/whole/x.py", "modules/x.py")
    ]
    assert load(home.path).library.get("recipe", "g.r") is not None


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_has_the_name_of_a_file_is_a_fault_and_the_others_are_read(home: Home, kind: str) -> None:
    for path in READ:
        KINDS[kind](home.path / path)
    faults = {fault.path: fault.message for fault in check_home(home) if not fault.warning}
    assert faults == dict.fromkeys(READ, f"expected a file, found {kind}; move it away, or rename it")


def test_a_device_is_a_fault_and_is_not_read(home: Home) -> None:
    (home.path / "data/memory.xml").symlink_to("/dev/zero")
    (home.path / "etc/people.toml").symlink_to("/dev/tty")
    assert {fault.message for fault in check_home(home)} == {
        "expected a file, found a device; move it away, or rename it"
    }


def test_one_that_is_named_alone_is_a_fault(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.xml")
    for path in (tmp_path, tmp_path / "x.xml"):
        assert [fault.message[:29] for fault in check_alone([path])] == ["expected a file, found a pipe"]


def test_the_zone_of_a_home_and_what_it_altered_are_found_beside_pipes(home: Home) -> None:
    for path in ("etc/narval.toml", "recipes/mail.xml"):
        os.mkfifo(home.path / path)
    assert home.zone_name() == ""
    with pytest.raises(SurroundingsError, match="found a pipe"):
        compare(home)


@pytest.mark.parametrize(
    ("settings", "zone"),
    [
        ("# timezone = 'UTC'", ""),
        ("threads = 1\n timezone = 'UTC'", "UTC"),
        ("timezone = 1", ""),
        ("timezone", ""),
    ],
)
def test_the_zone_of_a_home_is_the_one_its_settings_name(home: Home, settings: str, zone: str) -> None:
    home.settings.write_text(settings)
    assert home.zone_name() == zone


def test_a_pipe_that_comes_between_the_look_and_the_opening_does_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    real, looked = os.stat, os.stat(tmp_path / "file")
    monkeypatch.setattr(os, "stat", lambda path, **_: looked if path == tmp_path / "pipe" else real(path))
    with pytest.raises(UnfitFileError, match="found a pipe"):
        read_regular(tmp_path / "pipe")


def test_no_more_is_read_than_there_may_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 11)
    assert read_regular(tmp_path / "file", 11) == b"x" * 11
    with pytest.raises(UnfitFileError, match="expected at most 10 bytes, found 11"):
        read_regular(tmp_path / "file", 10)
    with pytest.raises(UnfitFileError, match="expected at most 10 bytes, found 11"):
        read_regular("/proc/self/status", 10)  # the system says that this is empty


@pytest.mark.parametrize("order", ["<quit/>", "<memory><note/><start-plan recipe='a.b'/></memory>"])
def test_an_order_in_a_file_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    claims = [drop_folder.Claim(number, f"{number}.xml", tmp_path / f"{number}.xml") for number in (1, 2)]
    for claim, text in zip(claims, (order, "<note/>"), strict=True):
        claim.path.write_text(text)
        if os.geteuid() == 0:  # root may give orders anywhere
            os.chown(claim.path, 4711, -1)
    assert len(drop_folder.read(claims[1])[0]) == 1
    monkeypatch.setattr(os, "geteuid", lambda: claims[0].path.stat().st_uid)
    assert drop_folder.read(claims[0])[0]
    monkeypatch.setattr(os, "geteuid", lambda: 4712)
    with pytest.raises(ElementError, match=r"is an order, and the file belongs to .*: only 4712 and root"):
        drop_folder.read(claims[0])
    assert drop_folder.read(claims[1])[0] == [b"<note/>"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_dropped_into_the_inbox_and_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    KINDS[kind](tmp_path / "x.xml")
    with pytest.raises(ElementError, match=f"expected a file, found {kind}"):
        drop_folder.read(drop_folder.Claim(1, "x.xml", tmp_path / "x.xml"))
