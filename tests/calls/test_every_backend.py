"""Behaviour that is the same wherever an action runs: every case is put to each backend."""

import logging
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from narval.calls import conversion
from narval.calls.context import call
from narval.calls.output_capture import capture_output
from narval.calls.record import CallListener
from narval.core.elements.element import Element, Origin
from narval.core.engines.events import OutputElement
from narval.core.errors import InternalError, RequestError

MAIL = Element(3, b"<email subject='Hi'/>", 1.5)
OTHER = Element(4, b"<email subject='Ho'/>", 2.5)

Ask = Callable[..., Any]


@pytest.fixture(params=["inline", "thread", "async", "worker"])
def where(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def ask(where: str, shared_calls: Any, module: Any) -> Ask:
    """Runs the function `act` of a module in one place after the other."""

    def ask_there(text: str, **fields: Any) -> Any:
        if where == "async":
            text = text.replace("def act(", "async def act(")
        return shared_calls.ask(module(text), where=where, **fields)

    return ask_there


def test_N30_an_action_receives_elements_and_returns_elements(ask: Ask) -> None:
    outcome = ask("def act(mail): return mail", inputs={"mail": MAIL})
    assert outcome.problem is None
    assert not outcome.abandoned
    assert outcome.elements == [OutputElement(b'<email subject="Hi"/>')]


def test_N30_an_element_arrives_with_its_eid_bytes_and_moment(ask: Ask) -> None:
    text = 'def act(mail): return f\'<seen eid_="{mail.eid}" at="{mail.added}">{mail.name}</seen>\''
    assert ask(text, inputs={"mail": MAIL}).elements == [
        OutputElement(b'<seen eid_="3" at="1.5">email</seen>')
    ]


def test_an_action_learns_who_sent_an_element(ask: Ask) -> None:
    sent = Element(5, b"<bid/>", 1.5, Origin(agent="shop"))
    text = "def act(bids): return f'<n>{[bid.sender for bid in bids]}</n>'"
    outcome = ask(text, inputs={"bids": [MAIL, sent]})
    assert outcome.elements == [OutputElement(b"<n>['', 'shop']</n>")]


def test_N30_a_list_input_gets_a_list_and_an_absent_optional_one_gets_none(ask: Ask) -> None:
    text = "def act(mails, none, signature):\n  return f'<n>{[m.eid for m in mails]} {none} {signature}</n>'"
    outcome = ask(text, inputs={"mails": [MAIL, OTHER], "none": [], "signature": None})
    assert outcome.elements == [OutputElement(b"<n>[3, 4] [] None</n>")]


def test_N30_parameters_are_the_input_ids_made_into_names(ask: Ask) -> None:
    text = "def act(in_reply_to, a_b, _2nd, from_): return [in_reply_to, a_b, _2nd, from_]"
    outcome = ask(text, inputs={"in-reply-to": MAIL, "a.b": MAIL, "2nd": MAIL, "from": MAIL})
    assert len(outcome.elements) == 4


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("None", []),
        ("[]", []),
        ("{}", []),
        ("'<a/>'", [OutputElement(b"<a/>")]),
        ("b'<a>\\xc3\\xa9</a>'", [OutputElement("<a>é</a>".encode())]),
        ("Element(0, b'<a/>')", [OutputElement(b"<a/>")]),
        ("etree.fromstring('<a><b/>tail</a>')[0]", [OutputElement(b"<b/>")]),
        ("('<a/>', '<b/>')", [OutputElement(b"<a/>"), OutputElement(b"<b/>")]),
        (
            "{'x': '<a/>', 'y': ['<b/>', '<c/>'], 'z': None}",
            [OutputElement(b"<a/>", "x"), OutputElement(b"<b/>", "y"), OutputElement(b"<c/>", "y")],
        ),
        ("{'undeclared': '<a/>'}", [OutputElement(b"<a/>", "undeclared")]),
        ("'<error type=\"x\"/>'", [OutputElement(b'<error type="x"/>')]),
    ],
)
def test_N30_an_action_returns_nothing_one_thing_a_list_or_a_dict(
    ask: Ask, result: str, expected: list[OutputElement]
) -> None:
    text = f"from lxml import etree\nfrom narval import Element\ndef act(): return {result}"
    outcome = ask(text)
    assert (outcome.elements, outcome.problem) == (expected, None)


