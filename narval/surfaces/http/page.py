"""The contract of pages: what a handler is given, what it answers, and the marks that make it a route.

A page asks operations and shows their answers; it knows nothing of HTTP. `page` marks one that is shown,
`act` one that alters something; the program has the table that lists them.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, get_args
from urllib.parse import quote, unquote, urlencode

import msgspec

from narval.core.agreeing import Role, roles
from narval.core.errors import RequestError
from narval.surfaces.http.bulk import BulkActs

READERS, WORKERS, OPERATORS = roles("read"), roles("people"), roles("write")
EVERYBODY: tuple[Role, ...] = get_args(Role)
"""The rights of visitors: to look at everything, to do their own work, to do everything; and any of these."""


class Visitor(msgspec.Struct, frozen=True):
    """A person in a session: its number, the person's name and role, and the token of the session's forms."""

    session: str
    person: str
    role: Role
    token: str = ""


class Follows(msgspec.Struct, frozen=True):
    """The news that concern a page: those of one run, or of any run, elements, work, files, jobs, the log."""

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
    """The answer to a reading request: a template and its values."""

    template: str
    """The name of the template."""
    values: dict[str, Any]
    """The values of the template, without those of the frame."""
    answer: Any = None
    """The answer of `.json`."""
    status: int = 200
    """The status of HTTP."""
    links: dict[str, str] = {}
    """The links in the header of `.json`, by their relation."""
    follows: Follows | None = None
    """The news that concern it; None for a page that does not change."""
    parts: Sequence[Patch] = ()
    """The parts of its graph, which are patched one by one."""
    over: bool = False
    """True if it can no longer change, which ends its stream."""
    again: float | None = None
    """The seconds after which it is remade without any news."""


class Redirect(msgspec.Struct, frozen=True):
    """The answer to an act: the page to show next."""

    url: str


class Fields:
    """The fields of a form, in their order; a name may appear several times.

    Lines of a text end with LF, as in files: browsers send CR and LF, whatever was typed.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]] = ()) -> None:
        self.pairs = tuple((name, value.replace("\r\n", "\n")) for name, value in pairs)

    def get(self, name: str, otherwise: str = "") -> str:
        """The first value of a name."""
        return next((value for key, value in self.pairs if key == name), otherwise)

    def all(self, name: str) -> list[str]:
        """All values of a name."""
        return [value for key, value in self.pairs if key == name]


class Ask(Protocol):
    """The interface to the daemon's operations."""

    async def __call__(self, method: str, /, **params: Any) -> Any: ...


class Placing(Protocol):
    """The maker of layouts of graphs."""

    async def of(self, drawn: Mapping[str, Any], /) -> Any:
        """The layout of a graph; None if there is none."""


class Visit:
    """A request as handlers see it.

    `agent` is the agent that is asked, `path` has the parameters of the path, `query` those of the address,
    and `asked` those with all repetitions; `fields` are those of the form. `live` is True when an open page
    is remade: what cannot change may be left out. `ask` asks a reading operation; `act` any operation, but
    only while answering a form. `layouts` places the parts of graphs, `bulk` holds the bulk acts that wait or
    run.
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
        """The prefix of the addresses of this agent's pages."""
        return self.address(self.agent, "")

    def url(self, rest: str = "/", **query: Any) -> str:
        """An address of this agent, `rest` from `/` on; parameters that are None or empty are left out."""
        return self.base + rest + with_query(query)

    def number(self, name: str) -> int | None:
        """A whole number in the query of the address; None if it is missing. Raises RequestError."""
        text = self.query.get(name, "")
        if (number := whole_number(text)) is None and text:
            raise RequestError(f"expected a whole number for {name} in the address, found {text!r:.80}")
        return number


def whole_number(text: str) -> int | None:
    """A whole number in an address or a form, within the range of a store; None for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None


def segment(value: object) -> str:
    """Any value as one segment of a path, which `name_in` reads.

    A segment that would lead elsewhere, such as `..`, `a/b`, or `b.json` and `live`, which are views of a
    page, is percent-encoded twice: servers and browsers undo the first encoding before they resolve a path.
    """
    text = str(value).replace("%", "%25").replace("/", "%2F").replace("\\", "%5C")
    if text in (".", "..", "live") or text.endswith(".json"):
        text = f"%{ord(text[0]):02X}{text[1:]}" if text == "live" else text.replace(".", "%2E")
    return quote(text.encode("utf-8", "replace"), safe="")


def name_in(part: str) -> str:
    """The value of a path segment, as the server decodes it."""
    return unquote(part) if "%" in part else part


def with_query(query: Mapping[str, Any]) -> str:
    """The query of an address, with `?`; parameters that are None or empty are left out."""
    arguments = {name: value for name, value in query.items() if value not in (None, "", False)}
    return f"?{urlencode(arguments)}" if arguments else ""


Handler = Callable[[Visit], Awaitable["Shown | Redirect"]]


class PageRoute(msgspec.Struct, frozen=True):
    """A page or an act: its path, the roles that may use it, and the equivalent command (M5).

    An act that `looks` alters nothing, and may answer with a page: its form is too long for an address.

    `options` maps each parameter of the address to an option of the command: "" stands for an argument, and
    one that ends in "!" takes no value. A key `name=value` is for the parameter with this value.
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
        """The command equivalent to the page at an address, with its filters."""
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
    """Mark a function as the page at a path with parameters `{name}` and `{name:int}`."""
    return lambda handler: PageRoute(path, handler, roles, command=command, options=options or {})


def act(
    path: str, *, roles: tuple[Role, ...] = OPERATORS, looks: bool = False
) -> Callable[[Handler], PageRoute]:
    """Mark a function as the handler of a form sent to a path: it redirects to a page, or shows what is
    wrong.

    The result is shown by a page to which it redirects, never by the answer itself: a reload must not act
    again. An act that only `looks` may answer with a page; it cannot alter anything.
    """
    return lambda handler: PageRoute(path, handler, roles, is_act=True, looks=looks)


VISITOR = "narval.visitor"
"""The key in the scope of a request under which the guard leaves the Visitor, or None."""

REFUSED = "narval.refused"
"""The key in the scope of a visitor's request under which the refusal of its form is left for its page."""

FIELDS = "narval.fields"
"""The key in the scope of a request under which the guard leaves the Fields of its form."""

MODE, NAVIGATE = "sec-fetch-mode", "navigate"
"""The header by which a browser says how it uses an answer, and its value if it shows a page."""

BY_PAGE = "narval.by_page"
"""The key of True if a browser shows the answer as a page, so that no script requested it."""
