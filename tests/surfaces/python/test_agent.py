"""narval in a program: the same operations without a daemon; time may stand still; actions may be stubbed."""

from __future__ import annotations

import asyncio
import warnings
from pathlib import Path

import pytest
from lxml import etree

import narval
from narval.core.elements.element import CONTROL
from narval.core.errors import DefinitionError, ElementError, NoHomeError, RequestError, WorkRefusedError
from narval.daemon import main_loop

MODULE = """
from narval import Input, Output, action

@action(inputs=[Input("mail", "mail", use=True)], outputs=[Output("ack", "ack")])
def answer(mail):
    return f"<ack to='{mail.attributes['from']}'/>"

@action
def fails():
    raise ValueError("never well")
"""
RECIPES = """<cookbook>
<recipe group="w" name="answer" start_step="s" end_step="s">
  <step id="s" type="action" target="w.answer"/></recipe>
<recipe group="w" name="again" start_step="s" end_step="s" restart="yes">
  <step id="s" type="action" target="w.fails"/></recipe>
</cookbook>"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "w.py"
    path.write_text(MODULE)
    return path


def test_the_example_of_the_surfaces_works(module: Path) -> None:
    with narval.open() as agent:
        agent.load(module)
        agent.load(RECIPES)
        eid = agent.add("<mail from='a@b'/>")
        run = agent.start("w.answer")
        agent.until_idle()
        (ack,) = agent.memory("ack[@to='a@b']")
        assert ack.eid > eid
        assert agent.run(run)["state"] == "done"
        assert [each["eid"] for each in agent.runs()] == [run]
        assert agent.history(run)
        assert agent.why(run)["waiting"] == []


def test_elements_are_given_as_text_bytes_trees_or_elements() -> None:
    with narval.open() as agent:
        eid = agent.add("<a/>")
        element = agent.element(eid)
        assert element is not None
        agent.add(b"<a/>")
        agent.add(etree.fromstring("<a/>"))
        agent.add(element)
        assert len({element.eid for element in agent.memory("a")}) == 4
        assert agent.add_all(["<memory><b/><b/></memory>", "<b/>"]) == [
            element.eid for element in agent.memory("b")
        ]
        eid = agent.add("<?xml version='1.0' encoding='iso-8859-1'?><n>é</n>")
        assert agent.memory("n[.='é']") == [agent.element(eid)]
        with pytest.raises(RequestError, match="expected one element, got 2"):
            agent.add("<memory><c/><c/></memory>")


def test_what_is_malformed_or_hostile_is_refused() -> None:
    with narval.open() as agent:
        for text in ("", "<a", "<!DOCTYPE a><a/>", "<a>" * 9999 + "</a>" * 9999):
            with pytest.raises(ElementError):
                agent.add(text)
        assert agent.memory() == []


def test_a_module_is_loaded_from_a_text() -> None:
    text = (
        "from narval import Output, action\n@action(outputs=[Output('y', 'y')])\ndef make(): return '<y/>'\n"
    )
    with narval.open() as agent:
        with pytest.raises(DefinitionError, match=r"agent\.load\(text, name='shop'\)"):
            agent.load(text)
        with pytest.raises(DefinitionError, match=r"shop\.py:4:1: .*nowhere"):
            agent.load(f"{text}import nowhere", name="shop")
        with pytest.raises(RequestError, match="the name of a module"):
            agent.load(text, name="a.b")
        with pytest.raises(RequestError, match=r"expected the text of the module shop, got a path: shop\.py"):
            agent.load(Path("shop.py"), name="shop")
        agent.load(text, name="shop")
        step = '<step id="a" type="action" target="shop.make"/>'
        agent.load(f'<recipe group="c" name="t" start_step="a" end_step="a">{step}</recipe>')
        agent.wait(agent.start("c.t"))
        assert len(agent.memory("y")) == 1


def test_simulated_time_passes_only_when_it_is_told_to(module: Path) -> None:
    with narval.open(clock=narval.SimulatedClock("2026-11-21T08:00:00Z")) as agent:
        agent.load(module)
        agent.load(RECIPES)
        agent.start("w.again")
        agent.until_idle()
        assert len(agent.runs()) == 1
        agent.elapse(seconds=1)
        assert len(agent.runs()) == 2
        agent.elapse(hours=1)
        started = [run["started"] for run in agent.runs()]
        assert len(started) == 2 + 18  # after 2, 4, … 256 seconds, then every 300
        assert started == sorted(started)


def test_what_is_no_element_is_refused_with_what_is_expected() -> None:
    with narval.open() as agent, pytest.raises(RequestError, match=r"XML text or bytes.*got .*\(dict\)"):
        agent.add({"a": 1})  # type: ignore[arg-type]


def test_in_asyncio_it_is_said_what_to_do_instead() -> None:
    with narval.open() as agent:

        async def within() -> None:
            with pytest.raises(RequestError, match=r"asyncio\.to_thread"):
                agent.add("<a/>")
            with pytest.raises(RequestError, match=r"asyncio\.to_thread"):
                narval.open()
            await asyncio.to_thread(agent.add, "<b/>")

        asyncio.run(within())
        assert [element.name for element in agent.memory("*[self::a or self::b]")] == ["b"]


def test_two_threads_at_once_are_one_too_many() -> None:
    with narval.open() as agent:
        refused = []

        def other() -> None:
            with pytest.raises(RequestError, match="in one thread at a time") as raised:
                agent.add("<a/>")
            refused.append(raised)

        async def busy() -> None:
            await asyncio.to_thread(other)

        agent.runner.run(busy())
        assert refused
        agent.add("<a/>")


def test_closed_twice_is_closed_and_a_closed_home_says_so() -> None:
    agent = narval.open()
    agent.close()
    agent.close()
    with pytest.raises(RequestError, match="this home is closed"):
        agent.add("<a/>")


def test_a_program_that_was_forked_leaves_the_home_alone() -> None:
    with narval.open() as agent:
        agent.runner._program += 1  # as a program sees it that was forked from that one
        agent.close()
        with pytest.raises(RequestError, match="was forked: use it there"):
            agent.add("<a/>")
        agent.runner._program -= 1
        assert agent.add("<a/>")


CLOCK = """
from narval import Input, Output, action, call, now, sleep

