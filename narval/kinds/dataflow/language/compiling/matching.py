"""Matching: the arguments and outputs of a call, assigned to the ports of its operator (T10–T12, TA8).

Arguments are in the order of the table of operators. In a file of example aliases, names in capitals have the
order of the examples, and groups need no parentheses.

Arguments fit by the types of data (T6, T9, TA31). A relation fits where a stream is expected, as a stream
that ends. A stream given for a text or a number lifts the operator: it runs once for each tuple (TA7).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations

import msgspec

from narval.kinds.dataflow.language.operators import Operator, Port
from narval.kinds.dataflow.language.syntax import Statement, Written

Slots = Mapping[str, Written | tuple[Written, ...]]

MOST_PERMUTED = 4
"""The most arguments of a call for which other orders are tried, to improve a message."""


class Match(msgspec.Struct, frozen=True):
    """A call whose arguments have ports. `operator` is None if it is unknown, or the arguments do not fit it.

    `key` identifies the call in its plan.
    """

    key: str
    statement: Statement
    operator: Operator | None = None
    arguments: Slots = {}
    outputs: Slots = {}

    @property
    def consumed(self) -> Iterator[tuple[Port | None, Written]]:
        """Its arguments, with groups flattened, and their ports."""
        if self.operator is None:
            yield from ((None, written) for written in flat(self.statement.arguments))
            return
        for name, argument in self.arguments.items():
            for written in argument if isinstance(argument, tuple) else (argument,):
                yield self.operator.input(name), written

    @property
    def produced(self) -> Iterator[tuple[Port | None, Written]]:
        """Its named outputs, and their ports."""
        if self.operator is None:
            pairs: Iterator[tuple[Port | None, Written]] = (
                (None, written) for written in flat(self.statement.outputs)
            )
        else:
            pairs = (
                (self.operator.output(name), written)
                for name, output in self.outputs.items()
                for written in (output if isinstance(output, tuple) else (output,))
            )
        yield from ((port, written) for port, written in pairs if written.text != "_")


class MismatchError(Exception):
    """The arguments or outputs of a call do not fit the ports of its operator."""


def flat(written: Sequence[Written]) -> Iterator[Written]:
    """Arguments, with groups flattened."""
    for one in written:
        yield from one.group if one.kind == "group" else (one,)


def has_alias_order(statement: Statement, operator: Operator, aliases: bool) -> bool:
    """True if a call uses the order of the examples."""
    return aliases and bool(operator.alias) and statement.name.isupper()


def match(key: str, statement: Statement, operator: Operator, aliases: bool) -> Match:
    """Match a call. Raises MismatchError."""
    outputs = _outputs(statement, operator)
    arguments = statement.arguments
    if has_alias_order(statement, operator, aliases):
        return Match(key, statement, operator, _alias_arguments(arguments, operator), outputs)
    return Match(key, statement, operator, _aligned(arguments, operator.inputs, grouped=not aliases), outputs)


def other_orders(match: Match, statement: Statement, operator: Operator) -> Iterator[Match]:
    """The matches of a call with its arguments in other orders, that of the examples first."""
    outputs = match.outputs
    arguments = tuple(flat(statement.arguments))
    for order in operator.alias:
        ports = tuple(port for name in order if (port := operator.input(name)) is not None)
        slots = _tried(arguments, ports) if "address" not in order else _notified(arguments)
        if slots is not None:
            yield Match(match.key, statement, operator, slots, outputs)
    if len(arguments) <= MOST_PERMUTED:
        for permuted in permutations(arguments):
            if (slots := _tried(permuted, operator.inputs)) is not None:
                yield Match(match.key, statement, operator, slots, outputs)


def loose(key: str, statement: Statement, operator: Operator) -> Match:
    """A match without arguments, for trying other orders of a call whose arguments do not fit.

    It has no operator if the outputs do not fit either.
    """
    try:
        return Match(key, statement, operator, {}, _outputs(statement, operator))
    except MismatchError:
        return Match(key, statement)


def right_call(match: Match, aliases: bool) -> str:
    """The call as it should be written."""
    operator, name = match.operator, match.statement.name
    assert operator is not None
    order = [port.name for port in operator.inputs]
    if has_alias_order(match.statement, operator, aliases):
        order = [name for name in operator.alias[-1] if name in match.arguments]
    elif not operator.is_plan:
        name = operator.name
    texts = [_shown(match.arguments[name]) for name in order if name in match.arguments]
    outputs = [str(output) for output in match.statement.outputs]
    colon = f" : {', '.join(outputs)}" if outputs else " :"
    return f"{name}({', '.join(texts)}{colon})"


def _shown(argument: Written | tuple[Written, ...]) -> str:
    return f"({', '.join(map(str, argument))})" if isinstance(argument, tuple) else str(argument)


def _tried(arguments: Sequence[Written], ports: Sequence[Port]) -> Slots | None:
    try:
        return _aligned(arguments, ports, grouped=False)
    except MismatchError:
        return None


def _alias_arguments(arguments: Sequence[Written], operator: Operator) -> Slots:
    """The arguments of a call in the order of the examples, which have two orders for some operators."""
    if "address" in operator.alias[0]:
        slots = _notified(tuple(arguments))
        return _aligned(arguments, operator.inputs, grouped=False) if slots is None else slots
    orders = list(operator.alias)
    if len(orders) > 1 and [one.kind for one in arguments] == ["name", "text"]:
        orders.reverse()  # the wrapper is the one written as a text
    ports = tuple(port for name in orders[0] if (port := operator.input(name)) is not None)
    return _aligned(arguments, ports, grouped=False)


_SCHEMES = {"email": "mailto", "mail": "mailto"}


def _notified(arguments: tuple[Written, ...]) -> Slots | None:
    """The arguments of NOTIFY("email", "pat@example.org", stream): a URL made of the first two."""
    if len(arguments) != 3 or arguments[0].kind != "text" or arguments[1].kind != "text":
        return None
    scheme = _SCHEMES.get(arguments[0].text.lower(), arguments[0].text)
    return {
        "dest": msgspec.structs.replace(arguments[0], text=f"{scheme}:{arguments[1].text}", marks=()),
        "msgs": arguments[2],
    }


def _aligned(arguments: Sequence[Written], ports: Sequence[Port], *, grouped: bool) -> Slots:
    """Assign arguments to ports. Raises MismatchError.

    Unless they must be `grouped`, a last port that takes many takes all the rest.
    """
    slots: dict[str, Written | tuple[Written, ...]] = {}
    left = list(arguments)
    for ordinal, port in enumerate(ports):
        if port.many:
            rest = left if ordinal == len(ports) - 1 else left[:1]
            is_group = len(rest) == 1 and rest[0].kind == "group"
            if grouped and not is_group and not (port.loose and len(rest) == 1):
                raise MismatchError(
                    f"expected {port.name} in parentheses, as in ({port.name}1, {port.name}2)"
                )
            slots[port.name] = tuple(flat(rest))
            left = left[len(rest) :]
        elif left:
            if left[0].kind == "group":
                raise MismatchError(f"{port.name}: expected one argument, found a group")
            slots[port.name] = left.pop(0)
        elif not port.optional:
            raise MismatchError(f"expected {_count(ports)}, found {len(arguments)}; {port.name} is missing")
    if left:
        raise MismatchError(f"expected {_count(ports)}, found {len(arguments)}")
    return slots


def _count(ports: Sequence[Port], what: str = "argument") -> str:
    needed = sum(not port.optional for port in ports)
    number = str(len(ports)) if needed == len(ports) else f"{needed} to {len(ports)}"
    return f"{number if ports else 'no'} {what}{'' if len(ports) == 1 else 's'}"


def _outputs(statement: Statement, operator: Operator) -> Slots:
    ports, written = operator.outputs, statement.outputs
    if len(ports) == 1 and ports[0].many:
        return {ports[0].name: tuple(flat(written))}
    written = tuple(flat(written)) if operator.is_plan else written
    needed = sum(not port.optional for port in ports)
    if not needed <= len(written) <= len(ports):
        hint = "; write _ for one that is not needed" if len(written) < needed else ""
        raise MismatchError(f"expected {_count(ports, 'output')}, found {len(written)}{hint}")
    slots: dict[str, Written | tuple[Written, ...]] = {}
    for port, one in zip(ports, written, strict=False):
        if port.many:
            slots[port.name] = tuple(flat((one,)))
        elif one.kind == "group":
            raise MismatchError("expected the name of an output, found a group")
        else:
            slots[port.name] = one
    return slots


# --- types of data --------------------------------------------------------------------------------------


STREAM, RELATION, TEXT, NUMBER = "TupleStream", "Relation", "String", "Number"
OBJECT, ENABLEMENT, FUNCTION = "Object", "Enablement", "Function"
UNKNOWN = ""

TYPES = (STREAM, RELATION, TEXT, NUMBER, OBJECT, ENABLEMENT, FUNCTION)
SPELLINGS: Mapping[str, str] = {
    **{type.lower(): type for type in TYPES},
    "tuple": STREAM,
    "stream": STREAM,
}
"""The types by their names in lower case, including other spellings."""

VALUES = frozenset((TEXT, NUMBER, OBJECT))
"""The types of single values."""

LIFTING = frozenset((TEXT, NUMBER))
"""The types of parameters that a stream lifts."""

LIFTED = "lifted"

_CURES = {
    RELATION: "write accumulate({0} : all) before it, and all in its place",
    STREAM: 'write formatrelation({0}, "value" : one) before it, and one in its place',
}


def type_named(written: str) -> str:
    """The type with a name in any case; a module's own type stays as written."""
    return SPELLINGS.get(written.lower(), written)


