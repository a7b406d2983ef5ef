"""Commands about runs: runs, show, why, cancel, signal, renew, retry."""

from __future__ import annotations

from typing import Any, BinaryIO

import click

from narval.ask.text import Row, clean, counted, xml_text
from narval.core.kinds import PHASES
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import Number, Pair, Pairs, RunKind, asking, command, reason_option
from narval.surfaces.cli.documents import DocumentFile, documents_of, naming
from narval.surfaces.cli.paging import Page, paged
from narval.surfaces.cli.render import answers, reasons
from narval.surfaces.cli.render.tables import RUNS, listing
from narval.surfaces.cli.session import Session

MOST_LISTED = 20
"""The most runs that are listed before asking whether to cancel all."""

STATES = (*PHASES, "ready", "running", "end", "failed-end")
"""The phases, then the states of plans that are not phases."""

SORTS = ("person", "act", "nothing", "element", "moment", "call")
"""The things that a run under way waits for; `nothing` while it works, or before it begins."""

run_argument = click.argument("run", type=Number("a run"), shell_complete=completion.runs)
active_run_argument = click.argument("run", type=Number("a run"), shell_complete=completion.active_runs)

at_option = click.option(
    "--at", type=int, metavar="SEQ", help="As it was after line SEQ of its history (`narval history`)."
)


_RUNS = """\
narval runs --state failed
narval runs --waiting-for person
narval runs --name mail.triage --limit all --json"""


@command("runs", example=_RUNS)
@click.option(
    "--state",
    metavar="S",
    shell_complete=lambda _context, _parameter, begun: [word for word in STATES if word.startswith(begun)],
    help="Only those in this state or phase: running, failed, done, …",
)
@click.option("--waiting-for", type=click.Choice(SORTS), help="Only those under way that wait for this.")
@click.option("--kind", type=RunKind(), help="Only those of this kind.")
@click.option(
    "--name", metavar="N", shell_complete=completion.definitions, help="Only those of this definition."
)
@click.option("--definition", metavar="DIGEST", help="Only those of this version, or one that begins so.")
@click.option("--since", metavar="MOMENT", help="Only those that began from this moment on.")
@click.option("--error", metavar="TYPE", help="Only those with an error of this type.")
@click.option("--text", metavar="WORDS", help="Only those whose error has these words.")
@click.option("--older", is_flag=True, help="Only those under way whose file has a newer version.")
@click.option("--notices", is_flag=True, help="Also those that only tell of failures.")
@paged
def runs(session: Session, page: Page, state: str | None, notices: bool, **query: str | bool | None) -> None:
    """List runs, newest first.

    Runs of notify.failures, which only report failures, are left out unless an option selects some.
    """
    notices = notices or state is not None or any(query.values())
    query["notices"] = notices
    answer = page.ask(session, "runs", state=state, **query)  # options are named as its arguments
    if state not in (None, *STATES) and not (answer or session.ask("runs", state=state, limit=1)):
        raise click.BadParameter(f"{state!r} is not one of {', '.join(STATES)}.", param_hint="'--state'")
    page.give(
        session, answer, lambda rows: answers.runs(rows, lambda listed: listing(RUNS, listed, "no runs"))
    )
    if not notices and any(row["phase"] == "failed" for row in answer):
        from narval.ask.runs.notices import NOTICES

        if session.ask("runs", name=NOTICES, limit=1):
            click.echo("runs that only tell of failures are left out: --notices lists them", err=True)


@command("show", example="narval show 12\nnarval show 12 --svg run.svg\nnarval show mail.triage --graph")
@click.argument("run", metavar="RUN|NAME", shell_complete=completion.runs)
@click.option("--xml", "as_xml", is_flag=True, help="As the element that memory shows.")
@click.option("--graph", "as_graph", is_flag=True, help="Its graph: parts, states, and what leads where.")
@click.option("--dot", "as_dot", is_flag=True, help="Its graph, in the language of Graphviz.")
@click.option(
    "--svg", type=click.File("wb"), metavar="FILE", help="Draw its graph into FILE (- is the output)."
)
@at_option
def show(
    session: Session,
    run: str,
    as_xml: bool,
    as_graph: bool,
    as_dot: bool,
    svg: BinaryIO | None,
    at: int | None,
) -> None:
    """Show one run: steps, transitions, context, errors, graph.

    Of a definition, its graph.
    """
    if as_xml + as_graph + as_dot + (svg is not None) > 1:
        raise click.UsageError("--xml, --graph, --dot and --svg exclude each other")
    as_dot = as_dot or svg is not None
    if not (run.isdecimal() or as_graph or as_dot):
        raise click.BadParameter(
            f"{run!r} is not the number of a run (narval runs); a definition has --graph, --dot and --svg.",
            param_hint="'RUN|NAME'",
        )
    about: dict[str, Any] = {"run": int(run)} if run.isdecimal() else {"definition": run}
    with session.connect("look") as connection:
        answer = connection.ask(
            "xml" if as_xml else "drawn" if as_graph else "graph" if as_dot else "show", **about, at=at
        )
        is_at_work = not connection.record_only
    if as_graph:
        from narval.surfaces.cli.render.graphs import graph

        session.give(answer, graph)
    elif as_xml:
        session.give(answer, lambda reply: click.echo(xml_text(reply["xml"]).encode("utf-8")))
    elif svg is not None:
        from narval.surfaces.cli.render.graphs import svg as drawn

        svg.write(drawn(answer["dot"]))
    elif as_dot:
        session.give(answer, lambda reply: click.echo(reply["dot"].encode("utf-8"), nl=False))
    else:
        is_still = not is_at_work and answer["ended"] is None and at is None
        state = f"{answer['state']}, as of the last moment recorded: no daemon is running"
        session.give(answer, lambda reply: answers.run({**reply, "state": state} if is_still else reply))


