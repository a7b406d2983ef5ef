"""The operations `origin` and `uses`. `origin` traces an element back to what came from outside; `uses` lists
what was made from it, and who used, consulted or was sent it. Both follow elements across agents.

The way back follows origins, the way forward the index of what was made from each element
(`narval.core.memory.packed`). Once that index exists, the cost depends on the size of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from narval.agent.agent import AgentState
from narval.ask import json_forms
from narval.ask.json_forms import CURRENT
from narval.ask.lookup import command, nothing_at
from narval.ask.memory.element import Makers, descent_of, reached
from narval.ask.registry import Form, operation
from narval.ask.runs.drawing import dot
from narval.ask.titles import title_in
from narval.core.elements.element import Element, Origin
from narval.core.elements.names import is_sending
from narval.core.engines.graph import Graph, GraphEdge, GraphNode, Tone, clipped
from narval.core.errors import NarvalError, NotFoundError
from narval.core.memory.packed import Descent
from narval.daemon.daemon import Daemon
from narval.system.long_work import TimeSlice

MOST = 1000
"""The most elements in one answer."""
MOST_AGENTS = 16
"""The most agents that are read besides the element's own."""
MOST_RUNS = 20
"""The most runs named that consulted an element."""
MOST_IN_A_LINE = 60
"""The most characters in a line of a drawing."""

Place = tuple[str, int]
"""An element of an agent: the name of the agent, "" for the asked one, and the eid."""


@operation("read")
async def origin(
    daemon: Daemon, eid: int, limit: int = MOST, drawn: bool = False, titled: bool = False
) -> Form:
    """The origin of an element: by which step of which run it was made, and from which elements, back to what
    came from outside.

    `elements` begins with itself, nearest first; each has the ids that it was made `from`, and `outside` if
    it came from outside. What another agent sent is traced there. A forgotten element has only its number.
    `more` says if there are more than `limit`. With `drawn`, `dot` is the same in the language of Graphviz;
    with `titled`, each has its `title`.
    """
    return await _trail(daemon, eid, limit, drawn, titled, forward=False)


@operation("read")
async def uses(
    daemon: Daemon, eid: int, limit: int = MOST, drawn: bool = False, titled: bool = False
) -> Form:
    """The elements made from one, directly or not, and by what; who used, consulted or was sent it.

    `elements` begins with itself, oldest first; each has the ids that it was made `from`. What was sent to
    other agents is followed there. `more` says if there are more than `limit`. With `drawn`, `dot` is the
    same in the language of Graphviz; with `titled`, each has its `title`.
    """
    return await _trail(daemon, eid, limit, drawn, titled, forward=True)


async def _trail(daemon: Daemon, eid: int, limit: int, drawn: bool, titled: bool, *, forward: bool) -> Form:
    memory = daemon.agent.memory
    element = memory.element(eid)
    if element is None or memory.is_run(eid):
        raise NotFoundError(_absent(daemon, eid))
    async with AsyncExitStack() as stack:
        agents = _Agents(daemon, stack, forward=forward)
        neighbours = agents.made_of if forward else agents.made_from
        depths, more = await reached(("", eid), neighbours, most=max(limit, 1) - 1, ready=agents.ready)
        elements = agents.forms(depths)
        time_slice = TimeSlice()
        for place, row in zip(depths, elements, strict=True) if titled else ():
            await time_slice.yield_if_due()
            row["title"] = agents.title(place)
    answer = {"element": eid, "name": element.name, "elements": elements, "more": more}
    return {**answer, "dot": dot(_graph(eid, elements, forward=forward))} if drawn else answer


def _absent(daemon: Daemon, eid: int) -> str:
    memory = daemon.agent.memory
    if memory.is_run(eid):
        return f"{eid} is a run, not an element; `{command(daemon, f'why {eid}')}` tells what it waits for"
    return nothing_at(daemon, eid)


