"""Control elements: `start-plan` begins a run (N4), `quit` stops the daemon (N34)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from narval.engines.registry import runnable
from narval.errors import ElementError
from narval.memory.elements import changes
from narval.memory.elements.canonical import canonical_given
from narval.memory.elements.control_elements import ACTED, QUIT, TARGET
from narval.memory.elements.element import Element, Origin, children, local_name, parse
from narval.memory.elements.error_element import make_error
from narval.runtime.agent.runs import start_run
from narval.runtime.agent.transaction import Transaction

log = logging.getLogger("narval.turn")


class Controls:
    """Executes control elements, within a transaction.

    With `record_only` a start-plan at="start" is left to the next daemon.
    """

    def __init__(
        self, transaction: Transaction, schema_fault: Callable[[bytes], str | None], *, record_only: bool
    ) -> None:
        self._transaction, self._schema_fault, self._record_only = transaction, schema_fault, record_only

    def execute_all(self) -> None:
        """Execute those that have entered memory."""
        controls = list(self._transaction.pending.controls)
        self._transaction.pending.controls.clear()
        for element in controls:
            self.execute(element)

    def execute(self, element: Element) -> None:
        """Do what one says."""
        if local_name(element.name) == QUIT:
            self._transaction.request_quit()
            return
        root = parse(element.xml)
        if self._record_only and root.get("at") == "start":
            return  # the next daemon's start is the one it means
        name = root.get(TARGET, "")
        transaction, agent = self._transaction, self._transaction.agent
        if runnable(agent.library, name) is None:
            why = f"start-plan names {name or 'nothing'}, and no such definition is loaded; it waits for it"
            log.warning("%s", why)
            self.add(make_error("unknown-target", why, start=element.eid), element.origin)
            return
        if element.eid not in agent.memory.marks.get(ACTED, ()):
            transaction.change(changes.Used(ACTED, (element.eid,)))
        try:
            first = [canonical_given(child) for child in children(root)]
        except ElementError as error:
            why = f"start-plan of {name} holds an element that is refused: {error}"
            self.add(make_error(error.kind, why, start=element.eid), element.origin)
            return
        refusal = next(filter(None, map(self._schema_fault, first)), None)
        if refusal is not None:
            why = f"start-plan of {name} holds an element that its schema refuses: {refusal}"
            self.add(make_error("invalid", why, start=element.eid), element.origin)
            return
        added = tuple(self.add(child, element.origin) for child in first)
        start_run(transaction, name, added, origin=element.origin)

    def add(self, xml: bytes, origin: Origin | None = None, declared: str = "") -> int:
        """Let an element enter memory, and do what it says if it is a control element; its eid."""
        eid = self._transaction.add(xml, origin, declared)
        self.execute_all()
        return eid
