"""Real XSLT in a real worker: what it is given, what it gives, and what it may not do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from narval.core.elements.element import Element
from narval.core.engines.events import Failure, OutputElement

MAIL = Element(3, b"<email subject='Hi'/>")
OTHER = Element(4, b"<email subject='Ho'/>")
NOTE = Element(5, b"<note/>")


def sheet(body: str, top: str = "", doctype: str = "") -> bytes:
    """A stylesheet whose template for the document is `body`."""
    return (
        f"{doctype}<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'"
        " xmlns:exsl='http://exslt.org/common' extension-element-prefixes='exsl'>"
        f"{top}<xsl:template match='/'>{body}</xsl:template></xsl:stylesheet>"
    ).encode()


# --- what it is given -------------------------------------------------------------------------------------


def test_N32_a_single_input_is_the_document_itself(shared_calls: Any) -> None:
    outcome = shared_calls.ask(sheet("<got eids='{/email/@eid}'/>"), inputs={"mail": MAIL})
    assert outcome.elements == [OutputElement(b'<got eids="3"/>')]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"mails": [MAIL, OTHER]}, "34"),
        ({"mails": [MAIL]}, "3"),
        ({"mails": []}, ""),
        ({"note": NOTE, "mails": [OTHER, MAIL]}, "543"),
        ({"note": NOTE, "mail": None}, "5"),
        ({"note": None}, ""),
        ({}, ""),
    ],
)
def test_N32_several_inputs_or_a_list_are_children_of_elements_in_their_order(
    shared_calls: Any, inputs: dict[str, Any], expected: str
) -> None:
    body = "<got><xsl:for-each select='/elements/*'><xsl:value-of select='@eid'/></xsl:for-each></got>"
    (raw,) = shared_calls.ask(sheet(body), inputs=inputs).elements
    assert Element(0, raw.xml).text == expected


@pytest.mark.parametrize(
    "prototype",
    [
        "<prototype><input id='mail'><match>email</match></input></prototype>",
        "<al:prototype xmlns:al='http://www.logilab.org/namespaces/Narval/1.2'><al:input/></al:prototype>",
    ],
)
def test_N21_the_prototype_in_the_sheet_is_no_obstacle(shared_calls: Any, prototype: str) -> None:
    assert shared_calls.ask(sheet("<a/>", prototype)).elements == [OutputElement(b"<a/>")]


# --- what it gives ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<a/>", [b"<a/>"]),
        ("", []),
        ("<a/><b/>", [b"<a/>", b"<b/>"]),
        ("<xsl:comment>c</xsl:comment>text<a/>text<b/>text", [b"<a/>", b"<b/>"]),
        ("<elements><a/><b><elements/></b></elements>", [b"<a/>", b"<b><elements/></b>"]),
        ("<elements/>", []),
        ("<error type='no-mail'/>", [b'<error type="no-mail"/>']),
        ("<html><body><br/></body></html>", [b"<html><body><br/></body></html>"]),
        ("<xsl:copy-of select='/*'/>", [b'<email subject="Hi"/>']),
    ],
)
def test_N32_one_call_may_yield_several_roots(shared_calls: Any, body: str, expected: list[bytes]) -> None:
    outcome = shared_calls.ask(sheet(body), inputs={"mail": MAIL})
    assert ([raw.xml for raw in outcome.elements], outcome.problem) == (expected, None)


def test_a_sheet_that_would_write_html_gives_the_page_as_an_element(shared_calls: Any) -> None:
    html = sheet("<html><p>é<br/></p></html>", "<xsl:output method='html'/>")
    assert shared_calls.ask(html).elements == [OutputElement("<html><p>é<br/></p></html>".encode())]


@pytest.mark.parametrize("top", ["", "<xsl:output method='text'/>"])
def test_a_sheet_that_gives_text_alone_is_told_to_give_elements(shared_calls: Any, top: str) -> None:
    problem = shared_calls.ask(sheet("hello", top)).problem
    assert problem == Failure(
        "bad-output", "expected elements, got text alone; give the text an element around it"
    )


@pytest.mark.usefixtures("logged")
def test_messages_of_a_sheet_go_to_the_log(shared_calls: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "narval.action")
    shared_calls.ask(sheet("<xsl:message>3 mails</xsl:message><a/>"), id="c-7")
    assert [(record.getMessage(), record.call) for record in caplog.records] == [("3 mails", "c-7")]


def test_a_sheet_may_say_why_it_fails(shared_calls: Any) -> None:
    problem = shared_calls.ask(sheet("<xsl:message terminate='yes'>no subject</xsl:message>")).problem
    assert (problem.kind, "no subject" in problem.message) == ("transform-failed", True)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("<a>", "bad-transform", "digest.xsl:1:"),
        ("<xsl:value-of select='a['/>", "bad-transform", "digest.xsl:1: Invalid expression"),
        ("<xsl:value-of select='nothing()'/>", "transform-failed", "Unregistered function"),
        ("<xsl:value-of select='$nothing'/>", "transform-failed", "Variable 'nothing' has not been declared"),
    ],
)
def test_a_faulty_sheet_tells_where(shared_calls: Any, body: str, kind: str, message: str) -> None:
    call = shared_calls.context(sheet(body), module_path="/somewhere/digest.xsl")
    problem = shared_calls.outcome(shared_calls.start(call)).problem
    assert problem.kind == kind
    assert message in problem.message


def test_a_sheet_is_read_from_its_file_when_its_text_is_not_at_hand(
    shared_calls: Any, tmp_path: Path
) -> None:
    (tmp_path / "s.xsl").write_bytes(sheet("<a/>"))
    call = shared_calls.context(b"", source=None, module_path=str(tmp_path / "s.xsl"))
    assert shared_calls.outcome(shared_calls.start(call)).elements == [OutputElement(b"<a/>")]
    (tmp_path / "s.xsl").write_bytes(sheet("<b/>"))
    assert shared_calls.outcome(shared_calls.start(call)).elements == [OutputElement(b"<b/>")]


# --- what it may not do -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hostile",
    [
        sheet("<a><xsl:copy-of select=\"document('/etc/passwd')\"/></a>"),
        sheet("<a><xsl:copy-of select=\"document('file:///etc/passwd')\"/></a>"),
        sheet("<a><xsl:copy-of select=\"document('http://127.0.0.1:1/')\"/></a>"),
        sheet("<a><xsl:copy-of select=\"document('ftp://127.0.0.1:1/')\"/></a>"),
        sheet("<a/>", "<xsl:include href='/etc/passwd'/>"),
        sheet("<a/>", "<xsl:import href='file:///etc/passwd'/>"),
        sheet("<a/>", "<xsl:include href='../../etc/passwd'/>"),
        sheet("<a/>", "<xsl:include href='http://127.0.0.1:1/'/>"),
    ],
)
@pytest.mark.parametrize("allowing", [False, True])
def test_N32_a_transform_reads_no_file_and_no_network(
    make_calls: Callable[..., Any], tmp_path: Path, hostile: bytes, allowing: bool
) -> None:
    calls = make_calls(xslt_folders=(str(tmp_path),) if allowing else ())
    call = calls.context(hostile, module_path=str(tmp_path / "s.xsl"))
    outcome = calls.outcome(calls.start(call))
    assert outcome.elements == []
    assert outcome.problem.kind == "forbidden"
    assert "may read only the folders that etc/narval.toml allows" in outcome.problem.message


@pytest.mark.parametrize("allowing", [False, True])
def test_N32_a_transform_writes_no_file(
    make_calls: Callable[..., Any], tmp_path: Path, allowing: bool
) -> None:
    calls = make_calls(xslt_folders=(str(tmp_path),) if allowing else ())
    target = tmp_path / "written.xml"
    outcome = calls.ask(sheet(f"<exsl:document href='{target}'><a/></exsl:document>"))
    assert outcome.problem == Failure(
        "forbidden", f"a transform may write nothing, and this one asks to write {target}"
    )
    assert not target.exists()


def test_N32_a_transform_reads_the_folders_allowed(make_calls: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "my styles"
    folder.mkdir()
    calls = make_calls(xslt_folders=(str(folder),))
    (folder / "common.xsl").write_bytes(
        sheet("").replace(b"<xsl:template match='/'></xsl:template>", b"<xsl:variable name='v' select='1'/>")
    )
    (folder / "names.xml").write_text("<name>Ann</name>")
    made = sheet(
        "<a v='{$v}'><xsl:value-of select=\"document('names.xml')\"/></a>", "<xsl:include href='common.xsl'/>"
    )
    call = calls.context(made, module_path=str(folder / "s.xsl"))
    assert calls.outcome(calls.start(call)).elements == [OutputElement(b'<a v="1">Ann</a>')]
    (folder / "names.xml").write_text("<name>Bob</name>")
    (folder / "common.xsl").write_text((folder / "common.xsl").read_text().replace("'1'", "'2'"))
    assert calls.outcome(calls.start(call)).elements == [OutputElement(b'<a v="2">Bob</a>')]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "forbidden"),
        ("<!DOCTYPE a [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><a>&e;</a>", "DOCTYPE"),
        ("<a>", "not well-formed"),
    ],
)
def test_N32_what_a_transform_reads_is_no_way_out_of_the_folder(
    make_calls: Callable[..., Any], tmp_path: Path, text: str | None, message: str
) -> None:
    folder, secret = tmp_path / "styles", tmp_path / "secret.xml"
    folder.mkdir()
    secret.write_text("<secret/>")
    if text is None:
        (folder / "link.xml").symlink_to(secret)
    else:
        (folder / "link.xml").write_text(text)
    calls = make_calls(xslt_folders=(str(folder),))
    made = sheet("<a><xsl:copy-of select=\"document('link.xml')\"/></a>")
    outcome = calls.outcome(calls.start(calls.context(made, module_path=str(folder / "s.xsl"))))
    assert outcome.elements == []
    assert message in f"{outcome.problem.kind} {outcome.problem.message}"


@pytest.mark.parametrize(
    "doctype",
    [
        "<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>",
        "<!DOCTYPE x SYSTEM 'file:///etc/passwd'>",
        "<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'>]>",
    ],
)
def test_N32_a_sheet_with_a_doctype_is_refused(shared_calls: Any, doctype: str) -> None:
    problem = shared_calls.ask(sheet("<a/>", doctype=doctype)).problem
    assert problem == Failure(
        "bad-transform",
        "the stylesheet:1:1: a DOCTYPE is not accepted: remove it and write its entities out",
    )


@pytest.mark.parametrize(
    ("body", "top"),
    [
        (
            "<xsl:call-template name='x'/>",
            "<xsl:template name='x'><xsl:call-template name='x'/></xsl:template>",
        ),
        (
            "<xsl:apply-templates/>",
            "<xsl:template match='*'><a><xsl:apply-templates select='.'/></a></xsl:template>",
        ),
    ],
)
def test_endless_recursion_ends_in_a_problem(shared_calls: Any, body: str, top: str) -> None:
    problem = shared_calls.ask(sheet(body, top), inputs={"mail": MAIL}).problem
    assert problem.kind == "transform-failed"
    assert "infinite template recursion" in problem.message


def test_an_endless_sheet_is_killed_at_its_time_limit(calls: Any) -> None:
    many = Element(1, b"<a>" + b"<b/>" * 2000 + b"</a>")
    body = "<n><xsl:value-of select='count(//b[count(//b[count(//b[//b = current()]) = 7]) = 7])'/></n>"
    outcome = calls.ask(sheet(body), inputs={"many": many}, timeout=0.3)
    assert outcome.problem == Failure("timeout", "m.act did not come back within 0.3 s")
    assert calls.ask(sheet("<a/>")).elements == [OutputElement(b"<a/>")]


DOUBLING = (
    "<xsl:template name='double'><xsl:param name='text'/><xsl:param name='times'/><xsl:choose>"
    "<xsl:when test='$times = 0'><a><xsl:value-of select='$text'/></a></xsl:when>"
    "<xsl:otherwise><xsl:call-template name='double'>"
    "<xsl:with-param name='text' select='concat($text, $text)'/>"
    "<xsl:with-param name='times' select='$times - 1'/>"
    "</xsl:call-template></xsl:otherwise></xsl:choose></xsl:template>"
)


def test_a_sheet_that_wants_all_memory_costs_its_call_alone(make_calls: Callable[..., Any]) -> None:
    calls = make_calls(transform_memory=64 * 1024 * 1024)
    body = (
        "<xsl:call-template name='double'><xsl:with-param name='text'>0123456789</xsl:with-param>"
        "<xsl:with-param name='times' select='40'/></xsl:call-template>"
    )
    outcome = calls.ask(sheet(body, DOUBLING))
    assert outcome.elements == []
    assert outcome.problem is not None
    assert calls.ask(sheet("<a/>")).elements == [OutputElement(b"<a/>")]
