"""Tokens as the user's code sees them: plain data to read, and effects kept in order (sections 8, 10).

A token is made from the engine's view of it (`token_view`). What the code sets, and how it completes the
token, becomes *effects*: plain data that go back to the engine with the answer. So the same token works in
the loop, in a thread and in a worker, and late or partial effects of the code cannot touch a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from narval.core.errors import ActionError, RequestError
from narval.kinds.process.language.attribute_types import from_text, kept

if TYPE_CHECKING:  # a worker never has these, and need not import their modules
    from narval.kinds.process.calls.transient import Transients, TransientView

MOST_EFFECTS = 10_000
MOST_MEMBERS = 100_000

Effect = dict[str, Any]
Write = Callable[[str, str | None], None]
Nearest = Callable[[str], Mapping[str, Any] | None]
"""A function that gives the nearest token on a node of that name, as plain data."""


class Delay:
    """An answer of a guard: ask again at a moment (a datetime, or seconds since 1970)."""

    __slots__ = ("until",)

    def __init__(self, until: datetime | float) -> None:
        self.until = until.timestamp() if isinstance(until, datetime) else float(until)


class EnvironmentView(Mapping[str, str]):
    """Attributes by name, kept as texts. The first layer that has a name gives its value. Attributes are set
    in the first layer.
    """

    __slots__ = ("_layers", "_write")

    def __init__(self, layers: Iterable[dict[str, str]], write: Write | None = None) -> None:
        self._layers, self._write = tuple(layers), write

    def __getitem__(self, name: str) -> str:
        for layer in self._layers:
            if name in layer:
                return layer[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for layer in self._layers for name in layer))

    def __len__(self) -> int:
        return len(set().union(*self._layers))

    def get(self, name: str, default: Any = None, type: Any = str) -> Any:
        """An attribute as a value of a type: `int`, `bool`, `datetime`, … Raises ValueError."""
        text = next((layer[name] for layer in self._layers if name in layer), None)
        return default if text is None else from_text(text, type)

    def set(self, name: str, value: object) -> None:
        """Set an attribute; None removes it. Raises RequestError if nothing may be set."""
        if self._write is None:
            raise RequestError(f"the attribute {name!r} cannot be set here: this environment is only read")
        text = kept(name, value)
        self._write(name, text)
        if text is None:
            self._layers[0].pop(name, None)
        else:
            self._layers[0][name] = text

    def __setitem__(self, name: str, value: object) -> None:
        self.set(name, value)

    def __delitem__(self, name: str) -> None:
        self.set(name, None)

    def __repr__(self) -> str:
        return f"<environment {dict(self)!r:.200}>"


class NodeView:
    """The node that a token is on."""

    __slots__ = ("arcs", "custom", "external", "external_environment", "external_path", "name", "type")

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.name: str = data["name"]
        self.type: str = data.get("type", "node")
        self.external: str | None = data.get("external")
        """The external that imported it, the outermost of several; or None."""
        self.external_path: tuple[str, ...] = tuple(data.get("external_path", ()))
        """The externals that imported it, outermost first."""
        self.arcs: tuple[Mapping[str, str], ...] = tuple(data.get("arcs", ()))
        """The arcs that leave it: `name` and `to` of each."""
        self.custom: Mapping[str, str] = MappingProxyType(dict(data.get("custom", {})))
        self.external_environment = EnvironmentView([dict(data.get("external_environment", {}))])

    def __repr__(self) -> str:
        return f"<node {self.name!r} of type {self.type!r}>"


class ProcessView:
    """The run that a token belongs to."""

    __slots__ = ("_transients", "environment", "name", "run", "state")

    def __init__(
        self, data: Mapping[str, Any], write: Write | None = None, transients: Transients | None = None
    ) -> None:
        self._transients = transients
        self.run: int = data.get("run", 0)
        self.name: str = data.get("name", "")
        self.state: str = data.get("state", "")
        self.environment = EnvironmentView([dict(data.get("environment", {}))], write)

    @property
    def transient(self) -> TransientView:
        """Its transient attributes. Raises RequestError if there are none."""
        return _there(self._transients).process

    def __repr__(self) -> str:
        return f"<process {self.run} of {self.name!r}>"


class SetMember:
    """A token set that a token is in, and the token's place in it (section 7)."""

    __slots__ = ("environment", "index", "level", "max_index", "member", "name")

    def __init__(self, data: Mapping[str, Any], shared: Write | None, own: Write | None) -> None:
        self.name: str = data["name"]
        self.index: int = data.get("index", 0)
        self.max_index: int = data.get("max_index", 0)
        self.level: int = data.get("level", 0)
        self.environment = EnvironmentView([dict(data.get("environment", {}))], shared)
        self.member = EnvironmentView([dict(data.get("member", {}))], own)

    def __repr__(self) -> str:
        return f"<member {self.index} of the set {self.name!r}>"


