"""The commands about proposals: a model drafts definitions from a wish; a person reviews and accepts them."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from narval.ask.text import Row, clean, counted
from narval.core.errors import RequestError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import NOT_WELL, asking, command, command_group
from narval.surfaces.cli.documents import Progress
from narval.surfaces.cli.render.proposals import COLUMNS, at_once, lines, next_step
from narval.surfaces.cli.render.tables import listing
from narval.surfaces.cli.session import Session

if TYPE_CHECKING:
    from narval.files.proposals.wish import Change, Example

SINCE = "30d"
"""The default span of the past for a trial of a proposal."""

_EXAMPLE = """\
narval propose "remind me when nobody has answered my mail for three days"
narval propose --change mail.triage "leave newsletters alone"
narval propose "file mails like this one" --example 4711
narval propose --go-on remind-me --answer "by mail\""""


@command("propose", example=_EXAMPLE)
@click.argument("wish", required=False)
@click.option(
    "--change",
    metavar="NAME",
    shell_complete=completion.definitions,
    help="Change the definition NAME by the wish.",
)
@click.option(
    "--example", "examples", metavar="EID", type=int, multiple=True, help="Show the model this element too."
)
@click.option("--secret", is_flag=True, help="Without a terminal: show it a secret element as well.")
@click.option(
    "--model", metavar="NAME", default="", help="The model of [models], rather than that of [propose]."
)
@click.option(
    "--name", metavar="NAME", default="", help="The name of the proposal, rather than one of the wish."
)
@click.option(
    "--go-on",
    "going_on",
    metavar="NAME",
    shell_complete=completion.proposals,
    help="Answer what a proposal asks.",
)
@click.option(
    "--answer", "answers", metavar="TEXT", multiple=True, help="With --go-on: an answer, in their order."
)
@click.pass_context
def propose(
    context: click.Context,
    /,
    session: Session,
    wish: str | None,
    change: str | None,
    examples: tuple[int, ...],
    secret: bool,
    model: str,
    name: str,
    going_on: str | None,
    answers: tuple[str, ...],
) -> None:
    """Have a model draft a definition from a wish.

    The model is that of [propose] in etc/narval.toml. It sees the wish, the language, the actions and
    definitions there are and the names of elements, but no value of memory: strangers' texts cannot steer it,
    unless you show it an element with --example. Its answer is checked and explored; errors go back to it, at
    most five times, within its budget.

    The proposal is kept in proposals/. Nothing in it runs until a person accepts it.
    """
    from narval.files.proposals.wish import Wish
    from narval.trials.propose.driver import go_on
    from narval.trials.propose.driver import propose as drafted

    counts = {row["name"]: row["count"] for row in session.ask("facets")}
    if going_on is not None:
        from narval.files.proposals.folder import proposal_named

        if wish is not None or change or examples or name:
            raise click.UsageError("--go-on goes with --answer alone")
        proposal = proposal_named(session.home.path, going_on)
        with Progress() as line:
            go_on(session.home, proposal, answers, counts, line.show)
        _end(context, session, going_on)
        return
    if wish is None:
        raise click.UsageError('expected a wish in words: narval propose "…"')
    if answers:
        raise click.UsageError("--answer goes with --go-on NAME")
    asked = Wish(
        text=wish,
        model=model,
        name=name,
        change=_change(session, change) if change else None,
        examples=tuple(_example(session, eid, secret=secret) for eid in examples),
        counts=counts,
        by=_by(),
    )
    with Progress() as line:
        proposal = drafted(session.home, asked, line.show)
    _ask_person(session, proposal.name, counts)
    _end(context, session, proposal.name)


@command_group(
    "proposals", example="narval proposals\nnarval proposals show remind-me\nnarval proposals try remind-me"
)
def proposals(session: Session) -> None:
    """List the definitions that are not accepted yet.

    These are proposals. A model drafts them from a wish (narval propose), or a client of MCP proposes
    them. None of them runs.
    """
    rows = session.ask("proposals")
    none = 'no proposals: narval propose "WISH" makes one'
    session.give(rows, lambda listed: listing(COLUMNS, listed, none))


@asking("show", "proposal", example="narval proposals show remind-me")
@click.argument("name", shell_complete=completion.proposals)
def show(row: Row) -> None:
    """Show a proposal.

    First the acts outside that neither its wish nor the settings name. Then what it does, what it needs
    outside, and what may happen in it.
    """
    _print(row)


