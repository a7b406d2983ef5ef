"""Messages between the agents of a store: in memory once and in order, whatever is killed (G23 to G32)."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

import narval as narval_in_python
from narval.ask.asker import PROGRAM, Asker
from narval.ask.operations import invoke
from narval.core.errors import ElementError, NarvalError, RequestError
from narval.daemon.daemon import Daemon
from narval.files.check import check_home
from tests.daemon.at_work import Killed, Scene, in_a_loop, watched_commits

RECIPES = """<cookbook>
<recipe group="m" name="waits" start_step="a" end_step="b">
  <step id="a" type="action" target="m.nothing"/><step id="b" type="action" target="m.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/>
    <condition use="yes"><match>order[@al:from='narval']</match></condition></transition>
</recipe>
<recipe group="m" name="tells" start_step="tell" end_step="tell">
  <step id="tell" type="send" to="shop billing">
    <input id="message" list="yes" use="yes"><match>order</match></input></step>
</recipe>
<recipe group="m" name="chooses" start_step="tell" end_step="tell">
  <step id="tell" type="send" to-select="order/@for">
    <input id="message" list="yes"><match>order</match></input></step>
</recipe>
<recipe group="m" name="awaits" start_step="tell" end_step="tell">
  <step id="tell" type="send" to="shop billing" await="taken" timeout="1h">
    <input id="message" list="yes"><match>order</match></input></step>
</recipe>
<recipe group="m" name="rules" start_step="tell" end_step="tell">
  <step id="tell" type="send" to="narval" await="taken"><input id="message"><match>rule</match></input></step>
</recipe>
<recipe group="m" name="gives" start_step="a" end_step="a">
  <step id="a" type="action" target="m.give"/>
</recipe>
</cookbook>"""
MODULE = """
import narval
from narval import Output, action

@action(outputs=[Output("kept", "kept")], runs="inline")
def give():
    return [narval.Message("shop", "<order n='1'/>"), "<kept/>", narval.Message("shop", "<order n='2'/>")]

@action(runs="inline")
def nothing():
    pass
"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path, settings="timezone = 'UTC'\n")
    scene.write("modules/m.py", MODULE)
    scene.write("recipes/m.xml", RECIPES)
    return scene


async def ask(daemon: Daemon, agent: str, operation: str, **arguments: Any) -> Any:
    return await invoke(daemon, PROGRAM.asking(agent), operation, arguments)


async def opened(scene: Scene, *names: str) -> Daemon:
    daemon = await scene.open()
    for name in names:
        await ask(daemon, "", "add_agent", name=name)
    return daemon


async def send(daemon: Daemon, to: str, *texts: str, by: str = "", **more: Any) -> list[str]:
    found = await ask(daemon, by, "send", to=to, elements=[text.encode() for text in texts], **more)
    return list(found["messages"])


async def memory(daemon: Daemon, agent: str, xpath: str) -> list[dict[str, Any]]:
    await daemon.main_loop.until_idle()
    return list(await ask(daemon, agent, "memory", xpath=xpath))


@in_a_loop
async def test_G25_a_message_is_in_the_receivers_memory_with_its_origin(scene: Scene) -> None:
    daemon = await opened(scene, "shop")
    [id] = await send(daemon, "shop", "<order item='milk'/>")
    [order] = await memory(daemon, "shop", "order")
    assert order["origin"] == {"run": None, "step": None, "from": "narval", "message": id, "by": None}
    assert await memory(daemon, "", "order") == []
    assert daemon.store.letters.waiting() == []
    assert daemon.store.letters.messages(2) == []
    assert [tuple(row) for row in daemon.store.letters.taken(2)] == [(2, 1, 1)]
    of_a_call = Asker("ann", call="0.1")
    await invoke(daemon, of_a_call, "send", {"to": "shop", "elements": [b"<note/>"]})
    [note] = await memory(daemon, "shop", "note")
    assert note["origin"]["by"] == "ann"
    assert note["origin"]["actor"].startswith("a program of a run")
    await scene.end()


