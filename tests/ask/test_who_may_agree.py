"""Who may agree to what: every act of the table, by every asker, through the operations and the work."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import narval
from narval.agent.turn import Turn
from narval.ask.asker import CALLER, CHAT, CLIENT, NOBODY, PEER, WEB, Asker
from narval.ask.operations import OPERATIONS_OF, invoke
from narval.core.agreeing import ACTS, ASKERS, Act, Who, refusal
from narval.core.errors import NarvalError
from narval.files.shipped import shipped
from narval.people.files import FiledAnswer, deliver_answer
from narval.surfaces.python.agent import Agent
from narval.system.logins import login
from tests.ask.test_grants import MEMORY, SENDS, written
from tests.calls.test_rules import ASKS, MODULE, recipe

ME, UID = login(os.geteuid()), os.geteuid()
PEOPLE = f"""[people.me]
login = "{ME}"
[people.ann]
web = "operator"
[people.ben]
[people.rob]
web = "reader"
[people.desk]
login = "mcp:desk"
"""
WORK = """<cookbook group="w">
<work group="w" name="any"><title>Any</title><ways names="terminal web file chat"/>
  <outcome name="once"/><outcome name="other"/></work>
<work group="w" name="allow"><title>May it?</title><ways names="terminal web file chat"/>
  <outcome name="approve"/><outcome name="reject"/></work>
