"""Items on the worklist that ask for what definitions need, and their answers (F11)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import narval
from narval.ask.operations import invoke
from narval.core.errors import NarvalError, RequestError
from narval.files.proposals.altering import altering
from narval.files.shipped import shipped
from narval.surfaces.python.agent import Agent
from tests.ask.letters import PEOPLE, SETTINGS, Post
from tests.ask.test_grants import ASKS, MEMORY, NOTES, SENDS, runs, standing, written


@pytest.fixture
def asking_home(tmp_path: Path) -> Path:
    home = tmp_path
    written(home, {"data/memory.xml": MEMORY, "recipes/send.xml": SENDS, "recipes/note.xml": NOTES})
    (home / "recipes/trust.xml").write_text((shipped() / "recipes/trust.xml").read_text())
    (home / "etc/people.toml").write_text(
        '[people.ann]\nweb = "operator"\nmail = ["ann@example.org"]\n[people.ben]\n'
    )
    return home


def waiting(agent: Agent) -> list[int]:
    return [row["item"] for row in agent.ask("worklist", every=True)]


def mentions(agent: Agent) -> list[str]:
    return [row["text"] for row in agent.ask("attention") if "post.send" in row["text"]]


def test_a_fault_in_the_memory_file_takes_no_grant_back(asking_home: Path) -> None:
    with narval.open(asking_home) as agent:
        agent.ask("grant", name="post.send")
        written(asking_home, {"data/memory.xml": MEMORY.replace("</memory>", "")})
        agent.ask("reload")
        assert standing(agent, "post.send")["standing"] == "granted"


def test_a_start_that_waited_for_its_definition_waits_for_the_grant_alone(asking_home: Path) -> None:
    late = MEMORY.replace("post.send", "post.late")
    written(asking_home, {"data/memory.xml": late})
    with narval.open(asking_home) as agent:
        agent.until_idle()
        assert [error.attributes["type"] for error in agent.memory("error")] == ["unknown-target"]
        written(asking_home, {"data/memory.xml": late, "recipes/late.xml": SENDS.replace('"send"', '"late"')})
        agent.ask("reload")
        agent.until_idle()
        assert not [row for row in agent.ask("memory", xpath="error") if not row["outdated"]]
        texts = [item["text"] for item in agent.ask("attention")]
        assert [text for text in texts if text.startswith("post.late needs what is not granted")]
        assert not [text for text in texts if "start-plan" in text]


@pytest.mark.parametrize("outcome", ["grant", "reject"])
def test_F11_what_nobody_has_granted_is_an_item_that_an_operator_answers(
    asking_home: Path, outcome: str
) -> None:
    with narval.open(asking_home, by="ann") as agent:
        agent.until_idle()
        (item,) = waiting(agent)
        shown = agent.ask("work_item", item=item)
        assert "| May recipe post.send reach what it needs?" in shown["text"]
        assert "<need>host 127.0.0.1:9</need>" in shown["text"]
        (row,) = [row for row in agent.ask("attention") if row["what"] == "grant"]
        assert row["link"] == {"work": item}
        assert not [row for row in agent.ask("attention") if row["what"] == "person"]

        async def answered() -> None:
            answer = {"item": item, "outcome": outcome}
            answering = asyncio.create_task(invoke(agent.daemon, agent.asker, "answer", answer))
            with altering(
                asking_home
            ):  # somebody else alters grants.toml, and the loop does not wait for that
                await asyncio.sleep(0.05)
                assert not (asking_home / "etc/grants.toml").exists()
            await answering  # the answer does: what was granted counts then

        agent.runner.run(answered())
        agent.until_idle()
        assert waiting(agent) == []
        assert mentions(agent) == []
        assert agent.ask("status")["grants"]["withheld"] == []
        assert agent.ask("memory", xpath="grant-request", current=True) == []
        row = standing(agent, "post.send")
        assert (row["standing"], row["by"]) == ("granted" if outcome == "grant" else "rejected", "ann")
        assert runs(agent, "post.send") == (["running"] if outcome == "grant" else [])
    with narval.open(asking_home, by="ann") as agent:
        agent.until_idle()
        assert waiting(agent) == []
        if outcome == "reject":
            with pytest.raises(NarvalError, match=r"ann has rejected post\.send, which needs host 127"):
                agent.start("post.send")
        assert agent.ask("revoke", name="post.send") == ["recipe post.send"]
        agent.until_idle()
        assert len(waiting(agent)) == 1


def test_F11_a_grant_by_name_takes_the_item_away(asking_home: Path) -> None:
    with narval.open(asking_home, by="ann") as agent:
        agent.until_idle()
        (item,) = waiting(agent)
        agent.ask("grant", name="post.send")
        agent.until_idle()
        assert (waiting(agent), mentions(agent)) == ([], [])
        assert agent.ask("work_item", item=item)["state"] == "withdrawn"


def test_F11_only_operators_answer_and_no_recipe_does(asking_home: Path) -> None:
    memory = asking_home / "data/memory.xml"
    memory.write_text(memory.read_text().replace("</memory>", "<start-plan recipe='w.forges'/></memory>"))
    (asking_home / "recipes/forges.xml").write_text(
        """<recipe group="w" name="forges" start_step="ask" end_step="end">
  <step id="ask" type="work" target="trust.grant">
    <arguments><grant-request kind="recipe" name="post.send"><need>host 127.0.0.1:9</need></grant-request>
    </arguments></step>
  <step id="end" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="ask"/><out idref="end"/></transition></recipe>"""
    )
    with narval.open(asking_home, by="ben") as agent:
        agent.until_idle()
        by_recipe = {row["item"]: row["run"] is not None for row in agent.ask("worklist", every=True)}
        assert sorted(by_recipe.values()) == [False, True]
        for item, is_by_recipe in by_recipe.items():
            if is_by_recipe:
                agent.ask("answer", item=item, outcome="grant")
            else:
                with pytest.raises(
                    NarvalError,
                    match=r"ben may not grant, accept a proposal, .* that is for the owner",
                ):
                    agent.ask("answer", item=item, outcome="grant")
        agent.until_idle()
        assert runs(agent, "w.forges") == ["done"]
        assert standing(agent, "post.send")["standing"] == "asked"


def test_F11_an_answer_that_cannot_be_written_is_told_and_asked_again(asking_home: Path) -> None:
    with narval.open(asking_home, by="ann") as agent:
        agent.until_idle()
        (item,) = waiting(agent)
        (asking_home / "etc/grants.toml").write_text("nonsense")
        with pytest.raises(RequestError, match=r"cannot be written: .* has faults; correct them first"):
            agent.ask("answer", item=item, outcome="grant")
        agent.until_idle()
        assert [e.attributes["type"] for e in agent.memory("error")] == ["not-granted", "grant-not-written"]
        (asking_home / "etc/grants.toml").unlink()
        (asking_home / "recipes/other.xml").write_text(NOTES.replace('"note"', '"other"'))
        agent.ask("reload")
        agent.until_idle()
        (again,) = waiting(agent)
        agent.ask("answer", item=again, outcome="grant")
        agent.until_idle()
        assert standing(agent, "post.send")["standing"] == "granted"


def test_F11_who_answers_is_told_if_the_answer_is_written_and_cannot_be_read(
    asking_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(folder: Path, **_: object) -> None:
        raise OSError("the disk is gone")

    with narval.open(asking_home, by="ann") as agent:
        agent.until_idle()
        (item,) = waiting(agent)
        with monkeypatch.context() as patched:
            patched.setattr("narval.files.reading.read_settings", fails)
            with pytest.raises(RequestError, match=r"ann; it is written, .* yet: the disk is gone"):
                agent.ask("answer", item=item, outcome="grant")
        agent.until_idle()
        assert [e.attributes["type"] for e in agent.memory("error")] == ["not-granted"]
        agent.ask("reload")
        agent.until_idle()
        assert standing(agent, "post.send")["standing"] == "granted"


def test_F11_an_operator_answers_the_item_by_mail(tmp_path: Path) -> None:
    post = Post(
        tmp_path,
        **{
            "etc/narval.toml": ASKS + SETTINGS,
            "etc/people.toml": PEOPLE.replace("[people.ben]", 'web = "operator"\n[people.ben]'),
            "data/memory.xml": MEMORY,
            "recipes/send.xml": SENDS,
            "recipes/trust.xml": (shipped() / "recipes/trust.xml").read_text(),
        },
    )
    with post.open() as agent:
        agent.ask("grant", name="w.fetch")
        agent.until_idle()
        asked = {
            name: [mail for mail in post.sent(name) if "recipe post.send" in str(mail["Subject"])]
            for name in ("ann", "ben")
        }
        assert asked["ben"] == [], "only those who may grant are asked by mail"
        (asking,) = asked["ann"]
        post.reply(asking, "grant")
        post.take()
        assert standing(agent, "post.send")["standing"] == "granted"