def test_N33_an_action_that_raises_costs_its_step_alone_and_tells_where(
    ask: Ask, tmp_path: Path, where: str
) -> None:
    text = (
        "import json\n\n"
        "def act(mail):\n"
        "    return parsed(mail)\n\n"
        "def parsed(mail):\n"
        "    return json.loads('nonsense')\n"
    )
    problem = ask(text, inputs={"mail": MAIL}, home=tmp_path).problem
    assert problem.kind == "JSONDecodeError"
    assert problem.message == "Expecting value: line 1 column 1 (char 0)"
    *own, library = problem.detail.splitlines()
    assert own == [
        f"mail.py:4 in act: {'return parsed(mail)'}",
        "mail.py:7 in parsed: return json.loads('nonsense')",
    ]
    assert re.match(r"  json/decoder\.py:\d+ in \w+: ", library)


def test_an_error_tells_its_causes(ask: Ask, tmp_path: Path) -> None:
    text = (
        "def act():\n"
        "    try:\n"
        "        {}['paper']\n"
        "    except KeyError as error:\n"
        "        raise RuntimeError('cannot print') from error\n"
    )
    problem = ask(text, home=tmp_path).problem
    assert (problem.kind, problem.message) == ("RuntimeError", "cannot print")
    assert problem.detail.splitlines() == [
        "mail.py:5 in act: raise RuntimeError('cannot print') from error",
        "caused by KeyError: 'paper'",
        "  mail.py:3 in act: {}['paper']",
    ]


def test_a_group_of_one_fails_as_its_member_does(ask: Ask) -> None:
    text = (
        "from narval import ActionError\n"
        "def act(): raise ExceptionGroup('one', [ActionError('no paper', 'no-paper', final=True)])\n"
    )
    problem = ask(text).problem
    assert (problem.kind, problem.message, problem.final) == ("no-paper", "no paper", True)


def test_a_group_tells_its_members(ask: Ask, tmp_path: Path) -> None:
    text = (
        "from narval import ActionError\n"
        "def fail(): raise ActionError('no paper', 'no-paper', final=True)\n"
        "def act():\n"
        "    try: fail()\n"
        "    except ActionError as error: failed = error\n"
        "    raise ExceptionGroup('two', [failed, ValueError('x')])\n"
    )
    problem = ask(text, home=tmp_path).problem
    assert (problem.kind, problem.final) == ("ExceptionGroup", False)
    assert problem.message == "two (2 sub-exceptions); ActionError: no paper; ValueError: x"
    assert problem.detail.splitlines()[1:] == [
        "one of them ActionError: no paper",
        "  mail.py:4 in act: try: fail()",
        "  mail.py:2 in fail: def fail(): raise ActionError('no paper', 'no-paper', final=True)",
        "one of them ValueError: x",
    ]


@pytest.mark.parametrize(
    ("statement", "kind", "message"),
    [
        ("raise ValueError('no such folder')", "ValueError", "no such folder"),
        ("raise KeyError()", "KeyError", "KeyError"),
        ("assert False", "AssertionError", "AssertionError"),
        ("raise ActionError('gone', 'no-server')", "no-server", "gone"),
        ("raise ActionError('gone', 'Bad Kind é!')", "Bad-Kind-é", "gone"),
        ("raise ActionError('gone', \"'\")", "action-failed", "gone"),
        ("import sys; sys.exit(3)", "SystemExit", "the action called sys.exit(3)"),
        ("import sys; sys.exit()", "SystemExit", "the action called sys.exit()"),
        ("raise BaseException('b')", "BaseException", "b"),
        ("raise GeneratorExit('g')", "GeneratorExit", "g"),
        ("act = None; act()", "TypeError", "'NoneType' object is not callable"),
        ("raise ValueError('\\0 \\ud800 x')", "ValueError", "\ufffd \ufffd x"),
        ("raise Unshowable()", "Unshowable", "Unshowable (its text cannot be shown)"),
    ],
)
def test_N33_whatever_an_action_raises_becomes_a_problem(
    ask: Ask, statement: str, kind: str, message: str
) -> None:
    text = (
        "from narval.core.errors import ActionError\n"
        "class Unshowable(Exception):\n    def __str__(self): raise ValueError\n"
        f"def act(): {statement}"
    )
    outcome = ask(text)
    assert (outcome.problem.kind, outcome.problem.message) == (kind, message)
    assert outcome.elements == []


