"""Letters are moved and flagged in a real mailbox, once, and only where the settings say so (N37)."""

from __future__ import annotations

import json
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path

import pytest

from modules.mail import filing, imap
from narval.calls.context import CallContext
from narval.core.elements.element import Element
from narval.core.errors import ActionError
from narval.files.outside.services import Mailbox
from tests.acceptance.home import make, until
from tests.mail_servers import PASSWORD, Servers
from tests.mail_servers import servers as servers
from tests.modules.mailboxes import letter, maildir, read

WRITABLE = (Mailbox(name="work", write=True),)


@pytest.fixture
def user(tmp_path: Path) -> str:
    """Somebody with a mailbox of their own."""
    return "".join(filter(str.isalnum, tmp_path.name.lower()))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "in").write_text(PASSWORD)
    (tmp_path / "etc" / "in").chmod(0o600)
    return tmp_path


def account(servers: Servers, user: str) -> str:
    where = f'host="127.0.0.1" port="{servers.imap}" tls="none" user="{user}" secret="in"'
    return f'<mailbox name="work" kind="imap" {where}/>'


def put(servers: Servers, user: str, *raws: bytes, folder: str = "INBOX") -> None:
    with servers.opened(user) as box:
        box.create("Archive")
        for raw in raws:
            box.append(folder, "", "", raw.replace(b"\n", b"\r\n"))  # type: ignore[arg-type]


def subjects(servers: Servers, user: str, folder: str = "INBOX") -> list[str]:
    return [str(mail["Subject"]) for mail in servers.mails(user, folder)]


def flags(servers: Servers, user: str) -> str:
    with servers.opened(user) as box:
        box.select("INBOX", readonly=True)
        return str(box.fetch("1:*", "(FLAGS)")[1]).replace("\\\\Recent", "")


def act(
    home: Path,
    action: Callable[..., object],
    mail: Element,
    wish: str,
    *boxes: str,
    services: tuple[Mailbox, ...] = WRITABLE,
) -> None:
    elements = [Element(number, xml.encode()) for number, xml in enumerate(boxes, 1)]
    context = CallContext("call-1", 1, "file", home, services=services).context()
    context.run(action, mail, Element(9, wish.encode()), elements)


ARCHIVE = '<move to="Archive"/>'


