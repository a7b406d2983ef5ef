"""The protocol of a link: what to take, what to send next, what a restored backup has lost (G39 to G42).

    hear(frame) -> Heard       what to record: messages, what the other side took, differences
    recorded(...)              that is recorded, and may be reported
    frame(answers)             what to send next

It is pure, and the simulator explores it. Messages of a sender are numbered from 1. Each side keeps its
messages until the other reports that it has taken them, and counts the messages that it takes from each
sender. So frames that are lost, repeated or reordered neither lose nor double a message. Only one batch of a
sender is under way at a time, until a frame of the other side answers its frame; messages not taken by then
are sent again.

A link begins with the *standing* of both sides: after each start, and when a frame was lost. Each side
corrects its count by the other's standing if a backup was restored:

    the sender's store was put back: messages after the last number of the backup are new, although the
        same numbers were taken before; the count returns to that number
    the receiver's store was put back: messages that the sender has dropped are lost; the count
        continues above them

Any other difference is a fault, and the link stops.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from msgspec.structs import replace

from narval.core.errors import RequestError
from narval.daemon.links.frame import (
    MOST_BYTES,
    MOST_MESSAGES,
    MOST_SENDERS,
    VERSION,
    Frame,
    Message,
    Standing,
)


class LinkFaultError(RequestError):
    """The two sides differ in a way that no restored backup explains."""


class Difference(NamedTuple):
    """A range of messages of a sender of the other side that a restored backup has lost, or that were taken
    before the sender used their numbers again.
    """

    sender_id: str
    first: int
    last: int
    what: Literal["lost", "again"]


class Meeting(NamedTuple):
    """The other side's link id and incarnation when the link last began; this side's incarnation then."""

    link: str = ""
    incarnation: str = ""
    own: str = ""


class Heard(NamedTuple):
    """Everything in a frame that must be recorded: `met` if the link begins differently than before, and
    `former` if with another side; the corrected counts of senders, the numbers taken there by sender, and
    messages, some of which may be taken.
    """

    met: Meeting | None = None
    former: tuple[str, str] | None = None
    differences: tuple[Difference, ...] = ()
    corrected: Mapping[str, int] = {}
    dropped: Mapping[str, int] = {}
    messages: tuple[Message, ...] = ()


class Outgoing:
    """The messages of one side that the other has not taken, and which of them are under way."""

    def __init__(self, own: Standing) -> None:
        self.sent, self.dropped = dict(own.sent), dict(own.dropped)
        self.restored, self._names = dict(own.restored), dict(own.names)
        self._waiting: dict[str, deque[Message]] = {}
        self._under_way: dict[int, dict[str, int]] = {}
        """The last message of each sender in a frame, by the frame's number."""
        self._frame_of: dict[str, int] = {}
        """The frame with which messages of a sender are under way."""
        self.held_there: frozenset[str] = frozenset()
        """The senders from which the other side takes nothing, for lack of room."""

    def put(self, message: Message) -> None:
        """Add a recorded message to be sent; the messages of a sender are added in order."""
        self._waiting.setdefault(message.sender_id, deque()).append(message)
        self.sent[message.sender_id] = message.number
        self._names[message.sender_id] = message.sender

    def end(self, ids: Collection[str]) -> None:
        """Make the other side refuse messages, whatever its clock says: they have expired here."""
        for sender_id, waiting in self._waiting.items():
            self._waiting[sender_id] = deque(
                replace(message, until=0.0) if message.id in ids else message for message in waiting
            )

    @property
    def oldest(self) -> float | None:
        """The moment at which the oldest waiting message was sent; None if there is none."""
        return min((waiting[0].at for waiting in self._waiting.values()), default=None)

    def standing(self) -> Standing:
        """The present numbers of this side."""
        return Standing({**self.sent}, {**self.dropped}, self.restored, {**self._names})

    def ready(self) -> Iterator[str]:
        """The senders of messages that may be sent now."""
        return (id for id in self._waiting if id not in self.held_there and id not in self._frame_of)

    def batch(self, frame: int) -> tuple[Message, ...]:
        """The messages for the frame of a number; their senders move behind the others."""
        messages = tuple(self._next())
        if messages:
            last = {message.sender_id: message.number for message in messages}
            self._under_way[frame] = last
            self._frame_of.update(dict.fromkeys(last, frame))
        return messages

    def _next(self) -> Iterator[Message]:
        many = size = 0
        for sender_id in [*self.ready()]:
            waiting = self._waiting.pop(sender_id)
            self._waiting[sender_id] = waiting
            for message in waiting:
                if many == MOST_MESSAGES or (many and size + message.size > MOST_BYTES):
                    return
                many, size = many + 1, size + message.size
                yield message

    def answered(self, number: int) -> None:
        """Handle the answer to a frame: it is no longer under way, and messages not taken are sent again."""
        for sender_id in self._under_way.pop(number, ()):
            if self._frame_of.get(sender_id) == number:
                del self._frame_of[sender_id]

    def forget_frames(self) -> None:
        """Forget the frames under way."""
        self._under_way.clear()
        self._frame_of.clear()

    def drop(self, sender_id: str, number: int) -> None:
        """Drop the messages of a sender up to a number, which the other side has taken."""
        waiting = self._waiting.get(sender_id)
        while waiting and waiting[0].number <= number:
            waiting.popleft()
        if waiting is not None and not waiting:
            del self._waiting[sender_id]
        self.dropped[sender_id] = number


