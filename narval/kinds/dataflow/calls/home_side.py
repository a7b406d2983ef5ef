"""The home as the daemon's dataflows use it: its memory and its mail (T60)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from narval.agent.agent import AgentState
from narval.agent.labelling import labels_at, note_file
from narval.agent.turn import Turn
from narval.core.elements.canonical import canonical
from narval.core.elements.element import Origin, parse, text_within
from narval.core.errors import ActionError, PatternError
from narval.core.patterns.pattern import condition
from narval.kinds.dataflow.calls.messages import FlowMessage, InTurn, Sender


class HomeSide:
    """The home of an agent, for one session of a run.

    `given` are the elements that the session was given. `keep` has a turn record something. `judge` raises
    ActionError if it may not have elements, or what has some labels; None if nothing goes outside.
    """

    def __init__(
        self,
        agent: AgentState,
        home: Path | None,
        run: int,
        step: str,
        given: Iterable[int],
        keep: Callable[[Callable[[Turn], None]], Awaitable[None]],
        *,
        judge: Callable[[Iterable[int], Iterable[str]], None] | None = None,
    ) -> None:
        self._agent, self._home, self._judge = agent, home, judge
        self._origin, self._given, self._keep = Origin(run, step), (run, *given), keep
        self._files: dict[Path, list[str]] = {}
        """The labels recorded of each file that the session writes."""
        self.labels: set[str] = set()
        """The labels of everything the session has received from memory or from outside."""

    @property
    def senders(self) -> dict[str, Sender]:
        """The ways to send that need the home."""
        return {"element": self._to_memory, "mailto": self._by_mail}

    # --- memory ---------------------------------------------------------------------------------------

    def elements(self, pattern: str) -> list[tuple[int, str, str]]:
        """The current elements that match a pattern: eid, name and text.

        Raises ActionError as `judge` does.
        """
        try:
            bound = condition(pattern).bind()
        except PatternError as error:
            raise ActionError(str(error), "wrong-text", final=True) from None
        memory = self._agent.memory
        eids = list(memory.matching(bound, None))
        if self._judge is not None:
            self._judge(eids, ())
        self.labels.update(memory.labels.names(memory.labels.of(eids)))
        elements = [memory.element(eid) for eid in eids]
        return [(one.eid, one.name, _text_in(one.xml)) for one in elements if one is not None]

    def of_file(self, path: Path) -> None:
        """Take the labels of a file that narval wrote. Raises ActionError as `judge` does."""
        labels = self._agent.memory.labels
        names = labels.names(labels_at(self._agent, str(path)))
        if self._judge is not None and names:
            self._judge((), names)
        self.labels.update(names)

    async def to_write(self, path: Path) -> None:
        """Record the labels of what the session has now as those of a file that it is about to write: nobody
        may ask for its outcome, and others may read the file before it ends.
        """
        labels = self._agent.memory.labels
        names, _ = labels.told(labels.join(labels.of(self._given), labels.number(self.labels)))
        if names != self._files.get(path, []):
            await self._keep(partial(_note_file, str(path), names))
            self._files[path] = names

    async def _to_memory(self, message: FlowMessage) -> InTurn:
        """Return the act that adds a value's document to memory, where waiting runs see it."""
        return partial(_add, canonical(message.document), self._origin, frozenset(self.labels))

    # --- mail -----------------------------------------------------------------------------------------

    async def _by_mail(self, message: FlowMessage) -> None:
        """Send a value with the `[mail]` account. Raises ActionError."""
        from narval.people.mail.account import MailAccount
        from narval.people.mail.writing import send_text

        mail = self._agent.home.now.mail
        if mail is None:
            next_step = "add [mail] to etc/narval.toml"
            raise ActionError(f"there is no server to send mail by; {next_step}", "no-server", final=True)
        to, subject = _recipients(message.dest)
        text = _readable(message)
        first = next((line for line in text.splitlines() if line.strip()), "narval")
        account = MailAccount(mail, self._home)
        await send_text(account, to, subject or " ".join(first.split())[:70], text, key=message.key)


def _text_in(xml: bytes) -> str:
    """The text of an element, if it has any, else its XML."""
    text = text_within(parse(xml)).strip()
    return text or xml.decode()


def _recipients(dest: str) -> tuple[str, str]:
    """The addresses in `mailto:ADDRESS,…?subject=TEXT`, separated by blanks, and the subject.

    Raises ActionError for anything else.
    """
    addresses, _, query = dest.partition(":")[2].partition("?")
    asked = dict(parse_qsl(query, keep_blank_values=True))
    subject = asked.pop("subject", "")
    if asked:
        expectation = "expected addresses, and ?subject= after them"
        raise ActionError(f"{expectation}, found {', '.join(asked)} in {dest:.80}", "bad-address", final=True)
    return " ".join(unquote(addresses).replace(",", " ").split()), " ".join(subject.split())


def _readable(message: FlowMessage) -> str:
    """The value for people: its text if it has one attribute, else one attribute per line."""
    attributes = list(parse(message.document).iterchildren("*"))
    if len(attributes) == 1:
        return attributes[0].text or ""
    return "\n".join(f"{child.tag!s}: {child.text or ''}" for child in attributes) or message.text


def _note_file(path: str, names: list[str], turn: Turn) -> None:
    note_file(turn.transaction, path, turn.agent.memory.labels.number(names))


def _add(xml: bytes, origin: Origin, labels: Iterable[str], turn: Turn) -> None:
    with turn.transaction.coming_with(turn.agent.memory.labels.number(labels)):
        turn.add(xml, origin)