@action(
    inputs=[Input("clock", "clock[@every]")],
    outputs=[Output("tick", "tick", list=True, unique="tick/@number")],
    source=True,
)
async def ticks(clock):
    number = 0
    call().caught_up()
    while True:
        await sleep(float(clock.attributes["every"]))
        number += 1
        yield f"<tick number='{number}' at='{now():%H:%M}'/>"
"""


def test_each_moment_of_a_source_comes_though_it_has_caught_up(tmp_path: Path) -> None:
    (tmp_path / "clock.py").write_text(CLOCK)
    with narval.open(clock=narval.SimulatedClock("2026-10-24T12:00Z")) as agent:
        agent.load(tmp_path / "clock.py")
        step = '<step id="a" type="action" target="clock.ticks"/>'
        agent.load(f'<recipe group="c" name="t" start_step="a" end_step="a">{step}</recipe>')
        agent.add("<clock every='60'/>")
        agent.start("c.t")
        agent.elapse(minutes=3)
        agent.elapse(minutes=2)
        ticks = [tick.attributes["at"] for tick in agent.memory("tick")]
        assert ticks == ["12:01", "12:02", "12:03", "12:04", "12:05"]


REAL = """
import asyncio
from narval import Output, action

@action(outputs=[Output("y", "y", list=True)], source=True)
async def queue():
    await asyncio.sleep(ENOUGH)
    yield "<y/>"

@action
async def naps():
    await asyncio.sleep(ENOUGH)
"""


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ("queue", "a source that has not called narval.call().caught_up()"),
        ("naps", "which waits in real time: await narval.sleep() follows the simulated clock"),
    ],
)
def test_a_wait_that_lasts_says_for_which_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, why: str
) -> None:
    monkeypatch.setattr(main_loop, "LONG", 0.01)
    (tmp_path / "real.py").write_text(REAL.replace("ENOUGH", "0.2"))
    with narval.open(clock=narval.SimulatedClock("2026-10-24T12:00Z")) as agent:
        agent.load(tmp_path / "real.py")
        step = f'<step id="a" type="action" target="real.{action}"/>'
        agent.load(f'<recipe group="c" name="t" start_step="a" end_step="a">{step}</recipe>')
        run = agent.start("c.t")
        with pytest.warns(RuntimeWarning) as warned:
            agent.until_idle()
    assert str(warned[0].message) == (
        f"waiting until nothing can go on by itself: for real.{action} of run {run}, step a, {why}"
    )


def test_an_action_cannot_alter_the_attributes_of_its_input() -> None:
    with narval.open() as agent:
        agent.add("<order number='1'/>")
        (order,) = agent.memory("order")
        with pytest.raises(TypeError):
            order.attributes["number"] = "2"  # type: ignore[index]
        assert order.attributes == {"number": "1", "eid": str(order.eid)}


DEADLINE = """
from narval import Output, action, call, now

