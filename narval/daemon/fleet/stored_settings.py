"""Stored settings: those of agents that any daemon of a store may have (G58)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from narval.daemon.agents.agent_rows import AgentRows
from narval.files.agents.settings import SETTINGS, Given, parse_stored_settings
from narval.store.store import Store

log = logging.getLogger("narval.collections")


class StoredSettings:
    """The settings of the agents of `rows` that have no folder, cached until they may have changed."""

    def __init__(self, store: Store, rows: AgentRows) -> None:
        self._store, self._rows = store, rows
        self._given: dict[str, Given] = {}
        """The cached settings, by name."""
        self._coming: dict[str, str] = {}
        """The texts of settings that are being recorded."""

    def given(self, name: str) -> Given:
        """The stored settings of an agent. Raises StoreError."""
        if self._rows.number(name) is None and name not in self._coming:
            return {}
        if name not in self._given:
            given, faults = parse_stored_settings(self._text(name))
            for fault in faults:
                log.error("the settings of agent %s are not active: %s", name, fault)
            self._given[name] = given or {}
        return self._given[name]

    def forget(self, name: str) -> None:
        """Forget the cached settings of an agent."""
        self._given.pop(name, None)

    @contextmanager
    def coming(self, name: str, text: str) -> Iterator[None]:
        """Use a text as the settings of an agent within the `with` block, while it is being recorded."""
        self._coming[name] = text
        self.forget(name)
        try:
            yield
        finally:
            del self._coming[name]
            self.forget(name)

    def _text(self, name: str) -> str:
        """The text of an agent's settings; "" if it has none. Raises StoreError."""
        if name in self._coming:
            return self._coming[name]
        number = self._rows.number(name)
        return self._store.of(number).meta.get(SETTINGS, "") if number is not None else ""
