"""The contract of pages: what a handler is given, what it answers, and the marks that make it a route.

A page asks operations and shows their answers; it knows nothing of HTTP. `page` marks one that is looked at,
`act` one that alters something; the table that lists them is the program's.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol
from urllib.parse import quote, unquote, urlencode

import msgspec

from narval.surfaces.http.bulk import BulkActs

Role = Literal["reader", "person", "operator"]
"""The right of a visitor: to look at everything, to do their own work, to do everything."""

READERS: tuple[Role, ...] = ("reader", "operator")
WORKERS: tuple[Role, ...] = ("person", "operator")
EVERYBODY: tuple[Role, ...] = ("reader", "person", "operator")
OPERATORS: tuple[Role, ...] = ("operator",)


class Visitor(msgspec.Struct, frozen=True):
    """A person in a session: its number, the name, the role, and the token of the session's forms."""

    session: str
    person: str
    role: Role
    token: str = ""


class Follows(msgspec.Struct, frozen=True):
    """The news that concern a page: those of one run, or of any run, elements, work, files, jobs, the
    log.
    """

    run: int | None = None
    runs: bool = False
    elements: bool = False
    work: bool = False
    faults: bool = False
    jobs: bool = False
    log: bool = False


class Patch(msgspec.Struct, frozen=True, array_like=True):
    """The state of a part or arc of a drawing, by the id of its SVG element."""

    id: str
    state: str
    tone: str
    badge: str = ""


class Shown(msgspec.Struct):
    """The answer to a look: a template and its values."""

    template: str
    """The name of the template."""
    values: dict[str, Any]
    """The values of the template, but for those of the frame."""
    answer: Any = None
    """The answer that `.json` gives."""
    status: int = 200
    """The status of HTTP."""
    links: dict[str, str] = {}
    """The links in the header of `.json`, by their relation."""
    follows: Follows | None = None
    """The news that concern it; None of one that does not change."""
    parts: Sequence[Patch] = ()
    """The parts of its graph, which are patched one by one."""
    over: bool = False
    """True if nothing of it will change any more, which ends its stream."""
    again: float | None = None
    """The seconds after which it is made anew without any news."""


class Redirect(msgspec.Struct, frozen=True):
    """The answer to an act: where to look next."""

    url: str


class Fields:
    """The fields of a form, in their order; a name may come several times."""

    def __init__(self, pairs: Sequence[tuple[str, str]] = ()) -> None:
        self.pairs = tuple(pairs)

    def get(self, name: str, otherwise: str = "") -> str:
        """The first value of a name."""
        return next((value for key, value in self.pairs if key == name), otherwise)

    def all(self, name: str) -> list[str]:
        """All values of a name."""
        return [value for key, value in self.pairs if key == name]


class Ask(Protocol):
    """The way to the daemon's operations."""

    async def __call__(self, method: str, /, **params: Any) -> Any: ...


class Placing(Protocol):
    """The maker of layouts of graphs."""

    async def of(self, drawn: Mapping[str, Any], /) -> Any:
        """The layout of a graph; None where there is none."""


class Visit:
    """A request as handlers see it.

    `agent` is the agent that is meant, `path` holds the parameters of the path, `query` those of the address,
    and `asked` has those that come several times too; `fields` are those of the form. `live` is True where a
    page that is open is made anew: what cannot change may be left out. `ask` asks a reading operation; `act`
    any, and only while a form is answered.
    `layouts` places the parts of graphs, `bulk` holds the acts on many that wait or go on.
    """

    def __init__(
        self,
        visitor: Visitor,
        ask: Ask,
        act: Ask,
        path: Mapping[str, Any],
        query: Mapping[str, str],
        *,
        layouts: Placing,
        bulk: BulkActs | None = None,
        asked: Fields | None = None,
        fields: Fields | None = None,
        live: bool = False,
    ) -> None:
        self.visitor, self.ask, self.act, self.layouts = visitor, ask, act, layouts
        self.path, self.query, self.fields = path, query, fields or Fields()
        self.asked, self.live, self.bulk = asked or Fields(), live, bulk or BulkActs()

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return str(self.path.get("agent", ""))

    @staticmethod
    def address(agent: str, rest: str = "/") -> str:
        """The address of a page of an agent, `rest` from `/` on."""
        return f"/a/{segment(agent)}{rest}"

    @property
    def base(self) -> str:
        """The start of the addresses of this agent's pages."""
        return self.address(self.agent, "")

    def url(self, rest: str = "/", **query: Any) -> str:
        """An address of this agent, `rest` from `/` on; parameters that are None or empty are left out."""
        return self.base + rest + with_query(query)

    def number(self, name: str) -> int | None:
        """A whole number of the address; None where there is none, or it is none."""
        return whole_number(self.query.get(name, ""))