class _Agents:
    """The agents that the trace reaches; each is opened on first use, and stays open until the end."""

    def __init__(self, daemon: Daemon, stack: AsyncExitStack, *, forward: bool) -> None:
        self._daemon, self._stack, self._own, self._forward = daemon, stack, daemon.name, forward
        self._opened: dict[str, tuple[AgentState, Makers] | str] = {"": (daemon.agent, Makers(daemon.agent))}
        """The agents that were opened, or the reason why one cannot be read."""
        self._elements: dict[Place, Element | None] = {}
        self._descents: dict[str, Descent] = {}
        """The indexes of what was made, by agent, as far as they were needed."""
        self._sendings: dict[str, list[tuple[str, Mapping[int, int]]]] = {}
        """The receivers of what each agent has sent, with the eids."""

    async def ready(self, place: Place) -> None:
        """Open what is needed to continue from an element."""
        if place[0] not in self._opened:
            await self._open(place[0])
        if self._forward and (place[0] not in self._descents or self._sent_by(place[0])):
            await self._open_receivers(place)

    async def _open(self, name: str) -> None:
        """Open an agent, or note the reason why it cannot be read."""
        if name in self._opened:
            return
        if len(self._opened) > MOST_AGENTS:
            self._opened[name] = f"not looked at: it is one of more than {MOST_AGENTS} agents"
            return
        try:
            seen = await self._stack.enter_async_context(self._daemon.of(name, reads=True))
        except NarvalError as error:
            self._opened[name] = f"cannot be looked at: {error}"
        else:
            self._opened[name] = seen.agent, Makers(seen.agent)

    async def _open_receivers(self, place: Place) -> None:
        """Open the indexes of what was made, of an agent and of those that it sent an element to."""
        for name in (place[0], *self._receivers(place)):
            await self._open(name)
            state = self._state(name)
            if name not in self._descents and state is not None:
                self._descents[name] = await descent_of(state.memory, TimeSlice())

    def made_from(self, place: Place) -> list[Place]:
        """The elements that one was made from, here or where it was sent from."""
        agent = place[0]
        element = self._element(place)
        origin = element.origin if element is not None else None
        if origin is None:
            return []
        here = [(agent, before) for before in dict.fromkeys(origin.inputs)]
        if not origin.agent:
            return here
        sender = self._known_as(origin.agent)
        return here + [(sender, before) for before in dict.fromkeys((*origin.sent_as, *origin.made_there))]

    def made_of(self, place: Place) -> list[Place]:
        """The elements that were made from one, here and at the agents it was sent to."""
        agent, eid = place
        descent = self._descents.get(agent)
        if descent is None:
            return []
        made = [(agent, after) for after in descent.of(eid)]
        for name in self._receivers(place) if self._sendings.get(agent) else ():
            if name in self._descents:
                received = self._descents[name].received(agent or self._own, eid)
                made += [(name, after) for after in received]
        return made

    def _receivers(self, place: Place) -> list[str]:
        """The agents that an element was sent to, or that were sent what was made from it."""
        return [receiver for receiver, runs in self._sent_by(place[0]) if place[1] in runs]

    def _sent_by(self, agent: str) -> list[tuple[str, Mapping[int, int]]]:
        """The receivers of what an agent has sent, with the eids."""
        if agent not in self._sendings:
            state = self._state(agent)
            marks = state.memory.marks.items() if state is not None else ()
            sendings = ((self._known_as(scope[2]), runs) for scope, runs in marks if is_sending(scope))
            self._sendings[agent] = list(sendings)
        return self._sendings[agent]

    def forms(self, depths: Mapping[Place, int]) -> list[Form]:
        """The reached elements, in the form of answers (a thousand within 10 ms)."""
        used_by, sent_to = self._users(depths) if self._forward else ({}, {})
        ids = {place: f"{place[0]}:{place[1]}" if place[0] else str(place[1]) for place in depths}
        moments, rows = json_forms.Moments(), list[Form]()
        for place, depth in depths.items():
            agent, eid = place
            before = [ids[one] for one in self.made_from(place) if one in ids]
            opened, element = self._opened[agent], self._element(place)
            if isinstance(opened, str) or element is None:
                stands = opened if isinstance(opened, str) else "forgotten"
                rows.append({"id": ids[place], **self._row_of_absent(place, depth, stands), "from": before})
                continue
            state, makers = opened
            origin, (run_of, run_state, target) = element.origin, makers.maker_of(element)
            is_made = origin is not None and bool(origin.inputs) and eid not in state.memory.declared
            row = {  # built at once: a growing dict is resized again and again
                "id": ids[place],
                "eid": eid,
                "agent": agent or self._own,
                "depth": depth,
                "from": before,
                "name": element.name,
                "added": moments.form(element.added),
                "origin": json_forms.origin(origin),
                "stands": json_forms.stands(state.memory, eid),
                "run_of": run_of,
                "state": run_state,
                "target": target,
                "outside": None if is_made else _outside(state, element),
            }
            if self._forward:
                row["used_by"], row["sent_to"] = used_by.get(place, []), sent_to.get(place, [])
                row["consulted_by"], row["given_to"] = _holders(state, eid, origin.run if origin else 0)
            rows.append(row)
        return rows

    def _row_of_absent(self, place: Place, depth: int, stands: str) -> Form:
        """The row of an element that is missing, or whose agent cannot be read, as `stands` says."""
        nothing = dict.fromkeys(("name", "added", "origin", "outside"))
        row = {"eid": place[1], "agent": place[0] or self._own, "depth": depth, **nothing, "stands": stands}
        uses: Form = {"used_by": [], "sent_to": [], "consulted_by": [], "given_to": []}
        return row | uses if self._forward else row

    def _users(self, places: Iterable[Place]) -> tuple[dict[Place, list[Form]], dict[Place, list[Form]]]:
        """The inputs that used these elements, and the agents that they were sent to."""
        by_agent: dict[str, set[int]] = {}
        for agent, eid in places:
            by_agent.setdefault(agent, set()).add(eid)
        used_by: dict[Place, list[Form]] = {}
        sent_to: dict[Place, list[Form]] = {}
        for agent, eids in by_agent.items():
            state = self._state(agent)
            for scope, runs in state.memory.marks.items() if state is not None else ():
                into, form = (sent_to, json_forms.sending) if is_sending(scope) else (used_by, json_forms.use)
                for eid in () if runs.keys().isdisjoint(eids) else runs.keys() & eids:
                    into.setdefault((agent, eid), []).append(form(scope, runs[eid]))
        return used_by, sent_to

    def _known_as(self, name: str) -> str:
        return "" if name == self._own else name

    def _state(self, agent: str) -> AgentState | None:
        opened = self._opened[agent]
        return None if isinstance(opened, str) else opened[0]

    def title(self, place: Place) -> str:
        """The title of an element for people; "" for a missing one."""
        element = self._element(place)
        return title_in(element) if element is not None else ""

    def _element(self, place: Place) -> Element | None:
        if place not in self._elements:
            state = self._state(place[0])
            self._elements[place] = state.memory.element(place[1]) if state is not None else None
        return self._elements[place]


