# ruff: noqa: E501
"""Compiling dataflows: the plans of the source, types, branches, recursion; every fault with its place."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from narval.core.definitions.parsing import read_definition
from narval.kinds.dataflow.language.definition import STREAMED, DataflowDefinition, DataRef, FixedValue
from tests.kinds.dataflow.language.reading import ALIASES, call, faults, one, plan, read

THEATER_LOC = """\
PLAN TheaterLoc
{
  INPUT: String city
  OUTPUT: Tuple restaurants_and_theaters

  BODY
  {
    FORMATRELATION(city, "city" : restoQuery)
    FORMATRELATION(city, "city" : theaterQuery)

    RETRIEVE ("cuisinenet", restoQuery : restaurants)
    RETRIEVE ("yahoo", theaterQuery : theaters)

    JOIN (restaurants, theaters, "" : places)

    PROJECT(places, "address" : place_addresses)

    FORMATRELATION(place_addresses, "address" : geoQuery)

    RETRIEVE ("geocoder", geoQuery : geocoded_places)
    JOIN (places, geocoded_places, "address = address" : restaurants_and_theaters)
  }
}
"""
THEATER_LOC_2 = """\
PLAN TheaterLoc
{
  INPUT: city
  OUTPUT: restaurants_and_theaters

  BODY
  {
    FORMATRELATION(city, "city", makeRestoQuery : restoQuery)

    FORMATRELATION(city, "city", makeTheaterQuery : theaterQuery)

    RETRIEVE ("cuisinenet", restoQuery : restaurants)

    RETRIEVE ("yahoo", theaterQuery : theaters)

    UNION (restaurants, theaters : places)

    PROJECT(places, "address" : place_addresses)

    FORMATRELATION(place_addresses, "address", makeGeoQuery : geoQuery)

    RETRIEVE ("geocoder", geoQuery : geocoded_places)

    JOIN (places, geocoded_places, "address = address" : restaurants_and_theaters)
  }
}
"""
HOME_SEEKERS = """\
PLAN HomeSeekers
{
  INPUT: maxPrice, city
  OUTPUT: houseDetails

  BODY
  {
    FORMAT_S ("select results_page from HomeSeekersInitial where maxPrice < %s and city='%s'", maxPrice, city : firstPageQuery)

    RETRIEVE (firstPageQuery, "HomeSeekersInitial" : initialPage)

    SUBPLAN ("HomeSeekersSubplan", initialPage : houseDetails)

    NOTIFY ("email", "barish@isi.edu", houseDetails)
  }
}
"""
HOME_SEEKERS_SUBPLAN = """\
PLAN HomeSeekersSubplan
{
  INPUT: candidatePage
  OUTPUT: matchingHouses

  BODY
  {
    AT_LEAST_ONE (candidatePage : validPage, matchingHouses)

    FORMAT_R (validPage, "URL", "select house_url from HomeSeekersList where results_url='%url'" : listQuery)

    FORMAT_R (validPage, "URL", "select next_url from HomeSeekersNext where results_url='%url'" : nextQuery)

    RETRIEVE (listQuery, "HomeSeekersList" : houseUrls)

    FORMAT_R (houseUrls, "HOUSE_URL", "select price, address from HomeSeekersDetail where house_url='%house_url'" : detailQuery)

    RETRIEVE (detailQuery, "HomeSeekersDetail" : rightUnion)

    RETRIEVE (nextQuery, "HomeSeekersNext", : nextPageUrl)

    SUBPLAN ("HomeSeekersSubplan", nextPageUrl : rightUnion)

    UNION (leftUnion, rightUnion : matchingHouses)
  }
}
"""


def types(found: DataflowDefinition) -> Mapping[str, str]:
    return {name: datum.type for name, datum in found.graph.data.items()}


# --- the plans of the source ------------------------------------------------------------------------------


def test_T60_TA32_the_first_TheaterLoc_compiles_as_it_is_printed() -> None:
    found = one(ALIASES + THEATER_LOC)
    assert types(found) == {
        "city": "String",
        "restoQuery": "Relation",
        "restaurants": "TupleStream",
        "theaters": "TupleStream",
        "places": "TupleStream",
        "place_addresses": "TupleStream",
        "geoQuery": "TupleStream",
        "geocoded_places": "TupleStream",
        "restaurants_and_theaters": "TupleStream",
    }
    assert call(found, "retrieve-3").lifted == ("query",)
    assert call(found, "retrieve-1").arguments["wrapper"] == FixedValue("cuisinenet", "String", 12, 15)
    assert call(found, "join-2").arguments["left"] == DataRef("places", 22, 11)
    assert found.graph.data["geoQuery"].attributes == ("address",)


def test_T60_the_second_TheaterLoc_compiles_as_it_is_printed() -> None:
    found = one(ALIASES + THEATER_LOC_2)
    assert call(found, "formatrelation-1").arguments["fun"] == FixedValue("makeRestoQuery", "Function", 9, 34)
    assert {one.target for one in found.references} >= set()
    assert {one.target for one in read(ALIASES + THEATER_LOC_2).references} == {
        "makeRestoQuery",
        "makeTheaterQuery",
        "makeGeoQuery",
    }


def test_T60_HomeSeekers_compiles_but_for_the_misprint() -> None:
    printed = read(ALIASES + HOME_SEEKERS + HOME_SEEKERS_SUBPLAN)
    assert [(fault.line, fault.column, fault.message.partition(";")[0]) for fault in printed.faults] == [
        (39, 50, "'rightUnion' is produced on line 35 too, in the same transaction"),
        (41, 12, "nothing produces 'leftUnion'"),
    ]
    text = (ALIASES + HOME_SEEKERS + HOME_SEEKERS_SUBPLAN).replace(
        "rightUnion)\n\n    RETRIEVE", "leftUnion)\n\n    RETRIEVE"
    )
    found = one(text)
    assert call(found, "notify-1").arguments["dest"] == FixedValue("mailto:barish@isi.edu", "String", 15, 13)
    assert call(found, "subplan-1").plan == "p.HomeSeekersSubplan"
    subplan = found.graphs["p.HomeSeekersSubplan"]
    recursive = next(one for one in subplan.calls if one.plan)
    assert recursive.tail
    assert subplan.data["matchingHouses"].type == "TupleStream"
    again = read_definition("dataflow", found.path, found.xml)
    assert isinstance(again, DataflowDefinition)
    assert (again.xml, again.digest, again.draft) == (found.xml, found.digest, None)
    assert [one.key for one in again.graph.calls] == [one.key for one in found.graph.calls]
    assert set(again.graphs) == set(found.graphs)


# --- arguments in order -----------------------------------------------------------------------------------

LEFT = 'makestream2("[{\\"p\\": 1}]" : a) makestream2("[{\\"q\\": 1}]" : b)\n'


@pytest.mark.parametrize(
    ("written", "right"),
    [
        ('JOIN(a, b, "p = q" : c)', '5:1: JOIN: its arguments are in another order; write join("p = q", a, b : c)'),
        ('UNION(a, a : c) print(b)', "5:1: UNION: expected in in parentheses, as in (in1, in2); write union((a, a) : c)"),
        ('PROJECT(a, "p" : c) print(b)', '5:1: PROJECT: its arguments are in another order; write project("p", a : c)'),
        ('select(a, "p > 1" : c) print(b)', '5:1: select: its arguments are in another order; write select("p > 1", a : c)'),
        ('FORMAT_R(a, "t", "%p%" : c) print(b)', '5:1: FORMAT_R: its arguments are in another order; write relsprintf("t", "%p%", a : c)'),
        ('FORMAT_S("%s", 1 : c) print((a, b))', '5:1: FORMAT_S: expected data in parentheses, as in (data1, data2); write sprintf("%s", (1) : c)'),
        ('RETRIEVE(a, "homes" : c) print(b)', '5:1: RETRIEVE: its arguments are in another order; write retrieve("homes", a : c)'),
        ('NOTIFY("email", "a@b.org", a) join("p = q", a, b : c)', '5:1: NOTIFY: expected 2 arguments, found 3; write notify("mailto:a@b.org", a :)'),
    ],
)  # fmt: skip
def test_TA8_the_order_of_the_examples_is_a_fault_that_prints_the_right_call(
    written: str, right: str
) -> None:
    assert faults(plan(LEFT + written, outputs="c"))[0] == right
    wrong = faults(ALIASES + plan(LEFT + written, outputs="c"))
    assert [one for one in wrong if "order" in one] == ([] if written[0].isupper() else [f"6{right[1:]}"])


def test_TA8_the_other_way_round_in_a_file_of_example_aliases() -> None:
    text = ALIASES + plan(LEFT + 'JOIN("p = q", a, b : c)', outputs="c")
    assert faults(text) == ['6:1: JOIN: its arguments are in another order; write JOIN(a, b, "p = q" : c)']
    assert faults(ALIASES + plan(LEFT + 'join("p = q", a, b : c)', outputs="c")) == []


# --- faults -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (plan("noop()", "String city"), "2:15: nothing consumes the input 'city'; remove it, or use it"),
        (plan("noop()", outputs="x"), "3:9: no operator produces the output 'x'"),
        (plan("noop()", "x, x"), "2:11: expected another name, found 'x' again"),
        (plan("print(cty)", "city"), "4:14: nothing produces 'cty'; did you mean 'city'?"),
        (
            plan('fetch("http://x/" : page)'),
            "4:28: nothing consumes 'page'; write _ in its place, or declare it as an OUTPUT",
        ),
        (plan("noop() ENABLE: e"), "4:23: nothing consumes 'e'; name it in a WAIT, or remove it"),
        (
            plan("sort(\"a\", \"ascending\", in : out)", "TupleStream in", "out"),
            "4:31: sort: in: expected Relation, found 'in', of type TupleStream; write accumulate(in : all) "
            "before it, and all in its place",
        ),
        (
            plan("select(\"a = 1\", in : out)", "String in", "out"),
            "4:24: select: in: expected TupleStream, found 'in', of type String; write formatrelation(in, "
            '"value" : one) before it, and one in its place',
        ),
        (
            plan('sprintf("%s", (in) : out)', "TupleStream in", "out"),
            "4:23: sprintf: data: expected Object, found 'in', of type TupleStream; headtail or aggregate make "
            "a value of in",
        ),
        (
            "PLAN B { INPUT: Number n BODY { print(n) } }\nPLAN A { INPUT: String x BODY { B(x : ) } }",
            "2:35: B: n: expected Number, found 'x', of type String; declare 'x' as a Number where it comes from",
        ),
        (plan("noop(1)"), "4:8: noop: expected no arguments, found 1; it is noop (:)"),
        (
            plan('atleastone(in : a) print(a)', "in"),
            "4:8: atleastone: expected 2 outputs, found 1; write _ for one that is not needed; it is atleastone "
            "(TupleStream in : TupleStream out_true, TupleStream out_false)",
        ),
        (
            plan('aggregate("a", "mean", in : out)', "in", "out"),
            '4:23: func: expected count, sum, min, max, avg, list, lines, found "mean"',
        ),
        (
            plan('fetch(x : y) sort("a", "ascending", x : z) print((y, z)) compare(x, 1, "=" : t, _) noop() WAIT: t', "x"),
            "4:73: compare: a: expected Object, found 'x', of type Relation; headtail or aggregate make a value of x",
        ),
        (
            plan("noop() WAIT: a ENABLE: b noop() WAIT: b ENABLE: a"),
            "4:8: a dataflow has no circles, found noop → noop → noop; to repeat something, let it call itself",
        ),
        (
            plan("constructfunction(\"f\" : x) fetch(x : y) print(y)", "x"),
            "4:32: 'x' is an input; give this output another name",
        ),
        (
            plan('fetch("a" : x) fetch("b" : x)', outputs="x"),
            "4:35: 'x' is produced on line 4 too, in the same transaction; give one another name, and take both "
            "with union or merge",
        ),
        (
            plan('fetch("a" : x) aggregate("url", "count", x : y) print((x, y))', outputs="String x"),
            "3:16: output x: expected String, found 'x', of type TupleStream",
        ),
        (
            plan('fetch("a" : x) relsprintf("t", "%urk%", x : y) print(y)'),
            "4:41: relsprintf: in has no attribute 'urk'; did you mean 'url'?",
        ),
        (
            plan('fetch("a" : x) fetch(x : y) notify(x, y)'),
            "4:43: notify: expected one attribute, or 'dest', in 'x', found url, status, type, content; write "
            "project or relsprintf before it, or call one of them 'dest'",
        ),
        (
            plan('fetch("a" : x) makestream2("[{\\"a\\": 1}]" : y) union((x, y) : z) print(z)'),
            "4:65: union: expected inputs that share attributes: url, status, type, content in 'x', a here",
        ),
        (
            plan('project("a, b", x : y) project("c", x : z) difference(y, z : _)', "x"),
            "4:65: difference: expected inputs that share attributes: a, b in 'y', c here",
        ),
        (
            plan('makestream2("[{\\"a\\": 1}]" : x) group("a", "min(b), sum(a)", x : _)'),
            "4:56: group: in has no attribute 'b'; there is 'a'",
        ),
        (
            plan('group("a", "top(b)", x : _)', "x"),
            "4:20: values: expected one of count, sum, min, max, avg, list, lines, found 'top'",
        ),
        (plan('group("a", "sum(*)", x : _)', "x"), "4:24: values: expected a column for sum; only count takes *"),
        (
            plan('group("a", "sum b", x : _)', "x"),
            "4:20: values: expected a function of a column, as in min(price) as cheapest, found 'sum b'",
        ),
        (
            plan('sprintf("%s %s", ("a") : x) print((x))'),
            "4:8: sprintf: expected 2 data for the format, one a %s, found 1",
        ),
        (
            plan('extract(x, "record css:div[\na css:b::text" : _)', "x"),
            "4:31: rules: 'div[' is no CSS selector: Expected ident or '*', got <EOF at 4>; correct it",
        ),
        (plan('extract(x, "record json:a..b\nc json:@" : _)', "x"), "4:32: rules: 'a..b' is no path of JMESPath"),
        (
            plan('subplan(1 : )'),
            '4:8: subplan: expected the name of a dataflow first, as in subplan("Next", page : out)',
        ),
        (plan('subplan("fetch" : )'), "4:8: 'fetch' is an operator; call it by its name"),
        (plan("A( : )"), "4:8: p.A calls itself here in every case, so it never ends; put the call behind a "
         "conditional operator, such as atleastone"),
    ],
)  # fmt: skip
def test_T2_T3_each_fault_has_its_place_and_its_next_step(text: str, wanted: str) -> None:
    assert any(fault.startswith(wanted) for fault in faults(text)), faults(text)


def test_a_stored_dataflow_with_a_call_that_always_fails_can_still_be_read() -> None:
    xml = one(plan('sprintf("%s", ("a") : x) print((x))')).xml.replace(b'"%s"', b'"%%"')
    assert read_definition("dataflow", "recipes/p.plan", xml).full_name == "p.A"


def test_an_empty_literal_may_have_any_attributes() -> None:
    calls = 'select("n > 1", x : a) join("n = m", x, y : b) union((x, y) : u) select("n > 1", u : c) difference(y, x : d)'
    streams = 'makestream2("[]" : x) makestream2("[{\\"m\\": 1}]" : y)'
    assert faults(plan(f"{streams} {calls}", outputs="a, b, c, d")) == []


def test_TA31_an_input_without_a_type_has_that_of_its_consumers() -> None:
    found = one(
        plan(
            'select("p > 1", homes : cheap) fetch(url : page) sort("a", "ascending", all : sorted)\n'
            'noop() WAIT: ready sprintf("%s", (who) : text)',
            "homes, url, all, ready, who",
            "cheap, page, sorted, text",
        )
    )
    assert [(datum.name, datum.type) for datum in found.inputs] == [
        ("homes", "TupleStream"),
        ("url", "String"),
        ("all", "Relation"),
        ("ready", "Object"),
        ("who", "Object"),
    ]
    conflict = plan("map(x, s : y) fetch(x : z) print((y, z))", "x, s")
    assert faults(conflict) == [
        "2:8: input x: taken as Function and as String; write its type, and convert it for one",
        "4:28: fetch: url: expected String, found 'x', of type Function",
    ]


def test_T5_TA33_streams_stream_and_all_else_is_per_stream() -> None:
    found = one(
        plan("accumulate(a : b) fetch(c : d) print((b, d)) noop() WAIT: e", "Tuple a, c, Enablement e")
    )
    assert {name for name, datum in found.graph.data.items() if datum.type == STREAMED} == {"a", "d"}
    assert found.graph.data.keys() == {"a", "b", "c", "d", "e"}


def test_T13_a_datum_may_have_many_consumers() -> None:
    found = one(plan("print(a) print(a) noop() WAIT: a", "Tuple a"))
    assert [call.key for call in found.graph.calls] == ["print-1", "print-2", "noop-1"]


def test_TA7_a_stream_lifts_an_operator_that_wants_a_text() -> None:
    found = one(plan("fetch(urls : pages)", "Tuple urls", "pages"))
    assert call(found, "fetch-1").lifted == ("url",)


def test_T12_variable_arguments_are_grouped() -> None:
    found = one(plan('partition("f", a : (x, _, z)) merge((x, z) : out)', "a", "out"))
    assert call(found, "partition-1").outputs == {"out": ("x", None, "z")}
    assert call(found, "merge-1").arguments == {"in": (DataRef("x", 4, 45), DataRef("z", 4, 48))}


# --- branches ---------------------------------------------------------------------------------------------


def test_TA5_a_datum_may_have_producers_on_exclusive_branches() -> None:
    text = plan(
        'compare(n, 3, "<" : few, many)\nfetch("a" : page) WAIT: few\nfetch("b" : page) WAIT: many',
        "Number n",
        "page",
    )
    assert faults(text) == []
    assert "'page' is produced on line 5 too" in faults(text.replace("WAIT: many", ""))[-1]
    failed = plan('fetch("a" : _) ENABLE: e ON_ERROR: e', outputs="e")
    assert faults(failed) == []


def test_TA41_a_branch_that_could_deadlock_on_bounds_spills() -> None:
    text = plan('fetch("a" : x) select("status = 1", x : bad) difference(x, bad : good)', outputs="good")
    assert call(one(text), "difference-1").spills
    counted = plan(
        'fetch("a" : x) aggregate("url", "count", x : n) sprintf("%s", (n) : cond) select(cond, x : y)',
        outputs="y",
    )
    assert call(one(counted), "select-1").spills
    apart = plan('fetch("a" : x) fetch("b" : y) difference(x, y : z)', outputs="z")
    assert not call(one(apart), "difference-1").spills


# --- recursion --------------------------------------------------------------------------------------------


def spider(body: str) -> str:
    return f"PLAN Spider {{ INPUT: Tuple links OUTPUT: pages BODY {{ {body} }} }}"


def test_TA34_recursion_needs_a_guard() -> None:
    unguarded = spider("Spider(links : pages)")
    assert len(faults(unguarded)) == 1
    guarded = spider("atleastone(links : some, pages) Spider(some : pages)")
    assert faults(guarded) == []
    lifted = (
        "PLAN Follow { INPUT: String url OUTPUT: all BODY { fetch(url : page)\n"
        'extract(page, "record //a\\nhref @href" : links) Follow(links : more)\n'
        'extract(page, "record //a\\nhref @href" : own) union((own, more) : all) } }'
    )
    assert faults(lifted) == []


def test_TA34_mutual_recursion_needs_a_guard() -> None:
    text = (
        "PLAN Even { INPUT: Tuple a OUTPUT: b BODY { Odd(a : b) } }\n"
        "PLAN Odd { INPUT: Tuple a OUTPUT: b BODY { Even(a : b) } }"
    )
    assert [fault.partition(" calls")[0] for fault in faults(text)] == ["1:45: p.Even", "2:44: p.Odd"]
    assert faults(text.replace("Even(a : b)", "atleastone(a : c, b) Even(c : b)")) == []


def test_T36_a_tail_call_gives_its_output_to_the_plan_alone() -> None:
    direct = spider("atleastone(links : some, pages) Spider(some : pages)")
    assert call(one(direct), "Spider-1").tail
    used = spider('atleastone(links : some, pages) Spider(some : more) select("a = 1", more : pages)')
    assert not call(one(used), "Spider-1").tail


@pytest.mark.parametrize("count", [300])
def test_a_plan_of_many_calls_compiles(count: int) -> None:
    lines = "\n".join(f'select("a = {at}", d{at} : d{at + 1})' for at in reversed(range(count)))
    found = one(plan(lines, "Tuple d0", f"d{count}"))
    assert next(one.arguments["in"] for one in found.graph.calls) == DataRef("d0", count + 3, 17)


def test_T54_a_plan_of_many_selections_and_projections_compiles_in_a_moment() -> None:
    lines = "\n".join(
        f'project("a", d{at} : p{at}) select("a = {at}", p{at} : d{at + 1})' for at in range(300)
    )
    assert len(one(plan(lines, "Tuple d0", "d300")).graph.calls) == 600


def test_no_more_is_told_than_somebody_will_read() -> None:
    lines = "\n".join(f"print(unknown_{at}) fetch(x : other_{at})" for at in range(3000))
    assert 100 <= len(faults(plan(lines, "x"))) <= 110