@pytest.mark.parametrize("way", ["MOVE", "UIDPLUS"])
def test_a_letter_is_moved_once_however_often_it_is_tried_and_no_other_is(
    home: Path, servers: Servers, user: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(servers, user, letter(1), letter(2), letter(1, "another, of the same id"))
    box = account(servers, user)
    if way == "UIDPLUS":
        begin = imap.Connection.begin

        def begin_without_move(connection: imap.Connection, *, readonly: bool) -> None:
            begin(connection, readonly=readonly)
            client = connection.server.client
            client.capabilities = tuple(word for word in client.capabilities if word != "MOVE")

        monkeypatch.setattr(imap.Connection, "begin", begin_without_move)
        put(servers, user, letter(1), folder="Archive")  # an earlier try was killed just then
    mail, *_ = read(home, box)
    for _ in range(2):
        act(home, filing.move, mail, ARCHIVE, box)
        assert subjects(servers, user) == ["mail 2", "mail 1"]
        assert subjects(servers, user, "Archive") == ["mail 1"]


def test_a_letter_without_a_message_id_is_found_and_its_twin_comes_along(
    home: Path, servers: Servers, user: str
) -> None:
    nameless = letter(1).replace(b"Message-ID: <1@example.org>\n", b"")
    put(servers, user, nameless.replace(b"mail 1", b"mail 2"), nameless, nameless)
    box = account(servers, user)
    mail = next(mail for mail in read(home, box) if mail.attributes["subject"] == "mail 1")
    act(home, filing.move, mail, ARCHIVE, box)
    assert subjects(servers, user) == ["mail 2"]
    assert subjects(servers, user, "Archive") == ["mail 1", "mail 1"]


def test_flags_are_added_and_removed_and_the_letter_is_no_news(
    home: Path, servers: Servers, user: str
) -> None:
    put(servers, user, letter(1))
    box = account(servers, user)
    (mail,) = read(home, box)
    act(home, filing.flag, mail, '<flag add="seen flagged $Later"/>', box)
    assert all(word in flags(servers, user) for word in ("Seen", "Flagged", "$Later"))
    act(home, filing.flag, mail, '<flag add="answered" remove="seen $Later"/>', box)
    assert "Answered" in flags(servers, user)
    assert "Seen" not in flags(servers, user)
    assert "$Later" not in flags(servers, user)
    (again,) = read(home, box)
    assert again.attributes["key"] == mail.attributes["key"]


@pytest.mark.parametrize(
    ("wish", "kind", "said"),
    [
        ('<move to="Archvie"/>', "no-such-folder", "there is Archive, INBOX"),
        (
            '<move to="&quot; &quot;Archive&#13;&#10;A1 DELETE Archive"/>',
            "no-such-folder",
            "expected the name of a folder",
        ),
        ('<move to="&quot; Archive\\"/>', "no-such-folder", "there is Archive"),
        ('<flag add="deleted"/>', "bad-flag", "expected seen, answered, flagged, draft or a keyword"),
        ('<flag add="a)\\Deleted("/>', "bad-flag", "expected seen"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_altered(
    home: Path, servers: Servers, user: str, wish: str, kind: str, said: str
) -> None:
    put(servers, user, letter(1))
    box = account(servers, user)
    (mail,) = read(home, box)
    before = flags(servers, user)
    with pytest.raises(ActionError, match=said) as caught:
        act(home, filing.move if "move" in wish else filing.flag, mail, wish, box)
    assert (caught.value.kind, caught.value.final) == (kind, True)
    assert subjects(servers, user) == ["mail 1"]
    assert flags(servers, user) == before


@pytest.mark.parametrize(
    ("services", "kind"),
    [
        ((), "no-such-service"),
        ((Mailbox(name="home", write=True),), "no-such-service"),
        ((Mailbox(name="work"),), "not-granted"),
    ],
)
def test_where_the_settings_do_not_say_so_nothing_is_altered_and_the_error_has_the_lines(
    home: Path, services: tuple[Mailbox, ...], kind: str
) -> None:
    maildir(home / "Maildir", 1)
    box = '<mailbox name="work" path="Maildir"/>'
    (mail,) = read(home, box)
    with pytest.raises(ActionError) as caught:
        act(home, filing.move, mail, ARCHIVE, box, services=services)
    assert caught.value.kind == kind
    assert "[mailboxes.work]" in str(caught.value)
    assert "write = true" in str(caught.value)


def test_a_letter_that_is_gone_and_a_server_that_is_away_are_told_apart(
    home: Path, servers: Servers, user: str
) -> None:
    put(servers, user, letter(1))
    box = account(servers, user)
    (mail,) = read(home, box)
    with servers.opened(user) as person:
        person.select("INBOX")
        person.store("1", "+FLAGS", r"(\Deleted)")
        person.expunge()
    with pytest.raises(ActionError, match="it was moved or deleted") as caught:
        act(home, filing.move, mail, ARCHIVE, box)
    assert (caught.value.kind, caught.value.final) == ("no-such-letter", True)
    with pytest.raises(ActionError) as caught:
        act(home, filing.move, mail, ARCHIVE, box.replace(f'port="{servers.imap}"', 'port="1"'))
    assert (caught.value.kind, caught.value.final) == ("mailbox-unreachable", False)


# --- a Maildir --------------------------------------------------------------------------------------------


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*host*"))


def test_a_letter_of_a_maildir_is_moved_once_and_flagged_in_its_name(home: Path) -> None:
    folder = maildir(home / "Maildir", 2)
    maildir(folder / ".Archive.2026", 0)
    box = '<mailbox name="work" path="Maildir"/>'
    mail, _ = read(home, box)
    act(home, filing.flag, mail, '<flag add="flagged seen"/>', box)
    assert names(folder) == ["cur/1793600000.0.host:2,FS", "new/1793600001.1.host"]
    act(home, filing.flag, mail, '<flag remove="flagged"/>', box)
    for _ in range(2):
        act(home, filing.move, mail, '<move to="Archive/2026"/>', box)
        assert names(folder) == [".Archive.2026/cur/1793600000.0.host:2,S", "new/1793600001.1.host"]


@pytest.mark.parametrize("to", ["Archvie", "../Elsewhere", "", ".", "Archive/../x"])
def test_a_folder_of_a_maildir_that_is_not_there_is_not_made(home: Path, to: str) -> None:
    maildir(home / "Elsewhere", 0)
    maildir(maildir(home / "Maildir", 1) / ".Archive", 0)
    box = '<mailbox name="work" path="Maildir"/>'
    (mail,) = read(home, box)
    with pytest.raises(ActionError, match="there is Archive") as caught:
        act(home, filing.move, mail, f'<move to="{to}"/>', box)
    assert caught.value.kind == "no-such-folder"


def test_an_mbox_is_only_read(home: Path) -> None:
    (home / "mbox").write_bytes(b"From a\n" + letter(1))
    box = '<mailbox name="work" kind="mbox" path="mbox"/>'
    (mail,) = read(home, box)
    with pytest.raises(ActionError, match="expected kind to be one of imap, maildir"):
        act(home, filing.move, mail, ARCHIVE, box)


# --- in a home --------------------------------------------------------------------------------------------

FILES = """<cookbook group="post">
<recipe name="watch" start_step="watch" end_step="watch" restart="yes">
  <step id="watch" type="action" target="mail.watch" foreach="mailbox"/>
</recipe>
<recipe name="file" start_step="listen" end_step="move" restart="parallel">
  <step id="listen" type="action" target="basic.nothing"/>
  <step id="flag" type="action" target="mail.flag"><arguments><flag add="seen"/></arguments></step>
  <step id="move" type="action" target="mail.move"><arguments><move to="{$flag/@to}"/></arguments></step>
  <transition id="came"><in idref="listen"/><out idref="flag"/>
    <condition use="yes"><match>email[@mailbox and contains(@subject, 'invoice')]</match></condition>
  </transition>
  <transition id="flagged"><in idref="flag"/><out idref="move"/></transition>
</recipe></cookbook>""".replace("{$flag/@to}", "Archive")


def test_a_recipe_files_invoices_sent_by_a_real_server_once_the_settings_let_it(
    tmp_path: Path, servers: Servers, user: str
) -> None:
    home = make(tmp_path / "home", recipes=FILES)
    home.write("etc/in", PASSWORD).chmod(0o600)
    put(servers, user)
    starts = '<start-plan recipe="post.watch"/><start-plan recipe="post.file"/>'
    home.write("data/memory.xml", f"<memory>{account(servers, user)}{starts}</memory>")
    for subject in ("Your invoice", "Lunch?"):
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = "ana@example.org", f"{user}@example.org", subject
        mail["Message-ID"] = f"<{len(subject)}@example.org>"
        mail.set_content("Hello")
        servers.send(mail)
    with home.running():
        (error,) = until(lambda: json.loads(home("memory", "error", "--json").stdout), "a refusal")
        assert "[mailboxes.work] in etc/narval.toml" in error["xml"]
        until(lambda: sorted(subjects(servers, user)) == ["Lunch?", "Your invoice"], "both, where they were")
        home.write("etc/narval.toml", "[mailboxes]\nwork = { write = true }\n")
        run = error["xml"].partition('plan="')[2].partition('"')[0]

        def is_moved() -> bool:
            home("retry", run)
            return subjects(servers, user) == ["Lunch?"]

        until(is_moved, "a letter that was moved, once the settings are read")
    assert subjects(servers, user, "Archive") == ["Your invoice"]