_WHY = """\
narval why 12
narval why 12 send
narval why 87 --origin
narval why 87 --uses --svg uses.svg"""


@command("why", example=_WHY)
@click.argument("run", type=Number("a run or an element"), shell_complete=completion.runs)
@click.argument("id", metavar="[ID]", required=False, shell_complete=completion.parts)
@click.option("--origin", is_flag=True, help="Of an element: what it was made from, back to what came in.")
@click.option("--uses", is_flag=True, help="Of an element: what was made from it, and who had it.")
@click.option("--dot", "as_dot", is_flag=True, help="That as a graph, in the language of Graphviz.")
@click.option("--svg", type=click.File("wb"), metavar="FILE", help="Draw it into FILE (- is the output).")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Tell of N elements at most (1000).")
def why(
    session: Session,
    run: int,
    id: str | None,
    origin: bool,
    uses: bool,
    as_dot: bool,
    svg: BinaryIO | None,
    limit: int | None,
) -> None:
    """Tell what a run waits for, or what happened to an element.

    ID is a part that did not continue: a step, transition, node or state. For each condition this names the
    nearest element, the predicate that failed, and the value found there. With the eid of an element for RUN:
    what it was made from, what used it and holds it, what was made from it, what outdated it, what waits for
    one like it. With --origin the whole way back to its sources outside, with --uses the whole way forward.
    """
    if not (origin or uses):
        if as_dot or svg is not None or limit is not None:
            raise click.UsageError("--dot, --svg and --limit go with --origin or --uses")
        session.give(session.ask("why", run=run, id=id), lambda row: click.echo("\n".join(reasons.why(row))))
        return
    if (origin and uses) or id is not None or (as_dot and svg is not None):
        raise click.UsageError("expected one of --origin and --uses, without ID, with --dot or --svg or none")
    from narval.surfaces.cli.render import graphs

    bounded = {} if limit is None else {"limit": limit}
    is_drawn = as_dot or svg is not None
    answer = session.ask("origin" if origin else "uses", eid=run, drawn=is_drawn, titled=True, **bounded)
    if svg is not None:
        svg.write(graphs.svg(answer["dot"]))
    elif as_dot:
        session.give(answer, lambda reply: click.echo(reply["dot"].encode("utf-8"), nl=False))
    else:
        render = graphs.origin if origin else graphs.uses
        session.give(answer, lambda reply: click.echo("\n".join(render(reply))))


_CANCEL = """\
narval cancel 12 --reason 'started twice'
narval cancel --name mail.triage
narval cancel --all --name mail.triage --yes"""


@command("cancel", example=_CANCEL, alters=True)
@click.argument(
    "run", metavar="[RUN]", required=False, type=Number("a run"), shell_complete=completion.active_runs
)
@click.option(
    "--name",
    metavar="N",
    shell_complete=completion.active_names,
    help="The run of this definition, where one is active; with --all each of them.",
)
@click.option("--all", "every", is_flag=True, help="All runs that no other run has called.")
@click.option("--yes", is_flag=True, help="With --all: do not ask first.")
@reason_option("Kept in the run's history.", "reason", default="")
def cancel(session: Session, run: int | None, name: str | None, every: bool, yes: bool, reason: str) -> None:
    """End a run, and cancel its calls.

    It is named by its number, or with --name by its definition; if several runs of that are active, none is
    ended, and they are listed.

    With --all all runs end, or, with --name too, all of that definition. It lists them and asks first, except
    with --yes, which scripts need. Items of work stay, and so do service runs, which last as long as their
    definition is loaded. A recipe with `restart` then does not restart; the command says how to start it.
    """
    if every:
        if run is not None:
            raise click.UsageError("expected RUN or --all, and not both")
        _cancel_all(session, name, reason, yes=yes)
        return
    if yes:
        raise click.UsageError("--yes goes with --all")
    if (run is None) == (name is None):
        raise click.UsageError("expected RUN or --name, and not both")
    answer = session.ask("cancel", run=run, name=name, reason=reason)
    session.give(answer, _print_ended)


def _print_ended(answer: Row) -> None:
    """Print the state of a run, or that a definition does not start again."""
    if "starts" in answer:
        click.echo(f"{answer['name']} does not begin again")
    else:
        click.echo(f"run {answer['eid']} is {answer['state']}")


