"""P14: `narval check` doubts work by the people of the home."""

from __future__ import annotations

from pathlib import Path

from tests.operations.work_home import PURCHASE, home_with
from tests.surfaces.cli.command_line import narval as command


def test_P14_check_tells_of_roles_that_nobody_holds(tmp_path: Path) -> None:
    text = PURCHASE.replace('roles="approver"', 'roles="aprover"')
    result = command(home_with(tmp_path / "home", text), "check")
    assert "nobody holds the role 'aprover'; did you mean 'approver'?" in result.output
    assert result.exit_code == 0


def test_P14_the_only_person_holds_every_role_and_is_not_two(tmp_path: Path) -> None:
    home = home_with(tmp_path / "home", PURCHASE.replace('name="approve"/>', 'name="approve" needs="2"/>', 1))
    (home / "etc" / "people.toml").unlink()
    assert "outcome 'approve' needs 2, and 1 of 1 people may answer" in command(home, "check").output
