"""Two to five stores, each linked with each: exchanges are lost, repeated, late, cut at any byte; daemons are
killed, and backups put back (G39 to G42).

The state of each link is the real one, and so are the frames; a store is a dictionary, whose commits are
whole or not there. The order of all that happens comes from a seed.
"""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

from narval.core.errors import RequestError
from narval.daemon.links.frame import Frame, Message, Standing, decode, encode
from narval.daemon.links.protocol import Difference, Heard, LinkState, Meeting

KEPT = 40
"""So many frames are kept, to come late or twice."""


class Row(NamedTuple):
    """A message on its way: what it says is told from all others ever sent."""

    number: int
    text: int


class End:
    """What a store keeps of one link."""

    def __init__(self, id: str) -> None:
        self.link, self.incarnation = id, id
        self.sent: dict[str, int] = {}
        self.dropped: dict[str, int] = {}
        self.rows: dict[str, list[Row]] = {}
        self.restored: dict[str, dict[str, int]] = {}
        self.met, self.former, self.reached = Meeting(), set[tuple[str, str]](), dict[str, int]()
        self.taken: list[tuple[str, int]] = []
        """All that was taken: the sender, and what the message says."""
        self.differences: list[Difference] = []


class Place:
    """A store with its links, and the daemon that works on it; `room` is how many a link takes at once."""

    def __init__(self, name: str, chance: Random) -> None:
        self.name, self._chance = name, chance
        self.ends: dict[str, End] = {}
        self.states: dict[str, LinkState] = {}
        self.is_calm = False
        """True if there is room for all, and nobody is killed."""
        self._put_back = 0
        self.sealed: set[int] = set()
        """What was sent by the present store, and by none that was put back over it."""

    def id(self) -> str:
        return f"{self._chance.getrandbits(128):032x}"

    def start(self) -> None:
        """A daemon starts on what the store has."""
        for peer, end in self.ends.items():
            own = Standing({**end.sent}, {**end.dropped}, {**end.restored}, dict.fromkeys(end.sent, "shop"))
            state = LinkState(end.link, end.incarnation, self.id(), end.met, end.former, end.reached, own)
            for sender, rows in end.rows.items():
                for row in rows:
                    state.out.put(_message(sender, row))
            self.states[peer] = state

    def send(self, peer: str, sender: str, text: int) -> None:
        """An agent sends something, in a commit of its own."""
        end = self.ends[peer]
        end.sent[sender] = end.sent.get(sender, 0) + 1
        row = Row(end.sent[sender], text)
        end.rows.setdefault(sender, []).append(row)
        self.sealed.add(text)
        self.states[peer].out.put(_message(sender, row))

    def hear(self, peer: str, frame: Frame) -> str:
        """Take a frame in one commit; killed before it or after, in which case the daemon starts anew."""
        end, state = self.ends[peer], self.states[peer]
        heard = state.hear(frame)
        taken = list[tuple[str, int, int]]()
        for message in heard.messages:
            if not state.may_take(message):
                continue
            if not self.is_calm and self._chance.random() < 0.05:
                state.held.add(message.sender_id)
                continue
            state.take(message)
            taken.append((message.sender_id, message.number, int(message.data)))
        killed = "" if self.is_calm else self._chance.choice(("before", "after", *[""] * 18))
        if killed != "before":
            reached = self._record(end, heard, taken)
            if not killed:
                state.recorded(reached)
        if killed:
            self.start()
        return killed

    def _record(self, end: End, heard: Heard, taken: list[tuple[str, int, int]]) -> dict[str, int]:
        end.met = heard.met or end.met
        end.former |= {heard.former} if heard.former is not None else set()
        end.differences += heard.differences
        for sender, number in heard.dropped.items():
            end.dropped[sender] = number
            end.rows[sender] = [row for row in end.rows[sender] if row.number > number]
        reached = dict(heard.corrected)
        for sender, number, text in taken:
            reached[sender] = number
            end.taken.append((sender, text))
        end.reached |= reached
        return reached

    def copy(self) -> Any:
        """A backup."""
        return deepcopy((self.ends, self.sealed))

    def put_back(self, backup: Any) -> None:
        """A backup is put back, as `narval restore` does."""
        self.ends, self.sealed = deepcopy(backup)
        for end in self.ends.values():
            self._put_back += 1
            end.incarnation = f"{self._put_back:032x}"
            end.restored[end.incarnation] = {**end.sent}
        self.start()


def _message(sender: str, row: Row) -> Message:
    return Message(
        "shop", sender, row.number, f"{sender}.{row.text}", "element", 0.0, None, "ada", b"", b"%d" % row.text
    )


