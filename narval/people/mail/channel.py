"""The channel of mail: notices to people go out, their answers come in. The engine has the rules."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from narval.agent.agent import AgentState
from narval.agent.loop import Request
from narval.agent.turn import Turn
from narval.core.engines.events import Produced, Returned
from narval.core.errors import StoreError
from narval.people.mail.incoming import answer_in, marked
from narval.people.mail.notices import Notices
from narval.people.mail.tokens import NOTICE_ID, TOKEN, blanked

log = logging.getLogger("narval.people")


class MailChannel:
    """The mail for the people of one agent, whose `id` is in its tokens; `out` prepares the notices."""

    def __init__(
        self, agent: AgentState, id: str, home: Path | None, post: Callable[[Request], None]
    ) -> None:
        self._id = id
        self.out = Notices(agent, id, home, post)

    def hear(self, turn: Turn, event: Returned | Produced) -> Returned | Produced:
        """Hand over the answers among the mails that a call gave; the event without their tokens.

        A mail that replies to a notice is marked with `work`, so that no recipe takes it for an ordinary
        mail.
        """
        if not any(TOKEN.search(element.xml) or NOTICE_ID.search(element.xml) for element in event.elements):
            return event
        elements = []
        for element in event.elements:
            answer = None
            try:
                answer = answer_in(turn, self._id, element.xml)
            except StoreError:
                raise
            except Exception:
                log.exception("a mail could not be read as an answer")
            if answer is not None:
                turn.tell(*answer)
            elements.append(replace(element, xml=blanked(marked(element.xml))))
        return replace(event, elements=tuple(elements))
