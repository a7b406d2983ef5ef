"""Commands that give the answer to one operation, and groups: what they take is what is asked."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from narval.ask.operations import OPERATIONS
from narval.kinds.work.engine.table import ACTS_ON_ITEMS, SHOWN
from tests.house.operations_page import all_commands
from tests.surfaces.cli.command_line import data, make_home, narval

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
        is_number = isinstance(parameter.type, click.types.IntParamType)
        assert is_number == ("int" in declared.replace("[", " ").replace("]", " ").split()), (key, declared)


@pytest.mark.parametrize("name", ACTS_ON_ITEMS)
def test_the_command_of_an_act_takes_the_fields_of_its_row(name: str) -> None:
    taken = [each.name for each in ASKING[f"work {name}"].params if each.expose_value]
    assert taken == ["item", *(field.name for field in ACTS_ON_ITEMS[name].fields if field is not SHOWN)]


def test_what_stands_before_a_command_of_a_group_is_given_to_it_or_refused(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    for before, after in ((("--person", "ann"), ()), ((), ("--person", "ann"))):
        assert data(home, "work", *before, "forget", *after) == {"person": "ann", "forgotten": []}
    refused = narval(home, "work", "--all", "log")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--all goes with work alone, not with log" in refused.stderr
    assert narval(home, "errors", "--all", "show", "3f9c01ab").exit_code == 2
