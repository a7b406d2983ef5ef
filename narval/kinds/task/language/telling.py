"""Descriptions of tasks: who works on them, their states with edges, their rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from shlex import join

from narval.core.definitions.appointment import Length
from narval.core.definitions.library import Library
from narval.core.definitions.telling.calls import call, forgotten
from narval.core.definitions.telling.dates import every
from narval.core.definitions.telling.patterns import presence
from narval.core.definitions.telling.sentence import Sentence, counted, listed, names, quoted, verbatim
from narval.core.patterns.pattern import Condition
from narval.kinds.task.language import definition
from narval.kinds.task.language.time_specs import shown_times, shown_weekdays
from narval.kinds.task.language.windows import TimeSpec

_INVOCATIONS = {
    "manual": "A person or a program begins one.",
    "auto": "One begins by itself when an object has come, and another when it is done.",
    "compensation": "One begins when something is to be undone.",
}
_ENDS = {
    definition.FORWARD: "it is done, and the object goes on",
    definition.COMMIT: "all is done, and the object's way is over",
    definition.ABORT: "all that was done for the object is undone",
    definition.EXCEPTION: "it has failed, and another person decides",
}
_IS = {
    "==": "is",
    "!=": "is not",
    "<": "is less than",
    "<=": "is at most",
    ">": "is more than",
    ">=": "is at least",
}


def sentences(task: definition.TaskDefinition, library: Library) -> Iterator[Sentence]:
    """The sentences that describe a task type or a global event."""
    if task.rule is not None:
        yield from _event(task, task.rule)
        return
    yield from (Sentence(text, task.line) for text in _whole(task, library))
    for state in task.states.values():
        if state.name not in definition.PREDEFINED or state.says_something:
            yield from _state(task, state)
    for name, script in task.routes.items():
        yield Sentence(f"When it is over in {quoted(name)}:", task.line)
        yield from _script(script, task.line, 1)
    commands = [join(task.program)] if task.program else []
    commands += _commands(task)
    if commands:
        text = f"Outside the home it runs the programs {listed(map(verbatim, dict.fromkeys(commands)))}."
        yield Sentence(text, task.line)


def _event(task: definition.TaskDefinition, rule: definition.Rule) -> Iterator[Sentence]:
    again = f", and again {_period(task)}" if task.period is not None else ""
    yield Sentence(f"It begins by itself when it is loaded{again}, and whenever it is raised.", task.line)
    yield from (Sentence(text, task.line) for text in forgotten(task.decay))
    yield from _rule(rule, 0)
    commands = [verbatim(text) for text in dict.fromkeys(_started(rule.action))]
    if commands:
        yield Sentence(f"Outside the home it runs the programs {listed(commands)}.", task.line)


def _period(task: definition.TaskDefinition) -> str:
    """The period, and its weekdays."""
    days = shown_weekdays(task.weekdays).removeprefix(" ON ").capitalize()
    return f"{every(Length(seconds=task.period or 0.0))}{f' on the days {verbatim(days)}' if days else ''}"


def _whole(task: definition.TaskDefinition, library: Library) -> Iterator[str]:
    yield "Objects come to it, and it works on one after another."
    if task.is_interactive and task.invocation == "manual":
        yield "One begins for each object that comes."
    elif task.period is not None:
        yield f"One begins by itself when it is loaded, and again {_period(task)}."
    else:
        yield _INVOCATIONS.get(task.invocation, "One begins by itself.")
    yield from forgotten(task.decay)
    if task.is_interactive:
        yield "People do the work."
    if task.users:
        yield f"It is for the people {listed(task.users, 'or')}."
    if task.roles:
        yield f"It is for people who have the role {names(task.roles, 'or')}."
    if task.code is not None:
        kind, name = task.code
        code = library.get(kind, name) if kind else library.find(name)
        yield f"Its work: it {call(code.kind if code else kind or 'definition', name, '', code)}."
    elif task.program:
        yield f"Its work: it runs the program {verbatim(join(task.program))}."
    if task.composed_from:
        parts = f"all parts of an object have come from {names(task.composed_from)}"
        yield f"It waits until {parts}, and makes them one."
    if task.compensated_by:
        yield f"What it did is undone by {quoted(task.compensated_by)}."
    if task.compensates:
        yield f"It undoes what {quoted(task.compensates)} did."
    yield f"It begins in the state {quoted(task.initial)}."
    if task.final:
        yield f"It is over in {names(task.final, 'or')} too."


# --- states and rules -------------------------------------------------------------------------------------


def _state(task: definition.TaskDefinition, state: definition.TaskState) -> Iterator[Sentence]:
    marks = [f"number {state.number}"] if state.number and state.number != state.name else []
    marks += [] if state.exposed else ["no person sees it"]
    more = f" ({listed(marks)})" if marks else ""
    yield Sentence(f"In the state {quoted(state.name)}{more}:", state.line)
    if state.on_assert:
        yield Sentence("When it comes there:", state.line, depth=1)
        yield from _script(state.on_assert, state.line, 2)
    for event, target in state.edges.items():
        ends = f": {_ENDS.get(target, _ENDS[definition.FORWARD])}" if task.is_terminal(target) else ""
        yield Sentence(f"On {quoted(event)} it goes to {quoted(target)}{ends}.", state.line, depth=1)
    for rule in state.rules:
        yield from _rule(rule, 1)
    if state.on_leaving:
        yield Sentence("When it leaves:", state.line, depth=1)
        yield from _script(state.on_leaving, state.line, 2)


def _rule(rule: definition.Rule, depth: int) -> Iterator[Sentence]:
    takes = f" with {names(rule.parameters)}" if rule.parameters else ""
    waits = {"sync": ", for which its sender waits,", "async": ", for which its sender does not wait,"}
    text = f"On the event {quoted(rule.event)}{takes}{waits.get(rule.mode, '')}"
    text = text.removesuffix(",")
    does = f"{text}, it does this"
    if rule.condition is not True or rule.before_condition is not None:
        when = f" {_window(rule.before_condition)}" if rule.before_condition is not None else ""
        looks = f"{text}, it looks{when} whether this is so: {_condition(rule.condition)}."
        yield Sentence(looks, rule.line, depth=depth)
        does = "If it is, it does this"
    window = f" {_window(rule.before_action)}, counted from then" if rule.before_action is not None else ""
    yield Sentence(f"{does}{window}:", rule.line, depth=depth)
    yield from _script(rule.action, rule.line, depth + 1)
    if rule.retries:
        again = f"A call in it that fails is made {counted(rule.retries, 'time')} more"
        yield Sentence(f"{again}.", rule.line, depth=depth)


def _window(spec: TimeSpec) -> str:
    """A window as written, in the words of the language."""
    return f"in the time {verbatim(shown_times(spec))}"


def _condition(condition: Condition | bool) -> str:
    if isinstance(condition, Condition):
        return presence(condition)
    return "always" if condition else "never"


# --- scripts ----------------------------------------------------------------------------------------------


def _script(script: definition.Script, line: int, depth: int) -> Iterator[Sentence]:
    if not script:
        yield Sentence("Nothing is done.", line, depth=depth)
    for statement in script:
        if isinstance(statement, definition.Choice):
            yield Sentence(f"If {_test(statement.test)}:", line, depth=depth)
            yield from _script(statement.then, line, depth + 1)
            if statement.otherwise:
                yield Sentence("Else:", line, depth=depth)
                yield from _script(statement.otherwise, line, depth + 1)
        else:
            yield Sentence(_performed(statement), statement.line, statement.column, depth)


def _performed(done: definition.Perform) -> str:
    first, *others = [*done.arguments, definition.ScriptValue("")]
    plain, rest = definition.name_of(first), others[:-1]
    match done.name, len(done.arguments):
        case "route", 1:
            return f"The object goes to {quoted(plain)}."
        case "route", 2 if definition.name_of(rest[0]) == "*":
            return f"All parts of the object go to {quoted(plain)}."
        case "route", 2:
            return f"Part {definition.name_of(rest[0])} of the object goes to {quoted(plain)}."
        case "assert", 1:
            return f"It goes to the state {quoted(plain)}."
        case "split", 1:
            return f"The object is split into its parts: {verbatim(plain)}."
        case "set", 2:
            return f"It sets {verbatim(plain)} to {_operand(done.arguments[1])}."
        case "copy", 1:
            return f"The object is copied: {plain} copies."
        case "exec", 1:
            return f"It runs {verbatim(plain)}, and waits for its end."
        case "launch", 1:
            return f"It starts {verbatim(plain)}, and does not wait for its end."
    arguments = listed(map(_operand, done.arguments)) if done.arguments else "nothing"
    does = {"raise": "raises an event", "route": "sends the object on"}.get(done.name, f"calls {done.name}")
    return f"It {does} with {arguments}."


def _test(test: definition.Comparison) -> str:
    if test.operator == "has":
        return f"there is {_operand(test.left)}"
    if test.right is None:
        return f"{_operand(test.left)} is there and says something"
    return f"{_operand(test.left)} {_IS[test.operator]} {_operand(test.right)}"


def _operand(operand: definition.Operand) -> str:
    return (
        quoted(operand.value)
        if isinstance(operand, definition.ScriptValue)
        else verbatim(".".join(operand.names))
    )


def _started(script: definition.Script) -> Iterator[str]:
    for made in definition.calls_in(script):
        if made.name in ("exec", "launch") and isinstance(made.arguments[0], definition.ScriptValue):
            yield made.arguments[0].value


def _commands(task: definition.TaskDefinition) -> Iterable[str]:
    """The commands that the scripts of a type run."""
    for state in task.states.values():
        for script in (state.on_assert, state.on_leaving, *(rule.action for rule in state.rules)):
            yield from _started(script)
    for script in task.routes.values():
        yield from _started(script)
