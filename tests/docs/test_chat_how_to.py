"""How-to pages on chats are followed against stand-ins of the services, and then somebody writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docs.test_cli_page import Reader
from tests.docs.test_web_how_to import do
from tests.surfaces.chat.matrix_server import ANN, NARVAL, MatrixServer
from tests.surfaces.chat.synapse import Synapse
from tests.surfaces.chat.telegram_server import ANN as ANN_OF_TELEGRAM
from tests.surfaces.chat.telegram_server import TelegramServer

Homeserver = MatrixServer | Synapse

PRINTED = "k7p2m9x4qa  (to be sent to phone by ann within ten minutes)"
LINK = "narval chat link ann --write"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reading = Reader(tmp_path)
    reading.does("narval init --bare")
    yield reading
    reading.end()


@pytest.fixture
def telegram() -> Iterator[TelegramServer]:
    server = TelegramServer()
    yield server
    server.close()


@pytest.fixture(params=[MatrixServer, pytest.param(Synapse, marks=pytest.mark.soak)])
def matrix(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Homeserver]:
    folder = tmp_path_factory.mktemp("synapse")
    server = MatrixServer() if request.param is MatrixServer else Synapse(folder)
    yield server
    server.close()


def await_(what: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_telegram(reader: Reader, telegram: TelegramServer) -> None:
    printed = reader.folder / "printed"

    def send_the_code() -> None:
        await_(lambda: printed.exists() and "(" in printed.read_text())
        await_(lambda: any(asked["timeout"] for asked in telegram.called("getUpdates")))
        telegram.write(ANN_OF_TELEGRAM, "/start")
        telegram.write(ANN_OF_TELEGRAM, f"/start {printed.read_text().split()[0]}")

    person = threading.Thread(target=send_the_code, daemon=True)
    person.start()
    server = f'kind   = "telegram"\nserver = "{telegram.url}"\nallow = ["{telegram.place}"]'
    stands_for = {
        'kind   = "telegram"': server,
        LINK: f"{LINK} 2> >(tee {printed})",
        PRINTED: "…",
    }
    do(reader, "chat-telegram.md", stands_for)
    person.join()
    telegram.write(ANN_OF_TELEGRAM, "/status")
    await_(lambda: len(telegram.texts(ANN_OF_TELEGRAM)) > 1)
    assert "runs" in telegram.texts(ANN_OF_TELEGRAM)[-1]
    assert "connected" in reader.does("narval chats")


def test_matrix(reader: Reader, matrix: Homeserver) -> None:
    server = f'"{matrix.url}"\nallow = ["{matrix.place}"]'
    do(reader, "chat-matrix.md", {'"https://matrix.example.org"': server})
    room = matrix.room(ANN, invited=(NARVAL,))
    matrix.event(room, ANN, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"}, state_key="")
    matrix.event(room, ANN, "m.room.encrypted", {"algorithm": "m.megolm.v1.aes-sha2"})
    await_(lambda: any(matrix.membership(one, ANN) == "invite" for one in matrix.joined(NARVAL)))
    (made,) = (one for one in matrix.joined(NARVAL) if matrix.membership(one, ANN) == "invite")
    await_(lambda: matrix.sent(made))
    assert "encrypted from end to end" in matrix.sent(made)[0]["body"]
    matrix.member(made, ANN, "join")
    matrix.write(ANN, made, "status")
    await_(lambda: len(matrix.sent(made)) > 1)
    assert "runs" in matrix.sent(made)[1]["body"]
    assert not matrix.sent(room)