def whole_number(text: str) -> int | None:
    """A whole number of an address or a form, as far as a store can hold it; None for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None


def segment(value: object) -> str:
    """A value as one segment of a path, whatever it is, which `name_in` reads.

    A segment that would lead elsewhere, as `..`, `a/b`, and `b.json` or `live`, which are ways of looking, is
    percent-encoded twice: servers and browsers undo the first before they look where a path leads.
    """
    text = str(value).replace("%", "%25").replace("/", "%2F").replace("\\", "%5C")
    if text in (".", "..", "live") or text.endswith(".json"):
        text = f"%{ord(text[0]):02X}{text[1:]}" if text == "live" else text.replace(".", "%2E")
    return quote(text.encode("utf-8", "replace"), safe="")


def name_in(part: str) -> str:
    """The value that a segment of a path stands for, as the server gives it."""
    return unquote(part) if "%" in part else part


def with_query(query: Mapping[str, Any]) -> str:
    """The query of an address, with `?`; parameters that are None or empty are left out."""
    arguments = {name: value for name, value in query.items() if value not in (None, "", False)}
    return f"?{urlencode(arguments)}" if arguments else ""


Handler = Callable[[Visit], Awaitable["Shown | Redirect"]]


class PageRoute(msgspec.Struct, frozen=True):
    """A page or an act: its path, who may, and the command that says the same (M5).

    An act that `looks` alters nothing, and may answer with a page: its form has more than an address holds.

    `options` has the option of the command for each parameter of the address; one that is "" is an argument,
    and one that ends in "!" takes no value. `name=value` is a parameter that has this value.
    """

    path: str
    handler: Handler
    roles: tuple[Role, ...]
    is_act: bool = False
    looks: bool = False
    command: str = ""
    options: Mapping[str, str] = {}

    @property
    def name(self) -> str:
        """The name of the handler, by which templates and tests know it."""
        return self.handler.__name__

    def command_of(self, path: Mapping[str, Any], query: Mapping[str, str]) -> str:
        """The command that says the same as the page at an address, with its filters."""
        words = [self.command.format(**{name: shlex.quote(str(value)) for name, value in path.items()})]
        for parameter, option in self.options.items():
            name, _, only = parameter.partition("=")
            value = query.get(name)
            if not value or only not in ("", value):
                continue
            if option:
                words.append(option.removesuffix("!"))
            if not option.endswith("!"):
                words.append(shlex.quote(value))
        return " ".join(words)


def page(
    path: str,
    *,
    roles: tuple[Role, ...] = READERS,
    command: str = "",
    options: Mapping[str, str] | None = None,
) -> Callable[[Handler], PageRoute]:
    """Mark a function as the page at a path, `{name}` and `{name:int}` being its parameters."""
    return lambda handler: PageRoute(path, handler, roles, command=command, options=options or {})


def act(
    path: str, *, roles: tuple[Role, ...] = OPERATORS, looks: bool = False
) -> Callable[[Handler], PageRoute]:
    """Mark a function as what a form sent to a path does: it leads to a page, or shows what is wrong.

    A page that says what was done is led to, never the answer itself: to look again must not act again. One
    that only `looks` may answer with a page; it cannot do anything.
    """
    return lambda handler: PageRoute(path, handler, roles, is_act=True, looks=looks)


VISITOR = "narval.visitor"
"""The key in the scope of a request under which the guard leaves the Visitor, or None."""

FIELDS = "narval.fields"
"""The key in the scope of a request under which the guard leaves the Fields of its form."""
