"""Ways out: what definitions of a home send to agents of other homes, or write to people, modelled as calls
that labels reach.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from narval.core.agent_name import AT
from narval.core.definitions.library import Definition
from narval.core.engines.commands import NOTICE
from narval.core.kinds import ASKING
from narval.core.trust.flow import CallFlow, Flow, Taken, ThisRun
from narval.core.trust.landscape import KnownHome
from narval.core.trust.parts import ELEMENTS, TEXT
from narval.core.trust.paths import SlotPath
from narval.core.trust.rules import ALL
from narval.core.trust.selection import path_selected

AWAY = "away"
"""The kind of calls that send something to an agent of another home, named by their target: `*` is any agent,
`*@office` any of that home.
"""

ANSWER = "answer"
"""The input (and part) name of an answer to a calling agent."""


def ways_out(definition: Definition, flow: Flow, home: KnownHome) -> Iterator[CallFlow]:
    """The calls by which runs of a definition send something to agents of other homes (messages, calls of
    what those offer, and answers to callers there), and by which they have people written to.
    """
    there = set[tuple[str, str]]()
    for call in flow.calls:
        if call.selects and home.has_peers:
            receivers = [ALL]
        else:
            receivers = [one for one in (call.target if call.sends else call.agent).split() if AT in one]
        for receiver in receivers if not call.undoes else ():
            if (call.part, receiver) not in there:
                there.add((call.part, receiver))
                inputs = {**({ELEMENTS: call.elements} if call.elements else {}), **call.inputs}
                yield replace(call, kind=AWAY, target=receiver, agent="", sends=False, inputs=inputs)
    ways = sorted(home.writes & (flow.written | home.always)) if definition.kind == ASKING else ()
    if ways:
        shows = {TEXT: (Taken(ThisRun()),)}
        yield CallFlow(" and ".join(ways), NOTICE, definition.full_name, definition.line, inputs=shows)
    for receiver in home.offers.get(definition.full_name, ()):
        if AT in receiver:
            sources = tuple(map(Taken, flow.gives))
            yield CallFlow(ANSWER, AWAY, receiver, definition.line, inputs={ANSWER: sources})


def says_receiver(call: CallFlow) -> tuple[SlotPath, ...] | None:
    """The parts of what is sent that name the receiver: none if the author names the agent; None: any may."""
    if not call.selects:
        return ()
    path = path_selected(call.selects)
    return None if path is None else tuple(SlotPath(slot, path) for slot in call.inputs)
