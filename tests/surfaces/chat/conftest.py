"""What the tests of chats share."""

from __future__ import annotations

import pytest

from tests.surfaces.chat.stand_in import use_stand_in


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_in(monkeypatch)