@command("try", example="narval proposals try remind-me\nnarval proposals try remind-me --since 90d")
@click.argument("name", shell_complete=completion.proposals)
@click.option(
    "--since", metavar="WHEN", default=SINCE, show_default=True, help="How far back: 90d, or a date."
)
@click.option("--progress", "in_lines", is_flag=True, help="Lines of JSON on how far it is, for a program.")
@click.option("--all", "everything", is_flag=True, help="A line for each deed, not the newest fifty.")
def try_(session: Session, name: str, since: str, in_lines: bool, everything: bool) -> None:
    """Try a proposal on the past, and keep what it would have done.

    What came from outside since then is played twice, with and without it, as `narval simulate --since` does.
    Nothing is called, and nothing in the home is altered.
    """
    report = _tried(session, name, since, in_lines=in_lines, everything=everything)
    if in_lines:
        return
    from narval.surfaces.cli.render.past import told

    now = at_once(session.ask("proposal", name=name))
    session.give(report, lambda form: click.echo("\n".join([*told(form), *now])))


@command("check", example="narval proposals check remind-me")
@click.argument("name", shell_complete=completion.proposals)
@click.pass_context
def check(context: click.Context, /, session: Session, name: str) -> None:
    """Check the texts of a proposal again.

    They may have been edited in proposals/NAME/texts, and the home may have changed. The faults, and what it
    does, needs and may cause, are kept with it.
    """
    from narval.ask.definitions.proposing import check_proposal
    from narval.files.proposals.folder import proposal_named

    row = check_proposal(session.home, proposal_named(session.home.path, name))
    session.give(row, _print)
    if row["state"] != "ready":
        context.exit(NOT_WELL)


@asking("drop", "drop_proposal", example="narval proposals drop remind-me", alters=True)
@click.argument("name", shell_complete=completion.proposals)
def drop(name: str) -> None:
    """Delete a proposal."""
    click.echo(f"dropped: {clean(name)}")


for _below in (show, check, try_, drop):
    proposals.add_command(_below)


@command("accept", example="narval accept remind-me\nnarval accept --undo remind-me", alters=True)
@click.argument("name", shell_complete=completion.proposals)
@click.option("--untried", is_flag=True, help="Accept it though nobody tried it on the past.")
@click.option("--undo", is_flag=True, help="Take back that it was accepted.")
@click.option("--digest", metavar="SHA256", help="Accept it only if its texts are those that you have seen.")
def accept(session: Session, name: str, untried: bool, undo: bool, digest: str | None) -> None:
    """Accept a proposal.

    Its files go to recipes/, and what it needs outside is granted. It is shown first, and on a terminal you
    are asked. Exactly what is shown is granted. One that was not tried on the past is refused, unless
    --untried. --undo removes its files, its elements and its grants, and restores what it changed. Its
    runs that have taken nothing yet end; the others continue, and are listed.
    """
    if undo:
        session.give(session.ask("unaccept", name=name), _print_taken_back)
        return
    row = session.ask("proposal", name=name)
    asks = sys.stdin.isatty() and sys.stdout.isatty() and not session.as_json
    if row["state"] == "ready" and row["past"] is None and not untried and asks:
        if click.confirm(f"Try it on the last {SINCE} first?", default=True):
            _tried(session, name, SINCE)
            row = session.ask("proposal", name=name)
        else:
            untried = True
    if row["state"] == "ready" and not session.as_json:
        _print(row, ends=False)
    if row["state"] == "ready" and asks and not click.confirm("Accept it?", default=False):
        click.echo("nothing was altered")
        return
    answer = session.ask("accept", name=name, digest=digest or row["digest"], untried=untried)
    session.give(answer, lambda form: _print_files("accepted", form))


# --- what the commands share --------------------------------------------------------------------------------


def _change(session: Session, name: str) -> Change:
    """The definition to change. Raises RequestError if no file of the home has it."""
    from narval.files.proposals.wish import change_of

    row = session.ask("definition", name=name)
    return change_of(session.home, row["name"], row["kind"], row["path"])


def _example(session: Session, eid: int, *, secret: bool) -> Example:
    """An element to show the model, after the person has seen it. Raises RequestError if the rules refuse it,
    the person declines, or it is secret and nobody can be asked and `secret` is not set.
    """
    from narval.core.memory.labels import SECRET
    from narval.files.proposals.wish import Example, verdict_on

    row = session.ask("element", eid=eid)
    verdict = verdict_on(session.home, row["labels"])
    named = f"element {eid} ({', '.join(row['labels'])})"
    if verdict.then == "refuse":
        line = f" by the rule on line {verdict.rule.line} of etc/trust.toml" if verdict.rule else ""
        why = f", {verdict.why}" if verdict.why else ""
        raise RequestError(f"{named} is refused a language model{line}{why}")
    asks = sys.stdin.isatty()
    is_secret = any(label.startswith(SECRET) for label in row["labels"])
    if is_secret and verdict.then == "ask" and not (asks or secret):
        raise RequestError(f"{named} is secret, and no person can be asked; --secret shows it to the model")
    click.echo(
        f"the model is shown element {eid}, with the labels {', '.join(row['labels']) or 'none'}:", err=True
    )
    click.echo(f"  {clean(row['xml'])[:2_000]}", err=True)
    if asks and not click.confirm("Show it?", default=False, err=True):
        raise RequestError("nothing was shown, and nothing proposed")
    return Example(eid, row["xml"], tuple(row["labels"]))


