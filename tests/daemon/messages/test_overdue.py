"""Messages that wait for too long are looked for at their moments alone."""

from __future__ import annotations

from narval.daemon.messages.post_office import OverdueMessages
from narval.store.letters import WaitingRow


def test_G32_overdue_messages_are_looked_for_once_each_at_its_moment() -> None:
    overdue, moments = OverdueMessages(), list[float | None]()
    overdue.begin(moments.append)
    overdue.expect(10.0)
    assert overdue.due(10.0, [WaitingRow(2, 1, 3, 9, 10.0, 20.0, 3)]) == [2]
    assert overdue.due(20.0, [WaitingRow(2, 1, 3, 9, 10.0, None, 3)]) == [2]
    assert moments == [10.0, 20.0]