</cookbook>"""
ASKING = """<recipe group="w" name="asks" start_step="a" end_step="a">
<step id="a" type="action" target="m.fetch" approve="w.allow"/></recipe>"""
OBEYS = recipe("obeys", "<letter to=\"{substring-after($fetch/body, 'list to ')}\">the list</letter>")
LOOKERS = ("ann", "ben", "rob", ME)
FILE = Asker("ben", way="file")
"""The stand-in for a file, which no operation takes."""

ASKED: tuple[tuple[Who, Asker], ...] = (
    ("owner", Asker(ME, UID, "socket")),
    ("operator", Asker("ann", UID, WEB, "7")),
    ("operator", Asker("ann", UID, CHAT, "home")),
    ("reader", Asker("rob", UID, WEB, "7")),
    ("reader", Asker("rob", UID, CHAT, "home")),
    ("person", Asker("ben", UID, WEB, "7")),
    ("person", Asker("ben", UID, CHAT, "home")),
    ("another", Asker("ann", UID, "socket", actor=ME)),
    ("file", FILE),
    ("program", Asker(ME, UID, "socket", call="00000000.9")),
    ("program", Asker("ann", UID, "socket", actor=ME, call="00000000.9")),
    ("program", Asker("ann", UID, WEB, "7", call="?")),
    ("program", Asker("ann", UID, CHAT, "home", call="?")),
    ("client", Asker("mcp:desk", NOBODY, CLIENT)),
    ("caller", Asker("http:ci", NOBODY, CALLER)),
    ("peer", Asker("", NOBODY, PEER, "office")),
)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    home = tmp_path_factory.mktemp("agreeing")
    trust = (
        (shipped() / "recipes/trust.xml").read_text().replace("terminal web mail", "terminal web file chat")
    )
    files = {
        "data/memory.xml": MEMORY, "recipes/send.xml": SENDS, "recipes/trust.xml": trust,
        "modules/m.py": MODULE, "recipes/w.xml": f'<cookbook group="w">{OBEYS}{ASKING}</cookbook>',
        "recipes/work.xml": WORK, "etc/trust.toml": ASKS, "etc/people.toml": PEOPLE,
    }  # fmt: skip
    written(home, files)
    with narval.open(home) as agent:
        for name in ("w.obeys", "w.asks"):
            agent.ask("grant", name=name)
        agent.until_idle()
        yield agent


def why_not(agent: Agent, asker: Asker, operation: str, **arguments: Any) -> str:
    """The words with which an operation is refused; "" if it is not."""
    try:
        agent.runner.run(invoke(agent.daemon, asker, operation, arguments))
    except NarvalError as error:
        return str(error)
    return ""


def is_refused(why: str, act: Act) -> bool:
    """True for words by which the table refuses an act."""
    return f" may not {ACTS[act].does}: that is for {ACTS[act].only}; " in why


OPERATIONS = [(act, name) for act, names in OPERATIONS_OF.items() for name in names]


@pytest.mark.parametrize(("who", "asker"), [one for one in ASKED if one[0] != "file"], ids=str)
def test_each_operation_of_the_table_asks_it_before_anything_else(
    agent: Agent, who: Who, asker: Asker
) -> None:
    for act, operation in OPERATIONS:
        why = why_not(agent, asker, operation, no_argument=1)
        assert is_refused(why, act) == (who not in ACTS[act].may), (operation, why)
    for operation in ("answer", "remind"):
        assert is_refused(why_not(agent, asker, operation), "people") == (who not in ACTS["people"].may)


def an_item(agent: Agent, name: str) -> int:
    """An item of work that nobody has answered, of a new run."""
    run = agent.start(name)
    agent.until_idle()
    if name == "w.any":
        return run
    rows = agent.ask("worklist", every=True)
    return int(next(row["item"] for row in rows if row["run"] and row["run"]["run"] == run))


def asked_again(agent: Agent, name: str) -> int:
    """An item about a call that no rule lets go, though somebody has answered always before."""
    assert agent.daemon.home is not None
    (agent.daemon.home.path / "etc/trust.toml").write_text(ASKS)
    agent.ask("reload")
    return an_item(agent, name)


def the_grant(agent: Agent, _: str) -> int:
    """The item that asks for what a definition needs."""
    if grants := agent.ask("grants", name="post.send")["definitions"][0]["by"]:
        assert agent.ask("revoke", name="post.send"), grants
        agent.until_idle()
    return int(next(row["item"] for row in agent.ask("worklist", every=True) if row["work"] == "trust.grant"))


def filed(agent: Agent, item: int, outcome: str, path: str = "work/ben/done/1.xml") -> str:
    """The words with which an answer in the folder of a person is refused; "" if it is not."""
    ben = agent.daemon.agent.lookup.people.person("ben")
    assert ben is not None
    answer = FiledAnswer(item, agent.ask("work_item", item=item)["shown"], outcome, {})

    def deliver(turn: Turn) -> str:
        return str(deliver_answer(turn, ben, ME, path, answer) or "")

    return str(agent.runner.run(agent.daemon.host.submit(deliver)))


ITEMS: tuple[tuple[Act, str, str, Callable[[Agent, str], int]], ...] = (
    ("people", "w.any", "once", an_item),
    ("agree", "w.asks", "approve", an_item),
    ("let-out", "w.obeys", "once", asked_again),
    ("let-out", "w.obeys", "reject", asked_again),
    ("always", "w.obeys", "always", asked_again),
    ("grant", "post.send", "grant", the_grant),
)


@pytest.mark.parametrize(("who", "asker"), ASKED, ids=str)
@pytest.mark.parametrize(("act", "name", "outcome", "of"), ITEMS, ids=[row[0] for row in ITEMS])
def test_each_way_of_answering_asks_the_table(
    agent: Agent, act: Act, name: str, outcome: str, of: Callable[[Agent, str], int], who: Who, asker: Asker
) -> None:
    item = of(agent, name)
    why = (
        filed(agent, item, outcome)
        if asker is FILE
        else why_not(agent, asker, "answer", item=item, outcome=outcome)
    )
    if who not in ACTS[act].may:
        assert any(is_refused(why, one) for one in (act, "let-out", "people")), why
        assert agent.run(item)["phase"] == "active"
    elif who == "client":
        assert "mcp is no way to answer this" in why
    else:
        assert (why, agent.run(item)["phase"]) == ("", "done")


@pytest.mark.parametrize(("act", "name", "outcome", "of"), ITEMS, ids=[row[0] for row in ITEMS])
def test_a_file_that_a_run_has_written_answers_as_a_program_does(
    agent: Agent, act: Act, name: str, outcome: str, of: Callable[[Agent, str], int]
) -> None:
    item, path, labels = of(agent, name), "work/ben/done/2.xml", agent.daemon.agent.memory.labels
    labels.files[f"{agent.daemon.agent.folder}/{path}"] = labels.number(("mail",))
    why = filed(agent, item, outcome, path)
    asked: Act = "let-out" if act == "always" else act
    assert is_refused(why, asked) == (act != "people"), why
    assert "mail" in labels.names(labels.own(item))


@pytest.mark.parametrize(
    ("who", "asker"), [one for one in ASKED if one[1].person in LOOKERS and one[1] is not FILE], ids=str
)
def test_an_item_about_what_may_leave_is_shown_to_those_who_may_answer_it_or_read_the_home(
    agent: Agent, who: Who, asker: Asker
) -> None:
    item = asked_again(agent, "w.obeys")
    sees = who in ACTS["let-out"].may or who in ACTS["read"].may
    rows = agent.runner.run(invoke(agent.daemon, asker, "worklist", {"every": True}))
    may = [bool(row["may"]) for row in rows if row["item"] == item]
    assert may == ([who in ACTS["let-out"].may] if sees else [])
    assert ("there is no item" in why_not(agent, asker, "work_item", item=item)) == (not sees)
    log = agent.runner.run(invoke(agent.daemon, asker, "work_log", {}))
    assert (item in [row["item"] for row in log]) == sees


def test_each_refusal_says_who_what_whose_and_what_else() -> None:
    for act, who in itertools.product(ACTS, ASKERS):
        why = refusal(act, who, "ann", "bob")
        assert (why == "") == (who in ACTS[act].may)
        assert why == "" or is_refused(why, act)
