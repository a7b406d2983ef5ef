"""The table of operators: their ports, in order, and their properties (T14, T17, TA8).

A dataflow names an operator in any case and gives its arguments in the order of this table. `alias` is the
order of the examples in the source, for files that begin with `// example aliases`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

OperatorClass = Literal["P", "H", "B", "I"]
"""Pipelined, half-blocking (waits for the end of one input), blocking (for the end of all), immediate."""

Text = Literal["", "select", "join", "columns", "folds", "tuple-format", "text-format", "rules", "rows"]
"""The languages of texts that operators take as arguments."""


class Port(msgspec.Struct, frozen=True):
    """An input or output of an operator: one datum, or with `many` a group of data.

    `text` is the language of a text; `words` are the only texts allowed. A `loose` stream may also be a
    value, which is then its only tuple. `attributes` are those of its tuples if they are always the same.
    """

    name: str
    type: str
    many: bool = False
    optional: bool = False
    text: Text = ""
    words: tuple[str, ...] = ()
    loose: bool = False
    attributes: tuple[str, ...] | None = None

    def __str__(self) -> str:
        text = f"({self.type} {self.name})*" if self.many else f"{self.type} {self.name}"
        return f"[{text}]" if self.optional else text


class Operator(msgspec.Struct, frozen=True):
    """An operator: `name` is in lower case, or the full name of a module's operator or a plan.

    `waits_for` are the streaming inputs whose end a half-blocking operator needs. A `conditional` operator
    uses exactly one of its outputs (T40); `optional_outputs` may get nothing while others do. An `io`
    operator may wait outside the network; one with an `effect` changes something there, so its work has keys.
    With `at_home` that is only the home itself. `granularity` is the preferred number of tuples at once, 0
    for any. `also` are its other names.
    """

    name: str
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    kind: OperatorClass = "P"
    does: str = ""
    empty: str = ""
    waits_for: tuple[str, ...] = ()
    conditional: bool = False
    optional_outputs: tuple[str, ...] = ()
    io: bool = False
    effect: bool = False
    at_home: bool = False
    reentrant: bool = False
    parallelizable: bool = False
    granularity: int = 0
    also: tuple[str, ...] = ()
    alias: tuple[tuple[str, ...], ...] = ()
    is_plan: bool = False

    def input(self, name: str) -> Port | None:
        """The input with that name."""
        return next((port for port in self.inputs if port.name == name), None)

    def output(self, name: str) -> Port | None:
        """The output with that name."""
        return next((port for port in self.outputs if port.name == name), None)

    @property
    def streaming(self) -> tuple[Port, ...]:
        """The inputs that stream."""
        return tuple(port for port in self.inputs if port.type == "TupleStream")

    @property
    def signature(self) -> str:
        """`join (String cond, TupleStream left, TupleStream right : TupleStream result)`."""
        return (
            f"{self.name} ({', '.join(map(str, self.inputs))} : {', '.join(map(str, self.outputs))})".replace(
                "( ", "("
            ).replace(" )", ")")
        )


def _port(written: str) -> Port:
    """A port as in the table: `TYPE NAME`, `NAME*` for many, `NAME?` for an optional one, `NAME+` for a loose
    one.

    `@` precedes the language of its text, or its allowed words, separated by `|`.
    """
    written, _, text = written.strip().partition("@")
    type, name = written.split()
    return Port(
        name.rstrip("*?+"),
        "TupleStream" if type == "Stream" else type,
        many="*" in name,
        optional="?" in name,
        loose="+" in name,
        text="" if "|" in text else text,  # type: ignore[arg-type]
        words=tuple(text.split("|")) if "|" in text else (),
    )


def _operator(
    signature: str,
    kind: OperatorClass,
    does: str,
    empty: str = "",
    attributes: tuple[str, ...] | None = None,
    **properties: Any,
) -> Operator:
    """An operator of the table: `NAME(PORT, … : PORT, …)`; `attributes` are those of its output."""
    name, _, ports = signature.rstrip(")").partition("(")
    inputs, outputs = (
        tuple(_port(port) for port in side.split(",") if port.strip()) for side in ports.split(":")
    )
    with_attributes = tuple(msgspec.structs.replace(port, attributes=attributes) for port in outputs)
    return Operator(name, inputs, with_attributes, kind, does, empty, **properties)


_FORMATTED = (("in", "attr", "format"),)
_TABLE = (
    # --- streams -------------------------------------------------------------------------------------------
    _operator("apply(Function fun, Stream in : )", "P", "calls fun with each value", "nothing"),
    _operator(
        "atleastone(Stream in : Stream out_true, Stream out_false)",
        "P",
        "gives the whole stream to out_true from its first value on, or an empty one to out_false",
        "out_false ends, out_true is cancelled",
        conditional=True,
        also=("at_least_one",),
    ),
    _operator(
        "difference(Stream universe, Stream sample : Stream negation)",
        "H",
        "gives the values of universe that are not in sample, once each; a lacking attribute is no value",
        "empty",
        waits_for=("sample",),
    ),
    _operator(
        "filter(Function fun, Stream in : Stream out)", "P", "keeps values of which fun is true", "empty"
    ),
    _operator(
        "fold(Function fun, Stream in, Object initial : Object result)",
        "B",
        "gives fun(value, fun(…, initial)) of all values, one after another",
        "initial",
    ),
    _operator(
        "headtail(Stream in : Object head, Stream out)",
        "P",
        "gives one value to head and the others to out",
        "head is cancelled, out is empty",
        optional_outputs=("head",),
    ),
    _operator("makestream(Function fun : Stream out)", "P", "calls fun until it gives None", "empty"),
    _operator("map(Function fun, Stream in : Stream out)", "P", "gives fun of each value, but None", "empty"),
    _operator(
        "merge(Stream in* : Stream out)",
        "P",
        "gives all values of all inputs, in any order",
        "empty",
    ),
    _operator(
        "partition(Function fun, Stream in : Stream out*)",
        "P",
        "gives each value to the output whose number, from 1, fun gives; others are dropped",
        "all are empty",
    ),
    # --- relations -----------------------------------------------------------------------------------------
    _operator("accumulate(TupleStream in : Relation out)", "B", "gathers a relation", "empty relation"),
    _operator(
        "aggregate(String column, String func@count|sum|min|max|avg|list|lines, "
        "TupleStream in : Object result)",
        "B",
        "gives one value of a column; count takes * too; list and lines are one text of all values",
        "0 for count and sum, else no value",
    ),
    _operator(
        "group(String by@columns, String values@folds, TupleStream in : TupleStream out)",
        "B",
        "gives a tuple for each group of tuples that have the same values in some columns",
        "empty",
    ),
    _operator(
        "join(String cond@join, TupleStream left, TupleStream right : TupleStream result)",
        "P",
        "gives pairs that meet the condition; an empty one is met by all",
        "empty",
        alias=(("left", "right", "cond"),),
    ),
    _operator("namerelation(String name, Relation in : Relation out)", "I", "gives it another name", "same"),
    _operator(
        "project(String cond@columns, TupleStream in : TupleStream out)",
        "P",
        "keeps the columns that are named; equal tuples stay",
        "empty",
        alias=(("in", "cond"),),
        reentrant=True,
    ),
    _operator(
        "select(String cond@select, TupleStream in : TupleStream out)",
        "P",
        "keeps the tuples that meet the condition",
        "an empty stream, not none",
        alias=(("in", "cond"),),
        reentrant=True,
    ),
    _operator(
        "sort(String attr, String order@ascending|descending, Relation in : Relation out)",
        "B",
        "puts tuples in order; equal ones keep theirs, no value comes last",
        "empty",
    ),
    _operator(
        "stream(Relation in : TupleStream out)", "P", "gives the tuples of a relation, in order", "empty"
    ),
    _operator(
        "relsprintf(String attr, String format@tuple-format, TupleStream in : TupleStream out)",
        "P",
        "puts a text made of each tuple into an attribute",
        "empty",
        also=("format_r",),
        alias=_FORMATTED,
    ),
    _operator(
        "union(TupleStream in* : TupleStream out)",
        "P",
        "gives the tuples of all inputs once each; an attribute that an input lacks is no value there",
        "empty",
        alias=(("in",),),
    ),
    # --- databases -----------------------------------------------------------------------------------------
    _operator(
        "exportrelation(String dest, String name, Relation in : )",
        "B",
        "stores a relation in place of what is there, all at once",
        "an empty table",
        io=True,
        effect=True,
    ),
    _operator(
        "exportrelation2(String dest, String name, TupleStream in, String key?@columns : )",
        "P",
        "adds tuples to a table; one whose key attributes are there is put in its place",
        "nothing",
        io=True,
        effect=True,
        also=("db-insert", "db_insert"),
    ),
    _operator(
        "importrelation(String source, String name : TupleStream out)", "P", "reads a table", "", io=True
    ),
    _operator(
        "query(String source, String text : TupleStream out)",
        "P",
        "gives the rows of a query; `:attribute` in it is bound to the tuple at hand",
        "",
        io=True,
    ),
    _operator(
        "query2(String source, String text : )",
        "I",
        "carries out a statement that gives no rows",
        "",
        io=True,
        effect=True,
    ),
    # --- values --------------------------------------------------------------------------------------------
    _operator(
        "makestream2(String literal@rows : TupleStream out)",
        "P",
        "gives the tuples of a JSON array of objects",
    ),
    _operator("constructfunction(String name : Function fun)", "I", "looks up a function of a module"),
    _operator("noop( : )", "I", "does nothing: its clauses bring others into order"),
    _operator(
        "sleep(String ms : )", "I", "waits for at least so many milliseconds", "", io=True, at_home=True
    ),
    _operator(
        "sprintf(String format@text-format, Object data* : String out)",
        "I",
        "puts data in place of each %s",
        "",
        also=("format_s",),
        alias=(("format", "data"),),
    ),
    _operator(
        "formatrelation(Stream in+, String attr, Function fun? : Relation out)",
        "P",
        "names a value, or the only attribute of tuples: a value becomes a relation, a stream stays one",
        "empty",
        alias=(("in", "attr", "fun"),),
    ),
    _operator(
        "compare(Object a, Object b, String comparison@=|<>|!=|<|<=|>|>= "
        ": Enablement true, Enablement false)",
        "I",
        "enables one of two; as texts if either is one",
        "",
        conditional=True,
        also=("compare_string",),
    ),
    # --- the world -----------------------------------------------------------------------------------------
    _operator(
        "retrieve(String wrapper, String query : Stream out)",
        "P",
        "asks a wrapper of a module, or a source of the settings",
        "",
        io=True,
        alias=(("wrapper", "query"), ("query", "wrapper")),
    ),
    _operator(
        "fetch(String url : Stream out)",
        "P",
        "gets a page",
        "",
        io=True,
        attributes=("url", "status", "type", "content"),
    ),
    _operator(
        "extract(Stream in, String rules@rules : TupleStream out)",
        "P",
        "gives the records that rules find in documents",
        "empty",
    ),
    _operator(
        "notify(String dest, Stream msgs+ : )",
        "P",
        "sends each value to a URL such as mailto:pat@example.org",
        "nothing",
        io=True,
        effect=True,
        alias=(("dest", "address", "msgs"),),
    ),
    _operator(
        "print(Stream in*+ : )", "P", "writes values to what is shown of a run", "nothing", alias=(("in",),)
    ),
    _operator(
        "listen(String address : Stream out)", "P", "gives what is sent to a socket of the home", "", io=True
    ),
    _operator(
        "remember(String name, String key@columns, TupleStream in, String window? "
        ": TupleStream new, TupleStream changed?)",
        "P",
        "gives tuples whose key was not seen before to new, and those that differ from what was seen to "
        "changed, with what was there in was_ATTRIBUTE",
        "empty",
        io=True,
        effect=True,
        at_home=True,
    ),
    _operator(
        "elements(String pattern : TupleStream out)",
        "P",
        "gives the elements of memory that match, as they are then",
        "empty",
        io=True,
        at_home=True,
        attributes=("id", "name", "content"),
    ),
    # --- control -------------------------------------------------------------------------------------------
    _operator("subplan(String name, Object data* : Object out*)", "P", "calls a dataflow by its name", ""),
    _operator("terminate( : )", "I", "ends its frame, whose outputs end with what they have"),
    _operator("void( : )", "I", "gives up all that its transaction has not shown outside"),
    _operator("restart( : )", "I", "begins its transaction again, up to three more times"),
)

OPERATOR_TABLE: Mapping[str, Operator] = {operator.name: operator for operator in _TABLE}
"""The operators by name."""

NAMES: Mapping[str, str] = {
    **{operator.name: operator.name for operator in _TABLE},
    **{name: operator.name for operator in _TABLE for name in operator.also},
}
"""The names of operators in lower case, including their other names."""


def named(written: str) -> Operator | None:
    """The operator with a name in any case (T14)."""
    name = NAMES.get(written.lower())
    return OPERATOR_TABLE[name] if name is not None else None
