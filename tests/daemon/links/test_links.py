"""Links between two stores: messages, calls, what comes back; each once and in order (G39 to G41)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from narval.core.errors import RequestError
from narval.daemon.links.frame import Message, decode, encode
from narval.daemon.messages.envelope import seal, unseal
from narval.files.check import check_home
from narval.store.backups.backup import back_up
from narval.store.backups.restore import opened, restore_all
from tests.daemon.at_work import in_a_loop
from tests.daemon.links.two_homes import OTHER, TwoHomes

RECIPES = """<cookbook>
<recipe group="m" name="asks" start_step="a" end_step="a">
  <step id="a" type="recipe" target="m.invoice" agent="shop@office" timeout="1h">
    <input id="order"><match>order</match></input></step>
</recipe>
<recipe group="m" name="hangs" start_step="a" end_step="a">
  <step id="a" type="recipe" target="m.waits" agent="shop@office" timeout="100"/>
</recipe>
<recipe group="m" name="awaits" start_step="a" end_step="a">
  <step id="a" type="send" to="shop@office" await="taken" timeout="1h">
    <input id="order" list="yes"><match>order</match></input></step>
</recipe>
<recipe group="m" name="invoice" start_step="a" end_step="a">
  <step id="a" type="action" target="m.invoice"/>
</recipe>
<recipe group="m" name="waits" start_step="a" end_step="b">
  <step id="a" type="action" target="m.nothing"/><step id="b" type="action" target="m.nothing"/>
  <transition id="t"><in idref="a"/><out idref="b"/><condition><match>go</match></condition></transition>
</recipe>
</cookbook>"""
MODULE = """
from narval import Input, Output, action

@action(inputs=[Input("order", "order")], outputs=[Output("invoice", "invoice")], runs="inline")
def invoice(order):
    return f"<invoice of='{order.attributes.get('n')}'/>"

@action(runs="inline")
def nothing():
    pass