@in_a_loop
async def test_G26_the_stamp_is_set_by_the_receivers_daemon_and_found_by_the_index(scene: Scene) -> None:
    daemon = await opened(scene, "shop")
    run = (await ask(daemon, "shop", "start", name="m.waits"))["eid"]
    ns = "xmlns:a='http://www.logilab.org/namespaces/Narval/1.2'"
    await send(daemon, "shop", "<order al:from='narval' xmlns:al='urn:other'/>", by="")
    await daemon.main_loop.until_idle()
    assert (await ask(daemon, "shop", "show", run=run))["state"] == "done"
    await ask(daemon, "", "add_agent", name="eve")
    [id] = await send(daemon, "shop", f"<order {ns} a:from='narval' a:message='1' n='2'/>", by="eve")
    [row] = await memory(daemon, "shop", "order[@n='2']")
    found = await memory(daemon, "shop", "order[@al:from='eve']")
    assert [order["eid"] for order in found] == [row["eid"]]
    assert f'message="{id}"' in row["xml"]
    assert "narval" not in row["xml"].replace("namespaces/Narval", "")
    await scene.end()


@in_a_loop
async def test_G25_a_passive_receiver_is_activated_and_each_pair_is_in_order(scene: Scene) -> None:
    daemon = await opened(scene, "shop", "ada")
    assert len(daemon.rounds.participants) == 1
    senders = ("", "ada", "shop")
    for n in range(120):
        await send(daemon, "shop", f"<order n='{n}'/>", by=senders[n % 3])
    orders = await memory(daemon, "shop", "order")
    for at, sender in enumerate(("narval", "ada", "shop")):
        found = [order["xml"] for order in orders if order["origin"]["from"] == sender]
        assert [re.search('n="([0-9]+)"', xml)[1] for xml in found] == list(map(str, range(at, 120, 3)))
    await scene.end()


@in_a_loop
async def test_G30_a_suspended_receiver_is_waited_for_and_a_turn_takes_a_hundred(scene: Scene) -> None:
    daemon = await opened(scene, "shop")
    await ask(daemon, "", "suspend", name="shop")
    await send(daemon, "shop", *(f"<order n='{n}'/>" for n in range(250)))
    assert await memory(daemon, "shop", "order") == []
    assert len(daemon.store.letters.messages(2)) == 250
    await ask(daemon, "", "resume", name="shop")
    assert len(await memory(daemon, "shop", "order")) == 250
    await scene.end()


@in_a_loop
async def test_G24_what_was_sent_without_a_daemon_or_before_a_kill_is_taken_by_the_next(scene: Scene) -> None:
    await opened(scene, "shop")
    await scene.end()
    daemon = await scene.open(record_only=True)
    await send(daemon, "shop", "<order n='1'/>")
    await scene.end()
    daemon = await scene.open()
    assert len(await memory(daemon, "shop", "order")) == 1
    await send(daemon, "narval", "<note/>", by="shop")
    assert len(await memory(daemon, "", "note[@al:from='shop']")) == 1
    await scene.end()


@in_a_loop
async def test_G29_control_elements_and_what_the_receiver_declares_are_refused(scene: Scene) -> None:
    scene.write("data/memory.xml", "<memory><rule name='quiet'/></memory>")
    daemon = await opened(scene, "shop")
    await send(daemon, "narval", "<quit/>", "<rule name='loud'/>", "<note/>", by="shop")
    assert len(await memory(daemon, "", "note")) == 1
    assert len(await memory(daemon, "", "rule")) == 1
    errors = await memory(daemon, "shop", "error[@type='undelivered']")
    assert ['reason="not-granted"' in row["xml"] for row in errors] == [True, True]
    assert [letter.receiver for letter in daemon.store.letters.dead(2)] == ["narval", "narval"]
    assert not daemon.stop.requested
    await scene.end()


@in_a_loop
async def test_G32_who_is_not_there_is_refused_with_the_names_that_are(scene: Scene) -> None:
    daemon = await opened(scene, "shop")
    with pytest.raises(RequestError, match=r"no agent 'shob' here \(did you mean 'shop'"):
        await send(daemon, "shob", "<order/>")
    await scene.end()


async def run_of(daemon: Daemon, name: str, *texts: str, agent: str = "") -> int:
    """The run of a recipe, begun once these elements are in memory."""
    await ask(daemon, agent, "add", elements=[text.encode() for text in texts])
    run = int((await ask(daemon, agent, "start", name=name))["eid"])
    await daemon.main_loop.until_idle()
    return run