def test_ctrl_c_in_the_loop_is_not_the_fault_of_the_action(calls: Any) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calls.ask(interrupted, where="inline")
    assert calls.ask(interrupted, where="thread").problem.kind == "KeyboardInterrupt"


def test_an_inline_call_that_holds_up_the_daemon_is_logged(
    calls: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(conversion, "LONG", 0.0)
    calls.ask(lambda: None, where="inline", timeout=1e-9)
    (record,) = [record for record in caplog.records if record.name == "narval.calls"]
    assert "inline, longer than its time limit of 1e-09 s: the daemon did nothing" in record.getMessage()


@pytest.mark.parametrize("where", ["inline", "thread", "async"], indirect=False)
def test_a_call_of_nothing_is_a_fault_of_narval(calls: Any, where: str) -> None:
    assert calls.ask(None, where=where).problem.kind == "InternalError"


def test_a_long_message_is_cut(ask: Ask) -> None:
    message = ask("def act(): raise ValueError('x' * 100_000)").problem.message
    assert len(message) == 2001
    assert message.endswith("x…")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("42", "expected an Element, XML text or bytes, or an lxml element, got int 42"),
        ("object", "got type <class 'object'>"),
        ("(x for x in ())", "got a generator; return a list of what it yields"),
        ("'done'", "got str 'done', which is not XML"),
        ("['<a/>', 42]", "item 2: expected an Element"),
        ("{'answer': 42}", "under the key 'answer': expected an Element"),
        ("{'answer': ['<a/>', 4.5]}", "under the key 'answer', item 2: expected an Element"),
        ("{1: '<a/>'}", "expected the keys of the dict to be output ids, got int 1"),
        ("'<a><b></a>'", "not well-formed XML"),
        ("''", "not well-formed XML"),
        ("b'<a>\\xff</a>'", "not well-formed XML"),
        ("'<a>\\ud800</a>'", "half of a surrogate pair is no character"),
        ("'<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>'", "DOCTYPE"),
        ("'<a>' * 10_000 + '</a>' * 10_000", "nested deeper than 256 levels"),
        ("deep()", "nested deeper than 256 levels"),
        ("etree.Comment('x')", "got _Comment <!--x-->"),
        ("etree.fromstring('<a/>').getroottree()", "got _ElementTree"),
        ("holding(etree.Entity('x'))", "x"),
        ("'x' * 200", "not well-formed XML"),
    ],
)
def test_N33_an_action_that_returns_rubbish_is_told_what_it_returned(
    ask: Ask, result: str, message: str
) -> None:
    text = (
        "from lxml import etree\n"
        "def deep():\n"
        "    root = node = etree.Element('a')\n"
        "    for _ in range(10_000): node = etree.SubElement(node, 'a')\n"
        "    return root\n"
        "def holding(node):\n"
        "    root = etree.Element('a')\n"
        "    root.append(node)\n"
        "    return root\n"
        f"def act(): return {result}"
    )
    problem = ask(text).problem
    assert problem.kind == "bad-output"
    assert message in problem.message


def test_N2_an_element_that_only_narval_makes_is_reserved(ask: Ask) -> None:
    assert ask("def act(): return '<plan/>'").problem.kind == "reserved"


def test_malformed_xml_is_told_with_line_and_column(ask: Ask) -> None:
    assert ask("def act(): return '<a>\\n  <b>\\n</a>'").problem.message.endswith("(line 3, column 5)")


def test_N37_an_action_reads_the_id_of_its_call_run_step_and_home(ask: Ask, tmp_path: Path) -> None:
    text = (
        "import narval\n"
        "def act():\n"
        "    call = narval.call()\n"
        '    return f\'<call id="{call.id}" run="{call.run}" step="{call.step}">{call.home / "x"}</call>\''
    )
    outcome = ask(text, id="h1.12.3", run=41, step="ack", home=tmp_path)
    assert outcome.elements == [
        OutputElement(f'<call id="h1.12.3" run="41" step="ack">{tmp_path}/x</call>'.encode())
    ]


