"""The methods of an agent for processes (sections 2, 8 and 11)."""

from __future__ import annotations

from typing import Any

from narval.ask.asker import Asker
from narval.daemon.daemon import Daemon
from narval.kinds.process import operations as processes
from narval.surfaces.python.runner import Runner, ask, forward


class OfProcesses:
    """Tokens, environments and listeners of a process. Refusals raise TokenError."""

    daemon: Daemon
    runner: Runner
    asker: Asker

    complete = forward(processes.complete)
    backtrack = forward(processes.backtrack)
    rerun = forward(processes.rerun)
    tokens = forward(processes.tokens)
    traverse = forward(processes.traverse)
    execute_queued = forward(processes.execute_queued)

    def environment(
        self,
        run: int,
        token: int | None = None,
        values: dict[str, Any] | None = None,
        *,
        of_set: str | None = None,
        index: int | None = None,
    ) -> dict[str, str]:
        """The attributes of a process, or of a token over them; `values` are set first (None removes one)."""
        if values is None:
            return dict(ask(self, processes.environment, run, token, of_set, index)["environment"])
        return dict(ask(self, processes.set_environment, run, values, token, of_set, index)["environment"])

    def listen(self, run: int, listener: str, *events: str) -> dict[str, Any]:
        """Subscribe a listener to these events of a process, or to all if none are named."""
        return ask(self, processes.listen, run, listener, list(events))

    def unlisten(self, run: int, listener: str, *events: str) -> dict[str, Any]:
        """Unsubscribe a listener from these events of a process, or from all if none are named."""
        return ask(self, processes.unlisten, run, listener, list(events))