def fit(port: Port, written: Written, types: Mapping[str, str]) -> str:
    """Check whether an argument fits: "" if it does, LIFTED, or its fault.

    `types` are those of data. A name that is not a datum is a function.
    """
    if written.kind in ("text", "number"):
        return _constant(port, written)
    if port.type == FUNCTION and written.text not in types:
        return ""
    return _datum(port, written.text, types.get(written.text, UNKNOWN))


def _constant(port: Port, written: Written) -> str:
    fits = {TEXT, OBJECT, UNKNOWN} | ({FUNCTION} if written.kind == "text" else {NUMBER})
    if port.type in fits or (port.loose and written.kind in ("text", "number")):
        return ""
    what = f"the {written.kind} {written!s:.60}"
    return f"{port.name}: expected a datum of type {port.type}, found {what}"


def _datum(port: Port, name: str, type: str) -> str:
    port_type = port.type
    if type == port_type or UNKNOWN in (type, port_type) or (port_type, type) == (STREAM, RELATION):
        return ""
    if port_type in LIFTING and type in (STREAM, RELATION):
        return LIFTED
    fits = (
        (port_type == STREAM and port.loose and type in VALUES)
        or (port_type == TEXT and type in VALUES)
        or (port_type == NUMBER and type == OBJECT)
        or (port_type == OBJECT and type in VALUES)
    )
    if fits:
        return ""
    cure = ""
    if port_type == RELATION and type == STREAM:
        cure = _CURES[RELATION].format(name)
    elif port_type == STREAM and type in VALUES:
        cure = _CURES[STREAM].format(name)
    elif (port_type, type) == (NUMBER, TEXT):
        cure = f"declare {name!r} as a Number where it comes from"
    elif port_type == OBJECT and type in (STREAM, RELATION):
        cure = f"headtail or aggregate make a value of {name}"
    return f"{port.name}: expected {port_type}, found {name!r}, of type {type}{'; ' * bool(cure)}{cure}"


