"""I/O of dataflows: databases, sources, wrappers, what is remembered, what is sent, and each of it once."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from narval.core.source.text import Source
from narval.files.outside.sources import FlowSource
from narval.files.settings import parse_settings
from narval.kinds.dataflow.calls.documents import relation_of
from narval.kinds.dataflow.calls.performers import sources
from narval.kinds.dataflow.calls.performers.performing import ThreadStream
from narval.kinds.dataflow.calls.results import LocalResults
from narval.kinds.dataflow.calls.web import charset_of_file
from narval.kinds.dataflow.engine.network.batches import BATCH, TupleBatch
from tests.kinds.dataflow.calls.driving import Taken, drive

HOMES = relation_of(TupleBatch(("id", "price"), [("a", 7), ("b", 9), ("a", 7)]), "homes")


def flow(body: str, outputs: str = "TupleStream out", inputs: str = "") -> str:
    return f"PLAN P {{ {inputs} OUTPUT: {outputs}; BODY {{ {body} }} }}"


def database(folder: Path, *, write: bool = False) -> Mapping[str, FlowSource]:
    with sqlite3.connect(folder / "h.db") as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS homes (id TEXT, price REAL)")
        connection.execute("DELETE FROM homes")
        connection.executemany("INSERT INTO homes VALUES (?, ?)", [("a", 7), ("b", 9), ("c", 12)])
    connection.close()
    return {"h": FlowSource("h", "sqlite", path=str(folder / "h.db"), write=write)}


def stored(folder: Path, table: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(folder / "h.db")
    rows = sorted(connection.execute(f"SELECT * FROM {table}"))
    connection.close()
    return rows


# --- databases ------------------------------------------------------------------------------------------


def test_TA20_a_query_binds_the_values_of_tuples(tmp_path: Path) -> None:
    body = 'query("h", "SELECT id, price FROM homes WHERE price > 8 ORDER BY id" : out)'
    over, taken = drive(tmp_path, flow(body), sources=database(tmp_path))
    assert over.state == "done", over
    assert taken.rows["out"] == [{"id": "b", "price": 9}, {"id": "c", "price": 12}]


@pytest.mark.parametrize(
    "text", ["DELETE FROM homes", "DROP TABLE homes", "INSERT INTO homes VALUES ('x', 1)"]
)
def test_TA20_a_query_alters_nothing(tmp_path: Path, text: str) -> None:
    over, _ = drive(tmp_path, flow(f'query("h", "{text}" : out)'), sources=database(tmp_path, write=True))
    assert over.state == "failed"
    assert len(stored(tmp_path, "homes")) == 3


@pytest.mark.parametrize("statement", ["VACUUM INTO", "ATTACH"])
@pytest.mark.parametrize("operator", ['query("h", "{}" : out)', 'query2("h", "{}")'])
def test_no_statement_reaches_another_file(tmp_path: Path, operator: str, statement: str) -> None:
    text = f"{statement} '{tmp_path}/other.db'" + (" AS other" if statement == "ATTACH" else "")
    body = operator.format(text)
    plan = flow(body) if "out" in body else flow(body, outputs="")
    over, _ = drive(tmp_path, plan, sources=database(tmp_path, write=True))
    assert over.failure is not None
    assert "authoriz" in over.failure.message
    assert not (tmp_path / "other.db").exists()


def test_TA20_a_statement_needs_a_grant(tmp_path: Path) -> None:
    plan = flow('query2("h", "DELETE FROM homes")', outputs="")
    over, _ = drive(tmp_path, plan, sources=database(tmp_path))
    assert over.failure is not None
    assert "write = true" in over.failure.message
    over, _ = drive(tmp_path, plan, sources=database(tmp_path, write=True))
    assert over.state == "done", over
    assert stored(tmp_path, "homes") == []


def test_TA21_an_export_replaces_and_a_stream_is_added_by_its_key(tmp_path: Path) -> None:
    body = (
        'accumulate(homes : all) exportrelation("h", "kept", all) exportrelation2("h", "added", homes, "id")'
    )
    plan = flow(body, outputs="", inputs="INPUT: TupleStream homes;")
    for _ in range(2):
        sources = database(tmp_path, write=True)
        over, _ = drive(tmp_path, plan, inputs={"homes": HOMES}, sources=sources)
        assert over.state == "done", over
    assert stored(tmp_path, "kept") == [("a", 7), ("a", 7), ("b", 9)]
    assert stored(tmp_path, "added") == [("a", 7), ("b", 9)]


def test_TA21_a_first_export_makes_its_folder_its_table_and_the_columns_that_it_lacks(tmp_path: Path) -> None:
    sources = {"h": FlowSource("h", "sqlite", path="var/new/h.db", write=True)}
    export = (
        'select("price > 8", homes : some) exportrelation2("h", "some", some, "id") '
        'accumulate(some : all) exportrelation("h", "all", all)'
    )
    plan = """PLAN P { INPUT: TupleStream homes; BODY {
      project("id, price", homes : known) %s } }""" % export.replace("homes", "known")  # noqa: UP031
    rows = relation_of(TupleBatch(("id", "price"), [("a", 7)]), "homes")
    read = flow('importrelation("h", "some" : out)')
    over, taken = drive(tmp_path, read, sources=sources)
    assert (over.state, taken.rows) == ("done", {})
    over, _ = drive(tmp_path, plan, inputs={"homes": rows}, sources=sources)
    assert over.state == "done", over
    (tmp_path / "var" / "new" / "h.db").rename(tmp_path / "h.db")
    with sqlite3.connect(tmp_path / "h.db") as made:
        tables = [text for (text,) in made.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL")]
    assert sorted(tables) == ['CREATE TABLE "all" ("id", "price")',
                              'CREATE TABLE "some" ("id", "price", UNIQUE ("id"))']  # fmt: skip
    more = relation_of(TupleBatch(("id", "rooms"), [("a", 3), ("a", 4), (None, 5)]), "homes")
    plan = flow('exportrelation2("h", "some", homes, "id")', outputs="", inputs="INPUT: TupleStream homes;")
    there = {"h": FlowSource("h", "sqlite", path="h.db", write=True)}
    for _ in range(2):
        over, _ = drive(tmp_path, plan, inputs={"homes": more}, sources=there)
        assert over.state == "done", over
    rest = relation_of(TupleBatch(("rooms",), [(6,)]), "homes")
    over, _ = drive(tmp_path, plan, inputs={"homes": rest}, sources=there)
    assert over.state == "done", over
    assert set(stored_any(tmp_path, "some")) == {("a", None, 4), (None, None, 6)}
    assert len(stored_any(tmp_path, "some")) == 2


@pytest.mark.parametrize(("first", "then", "columns"), [("Ä", "ä", ["Ä", "ä"]), ("ID", "id", ["ID"])])
def test_a_table_gets_the_columns_that_the_database_tells_apart(
    tmp_path: Path, first: str, then: str, columns: list[str]
) -> None:
    plan = flow('exportrelation2("h", "some", homes)', outputs="", inputs="INPUT: TupleStream homes;")
    there = {"h": FlowSource("h", "sqlite", path="h.db", write=True)}
    for name in (first, then):
        row = relation_of(TupleBatch((name,), [(name,)]), "homes")
        over, _ = drive(tmp_path, plan, inputs={"homes": row}, sources=there)
        assert over.state == "done", over
    with sqlite3.connect(tmp_path / "h.db") as made:
        assert [name for _, name, *_ in made.execute("PRAGMA table_info(some)")] == columns
    assert len(stored_any(tmp_path, "some")) == 2


def stored_any(folder: Path, table: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(folder / "h.db") as connection:
        return list(connection.execute(f"SELECT * FROM {table}"))


def test_TA21_a_key_holds_in_a_table_that_was_made_without_one(tmp_path: Path) -> None:
    plan = flow('exportrelation2("h", "homes", homes, "id")', outputs="", inputs="INPUT: TupleStream homes;")
    over, _ = drive(tmp_path, plan, inputs={"homes": HOMES}, sources=database(tmp_path, write=True))
    assert over.state == "done", over
    assert stored(tmp_path, "homes") == [("a", 7), ("b", 9), ("c", 12)]


def test_a_table_is_imported(tmp_path: Path) -> None:
    over, taken = drive(tmp_path, flow('importrelation("h", "homes" : out)'), sources=database(tmp_path))
    assert over.state == "done", over
    assert [row["id"] for row in taken.rows["out"]] == ["a", "b", "c"]
    over, _ = drive(tmp_path, flow('importrelation("g", "homes" : out)'), sources=database(tmp_path))
    assert over.failure is not None
    assert "a source (h), found 'g'" in over.failure.message


# --- sources and wrappers -------------------------------------------------------------------------------

DOCUMENTS = {
    "csv": ("id;price\na;7\nb;9\n", "", [{"id": "a", "price": "7"}, {"id": "b", "price": "9"}]),
    "json": ('{"all": {"list": [{"id": "a", "at": [1]}]}}', "all.list", [{"id": "a", "at": "[1]"}]),
    "xml": ("<r><h id='a'><price type='Number'>7</price></h><x/></r>", "h", [{"id": "a", "price": 7}]),
}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_TA19_files_of_the_settings_are_sources(tmp_path: Path, kind: Any) -> None:
    text, records, expected = DOCUMENTS[kind]
    (tmp_path / "f").write_text(text)
    there = {"s": FlowSource("s", kind, path=str(tmp_path / "f"), records=records)}
    over, taken = drive(tmp_path, flow('retrieve("s", "" : out)'), sources=there)
    assert over.state == "done", over
    assert taken.rows["out"] == expected
    over, taken = drive(tmp_path, flow("""retrieve("s", "id = 'b'" : out)"""), sources=there)
    assert over.state == "done", over
    assert taken.rows.get("out", []) == [row for row in expected if row["id"] == "b"]
    over, taken = drive(tmp_path, flow("""retrieve("s", "other = 'b'" : out)"""), sources=there)
    assert (over.state, taken.rows) == ("failed" if kind == "csv" else "done", {}), over


def test_TA19_a_line_that_is_no_json_is_told_with_its_number_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_text('{"id": "a\u2028"}\r\n\n{"id": "b"}\nnot json\n{"id": "c"}\n', newline="")
    there = {"s": FlowSource("s", "json", path=str(tmp_path / "f"))}
    over, taken = drive(tmp_path, flow('retrieve("s", "" : out)'), sources=there)
    assert over.state == "done", over
    assert [row["id"] for row in taken.rows["out"]] == ["a\u2028", "b", "c"]
    why = "line 4: expected json, found not json: Expecting value at column 1"
    assert [text for one in taken.unread.unread for text in one.texts] == [why]


NOT_JSON = {
    '{"id": "a"},\n{"id": "b"},\n': ':1: expected json, found {"id": "a"},: Extra data at column 12',
    '{"id":\n "a",\n "at": }': "expected json, found Expecting value: line 3 column 8 (char 20)",
}


@pytest.mark.parametrize("text", NOT_JSON)
def test_TA19_a_document_of_json_that_cannot_be_read_fails_with_its_place(tmp_path: Path, text: str) -> None:
    (tmp_path / "f").write_text(text)
    there = {"s": FlowSource("s", "json", path=str(tmp_path / "f"))}
    over, _ = drive(tmp_path, flow('retrieve("s", "" : out)'), sources=there)
    assert over.failure is not None
    assert over.failure.message.endswith(NOT_JSON[text])


def test_TA41_a_csv_file_is_read_as_its_tuples_are_taken(tmp_path: Path) -> None:
    """A line that is written after the first tuples were taken is read too, so the rest was not read yet."""
    (tmp_path / "f").write_text("id,text\n" + "".join(f"{row},{'x' * 100}\n" for row in range(4 * BATCH)))
    source = FlowSource("s", "csv", path=str(tmp_path / "f"))
    reading = sources.Reading(lambda *_: None, print)
    batches = sources.csv_in_file(source, tmp_path / "f", reading, "id <> '7'")
    rows = len(next(batches).rows)
    with (tmp_path / "f").open("a") as file:
        file.write("last,x\n")
    last = None
    for batch in batches:
        rows, last = rows + len(batch.rows), batch.rows[-1]
    assert (rows, last) == (4 * BATCH, ("last", "x"))


def test_TA41_a_thread_is_as_many_values_ahead_as_it_may() -> None:
    made: list[int] = []

    async def take() -> list[int]:
        stream = ThreadStream(iter(lambda: made.append(len(made)) or len(made), 0), 4).batches()
        async with aclosing(stream) as batches:
            first = await anext(batches)
            await asyncio.sleep(0.05)
            return first

    first = asyncio.run(take())
    assert len(made) <= len(first) + 4 + 1


@pytest.mark.parametrize(
    ("text", "charset"),
    [
        ("café\n" * 500_000, "utf-8"),
        ("café\n" * 10, "utf-8-sig"),
        ("café\n" * 10, "utf-16"),
        ("cafe\n" * 500_000 + "café\n", "cp1252"),
        ("", "utf-8"),
    ],
)
def test_TA19_the_character_set_of_a_file_is_that_of_its_bytes(
    tmp_path: Path, text: str, charset: str
) -> None:
    (tmp_path / "f").write_bytes(text.encode(charset))
    assert charset_of_file(tmp_path / "f") == charset


def test_TA19_a_feed_is_a_source(tmp_path: Path) -> None:
    feed = "<rss version='2.0'><channel><item><guid>1</guid><title>One</title></item></channel></rss>"
    (tmp_path / "f").write_text(feed)
    over, taken = drive(
        tmp_path,
        flow('retrieve("s", "" : out)'),
        sources={"s": FlowSource("s", "rss", path=str(tmp_path / "f"))},
    )
    assert over.state == "done", over
    assert [(row["id"], row["title"], row["link"]) for row in taken.rows["out"]] == [("1", "One", "1")]


def test_TA19_a_wrapper_is_a_function_that_yields_dicts(tmp_path: Path) -> None:
    module = """