def numbers(rows: list[dict[str, Any]]) -> list[str]:
    return [re.search(' n="([^"]*)"', row["xml"])[1] for row in rows]  # type: ignore[index]


@in_a_loop
async def test_G27_a_step_sends_each_element_to_each_agent_in_order(scene: Scene) -> None:
    daemon = await opened(scene, "shop", "billing")
    run = await run_of(daemon, "m.tells", "<order n='1'/>", "<order n='2'/>")
    assert (await ask(daemon, "", "show", run=run))["state"] == "done"
    for agent in ("shop", "billing"):
        assert numbers(await memory(daemon, agent, "order")) == ["1", "2"]
    first, second = (row["origin"]["message"] for row in await memory(daemon, "shop", "order"))
    assert second == f"{first}/3"
    assert first.startswith(daemon.host.dispatcher.external_id(""))
    again = await run_of(daemon, "m.tells")
    shown = await ask(daemon, "", "show", run=again)
    assert (shown["state"], shown["error"]["type"]) == ("failed", "input-missing"), "use marks what was sent"
    await scene.end()


@in_a_loop
async def test_G27_the_receiver_may_stand_in_the_element(scene: Scene) -> None:
    daemon = await opened(scene, "shop", "billing")
    run = await run_of(daemon, "m.chooses", "<order n='1' for='shop'/>", "<order n='2' for='billing'/>")
    assert (await ask(daemon, "", "show", run=run))["state"] == "done"
    assert numbers(await memory(daemon, "shop", "order")) == ["1"]
    assert numbers(await memory(daemon, "billing", "order")) == ["2"]
    run = await run_of(daemon, "m.chooses", "<order n='3'/>")
    assert (await ask(daemon, "", "show", run=run))["error"]["type"] == "no-receiver"
    await scene.end()


@in_a_loop
async def test_G27_a_step_may_wait_until_all_is_taken(scene: Scene) -> None:
    daemon = await opened(scene, "shop", "billing")
    await ask(daemon, "", "suspend", name="billing")
    run = await run_of(daemon, "m.awaits", "<order n='1'/>", "<order n='2'/>")
    assert numbers(await memory(daemon, "shop", "order")) == ["1", "2"]
    assert (await ask(daemon, "", "show", run=run))["state"] == "running"
    [wait] = (await ask(daemon, "", "why", run=run))["waiting"]
    at = wait["calls"][0]["at"]
    assert (at["agent"], at["state"], at["agent_state"]) == ("billing", "untaken", "suspended")
    assert at["since"] is not None
    await scene.end()
    daemon = await scene.open()
    await daemon.main_loop.until_idle()
    assert (await ask(daemon, "", "show", run=run))["state"] == "running"
    assert len(daemon.store.letters.messages(3)) == 2, "it is not sent again"
    await ask(daemon, "", "resume", name="billing")
    await daemon.main_loop.until_idle()
    assert (await ask(daemon, "", "show", run=run))["state"] == "done"
    assert numbers(await memory(daemon, "billing", "order")) == ["1", "2"]
    await scene.end()


@in_a_loop
async def test_G27_what_is_awaited_and_refused_is_an_error_of_the_step(scene: Scene) -> None:
    scene.write("data/memory.xml", "<memory><rule name='quiet'/></memory>")
    daemon = await opened(scene, "shop")
    run = await run_of(daemon, "m.rules", "<rule name='loud'/>", agent="shop")
    shown = await ask(daemon, "shop", "show", run=run)
    assert (shown["state"], shown["error"]["type"]) == ("failed", "undelivered")
    assert "declares its rule itself" in shown["error"]["message"]
    await scene.end()


@in_a_loop
async def test_G28_an_action_sends_with_its_return(scene: Scene) -> None:
    daemon = await opened(scene, "shop")
    run = await run_of(daemon, "m.gives", "<mail/>")
    assert (await ask(daemon, "", "show", run=run))["state"] == "done"
    assert len(await memory(daemon, "", "kept")) == 1
    assert numbers(await memory(daemon, "shop", "order")) == ["1", "2"]
    await scene.end()


