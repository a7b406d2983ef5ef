"""What is made up for a call nobody answers: the least that its outputs allow, and nothing where that is not
enough."""

from __future__ import annotations

import pytest

from narval.core.definitions.prototype import Output, Prototype
from narval.trials.simulate.calls_known import default_answer


def made(*outputs: Output, refused: bytes = b"") -> list[bytes] | None:
    return default_answer(Prototype((), outputs), lambda xml: "refused" if xml == refused else None)


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ("sent", b"<sent/>"),
        ("email[@kind='ack']", b'<email kind="ack"/>'),
        ("written[@path and @as = 'html']", b'<written path="simulated" as="html"/>'),
        ("a[@x='1'] | b", b'<a x="1"/>'),
        ("a[not(@x)]", b"<a/>"),
        ("a[@x != 'y']", None),
        ("a[@n > 3]", None),
        ("a[b]", None),
        ("a[contains(@x, 'y')]", None),
        ("*", None),
        ("*[@x]", None),
        ("a[@run = $plan/@eid]", None),
        ("start-plan[@recipe]", None),
        ("quit", None),
    ],
)
def test_what_a_pattern_says_of_names_and_attributes_is_enough_or_it_is_not(
    match: str, expected: bytes | None
) -> None:
    assert made(Output("one", match)) == (None if expected is None else [expected])


def test_each_output_that_must_be_given_is() -> None:
    outputs = Output("a", "a"), Output("b", "b", optional=True), Output("c", "c", list=True)
    assert made(*outputs) == [b"<a/>", b"<c/>"]
    assert made() == []


def test_N20_what_fits_two_outputs_is_not_made_up() -> None:
    assert made(Output("a", "a"), Output("any", "*[@x]", optional=True)) == [b"<a/>"]
    assert made(Output("a", "a[@x]"), Output("any", "*[@x]", optional=True)) is None


def test_N7_what_its_schema_refuses_is_not_made_up() -> None:
    assert made(Output("a", "a"), refused=b"<a/>") is None
