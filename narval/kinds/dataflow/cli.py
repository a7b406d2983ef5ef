"""The commands of dataflows: `dataflow` runs one file in the foreground, without a home (T20, T51), and
`remembered` lists what dataflows have seen (T49).
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from narval.ask.text import clean, clean_lines, json_bytes
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import NOT_WELL, Pair, Pairs, command
from narval.surfaces.cli.limits import asked_limits, limit_options
from narval.surfaces.cli.session import Session

if TYPE_CHECKING:
    from narval.kinds.dataflow.calls.driver import FlowInput
    from narval.kinds.dataflow.engine.network.batches import Row, Schema, TupleBatch
    from narval.kinds.dataflow.engine.network.requests import TransactionOver

FORMATS = ("table", "ndjson", "csv", "xml")

_EXAMPLE = """narval dataflow flats.plan --set most=900
narval dataflow flats.plan --format csv > flats.csv
narval dataflow theaters.plan Near --input sessions.xml"""


@command("dataflow", example=_EXAMPLE, local=True)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("plan", default="")
@click.option("--set", "values", type=Pair(), multiple=True, help="The value of an input; may be repeated.")
@click.option(
    "--input",
    "document",
    type=click.File("rb"),
    help="A document of inputs, <plan_input> with a <session> for each; - is standard input.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="The form of results: table on a terminal, else ndjson.",
)
@click.option(
    "--remember",
    is_flag=True,
    help="In a home, remember what it saw; without this it is a try, to which the same is new again.",
)
@limit_options
@click.pass_context
def dataflow(
    context: click.Context,
    /,
    session: Session,
    file: Path,
    plan: str,
    values: Pairs,
    document: Any,
    form: str | None,
    remember: bool,
    **limits: Any,
) -> None:
    """Run a dataflow of FILE in the foreground, without a home.

    It is the first of the file, or the one named PLAN. In a home it knows what dataflows remember there; only
    with --remember does it add to that. Results are shown as they arrive. Functions come from `modules/`
    beside FILE, or from the home that contains FILE. The exit status is 0 if every session succeeded, else 1.
    """
    import asyncio

    from narval.core.errors import RequestError
    from narval.kinds.dataflow.calls.documents import inputs_of
    from narval.kinds.dataflow.calls.foreground import HomeResults, load_dataflow, run_sessions, sessions_of
    from narval.kinds.dataflow.engine.engine import limits_in
    from narval.kinds.dataflow.engine.network.batches import FlowError
    from narval.kinds.dataflow.engine.network.requests import TransactionOver

    if session.as_json or form is None:
        form = "ndjson" if session.as_json or not sys.stdout.isatty() else "table"
    try:
        asked = limits_in(asked_limits(limits))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    flow = load_dataflow(file, plan)
    if flow.home is not None:
        session.note("directory", str(flow.home))
    sessions = sessions_of(document.read() if document is not None else None, dict(values))
    several = len(flow.definition.outputs) > 1
    writers = [_WRITERS[form](_shown(len(sessions), at), several) for at in range(1, len(sessions) + 1)]
    prints = sys.stdout if form == "table" else sys.stderr
    inputs: dict[int, Mapping[str, FlowInput]] = {}
    ended: dict[int, TransactionOver] = {}
    for at, one in enumerate(sessions):
        try:
            inputs[at] = inputs_of(flow.definition, one)
        except FlowError as error:
            ended[at] = TransactionOver("failed", error.failure)
    try:
        run = asyncio.run(
            run_sessions(
                flow,
                inputs.values(),
                [writers[at] for at in inputs],
                lambda line: print(clean_lines(line), file=prints, flush=True),
                lambda line: click.echo(f"narval: {clean(file)}: {clean_lines(line)}", err=True),
                asked,
                HomeResults(session.ask, keeps=remember) if flow.home is not None else None,
            )
        )
    except FlowError as error:
        raise RequestError(f"{clean(file)}: {error.failure.message}") from None
    if form == "xml":
        click.echo("<plan_input>")
    for writer in writers:
        writer.close()
    if form == "xml":
        click.echo("</plan_input>")
    ended |= zip(inputs, run, strict=True)
    failures = [(at, over) for at, over in sorted(ended.items()) if over.state == "failed"]
    for at, over in failures:
        click.echo(f"narval: {clean(file)}: {_shown(len(ended), at + 1)}{_why(over)}", err=True)
    if failures:
        context.exit(NOT_WELL)


def _shown(count: int, at: int) -> str:
    return f"session {at}: " if count > 1 else ""


def _why(over: TransactionOver) -> str:
    from narval.kinds.dataflow.calls.driver import with_place

    return clean_lines(with_place(over.failure)) if over.failure is not None else "it failed"


class ResultLines:
    """Results as NDJSON: an object for each tuple or value, with its output."""

    def __init__(self, session: str, several: bool) -> None:
        self._session = {"session": session.removesuffix(": ")} if session else {}

    def tuples(self, output: str, batch: TupleBatch) -> None:
        """Write tuples."""
        for row in batch.rows:
            self._write(output=output, tuple=dict(zip(batch.schema, row, strict=True)))

    def value(self, output: str, value: Any) -> None:
        """Write a value; a relation as its tuples."""
        if hasattr(value, "batches"):
            for batch in value.batches():
                self.tuples(output, batch)
        else:
            self._write(output=output, value=value)

    def retracted(self, output: str, batch: TupleBatch) -> None:
        """Write nothing: what is written stays."""

    def over(self, output: str, cancelled: bool) -> None:
        """Write nothing for the end of an output."""

    def close(self) -> None:
        """Write nothing at the end."""

    def _write(self, **fields: Any) -> None:
        sys.stdout.write(json_bytes({**self._session, **fields}, indent=None).decode() + "\n")
        sys.stdout.flush()


class Table(ResultLines):
    """Results in columns, as wide as the first results need."""

    def __init__(self, session: str, several: bool) -> None:
        self._title = session
        self._widths: dict[str, tuple[Schema, list[int]]] = {}

    def tuples(self, output: str, batch: TupleBatch) -> None:
        """Write tuples, below the names of their attributes."""
        from narval.kinds.dataflow.engine.network.batches import text_of

        rows = [[clean(text_of(value)) for value in row] for row in batch.rows]
        layout = self._widths.get(output)
        if layout is None or layout[0] != batch.schema:
            columns = zip(batch.schema, *rows, strict=True)
            widths = [min(max(map(len, column)), 60) for column in columns]
            self._widths[output] = (batch.schema, widths)
            click.echo(f"{self._title}{output}")
            click.echo("  " + self._line(list(batch.schema), widths).upper())
        for row in rows:
            click.echo("  " + self._line(row, self._widths[output][1]))

    def value(self, output: str, value: Any) -> None:
        """Write a value after its name; a relation as its tuples."""
        if hasattr(value, "batches"):
            super().value(output, value)
        else:
            from narval.kinds.dataflow.engine.network.batches import text_of

            click.echo(f"{self._title}{output}: {clean_lines(text_of(value))}")

    def _line(self, texts: list[str], widths: list[int]) -> str:
        cells = [text.ljust(width) for text, width in zip(texts, widths, strict=True)]
        return "  ".join(cells).rstrip()


class Csv(ResultLines):
    """Results as CSV, below a header line. The session and the output come first if there are `several`."""

    def __init__(self, session: str, several: bool) -> None:
        super().__init__(session, several)
        self._several = several
        self._writer = csv.writer(sys.stdout, lineterminator="\n")
        self._headed: dict[str, Schema] = {}

    def tuples(self, output: str, batch: TupleBatch) -> None:
        """Write tuples."""
        self._lines(output, batch.schema, batch.rows)

    def value(self, output: str, value: Any) -> None:
        """Write a value below the name of its output."""
        if hasattr(value, "batches"):
            super().value(output, value)
        else:
            self._lines(output, (output,), [(value,)])

    def _lines(self, output: str, schema: Schema, rows: Iterable[Row]) -> None:
        from narval.kinds.dataflow.engine.network.batches import text_of

        first = {**self._session, "output": output} if self._several else self._session
        if self._headed.get(output) != schema:
            self._headed[output] = schema
            self._writer.writerow([*first, *schema])
        self._writer.writerows([*first.values(), *map(text_of, row)] for row in rows)
        sys.stdout.flush()


class Document(ResultLines):
    """Results as one document of inputs for another dataflow, written at the end."""

    def __init__(self, session: str, several: bool) -> None:
        from narval.kinds.dataflow.calls.documents import GatheredOutputs

        self._gathered = GatheredOutputs(1 << 40)
        self.over, self.value = self._gathered.over, self._gathered.value  # type: ignore[method-assign]
        self.tuples = self._gathered.tuples  # type: ignore[method-assign]
        self.retracted = self._gathered.retracted  # type: ignore[method-assign]

    def close(self) -> None:
        """Write the outputs of the session."""
        outputs = b"".join(document for _, document in self._gathered.documents())
        sys.stdout.write(f"<session>{outputs.decode()}</session>\n")


_WRITERS: dict[str, Callable[[str, bool], ResultLines]] = {
    "table": Table,
    "ndjson": ResultLines,
    "csv": Csv,
    "xml": Document,
}


# --- what dataflows remember ----------------------------------------------------------------------------


def _names(context: click.Context, _: str) -> completion.Choices:
    for row in completion.asked(context, "remembered"):
        yield row["name"], f"{row['items']} items"


_REMEMBERED = """narval remembered
narval remembered flats --limit 10
narval remembered flats https://homes.example/f/1 --forget
narval remembered flats --forget-all"""


@command("remembered", example=_REMEMBERED, alters=True)
@click.argument("name", default="", shell_complete=completion.source(_names))
@click.argument("key", nargs=-1)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="List so many at most.")
@click.option("--skip", type=click.IntRange(0), default=0, metavar="N", help="Leave out the first N.")
@click.option("--forget", is_flag=True, help="Forget the item of KEY: it will be new again.")
@click.option("--forget-all", is_flag=True, help="Forget all items of NAME.")
def remembered(
    session: Session,
    name: str,
    key: tuple[str, ...],
    limit: int | None,
    skip: int,
    forget: bool,
    forget_all: bool,
) -> None:
    """List what dataflows remember.

    Without NAME, these are the names given to the operator `remember`; with NAME, its items, latest first.
    KEY is the values of the key attributes of one item, in order.
    """
    keys = list(key) or None
    if forget or forget_all:
        if not name or forget == forget_all or forget == (keys is None):
            raise click.UsageError("expected NAME KEY --forget, or NAME --forget-all")
        answer = session.ask("forget_remembered", name=name, key=keys)
        session.give(answer, lambda answer: click.echo(f"forgotten: {answer['forgotten']:,} of {name}"))
        return
    rows = session.ask("remembered", name=name, key=keys, limit=limit, skip=skip)
    session.give(rows, lambda answer: _listed(answer, name))


def _listed(rows: list[dict[str, Any]], name: str) -> None:
    from narval.surfaces.cli.render.tables import REMEMBERED, REMEMBERED_NAMES, listing

    if name:
        lines = [
            {**row, "key": " ".join(row["key"]), "tuple": json.dumps(row["tuple"], ensure_ascii=False)}
            for row in rows
        ]
        listing(REMEMBERED, lines, f"nothing is remembered as {name}")
    else:
        listing(REMEMBERED_NAMES, rows, "no dataflow remembers anything (the operator remember)")
