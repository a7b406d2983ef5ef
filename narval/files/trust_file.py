"""Trust: `etc/trust.toml` read into rules; every fault is found at once, with its place.

A home without the file has no rules: there a language model's answer asks before it goes outside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from narval.core.definitions.library import Library
from narval.core.definitions.people.directory import BY_A_RULE
from narval.core.definitions.suggestions import closest
from narval.core.engines.commands import FLOW
from narval.core.errors import Fault, PatternError, SettingsError
from narval.core.kinds import ASKING, KINDS
from narval.core.memory.labels import ANY_MODEL, FIXED, SECRET
from narval.core.patterns.pattern import Pattern, compile_pattern
from narval.core.source.text import Source
from narval.core.trust.parts import Part
from narval.core.trust.rules import (
    ALL,
    FROM,
    KNOWN,
    SEVERITY,
    Holding,
    PartWord,
    Rule,
    Rules,
    fits,
)
from narval.files.grants import shipped_definitions
from narval.files.shipped import unloaded
from narval.files.toml import TomlFile
from narval.system.regular_file import read_source
from narval.system.unexpected import unexpected
from narval.system.whole_file import write_whole

TRUST_FILE = "etc/trust.toml"

TOP_KEYS = ("secret", "known", "rule")
"""The tables of the file."""

_CALLED = ("action", *(name for name, kind in KINDS.items() if FLOW in kind.preparers))
"""The kinds of definitions that a rule may name as `action`: by their name is judged what they do."""

RULE_KEYS = ("from", "secret", "part", "action", "recipe", "to", "holds", "then", "why")
"""The keys of a rule."""

MOST_RULES = 1_000
"""The most rules of a home: each label of a call is tried on them."""

_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_NAMED = "a name of a to z, digits and -, at most 32, that begins with a letter"
_LABEL = re.compile(r"[^\s?*]{1,200}\*?|\*")
_LABELLED = 'labels such as "mail", "hook:shop", "model:*" or "*"'
_TARGET = re.compile(r"[^\s*]{1,200}\*?")
_TARGETED = 'names such as "mail.send" or "mail.*"'


def load_trust(home: Path | None) -> Rules | None:
    """The rules of a home; None without a file of them. Raises SettingsError with all the faults of that."""
    rules, faults = read_trust(home)
    if faults:
        raise SettingsError("\n".join(map(str, faults)))
    return rules


def read_trust(home: Path | None) -> tuple[Rules | None, list[Fault]]:
    """The rules of a home, None where it has no file of them; and all that is wrong with that file."""
    if home is None or not (home / TRUST_FILE).exists():
        return None, []
    return _read(TomlFile.of(home / TRUST_FILE, TRUST_FILE))


def parse_trust(source: Source) -> tuple[Rules | None, list[Fault]]:
    """The rules that a text of TOML holds, or None and all that is wrong with it."""
    return _read(TomlFile(source))


def doubts_of_trust(rules: Rules, library: Library, given: Iterable[str]) -> Iterator[Fault]:
    """Warnings about rules: of labels that nothing gives, of actions and definitions that are not there, and
    where nobody can be asked. `given` are the labels that settings and actions of the home give.
    """
    actions = [name for kind in _CALLED for name in library.of(kind)]
    names = [definition.full_name for definition in library]
    labels = sorted({*FIXED, *given})
    for rule in rules.rules:
        for name in rule.origins:
            if not any(fits(name, label) for label in (*labels, ANY_MODEL)):
                message = f"rule: nothing that comes in here has the label {name!r}{closest(name, labels)}"
                yield Fault(TRUST_FILE, rule.line, 1, message, warning=True)
        for word, listed, there in (("action", rule.actions, actions), ("definition", rule.recipes, names)):
            for name in listed:
                is_here = ":" in name or any(fits(name, other) for other in there)
                if not is_here and not any(fits(name, other) for other in _shipped(word)):
                    message = f"rule: there is no {word} {name!r} here{closest(name, there)}"
                    yield Fault(TRUST_FILE, rule.line, 1, message, warning=True)
    asking = next((rule for rule in rules.rules if rule.then == "ask"), None)
    if asking is not None and library.get(ASKING, BY_A_RULE) is None:
        why = f"there is no work {BY_A_RULE}, so no call is made about which this asks"
        message = f"rule: {why}; take what ships: narval take recipes/trust.xml"
        yield Fault(TRUST_FILE, asking.line, 1, message, warning=True)


def _shipped(word: str) -> Collection[str]:
    """The names of the actions, or the definitions, that ship: a rule may name them before they are here."""
    if word == "action":
        return {*unloaded("action"), *(name for kind, name in shipped_definitions() if kind in _CALLED)}
    return {name for _, name in shipped_definitions()}


def add_rules(home: Path, text: str) -> bool:
    """Add rules to the file of a home, before the first that would ask about the same; False if they are
    there already.

    All that stands there stays, comments too, and others see the whole file or none of it. Raises
    SettingsError where the file cannot be read, or the rules would be no rules there, and OSError.
    """
    path = home / TRUST_FILE
    source = read_source(path, TRUST_FILE)
    body = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    if body in source.text:
        return False
    before, faults = parse_trust(source)
    after, more = parse_trust(Source.of_text(TRUST_FILE, f"{source.text}\n{text}"))
    if before is None or after is None:
        raise SettingsError("\n".join(map(str, faults or more)))
    at = min(
        (
            asking.line
            for rule in after.rules[len(before.rules) :]
            for asking in before.rules
            if asking.then == "ask" and _overlaps(rule, asking)
        ),
        default=0,
    )
    lines = source.text.splitlines(keepends=True)
    place = at - 1 if at else len(lines)
    while at and place > 0 and lines[place - 1].startswith("#"):
        place -= 1
    head, tail = "".join(lines[:place]), "".join(lines[place:])
    gap = "" if not head or head.endswith("\n\n") else "\n" if head.endswith("\n") else "\n\n"
    write_whole(path, f"{head}{gap}{text.rstrip()}\n{'' if not tail else chr(10)}{tail}")
    return True


def _overlaps(rule: Rule, other: Rule) -> bool:
    """True if another rule may judge what a rule with one part, action and recipe is about."""
    part = Part("x" if rule.part != "whether" else "", where=rule.part == "where")
    labels = (*rule.origins, *(f"{SECRET}{name}" for name in rule.secrets))
    return any(other.is_about(rule.actions[0], rule.recipes[0], part, label) for label in labels)


def _read(file: TomlFile) -> tuple[Rules | None, list[Fault]]:
    try:
        rules = _Reading(file).rules() if not file.faults else None
    except Exception as error:
        return None, [unexpected(file.shown, error)]
    return (None, sorted(set(file.faults))) if file.faults else (rules, [])


class _Reading:
    """The reading of one file, which notes the faults."""

    def __init__(self, file: TomlFile) -> None:
        self._file = file

    def rules(self) -> Rules:
        """The rules of the file, as far as it can be understood."""
        for key in self._file.table:
            if key not in TOP_KEYS:
                self._file.note((key,), f"unknown key {key!r}{closest(key, TOP_KEYS)}")
        secrets = self._patterns("secret", "note[@topic='health']")
        lists = self._patterns("known", "contact/@mail")
        rules = tuple(self._rule(number, secrets, lists) for number in self._numbers())
        return Rules(rules, tuple(secrets.items()), lists)

    def _patterns(self, table: str, example: str) -> dict[str, Pattern]:
        """The patterns of a table, by name."""
        value = self._file.table.get(table, {})
        if not isinstance(value, dict):
            self._expected(f"a table, [{table}], with patterns by name", value, table)
            return {}
        patterns: dict[str, Pattern] = {}
        for name, text in value.items():
            if not _NAME.fullmatch(name):
                self._file.note((table, name), f"expected {_NAMED}, found {name!r:.80}")
            elif (pattern := self._pattern(text, f'a pattern, such as "{example}"', table, name)) is not None:
                self._refuse_variables(pattern.variables, (), table, name)
                patterns[name] = pattern
        return patterns

    def _numbers(self) -> Iterator[int]:
        value = self._file.table.get("rule", [])
        if not isinstance(value, list) or not all(isinstance(rule, dict) for rule in value):
            self._file.note(("rule",), "rule: expected tables, each begun by [[rule]]")
        elif len(value) > MOST_RULES:
            self._file.note(
                ("rule", MOST_RULES), f"expected at most {MOST_RULES:,} rules, found {len(value):,}"
            )
        else:
            yield from range(len(value))

    def _rule(self, number: int, secrets: Mapping[str, Pattern], lists: Mapping[str, Pattern]) -> Rule:
        path = "rule", number
        table = self._file.table["rule"][number]
        for key in table:
            if key not in RULE_KEYS:
                self._file.note((*path, key), f"unknown key {key!r}{closest(key, RULE_KEYS)}")
        origins = self._names(*path, "from", fits=_is_label, expected=_LABELLED)
        of_secrets = self._names(*path, "secret", fits=_is_label, expected='names of [secret], or "*"')
        for position, name in enumerate(of_secrets):
            if not name.endswith(ALL) and name not in secrets:
                message = f"[secret] has no {name!r}{closest(name, secrets)}"
                self._file.note((*path, "secret", position), message, of_value=True)
        if "from" not in table and "secret" not in table:
            message = 'a rule needs from or secret, the labels that it is about, such as from = "mail"'
            self._file.note(path, message)
        if "then" not in table:
            self._file.note(path, 'a rule needs then, such as then = "ask"')
        to = self._pattern(table["to"], "a pattern over an input", *path, "to") if "to" in table else None
        if to is not None:
            self._refuse_variables(to.variables, (FROM, *(f"{KNOWN}{name}" for name in lists)), *path, "to")
        return Rule(
            self._one_of(SEVERITY, "refuse", *path, "then"),
            origins,
            of_secrets,
            self._one_of(get_args(PartWord), "any", *path, "part"),
            self._names(*path, "action", fits=_TARGET.fullmatch, expected=_TARGETED),
            self._names(*path, "recipe", fits=_TARGET.fullmatch, expected=_TARGETED),
            to,
            self._words(get_args(Holding), *path, "holds"),
            self._text(*path, "why"),
            self._file.line(*path),
        )

    # --- values -----------------------------------------------------------------------------------------

    def _at(self, *path: str | int) -> Any:
        """The value at a path; None where there is none."""
        value: Any = self._file.table
        for key in path:
            value = value.get(key) if isinstance(value, dict) else value[key]
        return value

    def _names(self, *path: str | int, fits: Callable[[str], object], expected: str) -> tuple[str, ...]:
        """The texts of a list, or the one that stands in its place; those that do not fit are noted."""
        value = self._at(*path)
        if value is None:
            return ()
        listed = value if isinstance(value, list) else [value]
        if not listed:
            self._expected(expected, value, *path)
        for position, item in enumerate(listed):
            if not isinstance(item, str) or not fits(item):
                at = (*path, position) if isinstance(value, list) else path
                self._expected(expected, item, *at)
        return tuple(item for item in listed if isinstance(item, str))

    def _words(self, words: tuple[Any, ...], *path: str | int) -> tuple[Any, ...]:
        return self._names(*path, fits=words.__contains__, expected=_either(words))

    def _one_of(self, words: tuple[Any, ...], default: Any, *path: str | int) -> Any:
        value = self._at(*path)
        if value is None:
            return default
        if not isinstance(value, str) or value not in words:
            self._expected(_either(words), value, *path)
            return default
        return value

    def _text(self, *path: str | int) -> str:
        value = self._at(*path)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            self._expected("a text", value, *path)
        return " ".join(value.split()) if isinstance(value, str) else ""

    def _pattern(self, value: object, expected: str, *path: str | int) -> Pattern | None:
        if not isinstance(value, str) or not value.strip():
            self._expected(expected, value, *path)
            return None
        try:
            pattern = compile_pattern(value)
        except PatternError as error:
            message = f"no XPath that narval can try: {error.message}"
            self._file.note(path, message, of_value=True)
            return None
        for doubt in pattern.doubts:
            self._file.note(path, f"{path[-1]}: {doubt.message}", of_value=True)
        return pattern

    def _refuse_variables(self, used: frozenset[str], may: tuple[str, ...], *path: str | int) -> None:
        for name in sorted(used.difference(may)):
            there = f"; there are {', '.join(f'${one}' for one in may)}" if may else "; none is there"
            self._file.note(path, f"expected no variable ${name}{there}", of_value=True)

    def _expected(self, expected: str, value: object, *path: str | int) -> None:
        name = next(key for key in reversed(path) if isinstance(key, str))
        excerpt = f"{value!r:.80}" if isinstance(value, str) else f"{value!s:.80}"
        self._file.note(path, f"{name}: expected {expected}, found {excerpt}", of_value=True)


def _is_label(text: str) -> bool:
    """True for a label as a rule names it, without the sign of a secret, which `secret` is for."""
    return _LABEL.fullmatch(text) is not None and not text.startswith(SECRET)


def _either(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
