"""The codec: what the journal, the queue and the snapshots hold comes back, or is refused in clear words."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from narval.core.definitions.action.needs import Needs
from narval.core.elements.element import Element, Origin
from narval.core.engines import commands as asked
from narval.core.engines.commands import (
    Add,
    Call,
    CancelCall,
    CancelTimer,
    Command,
    Program,
    Release,
    Reserve,
    SetTimer,
    Unwatch,
    Watch,
)
from narval.core.engines.effects import EFFECTS, InForce
from narval.core.engines.events import (
    Caller,
    CarriedOver,
    Event,
    Failure,
    HeldCalls,
    Matched,
    OutputElement,
    PersonsAct,
    Plain,
    Produced,
    Resume,
    Returned,
    Reusable,
    Signalled,
    Started,
    TimerFired,
)
from narval.core.errors import StoreError
from narval.core.patterns.pattern import Bound, condition
from narval.store import codec
from narval.store.codec import JournalEntry


class Moved(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """A change, as an engine would have it."""

    step: str
    at: float = 0.0
    eids: tuple[int, ...] = ()


class Asked(msgspec.Struct, frozen=True, tag=True):
    """Another."""

    run: int
    answer: bytes


class State(msgspec.Struct):
    """A state, as an engine would have it."""

    steps: dict[str, str] = {}
    calls: dict[str, None] = {}


Change = Moved | Asked
MAIL = Element(7, b"<email message-id='a'/>", 5.0, Origin(3, "s1", "2.1", (1,)))


def lookup(eid: int) -> Element | None:
    return MAIL if eid == MAIL.eid else None


def bound(text: str, **variables: tuple[Element, ...]) -> Bound:
    return condition(text).bind(variables)


def decode(data: bytes) -> JournalEntry:
    return codec.decode_entry(data, Change, lookup)


# --- any event, any change, any command -----------------------------------------------------------------

numbers = st.integers(0, 2**62)
words = st.text(max_size=8)
moments = st.floats(allow_nan=False)
eids = st.lists(numbers, max_size=3).map(tuple)
raws = st.lists(st.builds(OutputElement, st.binary(max_size=20), st.none() | words), max_size=3).map(tuple)
problems = st.none() | st.builds(Failure, words, words, words)
agains = st.builds(Reusable, words, words, eids)
kept = st.builds(CarriedOver, words, words, eids, eids)
resumes = st.none() | st.builds(
    Resume,
    numbers,
    words,
    eids,
    eids,
    st.lists(kept, max_size=2).map(tuple),
    st.lists(agains, max_size=2).map(tuple),
)
nearby = st.lists(eids, max_size=2).map(tuple)
given_to = st.lists(st.tuples(words, st.lists(st.tuples(words, eids), max_size=2).map(tuple)), max_size=2)
held = st.none() | st.builds(HeldCalls, words, words, words, words, words, given_to.map(tuple))
callers = st.none() | st.builds(Caller, numbers, words, words, nearby, held=held)
scopes = st.none() | st.tuples(words, words, words)
scalars = st.none() | words | st.integers(-(2**60), 2**60) | moments
plain = scalars | st.lists(scalars, max_size=2) | st.dictionaries(words, scalars, max_size=2)
values = st.none() | st.dictionaries(words, plain, max_size=2)
bounds = st.sampled_from(
    [bound("email"), bound("email[@to='x']"), bound("email[@in-reply-to = $ask/@message-id]", ask=(MAIL,))]
)
elements = st.builds(Element, numbers, st.just(b"<a/>"), moments)

_FIELDS: dict[Any, st.SearchStrategy[Any]] = {
    int: numbers,
    str: words,
    float: moments,
    bool: st.booleans(),
    bytes: st.binary(max_size=20),
    float | None: st.none() | moments,
    int | None: st.none() | numbers,
    str | None: st.none() | words,
    tuple[int, ...]: eids,
    tuple[str, ...]: st.lists(words, max_size=2).map(tuple),
    tuple[tuple[int, ...], ...]: st.lists(eids, max_size=2).map(tuple),
    tuple[tuple[str, str], ...]: st.lists(st.tuples(words, words), max_size=2).map(tuple),
    tuple[tuple[str, tuple[int, ...]], ...]: st.lists(st.tuples(words, eids), max_size=2).map(tuple),
    tuple[OutputElement, ...]: raws,
    tuple[str, str, str]: st.tuples(words, words, words),
    Failure | None: problems,
    PersonsAct | None: st.none() | st.builds(PersonsAct, words, words, words),
    Caller | None: callers,
    PersonsAct | None: st.none() | st.builds(PersonsAct, words, words, words),
    Resume | None: resumes,
    Element: elements,
    tuple[Bound, ...]: st.lists(bounds, max_size=2).map(tuple),
    tuple[tuple[str, str, str] | None, ...]: st.lists(scopes, max_size=2).map(tuple),
    dict[str, Plain] | None: values,
    dict[str, Plain]: values.map(lambda value: value or {}),
    dict[str, str]: st.dictionaries(words, words, max_size=2),
}


def structs(kind: type) -> st.SearchStrategy[Any]:
    """Any value of a struct type: a field of a new type needs a line in the table above."""
    fields = {field.name: _FIELDS[field.type] for field in msgspec.structs.fields(kind)}
    return st.builds(kind, **fields)


_FIELDS[Needs | None] = st.none() | structs(Needs)
_FIELDS[Program | None] = st.none() | structs(Program)

TRACKED = [command for command, effect in EFFECTS.items() if effect.in_force is not None]

events = st.one_of(*map(structs, get_args(Event)))
changes = st.one_of(*map(structs, get_args(Change)))
all_commands = st.one_of(*map(structs, get_args(Command)))


@given(event=events, decided=st.lists(changes, max_size=4), wished=st.lists(all_commands, max_size=4))
@settings(deadline=None)
def test_N35_an_entry_comes_back_with_all_that_recovery_needs(
    event: Event, decided: list[Change], wished: list[Command]
) -> None:
    data = codec.encode_entry(event, decided, wished)
    entry = decode(data)
    assert entry.changes == decided
    assert entry.commands == [command for command in wished if type(command) in TRACKED]
    assert entry.lines == 1 + len(decided) + len(wished) == len(codec.describe_entry(data))
    if type(event) in InForce.SETTLED_BY:
        bare = replace(event, elements=()) if hasattr(event, "elements") else event
        assert entry.event == bare
    else:
        assert entry.event is None


@given(event=events)
def test_N35_a_waiting_event_comes_back_whole(event: Event) -> None:
    assert codec.decode_queued(codec.encode_queued(event)) == event


@given(
    steps=st.dictionaries(words, words, max_size=3),
    calls=st.lists(words, max_size=3, unique=True),
    force=st.lists(st.one_of(*map(structs, TRACKED)), max_size=4),
)
def test_N35_a_snapshot_comes_back_with_the_order_of_its_parts(
    steps: dict[str, str], calls: list[str], force: list[Command]
) -> None:
    state = State(steps, dict.fromkeys(calls))
    read = codec.decode_snapshot(codec.encode_snapshot(state, force), State, lookup)
    assert read == (state, force)
    assert list(read.state.calls) == calls


@given(
    event=events,
    decided=st.lists(changes, max_size=3),
    wished=st.lists(all_commands, max_size=3),
    seq=numbers,
)
@settings(deadline=None)
def test_every_entry_can_be_shown(
    event: Event, decided: list[Change], wished: list[Command], seq: int
) -> None:
    lines = codec.describe_entry(codec.encode_entry(event, decided, wished), 9, seq)
    json.dumps(lines)
    assert [line["seq"] for line in lines] == list(range(seq, seq + len(lines)))
    assert {(line["at"], line["run"]) for line in lines} == {(event.at, 9)}
    assert [line["what"] for line in lines] == [type(fact).__name__ for fact in (event, *decided, *wished)]
    assert all(list(line)[:4] == ["seq", "at", "run", "what"] for line in lines)


def test_N8_an_origin_comes_back() -> None:
    assert codec.decode_origin(codec.encode_origin(MAIL.origin)) == MAIL.origin
    assert codec.encode_origin(None) is None
    assert codec.decode_origin(None) is None


# --- what is left out -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        Returned(4, 5.0, "3.1", elements=(OutputElement(b"<secret/>"), OutputElement(b"<secret/>"))),
        Produced(4, 5.0, "3.1", elements=(OutputElement(b"<secret/>"), OutputElement(b"<secret/>"))),
        Signalled(
            4,
            5.0,
            "s",
            "paid",
            elements=(OutputElement(b"<secret/>"), OutputElement(b"<secret/>")),
            arguments={"sum": 3},
        ),
    ],
)
def test_of_the_elements_of_an_event_only_their_number_is_kept(event: Event) -> None:
    data = codec.encode_entry(event, [], [])
    assert b"secret" not in data
    assert codec.describe_entry(data)[0]["elements"] == 2


def test_an_element_that_was_added_is_its_eid() -> None:
    data = codec.encode_entry(TimerFired(4, 5.0, "w"), [], [Add(MAIL), Add(MAIL, held=False)])
    assert b"email" not in data
    assert codec.describe_entry(data)[1:] == [
        {"seq": 1, "at": 5.0, "what": "Add", "element": 7},
        {"seq": 2, "at": 5.0, "what": "Add", "element": 7, "held": False},
    ]
    assert decode(data).commands == []


def test_an_event_without_elements_says_nothing_of_them_after_decoding_twice() -> None:
    failure = Returned(4, 5.0, "3.1", problem=Failure("timeout", "late"))
    [event] = codec.describe_entry(codec.encode_entry(failure, [], []))
    assert "elements" not in event
    assert event["problem"] == {"kind": "timeout", "message": "late"}


def test_N10_a_watch_comes_back_with_what_its_variables_stand_for() -> None:
    answer = bound("email[@in-reply-to = $ask/@message-id]", ask=(MAIL,))
    watch = Watch("4.1", (answer, bound("reminder")), (("mail.triage", "t1", "0"), None))
    [read] = decode(codec.encode_entry(TimerFired(4, 5.0, "w"), [], [watch])).commands
    assert read == watch
    assert isinstance(read, Watch)
    assert [each.text for each in read.conditions] == [answer.text, "reminder"]


def test_what_recovery_needs_is_told_apart() -> None:
    tracked = [
        Call("4.1", "action", "mail.send", "s1", inputs=(("mail", (7,)),), timeout=3.0, on_restart="error"),
        CancelCall("3.1"),
        Watch("4.2", (), ()),
        Unwatch("3.2"),
        SetTimer("4.3", 9.0),
        CancelTimer("3.3"),
        Reserve((7,)),
        Release((8,)),
        asked.Outdate((7,)),
    ]
    others = [
        Add(MAIL),
        asked.AddToContext((7,)),
        asked.MarkUsed(("a", "b", "c"), (7,)),
        asked.RecordUnique("email", "@id", "x"),
        asked.ScheduleForget(9.0),
        asked.Start("mail.triage"),
        asked.Finish("done", "done"),
        asked.Answer("s1"),
    ]
    assert {type(each) for each in [*tracked, *others]} == set(get_args(Command))
    entry = decode(codec.encode_entry(TimerFired(4, 5.0, "w"), [], [*others, *tracked]))
    assert entry.commands == tracked


# --- as lines -------------------------------------------------------------------------------------------


def test_lines_of_history_say_what_happened_in_order() -> None:
    data = codec.encode_entry(
        Started(4, 5.0, (7,), Caller(2, "s1", "3.1")),
        [Moved("s1", 5.0, (7,)), Moved("s2", 6.0), Asked(3, b"caf\xc3\xa9 \xff")],
        [SetTimer("4.1", 9.0)],
    )
    assert codec.describe_entry(data, 3, 40) == [
        {
            "seq": 40,
            "at": 5.0,
            "run": 3,
            "what": "Started",
            "id": 4,
            "elements": [7],
            "caller": {"run": 2, "step": "s1", "call": "3.1"},
        },
        {"seq": 41, "at": 5.0, "run": 3, "what": "Moved", "step": "s1", "eids": [7]},
        {"seq": 42, "at": 5.0, "run": 3, "what": "Moved", "step": "s2", "due": 6.0},
        {"seq": 43, "at": 5.0, "run": 3, "what": "Asked", "of_run": 3, "answer": "café �"},
        {"seq": 44, "at": 5.0, "run": 3, "what": "SetTimer", "wake": "4.1", "due": 9.0},
    ]


def test_what_is_due_at_once_is_still_said() -> None:
    [_, line] = codec.describe_entry(codec.encode_entry(TimerFired(4, 5.0, "w"), [], [SetTimer("4.1", 5.0)]))
    assert line == {"seq": 1, "at": 5.0, "what": "SetTimer", "wake": "4.1", "due": 5.0}


# --- other versions, and damage -------------------------------------------------------------------------


def rewritten(data: bytes, alter: Any) -> bytes:
    plain = msgspec.msgpack.decode(data)
    alter(plain)
    return msgspec.msgpack.encode(plain)


ENTRY = codec.encode_entry(Matched(4, 5.0, "3.1", 7), [Moved("s1")], [Call("4.1", "action", "a.b", "s1")])


def test_fields_of_a_newer_version_are_passed_over() -> None:
    def newer(entry: list[Any]) -> None:
        entry[0]["colour"] = "red"
        entry[1][0]["colour"] = "red"
        entry[2][0]["colour"] = "red"
        entry.append({"more": 1})

    data = rewritten(ENTRY, newer)
    assert decode(data).changes == [Moved("s1")]
    assert decode(data).commands == [Call("4.1", "action", "a.b", "s1")]
    assert [line["what"] for line in codec.describe_entry(data)] == ["Matched", "Moved", "Call"]


def test_fields_an_older_version_did_not_have_take_their_default() -> None:
    def older(entry: list[Any]) -> None:
        entry[2][0].pop("on_restart", None)
        entry[1][0].pop("eids", None)

    assert decode(rewritten(ENTRY, older)) == decode(ENTRY)


@pytest.mark.parametrize(
    "alter",
    [
        lambda entry: entry[1][0].update(type="Renamed"),
        lambda entry: entry[1][0].pop("step"),
        lambda entry: entry[1][0].update(step=3),
        lambda entry: entry[2][0].update(type="Levitate"),
        lambda entry: entry[2][0].pop("call"),
        lambda entry: entry[2][0].update(inputs="none"),
        lambda entry: entry[2].append({"type": "Watch", "watch": "w"}),
        lambda entry: entry[2].append({"type": "Watch", "watch": "w", "conditions": [{}], "scopes": [None]}),
        lambda entry: entry[2].append(
            {
                "type": "Watch",
                "watch": "w",
                "conditions": [{"texts": ["a["], "namespaces": [{}], "variables": {}}],
                "scopes": [None],
            }
        ),
        lambda entry: entry[2].append({"type": "Watch", "watch": "w", "conditions": [[]], "scopes": [None]}),
        lambda entry: entry[2].append({"no": "type"}),
        lambda entry: entry.pop(),
        lambda entry: entry.clear(),
    ],
)
def test_what_is_not_understood_is_refused_in_words(alter: Any) -> None:
    with pytest.raises(StoreError, match=r"cannot be read: .*another version of narval wrote it"):
        decode(rewritten(ENTRY, alter))


@given(st.binary(max_size=80))
def test_rubbish_is_refused_and_never_more(data: bytes) -> None:
    for read in (
        decode,
        codec.describe_entry,
        codec.decode_queued,
        codec.decode_origin,
        lambda data: codec.decode_snapshot(data, State, lookup),
    ):
        assert_refused_or_read(read, data)


def assert_refused_or_read(read: Any, data: bytes) -> None:
    """Reading gives something, or a StoreError that says what cannot be read; no other error."""
    refusal = "cannot be read"
    try:
        read(data)
    except StoreError as error:
        refusal = str(error)
    assert "cannot be read" in refusal


@given(position=st.integers(0, len(ENTRY) - 1), byte=st.integers(0, 255))
def test_a_damaged_entry_is_refused_or_read_but_never_breaks(position: int, byte: int) -> None:
    data = ENTRY[:position] + bytes([byte]) + ENTRY[position + 1 :]
    for read in (decode, codec.describe_entry):
        assert_refused_or_read(read, data)


def test_a_snapshot_of_another_shape_is_refused() -> None:
    data = codec.encode_snapshot(State({"s1": "done"}), [])
    with pytest.raises(StoreError, match="a snapshot cannot be read"):
        codec.decode_snapshot(data, Moved, lookup)


def test_what_no_engine_may_decide_cannot_be_written() -> None:
    with pytest.raises(TypeError):
        codec.encode_entry(TimerFired(1, 1.0, "w"), [object()], [])