from narval import wrapper

@wrapper(attributes={"n": "Number"})
def numbers(query):
    for n in range(int(query)):
        yield {"n": n}
"""
    over, taken = drive(tmp_path, flow('retrieve("numbers", "3" : out)'), module)
    assert over.state == "done", over
    assert taken.rows["out"] == [{"n": 0}, {"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[sources.h]\nkind = "sqlite"', 'sources.h: expected kind = "csv"'),
        ('[sources.h]\nkind = "word"\npath = "x"', "sources.h.kind: expected sqlite, csv, json"),
        ('[sources.h]\nkind = "csv"\nurl = "http://a:b@c/"', "without a password"),
        ('[sources.h]\nkind = "csv"\npath = "x"\nwrit = true', "did you mean 'write'?"),
        ("sources = 3", "expected tables"),
    ],
)
def test_TA19_settings_of_sources_that_are_wrong_are_told(text: str, why: str) -> None:
    settings, faults = parse_settings(Source.of_text("etc/narval.toml", text))
    assert settings is None
    assert why in str(faults[0])


BAD = ["12,50", "27.00 €", "1,250.00", "1_000"]
"""Texts that would be another number if they were guessed at."""

PRICE = "<h><price type='Number'>{}</price></h>"
NUMBERS = {
    "csv": ("price;id\n" + "".join(f"{text};a\n" for text in ["7.5", "", *BAD]), "csv"),
    "json": (json.dumps([{"price": text} for text in ["7.5", " ", *BAD]]), "json"),
    "xml": (f"<r>{''.join(map(PRICE.format, ['7.5', '', *BAD]))}</r>", "xml"),
    "wrapper": (f"{['7.5', '', *BAD]!r}", "wrapper"),
    "extract": (json.dumps(["7.5", "", *BAD]), "extract"),
}


@pytest.mark.parametrize("way", NUMBERS)
def test_a_text_that_is_no_plain_number_is_no_value_and_is_told(tmp_path: Path, way: Any) -> None:
    text, kind = NUMBERS[way]
    (tmp_path / "f").write_text(text)
    module = f"""
