"""Hostile mail to work: nothing that is forged, stale, replayed or no answer does anything (P63–P66, P86)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ask.letters import PEOPLE, Post, token, token_in

LETTERS = "abcdefghijklmnopqrstuvwxyz234567"


@pytest.fixture
def post(tmp_path: Path) -> Iterator[Post]:
    made = Post(tmp_path)
    with made.open():
        yield made


def state(post: Post, item: int) -> str:
    return str(post.agent.work_item(item)["state"])


def altered(given: str) -> Iterator[str]:
    """A token with each of its characters altered in turn."""
    for at, letter in enumerate(given):
        other = {"-": "2"}.get(letter) or next(new for new in "2345" + LETTERS if new != letter)
        yield given[:at] + other + given[at + 1 :]


def test_P64_P86_each_character_of_a_token_counts(post: Post) -> None:
    item = post.start()
    (mail,) = post.sent("ann")
    before = len(post.sent())
    for forged in altered(token(mail)):
        post.reply(f"Approve [{forged}]", "approve")
    post.take()
    assert state(post, item) == "offered"
    assert len(post.sent()) == before, "nobody is written to"
    assert "TurnedAway" not in {row["did"] for row in post.log(item)}
    post.reply(f"Approve [{token(mail).upper()}]", "approve")
    post.take()
    assert state(post, item) == "done", "case does not matter"


@pytest.mark.parametrize("guesses", [1_000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_P86_thousands_of_guesses_write_to_nobody(post: Post, guesses: int) -> None:
    item, chance = post.start(), random.Random(7)
    before, end = len(post.sent()), post.agent.history(item)[-1]["seq"]
    guess = lambda size: "".join(chance.choices(LETTERS, k=size))  # noqa: E731
    mails = [
        f'<email key="{at}" from="ann@example.org" subject="{item}-{guess(16)}-{guess(24)}">'
        "<body>approve</body></email>".encode()
        for at in range(guesses)
    ]
    post.agent.stub("mail.read", lambda mailbox: mails)
    post.take()
    assert len(post.agent.memory("email")) == guesses
    assert state(post, item) == "offered"
    assert len(post.sent()) == before
    assert post.agent.history(item)[-1]["seq"] == end, "nothing is recorded of the item"


def test_P62_a_token_is_for_one_person_one_item_one_text(post: Post) -> None:
    item, other = post.start(), post.start(request='<request what="a lamp"/>')
    of_ann, of_ben = post.sent("ann")[0], post.sent("ben")[0]
    post.reply(of_ben, "approve", sender="ann@example.org")
    _, nonce, mac = token(of_ann).split("-")
    post.reply(f"[{other}-{nonce}-{mac}]", "approve")
    post.reply(of_ann, "approve", sender="mallory@example.net")
    post.take()
    assert (state(post, item), state(post, other)) == ("offered", "offered")
    assert post.kinds(item).count("not-authentic") == 2, "forwarded, or of another person"
    post.reply(of_ann, "approve", sender="Ann <ANN@home.example>")
    post.take()
    assert state(post, item) == "done", "each address of hers is hers"


def test_P63_two_copies_at_once_count_once(post: Post) -> None:
    item = post.start()
    (mail,) = post.sent("ann")
    for _ in range(3):
        post.reply(mail, "claim")
    post.take()
    kinds = post.kinds(item)
    assert (kinds.count("Claimed"), kinds.count("token-spent")) == (1, 2)


def test_P63_after_its_last_moment_a_token_is_void(post: Post) -> None:
    item = post.start()
    (mail,) = post.sent("ann")
    post.agent.elapse(days=6)
    post.reply(mail, "approve")
    post.take()
    assert state(post, item) == "expired"
    assert not post.agent.memory("decision")
    assert len([one for one in post.sent("ann") if "Over (expired)" in str(one["Subject"])]) == 1


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("approve", {"Auto-Submitted": "auto-replied"}),
        ("approve", {"List-Id": "<all.example.org>"}),
        ("approve", {"Return-Path": "<>"}),
        ("approve", {"Content-Type": "multipart/report; boundary=x"}),
        ("<p>approve</p>", {"Content-Type": "text/html"}),
    ],
)
def test_P66_what_is_no_answer(post: Post, text: str, fields: dict[str, str]) -> None:
    item = post.start()
    before = len(post.sent())
    post.reply(post.sent("ann")[0], text, **{name.replace("-", "_"): value for name, value in fields.items()})
    post.take()
    assert state(post, item) == "offered"
    assert post.kinds(item)[-1] == "no-answer", "it is recorded as turned away"
    assert len(post.sent()) == before, "and not answered"


@pytest.mark.parametrize(
    "text",
    [
        "> approve",
        "-- \napprove",
        "I am away.\n-- \napprove",
        "Shall I approve",
        "I do not\napprove",
        "approve this",
        "approve\nwithout any colon",
        "\u202eevorppa",
        "appro\u200bve",
        "",
    ],
)
def test_what_is_not_understood_is_answered_once_with_what_would_be(post: Post, text: str) -> None:
    item = post.start()
    first, before = post.sent("ann")[0], len(post.sent())
    for _ in range(2):
        post.reply(first, text)
        post.take()
    assert state(post, item) == "offered"
    assert post.kinds(item).count("not-understood") == 2, "it is recorded as turned away"
    (told,) = [mail for mail in post.sent("ann") if str(mail["Subject"]).startswith("Not understood: ")]
    assert len(post.sent()) == before + 1
    assert "expected one of approve, reject, claim, release, refuse, alone on the" in told.get_content()
    assert "comment: …" in told.get_content()
    post.reply(first, "approve")
    post.take()
    assert state(post, item) == "done", "the first mail can be answered still"


def test_what_is_told_of_a_mail_that_is_not_understood_has_no_token(post: Post) -> None:
    item = post.start()
    (mail,) = post.sent("ann")
    post.reply(mail, f"approve {token(mail)}")
    post.take()
    assert token(mail) not in str(post.log(item))
    (told,) = [mail for mail in post.sent("ann") if str(mail["Subject"]).startswith("Not understood: ")]
    assert "found 'approve" in told.get_content()
    assert token(mail).split("-")[2] not in told.get_content()


def test_a_reply_to_what_narval_wrote_names_the_item_and_no_recipe_takes_it_for_news(post: Post) -> None:
    item = post.start()
    asked = post.sent("ann")[0]
    post.reply(asked, "approve")
    post.take()
    (over,) = [mail for mail in post.sent("ben") if "Over" in str(mail["Subject"])]
    ids = {"In_Reply_To": str(over["Message-ID"])}
    post.reply("Re: a desk", "thanks", sender="ben@example.org", **ids)
    post.reply("Another", "as work.12 said", sender="eve@example.org")
    post.take()
    works = [mail.attributes.get("work") for mail in post.agent.memory("email")]
    assert works == [str(item), str(item), None]


def test_P63_five_mails_that_are_no_answer_void_a_token(post: Post) -> None:
    item = post.start()
    (mail,) = post.sent("ann")
    for number in range(5):
        post.reply(mail, f"so much for {number}")
    post.take()
    post.reply(mail, "approve")
    post.take()
    assert state(post, item) == "offered"
    assert post.kinds(item).count("not-understood") == 5
    assert any(token_in(mail) for mail in post.sent("ann")[1:]), (
        "a new one goes out with the next that happens"
    )


def test_P66_a_mail_of_ten_megabytes_is_no_answer(post: Post) -> None:
    item = post.start()
    post.reply(post.sent("ann")[0], "approve\ncomment: " + "x" * 10_000_000)
    post.take()
    assert state(post, item) == "offered"
    assert post.kinds(item)[-1] == "no-answer"


def test_P42_fields_that_do_not_fit_are_told_and_the_token_counts_on(post: Post) -> None:
    item = post.start()
    (mail,) = post.sent("ann")
    post.reply(mail, "reject")
    post.take()
    told = post.sent("ann")[1]
    assert "Not taken" in str(told["Subject"])
    assert "Why: expected a value" in told.get_content()
    assert not token_in(told)
    post.reply(mail, "reject\ncomment: too dear")
    post.take()
    assert state(post, item) == "done"


@pytest.mark.parametrize(
    ("results", "is_taken"),
    [
        ("", False),
        ("mx.example.net; dmarc=pass header.from=example.org", False),
        ("mx.example.org; dmarc=fail header.from=example.org", False),
        ("mx.example.org; dmarc=pass header.from=example.org", True),
        ("mx.example.org; dmarc=pass header.from=evil.example", False),
        ("mx.example.org; spf=pass; dkim=pass header.d=evil.example", False),
        ("mx.example.org; dkim=pass (dmarc=pass) header.d=evil.example", False),
        ("mx.example.org; dkim=none (dkim=pass header.d=example.org)", False),
        ('mx.example.org; dkim=fail reason="; dmarc=pass"', False),
        ("mx.example.org; dkim=pass header.d=example.org", True),
        ("mx.example.org; none", False),
        ("mx.example.org; dkim=fail (dmarc=pass; dmarc=pass", False),
        ("mx.example.org; dkim=none (of ((nested); dmarc=pass", False),
        ("mx.example.org; dkim=fail (an escape \\); dmarc=pass", False),
        ('mx.example.org; dkim=fail (a quote " ( here"); dmarc=pass )', False),
        ('mx.example.org; dkim=fail reason="; dmarc=pass', False),
        ("mx.example.org; dkim=fail); dmarc=pass", False),
        ('mx.example.org; dkim=pass header.d="evil.example"example.org', False),
        ("mx.example.org (helo x; dmarc=pass ; y); dmarc=fail", False),
        ("mx.example.org (helo x; dmarc=pass ; y", False),
        ("mx.example.org (a server) 1; dmarc=pass (p=none (sp=none)) header.from=example.org", True),
        ("mx.example.org;" + " " * 15_970 + " dkim=pass header.d=example.org.evil.example", False),
    ],
)
def test_P65_a_server_vouches_for_the_sender(tmp_path: Path, results: str, is_taken: bool) -> None:
    post = Post(tmp_path, **{"etc/people.toml": f'mail_trust = "mx.example.org"\n{PEOPLE}'})
    with post.open():
        item = post.start()
        post.reply(post.sent("ann")[0], "approve", Authentication_Results=results)
        post.take()
        assert state(post, item) == ("done" if is_taken else "offered")
        assert ("not-authentic" in post.kinds(item)) is not is_taken


def test_P65_the_word_of_the_server_that_came_last_counts(tmp_path: Path) -> None:
    post = Post(tmp_path, **{"etc/people.toml": f'mail_trust = "mx.example.org"\n{PEOPLE}'})
    with post.open():
        item = post.start()
        forged = "mx.example.org; dmarc=pass\nX-A: b"
        post.reply(
            post.sent("ann")[0],
            "approve",
            Authentication_Results=f"mx.example.org; dmarc=fail\nAuthentication-Results: {forged}",
        )
        post.take()
        assert state(post, item) == "offered"


def test_P60_beyond_twenty_an_hour_a_person_gets_one_list(post: Post) -> None:
    items = [post.start(request=f'<request what="desk {number}"/>') for number in range(25)]
    assert len(post.sent("ann")) == 20
    post.agent.elapse(hours=2)
    mails = post.sent("ann")
    assert len(mails) == 21
    assert str(mails[-1]["Subject"]) == "5 items wait for you"
    assert all(f"{item}  Approve" in mails[-1].get_content() for item in items[20:])
    assert not token_in(mails[-1])


def test_P32_reminders_and_escalations_are_written(post: Post) -> None:
    item = post.start()
    post.agent.elapse(days=1)
    assert [str(mail["Subject"]).strip()[:9] for mail in post.sent("ann")] == ["Approve a", "Reminder:"]
    post.agent.elapse(days=1)
    assert [str(mail["Subject"]).strip()[:10] for mail in post.sent("cleo")] == ["Escalated:"]
    assert len(post.sent("ann")) == 2
    post.reply(post.sent("ann")[0], "approve")
    post.take()
    assert state(post, item) == "done", "the first mail counts as well as its reminder"


def test_P77_who_was_written_to_is_told_once_that_it_is_withdrawn(post: Post) -> None:
    item = post.start()
    post.agent.cancel(item, "not needed")
    post.agent.until_idle()
    told = [mail for mail in post.sent() if "withdrawn" in str(mail["Subject"])]
    assert {str(mail["To"]) for mail in told} == {"ann@example.org", "ben@example.org"}
    assert "not needed" in " ".join(told[0].get_content().split())
    assert len(told) == 2
    post.reply(post.sent("ann")[0], "approve")
    post.take()
    assert not post.agent.memory("decision")


def test_P60_nothing_but_the_mail_has_the_token(post: Post) -> None:
    item = post.start()
    given = token(post.sent("ann")[0])
    post.reply(post.sent("ann")[0], "claim")
    post.take()
    kept = [post.home / "var" / "narval.log", *(post.home / "var").glob("store.db*")]
    for file in kept:
        if file.exists():
            data = file.read_bytes().lower()
            assert given.encode() not in data, file
            assert given.split("-")[2].encode() not in data, file
    assert given not in repr(post.agent.history(item))


def test_P76_a_copy_after_a_restart_is_spent(tmp_path: Path) -> None:
    post = Post(tmp_path)
    with post.open():
        item = post.start()
        (mail,) = post.sent("ann")
        post.reply(mail, "claim")
        post.take()
    with post.open():
        post.reply(mail, "approve", sender="ann@home.example")
        post.take()
        assert post.kinds(item)[-1] in ("token-spent", "Notified")
        assert state(post, item) == "claimed"


def test_P86_a_title_cannot_hide_its_words_or_imitate_ours(post: Post) -> None:
    forged = "99-aaaaaaaaaaaaaaaa-aaaaaaaaaaaaaaaaaaaaaaaa"
    post.start(request=f'<request what="a desk \u202e[{forged}]&#10;Outcome: yes"/>')
    (mail,) = post.sent("ann")
    assert "\\u{202e}" in str(mail["Subject"])
    assert "\u202e" not in mail.get_content() + str(mail["Subject"])
    lines = mail.get_content().splitlines()
    assert [line for line in lines if line.startswith("Outcome: ")] == ["Outcome: approve", "Outcome: reject"]
    post.reply(mail, "approve")
    post.take()
    assert post.agent.memory("decision"), "of several tokens in a subject the last is ours"


@pytest.mark.parametrize("join", ["\n> ", "\n>> ", "\n", " \n  ", "=\n"])
@pytest.mark.parametrize("part", ["number", "nonce", "code", "hyphen"])
def test_P62_P68_a_token_that_a_mail_program_broke_is_one_and_is_blanked(
    post: Post, part: str, join: str
) -> None:
    item = post.start()
    (mail,) = post.sent("ann")
    whole = token(mail)
    at = {"number": 1, "nonce": len(whole) - 30, "code": len(whole) - 5, "hyphen": len(whole) - 24}[part]
    broken = f"{whole[:at]}{join}{whole[at:]}"
    encoding = "quoted-printable" if join == "=\n" else "8bit"
    quoted = f"approve\n\n> Reference [{broken}]\n"
    post.reply("Approve", quoted, Content_Transfer_Encoding=encoding)
    post.take()
    assert state(post, item) == "done"
    (kept,) = post.agent.memory("email")
    assert whole[-24:-8] not in kept.xml.decode()
    assert "[token]" in kept.xml.decode()


def test_P62_a_token_in_a_folded_subject_is_one(post: Post) -> None:
    item = post.start()
    (mail,) = post.sent("ann")
    whole = token(mail)
    post.reply(f"Approve a desk [{whole[:-24]}\n {whole[-24:]}]", "approve")
    post.take()
    assert state(post, item) == "done"


@pytest.mark.parametrize("before", ["item 5", "5\n> ", "12-\n"])
def test_P62_a_number_before_a_token_is_no_part_of_it(post: Post, before: str) -> None:
    item = post.start()
    (mail,) = post.sent("ann")
    post.reply("Approve", f"approve\n\n> {before} {token(mail)}\n")
    post.take()
    assert state(post, item) == "done"


def test_a_notice_that_comes_back_is_no_answer_and_what_is_none_says_why_to_all(post: Post) -> None:
    item = post.start()
    (notice,) = post.sent("ann")
    box = post.home / "in" / "new"
    post.reply(notice, "approve", Auto_Submitted="auto-replied")
    (box / "own.mail").write_bytes(notice.as_bytes())
    post.take()
    attempts = [row for row in post.log(item) if row["did"] == "TurnedAway"]
    [attempt] = attempts
    assert (attempt["act"], attempt["by"]) == ("answer", "ann")
    assert attempt["why"] == "it is no mail that a person wrote to us: auto=auto-replied"
    assert state(post, item) == "offered"
