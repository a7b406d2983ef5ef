"""Commands about definitions, loaded or shipped: definitions, actions, diff, take, tell.

`tell` says in plain words what a definition does; check and proposals say it with the same lines.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from narval.ask.text import Row, clean, clean_lines, fault_line, moment_in_zone, printable
from narval.core.definitions.reading.durations import duration
from narval.core.errors import NotFoundError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import NOT_WELL, command
from narval.surfaces.cli.render.tables import ACTIONS, COMPARED, DEFINITIONS, EXAMPLES, VERSIONS, listing
from narval.surfaces.cli.session import Session, in_home

if TYPE_CHECKING:
    from narval.files.home import Home

_DEFINITIONS = """\
narval definitions
narval definitions mail.triage
narval definitions mail.triage --versions
narval definitions mail.triage --diff 0ad553e2a6b7"""


@command("definitions", example=_DEFINITIONS)
@click.argument("name", metavar="[NAME]", required=False, shell_complete=completion.definitions)
@click.option("--kind", metavar="K", help="The kind of NAME, where several kinds have one of that name.")
@click.option("--versions", "all_versions", is_flag=True, help="List the versions of NAME that are kept.")
@click.option(
    "--diff",
    "old",
    metavar="OLD",
    shell_complete=completion.versions,
    help="What has changed in NAME since this version.",
)
@click.option(
    "--to",
    "new",
    metavar="NEW",
    shell_complete=completion.versions,
    help="With --diff: until this version, not the current one.",
)
def definitions(
    session: Session, name: str | None, kind: str | None, all_versions: bool, old: str | None, new: str | None
) -> None:
    """List what is loaded, from which file, and what did not load.

    A file with faults does not change what is loaded from its last good version; its faults are listed. For
    each definition it says how many runs are under way, and how the last 20 ended. With NAME, one of them:
    its text, its file, whom it calls and who calls it, its runs, and the moments they wait for. OLD and NEW
    are digests, as --versions lists them; their first six characters are enough.
    """
    if name is None:
        if all_versions or old or new or kind:
            raise click.UsageError("--versions, --diff, --to and --kind go with NAME")
        session.give(session.ask("definitions"), _definitions)
    elif old is not None:
        shown_answer = session.ask("difference", name=name, old=old, new=new, kind=kind)
        session.give(shown_answer, lambda answer: click.echo(clean_lines(answer["diff"]) or "no difference"))
    elif new is not None:
        raise click.UsageError("--to goes with --diff")
    elif all_versions:
        versions = session.ask("versions", name=name, kind=kind)
        session.give(versions, lambda rows: listing(VERSIONS, rows, "no versions are kept"))
    else:
        shown_answer = session.ask("definition", name=name, kind=kind)
        session.give(shown_answer, lambda answer: click.echo("\n".join(definition_lines(answer))))


def _definitions(answer: dict[str, Any]) -> None:
    none = "no definitions: put files into recipes/, or copy what ships (narval take, narval init --demo)"
    listing(DEFINITIONS, answer["definitions"], none)
    if answer["faults"]:
        click.echo("\nfaults of what did not load:")
    for fault in answer["faults"]:
        click.echo(clean(fault_line(fault)))


def definition_lines(answer: Row) -> Iterator[str]:
    """The lines of `narval definitions NAME`."""
    yield f"{clean(answer['kind'])} {clean(answer['name'])}, version {answer['digest'][:12]}"
    if answer["description"]:
        yield f"  {clean(answer['description'])}"
    since = f", loaded {moment_in_zone(answer['loaded'])}" if answer["loaded"] else ""
    yield f"  in {clean(answer['path'])}:{answer['line']}{since}"
    if answer["faulty"]:
        yield "  its file has faults now; this is its last good version"
        for fault in answer["file"]["faults"] if answer["file"] else ():
            yield f"    {clean(fault_line(fault))}"
    for row in answer["takes"]:
        several = " …" if row["list"] else ""
        parts = ", ".join(
            f"{one['input']} of {one['part']}" if one["part"] else one["input"] for one in row["parts"]
        )
        yield f"  takes {clean(' and '.join(row['match']))}{several} ({clean(parts)})"
    for way, title in (("calls", "calls"), ("called_by", "called by")):
        for row in answer[way]:
            yield f"  {title} {clean(row['kind'] or 'definition')} {clean(row['name'])}, {clean(row['what'])}"
    for name, value in answer["settings"].items():
        said = ("yes" if value else "no") if isinstance(value, bool) else clean(value)
        yield f"  {clean(name)}: {duration(value) if isinstance(value, float) else said}"
    under_way = [f"{answer['active']} under way"] if answer["active"] else []
    ended = [f"{count} {phase}" for phase, count in answer["ended"].items()]
    if under_way or ended:
        yield f"  runs: {', '.join([*under_way, *ended])}"
    for row in answer["dates"]:
        run = f", run {row['run']} {row['part'] or ''}".rstrip() if row["run"] else ""
        yield f"  at {moment_in_zone(row['at'])}{run}{': ' if row['text'] else ''}{clean(row['text'])}"
    yield ""
    yield clean_lines(answer["source"])


_ACTIONS = """\
narval actions
narval actions mail.write
narval actions files
narval actions --shipped"""


@command("actions", example=_ACTIONS, operation="actions")
@click.argument("name", metavar="[NAME]", default="", shell_complete=completion.actions)
@click.option("--shipped", is_flag=True, help="List all that ships, loaded or not.")
def actions(session: Session, name: str, shipped: bool) -> None:
    """List the actions, with their inputs and outputs.

    With NAME, one action: its inputs with the attributes that it reads, its outputs, what it reaches outside,
    and a step that calls it; or the actions of a module. NAME may ship without being loaded.

    An input in [brackets] is optional; one with … takes a list. "outside" says that its effect is visible
    outside the home: after a language model's answer it asks first. "where" has the parts of its inputs that
    say where it goes, as its author declares them; "any part" if undeclared. "asks first" is the work in
    which a person approves a call before it is made (etc/people.toml). A module that ships is loaded when
    something in the home names it; --shipped lists the actions of all of them, and the module of the home
    that replaces theirs, if any.
    """
    rows = session.ask("actions", name=name, shipped=shipped)
    none = "no actions are loaded; narval actions --shipped lists those that ship"
    if [row["name"] for row in rows] == [name]:
        session.give(rows, lambda _: click.echo("\n".join(action_lines(rows[0]))))
    else:
        session.give(rows, lambda _: listing(ACTIONS, rows, none))


def action_lines(row: Row) -> Iterator[str]:
    """The lines of `narval actions NAME`: what it takes and gives, what it reaches, and how it is called."""
    yield f"{clean(row['name'])}: {clean(row['description'])}"
    yield f"  in {clean(row['path'])}:{row['line']}"
    for slot in row["inputs"]:
        yield f"  takes {_slot(slot)}"
        if slot["reads"]:
            attributes = (_attribute(name, slot["holds"].get(name)) for name in slot["reads"])
            yield f"    attributes: {clean(', '.join(attributes))}"
    for one in row.get("arguments", ()):
        about = f": {clean(one['description'])}" if one["description"] else ""
        need = ", required" if one["required"] else ""
        yield f"    {clean(one['name'])} ({clean(one['type'])}{need}){about}"
    if row.get("destroys"):
        yield "  destroys or overwrites something, as its server says"
    for slot in row["outputs"]:
        yield f"  gives {_slot(slot)}"
    reaches = row["needs"] or ["nothing outside of memory"]
    if row["needs"] is None:
        reaches = ["anything: its code declares no limits"]
    yield f"  reaches {clean(', '.join(reaches))}"
    if row["where"]:
        yield f"  where it goes: {clean(', '.join(row['where']))}"
    for key, title in _OF_ACTION.items():
        if row.get(key):
            yield f"  {title}: {clean(row[key])}"
    if row.get("asks"):
        yield f"  asks first: {clean(', '.join(row['asks']))}"
    yield ""
    yield "a step that calls it; what is not written there is found in the steps before, or in memory:"
    yield clean_lines(row["example"])


_OF_ACTION = {"label": "label of what it gives", "undo": "undone by", "replaced_by": "replaced by"}


def _attribute(name: str, holds: str | list[str] | None) -> str:
    if holds is None:
        return name
    return f"{name} ({holds if isinstance(holds, str) else ' or '.join(holds)})"


def _slot(slot: Row) -> str:
    words = [word for word in ("optional", "list") if slot[word]]
    in_brackets = f" ({', '.join(words)})" if words else ""
    return f"{clean(slot['id'])}: {clean(' and '.join(slot['match']))}{in_brackets}"


# --- what ships -------------------------------------------------------------------------------------------


def _compared(context: click.Context, begun: str) -> completion.Choices:
    from narval.files.alterations import compare

    for file in compare(context.ensure_object(Session).home):
        yield file.path, file.state


def _takable(context: click.Context, begun: str) -> completion.Choices:
    from narval.files.alterations import takable

    yield from ((name, "") for name in sorted(takable()))


def _subjects(context: click.Context, begun: str) -> completion.Choices:
    from narval.files.examples import SUBJECTS

    yield from ((subject, "") for subject in SUBJECTS)


@command("diff", example="narval diff\nnarval diff mail\nnarval diff recipes/mail.xml > mine.diff")
@click.argument("name", metavar="[NAME]", required=False, shell_complete=completion.source(_compared))
@click.pass_context
def diff(context: click.Context, /, session: Session, name: str | None) -> None:
    """Show how the files of the home differ from what ships.

    NAME is a file, a folder, a module, or an example; without it, all settings, schemas, recipes, scenarios
    and modules are listed, each as same, altered, own or not there, and then the differences follow as a
    unified diff, from what ships to what is yours. The exit status is 1 if there are differences.

    A module of the home replaces the shipped one as a whole; without one, the shipped one is used. To alter
    one, copy it (narval take mail) and edit modules/mail; to return to the shipped one, remove it. To carry
    your changes over to a new version of narval, save them first (narval diff mail > mine.diff), then take
    what ships again (narval take mail --force), and apply them in the home (patch -p0 < mine.diff).
    """
    from msgspec import to_builtins

    from narval.files.alterations import compare

    changes = compare(session.home, name)
    rows = [to_builtins(file) for file in changes]
    session.give(rows, lambda _: _print_changes(rows, listed=name is None))
    context.exit(NOT_WELL if any(file.diff for file in changes) else 0)


def _print_changes(rows: list[dict[str, str]], *, listed: bool) -> None:
    altered = [row["diff"] for row in rows if row["diff"]]
    if listed or not altered:
        listing(COMPARED, rows, "no files")
    for number, text in enumerate(altered):
        if number or listed:
            click.echo()
        for line in text.removesuffix("\n").split("\n"):
            click.echo("\t".join(map(printable, line.split("\t"))))


@command(
    "take",
    example="narval take              # the examples there are\n"
    "narval take --about mail\n"
    "narval take examples/invoice --as office\nnarval take mail\nnarval take recipes/mail.xml --force",
)
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=completion.source(_takable))
@click.option("--as", "group", metavar="GROUP", help="Of an example: give all its names this group.")
@click.option(
    "--about",
    metavar="WORDS",
    shell_complete=completion.source(_subjects),
    help="List the examples of a subject, or those with these words in their line.",
)
@click.option("--force", is_flag=True, help="Replace what is there.")
def take(session: Session, names: tuple[str, ...], group: str | None, about: str | None, force: bool) -> None:
    """Copy a shipped file into the home, to change it.

    A NAME is a module, such as mail, a file, such as recipes/mail.xml, or an example, such as
    examples/invoice: its recipe, and its scenario. From then on the copy is used. With --as an example
    becomes a recipe of your own: its files are in recipes/GROUP and scenarios/GROUP, its definitions are
    called GROUP.NAME. Without a NAME the examples are listed, by subject; --about lists some of them.
    """
    from msgspec import to_builtins

    from narval.files.alterations import take as take_into
    from narval.files.examples import examples, take_as
    from narval.files.outside.kept_tools import servers_to_add
    from narval.files.settings import Settings, read_settings

    if not names:
        if group is not None or force:
            raise click.UsageError("name what to take; narval take alone lists the examples")
        rows = [to_builtins(example) for example in examples(about or "")]
        session.give(rows, lambda _: listing(EXAMPLES, rows, "no examples"))
        return
    if about is not None:
        raise click.UsageError("--about lists examples; it does not go with NAME")
    if group is not None and len(names) > 1:
        raise click.UsageError("--as makes one example your own; name one")
    home = session.home
    if group is None:
        paths = take_into(home, *names, force=force)
    else:
        paths = take_as(home, names[0], group, force=force)
    said = f"copied into the home: {clean(', '.join(paths))}"
    servers = servers_to_add(home.path, paths, (read_settings(home.path)[0] or Settings()).mcp)
    answer = {"paths": paths, "servers": [{"server": name, "file": servers[name]} for name in servers]}
    session.give(answer, lambda _: _print_taken(home, said, servers))


def _print_taken(home: Home, said: str, servers: Mapping[str, str]) -> None:
    click.echo(said)
    for server, path in servers.items():
        add = f"narval mcp add {shlex.quote(str(home.path / path))}"
        click.echo(f"it calls the MCP server {server}, which etc/narval.toml does not have: {add}")


# --- tell ---------------------------------------------------------------------------------------------------


_TELL = """\
narval tell mail.triage
narval tell recipes/mail.xml
narval tell notes.xml --json"""


@command("tell", example=_TELL)
@click.argument("name", metavar="NAME|FILE", shell_complete=completion.definitions)
@click.option("--kind", metavar="K", help="The kind of NAME, where several kinds have one of that name.")
@click.pass_context
def tell(context: click.Context, /, session: Session, name: str, kind: str | None) -> None:
    """Describe in plain sentences what a definition does.

    The sentences say when it begins, what it waits for, what it does and in which order, its inputs and
    outputs, whom it asks, what happens on errors and timeouts, and what it does outside the home. They are
    made only from the definition and the descriptions of what it calls.

    NAME is a loaded definition; FILE is a file or a folder, whose definitions are read as if they were in the
    home, also without a home. A word with a / or the suffix of a file is a FILE.
    """
    path = in_home(session, Path(name)) if "/" in name else Path(name)
    if not path.exists() and ("/" in name or path.suffix in (".xml", ".plan", ".py", ".toml")):
        listed = "`narval definitions` lists those that are loaded, each with its file"
        raise NotFoundError(f"there is no file or folder {name}, seen from {Path.cwd()}; {listed}")
    if not (path.exists() and ("/" in name or path.suffix)):
        rows = session.ask("tell", name=name, kind=kind)
        session.give(rows, lambda _: _print_told(rows))
        return
    rows, faults = told_of([path], session)
    session.give(rows, lambda _: _print_told(rows))
    for fault in faults:
        click.echo(clean(fault), err=True)
    if faults:
        context.exit(NOT_WELL)


def told_of(paths: Iterable[Path], session: Session) -> tuple[list[Row], list[object]]:
    """The sentences about the definitions of files and folders, and the faults of unreadable ones."""
    from narval.ask.definitions.definition import told
    from narval.files.reading import definitions_in

    loaded = definitions_in(paths, None if session.is_homeless else session.home)
    rows: list[Row] = [row for definition in loaded.definitions for row in told(definition, loaded.library)]
    return rows, list(loaded.faults)


def changed_lines(rows: Iterable[Row]) -> Iterator[str]:
    """The lines that say which sentences were added and removed, by definition."""
    for (kind, name), of_one in groupby(rows, itemgetter("kind", "definition")):
        yield f"{clean(kind)} {clean(name)}"
        for row in of_one:
            sign = "+" if row["change"] == "added" else "-"
            yield f"{sign} {'  ' * row['depth']}{clean(row['text'])}"


def told_lines(rows: Iterable[Row]) -> Iterator[str]:
    """The lines about definitions, each under its name."""
    for number, (title, of_one) in enumerate(groupby(rows, _title)):
        if number:
            yield ""
        yield title
        yield from (f"  {'  ' * row['depth']}{clean(row['text'])}" for row in of_one)


def _title(row: Row) -> str:
    return f"{clean(row['kind'])} {clean(row['definition'])}, in {clean(row['file'])}"


def _print_told(rows: list[Row]) -> None:
    click.echo("\n".join(told_lines(rows)))
