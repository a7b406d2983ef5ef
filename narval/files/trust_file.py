"""Trust: `etc/trust.toml` read into rules; every fault is found at once, with its place.

A home without the file has no rules: there a person is asked before a language model's answer leads outside.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from narval.core.definitions.library import Library
from narval.core.definitions.people.directory import BY_A_RULE
from narval.core.definitions.suggestions import closest
from narval.core.engines.commands import FLOW
from narval.core.errors import Fault, SettingsError
from narval.core.kinds import ASKING, KINDS
from narval.core.memory.labels import ANY_MODEL, FIXED, SECRET
from narval.core.patterns.pattern import Pattern
from narval.core.source.text import Source
from narval.core.trust.parts import Part
from narval.core.trust.rules import ALL, FROM, KNOWN, SEVERITY, Holding, PartWord, Rule, Rules, fits
from narval.files import toml
from narval.files.grants import shipped_definitions
from narval.files.shipped import unloaded
from narval.system.regular_file import read_source
from narval.system.whole_files import write_whole

TRUST_FILE = "etc/trust.toml"

_CALLED = ("action", *(name for name, kind in KINDS.items() if FLOW in kind.preparers))
"""The kinds of definitions that a rule may name as `action`: their effects are judged by their name."""

MOST_RULES = 1_000
"""The most rules of a home: each label of a call is tested against them."""

_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_LABEL = re.compile(r"[^\s?*]{1,200}\*?|\*")
_TARGET = re.compile(r"[^\s*]{1,200}\*?")


def _labels(expected: str) -> toml.Reader:
    """Read labels of a rule, without the sign of a secret, which has its own key `secret`."""

    def is_label(text: str) -> bool:
        return _LABEL.fullmatch(text) is not None and not text.startswith(SECRET)

    return toml.listed(toml.fitting(is_label, expected), expected, or_one=True)


_TARGETED = 'names such as "mail.send" or "mail.*"'
_TARGETS = toml.listed(toml.fitting(_TARGET.fullmatch, _TARGETED), _TARGETED, or_one=True)

TRUST_READERS: Mapping[str, toml.Reader] = dict.fromkeys(("secret", "known", "rule"), toml.as_it_is)
"""The readers of the tables of the file."""

RULE_READERS: Mapping[str, toml.Reader] = {
    "from": _labels('labels such as "mail", "hook:shop", "model:*" or "*"'),
    "secret": _labels('names of [secret], or "*"'),
    "part": toml.one_of(*get_args(PartWord)),
    "action": _TARGETS,
    "recipe": _TARGETS,
    "to": toml.pattern(FROM),
    "holds": toml.some_of(*get_args(Holding)),
    "then": toml.one_of(*SEVERITY),
    "why": toml.text,
}
"""The readers of a rule; `to` may have the names of [known] as variables, too."""


def load_trust(home: Path | None) -> Rules | None:
    """The rules of a home; None without a file of rules. Raises SettingsError with all its faults."""
    rules, faults = read_trust(home)
    if faults:
        raise SettingsError("\n".join(map(str, faults)))
    return rules


def read_trust(home: Path | None, *, was_there: bool = False) -> tuple[Rules | None, list[Fault]]:
    """The rules of a home, None if it has no file of rules; and all the faults of that file, which must exist
    if it `was_there`.
    """
    if home is None:
        return None, []
    file = toml.TomlFile.of(home / TRUST_FILE, TRUST_FILE, was_there=was_there)
    return (None, file.faults) if file.is_missing else toml.outcome(file, _rules)


def parse_trust(source: Source) -> tuple[Rules | None, list[Fault]]:
    """The rules in a text of TOML, or None and all its faults."""
    return toml.outcome(toml.TomlFile(source), _rules)


def doubts_of_trust(rules: Rules, library: Library, own_labels: Iterable[str]) -> Iterator[Fault]:
    """Warnings about rules: labels that nothing gives, actions and definitions that do not exist, and rules
    that ask where nothing can ask a person. `given` are the labels that settings and actions of the home
    give.
    """
    actions = [name for kind in _CALLED for name in library.of(kind)]
    names = [definition.full_name for definition in library]
    labels = sorted({*FIXED, *own_labels})
    for rule in rules.rules:
        for name in rule.origins:
            if not any(fits(name, label) for label in (*labels, ANY_MODEL)):
                message = f"rule: nothing that comes in here has the label {name!r}{closest(name, labels)}"
                yield Fault(TRUST_FILE, rule.line, 1, message, warning=True)
        for word, named, there in (("action", rule.actions, actions), ("definition", rule.recipes, names)):
            for name in named:
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
    """The names of the shipped actions or definitions: a rule may name them before a home has them."""
    if word == "action":
        return {*unloaded("action"), *(name for kind, name in shipped_definitions() if kind in _CALLED)}
    return {name for _, name in shipped_definitions()}


def add_rules(home: Path, text: str) -> bool:
    """Add rules to the file of a home, before the first that would ask about the same; False if they are
    there already.

    All other text stays, comments included, and readers see the whole file or none of it. Raises
    SettingsError if the file cannot be read, or the rules would be invalid there, and OSError.
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
    """True if another rule may judge what this rule judges, with one part, action and recipe."""
    part = Part("x" if rule.part != "whether" else "", where=rule.part == "where")
    labels = (*rule.origins, *(f"{SECRET}{name}" for name in rule.secrets))
    return any(other.is_about(rule.actions[0], rule.recipes[0], part, label) for label in labels)


