"""Transforms: stylesheets with a prototype (§2.1.4, table 2.18, N21, N32)."""

from __future__ import annotations

import pytest

from narval.core.definitions.parsing import parse
from narval.core.definitions.transform.definition import Transform
from narval.core.elements.element import CONTROL
from narval.core.source.text import Source

XSLT = 'xmlns:xsl="http://www.w3.org/1999/XSL/Transform"'
PROTOTYPE = """<prototype{}>
  <description lang="en">A page of the mails of a day.</description>
  <input id="mails" list="yes"><match>email</match></input>
  <output id="page" unique="html/@date"><match>html</match></output>
</prototype>"""
TEMPLATE = '<xsl:template match="/"><html/></xsl:template>'


def sheet(within: str, prototype: str = PROTOTYPE.format(""), root: str = "stylesheet") -> str:
    return f'<xsl:{root} version="1.0" {XSLT}>\n{prototype}\n{within}\n</xsl:{root}>'


def transform_of(text: str, path: str = "recipes/mail.digest.xsl") -> Transform:
    (transform,) = parse(Source(path, text.encode())).checked()
    assert isinstance(transform, Transform)
    return transform


def faults_of(text: str, path: str = "recipes/mail.digest.xsl") -> list[str]:
    return [str(fault).removeprefix("recipes/") for fault in parse(Source(path, text.encode())).faults]


def test_N21_a_transform_is_named_by_its_file() -> None:
    transform = transform_of(sheet(TEMPLATE))
    assert (transform.kind, transform.full_name, transform.path) == (
        "transform",
        "mail.digest",
        "recipes/mail.digest.xsl",
    )
    assert transform.descriptions == {"en": "A page of the mails of a day."}


def test_N21_its_prototype_may_name_it_otherwise() -> None:
    named = PROTOTYPE.format(' group="news" name="page"')
    assert transform_of(sheet(TEMPLATE, named)).full_name == "news.page"
    assert (
        transform_of(sheet(TEMPLATE, PROTOTYPE.format(' name="page"')), "recipes/x.xslt").full_name
        == "x.page"
    )


def test_table_2_18_a_prototype_has_inputs_and_outputs() -> None:
    prototype = transform_of(sheet(TEMPLATE, root="transform")).prototype
    (mails,), (page,) = prototype.inputs, prototype.outputs
    assert (mails.id, mails.match, mails.list, mails.use) == ("mails", ("email",), True, False)
    assert (page.id, page.match, page.unique) == ("page", ("html",), "html/@date")


def test_N6_the_prototype_may_be_in_the_control_namespace() -> None:
    prefixed = (
        f'<n:prototype xmlns:n="{CONTROL}"><n:input id="a"><n:match>email</n:match></n:input></n:prototype>'
    )
    assert transform_of(sheet(TEMPLATE, prefixed)).prototype.inputs[0].id == "a"


def test_N2_memory_shows_the_whole_stylesheet() -> None:
    transform = transform_of(sheet(TEMPLATE))
    assert b"<prototype>" in transform.xml
    assert transform_of(transform.xml.decode()).digest == transform.digest


@pytest.mark.parametrize(
    ("text", "path", "told"),
    [
        (
            sheet(TEMPLATE, ""),
            "mail.digest.xsl",
            "mail.digest.xsl:1:1: the stylesheet needs a prototype child",
        ),
        (sheet(TEMPLATE), "mail.xsl", "mail.xsl:1:1: a transform needs a name: add name="),
        (
            sheet(TEMPLATE),
            "mail.a b.xsl",
            "mail.a b.xsl:1:1: the file's name gives 'a b', expected a name without",
        ),
        (
            sheet(TEMPLATE, "<prototype><input id='a'/></prototype>"),
            "a.b.xsl",
            "a.b.xsl:2:12: input needs a match; <match>*</match> takes any element",
        ),
        (
            sheet(TEMPLATE, "<prototype><input id='a'><match>x[</match></input></prototype>"),
            "a.b.xsl",
            "a.b.xsl:2:35: match is no XPath",
        ),
        (
            sheet(TEMPLATE, "<prototype><input id='a'><match>x[@y=$s]</match></input></prototype>"),
            "a.b.xsl",
            "a.b.xsl:2:38: $s: expected $plan, as a transform knows no step",
        ),
        (
            sheet(TEMPLATE, "<prototype><output id='a' unique='@x['><match>x</match></output></prototype>"),
            "a.b.xsl",
            "a.b.xsl:2:38: unique is no XPath",
        ),
        (
            sheet(TEMPLATE, "<prototype><imput/></prototype>"),
            "a.b.xsl",
            "a.b.xsl:2:12: unexpected element 'imput'",
        ),
        (sheet(TEMPLATE, "<prototype/>\n<prototype/>"), "a.b.xsl", "a.b.xsl:3:1: expected one prototype"),
    ],
)
def test_N13_a_faulty_prototype_is_told_with_its_place(text: str, path: str, told: str) -> None:
    (fault,) = faults_of(text, path)
    assert fault.startswith(told)


def test_N13_a_stylesheet_that_does_not_compile_is_told_line_by_line() -> None:
    faults = faults_of(
        sheet('  <xsl:template match="a["/>\n<xsl:foo/>\n<!-- --><xsl:template match="/"><b/></xsl:template>')
    )
    assert [fault.split(": ")[0] for fault in faults] == ["mail.digest.xsl:7:3", "mail.digest.xsl:8:1"]
    assert "failed to compile 'a['" in faults[0]
    assert "unknown foo element" in faults[1]


def test_all_faults_of_prototype_and_stylesheet_are_told_at_once() -> None:
    faults = faults_of(
        sheet("<xsl:foo/>", "<prototype><input id='a'/><input id='a'><match>x</match></input></prototype>")
    )
    assert len(faults) == 3


def test_N32_what_a_stylesheet_includes_is_not_read_while_it_is_checked(tmp_path) -> None:
    (tmp_path / "other.xsl").write_text("this would not compile")
    address = (tmp_path / "other.xsl").as_uri()
    assert faults_of(sheet(f'<xsl:include href="{address}"/>{TEMPLATE}')) == []
    assert faults_of(sheet(f'<xsl:include href="http://example.org/a.xsl"/>{TEMPLATE}')) == []


def test_a_stylesheet_with_another_root_is_refused() -> None:
    from narval.core.errors import DefinitionError

    with pytest.raises(
        DefinitionError, match="expected the root xsl:stylesheet or xsl:transform, found cookbook"
    ):
        parse(Source("a.b.xsl", b"<cookbook/>"))


def test_a_transform_says_which_parts_it_passes_on() -> None:
    plain = sheet(TEMPLATE)
    keeping = plain.replace("<prototype", '<prototype keeps="page/@to=mails/@from"', 1)
    assert keeping != plain
    (found,) = faults_of(keeping.replace("page/", "sheet/"))
    assert "keeps: expected the id of an output before the path, found 'sheet'" in found
