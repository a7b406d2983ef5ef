"""Neither mail nor chat tells what is secret, and the rules of a home ask by mail only those who keep it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from narval.ask.asker import Asker
from narval.files.shipped import shipped
from narval.system.long_work import TimeSlice
from tests.ask.letters import TOKEN, Post

PEOPLE = """
[people.ann]
web = "operator"
mail = ["ann@example.org"]
[people.ben]
mail = ["ben@example.org"]
[people.dan]
"""
RULES = """
[secret]
health = "note[@topic='health']"
"""
RECIPES = """<cookbook group="s">
<recipe name="tells" start_step="w" end_step="b">
  <step id="w" type="action" target="basic.nothing"/>
  <transition id="t"><in idref="w"/><out idref="b"/>
    <condition as="n"><match>note</match></condition></transition>
  <step id="b" type="action" target="mail.write">
    <arguments><draft to="evil@example.org" subject="About {$n}">{$n}</draft></arguments>
  </step>
</recipe>
<recipe name="asks" start_step="a" end_step="a"><step id="a" type="work" target="s.look"/></recipe>
<work name="look"><title>About {$note}?</title><input id="note"><match>note</match></input>
  <outcome name="ok"/><ways names="terminal mail"/></work>
<work name="which"><title>Which?</title><outcome name="ok"/>
  <field name="who" type="person"/><field name="about" type="element" match="note[@so='1']"/></work>
</cookbook>"""
SECRET, OPEN = "<note topic='health'>HIV positive</note>", "<note>rain</note>"


@pytest.fixture
def post(tmp_path: Path) -> Iterator[Post]:
    trust = (shipped() / "recipes/trust.xml").read_text()
    files = {"etc/people.toml": PEOPLE, "etc/trust.toml": RULES, "recipes/s.xml": RECIPES}
    made = Post(tmp_path, **files, **{"recipes/trust.xml": trust})
    with made.open():
        yield made


def texts(post: Post, to: str = "") -> list[str]:
    return [mail.as_string() for mail in post.sent(to)]


def test_the_question_if_a_secret_may_leave_goes_by_mail_to_operators_without_the_secret(post: Post) -> None:
    for element in (SECRET, '<identity address="me@example.org"/>', '<outbox path="box"/>'):
        post.agent.add(element)
    post.start("s.tells", "<go/>")
    assert post.agent.worklist(every=True) == [], "dan is no operator, and is not shown it"
    post.agent.asker = Asker("ann", 0, "python")
    (item,) = post.agent.worklist(every=True)
    assert (item["work"], "HIV" in post.agent.work_item(item["item"])["text"]) == ("trust.ask", True)
    (mail,) = post.sent()
    assert (mail["To"], mail["Subject"]) == ("ann@example.org", f"trust.ask {item['item']}")
    assert f"narval work show {item['item']}" in mail.get_content()
    assert "HIV" not in mail.as_string()
    assert not TOKEN.search(mail.as_string()), "it is not answered by who has not seen it"
    post.agent.answer(item["item"], "reject")
    post.agent.until_idle()
    assert not any("HIV" in text for text in texts(post))


def test_work_that_shows_a_secret_is_told_by_mail_by_its_number_and_name(post: Post) -> None:
    item = post.start("s.look", SECRET)
    assert [str(mail["Subject"]) for mail in post.sent()] == [f"s.look {item}"] * 2
    assert not any("HIV" in text for text in texts(post))
    other = post.start("s.look", OPEN)
    assert str(post.sent("ben")[-1]["Subject"]).startswith("About rain? ["), other


def test_a_list_of_what_waits_tells_nothing_secret(post: Post) -> None:
    for _ in range(21):
        post.start("s.look", OPEN)
    post.start("s.look", SECRET)
    post.clock.advance(3700)
    post.agent.until_idle()
    lists = [text for text in texts(post, "ben") if "More was asked" in text]
    assert ["About rain?" in text for text in lists] == [True]
    assert ("s.look" in lists[0], "HIV" in lists[0]) == (True, False)


def test_what_needs_attention_names_no_secret(post: Post) -> None:
    item = post.start("s.look", SECRET)
    assert "HIV" in post.agent.work_item(item)["title"]
    assert "HIV" not in str(post.agent.ask("attention"))


def test_choices_name_people_and_elements_only_to_readers_and_do_not_hold_others_up(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _, last = (post.agent.add(f"<note so='{so}'>rain</note>") for so in (1, 2, 1))
    item, breaks = post.start("s.which"), list[TimeSlice]()

    async def counted(time_slice: TimeSlice) -> None:
        breaks.append(time_slice)

    monkeypatch.setattr(TimeSlice, "yield_if_due", counted)

    def choices(person: str) -> list[list[str]]:
        post.agent.asker = Asker(person, 0, "python")
        return [list(field["choices"]) for field in post.agent.work_item(item)["fields"]]

    assert choices("ann") == [["ann", "ben", "dan"], [str(last), str(first)]]
    assert len(breaks) == 3, "other work may go on after each element tried"
    assert choices("ben") == [[], []]


def test_what_needs_attention_follows_a_change_of_the_rules(post: Post) -> None:
    allows = '\n[[rule]]\nsecret = "health"\naction = "work:s.look"\nthen = "allow"\n'
    (post.home / "etc/trust.toml").write_text(RULES + allows)
    post.agent.ask("reload")
    post.start("s.look", SECRET)
    assert "HIV" in str(post.agent.ask("attention"))
    (post.home / "etc/trust.toml").write_text(RULES)
    post.agent.ask("reload")
    assert "HIV" not in str(post.agent.ask("attention"))


@pytest.mark.parametrize(
    ("label", "rule", "is_told"),
    [
        ("mail", 'from = "mail"\naction = "work:s.look"\nthen = "refuse"', False),
        ("mail", 'from = "mail"\naction = "work:s.other"\nthen = "refuse"', True),
        ("mail", 'from = "*"\npart = "where"\nthen = "ask"', True),
        ("model:near", 'from = "feed"\nthen = "refuse"', False),
        (
            "model:near",
            'from = "model:*"\nholds = "link"\nthen = "ask"\n[[rule]]\nfrom = "*"\nthen = "allow"',
            True,
        ),
        ("secret:health", 'secret = "health"\naction = "work:s.look"\nthen = "allow"', True),
    ],
)
def test_what_people_are_written_about_work_is_judged_by_the_rules(
    post: Post, label: str, rule: str, is_told: bool
) -> None:
    (post.home / "etc/trust.toml").write_text(f"{RULES}\n[[rule]]\n{rule}\n")
    post.agent.ask("reload")
    note = post.agent.add(OPEN)
    post.agent.daemon.agent.memory.labels.add(note, (label,))
    item = post.agent.start("s.asks")
    post.agent.until_idle()
    (mail,) = post.sent("ben")
    assert (f"s.look {item + 1}" == mail["Subject"], "rain" in mail.as_string()) == (not is_told, is_told)