def _rules(file: toml.TomlFile) -> Rules:
    """The rules of a file; faults are noted there."""
    file.read(TRUST_READERS)
    secrets, lists = _patterns(file, "secret"), _patterns(file, "known")
    readers = {**RULE_READERS, "to": toml.pattern(FROM, *(f"{KNOWN}{name}" for name in lists))}
    if isinstance(tables := file.table.get("rule"), list) and len(tables) > MOST_RULES:
        message = f"expected at most {MOST_RULES:,} rules, found {len(tables):,}"
        file.note(("rule", MOST_RULES), message)
        return Rules()
    rules = tuple(_rule(file, number, values, secrets) for number, values in file.each("rule", readers))
    return Rules(rules, tuple(secrets.items()), lists)


def _patterns(file: toml.TomlFile, table: str) -> dict[str, Pattern]:
    """The patterns of a table, by name."""
    named = file.table.get(table)
    patterns = file.read(dict.fromkeys(named, toml.pattern()) if isinstance(named, dict) else {}, table)
    for name, made in patterns.items():
        if not _NAME.fullmatch(name):
            what = "a name of a to z, digits and -, at most 32, that begins with a letter"
            file.note((table, name), f"expected {what}, found {name!r:.80}")
        _note_doubts(file, made, table, name)
    return patterns


def _note_doubts(file: toml.TomlFile, made: Pattern, *path: str | int) -> None:
    for doubt in made.doubts:
        file.note(path, f"{path[-1]}: {doubt.message}", of_value=True)


def _rule(
    file: toml.TomlFile, number: int, values: Mapping[str, Any], secrets: Mapping[str, Pattern]
) -> Rule:
    path, table = ("rule", number), file.table["rule"][number]
    of_secrets = values.get("secret", ())
    for position, name in enumerate(of_secrets):
        if not name.endswith(ALL) and name not in secrets:
            message = f"[secret] has no {name!r}{closest(name, secrets)}"
            file.note((*path, "secret", position), message, of_value=True)
    if "from" not in table and "secret" not in table:
        file.note(path, 'a rule needs from or secret, the labels that it is about, such as from = "mail"')
    if "then" not in table:
        file.note(path, 'a rule needs then, such as then = "ask"')
    if "to" in values:
        _note_doubts(file, values["to"], *path, "to")
    return Rule(
        values.get("then", "refuse"),
        values.get("from", ()),
        of_secrets,
        values.get("part", "any"),
        values.get("action", ()),
        values.get("recipe", ()),
        values.get("to"),
        values.get("holds", ()),
        " ".join(values.get("why", "").split()),
        file.line(*path),
    )
