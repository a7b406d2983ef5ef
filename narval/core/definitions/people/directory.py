"""The directory of people: who they are, which roles they hold, who acts for whom (P15–P19).

It states facts; for each act, the engine of a piece of work decides what follows from them (P18).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from datetime import date, datetime
from functools import cached_property

import msgspec

from narval.core.agreeing import Role, Who
from narval.core.definitions.wall import zone_named
from narval.core.patterns.pattern import Condition, compile_pattern

MAIL, CHAT = WRITTEN = ("mail", "chat")
"""The channels for writing to people."""

WAYS = ("terminal", "web", "file", *WRITTEN)
"""The channels by which people are asked and answer."""

APPROVED = "approve"
"""The outcome of work that approves the waiting call."""

AFTER_A_MODEL = "model.approve"
"""The work that asks, by default, before a call goes outside after a model's answer."""

BY_A_RULE = "trust.ask"
"""The work that asks because of a rule of the home about what may go where."""

ONCE, ALWAYS = "once", "always"
"""The outcomes of that work that approve a call: once, or from now on."""

DESTROYING = "tools.approve"
"""The work that asks before the call of a tool that is destructive, according to its MCP server."""

GRANTING, GRANT = "trust.grant", "grant"
"""The work that asks for a definition's needs, and the outcome that grants them."""

FOR_A_CLIENT, ASKS_FOR_A_CLIENT = "mcp.call", "mcp.ask"
"""The work that asks whether a definition may be started for an MCP client, and the recipe that asks and
starts the definition.
"""


class Away(msgspec.Struct, frozen=True):
    """An absence, in whole days in the home's time zone: the first and the last day (None: open).

    `instead` is the person who acts during it, "" for nobody.
    """

    first: date | None = None
    last: date | None = None
    instead: str = ""

    def covers(self, day: date) -> bool:
        """True for a day of the absence."""
        return (self.first is None or self.first <= day) and (self.last is None or day <= self.last)


class Person(msgspec.Struct, frozen=True):
    """A person of a home."""

    name: str
    """The short name, which is recorded."""
    full_name: str = ""
    """The display name."""
    login: str = ""
    """The user name on this machine."""
    mail: tuple[str, ...] = ()
    """The mail addresses: the person writes from any, and is written to at the first."""
    roles: tuple[str, ...] = ()
    """The roles of the person."""
    web: Role = "person"
    """The rights of the person on pages."""
    away: Away | None = None
    """The absence of the person; None without one."""
    chat: tuple[str, ...] = ()
    """The chat addresses, each with its kind: `xmpp:ann@example.org`."""
    zone: str = ""
    """The time zone of the person; "": the home's."""
    quiet: str = ""
    """The hours without notices, such as `22:00-07:00`."""

    def addresses(self, way: str) -> tuple[str, ...]:
        """The addresses of the person for a channel."""
        return self.chat if way == CHAT else self.mail


class Right(msgspec.Struct, frozen=True):
    """The right of a person to act: by which role, "" if none was required.

    `instead_of` is the absent person for whom this one acts, "" if there is none.
    """

    person: str
    role: str = ""
    instead_of: str = ""


class Approval(msgspec.Struct, frozen=True, dict=True):
    """A home's rule: before an action with matching inputs is called, a definition of work asks for approval.

    An empty `match` matches any inputs.
    """

    action: str
    work: str
    match: str = ""

    @cached_property
    def condition(self) -> Condition | None:
        """The condition that an input must match; None if any does."""
        return Condition((compile_pattern(self.match),)) if self.match else None


