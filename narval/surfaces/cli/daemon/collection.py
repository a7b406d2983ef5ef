"""The command collection: the files that agents of any daemon of a store follow (G58)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from narval.ask.text import Row, clean, counted, moment, size
from narval.core.errors import RequestError
from narval.surfaces.cli import completion
from narval.surfaces.cli.command import command, command_group
from narval.surfaces.cli.options import Folder
from narval.surfaces.cli.render.tables import Column, fields, listing
from narval.surfaces.cli.session import Session

if TYPE_CHECKING:
    from narval.store.postgresql.leases import Published, PublishedRow

_EXAMPLE = """\
narval collection
narval collection publish
narval collection publish collections/office
narval collection show office
narval collection withdraw office"""

_TABLE = (
    Column("name", lambda row: clean(row["name"])),
    Column("version", lambda row: row["digest"][:12]),
    Column("published", lambda row: moment(row["published"]), is_moment=True),
    Column("by", lambda row: clean(row["by"])),
    Column("size", lambda row: size(row["bytes"]), right=True),
    Column("here", lambda row: row["here"]),
)

_FILES = (
    Column("file", lambda row: clean(row["path"])),
    Column("bytes", lambda row: f"{row['bytes']:,}", right=True),
)

_STORE = click.option(
    "--store", metavar="URL", help="The store, rather than that of the home: to ask as another database role."
)


def _names(context: click.Context, _: str) -> completion.Choices:
    """The collections that are in this home."""
    from narval.files.agents.published_folders import published_here

    for name in sorted(published_here(context.ensure_object(Session).home.path)):
        yield name, "published"


_NAME = click.argument("name", metavar="NAME", shell_complete=completion.source(_names))


@command_group("collection", example=_EXAMPLE)
@_STORE
def collection(session: Session, store: str | None) -> None:
    """List the published collections, or publish one.

    Homes that share a store have agents that may run at any of them. The collections that these agents follow
    are published: checked, kept in the store, and written by the daemon of each home into its
    collections/NAME/, within two seconds. `here` says whether this home has one in its published version.
    Anyone who may publish runs code on all these machines; the database says who may.
    """
    with _published(session, store) as published:
        rows = [_form(session, row) for row in published.all()]
    session.give(rows, lambda listed: listing(_TABLE, listed, "nothing is published"))


@command("show", example="narval collection show office")
@_NAME
@_STORE
def show(session: Session, name: str, store: str | None) -> None:
    """Show one collection and its files.

    Also its version, who published it, and when.
    """
    from narval.files.agents.published_folders import unpack

    with _published(session, store) as published:
        row, collection = _row(published, name), published.get(name)
        if collection is None:
            raise _unknown(published, name)
        files = [
            {"path": path, "bytes": len(data)} for path, data in unpack(collection[1], collection[0]).items()
        ]
    session.give({**_form(session, row), "files": files}, _print_collection)


def _print_collection(row: Row) -> None:
    fields([*((column.heading, column.cell(row)) for column in _TABLE), ("digest", row["digest"])])
    listing(_FILES, row["files"], "no files")


@command(
    "publish",
    example="narval collection publish\n"
    "narval collection publish collections/office\n"
    "narval collection publish ~/work/office --name office --store postgresql://publisher@db/narval",
)
@click.argument("folder", metavar="[DIR]", required=False, type=Folder())
@click.option("--name", metavar="NAME", help="Its name, rather than that of DIR.")
@_STORE
def publish(session: Session, folder: str | None, name: str | None, store: str | None) -> None:
    """Check a folder, and publish it for all daemons.

    Its recipes/, modules/, etc/schemas/ and data/memory.xml are published. Without DIR it is this home
    itself, as the collection `home`, which agents without a folder follow by default; its data/memory.xml is
    for its own agent, and not published. If there are faults, nothing is published; `narval check` lists
    them.
    """
    from narval.files.agents.published_folders import packed_and_checked
    from narval.system.logins import login

    path = Path(os.path.abspath(os.path.expanduser(folder))) if folder is not None else session.home.path
    if not path.is_dir():
        raise RequestError(f"expected a folder, got {folder}")
    with _published(session, store) as published:
        name = name or _name_of(session, path)
        packed = packed_and_checked(path, name, _home_files(session, published))
        is_new = all((row.name, row.digest) != (name, packed.digest) for row in published.all())
        if is_new:
            published.put(name, packed.digest, packed.data, login(os.getuid()))
    summary = {"name": name, "digest": packed.digest, "files": len(packed.files), "bytes": len(packed.data)}
    session.give({**summary, "is_new": is_new}, _print_published)


def _print_published(row: Row) -> None:
    what = f"{clean(row['name'])} ({counted(row['files'], 'file')}, version {row['digest'][:12]})"
    click.echo(f"published {what}" if row["is_new"] else f"{what} is what is published already")


@command("withdraw", example="narval collection withdraw office")
@_NAME
@_STORE
def withdraw(session: Session, name: str, store: str | None) -> None:
    """Withdraw a published collection.

    Active agents continue with the version that they have. At their next activation they wait until it is
    published again, or until they follow something else. After `home` is withdrawn, the files of each home
    are used.
    """
    with _published(session, store) as published:
        if not published.withdraw(name):
            raise _unknown(published, name)
    session.give({"name": name, "withdrawn": True}, lambda _: click.echo(f"{name} is no longer published"))


for _command in (publish, show, withdraw):
    collection.add_command(_command)


def _form(session: Session, row: PublishedRow) -> Row:
    from narval.ask import json_forms
    from narval.files.agents.published_folders import digest_here, is_own

    home = None if session.is_homeless else session.home.path
    there = digest_here(home, row.name) if home is not None else ""
    here = "as published" if there == row.digest else "another version" if there else ""
    if home is not None and here == "another version" and is_own(home, row.name):
        here = "a folder of this home's own"
    return {
        "name": row.name,
        "digest": row.digest,
        "published": json_forms.moment(row.at),
        "by": row.by,
        "bytes": row.bytes,
        "here": here or None,
    }


def _row(published: Published, name: str) -> PublishedRow:
    for row in published.all():
        if row.name == name:
            return row
    raise _unknown(published, name)


def _unknown(published: Published, name: str) -> RequestError:
    there = ", ".join(row.name for row in published.all()) or "none"
    return RequestError(f"no collection {name!r:.80} is published; those there are: {there}")


def _name_of(session: Session, path: Path) -> str:
    """The default name under which a folder is published."""
    from narval.files.agents.settings import HOME_COLLECTION

    is_home = not session.is_homeless and path.resolve() == session.home.path.resolve()
    return HOME_COLLECTION if is_home else path.name


def _home_files(session: Session, published: Published) -> Mapping[str, bytes]:
    """The files of the collection `home`, followed together with others: the store's, else this home's."""
    from narval.files.agents.published_folders import pack, unpack
    from narval.files.agents.settings import HOME_COLLECTION

    collection = published.get(HOME_COLLECTION)
    if collection is not None:
        return unpack(collection[1], collection[0])
    return {} if session.is_homeless else pack(session.home.path, declares=False)[0].files


@contextmanager
def _published(session: Session, store: str | None) -> Iterator[Published]:
    """The collections of the store. Raises RequestError if homes do not share it, StoreError."""
    from narval.files.settings import Settings
    from narval.store.postgresql.drivers import published_at

    url = store or Settings.load(session.home.path).store
    if url is None or not url.startswith("postgres"):
        todo = "with one home a folder collections/NAME/ does what publishing it would"
        store_named = "an SQLite file" if url is None or url.startswith("sqlite") else repr(url)
        expectation = "a store that homes share, such as postgresql://… in etc/narval.toml"
        raise RequestError(f"expected {expectation}, found {store_named}; {todo}")
    with published_at(url) as published:
        yield published