def demanded(ports: Iterable[Port | None]) -> tuple[str, tuple[str, str] | None]:
    """The type of an undeclared input, from its consumers, and two of their types that exclude each other."""
    types = {port.type for port in ports if port is not None and not port.loose} - {UNKNOWN, OBJECT}
    streams = types & {STREAM, RELATION}
    rest = sorted(types - streams - (LIFTING if streams else frozenset()))
    if streams:
        least = RELATION if RELATION in streams else STREAM
        return least, (least, rest[0]) if rest else None
    if len(rest) > 1:
        return rest[0], (rest[0], rest[1])
    return (rest[0] if rest else OBJECT), None


def output_types(match: Match, types: Mapping[str, str]) -> Iterable[tuple[Written, str]]:
    """The outputs of a call, with the type of each."""
    for port, written in match.produced:
        type = UNKNOWN if port is None else port.type
        if match.operator is not None and match.operator.name == "formatrelation":
            input_type = next(
                (types.get(one.text, UNKNOWN) for _, one in match.consumed if one.kind == "name"), TEXT
            )
            type = STREAM if input_type == STREAM else UNKNOWN if input_type == UNKNOWN else RELATION
        yield written, type


def merged(first: str, second: str) -> str | None:
    """The type of a datum with two producers; None if they do not agree."""
    if first == second or second == UNKNOWN:
        return first
    if first == UNKNOWN:
        return second
    return STREAM if {first, second} == {STREAM, RELATION} else None