def _cancel_all(session: Session, name: str | None, reason: str, *, yes: bool) -> None:
    """End all runs, or those of a definition, after confirmation."""
    if session.as_json and not yes:
        raise click.UsageError("--all with --json asks no question; give --yes to agree")
    rows: list[Row] = [] if yes else session.ask("cancel_all", name=name, dry=True)
    if rows:
        listing(RUNS, rows[:MOST_LISTED], "")
        more = f"; {len(rows) - MOST_LISTED} are not listed" if rows[MOST_LISTED:] else ""
        _tell_of_restarts(rows, "would end")
        try:
            click.confirm(f"Cancel {counted(len(rows), 'run')}{more}?", abort=True)
        except click.Abort:
            raise click.ClickException("nothing was cancelled; --yes agrees without being asked") from None
    if yes or rows:
        rows = session.ask("cancel_all", name=name, reason=reason)
    session.give(rows, _print_cancelled)


def _print_cancelled(rows: list[Row]) -> None:
    ended = sum(row["phase"] == "cancelled" for row in rows)
    if ended or not rows:
        click.echo(f"{counted(ended, 'run')} cancelled" if ended else "no runs are under way")
    if left := len(rows) - ended:
        click.echo(f"{counted(left, 'run')} to be cancelled, once their calls are over or a daemon runs")
    _tell_of_restarts(rows, "end")


def _tell_of_restarts(rows: list[Row], end: str) -> None:
    """List the definitions with `restart` that have no run from now on."""
    names = sorted({row["name"] for row in rows if row["restarts"]})
    if names:
        click.echo(f"These restart by themselves, and {end} for good; each is started again by:")
    for name in names:
        click.echo(f"  narval start {clean(name)}")


_SIGNAL = """\
narval signal 12 approve --set by=ann
narval signal 12 reply answer.xml"""


@command("signal", example=_SIGNAL, alters=True)
@active_run_argument
@click.argument("name")
@click.argument("file", metavar="[FILE]", required=False, type=DocumentFile())
@click.option(
    "--set",
    "pairs",
    type=Pair("KEY=VALUE"),
    multiple=True,
    help="An attribute of the signal; may be repeated.",
)
def signal(session: Session, run: int, name: str, file: BinaryIO | None, pairs: Pairs) -> None:
    """Send a named signal to a run.

    The elements in FILE (- is standard input) come with it. A plan gets it as an element `signal`, which is
    addressed to it alone: a condition waits for it with a pattern like signal[@name='approve'].
    """
    arguments = dict(pairs)
    if len(arguments) < len(pairs):
        twice = next(key for key in arguments if [name for name, _ in pairs].count(key) > 1)
        raise click.BadParameter(f"{twice} is given twice.", param_hint="'--set'")
    files = [file] if file is not None else []
    documents = documents_of(files)
    with naming(files, documents):
        answer = session.ask("signal", run=run, name=name, elements=documents, arguments=arguments)
    session.give(answer, _effect)


def _effect(answer: dict[str, Any]) -> None:
    effect = f"signal {answer['signal']} is element {answer['eid']}" if answer.get("eid") else "told"
    if sessions := answer.get("sessions"):
        click.echo(f"{effect}: run {answer['run']} took it, {counted(sessions, 'session')}")
    elif answer.get("taken_by"):
        taker = "transition" if answer.get("eid") else "state"
        click.echo(f"{effect}: {taker} {answer['taken_by']} took it")
    else:
        click.echo(f"{effect}: nothing in run {answer['run']} has taken it yet")


@asking(
    "renew", "renew", example="narval renew 12\nnarval renew 12 --reason 'the new rules hold'", alters=True
)
@active_run_argument
@reason_option("Kept in the history of the run that ends.", "reason", default="")
def renew(answer: Row) -> None:
    """End a run, and restart it with its file as it is now.

    The new run gets the elements that the old one got at its start. What the old one has used stays used. An
    item of work is withdrawn, and offered again.
    """
    click.echo(answer["run"])


@command("retry", example="narval retry 12\nnarval retry 12 --from send\nnarval retry 12 --done", alters=True)
@run_argument
@click.option(
    "--from",
    "step",
    metavar="STEP",
    shell_complete=completion.steps,
    help="Begin again from this step, not from the one that failed.",
)
@click.option("--done", is_flag=True, help="That step was done: go on behind it.")
@click.option(
    "--gave",
    type=int,
    multiple=True,
    metavar="EID",
    shell_complete=completion.elements,
    help="With --done: an element that the step gave; may be repeated.",
)
@click.option("--dry", is_flag=True, help="Tell what would be done, and do nothing.")
def retry(session: Session, run: int, step: str | None, done: bool, gave: tuple[int, ...], dry: bool) -> None:
    """Retry a run from one of its steps.

    The eid of the new run is printed. It follows the current definition. Results from before that step are
    kept; what the step and those after it had used may be used again. A step with `foreach` repeats all its
    calls, also the successful ones: an action that acts outside has to recognise them.
    """
    asked = {"run": run, "step": step, "done": done, "gave": list(gave)}
    if dry:
        session.give(session.ask("retry_plan", **asked), answers.retry_plan)
        return
    answer = session.ask("retry", **asked)
    session.give(answer, lambda reply: click.echo(reply["eid"]))