class Linked:
    """A story of a seed; with `restores` backups are put back in it."""

    def __init__(self, seed: int, *, restores: bool) -> None:
        self.chance, self.restores = Random(seed), restores
        names = [f"s{number}" for number in range(self.chance.randint(2, 5))]
        self.places = {name: Place(name, self.chance) for name in names}
        self.senders = {name: [f"{self.chance.getrandbits(128):032x}" for _ in range(2)] for name in names}
        for place in self.places.values():
            place.ends = {name: End(place.id()) for name in names if name != place.name}
            place.start()
        self.late: list[tuple[str, str, bytes]] = []
        self.texts = 0
        self.sent: dict[tuple[str, str], list[int]] = {}
        """By sender and receiver, what was sent, in order."""
        self.backups: dict[str, Any] = {}
        self.put_back: set[str] = set()

    def happen(self, many: int) -> None:
        """So much happens; then all comes to rest."""
        for _ in range(many):
            self.chance.choices(
                (self._send, self._exchange, self._come_late, self._restart, self._back_up, self._restore),
                (6, 8, 4, 1, 1, 1 if self.restores else 0),
            )[0]()
        for place in self.places.values():
            place.is_calm = True
        for _ in range(2):  # the second time all know of what was put back
            for place in self.places.values():
                for peer in place.ends:
                    self._rest(place, peer)

    def _pair(self) -> tuple[Place, Place]:
        first, second = self.chance.sample(sorted(self.places), 2)
        return self.places[first], self.places[second]

    def _send(self) -> None:
        place, other = self._pair()
        sender = self.chance.choice(self.senders[place.name])
        for _ in range(self.chance.choice((1, 2, 700 if self.chance.random() < 0.003 else 3))):
            self.texts += 1
            self.sent.setdefault((sender, other.name), []).append(self.texts)
            place.send(other.name, sender, self.texts)

    def _exchange(self) -> None:
        """One side asks the other, a few times; each frame may be lost, kept, repeated or cut."""
        place, other = self._pair()
        place.states[other.name].begin()
        answers = 0
        for _ in range(self.chance.randint(1, 4)):
            frame = encode(place.states[other.name].frame(answers))
            back = self._goes(place, other, frame)
            answer = self._goes(other, place, encode(other.states[place.name].frame(back))) if back else 0
            if not answer:
                return
            answers = answer

    def _goes(self, place: Place, other: Place, data: bytes) -> int:
        """A frame goes to the other side; its number, or 0 where it is lost."""
        self.late = [*self.late[-KEPT:], (place.name, other.name, data)]
        fate = self.chance.random()
        if fate < 0.12:
            return 0
        if fate < 0.18:
            data = data[: self.chance.randrange(len(data))]
        for _ in range(2 if fate > 0.9 else 1):
            if not (number := self._comes(place.name, other, data)):
                return 0
        return number

    def _comes(self, peer: str, other: Place, data: bytes) -> int:
        try:
            frame = decode(data)
            return 0 if other.hear(peer, frame) else frame.number
        except RequestError:
            return 0

    def _come_late(self) -> None:
        if self.late:
            peer, name, data = self.chance.choice(self.late)
            self._comes(peer, self.places[name], data)

    def _restart(self) -> None:
        self._pair()[0].start()

    def _back_up(self) -> None:
        place = self._pair()[0]
        self.backups[place.name] = place.copy()

    def _restore(self) -> None:
        if self.backups:
            name = self.chance.choice(sorted(self.backups))
            self.places[name].put_back(self.backups[name])
            self.put_back.add(name)

    def _rest(self, place: Place, peer: str) -> None:
        """Exchange without trouble, until nothing is left to say."""
        other = self.places[peer]
        here, there = place.states[peer], other.states[place.name]
        here.begin()
        here.held.clear()
        there.held.clear()
        answers = 0
        for _ in range(8):
            frame = here.frame(answers)
            other.hear(place.name, frame)
            back = there.frame(frame.number)
            place.hear(peer, back)
            answers = back.number

    # --- what must hold ---------------------------------------------------------------------------------

    def check(self) -> None:
        """Nothing waits any more; each message of a store that was never put back is taken once, in order."""
        for name, place in self.places.items():
            for peer, end in place.ends.items():
                left = {sender: rows for sender, rows in end.rows.items() if rows}
                assert not left, f"{name} keeps for {peer}: {sorted(left)}"
                other = self.places[peer].ends[name]
                for sender in self.senders[name]:
                    taken = [text for of, text in other.taken if of == sender]
                    self._check(name, peer, sender, taken, other.differences)

    def _check(
        self, name: str, peer: str, sender: str, taken: list[int], differences: list[Difference]
    ) -> None:
        sent = self.sent.get((sender, peer), [])
        if not self.put_back & {name, peer}:
            assert taken == sent, f"{name} to {peer}"
            return
        lasting = [text for text in sent if text in self.places[name].sealed]
        lost = [text for text in lasting if text not in taken]
        told = [each for each in differences if each.sender_id == sender]
        numbers = sum(each.last - each.first + 1 for each in told if each.what == "lost")
        assert len(lost) <= numbers, f"{name} to {peer}: {len(lost)} lost, {numbers} were told"
        twice = len(taken) - len({*taken})
        again = sum(each.last - each.first + 1 for each in told if each.what == "again")
        forgotten = [text for text in taken if text not in self.places[name].sealed]
        assert twice == 0, f"{name} to {peer}: {twice} came twice"
        assert len(forgotten) <= again, f"{name} to {peer}: {len(forgotten)} forgotten, {again} were told"


def run(seed: int, *, restores: bool = False) -> Linked:
    """The story of a seed, at its end."""
    story = Linked(seed, restores=restores)
    story.happen(80)
    story.check()
    return story
