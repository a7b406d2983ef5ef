"""What modules declare for processes: found, checked, made of `custom` (sections 3 to 6, 13)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from narval.core.errors import ActionError
from narval.files.found_files import ModuleText
from narval.files.modules import Imported, ModulePackage, key_of
from narval.kinds.process.language.attribute_types import from_text, to_text
from narval.kinds.process.language.code import ALL_EVENTS, EVENTS, Code, mask_of
from narval.kinds.process.language.properties import made

HEAD = "from narval import *\nfrom narval import join, listener, predicate, node_type\n"


def read(text: str, stem: str = "shop") -> Imported:
    module = ModuleText.of(f"modules/{stem}.py", (HEAD + text).encode())
    return ModulePackage(lambda wanted: iter([module]) if wanted == stem else None).load([stem])


def code(text: str) -> dict[str, Code]:
    imported = read(text)
    assert not imported.faults, imported.faults
    found = imported.modules["shop"].found
    return {key_of(each): each for each in found if isinstance(each, Code)}


def faults(text: str) -> list[str]:
    imported = read(text)
    return [f"{each.line - 2}:{each.column} {each.message}" for each in imported.faults.get("shop", ())]


def made_of(text: str, custom: dict[str, str]) -> Any:
    imported = read(text)
    assert not imported.faults, imported.faults
    return made(imported.modules["shop"].module.Task, custom)


def test_a_node_type_names_the_elements_it_may_give_or_leaves_that_open() -> None:
    named = code("@node_type('a', gives=['todo', 'done'])\nclass A: ...\n@node_type(gives='b')\nclass B: ...")
    assert [named[f"node-type:{name}"].gives for name in ("a", "B")] == [("todo", "done"), ("b",)]
    assert b'<gives name="todo"/><gives name="done"/>' in named["node-type:a"].xml
    assert code("@node_type\nclass C: ...")["node-type:C"].gives is None


def test_all_kinds_are_found_under_their_own_names_or_others() -> None:
    found = code(
        """
@node_type("task")
class Task:
    "A thing for somebody to do."
    title: str = ""
    def execute(self, token): ...
    def guard(self, token): ...

@predicate
def is_paid(token): return True

@date_function("due")
def when(token): return 0

@string_function
def outcome(token): return "approved"

@join
def majority(arrival): ...

@listener(events="NODE_TOKEN_COMPLETED", everywhere=False)
class Log:
    def notify(self, event): ...
"""
    )
    assert sorted(found) == [
        "date-function:due", "join:majority", "listener:Log", "node-type:task", "predicate:is_paid",
        "string-function:outcome",
    ]  # fmt: skip
    task, log = found["node-type:task"], found["listener:Log"]
    assert task.hooks == {"execute", "guard"}
    assert task.descriptions == {"en": "A thing for somebody to do."}
    assert (task.where, task.full_name, dict(task.properties)) == ("thread", "task", {"title": str})
    assert (log.mask, log.everywhere) == (1 << EVENTS["NODE_TOKEN_COMPLETED"], False)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("@node_type('task')\ndef task(token): ...", "2:1 @node_type: expected a class"),
        ("@node_type('script')\nclass Task: ...", "2:1 @node_type: narval has nodes of type 'script' itself"),
        ("@node_type('a b')\nclass Task: ...", "2:1 @node_type: expected a name without blanks, found 'a b'"),
        ("@predicate\ndef paid(): ...", "2:1 @predicate: expected the function to take one argument"),
        ("@predicate\nasync def paid(token): ...", "2:1 @predicate: it must answer at once"),
        (
            "@listener(events='SOMETHING')\ndef log(event): ...",
            "2:1 @listener: events: expected an event of a",
        ),
        ("@listener\nclass Log: ...", "2:1 @listener: expected the class to have a method 'notify'"),
        (
            "@node_type\nclass T:\n    def __init__(self, a): ...\n    def execute(self, t): ...",
            "2:1 @node_type: expected a class that is made without arguments, but it needs a",
        ),
        (
            "@node_type\nclass T:\n    size: complex = 0j\n    def execute(self, t): ...",
            "2:1 @node_type: the property 'size': no text can become complex; give it from_text",
        ),
        (
            "@node_type\nclass T:\n    size: 'Unknown'\n",
            "2:1 @node_type: its annotations cannot be read: name",
        ),
        (
            "@node_type\nclass T:\n    def execute(self): ...",
            "2:1 @node_type: expected the method 'execute' to take one argument beside self",
        ),
        (
            "@node_type(runs='worker')\nclass T:\n    async def execute(self, t): ...",
            "2:1 @node_type: runs='worker': an async def runs in the loop itself; leave runs out",
        ),
        (
            "@node_type\nclass T:\n    async def execute(self, t): ...\n    def backtrack(self, t): ...",
            "2:1 @node_type: execute and backtrack must both be async def, or neither",
        ),
    ],
)
def test_what_cannot_be_kept_is_a_fault_with_its_place(text: str, wanted: str) -> None:
    found = faults(text)
    assert len(found) == 1, found
    assert found[0].startswith(wanted)


def test_two_modules_may_not_give_the_same_name() -> None:
    text = f"{HEAD}@predicate\ndef paid(t): ...\n".encode()
    texts = {stem: ModuleText.of(f"modules/{stem}.py", text) for stem in "ab"}
    imported = ModulePackage(lambda stem: iter([texts[stem]]) if stem in texts else None).load(["a", "b"])
    assert [each.message for each in imported.faults["b"]] == [
        "expected a new name, found the predicate 'paid' of modules/a.py again"
    ]
    assert [key_of(each) for each in imported.modules["a"].found] == ["predicate:paid"]
    assert imported.modules["b"].found == ()


TASK = """
import enum
from datetime import datetime
class Size(enum.Enum):
    SMALL = 1
    LARGE = 2