@in_a_loop
async def test_G32_what_is_sent_to_nobody_is_an_error_in_memory(scene: Scene) -> None:
    daemon = await opened(scene, "shop")
    run = await run_of(daemon, "m.tells", "<order n='1'/>")
    assert (await ask(daemon, "", "show", run=run))["state"] == "done"
    [error] = await memory(daemon, "", "error[@type='undelivered']")
    assert 'receiver="billing"' in error["xml"]
    assert 'reason="unknown-agent"' in error["xml"]
    [order] = await memory(daemon, "", "order")
    assert f'element="{order["eid"]}"' in error["xml"]
    assert [letter.receiver for letter in daemon.store.letters.dead(1)] == ["billing"]
    await scene.end()


# --- who may, and how much (G29, G31, G32) --------------------------------------------------------------


async def errors(daemon: Daemon, agent: str) -> list[str]:
    found = await memory(daemon, agent, "error[@type='undelivered']")
    return [re.search('reason="([^"]*)"', row["xml"])[1] for row in found]  # type: ignore[index]


@in_a_loop
async def test_G29_only_what_an_agent_receives_is_taken_and_control_elements_where_it_says_so(
    scene: Scene,
) -> None:
    own = '{from = "narval", elements = ["order", "start-plan"]}'
    scene.write("agents/shop/agent.toml", f'receives = [{own}, {{from = "*", elements = ["note"]}}]')
    daemon = await opened(scene, "ada")
    start = "<start-plan recipe='m.waits'/>"
    await send(daemon, "shop", "<order/>", "<bill/>", start, "<note/>")
    await send(daemon, "shop", "<order/>", start, "<note/>", by="ada")
    assert len(await memory(daemon, "shop", "order")) == 1
    assert len(await memory(daemon, "shop", "note")) == 2
    assert len(await ask(daemon, "shop", "runs")) == 1
    assert await errors(daemon, "") == ["not-granted"]
    assert await errors(daemon, "ada") == ["not-granted"] * 2
    await scene.end()


@in_a_loop
async def test_G29_schemas_are_those_of_the_receiver(scene: Scene) -> None:
    scene.write("etc/schemas/order.dtd", "<!ELEMENT order EMPTY><!ATTLIST order n CDATA #REQUIRED>")
    daemon = await opened(scene, "shop")
    await send(daemon, "shop", "<order/>", "<order n='1'/>")
    assert numbers(await memory(daemon, "shop", "order")) == ["1"]
    assert await errors(daemon, "") == ["invalid"]
    await scene.end()


@in_a_loop
async def test_G31_a_send_waits_for_room_and_why_says_so(scene: Scene) -> None:
    daemon = await opened(scene, "shop", "billing")
    await ask(daemon, "", "suspend", name="shop")
    await send(daemon, "shop", *(f"<old n='{n}'/>" for n in range(1000)))
    with pytest.raises(RequestError, match=r"no room in the mailbox of shop \(1,000 not taken\)"):
        await send(daemon, "shop", "<old/>")
    run = await run_of(daemon, "m.tells", "<order n='1'/>")
    assert (await ask(daemon, "", "show", run=run))["state"] == "running"
    [wait] = (await ask(daemon, "", "why", run=run))["waiting"]
    assert wait["calls"][0]["place"] == "room in the mailbox of shop (1,000 not taken)"
    given = await run_of(daemon, "m.gives")
    assert (await ask(daemon, "", "show", run=given))["state"] == "running"
    other = await run_of(daemon, "m.waits")
    assert (await ask(daemon, "", "show", run=other))["state"] == "running", "others go on"
    await scene.end()
    daemon = await scene.open()
    await daemon.main_loop.until_idle()
    assert (await ask(daemon, "", "show", run=run))["state"] == "running"
    await ask(daemon, "", "resume", name="shop")
    await daemon.main_loop.until_idle()
    assert (await ask(daemon, "", "show", run=run))["state"] == "done"
    assert (await ask(daemon, "", "show", run=given))["state"] == "done"
    assert len(await memory(daemon, "shop", "old")) == 1000
    assert sorted(numbers(await memory(daemon, "shop", "order"))) == ["1", "1", "2"]
    await scene.end()


