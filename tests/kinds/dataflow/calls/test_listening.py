"""Values that are sent to a socket of the home come as a stream."""

from __future__ import annotations

import socket
import stat
import threading
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.kinds.dataflow.calls.driving import drive

PLAN = 'PLAN P { OUTPUT: TupleStream out; BODY { listen("prices" : out) } }'


def send(path: Path, found: list[int], *lines: bytes) -> None:
    end = monotonic() + 60
    while not path.exists() and monotonic() < end:
        sleep(0.01)
    found.append(stat.S_IMODE(path.stat().st_mode))
    with socket.socket(socket.AF_UNIX) as client:
        while client.connect_ex(str(path)) and monotonic() < end:  # it is there before it listens
            sleep(0.01)
        client.sendall(b"".join(line + b"\n" for line in lines))


def test_lines_of_a_socket_are_values(tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    path, found = tmp_path / "var/listen/prices", list[int]()
    sender = threading.Thread(target=send, args=(path, found, "7 €".encode(), b"\xff", b"", b"."))
    sender.start()
    over, taken = drive(tmp_path, PLAN)
    sender.join()
    assert over.state == "done", over
    assert [row["value"] for row in taken.rows["out"]] == ["7 €", "\N{REPLACEMENT CHARACTER}", ""]
    assert found == [0o600]
    assert not path.exists()


@pytest.mark.parametrize("name", ["../x", "", "a/b", "." * 70])
def test_a_socket_has_a_plain_name(tmp_path: Path, name: str) -> None:
    over, _ = drive(tmp_path, PLAN.replace("prices", name))
    assert over.failure is not None
    assert "expected the name of a socket" in over.failure.message


def test_a_socket_takes_the_place_of_no_other(tmp_path: Path) -> None:
    """Neither of the daemon's own, which lies beside, nor of one that another dataflow listens at."""
    (tmp_path / "var/listen").mkdir(parents=True)
    for name in ("control.sock", "listen/prices"):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(tmp_path / "var" / name))
            server.listen()
            before = (tmp_path / "var" / name).stat().st_ino
            if name == "listen/prices":
                over, _ = drive(tmp_path, PLAN)
                assert over.failure is not None
                assert "another dataflow listens" in over.failure.message
            else:
                sender = threading.Thread(target=send, args=(tmp_path / "var/listen/control.sock", [], b"."))
                sender.start()
                over, _ = drive(tmp_path, PLAN.replace("prices", "control.sock"))
                sender.join()
                assert over.state == "done", over
            assert (tmp_path / "var" / name).stat().st_ino == before