class Person:
    name: str = ""
    user: str = ""
@node_type("task")
class Task:
    task_name: str = ""
    count: int = 1
    urgent: bool = False
    price: float | None = None
    due: datetime | None = None
    size: Size = Size.SMALL
    who: Person | None = None
    from_: str = ""
    def execute(self, token): ...
"""


def test_custom_elements_become_properties_of_their_types() -> None:
    task = made_of(
        TASK,
        {
            "taskName": "  Bill the customer\n", "count": "3", "urgent": "True", "price": "2.5",
            "due": "1000", "size": "large", "who.name": "Pat", "who.user": "pat", "from": "here",
        },
    )  # fmt: skip
    assert (task.task_name, task.count, task.urgent, task.price) == ("Bill the customer", 3, True, 2.5)
    assert task.due == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert (task.size.name, task.who.name, task.who.user, task.from_) == ("LARGE", "Pat", "pat", "here")


def test_each_node_has_properties_of_its_own() -> None:
    imported = read(TASK)
    cls = imported.modules["shop"].module.Task
    first = made(cls, {"who.name": "Pat", "count": "7"})
    second = made(cls, {})
    assert (first.count, second.count, second.who) == (7, 1, None)


@pytest.mark.parametrize(
    ("key", "text", "wanted"),
    [
        ("taskNam", "x", "there is no property 'taskNam'; did you mean 'task_name'?"),
        ("count", "three", "the property 'count': expected int, found 'three'"),
        ("who.age", "3", "there is no property 'age'"),
        ("count.more", "3", "the property 'count' has no parts, found 'more'"),
        ("size", "huge", "the property 'size': expected Size, found 'huge'"),
        ("who", "Pat", "the property 'who': no converter for Person"),
        ("retries", "-1", "retries: expected a whole number of 0 or more, found '-1'"),
        ("on-error", "foo", "on-error: expected fail, found 'foo'"),
    ],
)
def test_a_custom_element_that_is_no_property_is_a_fault_of_the_process(
    key: str, text: str, wanted: str
) -> None:
    [fault] = code(TASK)["node-type:task"].faults("recipes/shop.xml", [(key, text, (7, 9))])
    assert (fault.path, fault.line, fault.column) == ("recipes/shop.xml", 7, 9)
    assert fault.message.startswith(f"type 'task': {wanted}")


def test_a_hostile_class_fails_its_node_alone() -> None:
    hostile = """
@node_type("task")
class Task:
    name: str = ""
    def __setattr__(self, name, value): raise ValueError("no")
    def execute(self, token): ...
"""
    with pytest.raises(ActionError, match="the property 'name': no"):
        made_of(hostile, {"name": "x"})


@pytest.mark.parametrize(
    ("value", "kind"),
    [("x", str), (3, int), (-2.5, float), (True, bool), (False, "boolean"), ([1, -2, 2**63 - 1], "longs")],
)
def test_values_become_text_and_come_back(value: object, kind: object) -> None:
    assert from_text(to_text(value), kind) == value


def test_dates_are_milliseconds() -> None:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert to_text(moment) == "1772366400000"
    assert from_text("1772366400000", "date") == moment
    assert from_text("2026-03-01T12:00:00+00:00", "date") == moment
    assert from_text(to_text(datetime(2026, 3, 1)), "date") == from_text("2026-03-01", "date")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("128", "byte"),
        ("-32769", "short"),
        ("2147483648", "int"),
        ("x", "long"),
        ("AAAA", "longs"),
        ("?", "date"),
    ],
)
def test_a_text_that_does_not_fit_its_type_is_refused(text: str, kind: str) -> None:
    with pytest.raises(ValueError):
        from_text(text, kind)


def test_the_source_reads_characters_and_booleans_so() -> None:
    assert (from_text("", "char"), from_text("xyz", "char")) == (" ", "x")
    assert (from_text("TRUE", "boolean"), from_text("yes", "boolean")) == (True, False)
    assert from_text(None, "int") is None


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(TypeError, match="no converter for complex"):
        from_text("1", complex)
    with pytest.raises(TypeError, match="no converter for object"):
        to_text(object())


def test_no_events_are_all_events() -> None:
    assert mask_of([]) == ALL_EVENTS == (1 << 20) - 1
    assert mask_of(["node-token-created", "PROCESS_CREATED"]) == 1 << 6 | 1