class LinkState:
    """One side of a link, while its store is in use.

    `link` and `incarnation` are its own; `run` is a new id for each activation. `met` and `former` are what
    it knew of the other side before. `reached` has the last number taken of each sender there; `own` is its
    standing.
    """

    def __init__(
        self,
        link: str,
        incarnation: str,
        run: str,
        met: Meeting = Meeting(),  # noqa: B008 - nothing can alter it
        former: Iterable[tuple[str, str]] = (),
        reached: Mapping[str, int] = {},
        own: Standing = Standing(),  # noqa: B008 - nothing can alter it
    ) -> None:
        self.link, self.incarnation, self._run = link, incarnation, run
        self.met, self._former = met, {*former}
        self.out = Outgoing(own)
        self.reached = dict(reached)
        """The number of the last message taken from each sender there, including those of this turn."""
        self.is_begun = False
        """True once this activation has received the standing of the other side."""
        self.beginnings = 0
        """The number of times that the link has begun in this activation, at the request of either side."""
        self._recorded = dict(reached)
        self._frames = 0
        self._other_run, self._other_frame = "", 0
        self.held: set[str] = set()
        """The senders there from which nothing is taken until there is room here."""
        self._held_before: frozenset[str] = frozenset()
        """The same senders, as last reported to the other side."""
        self._taken_since: set[str] = set()
        """The senders there from which something was taken since the last frame."""
        self._shows = self._asks = True
        """True if the next frame must have this side's standing; if it must ask for the other side's."""

    def is_of(self, frame: Frame) -> bool:
        """True for a frame of the other side's activation with which the link has begun."""
        return self.is_begun and frame.run == self._other_run

    # --- sending ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin the link again: the fate of frames under way is unknown."""
        self._shows = self._asks = True
        self.beginnings += 1
        self.out.forget_frames()

    def has_news(self) -> bool:
        """True if there is something new to send."""
        if self._shows or self._taken_since or self._held_before != self.held:
            return True
        return self.is_begun and any(True for _ in self.out.ready())

    def frame(self, answers: int = 0) -> Frame:
        """The next frame to send; `answers` is the number of the frame that it answers."""
        self._frames += 1
        senders: Iterable[str] = self._recorded if self._shows else self._taken_since
        frame = Frame(
            version=VERSION,
            link=self.link,
            incarnation=self.incarnation,
            run=self._run,
            number=self._frames,
            answers=answers,
            meets=f"{self.met.link}.{self.met.incarnation}" if self.met.link else "",
            asks=self._asks,
            standing=self.out.standing() if self._shows else None,
            messages=self.out.batch(self._frames) if self.is_begun else (),
            taken={id: self._recorded[id] for id in senders if id in self._recorded},
            held=tuple(sorted(self.held)),
        )
        self._shows = self._asks = False
        self._taken_since.clear()
        self._held_before = frozenset(self.held)
        return frame

    # --- receiving --------------------------------------------------------------------------------------

    def hear(self, frame: Frame) -> Heard:
        """Apply a frame of the other side; return what must be recorded.

        Raises LinkFaultError, with nothing applied, if the two sides cannot continue.
        """
        other = frame.link, frame.incarnation
        if other == (self.link, self.incarnation):
            raise LinkFaultError(
                "both ends of the link are this home: etc/peers.toml names it as its own peer"
            )
        is_same = self.is_begun and other == self.met[:2] and frame.run == self._other_run
        if frame.standing is None and not is_same:
            self._shows = self._asks = True
            return Heard()
        if other in self._former or self._is_older(frame):
            raise LinkFaultError(
                f"the store of the other side is one that another took the place of: {_BY_HAND}"
            )
        heard = self._meet(frame, frame.standing) if frame.standing is not None else Heard()
        if frame.meets == f"{self.link}.{self.incarnation}":
            heard = heard._replace(dropped=self._newly_taken(frame.taken))
        if frame.standing is not None:
            self._begun(frame, heard)
            self.beginnings += frame.asks
        self._shows |= frame.asks
        self.out.answered(frame.answers)
        if frame.number > self._other_frame:
            self._other_frame, self.out.held_there = frame.number, frozenset(frame.held)
        for sender_id, number in heard.dropped.items():
            self.out.drop(sender_id, number)
        return heard._replace(messages=frame.messages)

    def may_take(self, message: Message) -> bool:
        """True if a message is the next of its sender, and there is room as far as is known. Any other
        message was taken before, or will come again.
        """
        sender_id = message.sender_id
        if sender_id not in self.reached and len(self.reached) >= MOST_SENDERS:
            return False
        return sender_id not in self.held and message.number == self.reached.get(sender_id, 0) + 1

    def take(self, message: Message) -> None:
        """Count a message that this turn takes."""
        self.reached[message.sender_id] = message.number

    def recorded(self, reached: Mapping[str, int]) -> None:
        """Note that the numbers reached by senders are recorded, and may be reported to the other side."""
        self._recorded.update(reached)
        self._taken_since.update(reached)

    # --- internal ---------------------------------------------------------------------------------------

    def _begun(self, frame: Frame, heard: Heard) -> None:
        """Continue with the side whose standing has arrived."""
        if heard.former is not None:
            self._former.add(heard.former)
        if heard.met is not None:
            self.met = heard.met
        self.is_begun, self._asks = True, False
        self.reached.update(heard.corrected)
        for sender_id, number in heard.corrected.items():
            self._recorded[sender_id] = min(number, self._recorded.get(sender_id, 0))
        self.out.forget_frames()
        self.out.held_there = frozenset()
        self._other_run, self._other_frame = frame.run, 0
        self.held.clear()

    def _is_older(self, frame: Frame) -> bool:
        """True for a late frame of the same link, from before a backup was restored there."""
        of_link = self.met.link == frame.link
        return of_link and _order(frame.link, frame.incarnation) < _order(frame.link, self.met.incarnation)

    def _newly_taken(self, taken: Mapping[str, int]) -> dict[str, int]:
        """The numbers up to which messages need no longer be kept. Raises LinkFaultError."""
        new = dict[str, int]()
        for sender_id, number in taken.items():
            sent = self.out.sent.get(sender_id)
            if sent is None or number <= self.out.dropped.get(sender_id, 0):
                continue  # the agent is gone, or this was reported before
            if number > sent:
                raise LinkFaultError(
                    f"the other side has taken messages up to {number} of the agent {sender_id}, and this "
                    f"store has sent {sent}: {_BY_HAND}"
                )
            new[sender_id] = number
        return new

    def _meet(self, frame: Frame, standing: Standing) -> Heard:
        """The differences between the sides when a link begins. Raises LinkFaultError."""
        before = self.met
        is_known = frame.meets == f"{self.link}.{self.incarnation}"  # else its statements may be older
        met = Meeting(frame.link, frame.incarnation, self.incarnation if is_known else before.own)
        reached, differences = dict(self.reached), list[Difference]()
        is_another = bool(before.link) and before[:2] != met[:2]
        if is_another:
            later = _later(before, frame, standing) or [{}]
            for sender_id, number in self.reached.items():
                reached[sender_id] = min(number, *(sent.get(sender_id, 0) for sent in later))
                if reached[sender_id] < number and before.link == met.link:
                    differences.append(Difference(sender_id, reached[sender_id] + 1, number, "again"))
        for sender_id, number in standing.dropped.items():
            if (here := reached.get(sender_id, 0)) < number:
                if before == met and before.own == self.incarnation:
                    raise LinkFaultError(
                        f"messages {here + 1} to {number} of the agent {sender_id} there are not in this "
                        f"store, which has taken them by what is told there: {_BY_HAND}"
                    )
                reached[sender_id] = number
                differences.append(Difference(sender_id, here + 1, number, "lost"))
        for sender_id, number in standing.sent.items():
            if (here := reached.get(sender_id, 0)) > number:
                raise LinkFaultError(
                    f"this store has taken messages up to {here} of the agent {sender_id} there, which has "
                    f"sent {number} by what is told there: {_BY_HAND}"
                )
        corrected = {id: number for id, number in reached.items() if number != self.reached.get(id, 0)}
        former = (before.link, before.incarnation) if is_another else None
        return Heard(met if before != met else None, former, tuple(differences), corrected)


def _later(before: Meeting, frame: Frame, standing: Standing) -> list[Mapping[str, int]]:
    """The numbers sent as of each backup restored since the link last began; none for another side."""
    if before.link != frame.link:
        return []
    begun = _order(frame.link, before.incarnation)
    return [sent for of, sent in standing.restored.items() if _order(frame.link, of) > begun]


def _order(link: str, incarnation: str) -> str:
    """The sort key of a store's incarnations: the first is the id of the link; later ones increase."""
    return "" if incarnation == link else incarnation


_BY_HAND = (
    "a copy of a store was put back by hand; put it back with `narval restore`, so that both sides are told "
    "what is lost"
)
"""The advice if neither side can correct it by itself."""