def _holders(state: AgentState, eid: int, maker: int) -> tuple[list[Form], list[Form]]:
    """The runs that consulted an element, besides the one that made it, and the calls that were given it."""
    runs = state.runs
    consulted_by: list[Form] = []
    given_to: list[Form] = []
    for holder in sorted(state.memory.contexts.holders(eid)):
        if holder == maker:
            continue
        if len(consulted_by) < MOST_RUNS:
            consulted_by.append({"run": holder, **json_forms.run_of(state, holder)})
        if holder in runs.active:
            given_to += (
                {"call": call.call, "step": call.step, "target": call.name}
                for call in runs[holder].calls.values()
                if eid in json_forms.given_to(call)
            )
    return consulted_by, given_to


def _outside(state: AgentState, element: Element) -> str | None:
    """The way an element came from outside, in words; None if it was made in the home."""
    memory, origin = state.memory, element.origin
    if element.eid in memory.declared:
        return "declared by " + memory.declared[element.eid].partition(":")[0]
    if origin is None:
        return "from outside; it is not known by whom"
    if origin.inputs:
        return None
    if origin.agent:
        return None if origin.sent_as or origin.made_there else f"agent {origin.agent}"
    if not origin.run:
        return _came(json_forms.origin(origin) or {}, origin)
    said, _ = memory.labels.told(memory.labels.of((element.eid,)))
    run = state.runs.get(origin.run)
    if said:
        return ", ".join(said)
    return f"begun by {run.by}" if run is not None and run.by else None


def _came(form: Mapping[str, Any], origin: Origin) -> str:
    """The way an element that no run made came in: by a webhook, a file, a client, a person."""
    hook = f"webhook {form['hook']}" if "hook" in form else ""
    file = f"file {form['file']}" if "file" in form else ""
    way = {"web": "the monitor", "": ""}.get(origin.way, origin.way)
    by = f"by {origin.by}" if origin.by else ""
    return ", ".join(filter(None, (hook, file, way, by))) or "from outside"


# --- drawing --------------------------------------------------------------------------------------------


def _graph(eid: int, elements: list[Form], *, forward: bool) -> Graph:
    ids = {row["id"] for row in elements}
    nodes = [_node(row) for row in elements]
    edges = [
        GraphEdge(before, row["id"], tooltip=_made(row))
        for row in elements
        for before in row["from"]
        if before in ids
    ]
    return Graph(f"{'uses' if forward else 'origin'} of {eid}", (*nodes, *edges))


def _node(row: Form) -> GraphNode:
    name = row["name"] or "(unknown)"
    lines = (f"{row['id']} {name}", row["outside"] or _made(row))
    label = tuple(clipped(line, MOST_IN_A_LINE) for line in lines if line)
    stands = row["stands"] if row["stands"] != CURRENT else ""
    tone: Tone = "active" if not row["depth"] else "done" if row["outside"] else "idle"
    if row["name"] is None or stands:
        tone = "cancelled" if row["depth"] else "active"
    return GraphNode(row["id"], label, stands, tone=tone)


def _made(row: Form) -> str:
    origin = row["origin"] or {}
    if not origin.get("run"):
        return ""
    of = f" of {row['run_of']}" if row.get("run_of") else ""
    return f"{origin['step'] or 'run'}{of}, run {origin['run']}"
