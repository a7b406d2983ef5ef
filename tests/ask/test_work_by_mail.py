"""Work by mail: what goes out, and a reply that answers (P60–P63)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from narval.agent.run import Run
from narval.ask.asker import Asker
from narval.core.engines.events import Event, Signalled
from narval.core.errors import InternalError
from narval.kinds.work.cli.tables import said
from tests.ask.letters import TOKEN, Post, token, token_in


@pytest.fixture
def post(tmp_path: Path) -> Iterator[Post]:
    made = Post(tmp_path)
    with made.open():
        yield made


def test_P60_each_who_may_answer_is_sent_the_text_and_how_to_answer(post: Post) -> None:
    item = post.start()
    (ann,), (ben,) = post.sent("ann"), post.sent("ben")
    assert (ann["To"], ben["To"]) == ("ann@example.org", "ben@example.org")
    assert ann["From"] == "narval <narval@example.org>"
    assert str(ann["Subject"]) == f"Approve a desk [{token(ann)}]"
    assert ann["Auto-Submitted"] == "auto-generated"
    assert ann.get_param("format") == "flowed"
    text = post.agent.work_item(item)["text"]
    assert ann.get_content().startswith(text)
    assert "approve\ncomment: …\n" in ann.get_content()
    assert "until 1970-01-17 14:46:40 (Europe/Paris)." in " ".join(ann.get_content().split())
    assert "until 1970-01-17 13:46:40 (Etc/UTC)." in " ".join(ben.get_content().split())
    assert token(ann) != token(ben)
    assert len(token(ann)) == 44 - 2 + len(str(item))
    assert token(ann).startswith(f"{item}-")
    notified = [row for row in post.log(item) if row["did"] == "Notified"]
    assert {(row["to"], row["way"], row["why"]) for row in notified} == {
        ("ann", "mail", "offered"),
        ("ben", "mail", "offered"),
    }
    assert {f"<{row['message']}>" for row in notified} == {ann["Message-ID"], ben["Message-ID"]}
    assert post.start("w.quiet")
    assert len(post.sent()) == 2, "mail is a way only where it is named"


def test_P61_a_person_answers_by_replying(post: Post) -> None:
    item = post.start()
    post.reply(post.sent("ann")[0], "Reject\ncomment: too dear\n\nSee you, Ann")
    post.take()
    answer = post.agent.memory("decision")[0]
    assert answer.attributes["outcome"] == "reject"
    assert (answer.attributes["by"], answer.attributes["way"]) == ("ann", "mail")
    assert answer.tree().findtext("comment") == "too dear"
    assert "TokenSpent" in post.kinds(item)
    (told,) = [mail for mail in post.sent("ben") if "Over" in str(mail["Subject"])]
    assert "it is done by ann" in told.get_content(), "who was written to is told of the end"
    assert len(post.sent("ann")) == 1, "and who ended it is not"
    (mail,) = post.agent.memory("email")
    assert not TOKEN.search(mail.xml.decode()), "no recipe can have a token"
    assert b"[token]" in mail.xml


def test_a_turn_that_breaks_down_over_an_answer_is_not_recorded_and_the_answer_comes_again(
    tmp_path: Path,
) -> None:
    def breaks(run: Run, event: Event) -> None:
        if type(event) is Signalled:
            raise RecursionError("too deep")
        note(run, event)

    post, note = Post(tmp_path), Run.note
    with post.open(), pytest.MonkeyPatch.context() as patch:
        item = post.start()
        post.reply(post.sent("ann")[0], "approve")
        patch.setattr(Run, "note", breaks)
        with pytest.raises(InternalError, match="too deep"):
            post.take()
    with post.open():
        post.agent.until_idle()
        assert "TokenSpent" in post.kinds(item)
        assert post.agent.memory("decision")[0].attributes["outcome"] == "approve"


def test_P63_a_claim_by_mail_spends_the_token_and_brings_another(post: Post) -> None:
    item = post.start()
    first, of_ben = post.sent("ann")[0], post.sent("ben")[0]
    post.reply(first, "claim")
    post.take()
    assert post.agent.work_item(item)["claimed"]["by"] == "ann"
    (second,) = [mail for mail in post.sent("ann") if "You have this" in str(mail["Subject"])]
    post.reply(of_ben, "approve")
    post.take()
    assert "claimed" in post.kinds(item), "it is told who has it"
    post.reply(first, "approve")
    post.take()
    post.reply(first, "approve", sender="ann@home.example")
    post.take()
    assert post.kinds(item).count("token-spent") == 2
    assert len([mail for mail in post.sent("ann") if "Not taken" in str(mail["Subject"])]) == 1, "once"
    post.reply(second, "release")
    post.take()
    assert len(post.sent("ben")) == 3, "it is offered again, with another token"
    assert "token-expired" not in post.kinds(item)
    post.reply(of_ben, "approve")
    post.take()
    assert "token-expired" in post.kinds(item)
    post.reply([mail for mail in post.sent("ben") if token_in(mail)][-1], "approve")
    post.take()
    assert post.agent.work_item(item)["state"] == "done"


def test_who_answers_an_item_that_has_ended_is_told_so_once(tmp_path: Path) -> None:
    post = Post(tmp_path)
    with post.open():
        item = post.start()
        (of_ann,), (of_ben,) = post.sent("ann"), post.sent("ben")
        for _ in range(2):  # both arrive at once
            post.reply(of_ann, "approve")
        post.take()
    with post.open():
        post.reply(of_ann, "reject\ncomment: I have changed my mind")
        post.take()
        (late,) = [mail for mail in post.sent("ann") if "Not taken" in str(mail["Subject"])]
        assert "it is done by ann since" in late.get_content()
        post.reply(of_ben, "reject\ncomment: too dear", sender="mallory@example.net")
        post.reply(of_ben, "reject\ncomment: too dear")
        post.take()
        assert len([mail for mail in post.sent("ben") if "Not taken" in str(mail["Subject"])]) == 1
    with post.open():
        assert post.kinds(item).count("over") == 3, "it is recorded who tried"
        assert [one.attributes["outcome"] for one in post.agent.memory("decision")] == ["approve"]


def test_a_late_answer_that_narval_cannot_refuse_does_not_stop_the_mail(post: Post) -> None:
    item = post.start()
    of_ann, of_ben = post.sent("ann")[0], post.sent("ben")[0]
    post.reply(of_ann, "approve")
    post.take()
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr("narval.kinds.work.engine.notices._tell_once")
        post.reply(of_ben, "reject\ncomment: too dear")
        post.take()
    assert len(post.agent.memory("email")) == 2
    assert post.kinds(item).count("over") == 0
    post.reply(of_ben, "reject\ncomment: too dear")
    post.take()
    assert post.kinds(item).count("over") == 1


def test_P25_to_whom_it_is_handed_gets_a_mail_that_says_so_though_asked_before(post: Post) -> None:
    item = post.start()
    post.agent.asker = Asker("ben", 0, "terminal", actor="root")
    post.agent.delegate(item, "ann", word="you know them")
    post.agent.until_idle()
    first, handed = post.sent("ann")
    assert "Handed to you: Approve a desk [" in str(handed["Subject"])
    assert handed.get_content().startswith("ben hands you this:\n| you know them\n\nw.approve asks\n")
    assert token(handed) != token(first)
    post.reply(handed, "approve")
    post.take()
    assert post.agent.work_item(item)["state"] == "done"


def test_the_log_says_that_too_many_mails_held_one_back(post: Post) -> None:
    items = [post.start() for _ in range(21)]
    assert "NoticePutOff" not in post.kinds(items[0])
    put_off = [row for row in post.log(items[-1]) if row["did"] == "NoticePutOff"]
    assert {row["to"] for row in put_off} == {"ann", "ben"}
    (sentence,) = {said(row | {"to": "ann"}) for row in put_off}
    assert sentence.startswith(
        "A notice to ann did not go out: 20 mails went there within an hour, and is tried"
    )


def test_P60_the_limit_of_mails_in_an_hour_outlasts_the_program(tmp_path: Path) -> None:
    post = Post(tmp_path)
    for _ in range(2):
        with post.open():
            for _ in range(11):
                post.start()
    assert len(post.sent("ann")) == 20