class Directory(msgspec.Struct, frozen=True, dict=True):
    """All people of a home, in file order, and its rules about them.

    `above` has for each role those that it includes (K17). Administrators are listed by name or role.
    `mail_trust` is the server whose statements about the origin of a mail are trusted (P65). `owner` is the
    person who holds every role and is administrator if there is no file (P16). `ways` are the channels by
    which all work is asked, besides those that it names.
    """

    people: tuple[Person, ...] = ()
    above: Mapping[str, tuple[str, ...]] = {}
    admin_people: tuple[str, ...] = ()
    admin_roles: tuple[str, ...] = ()
    approvals: tuple[Approval, ...] = ()
    mail_trust: str = ""
    owner: str = ""
    ways: tuple[str, ...] = ()

    @classmethod
    def of_owner(cls, name: str) -> Directory:
        """The directory of a home without a file: one person, identified by login, with every role."""
        return cls((Person(name, login=name, web="operator"),), owner=name)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of its contents: equal for equal directories."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()

    @cached_property
    def _by_name(self) -> Mapping[str, Person]:
        return {person.name: person for person in self.people}

    @cached_property
    def _by_login(self) -> Mapping[str, Person]:
        return {person.login: person for person in self.people if person.login}

    @cached_property
    def _by_address(self) -> Mapping[str, Person]:
        return {address.casefold(): person for person in self.people for address in person.mail}

    @cached_property
    def _by_chat(self) -> Mapping[str, Person]:
        return {chat_key(address): person for person in self.people for address in person.chat}

    @cached_property
    def _counting(self) -> Mapping[str, Mapping[str, None]]:
        """For each person, the effective roles: their own first, then included ones."""
        return {person.name: self._all_roles(person) for person in self.people}

    @cached_property
    def _holding(self) -> Mapping[str, tuple[str, ...]]:
        """The holders of each role, in file order."""
        holders: dict[str, list[str]] = {}
        for name, roles in self._counting.items():
            for role in roles:
                holders.setdefault(role, []).append(name)
        return {role: tuple(names) for role, names in holders.items()}

    @cached_property
    def _represented(self) -> Mapping[str, tuple[Person, ...]]:
        """The people for whom each person acts when they are away."""
        by_name: dict[str, list[Person]] = {}
        for person in self.people:
            if person.away is not None and person.away.instead:
                by_name.setdefault(person.away.instead, []).append(person)
        return {name: tuple(people) for name, people in by_name.items()}

    # --- identity ---------------------------------------------------------------------------------------

    def person(self, name: str) -> Person | None:
        """The person with a name."""
        return self._by_name.get(name)

    def by_login(self, login: str) -> Person | None:
        """The person with a user name on this machine."""
        return self._by_login.get(login)

    def by_address(self, address: str) -> Person | None:
        """The person with a mail address, ignoring case."""
        return self._by_address.get(address.casefold())

    def by_chat(self, address: str) -> Person | None:
        """The person with a chat address, including its kind: xmpp:ann@example.org."""
        return self._by_chat.get(chat_key(address))

    # --- roles ------------------------------------------------------------------------------------------

    def role_of(self, person: str, roles: Collection[str]) -> str | None:
        """The first of these roles that a person holds, directly or by inclusion; None if none."""
        held = self._counting.get(person)
        if held is None:
            return None
        return next((role for role in roles if role in held or person == self.owner), None)

    def roles_of(self, person: str) -> tuple[str, ...]:
        """All roles that a person holds, directly or by inclusion; for the owner, those that are listed."""
        return tuple(self._counting.get(person, ()))

    def holders(self, role: str) -> tuple[str, ...]:
        """The people who hold a role, in file order."""
        return (self.owner,) if self.owner else self._holding.get(role, ())

    def is_admin(self, person: str) -> bool:
        """True for an administrator, who may reassign and release items of others."""
        is_listed = person in self._by_name
        return is_listed and (
            person in (self.owner, *self.admin_people) or self.role_of(person, self.admin_roles) is not None
        )

    def is_operator(self, name: str) -> bool:
        """True for those who may change the home: its owner, and operators of its pages."""
        person = self.person(name)
        return person is not None and (name == self.owner or person.web == "operator")

    def _all_roles(self, person: Person) -> dict[str, None]:
        held, reached = dict.fromkeys(person.roles), list(person.roles)
        for role in reached:
            below = [lower for lower in self.above.get(role, ()) if lower not in held]
            held.update(dict.fromkeys(below))
            reached += below
        return held

    # --- rights -----------------------------------------------------------------------------------------

    def _own_right(self, person: str, people: Collection[str], roles: Collection[str]) -> Right | None:
        """A person's own right, given the required people and roles.

        With both, the person must be listed and hold a role; with neither, anybody may act.
        """
        if person not in self._by_name or (people and person not in people):
            return None
        role = self.role_of(person, roles) if roles else ""
        return Right(person, role) if role is not None else None

    def right(
        self,
        person: str,
        people: Collection[str],
        roles: Collection[str],
        excluded: Collection[str],
        day: date,
    ) -> Right | None:
        """The right of a person to act on a day: their own, else that of an absent person.

        An excluded person has no right and gives none to a substitute, who may have one of their own.
        """
        if person in excluded:
            return None
        own = self._own_right(person, people, roles)
        if own is not None:
            return own
        for absent in self.represented_by(person, day):
            theirs = None if absent in excluded else self._own_right(absent, people, roles)
            if theirs is not None:
                return Right(person, theirs.role, absent)
        return None

    def eligible(
        self, people: Collection[str], roles: Collection[str], excluded: Collection[str], day: date
    ) -> dict[str, Right]:
        """All people who may act on a day, each with the effective right, in file order."""
        names = list(self._by_name)
        if people or roles:
            own = {*people} if people else {name for role in roles for name in self.holders(role)}
            may = own.union(name for absent in own for name in self.substitutes(absent, day))
            names = [name for name in names if name in may]
        rights = {name: self.right(name, people, roles, excluded, day) for name in names}
        return {name: right for name, right in rights.items() if right is not None}

    def represented_by(self, person: str, day: date) -> tuple[str, ...]:
        """The absent people for whom a person acts on a day, directly or through an absent substitute."""
        chain = [person]
        for name in chain:
            for absent in self._represented.get(name, ()):
                if absent.away is not None and absent.away.covers(day):
                    chain.append(absent.name)
        return tuple(chain[1:])

    def substitutes(self, person: str, day: date) -> Iterator[str]:
        """The people who may act for a person on a day: the substitute, and that one's own if away too."""
        current = self._by_name.get(person)
        while current is not None and current.away is not None and current.away.covers(day):
            current = self._by_name.get(current.away.instead)
            if current is not None:
                yield current.name


def known_as(people: Directory, name: str) -> Who:
    """The asker type of a person of whom only the name is known."""
    return "operator" if people.is_operator(name) else "person"


def chat_key(address: str) -> str:
    """The normalised form of a chat address with its kind: xmpp:ann@example.org.

    XMPP addresses are compared without their resource, ignoring the case of a to z. No other letters are
    folded, since two accounts that a server distinguishes could then be one.
    """
    kind, _, rest = address.partition(":")
    return f"xmpp:{rest.partition('/')[0].translate(_LOWER)}" if kind == "xmpp" else address


_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def day_of(moment: float, zone: str) -> date:
    """The day of a moment in a home's time zone, for absences."""
    return datetime.fromtimestamp(moment, zone_named(zone)).date()