@in_a_loop
async def test_G31_the_limit_of_a_receiver_counts_all_senders(scene: Scene) -> None:
    scene.write("agents/shop/agent.toml", "messages = 3\n")
    daemon = await opened(scene, "ada")
    await ask(daemon, "", "suspend", name="shop")
    await send(daemon, "shop", "<a/>", "<b/>", by="ada")
    await send(daemon, "shop", "<c/>")
    with pytest.raises(RequestError, match="3 not taken"):
        await send(daemon, "shop", "<d/>")
    await scene.end()


@in_a_loop
async def test_G31_a_send_that_waits_may_be_cancelled_or_out_of_time(scene: Scene) -> None:
    daemon = await opened(scene, "shop", "billing")
    await ask(daemon, "", "suspend", name="shop")
    await send(daemon, "shop", *("<old/>" for n in range(1000)))
    run = await run_of(daemon, "m.awaits", "<order n='1'/>")
    cancelled = await run_of(daemon, "m.awaits")
    await ask(daemon, "", "cancel", run=cancelled)
    await daemon.main_loop.elapse(3599.0)
    assert (await ask(daemon, "", "show", run=cancelled))["state"] == "cancelled"
    assert (await ask(daemon, "", "show", run=run))["state"] == "running"
    await daemon.main_loop.elapse(2.0)
    assert (await ask(daemon, "", "show", run=run))["error"]["type"] == "timeout"
    await scene.end()


@in_a_loop
async def test_G32_what_waited_for_too_long_is_a_dead_letter(scene: Scene) -> None:
    daemon = await opened(scene, "shop")
    await ask(daemon, "", "suspend", name="shop")
    await send(daemon, "shop", "<order n='1'/>", keep=60.0)
    await send(daemon, "shop", "<order n='2'/>")
    await daemon.main_loop.elapse(59.0)
    assert await errors(daemon, "") == []
    await daemon.main_loop.elapse(2.0)
    assert await errors(daemon, "") == ["expired"]
    assert [row.number for row in daemon.store.letters.messages(2)] == [2]
    await daemon.main_loop.elapse(8 * 86_400.0)
    assert await errors(daemon, "") == ["expired", "expired"], "a week is what the settings say"
    await ask(daemon, "", "resume", name="shop")
    assert await memory(daemon, "shop", "order") == []
    await send(daemon, "shop", "<order n='3'/>")
    assert numbers(await memory(daemon, "shop", "order")) == ["3"]
    await scene.end()


@in_a_loop
async def test_G20_what_was_sent_to_an_agent_that_is_removed_is_dead_and_its_namesake_gets_nothing(
    scene: Scene,
) -> None:
    daemon = await opened(scene, "shop", "ada")
    await ask(daemon, "", "suspend", name="shop")
    await send(daemon, "shop", "<order n='1'/>")
    await send(daemon, "shop", "<order n='2'/>", by="ada")
    await ask(daemon, "", "remove_agent", name="shop")
    assert await errors(daemon, "") == ["removed"]
    assert await errors(daemon, "ada") == ["removed"]
    await ask(daemon, "", "add_agent", name="shop")
    await send(daemon, "shop", "<order n='3'/>")
    assert numbers(await memory(daemon, "shop", "order")) == ["3"]
    [letter] = await ask(daemon, "ada", "letters", dead=True)
    assert (letter["to"], letter["element"], letter["agent"]) == ("shop", "order", "ada")
    assert "removed" in letter["reason"]
    await ask(daemon, "ada", "resend", letter=letter["letter"])
    assert numbers(await memory(daemon, "shop", "order")) == ["3", "2"]
    assert await ask(daemon, "ada", "letters", dead=True) == []
    with pytest.raises(RequestError, match="there is no dead letter"):
        await ask(daemon, "ada", "resend", letter=letter["letter"])
    [own] = await ask(daemon, "", "letters", dead=True)
    await ask(daemon, "", "drop_letter", letter=own["letter"])
    assert await ask(daemon, "", "letters", dead=True) == []
    await scene.end()


