"""The error element (N17, N20, N26)."""

from hypothesis import given
from hypothesis import strategies as st

from narval.core.elements.canonical import canonical
from narval.core.elements.element import Element, parse
from narval.core.elements.own_elements import make_error, read_error, xml_safe


def test_N17_an_error_names_what_it_concerns_and_leaves_out_the_rest() -> None:
    xml = make_error("input-missing", "nothing fits", plan=7, recipe="g.r", step="a", action=None, input="")
    root = parse(xml)
    assert dict(root.attrib) == {"type": "input-missing", "plan": "7", "recipe": "g.r", "step": "a"}
    assert [(child.tag, child.text) for child in root] == [("message", "nothing fits")]


def test_N26_details_come_after_the_message() -> None:
    root = parse(make_error("ValueError", "no such file", "Traceback …"))
    assert [(child.tag, child.text) for child in root] == [
        ("message", "no such file"),
        ("detail", "Traceback …"),
    ]


def test_an_error_of_any_length_is_an_element() -> None:
    root = parse(make_error("E", "m" * 100_000, "d" * 99_999 + "!"))
    assert len(root.findtext("message")) == len(root.findtext("detail")) == 20_000
    assert root.findtext("detail").endswith("!"), "the end of a traceback says most"


@given(st.text(), st.text(), st.text())
def test_whatever_was_raised_can_be_kept_and_read_again(kind: str, message: str, detail: str) -> None:
    xml = make_error(kind, message, detail, step=kind)
    assert canonical(xml) == xml
    assert [" ".join(part.split()) for part in read_error(Element(1, xml))] == [
        " ".join(xml_safe(part).split()) for part in (kind, message, kind)
    ]


def test_characters_that_xml_cannot_carry_are_replaced() -> None:
    assert xml_safe("a\x00b\x1bc\ud800d\ufffee\tf\U0001f600") == "a\ufffdb\ufffdc\ufffdd\ufffde\tf\U0001f600"


def test_N26_an_actions_own_error_may_lack_anything() -> None:
    def read(xml: str) -> tuple[str, str, str]:
        return read_error(Element(1, xml.encode()))

    assert read("<error/>") == ("error", "", "")
    assert read("<error>no\n  mail</error>") == ("error", "no mail", "")
    assert read("<error message='no mail'/>") == ("error", "no mail", "")
    assert read("<error type='Mine' step='a'><message>no <b>such</b> file</message><x>y</x></error>") == (
        "Mine",
        "no such file",
        "a",
    )