def _by() -> str:
    import os

    from narval.ask.asker import user

    return str(user(os.geteuid(), "terminal"))


def _ask_person(session: Session, name: str, counts: Mapping[str, int]) -> None:
    """Ask on a terminal what the model asks, and continue with the answers."""
    if session.as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    from narval.files.proposals.folder import Proposal
    from narval.trials.propose.driver import go_on

    proposal = Proposal(session.home.path, name)
    about = proposal.about()
    if about["state"] == "asks":
        answers = [click.prompt(clean(question)) for question in about["questions"]]
        with Progress() as line:
            go_on(session.home, proposal, answers, counts, line.show)


def _end(context: click.Context, session: Session, name: str) -> None:
    row = session.ask("proposal", name=name)
    session.give(row, _print)
    if row["state"] not in ("ready", "asks"):
        context.exit(NOT_WELL)


def _tried(
    session: Session, name: str, since: str, *, in_lines: bool = False, everything: bool = False
) -> Row:
    """Play a proposal on the past, and keep the report."""
    import tempfile
    from pathlib import Path

    import msgspec

    from narval.ask.definitions.checking import HomeAsRead
    from narval.ask.definitions.judging import TextsBeside
    from narval.files.proposals.folder import MEMORY, proposal_named
    from narval.surfaces.cli.render.past import json_form
    from narval.surfaces.cli.trials.past import InLines, OnTerminal, played
    from narval.trials.past.outcome import NEWEST
    from narval.trials.past.play import Tried
    from narval.trials.simulate.parser import read_when
    from narval.trials.simulate.simulated_home import simulated_home

    try:
        when = read_when(since)
    except ValueError:
        expected = "a duration such as 90d, or a date such as 2026-09-01"
        raise click.BadParameter(f"expected {expected}, got {since!r}", param_hint="--since") from None
    proposal = proposal_named(session.home.path, name)
    about = proposal.about()
    if about.get("state") != "ready" or proposal.accepted() is not None:
        raise RequestError(
            f"only a proposal that is ready can be tried; `narval proposals show {name}` says why not"
        )
    texts = proposal.texts()
    proposed = TextsBeside(HomeAsRead.of(session.home), texts, about.get("change"))
    here = simulated_home(session.home, session.agent)
    until = time.time()
    start = until - when.after if when.date is None else when.moment(until, here.zone)
    if start >= until:
        raise RequestError(f"--since: expected a moment in the past, found {since}")
    there = {(one.kind, one.full_name) for one in here.loaded.library}
    from narval.core.engines.registry import is_runnable

    run = [one for one in proposed.definitions if is_runnable(one.kind)]
    replaced = frozenset(one.full_name for one in run if (one.kind, one.full_name) in there)
    trial = Tried(proposed.loaded, tuple(one.full_name for one in run), replaced)
    with tempfile.TemporaryDirectory(prefix="narval-try-") as folder:
        if MEMORY in texts:
            from narval.files.proposals.altering import with_elements

            merged = Path(folder) / MEMORY
            merged.write_text(with_elements(session.home.path, proposal.name, texts[MEMORY]), "utf-8")
            here = msgspec.structs.replace(here, memory=merged)
        with Progress() as line:
            progress = InLines(here.zone) if in_lines else OnTerminal(line)
            most = None if everything else NEWEST
            report = played(session, here, trial, (start, until), progress, most=most)
    form = json_form(report, here.zone)
    judgement = msgspec.to_builtins(proposed.judge(proposal.wish()))
    proposal.note({**about, **judgement})  # a client's proposal was not explored on arrival
    proposal.note_past({"at": form["until"], "report": form})
    if isinstance(progress, InLines):
        progress.end(form, report.tally.arrived)
    return form


def _print(row: Row, *, ends: bool = True) -> None:
    click.echo("\n".join(lines(row)))
    if ends:
        click.echo(f"\n{next_step(row)}")


def _print_taken_back(form: Row) -> None:
    _print_files("taken back", form)
    for key, what in (("ended", "ended before taking anything"), ("going_on", "under way")):
        if runs := form[key]:
            numbers = ", ".join(str(row["run"]) for row in runs)
            click.echo(f"  {counted(len(runs), 'run')} {what}: {numbers}")
    if form["going_on"]:
        click.echo("  what is under way goes on; to end it: narval cancel RUN")


def _print_files(act: str, form: Row) -> None:
    click.echo(f"{act}: {clean(form['name'])}")
    for path in form["files"]:
        click.echo(f"  {clean(path)}")
    if form["granted"]:
        click.echo(f"  granted: {', '.join(map(clean, form['granted']))}")