@in_a_loop
async def test_G32_letters_lists_what_is_on_its_way(scene: Scene) -> None:
    daemon = await opened(scene, "shop")
    await ask(daemon, "", "suspend", name="shop")
    await send(daemon, "shop", "<order n='1'/>", keep=60.0)
    for agent in ("", "shop"):
        [letter] = await ask(daemon, agent, "letters")
        assert (letter["from"], letter["to"], letter["element"]) == ("narval", "shop", "order")
    await scene.end()


@in_a_loop
async def test_G32_dead_letters_are_kept_for_thirty_days(scene: Scene) -> None:
    daemon = await opened(scene, "shop")
    await send(daemon, "shop", "<quit/>")
    await daemon.main_loop.elapse(31 * 86_400.0)
    assert len(await ask(daemon, "", "letters", dead=True)) == 1
    await send(daemon, "shop", "<quit/>")
    await daemon.main_loop.until_idle()
    assert len(await ask(daemon, "", "letters", dead=True)) == 1
    await scene.end()


@in_a_loop
async def test_G31_a_receiver_without_room_takes_nothing_until_it_has_some(scene: Scene) -> None:
    scene.write("agents/shop/agent.toml", "elements = 30\nforget_after = '1h'\nelement_bytes = '1K'\n")
    daemon = await opened(scene)
    async with daemon.of("shop") as seen:
        there = len(seen.agent.memory)
    await send(daemon, "shop", *(f"<order n='{n}'/>" for n in range(40 - there)))
    taken = await memory(daemon, "shop", "order")
    assert 0 < len(taken) < 40 - there
    assert len(daemon.store.letters.messages(2)) == 40 - there - len(taken)
    await daemon.main_loop.elapse(4000.0)
    assert daemon.store.letters.messages(2) == []
    await send(daemon, "shop", f"<order n='x'>{'x' * 1100}</order>")
    await daemon.main_loop.until_idle()
    assert await errors(daemon, "") == ["too-large"]
    await scene.end()


@in_a_loop
async def test_G31_a_receiver_takes_what_waits_once_its_limit_is_higher(scene: Scene) -> None:
    scene.write("agents/shop/agent.toml", "elements = 5\n")
    daemon = await opened(scene)
    await send(daemon, "shop", "<order/>", "<order/>")
    await daemon.main_loop.until_idle()
    assert await memory(daemon, "shop", "order") == []
    scene.write("agents/shop/agent.toml", "elements = 100\n")
    await daemon.reloader.reload()
    await daemon.main_loop.until_idle()
    assert len(await memory(daemon, "shop", "order")) == 2
    await scene.end()


@in_a_loop
async def test_G32_what_waits_too_long_for_room_is_a_dead_letter(scene: Scene) -> None:
    scene.write("agents/shop/agent.toml", "elements = 5\n")
    daemon = await opened(scene)
    await send(daemon, "shop", "<order n='1'/>", keep=60.0)
    await send(daemon, "shop", "<order n='2'/>")
    await send(daemon, "shop", "<order n='3'/>", keep=60.0)
    await daemon.main_loop.elapse(61.0)
    assert await errors(daemon, "") == ["expired"]
    assert [row.number for row in daemon.store.letters.messages(2)] == [2, 3], "in order"
    scene.write("agents/shop/agent.toml", "elements = 100\n")
    await daemon.reloader.reload()
    await daemon.main_loop.until_idle()
    assert await errors(daemon, "") == ["expired", "expired"]
    assert numbers(await memory(daemon, "shop", "order")) == ["2"]
    await scene.end()


# --- whatever is killed (G24, G25) ----------------------------------------------------------------------


async def correspondence(scene: Scene) -> None:
    """Two orders go out, one of them awaited; what cannot be taken comes back."""
    daemon = await scene.open()
    await daemon.main_loop.until_idle()
    known = [row["xml"] for row in await ask(daemon, "", "memory", xpath="order")]
    for n in range(len(known), 2):
        await ask(daemon, "", "add", elements=[f"<order n='{n}'/>".encode()])
    begun = {row["name"] for row in await ask(daemon, "", "runs")}
    for name in ("m.awaits", "m.tells"):
        if name not in begun:
            await ask(daemon, "", "start", name=name)
            await daemon.main_loop.until_idle()


