"""`narval withdraw` and `narval confirm` (F14)."""

from __future__ import annotations

from pathlib import Path

from tests.surfaces.cli.command_line import data, narval, well
from tests.surfaces.cli.test_origins import home as home  # a fixture


def test_F14_the_commands_withdraw_and_confirm(home: Path) -> None:
    mail = int(well(home, "add", "-", given="<mail from='ada'/>"))
    run = int(data(home, "start", "w.triage", "--wait")["eid"])
    verdict, answer = (data(home, "memory", name)[0]["eid"] for name in ("verdict", "answer"))
    assert well(home, "withdraw", mail, "--dry-run").splitlines() == [
        f"would be withdrawn: {mail} mail",
        f"would be doubtful: {verdict} verdict, of w.triage, run {run}",
        f"would be doubtful: {answer} answer, of w.triage, run {run}",
    ]
    assert well(home, "withdraw", mail, "--why", "forged").startswith(f"withdrawn: {mail} mail\ndoubtful: ")
    assert well(home, "withdraw", mail, "--why", "forged") == f"element {mail} was withdrawn before\n"
    assert "  withdrawn: forged" in well(home, "element", mail).splitlines()
    assert f"`narval confirm {verdict}`" in well(home, "element", verdict)
    assert "  withdrawn   forged" in well(home, "why", mail).splitlines()
    assert f"{answer} answer (doubtful)" in well(home, "why", answer, "--origin")
    assert " withdrawn " in well(home, "memory", "mail")
    assert " doubtful " in well(home, "memory", "verdict[@al:doubtful]")
    assert well(home, "confirm", verdict).startswith("2 elements confirmed: ")
    refused = narval(home, "confirm", answer)
    assert (refused.exit_code, "nothing to confirm" in refused.stderr) == (1, True)


def test_F14_to_withdraw_needs_a_reason(home: Path) -> None:
    mail = int(well(home, "add", "-", given="<mail/>"))
    for options in ((), ("--why", "x", "--dry-run")):
        assert narval(home, "withdraw", mail, *options).exit_code == 2