"""
SHOP = """receives = [{from = "*@home", elements = ["order"]}]
offers = {"m.invoice" = ["narval@home"], "m.waits" = ["*@home"]}
"""


@pytest.fixture
def homes(tmp_path: Path) -> TwoHomes:
    homes = TwoHomes(tmp_path)
    for name in ("home", "office"):
        homes.write(name, "recipes/m.xml", RECIPES)
        homes.write(name, "modules/m.py", MODULE)
    homes.write("office", "agents/shop/agent.toml", SHOP)
    return homes


@in_a_loop
async def test_G39_a_message_goes_to_an_agent_of_the_peer_and_is_gone_once_that_has_it(
    homes: TwoHomes,
) -> None:
    await homes.open()
    ids = await homes.send("home", "shop@office", "<order n='1'/>", "<order n='2'/>")
    assert [row["to"] for row in await homes.ask("home", "letters")] == ["shop@office"] * 2
    await homes.exchange()
    orders = await homes.memory("office", "order", "shop")
    assert [order["origin"]["from"] for order in orders] == ["narval@home"] * 2
    assert [order["origin"]["message"] for order in orders] == ids
    assert await homes.memory("office", "order[@al:from='narval@home']", "shop") == orders
    assert await homes.ask("home", "letters") == []
    await homes.exchange(asking="office")
    assert len(await homes.memory("office", "order", "shop")) == 2
    await homes.close()


@in_a_loop
async def test_G41_what_a_call_and_its_return_say_goes_over_the_link(homes: TwoHomes) -> None:
    await homes.open()
    await homes.ask("home", "add", elements=[b"<order n='7'/>"])
    run = (await homes.ask("home", "start", name="m.asks"))["eid"]
    await homes.exchange()
    assert (await homes.ask("home", "show", run=run))["state"] == "done"
    [invoice] = await homes.memory("home", "invoice")
    assert invoice["origin"]["from"] == "shop@office"
    await homes.close()


@in_a_loop
async def test_G35_a_call_that_is_given_up_ends_at_the_peer(homes: TwoHomes) -> None:
    await homes.open()
    run = (await homes.ask("home", "start", name="m.hangs"))["eid"]
    await homes.exchange()
    [answering] = await homes.ask("office", "runs", "shop")
    assert answering["state"] == "running"
    await homes.ask("home", "cancel", run=run)
    await homes.exchange(6)
    [answering] = await homes.ask("office", "runs", "shop")
    assert answering["state"] == "cancelled"
    assert (await homes.ask("home", "show", run=run))["state"] == "cancelled"
    await homes.close()


@in_a_loop
async def test_G27_a_step_that_awaits_ends_with_the_last_receipt_of_the_peer(homes: TwoHomes) -> None:
    await homes.open()
    await homes.ask("home", "add", elements=[b"<order n='1'/>", b"<order n='2'/>"])
    run = (await homes.ask("home", "start", name="m.awaits"))["eid"]
    await homes.ask("office", "suspend", name="shop")
    await homes.exchange()
    assert await homes.ask("home", "letters") == []
    assert (await homes.ask("home", "show", run=run))["state"] == "running"
    await homes.ask("office", "resume", name="shop")
    await homes.exchange()
    assert (await homes.ask("home", "show", run=run))["state"] == "done"
    await homes.close()


@in_a_loop
async def test_G32_what_the_peer_does_not_take_comes_back_as_a_dead_letter(homes: TwoHomes) -> None:
    await homes.open()
    await homes.send("home", "shop@office", "<secret/>", "<start-plan recipe='m.waits'/>")
    await homes.send("home", "nobody@office", "<order/>")
    await homes.exchange()
    errors = await homes.memory("home", "error[@type='undelivered']")
    shop = [error for error in errors if 'receiver="shop@office"' in error["xml"]]
    assert (len(errors), len(shop)) == (3, 2)
    assert all("<message>shop@office did not take it: " in error["xml"] for error in shop)
    letters = await homes.ask("home", "letters", dead=True)
    assert [(row["to"], row["element"]) for row in letters] == [
        ("nobody@office", "order"),
        ("shop@office", "secret"),
        ("shop@office", "start-plan"),
    ]
    homes.write("office", "agents/shop/agent.toml", SHOP.replace('"order"', '"order", "secret"'))
    await homes.daemons["office"].reloader.reload()
    again = next(row["letter"] for row in letters if row["element"] == "secret")
    await homes.ask("home", "resend", letter=again)
    await homes.exchange()
    assert len(await homes.memory("office", "secret", "shop")) == 1
    await homes.close()


@pytest.mark.parametrize(
    "wrong",
    [{"number": 2**63}, {"kind": "zzz\0"}, {"id": "another"}, {"until": float("nan")}, {"inputs": [-1]}],
)
@in_a_loop
async def test_G40_a_letter_that_no_store_can_have_is_not_kept(
    homes: TwoHomes, wrong: dict[str, Any]
) -> None:
    await homes.open()
    await homes.send("home", "nobody@office", "<order/>")
    frame = await homes.frame("home")
    for _ in range(4):
        answer = decode(await homes.frame("office", frame))
        frame = await homes.frame("home", encode(replace(answer, messages=tuple(
            replace(message, envelope=_with_letter(message.envelope, wrong)) for message in answer.messages
        ))))  # fmt: skip
    await homes.rest()
    assert len(await homes.memory("home", "error[@type='undelivered']")) == 1
    assert await homes.ask("home", "letters", dead=True) == []
    await homes.close()


def _with_letter(envelope: bytes, wrong: dict[str, Any]) -> bytes:
    """An envelope in whose letter something is otherwise."""
    said = unseal(envelope)
    assert said.letter
    letter = {**msgspec.msgpack.decode(said.letter), **wrong}
    return seal(replace(said, letter=msgspec.msgpack.encode(letter)))


@in_a_loop
async def test_G40_an_error_of_another_type_tells_of_no_message(homes: TwoHomes) -> None:
    await homes.open()
    await homes.send("home", "nobody@office", "<order/>")
    frame = await homes.frame("home")
    for _ in range(4):
        answer = decode(await homes.frame("office", frame))
        frame = await homes.frame("home", encode(replace(answer, messages=tuple(
            replace(message, data=b"<error type='anything'/>") for message in answer.messages
        ))))  # fmt: skip
    assert await homes.memory("home", "error") == []
    await homes.close()


@in_a_loop
async def test_G40_that_nobody_takes_a_message_counts_once_and_of_one_that_was_sent(homes: TwoHomes) -> None:
    await homes.open()
    [id] = await homes.send("home", "nobody@office", "<order/>")
    frame, answers = await homes.frame("home"), list[Message]()
    while not answers:
        answer = decode(await homes.frame("office", frame))
        answers = [replace(of, number=of.number + n, id=said) for of in answer.messages
                   for n, said in enumerate((f"{id}0", id, f"{id}1", id))]  # fmt: skip
        frame = await homes.frame("home", encode(replace(answer, messages=tuple(answers))))
    assert [of.kind for of in answers] == ["undelivered"] * 4
    assert len(await homes.memory("home", "error")) == 1
    await homes.close()


@in_a_loop
async def test_G40_that_nobody_takes_a_message_is_believed_after_a_restart_too(homes: TwoHomes) -> None:
    await homes.open()
    await homes.ask("office", "suspend", name="shop")
    await homes.send("home", "shop@office", "<secret/>")
    await homes.exchange()
    assert await homes.ask("home", "letters") == []
    await homes.close("home")
    await homes.open("home")
    await homes.ask("office", "resume", name="shop")
    await homes.exchange()
    assert len(await homes.memory("home", "error[@type='undelivered']")) == 1
    await homes.close()


@in_a_loop
async def test_G32_a_message_to_a_peer_that_is_away_ends_at_its_time(homes: TwoHomes) -> None:
    await homes.open("home")
    await homes.send("home", "shop@office", "<order n='1'/>", keep=60.0)
    await homes.send("home", "shop@office", "<order n='2'/>")
    homes.scenes["home"].clock.advance(61.0)
    for _ in range(2):
        [error] = await homes.memory("home", "error[@type='undelivered']")
        assert "it waited for longer than it was to be kept" in error["xml"]
        [letter] = await homes.ask("home", "letters", dead=True)
        assert letter["to"] == "shop@office"
        assert [row["until"] > letter["until"] for row in await homes.ask("home", "letters")] == [True]
        [link] = await homes.ask("home", "links")
        assert (link["messages"], link["bytes"]) == (1, len("<order n='2'/>"))
        await homes.close("home")
        await homes.open("home")
    await homes.open("office")  # its clock is behind: for it there would be time left
    await homes.exchange()
    [order] = await homes.memory("office", "order", "shop")
    assert 'n="2"' in order["xml"]
    assert len(await homes.memory("home", "error[@type='undelivered']")) == 1
    assert await homes.ask("home", "letters") == []
    await homes.close()


@in_a_loop
async def test_G32_a_message_that_has_ended_is_not_told_of_again_as_the_link_ends(homes: TwoHomes) -> None:
    await homes.open("home")
    await homes.send("home", "shop@office", "<order/>", keep=60.0)
    homes.scenes["home"].clock.advance(61.0)
    assert len(await homes.memory("home", "error[@type='undelivered']")) == 1
    homes.write("home", "etc/peers.toml", "")
    await homes.daemons["home"].reloader.reload()
    assert len(await homes.memory("home", "error[@type='undelivered']")) == 1
    await homes.close()


@in_a_loop
async def test_G35_a_call_ends_with_the_agent_of_the_peer_that_is_removed(homes: TwoHomes) -> None:
    await homes.open()
    run = (await homes.ask("home", "start", name="m.hangs"))["eid"]
    await homes.exchange()
    shutil.rmtree(homes.scenes["office"].home.path / "agents/shop")
    await homes.daemons["office"].reloader.reload()
    await homes.ask("office", "remove_agent", name="shop", now=True)
    await homes.exchange()
    shown = await homes.ask("home", "show", run=run)
    assert (shown["state"], shown["error"]["type"]) == ("failed", "undelivered")
    await homes.close()


@in_a_loop
async def test_G40_without_a_rule_nothing_comes_from_another_home(homes: TwoHomes) -> None:
    await homes.open()
    await homes.send("home", "narval@office", "<order/>")
    await homes.exchange()
    assert await homes.memory("office", "order") == []
    (error,) = await homes.memory("home", "error")
    assert "takes no order from narval@home: no rule of its `receives` names it" in error["xml"]
    homes.write("home", "etc/peers.toml", f'[office]\ntoken_sha256 = "{"0" * 64}"\nagents = ["ada"]\n')
    await homes.daemons["home"].reloader.reload()
    with pytest.raises(RequestError, match="narval may not write to agents of office"):
        await homes.send("home", "shop@office", "<order/>")
    with pytest.raises(RequestError, match="there is no peer 'offce'"):
        await homes.send("home", "shop@offce", "<order/>")
    await homes.close()


@in_a_loop
async def test_G41_a_frame_that_is_lost_repeated_or_late_changes_nothing(homes: TwoHomes) -> None:
    await homes.open()
    await homes.exchange(1)
    await homes.send("home", "shop@office", *(f"<order n='{n}'/>" for n in range(3)))
    frame = await homes.frame("home")
    assert len(decode(frame).messages) == 3
    answer = await homes.frame("office", frame)  # it does not come
    again = await homes.frame("home")
    assert len(decode(again).messages) == 3
    await homes.send("home", "shop@office", "<order n='3'/>")
    for late in (again, frame, again):
        await homes.frame("home", await homes.frame("office", late))
    await homes.frame("home", answer)
    await homes.exchange()
    orders = [order["xml"] for order in await homes.memory("office", "order", "shop")]
    assert [xml.partition('n="')[2][0] for xml in orders] == ["0", "1", "2", "3"]
    assert await homes.ask("home", "letters") == []
    await homes.close()


@pytest.mark.parametrize("name", ["home", "office"])
@in_a_loop
async def test_G41_who_waited_before_the_link_began_anew_takes_nothing_with_it(
    homes: TwoHomes, name: str
) -> None:
    await homes.open()
    frame = await homes.frame("home")
    for _ in range(3):
        answer = await homes.frame("office", frame)
        frame = await homes.frame("home", answer)
    heard = answer if name == "home" else frame
    waits = asyncio.create_task(homes.ask(name, "exchange", peer=OTHER[name], frame=heard, wait=20.0))
    await asyncio.sleep(0)  # it has asked
    await homes.rest()
    assert not waits.done()
    await homes.frame("office", await homes.frame("home"))
    await homes.send(name, f"narval@{OTHER[name]}", "<order/>")
    with pytest.raises(RequestError, match="has begun again"):
        await waits
    await homes.exchange()
    assert await homes.ask(name, "letters") == []
    await homes.close()


@in_a_loop
async def test_G41_what_is_no_frame_is_refused_and_records_nothing(homes: TwoHomes) -> None:
    await homes.open()
    await homes.send("home", "shop@office", "<order/>")
    frame = await homes.frame("home", await homes.frame("office", await homes.frame("home")))
    for at in range(0, len(frame), 7):
        with pytest.raises(RequestError):
            await homes.frame("office", frame[:at])
    older = encode(decode(frame)).replace(b"\xa7version\x01", b"\xa7version\x00")
    with pytest.raises(RequestError, match="the other side has the older narval"):
        await homes.frame("office", older)
    with pytest.raises(RequestError, match="there is no peer 'nowhere'"):
        await homes.ask("office", "exchange", peer="nowhere")
    with pytest.raises(RequestError, match="this home"):
        await homes.frame("home", await homes.frame("home"))
    assert await homes.memory("office", "order", "shop") == []
    await homes.exchange()
    assert len(await homes.memory("office", "order", "shop")) == 1
    await homes.close()


@in_a_loop
async def test_F1_what_comes_over_a_link_has_the_label_of_the_peer_and_nobodys_name(homes: TwoHomes) -> None:
    await homes.open()
    await homes.send("home", "shop@office", "<order/>")
    await homes.exchange()
    daemon = homes.daemons["office"]
    async with daemon.of("shop") as seen:
        memory = seen.agent.memory
        [eid] = [eid for eid in memory if memory.element(eid).name == "order"]  # type: ignore[union-attr]
        assert memory.labels.names(memory.labels.of((eid,))) == ("agent:home",)
    await homes.close()


@in_a_loop
async def test_a_peer_is_no_agent_and_its_row_goes_with_its_table(homes: TwoHomes) -> None:
    await homes.open()
    assert [row["name"] for row in await homes.ask("home", "agents")] == ["narval"]
    for operation in ("show_agent", "suspend", "resume", "passivate", "remove_agent"):
        with pytest.raises(RequestError, match="there is no agent '@office' here"):
            await homes.ask("home", operation, name="@office")
    with pytest.raises(RequestError, match="there is no agent '@office' here"):
        await homes.ask("home", "add", "@office", elements=[b"<order/>"])
    [link] = await homes.ask("home", "links")
    assert (link["peer"], link["state"], link["messages"]) == ("office", "idle", 0)
    await homes.send("home", "shop@office", "<order/>")
    [link] = await homes.ask("home", "links")
    assert (link["state"], link["messages"]) == ("waiting", 1)
    await homes.exchange()
    [link] = await homes.ask("home", "links")
    assert (link["state"], link["messages"], link["sent"]) == ("connected", 0, 1)
    await homes.send("home", "shop@office", "<order n='2'/>")
    homes.write("home", "etc/peers.toml", "")
    await homes.daemons["home"].reloader.reload()
    await homes.rest()
    [letter] = await homes.ask("home", "letters", dead=True)
    assert (letter["to"], letter["element"]) == ("shop@office", "order")
    assert letter["reason"] == "removed: the link with office was removed"
    assert await homes.ask("home", "links") == []
    await homes.close()


def test_G27_check_warns_of_a_peer_that_there_is_not(homes: TwoHomes) -> None:
    home = homes.scenes["home"].home
    assert check_home(home) == []
    homes.write("home", "recipes/m.xml", RECIPES.replace("shop@office", "shop@offise"))
    warnings = [str(fault) for fault in check_home(home)]
    assert len(warnings) == 3
    assert "there is no peer 'offise' in etc/peers.toml yet; did you mean 'office'?" in warnings[0]


@in_a_loop
async def test_G37_why_says_what_the_link_with_the_peer_waits_for(homes: TwoHomes) -> None:
    await homes.open()
    run = (await homes.ask("home", "start", name="m.hangs"))["eid"]
    await homes.rest()
    [wait] = (await homes.ask("home", "why", run=run))["waiting"]
    at = wait["calls"][0]["at"]
    assert (at["agent"], at["state"], at["link"]) == ("shop@office", "untaken", "waiting")
    assert "office asks this home, and has not" in at["why"]
    await homes.exchange()
    [wait] = (await homes.ask("home", "why", run=run))["waiting"]
    assert (wait["calls"][0]["at"]["state"], wait["calls"][0]["at"]["link"]) == ("there", "connected")
    await homes.close()


@in_a_loop
async def test_links_says_when_a_peer_that_asks_this_home_has_gone(homes: TwoHomes) -> None:
    await homes.open()
    office, told = homes.scenes["office"].clock, "home asks this home, and has not for a minute"

    async def link() -> tuple[str, bool]:
        [row] = await homes.ask("office", "links")
        return row["state"], (row["why"] or "").startswith(told)

    [row] = await homes.ask("office", "links")
    assert (row["state"], row["why"].partition(";")[0]) == ("idle", "home asks this home, and has not yet")
    await homes.exchange()
    office.advance(60.0)
    assert await link() == ("connected", False)
    office.advance(1.0)
    assert await link() == ("idle", True)
    await homes.send("office", "narval@home", "<order/>")
    assert await link() == ("waiting", True)
    await homes.exchange()
    assert await link() == ("connected", False)
    await homes.close()


@in_a_loop
async def test_M13_a_link_over_which_messages_wait_in_vain_needs_attention(homes: TwoHomes) -> None:
    await homes.open()
    home = homes.scenes["home"].clock

    async def told() -> list[str]:
        rows = await homes.ask("home", "attention")
        return [row["text"].partition(";")[0] for row in rows if row["what"] == "link"]

    refuses = "the peer office refuses this home"
    await homes.ask("home", "note_link", peer="office", why=refuses)
    assert await told() == []
    await homes.send("home", "shop@office", "<order/>")
    assert await told() == [f"messages to the peer office wait: {refuses}"]
    await homes.exchange()
    assert await told() == []
    await homes.send("home", "shop@office", "<order/>")
    home.advance(60.0)
    assert await told() == []
    home.advance(1.0)
    silent = "office asks this home, and has not for a minute"
    assert await told() == [f"messages to the peer office wait: {silent}"]
    await homes.exchange()
    assert await told() == []
    await homes.close()


@in_a_loop
async def test_M13_that_the_program_of_the_connection_has_gone_is_told_at_once(homes: TwoHomes) -> None:
    await homes.open()
    await homes.exchange()
    answer = await homes.frame("office", await homes.frame("home"))
    asked = asyncio.create_task(homes.ask("home", "exchange", peer="office", frame=answer, wait=30.0))
    await asyncio.sleep(0)  # it has asked
    await homes.rest()
    assert not asked.done()
    asked.cancel()
    await asyncio.wait([asked])
    await homes.send("home", "shop@office", "<order/>")
    gone = "messages to the peer office wait: narval web, which has the connection, has ended here"
    assert gone in [row["text"].partition(";")[0] for row in await homes.ask("home", "attention")]
    assert [row["state"] for row in await homes.ask("home", "links")] == ["waiting"]
    await homes.exchange()
    assert [row for row in await homes.ask("home", "attention") if row["what"] == "link"] == []
    await homes.close()


@pytest.mark.parametrize("which", ["home", "office"])
@in_a_loop
async def test_G42_a_backup_that_is_put_back_is_told_on_both_sides(
    homes: TwoHomes, tmp_path: Path, which: str
) -> None:
    await homes.open()
    await homes.send("home", "shop@office", "<order n='1'/>")
    await homes.exchange()
    await homes.close()
    where, file = homes.scenes[which].home.store, tmp_path / "backup"
    back_up(where, file, lambda: False, "narval", (), lambda rows: None)
    await homes.open()
    await homes.send("home", "shop@office", "<order n='2'/>", "<order n='3'/>")
    await homes.exchange()
    await homes.close()
    with opened(file) as backup:
        restore_all(where, backup, "narval", lambda rows: None, force=True)
    await homes.open()
    await homes.send("home", "shop@office", "<order n='4'/>")
    await homes.exchange(6)
    texts = {name: await homes.memory(name, "error[@type='peer-restored']") for name in OTHER}
    assert [[error["xml"].count('first="2" last="3"') for error in errors] for errors in texts.values()] == [
        [1],
        [1],
    ]
    for name, errors in texts.items():
        assert all(f'peer="{OTHER[name]}"' in error["xml"] for error in errors)
    lost = which == "office"
    assert all(('what="lost"' in error["xml"]) is lost for errors in texts.values() for error in errors)
    orders = [order["xml"].partition('n="')[2] for order in await homes.memory("office", "order", "shop")]
    assert orders[-1].startswith("4") or any('n="4"' in order for order in orders)
    assert len(orders) == (2 if lost else 4)
    await homes.exchange()
    assert {name: await homes.memory(name, "error[@type='peer-restored']") for name in OTHER} == texts
    await homes.close()


@in_a_loop
async def test_G42_a_store_that_is_put_back_by_hand_is_a_fault_of_the_link(homes: TwoHomes) -> None:
    await homes.open()
    await homes.exchange()
    await homes.close()
    store = homes.scenes["home"].home.store
    before = store.read_bytes()
    await homes.open()
    await homes.send("home", "shop@office", "<order n='1'/>", "<order n='2'/>")
    await homes.exchange()
    await homes.close()
    store.write_bytes(before)
    await homes.open()
    await homes.send("home", "shop@office", "<order n='3'/>")
    with pytest.raises(RequestError, match="put back by hand"):
        await homes.exchange()
    [link] = await homes.ask("office", "links")
    assert link["state"] == "fault"
    assert "narval restore" in link["why"]
    await homes.close()
