"""What the check says cannot come to a call comes to it in no run: recipes of any shape are run (F9)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import narval
from narval.agent.run import Run
from narval.calls.approvals import Approvals
from narval.calls.verdicts import deciding
from narval.core.definitions.action.definition import Action
from narval.core.engines.commands import Call
from narval.core.kinds import UNDOING
from narval.core.memory.labels import ANY_MODEL, MODEL
from narval.core.trust.parts import Part, parts_of
from narval.core.trust.paths import is_within
from narval.core.trust.prospects import GRAVITY, prospects
from narval.core.trust.reach import Reach, ReachedCall
from narval.core.trust.rules import Facts, Rule, Rules, decide
from narval.files.reach import reach_of
from narval.files.reading import Reading

MODULE = """
from narval import Input, Output, action

LETTER, PAGE, NOTE = Input("letter", "letter"), Input("page", "page"), Input("note", "note")

@action(outputs=[Output("letter", "letter")], label="mail", outside=False, runs="inline")
def fetch():
    return "<letter from='a' to='b' urgent='yes'><line n='1'>one</line><line n='2'>two</line></letter>"

@action(outputs=[Output("page", "page")], label="web", outside=False, runs="inline")
def get():
    return "<page from='x' to='y'><line n='3'>three</line></page>"

@action(inputs=[Input("page", "page")], outputs=[Output("note", "note[@by='model']")], model="page",
        outside=False, runs="inline")
def ask(page):
    return "<note by='model' to='m' from='n'/>"

@action(inputs=[LETTER], outputs=[Output("note", "note", own=["@id"])], keeps={"note/@to": "letter/@from"},
        pure=True, runs="inline")
def reply(letter):
    return f"<note to='{letter.attributes.get('from', '')}' id='7'>{letter.text}</note>"

@action(inputs=[Input("any", "letter | page | note")], outputs=[Output("note", "note")], outside=False,
        runs="inline")
def mix(any):
    return "<note to='mixed' from='mixed'/>"

@action(inputs=[NOTE], outputs=[Output("sent", "sent")], where=["note/@to"], runs="inline", undo="m.unsend")
def send(note):
    return f"<sent to='{note.attributes.get('to', '')}'/>"

@action(inputs=[Input("sent", "sent"), Input("note", "note", optional=True)], where=["sent/@to"],
        runs="inline")
def unsend(sent, note=None): pass

@action(inputs=[NOTE, Input("letter", "letter", optional=True)], outputs=[Output("sent", "sent")],
        runs="inline")
def post(note, letter=None):
    return "<sent/>"

@action(inputs=[Input("any", "letter | page | note")], outputs=[Output("file", "file[@path]")], runs="inline")
def save(any):
    return "<file path='x.txt'/>"

@action(outputs=[Output("note", "note")], label="file", outside=False, runs="inline")
def load():
    return "<note path='x.txt' to='there' from='there'/>"

@action(runs="inline", pure=True)
def nothing(): pass
"""

ACTIONS = ("fetch", "get", "ask", "reply", "mix", "send", "send", "post", "save", "load", "nothing")
CONDITIONS = (
    "letter",
    "page",
    "note",
    "letter[@urgent]",
    "note[@by='model']",
    "note[not(@by)]",
    "sent",
    "contact",
    "letter | page",
)
PATHS = (
    "/@from",
    "/@to",
    "",
    "/line",
    "/line[@n='1']",
    "[@urgent]/@from",
    "/line/@n",
    "/@*",
    "[line[@n='1']]/@to",
    "/..",
)


SEED = """<recipe name="seed" start_step="s0" end_step="s2">
<step id="s0" type="action" target="m.fetch"/><step id="s1" type="action" target="m.get"/>
<step id="s2" type="action" target="m.ask"/>
<transition id="t0"><in idref="s0"/><out idref="s1"/></transition>
<transition id="t1"><in idref="s1"/><out idref="s2"/></transition></recipe>"""


_LEAST = {"allow": 0, "ask": 1, "refuse": 1}
"""The mildest prospect of a call that came to an end, as its place among all."""


class Seen(NamedTuple):
    """A call that was about to be made, with its parts then; one that undoes has a step by its caller's."""

    definition: str
    undoes: bool
    call: Call
    parts: tuple[Part, ...]


@st.composite
def values(draw: st.DrawFn, names: Sequence[str]) -> str:
    if not names or draw(st.booleans()):
        return draw(st.sampled_from(("fixed", "other")))
    return f"{{${draw(st.sampled_from(names))}{draw(st.sampled_from(PATHS))}}}"


@st.composite
def arguments(draw: st.DrawFn, names: Sequence[str]) -> str:
    kind = draw(st.sampled_from(("note", "note", "letter", "page")))
    attributes = "".join(
        f' {name}="{draw(values(names))}"' for name in draw(st.sets(st.sampled_from(("to", "from", "by"))))
    )
    inner = draw(values(names)) if draw(st.booleans()) else ""
    if names and draw(st.booleans()):
        of = draw(st.sampled_from(names))
        inner += f'<line foreach="$l in ${of}/line" n="{{$l/@n}}">{{$l}}{draw(values(names))}</line>'
    return f"<arguments><{kind}{attributes}>{inner}</{kind}></arguments>"


