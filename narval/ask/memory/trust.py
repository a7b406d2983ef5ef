"""Operations on trust: the labels of an element, the rules, the owner's endorsement, and how far labels
reach.

`reach` says which labels can reach calls outside, and how the rules judge that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from msgspec import structs

from narval.agent.agent import AgentState
from narval.agent.declared import replace_element
from narval.agent.turn import Turn
from narval.ask import json_forms
from narval.ask.asker import PROGRAM, Asker
from narval.ask.lookup import command, find_definition
from narval.ask.memory.changing import replaceable
from narval.ask.registry import Form, operation
from narval.ask.text import Row
from narval.core.definitions.library import Definition
from narval.core.definitions.suggestions import closest
from narval.core.elements import changes
from narval.core.elements.element import Origin
from narval.core.elements.names import CONTROLS, is_sending
from narval.core.errors import NotFoundError, RequestError, SettingsError
from narval.core.memory.labels import ENDORSED, endorsement
from narval.core.trust.prospects import (
    CallProspect,
    Judged,
    LabelProspect,
    PartProspect,
    name_of,
    of_label,
    prospects,
)
from narval.core.trust.reach import Reach
from narval.core.trust.rules import Rule, Rules, RuleUse
from narval.core.trust.telling import condition_of, lines_of_call, outlook, summary_of_call, way_in_words, who
from narval.daemon.daemon import Daemon
from narval.files.reach import reach_of
from narval.files.trust_file import TRUST_FILE


@operation("read")
async def trust(daemon: Daemon, eid: int) -> dict[str, Any]:
    """The labels of an element or a run: the ways by which its content, or what decided in it, came in.

    `by` has the elements and the run that an element was made from, each with its current labels.
    """
    agent = daemon.agent
    element = agent.memory.element(eid)
    if element is None:
        raise NotFoundError(f"there is no element or run {eid}; `{command(daemon, 'memory')}` lists elements")
    labels, origin = agent.memory.labels, element.origin
    made_from = (*origin.inputs, origin.run) if origin is not None else ()
    return {
        **_labelled(agent, eid),
        "hearsay": labels.is_hearsay(labels.of((eid,))),
        "endorsed": endorsement(origin),
        "by": [_labelled(agent, before) for before in dict.fromkeys(made_from) if before],
    }


@operation("read")
async def rules(daemon: Daemon, name: str = "") -> dict[str, Any]:
    """The rules of the home about what may go where, in order; with the name of an action or a definition,
    those that may apply to its calls.

    `calls` counts the calls that each rule has judged since the agent became active, `since` is that moment
    (null where no daemon runs), and `last` the moment of the last call; none is stored. `file` is null in a
    home without rules. `faults` are those of the current file: while it has any, the last good rules apply.
    """
    agent = daemon.agent
    home_rules = agent.lookup.rules
    if name and agent.library.find(name) is None:
        names = [definition.full_name for definition in agent.library]
        raise NotFoundError(f"there is no action or definition {name!r}{closest(name, names)}")
    faults = [fault for fault in daemon.files.faults if fault.path == TRUST_FILE]
    since = None if daemon.record_only else json_forms.moment(agent.clockwork.since)
    if home_rules is None:
        if faults:
            raise SettingsError("\n".join(map(str, faults)))
        return {"file": None, "rules": [], "secret": [], "known": [], "faults": [], "since": since}
    about = [rule for rule in home_rules.rules if _is_about(rule, name, agent)]
    return {
        "file": TRUST_FILE,
        "rules": [_rule(rule, agent.lookup.rule_uses.of(rule)) for rule in about],
        "secret": [{"name": name, "match": pattern.text} for name, pattern in home_rules.secrets],
        "known": [{"name": name, "values": pattern.text} for name, pattern in home_rules.known.items()],
        "faults": list(map(json_forms.fault, faults)),
        "since": since,
    }


def _is_about(rule: Rule, name: str, agent: AgentState) -> bool:
    if not name:
        return True
    is_called = agent.library.get("action", name) is not None
    return rule.is_about_action(name) if is_called else rule.is_about_recipe(name)


def _rule(rule: Rule, use: RuleUse) -> dict[str, Any]:
    return {
        "line": rule.line,
        "from": list(rule.origins),
        "secret": list(rule.secrets),
        "part": rule.part,
        "action": list(rule.actions),
        "recipe": list(rule.recipes),
        "to": rule.to.text if rule.to is not None else None,
        "holds": list(rule.holds),
        "then": rule.then,
        "why": rule.why,
        "calls": use.calls,
        "last": json_forms.moment(use.last or None),
    }


def _labelled(agent: AgentState, eid: int) -> dict[str, Any]:
    element, labels = agent.memory.element(eid), agent.memory.labels
    run = agent.runs.get(eid)
    name = run.name if run is not None else element.name if element is not None else None
    said, deciding = labels.told(labels.of((eid,)))
    parts = json_forms.labels_of_parts(agent, eid)
    return {"eid": eid, "name": name, "labels": said, "parts": parts, "decided_by": deciding}


@operation("write")
async def endorse(daemon: Daemon, eid: int, why: str, *, asker: Asker = PROGRAM) -> dict[str, Any]:
    """Replace an element by the same one without labels: the asker vouches for its content, and `why` is
    recorded with it. What used the old one does not use the new one again.

    It is for the home's owner and root, in their own name; no definition can do it.
    """
    if not (reason := " ".join(why.split())):
        raise RequestError("expected a reason why the element needs no labels, got an empty text")

    def work(turn: Turn) -> dict[str, Any]:
        labels, old = turn.agent.memory.labels, replaceable(daemon, eid)
        if old.name in CONTROLS:
            raise RequestError(f"element {eid} is a {old.name}, which would be executed again; add it again")
        had, deciding = labels.told(labels.of((eid,)))
        if not had and not deciding:
            raise RequestError(f"element {eid} has no labels, so there is nothing to endorse")
        made = structs.replace(asker.origin() or Origin(), step=f"{ENDORSED}{reason}", inputs=(eid,))
        marks = turn.agent.memory.marks.items()
        used = [(scope, runs[eid]) for scope, runs in marks if eid in runs and not is_sending(scope)]
        new = turn.agent.memory.element(replace_element(turn, eid, old.xml, made))
        assert new is not None
        for scope, run in used:
            turn.transaction.change(changes.Used(scope, (new.eid,), run))
        return {**json_forms.element(turn.agent, new), "in_place_of": eid, "had": had}

    return dict(await daemon.host.submit(work))


# --- how far labels reach -----------------------------------------------------------------------------------


@operation("read")
async def reach(
    daemon: Daemon, name: str | None = None, kind: str | None = None, label: str | None = None
) -> list[Row]:
    """The calls outside that definitions can make, each with the labels that can reach its parts, and the
    judgement of the home's rules; nothing is run.

    With a `name`, the calls of that definition and of those that it calls; else of all, without the `way` of
    each label. With a `label`, only what it can reach. Raises RequestError.
    """
    snapshot = daemon.files.snapshot
    one = None if name is None else find_definition(daemon, name, kind)
    clients = tuple(client for _, client, _ in daemon.clients.all() if client is not None)

    def rows() -> list[Row]:
        whole = reach_of(snapshot, clients)
        if one is not None:
            return reached(whole, whole.with_called([one]), snapshot.trust, label, ways=True)
        return reached(whole, whole.definitions, snapshot.trust, label)

    return await asyncio.to_thread(rows)  # takes some milliseconds for each definition


def reached(
    reach: Reach,
    definitions: Iterable[Definition],
    rules: Rules | None,
    label: str | None = None,
    *,
    ways: bool = False,
) -> list[Row]:
    """The calls of some definitions, in the form of answers."""
    calls = (call for definition in definitions for call in reach.calls_of(definition))
    return [
        _call(reach, of, ways=ways)
        for call in prospects(calls, rules)
        if (of := call if label is None else of_label(call, label)) is not None
    ]


def _call(reach: Reach, call: CallProspect, *, ways: bool) -> Form:
    definition = call.call.definition
    return {
        "definition": definition.full_name,
        "kind": definition.kind,
        "file": definition.path,
        "line": call.call.call.line,
        "part": call.call.call.part,
        "calls": name_of(call.call),
        "prospect": call.prospect,
        "depends": call.depends or None,
        "outlook": outlook(call),
        "parts": [_part(reach, part, ways=ways) for part in call.parts],
        "summary": summary_of_call(call),
        "lines": [line._asdict() for line in lines_of_call(call)],
    }


def _part(reach: Reach, part: PartProspect, *, ways: bool) -> Form:
    return {
        "input": part.part.input or None,
        "path": part.part.path,
        "is": part.word,
        "labels": [
            {**form, "way": list(way_in_words(reach.way(part.part, one.label)))} if ways else form
            for one, form in zip(part.labels, _labels(part.judged), strict=True)
        ],
    }


@lru_cache(maxsize=256)
def _labels(judged: Judged) -> list[Form]:
    """The labels that reach a part, without their ways; parts that are alike have the same forms."""
    return list(map(_label, judged.labels))


def _label(one: LabelProspect) -> Form:
    return {
        "label": one.label,
        "who": who(one.label),
        "prospect": one.prospect,
        "depends": one.depends or None,
        "ends": [
            {
                "then": end.then,
                "rule": end.rule.line if end.rule is not None else None,
                "if": condition_of(end) or None,
                "why": end.rule.why if end.rule is not None and end.rule.why else None,
            }
            for end in one.ends
        ],
    }
