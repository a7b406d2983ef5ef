"""What the tests of chats share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.surfaces.chat.prosody import Prosody, missing
from tests.surfaces.chat.stand_in import use_stand_in


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_in(monkeypatch)


@pytest.fixture(scope="session")
def prosody() -> Iterator[Prosody]:
    """A server of XMPP; the tests that want it are left out where there can be none."""
    if why := missing():
        pytest.skip(f"tests with a real server of XMPP are left out: {why}")
    with tempfile.TemporaryDirectory(prefix="narval-prosody-") as folder:
        server = Prosody(Path(folder))
        server.begin()
        try:
            yield server
        finally:
            server.end()
