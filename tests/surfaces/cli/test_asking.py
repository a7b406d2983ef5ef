"""Commands that give the answer to one operation, and groups: what they take is what is asked."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from narval.ask.operations import OPERATIONS
from narval.kinds.work.engine.table import ACTS_ON_ITEMS, CLAIMED, SHOWN
from narval.surfaces.cli import COMMANDS, main
from narval.surfaces.cli.command import CommandGroup, Number
from narval.surfaces.cli.paging import Page
from narval.surfaces.cli.session import Session
from tests.house.operations_page import all_commands
from tests.surfaces.cli.command_line import data, make_home, narval, well

ASKING = {name: command for name, command in all_commands() if command.operation}


@pytest.mark.parametrize("name", ASKING)
def test_what_a_command_takes_is_what_its_operation_asks(name: str) -> None:
    command = ASKING[name]
    operation = OPERATIONS[command.operation]
    taken = {str(each.name): each for each in command.params if each.expose_value}
    assert taken.keys() <= operation.parameters.keys()
    needed = {key for key, each in operation.parameters.items() if each.default is each.empty}
    assert needed <= {
        key for key, each in taken.items() if each.required or key == "task"
    }  # NARVAL_TASK has it
    for key, parameter in taken.items():
        declared = str(operation.parameters[key].annotation)
        several = parameter.multiple or parameter.nargs == -1
        assert several == declared.startswith(("list[", "dict[")), (key, declared)
        is_number = isinstance(parameter.type, click.types.IntParamType | Number)
        assert is_number == ("int" in declared.replace("[", " ").replace("]", " ").split()), (key, declared)


@pytest.mark.parametrize("name", ACTS_ON_ITEMS)
def test_the_command_of_an_act_takes_the_fields_of_its_row(name: str) -> None:
    taken = [each.name for each in ASKING[f"work {name}"].params if each.expose_value]
    assert taken == [
        "item",
        *(field.name for field in ACTS_ON_ITEMS[name].fields if field not in (SHOWN, CLAIMED)),
    ]


def test_a_task_that_is_moved_is_told_apart_from_its_item(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {"item": 41, "work": "desk.ticket", "by": "ann", "state": "claimed", "to": "checking"}
    monkeypatch.setattr(Session, "ask", lambda *_, **__: answer)
    said = well(tmp_path, "work", "move", "41", "checking")
    assert said == "item 41 is claimed, and its task goes to checking\n"
    handed = answer | {"state": "offered", "to": "ben"}
    monkeypatch.setattr(Session, "ask", lambda *_, **__: handed)
    assert well(tmp_path, "work", "delegate", "41", "ben") == "item 41 is offered to ben\n"


def test_an_option_may_stand_before_the_command_of_a_group_that_has_it(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    for words in (("forget", "--person", "ann"), ("--person", "ann", "forget"), ("--person=ann", "forget")):
        assert data(home, "work", *words) == {"person": "ann", "forgotten": []}
    well(home, "agents", "add", "ada")
    assert data(home, "agents", "--reason", "show", "suspend", "ada")["why"] == "show"
    for words in (("work", "--all", "log"), ("errors", "--all", "show", "3f9c01ab")):
        refused = narval(home, *words)
        assert (refused.exit_code, refused.stdout, "--all" in refused.stderr) == (2, "", True)


def test_the_command_for_the_next_page_names_the_group() -> None:
    group = COMMANDS["task"]
    assert isinstance(group, CommandGroup)
    outer = click.Context(group, info_name="task", parent=click.Context(main, info_name="python -m narval"))
    with click.Context(group.commands["events"], info_name="events", parent=outer):
        assert Page(1, None, limit_given=False).going_on(Session(), 5) == "narval task events --before 5"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (("check", "--tell", "demo.greet"), "`narval definitions` lists each definition with its file"),
        (("check", "--explore", "demo.greet"), "`narval definitions` lists each definition with its file"),
        (("history", "1", "--after", "3"), "--after goes with --replay"),
        (("grant",), "`narval grants` lists what is asked for"),
        (("revoke",), "`narval grants` lists what is granted"),
        (("calendar", "--from", "tomorow"), "such as 2026-11-23T07:00, got 'tomorow'\n"),
        (("take", "nope"), "`narval take` lists the examples"),
        (("diff", "nope"), "`narval diff` all else"),
        (("dataflow", "recipes/demo.xml"), "expected a file with dataflows, found none in"),
    ],
)
def test_a_wrong_use_says_what_to_look_at(tmp_path: Path, line: tuple[str, ...], why: str) -> None:
    home = make_home(tmp_path)
    (home / "etc").mkdir(exist_ok=True)
    (home / "recipes/demo.xml").write_text("<cookbook/>")
    result = narval(home, *(str(home / one) if one.startswith("recipes") else one for one in line))
    assert result.exit_code != 0
    assert why in result.stderr


@pytest.mark.parametrize("line", ["figures", "gantt", "agents messages", "mcp login"])
def test_a_number_is_called_by_its_letter(tmp_path: Path, line: str) -> None:
    assert "RANGE" not in narval(tmp_path, *line.split(), "--help").stdout
