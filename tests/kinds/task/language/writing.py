"""Random task definitions without faults, and what of them does not depend on where they are written."""

from __future__ import annotations

from hypothesis import strategies as st

from narval.core.patterns.pattern import Condition, compile_pattern
from narval.kinds.task.language.definition import (
    PREDEFINED,
    Choice,
    Comparison,
    Invocation,
    Perform,
    Rule,
    Script,
    ScriptPath,
    ScriptValue,
    TaskDefinition,
    TaskState,
)
from narval.kinds.task.language.windows import AllOf, AnyOf, ClockTime, Duration, Parameter, TimeSpec, Window

TYPES = ("first", "second")
STATES = ("begin", "middle", "3")

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).map("n_{}".format)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12)
OPERANDS = st.one_of(
    st.builds(ScriptPath, st.lists(NAMES, min_size=1, max_size=3).map(tuple)),
    st.builds(ScriptValue, st.one_of(TEXTS, st.integers(0, 10**12).map(str))),
)
COMPARISONS = st.one_of(
    st.builds(Comparison, OPERANDS),
    st.builds(Comparison, OPERANDS, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), OPERANDS),
)
CALLS = st.one_of(
    st.sampled_from(TYPES).map(lambda name: Perform("route", (ScriptPath((name,)),))),
    st.builds(
        Perform,
        st.lists(NAMES, min_size=2, max_size=2).map(".".join),
        st.lists(OPERANDS, max_size=3).map(tuple),
    ),
    st.sampled_from(["page", "document//page[@n > 1]"]).map(lambda at: Perform("split", (ScriptValue(at),))),
    st.integers(1, 9).map(lambda count: Perform("copy", (ScriptValue(str(count)),))),
    st.just(Perform("launch", (ScriptValue("sort 'a b'"),))),
)
SCRIPTS: st.SearchStrategy[Script] = st.recursive(
    st.lists(CALLS, max_size=3).map(tuple),
    lambda inner: st.builds(
        lambda test, then, otherwise, after: (Choice(test, then, otherwise), *after),
        *(COMPARISONS, inner, inner, inner),
    ),
    max_leaves=4,
)

_VALUES = st.one_of(
    st.builds(Duration, st.integers(0, 86_399_000_000).map(lambda micro: round(micro / 1_000_000, 6))),
    st.builds(ClockTime, st.integers(0, 86_399).map(float)),
    st.just(Parameter("t")),
)
_QUALIFIERS = st.sampled_from(["", "RELATIVE", "ABSOLUTE"])


def times(qualifiers: st.SearchStrategy[str]) -> st.SearchStrategy[TimeSpec]:
    """Windows, and what is made of them with AND and OR."""
    operators = st.sampled_from(["AT", "BEFORE", "AFTER", "WITHIN"])
    found: st.SearchStrategy[TimeSpec] = st.recursive(
        st.builds(Window, operators, _VALUES, qualifiers),
        lambda inner: st.one_of(
            st.builds(AllOf, st.lists(inner, min_size=2, max_size=3).map(tuple)),
            st.builds(AnyOf, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        ),
        max_leaves=5,
    )
    return found


# A qualifier on the right holds for what has none: so either all have one, or none has.
SPECS = st.one_of(times(st.just("")), times(st.sampled_from(["RELATIVE", "ABSOLUTE"])))
_CONDITIONS = st.one_of(
    st.booleans(),
    st.sampled_from(["a[@b='x \"y']", "$object/@n > 5", "m[@at=$t] | $carried/k"]).map(
        lambda text: Condition((compile_pattern(text),))
    ),
)
_WINDOWS = st.one_of(st.none(), SPECS)


def rules(event: str) -> st.SearchStrategy[Rule]:
    """A rule of an event, with the parameter `t`."""
    modes = st.sampled_from(["", "sync", "async"])
    tried = {"retries": st.integers(0, 1000)}
    spec = _WINDOWS, _CONDITIONS, _WINDOWS, SCRIPTS
    return st.builds(Rule, st.just(event), st.just(("t",)), modes, *spec, **tried)


@st.composite
def definitions(draw: st.DrawFn) -> TaskDefinition:
    """A type without faults: from `begin` over two other states to FORWARD."""
    following = {
        "begin": {"go": "middle"},
        "middle": {"further": "3", "back": "begin"},
        "3": {"end": "FORWARD"},
    }
    states = {
        name: TaskState(
            name,
            "" if name.isalpha() else name,
            exposed := draw(st.booleans()),
            draw(SCRIPTS),
            draw(SCRIPTS),
            following[name],
            tuple(draw(rules(event)) for event in ("e1", "e.2") if exposed and draw(st.booleans())),
        )
        for name in STATES
    }
    states |= {name: TaskState(name, on_assert=draw(SCRIPTS)) for name in PREDEFINED}
    route: Script = (Perform("route", (ScriptPath(("second",)),)),)
    invocation: Invocation = draw(st.sampled_from(["manual", "auto", "periodic"]))
    return TaskDefinition(
        group="bank",
        name="first",
        users=draw(st.sampled_from([(), ("ann",), ("ann", "bob-2")])),
        roles=draw(st.sampled_from([(), ("clerk",)])),
        invocation=invocation,
        period=float(draw(st.integers(1, 10**6))) if invocation == "periodic" else None,
        code=draw(st.sampled_from([None, ("", "some.action"), ("recipe", "some.recipe")])),
        composed_from=draw(st.sampled_from([(), ("second",)])),
        initial="begin",
        final=draw(st.sampled_from([(), ("FORWARD", "ABORT")])),
        states=states,
        routes={"FORWARD": route, "ABORT": draw(SCRIPTS)},
    )


SECOND = "TASK TYPE second INITIAL 1 STATE 1 EXPOSED ON EVENT a GOTO COMMIT"
"""The other type of the file, to which the first one may route."""


def bare(script: Script) -> Script:
    """A script without the places of its parts."""
    return tuple(_bare(statement) for statement in script)


def _bare(statement: Perform | Choice) -> Perform | Choice:
    if isinstance(statement, Perform):
        return Perform(statement.name, tuple(map(_path, statement.arguments)))
    test = statement.test
    right = None if test.right is None else _path(test.right)
    return Choice(
        Comparison(_path(test.left), test.operator, right), bare(statement.then), bare(statement.otherwise)
    )


def _path(operand: ScriptPath | ScriptValue) -> ScriptPath | ScriptValue:
    return ScriptPath(operand.names) if isinstance(operand, ScriptPath) else operand
