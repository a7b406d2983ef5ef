"""Commands name calls, watches and timers: a call is new, and what is taken back was asked for."""

from __future__ import annotations

from narval.core.engines import commands
from narval.core.engines.commands import Call, Command
from narval.core.engines.effects import InForce


def check_named(asked: InForce, command: Command) -> None:
    """A call is new, and what is taken back was asked for."""
    if isinstance(command, Call):
        assert command.call not in asked.calls, f"call {command.call} was made before"
    elif isinstance(command, commands.Unwatch):
        assert command.watch in asked.watches, f"{command.watch} is not watched"
    elif isinstance(command, commands.CancelTimer):
        assert command.wake in asked.wakes, f"{command.wake} is not waited for"
