"""`narval withdraw` and `narval confirm` (F14)."""

from __future__ import annotations

from pathlib import Path

from tests.ask.test_undoing import MODULE, RECIPES
from tests.daemon.at_work import Scene
from tests.surfaces.cli.command_line import data, narval, well
from tests.surfaces.cli.test_origins import home as home  # a fixture


def test_F14_the_commands_withdraw_and_confirm(home: Path) -> None:
    mail = int(well(home, "add", "-", given="<mail from='ada'/>"))
    run = int(data(home, "start", "w.triage", "--wait")["eid"])
    verdict, answer = (data(home, "memory", name)[0]["eid"] for name in ("verdict", "answer"))
    assert well(home, "withdraw", mail, "--dry-run").splitlines() == [
        "nothing was changed; 1 element would be withdrawn, 2 elements would be doubtful; "
        "what 1 run did outside would stay",
        f"would be withdrawn: {mail} mail",
        f"would be doubtful: {verdict} verdict, made by run {run} of w.triage",
        f"would be doubtful: {answer} answer, made by run {run} of w.triage",
        f"run {run} of w.triage (done) relied on it, and would stay as it is",
        "  step answer did something outside, by w.answer",
        "  step judge did something outside, by w.judge",
        "  step listen did something outside, by w.nothing",
    ]
    assert well(home, "withdraw", mail, "--reason", "forged").startswith(
        "1 element is withdrawn, 2 elements are doubtful; what 1 run did outside stays\n"
        f"withdrawn: {mail} mail\ndoubtful: "
    )
    assert well(home, "withdraw", mail, "--why", "forged") == f"element {mail} was withdrawn before\n"
    assert "  withdrawn: forged" in well(home, "element", mail).splitlines()
    assert f"`narval confirm {verdict}`" in well(home, "element", verdict)
    assert "  withdrawn   forged" in well(home, "why", mail).splitlines()
    assert f"{answer} answer (doubtful)" in well(home, "why", answer, "--origin")
    assert " withdrawn " in well(home, "memory", "mail")
    assert " doubtful " in well(home, "memory", "verdict[@al:doubtful]")
    by = f"made by run {run} of w.triage"
    assert well(home, "confirm", verdict).splitlines() == [
        f"valid again: {verdict} verdict, {by}",
        f"valid again: {answer} answer, {by}",
    ]
    refused = narval(home, "confirm", answer)
    assert (refused.exit_code, "nothing to confirm" in refused.stderr) == (1, True)


def test_F14_the_command_undoes_a_run(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "home")
    scene.write("modules/s.py", MODULE)
    scene.write("recipes/s.xml", RECIPES)
    home = scene.home.path
    well(home, "add", "-", given="<order n='7'/>")
    run = int(data(home, "start", "s.plain", "--wait")["eid"])
    lines = well(home, "undo", run, "--reason", "a mistake").splitlines()
    assert lines[:3] == [
        "step say, s.call_up: nothing undoes it",
        "step ship, s.ship: s.fetch undoes it",
        "step pay, s.pay: s.refund undoes it",
    ]
    well(home, "run", "--until-idle")
    (undoing,) = data(home, "runs", "--kind", "plan-undo")
    assert lines[3] == f"run {undoing['eid']} undoes what can be undone"
    assert undoing["phase"] == "done"


def test_F14_a_run_that_nothing_undoes_says_so_to_the_end(home: Path) -> None:
    well(home, "add", "-", given="<mail from='ada'/>")
    run = int(data(home, "start", "w.triage", "--wait")["eid"])
    *calls, last = well(home, "undo", run, "--reason", "a mistake").splitlines()
    assert calls
    assert all(line.endswith(": nothing undoes it") for line in calls)
    assert last.endswith(" undoes nothing, and records it")


def test_F14_to_withdraw_needs_a_reason(home: Path) -> None:
    mail = int(well(home, "add", "-", given="<mail/>"))
    assert narval(home, "withdraw", mail).exit_code == 2
    assert "would be withdrawn" in well(home, "withdraw", mail, "--why", "x", "--dry-run")
