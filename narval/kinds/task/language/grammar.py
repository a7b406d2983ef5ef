"""The grammar of `.task` files (K70); the whole is in `docs/reference/tasks.md`.

    specification = { task_spec | global_event }
    task_spec     = "TASK TYPE" ident { clause } { state_spec } { routing_clause }
    state_spec    = "STATE" state_ref [ ident ] ( "EXPOSED" | "INTERNAL" )
                    [ "ON ASSERT" code ] [ "ON LEAVING" code ] { "ON EVENT" ident ( edge | eca ) }
    edge          = "GOTO" state_ref
    eca           = { "SYNC" | "ASYNC" | "GLOBAL" | parameters }
                    [ time_spec ] "CONDITION" [ code ] [ time_spec ] "ACTION" [ code ]
    global_event  = "GLOBAL EVENT" ident [ "EVERY" duration ] … as eca

After an unexpected word, the reader resumes at the next keyword that begins something, so that it reports all
faults of a file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast, get_args

from narval.core.definitions.reading.lexer import NAME, NUMBER, STRING, Cursor, Locate, SyntaxFault, too_long
from narval.core.definitions.suggestions import closest
from narval.core.errors import PatternError
from narval.core.patterns.pattern import Condition, compile_pattern
from narval.core.source.tokens import END, LostError, Token
from narval.kinds.task.language import words
from narval.kinds.task.language.conditions import MISJUDGED, is_misjudged
from narval.kinds.task.language.definition import Invocation, Mode, Script
from narval.kinds.task.language.statements import begins_statement, read_code, read_statement, read_string
from narval.kinds.task.language.time_specs import read_length, read_time_spec, read_weekdays, seconds_of
from narval.kinds.task.language.written import Specification, WrittenRule, WrittenState, WrittenType

MOST_CHARACTERS = 500_000
"""The most characters of a file; a longer one is not read."""

VARIABLES = ("object", "carried")
"""The variables of every condition besides the parameters of its event."""

_LISTS = ("USERS", "ROLES", "COMPOSED FROM", "FINAL")
_CONSTANTS = {"": True, "true": True, "false": False}
MOST_RETRIES = 1000
"""The most retries of a call of an action."""

_LONGEST_NAME = 100


def read(text: str, locate: Locate) -> tuple[Specification, tuple[SyntaxFault, ...]]:
    """The types and events of a file, as far as they can be read, and all faults of its syntax."""
    if len(text) > MOST_CHARACTERS:
        message = (
            f"expected at most {MOST_CHARACTERS:,} characters, found {len(text):,}; make it several files"
        )
        return Specification(), (SyntaxFault(0, message),)
    cursor = Cursor(text, words.LEXICON, locate)
    specification = Specification()
    while cursor.next.kind != END:
        try:
            if cursor.next.kind == words.TYPE:
                _TypeReader(cursor, specification).read()
            elif cursor.next.kind == words.EVENT:
                cursor.advance()
                specification.events.append(_rule(cursor, "the name of this event", is_global=True))
            else:
                raise cursor.unexpected(f"{words.TYPE} or {words.EVENT}")
        except LostError:
            cursor.skip_to((words.TYPE, words.EVENT, END))
    return specification, cursor.ordered()


class _TypeReader:
    """A reader that adds one type to a specification."""

    def __init__(self, cursor: Cursor, into: Specification) -> None:
        self._cursor, self._into = cursor, into
        self._clauses: set[str] = set()

    def read(self) -> None:
        """Read the type."""
        cursor = self._cursor
        cursor.advance()
        type = self._type = WrittenType(_name(cursor, "the name of this type", dots=False))
        self._into.types.append(type)
        readers: dict[str, Callable[[], None]] = dict.fromkeys(words.CLAUSES, self._clause)
        readers |= {words.STATE: self._state, words.ON: self._route, words.WORK: self._work}
        readers |= dict.fromkeys(words.OF_STATES, self._misplaced)
        while cursor.next.kind not in (END, words.TYPE, words.EVENT):
            try:
                if cursor.next.text.upper() == "WORK" and cursor.next.kind == NAME:
                    raise cursor.lost("expected <work> after WORK, and </work> at its end")
                if cursor.next.kind not in readers:
                    raise cursor.unexpected(self._wanted())
                readers[cursor.next.kind]()
            except LostError:
                self._recover()

    def _recover(self) -> None:
        """Skip to the next keyword that begins something."""
        self._type.break_off()
        self._cursor.skip_to((*words.STARTS, END))

    def _wanted(self) -> str:
        if self._type.states:
            return "STATE, ON ASSERT, ON LEAVING, ON EVENT, ON FORWARD or another route"
        return f"{', '.join(words.CLAUSES)} or STATE"

    # --- clauses ----------------------------------------------------------------------------------------

    def _clause(self) -> None:
        cursor, type = self._cursor, self._type
        clause = cursor.advance()
        if clause.kind in self._clauses:
            cursor.fault(f"{clause.kind} appears twice in {type.name.text}; remove one", clause.at)
        self._clauses.add(clause.kind)
        if clause.kind in ("USERS", "ROLES", "INVOCATION"):
            cursor.expect(f": after {clause.kind}", ":")
        if clause.kind == "INVOCATION":
            self._invocation()
        elif clause.kind == "TASK CODE":
            type.given[clause.kind] = cursor.expect("the name of a definition in quotes", STRING)
        elif clause.kind in ("INITIAL", "FINAL"):
            type.lists[clause.kind] = names = [_state_ref(cursor)]
            while clause.kind == "FINAL" and cursor.next.kind in (NAME, NUMBER):
                names.append(_state_ref(cursor))
        else:
            dots = clause.kind not in ("USERS", "ROLES")
            type.lists[clause.kind] = names = [_name(cursor, "a name", dots=dots)]
            while clause.kind in _LISTS and cursor.accept(","):
                names.append(_name(cursor, "a name", dots=dots))

    def _work(self) -> None:
        written = self._cursor.advance()
        if words.WORK in self._type.given:
            self._cursor.fault(f"WORK appears twice in {self._type.name.text}; remove one", written.at)
        self._type.given[words.WORK] = written

    def _invocation(self) -> None:
        cursor, type = self._cursor, self._type
        ways = get_args(Invocation)
        way = cursor.expect(" or ".join(each.upper() for each in ways), NAME)
        if way.text.lower() not in ways:
            keywords = ", ".join(each.upper() for each in ways)
            cursor.fault(f"expected one of {keywords}, found {way.text!r:.60}", way.at)
            return
        invocation = cast(Invocation, way.text.lower())
        period: float | None = None
        if invocation == "periodic":
            number = cursor.expect("the time from one to the next, such as 4 HRS, after PERIODIC", NUMBER)
            period = _period(cursor, number, bare=True)
            type.set_weekdays(read_weekdays(cursor, among_routes=True) or ())
        type.set_invocation(invocation, period)

    # --- states -----------------------------------------------------------------------------------------

    def _state(self) -> None:
        cursor = self._cursor
        cursor.advance()
        ref = _state_ref(cursor)
        is_titled = ref.kind == NUMBER and cursor.next.kind == NAME
        title = _state_ref(cursor) if is_titled else None
        exposed = True
        try:
            exposed = cursor.expect("EXPOSED or INTERNAL", "EXPOSED", "INTERNAL").kind == "EXPOSED"
        except LostError:
            self._recover()
        state = WrittenState(ref, title, exposed)
        self._type.states.append(state)
        while (part := cursor.next).kind in words.OF_STATES:
            try:
                cursor.advance()
                if part.kind == "ON EVENT":
                    self._event(state)
                else:
                    if part.kind in state.scripts:
                        cursor.fault(f"{part.kind} appears twice in this state; make it one", part.at)
                    if cursor.next.kind not in (STRING, "{"):
                        raise cursor.unexpected("a script in quotes or braces")
                    state.scripts[part.kind] = read_code(cursor)
            except LostError:
                self._recover()

    def _event(self, state: WrittenState) -> None:
        cursor = self._cursor
        if cursor.next.kind == NAME and cursor.ahead().kind == "GOTO":
            event = _name(cursor, "the name of an event")
            cursor.advance()
            state.edges.append((event, _state_ref(cursor)))
        else:
            state.rules.append(_rule(cursor, "the name of an event"))

    def _misplaced(self) -> None:
        part = self._cursor.advance()
        self._cursor.fault(f"{part.kind} belongs to a state; expected STATE before it", part.at)
        raise LostError

    # --- routes -----------------------------------------------------------------------------------------

    def _route(self) -> None:
        cursor = self._cursor
        clause = cursor.advance()
        state = words.after_on(clause.text)
        script: Script = ()
        if cursor.next.kind == STRING:
            script = read_string(cursor, cursor.advance())
        elif begins_statement(cursor):
            while begins_statement(cursor):
                script += read_statement(cursor)
        else:
            message = "a statement such as route(NEXT);"
            raise cursor.unexpected(f"{message} after {clause.text}")
        if state.upper() in (routed.upper() for routed in self._type.routes):
            cursor.fault(f"{clause.text} appears twice in {self._type.name.text}; make it one", clause.at)
        else:
            self._type.routes[state] = (clause, script)


def _rule(cursor: Cursor, expectation: str, *, is_global: bool = False) -> WrittenRule:
    """The rule that begins with the name of its event."""
    event = _name(cursor, expectation)
    mode: Mode = ""
    period: float | None = None
    weekdays: tuple[int, ...] = ()
    parameters: list[Token] | None = None
    while (modifier := cursor.accept("SYNC", "ASYNC", "GLOBAL", "EVERY", "(")) is not None:
        if modifier.kind == "(":
            if parameters is not None:
                cursor.fault("the parameters of this event appear twice; remove one list", modifier.at)
            parameters = _parameters(cursor)
        elif modifier.kind == "EVERY":
            period, every = (
                _period(cursor, cursor.expect("a length of time, such as 1 HRS", NUMBER)),
                modifier,
            )
            weekdays = read_weekdays(cursor) or ()
        elif modifier.kind == "GLOBAL":
            is_global = True
        elif mode:
            cursor.fault("expected SYNC or ASYNC once; remove one", modifier.at)
        else:
            mode = cast(Mode, modifier.kind.lower())
    if period is not None and not is_global:
        cursor.fault("EVERY is of global events; write GLOBAL before it, or remove it", every.at)
    if parameters and is_global:
        message = "a global event is raised with nothing when it is loaded; remove its parameters"
        cursor.fault(message, parameters[0].at)
    names = parameters or []
    before_condition = read_time_spec(cursor, names)
    cursor.expect("GOTO, a window of time such as AFTER 1 HRS, or CONDITION", "CONDITION")
    condition = _condition(cursor, [parameter.text for parameter in names])
    before_action = read_time_spec(cursor, names)
    cursor.expect("a window of time, or ACTION", "ACTION")
    retries = _retries(cursor)
    return WrittenRule(
        event,
        names,
        mode=mode,
        is_global=is_global,
        period=period,
        weekdays=weekdays,
        before_condition=before_condition,
        condition=condition,
        before_action=before_action,
        action=read_code(cursor),
        retries=retries,
    )


def _retries(cursor: Cursor) -> int:
    """The number of retries of a call of an action; RETRIES is a keyword only here."""
    if cursor.next.kind != NAME or cursor.next.text.upper() != "RETRIES":
        return 0
    cursor.advance()
    number = cursor.expect("how often a call that failed is made again, such as 3, after RETRIES", NUMBER)
    if not number.text.isdigit() or not 1 <= int(number.text[:5]) <= MOST_RETRIES or len(number.text) > 5:
        cursor.fault(f"RETRIES: expected 1 to {MOST_RETRIES}, found {number.text!r:.40}", number.at)
        return 0
    return int(number.text)


def _parameters(cursor: Cursor) -> list[Token]:
    parameters: list[Token] = []
    while not cursor.accept(")"):
        if parameters:
            cursor.expect(", or )", ",")
        parameter = _name(cursor, "the name of a parameter", dots=False)
        if parameter.text in VARIABLES:
            message = f"${parameter.text} is the {parameter.text} of a condition; choose another name"
            cursor.fault(message, parameter.at)
        if parameter.text in [earlier.text for earlier in parameters]:
            message = f"the parameter {parameter.text!r:.60} appears twice; choose another name"
            cursor.fault(message, parameter.at)
        else:
            parameters.append(parameter)
    return parameters


def _condition(cursor: Cursor, parameters: list[str]) -> Condition | bool:
    """The condition at the cursor; True if there is none, or if it has faults."""
    if cursor.next.kind == "{":
        brace = cursor.advance()
        if not cursor.accept("}"):
            message = "a condition has no statements; write one XPath in quotes"
            cursor.fault(message, brace.at)
            cursor.skip_to(("}", *words.STARTS, END), "{", "}")
            cursor.accept("}")
        return True
    if (string := cursor.accept(STRING)) is None:
        return True
    written, place = words.content(string)
    text = written.strip()
    blank = len(written) - len(written.lstrip())
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    try:
        if faults := too_long(text):
            raise PatternError(text, faults[0].message)
        pattern = compile_pattern(text)
    except PatternError as error:
        at = place(blank + min(max(error.column - 1, 0), len(text)))
        cursor.fault(f"this condition is no XPath that narval can try: {error.message}", at)
        return True
    if is_misjudged(text):
        cursor.fault(MISJUDGED, place(blank))
    variables = (*VARIABLES, *parameters)
    for name in sorted(pattern.variables.difference(variables)):
        message = f"${name}: expected a parameter of the event, $object or $carried{closest(name, variables)}"
        cursor.fault(message, place(blank + text.find("$" + name)))
    return Condition((pattern,))


def _period(cursor: Cursor, number: Token, *, bare: bool = False) -> float:
    """The seconds of a period that begins with a number; a `bare` one is in seconds."""
    is_bare = bare and cursor.next.kind not in ("HRS", "MINS", "SECS")
    seconds = seconds_of(cursor, number) if is_bare else read_length(cursor, number)
    if seconds < 1:
        cursor.fault("expected a period of one second or more", number.at)
    return seconds


def _name(cursor: Cursor, expectation: str, *, dots: bool = True) -> Token:
    """A name that is not a keyword."""
    if cursor.next.kind in words.SINGLE:
        raise cursor.lost(f"expected {expectation}, found the keyword {cursor.shown()}; choose another name")
    name = cursor.expect(expectation, NAME)
    if not dots and "." in name.text:
        cursor.fault(f"expected {expectation} without a dot, found {name.text!r:.60}", name.at)
    if len(name.text) > _LONGEST_NAME:
        cursor.fault(f"expected a name of {_LONGEST_NAME} characters at most", name.at)
    return name


def _state_ref(cursor: Cursor) -> Token:
    """The name or number of a state."""
    if cursor.next.kind != NUMBER:
        return _name(cursor, "the name or number of a state", dots=False)
    number = cursor.advance()
    if not number.text.isdigit() or len(number.text) > len(str(2**31)) - 1:
        cursor.fault(
            f"expected a state's number, found {number.text!r:.40}; it has up to 9 digits", number.at
        )
    return number._replace(text=number.text.lstrip("0") or "0")
