"""The client of a peer: what it says of one that does not answer once it was asked."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from narval.core.errors import DaemonGoneError, UnansweredError
from narval.files.outside.peers import PEERS_FILE, load_peers
from narval.surfaces.link.protocol import PeerClient

REFUSAL = b'HTTP/1.1 %d No\r\nContent-Length: 31\r\n\r\n{"error": "The daemon there."}\r\n'


def client_of(home: Path, port: int) -> PeerClient:
    """A client of a peer at a port of this machine."""
    (home / PEERS_FILE).parent.mkdir(parents=True)
    token = home / "etc/office"
    token.write_text("a-token")
    token.chmod(0o600)
    lines = ("[office]", f'url = "http://127.0.0.1:{port}"', 'token = "office"')
    (home / PEERS_FILE).write_text("\n".join(lines))
    return PeerClient(load_peers(home)["office"], home, answer=0.1)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (None, UnansweredError),
        (b"", UnansweredError),
        (REFUSAL % 504, UnansweredError),
        (REFUSAL % 502, UnansweredError),
        (REFUSAL % 503, DaemonGoneError),
    ],
)
def test_a_peer_that_was_asked_and_does_not_answer_may_have_done_it(
    tmp_path: Path, answer: bytes | None, error: type[DaemonGoneError]
) -> None:
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as peer:

        def listen() -> None:
            connection, _ = peer.accept()
            with connection:
                connection.recv(65536)
                if answer is None:
                    over.wait(60)
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=listen)
        thread.start()
        client = client_of(tmp_path, peer.getsockname()[1])
        with pytest.raises(DaemonGoneError) as gone:
            client.ask("add")
        over.set()
        thread.join(60)
    assert type(gone.value) is error


def test_a_peer_that_is_not_there_has_done_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(DaemonGoneError, match="cannot be reached") as gone:
        client_of(tmp_path, port).ask("add")
    assert type(gone.value) is DaemonGoneError