class Token:
    """A node token: its data, and the effects that code has on it."""

    __slots__ = (
        "_at", "_nearest", "_transients", "completes", "effects", "environment", "execution_type",
        "guard_action", "id", "is_complete", "is_writable", "node", "parents", "process", "sets",
    )  # fmt: skip

    def __init__(
        self,
        data: Mapping[str, Any],
        *,
        writable: bool = False,
        completes: bool = True,
        at: float | None = None,
        transients: Transients | None = None,
        nearest: Nearest | None = None,
    ) -> None:
        self._at, self._transients, self._nearest = at, transients, nearest
        self.id: int = data["id"]
        self.node = NodeView(data["node"])
        self.is_complete = bool(data.get("complete", False))
        self.guard_action: str | None = data.get("guard_action") or None
        self.execution_type: str = data.get("execution_type", "Forward")
        self.parents: tuple[int, ...] = tuple(data.get("parents", ()))
        """The node tokens it comes from."""
        self.is_writable, self.effects = writable, list[Effect]()
        self.completes = completes
        """True if it may be completed here: once, and not by code that backtracks."""
        self.process = ProcessView(data.get("process", {}), self._writer("process"), transients)
        own = dict(data.get("environment", {}))
        shared = self.process.environment._layers[0]
        self.environment = EnvironmentView([own, shared], self._writer("token"))
        """Its attributes over those of the process; an attribute is set for the token alone."""
        self.sets: Mapping[str, SetMember] = MappingProxyType(
            {
                member["name"]: SetMember(
                    member, self._writer("set", member["name"]), self._writer("member", member["name"])
                )
                for member in data.get("sets", ())
            }
        )

    @property
    def now(self) -> datetime:
        """The moment of the question, by the home's clock, which may be simulated."""
        return datetime.now(UTC) if self._at is None else datetime.fromtimestamp(self._at, UTC)

    @property
    def transient(self) -> TransientView:
        """Its transient attributes over those of the process. An attribute is set for the token, and tokens
        that descend from it inherit it. Raises RequestError if there are none.
        """
        return _there(self._transients).token

    def nearest(self, node: str) -> Token | None:
        """The nearest token on a node of that name that was not backtracked: itself, or one it descends from;
        None if there is none. The result is read-only.
        """
        number = self._nearest(node) if self._nearest is not None else None
        return Token(number, at=self._at) if number is not None else None

    def set(self, name: str, value: object) -> None:
        """Set an attribute of the token; tokens that descend from it inherit it."""
        self.environment.set(name, value)

    def complete(self, arc: str | None = None, *, asynchronous: bool = False) -> None:
        """Complete the token: it leaves on the arcs of that name, by default on those without a name."""
        self.complete_many(arc, asynchronous=asynchronous)

    def complete_many(self, *arcs: str | None, asynchronous: bool = False) -> None:
        """Complete the token: it leaves on the arcs of these names; without names it ends here."""
        self._completing()
        self._add_effect(do="complete", arcs=[_arc(name) for name in arcs], asynchronous=asynchronous)

    def complete_with_new_token_set(
        self,
        name: str,
        count: int,
        arc: str | None = None,
        *,
        environment: Mapping[str, object] | None = None,
        members: Mapping[str, Sequence[object]] | None = None,
        asynchronous: bool = False,
    ) -> None:
        """Complete the token: a set of `count` tokens leaves on each arc of that name (section 7).

        `environment` is shared by the set; `members` gives each member its value by index.
        """
        if not isinstance(count, int) or not 0 <= count <= MOST_MEMBERS:
            raise RequestError(f"expected a count from 0 to {MOST_MEMBERS:,}, got {count!r:.80}")
        self._completing()
        self._add_effect(
            do="complete-with-new-token-set",
            arcs=[_arc(arc)],
            name=kept("name", str(name)),
            count=count,
            asynchronous=asynchronous,
            environment={key: kept(key, value) for key, value in (environment or {}).items()},
            members={key: [kept(key, one) for one in values] for key, values in (members or {}).items()},
        )

    def backtrack(self, to: int) -> None:
        """Send the process back to where the token with that id was active (section 11)."""
        self._add_effect(do="backtrack", token=int(to))

    def _completing(self) -> None:
        if not self.completes:
            raise RequestError(f"token {self.id} is not to be completed here, or is already")
        self.completes = False

    def _add_effect(self, **effect: Any) -> None:
        if not self.is_writable:
            raise RequestError(f"token {self.id} can only be looked at here")
        if len(self.effects) >= MOST_EFFECTS:
            raise ActionError(f"expected at most {MOST_EFFECTS:,} effects of one call", "too-many")
        self.effects.append(effect)

    def _writer(self, of: str, name: str | None = None) -> Write | None:
        if not self.is_writable:
            return None

        def write(key: str, text: str | None) -> None:
            named = {} if name is None else {"set": name}
            self._add_effect(do="set", of=of, name=key, value=text, **named)

        return write

    def __repr__(self) -> str:
        return f"<token {self.id} on {self.node.name!r}>"