@st.composite
def recipes(draw: st.DrawFn, name: str, callable: Sequence[str]) -> str:
    """A recipe: steps one after another, with conditions between them."""
    names: list[str] = []
    parts: list[str] = []
    count = draw(st.integers(2, 5))
    for at in range(count):
        if at:
            condition = ""
            if draw(st.integers(0, 2)) == 0:
                text = draw(st.sampled_from(CONDITIONS)).replace("'", "&apos;")
                use = ' use="yes"' if draw(st.booleans()) else ""
                condition = f'<condition as="c{at}"{use}><match>{text}</match></condition>'
                names.append(f"c{at}")
            parts.append(
                f'<transition id="t{at}"><in idref="s{at - 1}"/><out idref="s{at}"/>{condition}</transition>'
            )
        each = ""
        if callable and draw(st.integers(0, 4)) == 0:
            kind, target = "recipe", f"w.{draw(st.sampled_from(callable))}"
        else:
            kind, target = "action", f"m.{draw(st.sampled_from(ACTIONS))}"
            if target in ("m.reply",) and draw(st.booleans()):
                each = ' foreach="letter"'
        if draw(st.integers(0, 9)) == 0 and callable:
            kind, target, each = "action", "basic.nothing", ""
        given = (
            draw(arguments([*names, *(["each"] if each else [])]))
            if target != "m.ask" and draw(st.booleans())
            else ""
        )
        parts.append(f'<step id="s{at}" type="{kind}" target="{target}"{each}>{given}</step>')
        names.append(f"s{at}")
    return f'<recipe name="{name}" start_step="s0" end_step="s{count - 1}">{"".join(parts)}</recipe>'


@st.composite
def cookbooks(draw: st.DrawFn) -> str:
    first = draw(recipes("first", ()))
    second = draw(recipes("second", ("first",)))
    third = draw(recipes("third", ("first", "second")))
    return f'<cookbook group="w">{SEED}{first}{second}{third}</cookbook>'


@st.composite
def rules(draw: st.DrawFn) -> Rules:
    labels = st.sampled_from(("mail", "web", "model:*", "*"))
    return Rules(
        tuple(
            Rule(
                draw(st.sampled_from(("allow", "ask", "refuse"))),
                (draw(labels),),
                part=draw(st.sampled_from(("any", "where", "what", "whether"))),
                actions=draw(st.sampled_from(((), ("m.send",), ("m.*",)))),
                holds=draw(st.sampled_from(((), ("text",)))),
            )
            for _ in range(draw(st.integers(0, 4)))
        )
    )


@contextmanager
def watching(seen: list[Seen]) -> Iterator[None]:
    """Note the parts of each call, just before it is made."""

    def noting(self: Approvals, run: Run, call: Call) -> None:
        agent = self._agent
        action = agent.lookup.definition(run, call.kind, call.name)
        where = action.says_where if isinstance(action, Action) else None
        undoes = run.kind in UNDOING
        seen.append(Seen(run.name, undoes, call, parts_of(agent.memory, call, where, deciding(agent, run))))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Approvals, "stop", noting)
        yield


def reached(home: Path) -> Reach:
    return reach_of(Reading(home).snapshot(), ())


def of_call(calls: Sequence[ReachedCall], call: Call, *, undoes: bool) -> ReachedCall:
    """What the check says of a call; of one that undoes, at any step of that name of any recipe."""
    if not undoes:
        (told,) = (one for one in calls if one.call.part == call.step)
        return told
    *above, step = call.step.split("/")
    parts = [f"undo of {step}{f' of w.{name}' if name else ''}" for name in ("", "first", "second")]
    at = [one for one in calls if one.call.part in (parts[1:] if above else parts[:1])]
    return at[0]._replace(parts=tuple(part for one in at for part in one.parts))


def covered(label: str, possible: frozenset[str]) -> bool:
    return label in possible or (label.startswith(MODEL) and ANY_MODEL in possible)


def possible_at(call: ReachedCall, part: Part) -> frozenset[str]:
    """The labels that the check says can come to a part."""
    of_input = [one for one in call.parts if one.input == part.input]
    same = [one for one in of_input if one.path == part.path]
    around = [one for one in of_input if is_within(one.path, part.path) or is_within(part.path, one.path)]
    return frozenset[str]().union(*(one.all for one in same or around))


@settings(
    max_examples=12,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(cookbooks(), rules())
def test_F9_no_label_comes_to_a_call_that_the_check_said_cannot(cookbook: str, rules: Rules) -> None:
    seen: list[Seen] = []
    with tempfile.TemporaryDirectory() as folder, watching(seen):
        home = Path(folder)
        for path, text in {"modules/m.py": MODULE, "recipes/w.xml": cookbook}.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text)
        with narval.open(home) as agent:
            agent.add("<contact from='c' to='d'/>")
            started = []
            for name in ("first", "seed", "first", "second", "third", "third"):
                started.append(agent.start(f"w.{name}"))
                agent.until_idle()
            for run in reversed(started):
                agent.ask("undo", run=run, why="it is tried")
            agent.until_idle()
        reach = reached(home)
        definitions = {definition.full_name: definition for definition in reach.definitions}
        for definition, undoes, call, parts in seen:
            told = of_call(reach.calls_of(definitions[definition]), call, undoes=undoes)
            for part in parts:
                possible = possible_at(told, part)
                wrong = [label for label in part.labels if not covered(label, possible)]
                assert not wrong, (wrong, definition, call.step, part, told.parts)
            verdict = decide(rules, Facts(call.name, definition, parts, lambda rule, part: part.path < "@u"))
            for prospect in prospects([told], rules):
                assert GRAVITY.index(prospect.prospect) >= _LEAST[verdict.then]
