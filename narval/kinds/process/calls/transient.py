"""Transient attributes: any objects of a process and its tokens, kept while the daemon runs (section 8).

They are not part of the state and are not recorded: a run that another daemon takes over has none. A token
inherits those that its parents had when its attributes were first read; later parents win.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from narval.agent.run import Run
from narval.core.engines.commands import Call
from narval.core.errors import RequestError
from narval.kinds.process.engine.tokens.views import sources

PROCESS = 0
"""The key of the process's own attributes among those of its tokens."""

_NONE: Mapping[str, Any] = {}


def of_token(run: Run, token: int) -> Mapping[str, Any]:
    """The attributes of a token: its own, or else those inherited from its parents."""
    transient = run.transient
    if not transient:
        return _NONE
    waiting = [token]
    while waiting:
        number = waiting[-1]
        before = sources(run.state, run.state.nodes[number]) if number not in transient else ()
        missing = [source for source in before if source not in transient]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if number not in transient:
            values = [transient[source] for source in before if transient[source]]
            transient[number] = _NONE if not values else values[0] if len(values) == 1 else _merged(values)
    return transient[token]


def _merged(layers: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    return {name: value for layer in layers for name, value in layer.items()}


def hand_over(run: Run, call: Call, begun: Run) -> None:
    """Give a process that is nested in a node the attributes of the node's token (section 9)."""
    token = (call.payload or {}).get("token")
    if run.transient and isinstance(token, int):
        begun.transient[PROCESS] = {**run.transient.get(PROCESS, _NONE), **of_token(run, token)}


class TransientView(MutableMapping[str, Any]):
    """Attributes by name. The first layer that has a name gives its value; attributes are set in the first
    layer.
    """

    __slots__ = ("_layers", "is_altered", "is_writable")

    def __init__(self, *layers: dict[str, Any], writable: bool) -> None:
        self._layers, self.is_writable = layers, writable
        self.is_altered = False

    @property
    def own(self) -> dict[str, Any]:
        """The attributes of the first layer."""
        return self._layers[0]

    def __getitem__(self, name: str) -> Any:
        for layer in self._layers:
            if name in layer:
                return layer[name]
        raise KeyError(f"no transient attribute {name!r}: they are gone once the daemon has stopped")

    def __contains__(self, name: object) -> bool:
        return any(name in layer for layer in self._layers)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for layer in self._layers for name in layer))

    def __len__(self) -> int:
        return len(set().union(*self._layers))

    def __setitem__(self, name: str, value: object) -> None:
        self._alter(name)[name] = value

    def __delitem__(self, name: str) -> None:
        del self._alter(name)[name]

    def _alter(self, name: str) -> dict[str, Any]:
        if not self.is_writable:
            raise RequestError(f"the transient attribute {name!r} cannot be set here: it is only read")
        if not isinstance(name, str) or not name:
            raise RequestError(f"expected the name of an attribute, got {name!r:.80}")
        self.is_altered = True
        return self.own

    def __repr__(self) -> str:
        return f"<transient attributes {sorted(self)!r:.200}>"


class Transients:
    """The attributes that code gets with a token, or without one those of its process. They are copies, so
    late effects of the code cannot touch a run.
    """

    __slots__ = ("_call", "_number", "_run", "process", "token")

    def __init__(self, run: Run, token: int | None, call: str = "") -> None:
        self._run, self._number, self._call = run, token, call
        shared = dict(run.transient.get(PROCESS, _NONE))
        self.process = TransientView(shared, writable=bool(call))
        own = dict(of_token(run, token)) if token is not None else {}
        self.token = TransientView(own, shared, writable=bool(call))
        """The attributes of the token over those of its process."""

    def keep(self) -> None:
        """Store what the code has set in the run, if it still waits for the call."""
        run, token = self._run, self._number
        if self._call not in run.calls or self._call in run.abandoned:
            return
        if self.process.is_altered:
            run.transient[PROCESS] = self.process.own
        if self.token.is_altered and token is not None:
            run.transient[token] = self.token.own