@action(outputs=[Output("left", "left")])
def left():
    return f"<left>{call().deadline - now().timestamp():.0f}</left>"
"""


def test_the_deadline_of_a_call_is_by_the_clock_of_now() -> None:
    with narval.open(clock=narval.SimulatedClock("2026-03-01T07:00Z")) as agent:
        agent.load(DEADLINE, name="time")
        step = '<step id="a" type="action" target="time.left" timeout="20"/>'
        agent.load(f'<recipe group="c" name="t" start_step="a" end_step="a">{step}</recipe>')
        agent.wait(agent.start("c.t"))
        assert agent.memory("left")[0].text == "20"


def test_an_action_does_not_end_the_program_by_raising_what_ctrl_c_raises(tmp_path: Path) -> None:
    body = "    raise KeyboardInterrupt\n"
    (tmp_path / "k.py").write_text(
        f"from narval import action\n@action(runs='inline')\ndef one():\n{body}"
        f"@action\nasync def two():\n{body}"
    )
    with narval.open() as agent:
        agent.load(tmp_path / "k.py")
        for name in ("one", "two"):
            step = f'<step id="a" type="action" target="k.{name}"/>'
            agent.load(f'<recipe group="k" name="{name}" start_step="a" end_step="a">{step}</recipe>')
            run = agent.start(f"k.{name}")
            agent.until_idle()
            assert agent.run(run)["error"]["type"] == "KeyboardInterrupt"


def test_time_that_is_real_cannot_be_elapsed() -> None:
    with narval.open() as agent, pytest.raises(RequestError, match="SimulatedClock"):
        agent.elapse(seconds=1)


def test_a_stub_is_given_the_parameters_of_the_action_it_stands_for(module: Path) -> None:
    seen = []

    async def stub(mail: narval.Element) -> str:
        seen.append(mail.attributes["from"])
        return "<ack stub='yes'/>"

    with narval.open() as agent:
        agent.load(module)
        agent.load(RECIPES)
        agent.stub("w.answer", stub)
        agent.add("<mail from='a@b'/>")
        agent.wait(agent.start("w.answer"), 20)
        assert seen == ["a@b"]
        assert agent.memory("ack[@stub='yes']")


def test_a_run_is_started_for_each_element_or_for_none(module: Path) -> None:
    with narval.open() as agent:
        agent.load(module)
        agent.load(RECIPES)
        runs = agent.start_each(
            "w.answer", ["<mail from='a'/>", "<memory><mail from='b'/><mail from='c'/></memory>"]
        )
        agent.until_idle()
        assert [agent.run(run)["state"] for run in runs] == ["done"] * 3
        assert {element.attributes["to"] for element in agent.memory("ack")} == {"a", "b", "c"}
        with pytest.raises(ElementError):
            agent.start_each("w.answer", ["<mail from='d'/>", "<mail"])
        with pytest.raises(RequestError, match="did you mean"):
            agent.start_each("w.anser", ["<mail from='d'/>"])
        assert not agent.memory("mail[@from = 'd']")
        assert len(agent.runs()) == 3


def test_a_home_is_kept_between_two_openings(tmp_path: Path, module: Path) -> None:
    (tmp_path / "home/data").mkdir(parents=True)
    with narval.open(tmp_path / "home") as agent:
        eid = agent.add("<note/>")
    with narval.open(tmp_path / "home") as agent:
        assert [element.eid for element in agent.memory("note")] == [eid]


def test_a_home_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(NoHomeError):
        narval.open(tmp_path / "nowhere")


def test_a_quit_element_lets_nothing_more_begin(module: Path) -> None:
    with narval.open() as agent:
        agent.load(module)
        agent.load(RECIPES)
        agent.add("<mail from='a@b'/>")
        agent.add("<quit/>")
        run = agent.start("w.answer")
        agent.until_idle()
        assert agent.run(run)["state"] == "running"
        assert agent.memory("ack") == []


async def _sleep(mail: narval.Element) -> None:
    await asyncio.sleep(3600)


def test_waiting_for_a_run_ends_when_time_is_up(module: Path) -> None:
    with narval.open() as agent:
        agent.load(module)
        agent.load(RECIPES)
        agent.add("<mail from='a@b'/>")
        agent.stub("w.answer", _sleep)
        run = agent.wait(agent.start("w.answer"), 0.05)
        assert run["phase"] == "active"


def test_N6_what_is_obeyed_is_plain_or_in_the_control_namespace(tmp_path: Path) -> None:
    module = tmp_path / "n.py"
    module.write_text("from narval import action\n\n@action(runs='inline')\ndef none():\n    pass\n")
    with narval.open() as agent:
        agent.load(module)
        agent.load(
            '<recipe group="n" name="one" start_step="s" end_step="s">'
            '<step id="s" type="action" target="n.none"/></recipe>'
        )
        for namespace in ("urn:others", CONTROL):
            agent.add(f'<x:start-plan xmlns:x="{namespace}" recipe="n.one"/>')
            agent.until_idle()
            assert len(agent.runs()) == (namespace == CONTROL)


# --- a home with faults ---------------------------------------------------------------------------------


FAULTY = {
    "recipes/letters.xml": '<recipe group="post" name="sort"><step id="s" type="action"/></recipe>',
    "recipes/bank.task": 'task scan "Scans" {\n  state waiting\n',
    "modules/talk.py": "from narval import action\n\n@action\ndef say(:\n    pass\n",
}


@pytest.mark.parametrize(
    ("file", "line", "name"),
    [("recipes/letters.xml", 1, "post.sort"), ("modules/talk.py", 4, "talk.say")],
)
def test_what_a_faulty_file_holds_cannot_be_started_because_of_its_fault(
    tmp_path: Path, file: str, line: int, name: str
) -> None:
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_text(FAULTY[file])
    with pytest.warns(narval.FaultWarning, match=rf"{file}:{line}:\d+: ") as told:
        agent = narval.open(tmp_path)
    assert [Path(each.filename).name for each in told] == ["test_agent.py"], "it names who opened the home"
    with agent, pytest.raises(RequestError, match=f"{file} did not load: line {line}: "):
        agent.start(name)


def test_a_task_whose_file_has_faults_is_not_said_to_be_unknown(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "bank.task").write_text(FAULTY["recipes/bank.task"])
    with pytest.warns(narval.FaultWarning):
        agent = narval.open(tmp_path)
    with agent, pytest.raises(RequestError, match=r"recipes/bank\.task did not load: line \d+: expected"):
        agent.ask("task_queue", name="bank.scan")


def test_a_program_that_takes_warnings_for_errors_lets_go_of_the_home(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "letters.xml").write_text(FAULTY["recipes/letters.xml"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(narval.FaultWarning, match=r"letters\.xml:1:"):
                narval.open(tmp_path)


def test_a_home_without_faults_is_opened_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        narval.open(tmp_path).close()


ASKS = """<recipe group="w" name="asks" start_step="ask" end_step="ask">
  <step id="ask" type="work"><work><title>May it be?</title><outcome name="yes"/></work></step></recipe>"""


def test_a_person_answers_by_the_agent_that_is_asked_as_them() -> None:
    with narval.open() as agent:
        agent.load(ASKS)
        agent.start("w.asks")
        agent.until_idle()
        owner = agent.by(agent.ask("people")[0]["person"])
        [item] = owner.worklist()
        with pytest.raises(WorkRefusedError, match=r"agent\.by\(…\) in Python"):
            agent.answer(item["item"], "yes")
        with pytest.raises(WorkRefusedError, match=f"no person 'zoe' .*there is '{owner.asker.person}'"):
            agent.by("zoe").answer(item["item"], "yes")
        owner.answer(item["item"], "yes")
        owner.close()
        agent.until_idle()
        assert agent.memory("decision")[0].attributes["by"] == owner.asker.person