def _there(transients: Transients | None) -> Transients:
    if transients is None:
        raise RequestError(
            "transient attributes never leave the daemon: expected code that runs in a thread, inline "
            "or async, found a worker"
        )
    return transients


def _arc(name: str | None) -> str:
    """An arc's name as the engine knows it; "" for an arc without one."""
    if name is not None and not isinstance(name, str):
        raise RequestError(f"expected the name of an arc, got {name!r:.80}")
    return kept("arc", name or "") or ""


# --- arguments of questions ------------------------------------------------------------------------------


class ArcTokenView:
    """A token on its way along an arc; it waits at the arc's end."""

    __slots__ = ("arc", "id", "node", "parent")

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.id: int = data["id"]
        self.arc: str = data.get("arc", "")
        """The arc's name, "" for those without one."""
        self.node: str = data.get("from", "")
        """The node it comes from."""
        self.parent: int = data.get("parent", 0)

    def __repr__(self) -> str:
        return f"<arc token {self.id} from {self.node!r}>"


class Arrival:
    """The arrival of a token at a node whose join is code; the code decides which waiting tokens join."""

    __slots__ = ("node", "target", "token", "waiting")

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.waiting = tuple(ArcTokenView(token) for token in data.get("waiting", ()))
        """The tokens that wait at the node, oldest first, including the arriving one."""
        self.token = next((token for token in self.waiting if token.id == data.get("arc_token")), None)
        self.node: str = data.get("node", "")
        self.target: int | None = data.get("target")
        """The newest token on the node that others may be merged into, or None."""

    def join(self, tokens: Iterable[ArcTokenView] | None = None) -> dict[str, Any]:
        """The answer that joins these tokens into a new one; by default all that wait."""
        return {"join": [token.id for token in (self.waiting if tokens is None else tokens)]}

    def merge(self, tokens: Iterable[ArcTokenView] | None = None) -> dict[str, Any]:
        """The answer that merges these tokens into the newest one already on the node."""
        if self.target is None:
            raise RequestError("there is no token on the node to merge into")
        merged = [token.id for token in (self.waiting if tokens is None else tokens)]
        return {"merge": merged, "into": self.target}


class ProcessEvent:
    """An event that a listener is notified of, and the token it happened to."""

    __slots__ = ("arc_token", "arcs", "process", "token", "type")

    def __init__(
        self,
        data: Mapping[str, Any],
        token: Mapping[str, Any],
        transients: Transients | None = None,
        nearest: Nearest | None = None,
    ) -> None:
        self.type: str = data["event"]
        self.arc_token: int | None = data.get("arc_token")
        self.arcs: tuple[str, ...] = tuple(data.get("arcs") or ())
        """The names of the arcs on which a completed token leaves."""
        self.token = Token(token, transients=transients, nearest=nearest) if "id" in token else None
        alone = ProcessView(token["process"], None, transients)
        self.process = alone if self.token is None else self.token.process

    def __repr__(self) -> str:
        return f"<{self.type} {self.token if self.token is not None else self.arc_token}>"
