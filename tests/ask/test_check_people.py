"""P14: `narval check` doubts work by the people of the home."""

from __future__ import annotations

from pathlib import Path

import narval
from tests.ask.work_home import PURCHASE, home_with
from tests.surfaces.cli.command_line import narval as command


def test_P14_check_tells_of_roles_that_nobody_holds(tmp_path: Path) -> None:
    text = PURCHASE.replace('roles="approver"', 'roles="aprover"')
    result = command(home_with(tmp_path / "home", text), "check")
    assert "no person has the role 'aprover'; did you mean 'approver'?" in result.output
    assert result.exit_code == 0


def test_P14_the_only_person_holds_every_role_and_is_not_two(tmp_path: Path) -> None:
    home = home_with(tmp_path / "home", PURCHASE.replace('name="approve"/>', 'name="approve" needs="2"/>', 1))
    (home / "etc" / "people.toml").unlink()
    assert "outcome 'approve' needs 2, and 1 of 1 people may answer" in command(home, "check").output


def test_P14_C9_ways_of_writing_want_a_server(tmp_path: Path) -> None:
    home = home_with(tmp_path / "home", PURCHASE.replace("</work>", '<ways names="mail"/></work>', 1))
    people = home / "etc" / "people.toml"
    people.write_text(f'ways = ["chat"]\n{people.read_text()}')
    by_mail = "mail is a way, and there is no server to send by; add [mail] to etc/narval.toml"
    by_chat = "chat is a way, and there is no chat; add [chats.NAME] to etc/narval.toml"
    output = command(home, "check").output
    assert by_mail in output
    assert by_chat in output
    with (home / "etc" / "narval.toml").open("a") as file:
        file.write('[mail]\nfrom = "narval@example.org"\nhost = "smtp.example.org"\n')
        file.write('[chats.phone]\nkind = "telegram"\nsecret = "s"\n')
    output = command(home, "check").output
    assert by_mail not in output
    assert by_chat not in output


def test_texts_are_warned_of_no_way_that_the_home_has(tmp_path: Path) -> None:
    work = '<work group="w" name="tell"><title>Tell</title><ways names="mail"/></work>'
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "narval.toml").write_text('[mail]\nfrom = "n@example.org"\npath = "out"\n')
    with narval.open(tmp_path) as agent:
        assert agent.ask("check", texts={"w.xml": work}) == []


def test_P73_a_rule_of_the_home_that_cannot_hold_is_told_with_its_line(tmp_path: Path) -> None:
    home = home_with(tmp_path / "home", PURCHASE)
    before = (home / "etc" / "people.toml").read_text()
    rule = '[[approval]]\naction = "basic.copy"\nwork = "w.nobody"\n'
    (home / "etc" / "people.toml").write_text(f"{before}\n{rule}")
    line = before.count("\n") + 2
    assert f"etc/people.toml:{line}:" in command(home, "check").output
    assert "there is no work 'w.nobody'" in command(home, "check").output