def test_G24_G25_whatever_is_killed_at_any_commit_each_is_taken_once_and_in_order(tmp_path: Path) -> None:
    async def lived(folder: Path, kill_at: tuple[int, bool] | None) -> tuple[dict[str, list[str]], int]:
        scene = Scene(folder, settings="timezone = 'UTC'\n")
        scene.write("modules/m.py", MODULE)
        scene.write("recipes/m.xml", RECIPES)
        with watched_commits(scene):
            await opened(scene, "shop", "billing")
            await scene.end()
            scene.commits, scene.kill_at = 0, kill_at
            try:
                await correspondence(scene)
            except (Killed, NarvalError):
                await scene.end()
                scene.kill_at = None
                await correspondence(scene)
            commits = scene.commits
            scene.kill_at = None
            await scene.end()
            daemon = await scene.open()
            await daemon.main_loop.until_idle()
            taken = {name: numbers(await memory(daemon, name, "order")) for name in ("shop", "billing")}
            assert daemon.store.letters.waiting() == []
            assert {row["state"] for row in await ask(daemon, "", "runs")} == {"done"}
            await scene.end()
        return taken, commits

    expected, commits = asyncio.run(lived(tmp_path / "whole", None))
    assert expected == {"shop": ["0", "1"] * 2, "billing": ["0", "1"] * 2}
    for commit in range(1, commits + 1):
        for is_written in (False, True):
            at = (commit, is_written)
            found, _ = asyncio.run(lived(tmp_path / f"{commit}{is_written}", at))
            assert found == expected, at


@in_a_loop
async def test_G26_hostile_xml_is_taken_as_it_is_or_refused(scene: Scene) -> None:
    daemon = await opened(scene, "shop")
    with pytest.raises(ElementError, match="DOCTYPE"):
        await send(daemon, "shop", "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>")
    for name in ("plan", "recipe"):
        with pytest.raises(ElementError, match="what narval calls"):
            await send(daemon, "shop", f"<{name}/>")
    await send(
        daemon,
        "shop",
        "<o a='&lt;&quot;>' xmlns='urn:x'><b xmlns:al='urn:y' al:from='eve'/><!-- al:from='eve' --></o>",
        "<al:o xmlns:al='http://www.logilab.org/namespaces/Narval/1.2' al:from='eve' al:to='x'>é</al:o>",
        "<o xmlns:ns0='http://www.logilab.org/namespaces/Narval/1.2' ns0:message='eve'/>",
    )
    found = await memory(daemon, "shop", "*[@al:from='narval' and @al:message]")
    assert len(found) == 3
    assert not any("eve" in row["xml"].partition(">")[0] for row in found)
    await scene.end()


@in_a_loop
async def test_G31_an_element_of_sixteen_megabytes_is_sent(scene: Scene) -> None:
    daemon = await opened(scene, "shop")
    text = "<p>" + "x" * 1_000_000 + "</p>"
    await send(daemon, "shop", f"<order n='1'>{text * 15}</order>")
    with pytest.raises(RequestError, match="no room"):
        await send(daemon, "shop", f"<order n='0'>{text * 2}</order>")
    await daemon.main_loop.until_idle()
    await send(daemon, "shop", f"<order n='2'>{text * 15}</order>")
    assert numbers(await memory(daemon, "shop", "order")) == ["1", "2"]
    await scene.end()


@in_a_loop
async def test_N13_an_agent_that_is_not_there_yet_is_a_warning(scene: Scene) -> None:
    await opened(scene, "shop")
    await scene.end()
    warned = [fault.message for fault in check_home(scene.home) if "there is no agent" in fault.message]
    assert len(warned) == 2, "two steps send to billing"
    assert all("narval agents add billing" in message for message in warned)


def test_G27_a_simulation_says_what_would_be_sent(scene: Scene) -> None:
    scene.write("data/memory.xml", "<memory><order n='1'/></memory>")
    with narval_in_python.open(scene.home.path) as agent:
        told = agent.simulate("m.tells", memory="new")
    sent = [line for line in told["happened"] if line["what"] == "sent"]
    assert [(line["step"], line["to"], len(line["elements"])) for line in sent] == [
        ("tell", ["shop", "billing"], 1)
    ]
    assert [run["state"] for run in told["runs"]] == ["done"]