from narval import wrapper

@wrapper(attributes={{"price": "Number"}})
def homes(query):
    for price in {text if kind == "wrapper" else []}:
        yield {{"price": price}}
"""
    if kind == "extract":
        body = f"makestream2({json.dumps(json.dumps([{'content': text}]))} : pages) "
        body += 'extract(pages, "record json:@\nprice Number json:@" : out)'
    else:
        body = f'retrieve("{"homes" if kind == "wrapper" else "s"}", "" : out)'
    sources = {"s": FlowSource("s", kind, path=str(tmp_path / "f"), numbers={"price": None})}
    over, taken = drive(tmp_path, flow(body), module, sources=sources)
    assert over.state == "done", over
    assert [row["price"] for row in taken.rows["out"]] == [7.5, *[None] * 5]
    (unread,) = taken.unread.unread
    assert (unread.attribute, unread.count, unread.texts) == ("price", 4, tuple(BAD[:3]))


LINES = {
    "short": (
        "a,b\n1,2\n\n3\n4,5\n",
        [("1", "2"), ("3", None), ("4", "5")],
        "line 4: expected 2 fields, found 1",
    ),
    "long": ("a,b\n1,2,3\n4,5,\n", [("1", "2"), ("4", "5")], "line 2: expected 2 fields, found 3"),
    "open": (
        'a,b\n1,"x\ny"\n2,"z\n3,4\n',
        [("1", "x\ny"), ("2", "z\n3,4\n")],
        "line 4: a quote that is not closed",
    ),
    "twice": ("a,b,a\n1,2,3\n", [("3", "2")], "line 1: 2 columns a"),
    "good": ('a,b\n1,"x\n"\n2,"z"', [("1", "x\n"), ("2", "z")], ""),
    "none": ("", [], ""),
}


@pytest.mark.parametrize("what", LINES)
def test_a_line_that_does_not_fit_is_told_with_its_number(tmp_path: Path, what: str) -> None:
    text, expected, why = LINES[what]
    (tmp_path / "f").write_text(text)
    there = {"s": FlowSource("s", "csv", path=str(tmp_path / "f"))}
    over, taken = drive(tmp_path, flow('retrieve("s", "" : out)'), sources=there)
    assert over.state == "done", over
    assert [(row["a"], row["b"]) for row in taken.rows.get("out", [])] == expected
    assert [text for one in taken.unread.unread for text in one.texts] == [why] * bool(why)
    if why:
        assert str(taken.unread.unread[0]).endswith(f"lines that do not fit: {why} (1 in all)")


# --- what is remembered and sent ------------------------------------------------------------------------


def remembered(folder: Path, store: LocalResults, *rows: tuple[str, int], window: str = "") -> Taken:
    last = f', "{window}"' if window else ""
    body = f'remember("homes", "id", homes{last} : new, changed)'
    plan = flow(body, "TupleStream new, TupleStream changed", "INPUT: TupleStream homes;")
    homes = relation_of(TupleBatch(("id", "price"), list(rows)), "homes")
    over, taken = drive(folder, plan, inputs={"homes": homes}, store=store, session=str(rows))
    assert over.state == "done", over
    return taken


def test_T49_what_was_seen_is_not_new_and_what_differs_has_changed(tmp_path: Path) -> None:
    store = LocalResults()
    assert remembered(tmp_path, store, ("a", 7), ("b", 9)).rows == {
        "new": [{"id": "a", "price": 7}, {"id": "b", "price": 9}]
    }
    assert remembered(tmp_path, store, ("a", 7), ("b", 8)).rows == {
        "changed": [{"id": "b", "price": 8, "was_price": 9}]
    }
    assert store.scopes["remembered homes"].keys() == {'["a"]', '["b"]'}
    del store.scopes["remembered homes"]['["a"]']
    assert remembered(tmp_path, store, ("a", 7)).rows == {"new": [{"id": "a", "price": 7}]}
    assert remembered(tmp_path, store, ("a", 7), window="0s").rows == {"new": [{"id": "a", "price": 7}]}


def test_TA22_two_equal_values_are_two_messages_and_a_try_again_is_none(tmp_path: Path) -> None:
    store = LocalResults()
    plan = flow('notify("file:out.txt", homes)', outputs="", inputs="INPUT: TupleStream homes;")
    for _ in range(2):
        over, _ = drive(
            tmp_path, plan, inputs={"homes": HOMES}, store=store, session="one", is_recorded=False
        )
        assert over.state == "done", over
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert lines == ['{"id":"a","price":7}', '{"id":"b","price":9}', '{"id":"a","price":7}']
    over, _ = drive(tmp_path, plan, inputs={"homes": HOMES}, store=store, session="two")
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 6


@pytest.mark.parametrize(
    "dest",
    [
        *("file:../x", "file:", "file:///etc/x", "file:etc/narval.toml", "file:./recipes/x.xml", "ftp:x", ""),
        *("file:inbox/quit.xml", "file:work/ann/done/1.xml", "file:data/memory.xml", "file:var/store.db"),
    ],
)
def test_a_file_lies_below_the_home(tmp_path: Path, dest: str) -> None:
    plan = flow(f'notify("{dest}", homes)', outputs="", inputs="INPUT: TupleStream homes;")
    over, _ = drive(tmp_path, plan, inputs={"homes": HOMES})
    assert over.failure is not None
    assert "expected a" in over.failure.message
    below = not dest.startswith(("file:..", "file:///")) and dest not in ("file:", "ftp:x", "")
    assert ("that no part of narval reads" in over.failure.message) == below


def test_T23_what_is_finished_is_not_done_again(tmp_path: Path) -> None:
    module = """