def test_N37_a_call_tried_again_has_the_same_id(ask: Ask) -> None:
    text = "import narval\ndef act(): return f'<id>{narval.call().id}</id>'"
    assert ask(text, id="h1.9").elements == ask(text, id="h1.9").elements == [OutputElement(b"<id>h1.9</id>")]


def test_call_outside_of_any_call_is_a_mistake() -> None:
    with pytest.raises(RequestError, match="for actions while they run"):
        call()


@pytest.mark.parametrize("where", ["thread", "async", "worker"], indirect=False)
def test_an_action_knows_its_deadline(calls: Any, module: Any, where: str) -> None:
    text = "import narval, time\ndef act(): return f'<left>{narval.call().deadline - time.time():.0f}</left>'"
    if where == "async":
        text = text.replace("def", "async def")
    assert calls.ask(module(text), where=where, timeout=1000.0).elements == [
        OutputElement(b"<left>1000</left>")
    ]


def test_only_a_source_can_have_caught_up(ask: Ask) -> None:
    problem = ask("import narval\ndef act(): narval.call().caught_up()").problem
    assert (problem.kind, "is for sources" in problem.message) == ("RequestError", True)


@pytest.mark.parametrize("numbers", ["'half'", "1, 'x'", "float('nan')", "1, float('inf')"])
def test_progress_is_told_in_numbers(ask: Ask, numbers: str) -> None:
    problem = ask(f"import narval\ndef act(): narval.call().progress({numbers})").problem
    assert (problem.kind, "expected progress(done, total)" in problem.message) == ("RequestError", True)


@pytest.mark.parametrize("where", ["thread", "worker"], indirect=False)
def test_progress_is_seen_while_the_call_goes_on(calls: Any, module: Any, tmp_path: Path, where: str) -> None:
    go = tmp_path / "go"
    text = (
        "import narval, os, time\n"
        "def act():\n"
        "    for n in range(1000): narval.call().progress(n, 2000)\n"
        "    narval.call().progress(3, 3)\n"
        f"    while not os.path.exists({str(go)!r}): time.sleep(0.005)"
    )
    outcome = calls.start(calls.context(module(text), where=where, id="c"))
    calls.until(lambda: calls.find("c").call.progressed == (3, 3))
    assert calls.book.counts.running == 1
    go.touch()
    assert calls.outcome(outcome).problem is None
    assert calls.find("c") is None


def test_N33_what_an_action_prints_goes_to_the_log_with_its_call(
    ask: Ask, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "narval.action")
    text = (
        "import sys\n"
        "def act():\n"
        "    print('one\\ntwo')\n"
        "    print('warned', file=sys.stderr)\n"
        "    sys.stdout.write('unfinished')\n"
    )
    restore = capture_output()
    try:
        assert ask(text, id="c-9", run=5, step="s").problem is None
        print("the daemon's own")
    finally:
        restore()
    said = [(r.getMessage(), r.call, r.run, r.step) for r in caplog.records if r.name == "narval.action"]
    assert sorted(said) == [(line, "c-9", 5, "s") for line in ("one", "two", "unfinished", "warned")]
    assert capsys.readouterr().out == "the daemon's own\n"


def test_done_is_called_once_on_the_thread_of_the_loop(calls: Any, module: Any, where: str) -> None:
    told: list[threading.Thread] = []
    define = "async def" if where == "async" else "def"
    call = calls.context(module(f"{define} act(): return '<a/>'"), where=where)

    async def start() -> None:
        calls.ask_for(call, CallListener(lambda outcome: told.append(threading.current_thread())))
        if where == "inline":
            assert len(told) == 1

    calls.wait(start())
    calls.until(lambda: bool(told))
    calls.close(grace=1.0)
    assert told == [threading.current_thread()]


def test_a_call_that_is_under_way_is_not_started_twice(calls: Any, module: Any) -> None:
    call = calls.context(module("def act(): return '<a/>'"))
    outcome = calls.start(call)
    with pytest.raises(InternalError, match="is under way already"):
        calls.start(call)
    assert calls.outcome(outcome).elements == [OutputElement(b"<a/>")]
    assert calls.outcome(calls.start(call)).elements == [OutputElement(b"<a/>")]


def test_N34_a_closed_executor_starts_nothing(calls: Any, module: Any, where: str) -> None:
    calls.close()
    assert not calls.start(calls.context(module("def act(): return '<a/>'"), where=where)).done()
    assert calls.book.counts.running == 0