from narval import operator
asked = []

@operator(inputs="String n", outputs="TupleStream out", io_bound=True)
def ask(n):
    asked.append(n)
    yield {"n": n, "asked": len(asked)}
"""
    plan = flow("ask(ns : out)", inputs="INPUT: TupleStream ns;")
    ns = relation_of(TupleBatch(("value",), [("x",), ("y",), ("x",)]), "ns")
    store = LocalResults()
    run = partial(drive, tmp_path, plan, module, {"ns": ns}, store=store, is_recorded=False)
    first, again, other = run(session="1")[1], run(session="1")[1], run(session="2")[1]
    assert again.rows == first.rows
    assert {row["asked"] for row in first.rows["out"]} == {1, 2, 3}
    assert {row["asked"] for row in other.rows["out"]} == {1, 2, 3}
    over, _ = drive(tmp_path, plan, module, {"ns": ns}, store=store, session="1")
    assert over.state == "done"
    assert [scope for scope in store.scopes if scope.endswith(" 1")] == []


def test_numbers_of_a_source_and_of_a_wrapper_have_forms(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("name;price\na;12,50 €\nb;1.250,00 €\n")
    text = '[sources.s]\nkind = "csv"\npath = "f"\nnumbers = { price = "1.234,56 €" }'
    read, faults = parse_settings(Source.of_text("etc/narval.toml", text))
    assert read is not None, faults
    module = """
from narval import wrapper

@wrapper(attributes={"name": "String", "price": "Number(currency)"})
def shop(query):
    yield {"name": "c", "price": "£1,250.00"}
"""
    body = 'retrieve("s", "price > 20" : here) retrieve("shop", "" : there) union((here, there) : out)'
    over, taken = drive(tmp_path, flow(body), module, sources=read.sources)
    assert over.state == "done", over
    assert sorted(taken.rows["out"], key=str) == [{"name": "b", "price": 1250}, {"name": "c", "price": 1250}]


def test_a_form_that_could_be_two_is_a_fault_of_the_settings() -> None:
    text = '[sources.s]\nkind = "csv"\npath = "f"\nnumbers = { price = "1.234" }'
    read, faults = parse_settings(Source.of_text("etc/narval.toml", text))
    assert read is None
    assert "expected an example that shows thousands and decimals, such as 1.234,56 or 1,234.56" in str(
        faults[0]
    )
