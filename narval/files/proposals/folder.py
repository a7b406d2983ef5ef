"""A proposal as a folder in `proposals/`: its texts, the wish, the rounds with a model, and its state.

No definition is loaded from there. Every file is written whole, and the state last, so that after a kill the
proposal says how far it came.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from narval.core.definitions.suggestions import closest
from narval.core.errors import NotFoundError, RequestError
from narval.system.whole_files import write_whole

PROPOSALS = "proposals"
"""The folder of a home with a folder for each proposal."""

TEXTS = "texts"
"""The folder of a proposal with its files."""

FORMER = ".texts"
"""The folder of a proposal with its former files while they are replaced."""

ROUNDS = "rounds"
"""The folder of a proposal with each answer of the model, `1.txt`, and its outcome, `1.json`."""

ABOUT = "proposal.json"
"""The file of a proposal with its state."""

WISH = "wish.txt"
"""The file of a proposal with the wish in words."""

PAST = "past.json"
"""The file of a proposal with its effects when played on the past."""

ACCEPTED = "accepted.json"
"""The file of an accepted proposal: by whom, when, and what was altered."""

MEMORY = "memory.xml"
"""The name of the text with elements for `data/memory.xml`."""

LONGEST_WISH = 4_000
"""The most characters of a wish."""

LONGEST_FILE = 16 * 1024 * 1024
"""The most bytes that are read of a proposal's file."""

NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")

Form = dict[str, Any]

DRAFTING, ASKS, READY, FAULTY, FAILED = "drafting", "asks", "ready", "faulty", "failed"
"""The states of a proposal that is not accepted: a model is drafting, it asks the person, it has no faults,
it has some, or no model answered.
"""


LISTS = ("faults", "told", "findings", "needs", "unnamed", "questions", "answers", "labels")
"""The keys of a proposal's state whose values are lists."""


class Proposal:
    """The folder of a proposal, and its content."""

    def __init__(self, home: Path, name: str) -> None:
        self.home, self.name = home, name
        self.folder = home / PROPOSALS / name

    def about(self) -> Form:
        """Its state; a proposal whose file cannot be read has faults that say so."""
        form = _json(self.folder / ABOUT)
        if form is None:
            form = {"by": "", "at": None, "state": FAULTY, "why": f"{ABOUT} cannot be read; drop it"}
        if form.get("state") == DRAFTING and not _is_alive(form.get("pid")):
            form |= {"state": FAILED, "why": "the program that drafted it was ended"}
        return {"name": self.name, **form}

    def texts(self) -> dict[str, str]:
        """Its texts by file name, sorted."""
        with suppress(OSError):
            folder = self.folder / (TEXTS if (self.folder / TEXTS).exists() else FORMER)
            files = sorted(path for path in folder.iterdir() if _is_plain(path))
            return {path.name: path.read_text("utf-8", "replace") for path in files}
        return {}

    def wish(self) -> str:
        """The wish in words; "" without one."""
        path = self.folder / WISH
        return path.read_text("utf-8", "replace") if _is_plain(path) else ""

    def past(self) -> Form | None:
        """The report on its current texts, played on the past; None if this was not tried."""
        form = _json(self.folder / PAST)
        return form if form is not None and form.get("digest") == digest_of_texts(self.texts()) else None

    def accepted(self) -> Form | None:
        """By whom it was accepted, when, and what was altered; None if it was not accepted."""
        return _json(self.folder / ACCEPTED)

    def rounds(self) -> list[Form]:
        """The answers of the model, round by round, with the outcome of each."""
        rounds = list[Form]()
        while (form := _json(self.folder / ROUNDS / f"{len(rounds) + 1}.json")) is not None:
            answer = self.folder / ROUNDS / f"{len(rounds) + 1}.txt"
            rounds.append(
                {**form, "answer": answer.read_text("utf-8", "replace") if _is_plain(answer) else ""}
            )
        return rounds

    # --- writing --------------------------------------------------------------------------------------------

    def begin(self, about: Mapping[str, Any], wish: str) -> bool:
        """Make the folder with a wish and no texts; False if the name is taken. Raises OSError."""
        self.folder.parent.mkdir(exist_ok=True)
        try:
            self.folder.mkdir()
        except FileExistsError:
            return False
        write_whole(self.folder / WISH, wish)
        self.note(about)
        return True

    def note(self, about: Mapping[str, Any]) -> None:
        """Write its state. Raises OSError."""
        write_whole(self.folder / ABOUT, text_of_form(about))

    def note_round(self, number: int, answer: str, about: Mapping[str, Any]) -> None:
        """Store an answer of the model, with its outcome. Raises OSError."""
        (self.folder / ROUNDS).mkdir(exist_ok=True)
        write_whole(self.folder / ROUNDS / f"{number}.txt", answer.encode("utf-8", "replace").decode())
        write_whole(self.folder / ROUNDS / f"{number}.json", text_of_form(about))

    def note_past(self, report: Mapping[str, Any]) -> None:
        """Store the effects of its current texts on the past. Raises OSError."""
        write_whole(self.folder / PAST, text_of_form({"digest": digest_of_texts(self.texts()), **report}))

    def put_texts(self, texts: Mapping[str, str]) -> None:
        """Replace the texts by others. Raises OSError."""
        made = Path(tempfile.mkdtemp(dir=self.folder, prefix=".texts-"))
        try:
            for name, text in texts.items():
                write_whole(made / name, text.encode("utf-8", "replace"))
            put_folder(made, self.folder / TEXTS, self.folder / FORMER)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise

    def drop(self) -> None:
        """Delete it. Raises OSError."""
        gone = self.folder.with_name(f".{self.name}.{os.urandom(4).hex()}")
        self.folder.rename(gone)  # at once, even if deleting its files fails
        shutil.rmtree(gone)


def put_folder(made: Path, path: Path, former: Path) -> None:
    """Put a folder in the place of another, which is moved to `former` first: a killed program leaves one of
    the two. On OSError, which it raises, all is restored.
    """
    if path.exists():
        shutil.rmtree(former, ignore_errors=True)
        path.rename(former)
    try:
        made.rename(path)
    except OSError:
        if former.exists():
            former.rename(path)
        raise
    shutil.rmtree(former, ignore_errors=True)


def former_of(folder: Path) -> Path:
    """The place to which a proposal moves while another takes its own."""
    return folder.with_name(f".{folder.name}.former")


_LEFT = re.compile(rf"\.({NAME.pattern})\.(former|[a-z0-9_]{{8}})")
"""The names of folders that a killed program leaves: a former proposal, and a partly made or deleted one."""


def restore_folders(home: Path) -> None:
    """Restore a proposal that a killed program had moved to replace it, and delete what it left partly made
    or deleted. Any other folder or file belongs to somebody else. Raises OSError.
    """
    for path in (home / PROPOSALS).glob(".*"):
        left = _LEFT.fullmatch(path.name)
        if left is None or path.is_symlink() or not path.is_dir():
            continue
        place = path.with_name(left[1])
        if path == former_of(place) and not place.exists():
            path.rename(place)
        else:
            shutil.rmtree(path, ignore_errors=True)


def proposals_of(home: Path) -> Iterator[Proposal]:
    """The proposals of a home, by name."""
    try:
        paths = sorted((home / PROPOSALS).iterdir())
    except OSError:
        return
    for path in paths:
        if NAME.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            yield Proposal(home, path.name)


def proposal_named(home: Path, name: str) -> Proposal:
    """The proposal of a name. Raises RequestError, which lists the existing ones."""
    names = [one.name for one in proposals_of(home)]
    if name not in names:
        listed = closest(name, names) or "; `narval proposals` lists them"
        raise NotFoundError(f"there is no proposal {name!r:.80}{listed}")
    return Proposal(home, name)


def check_name(name: str) -> None:
    """Raise RequestError for an invalid name of a proposal."""
    if not NAME.fullmatch(name):
        raise RequestError(
            f"expected a name of a to z, digits and -, that begins with a letter, got {name!r:.80}"
        )


def check_wish(wish: str) -> None:
    """Raise RequestError for a wish that is too long."""
    if len(wish) > LONGEST_WISH:
        raise RequestError(f"expected a wish of at most {LONGEST_WISH:,} characters, got {len(wish):,}")


def name_for(wish: str) -> str:
    """A name for a proposal, from the first words of its wish."""
    words = re.findall(r"[a-z0-9]+", wish.lower())
    while words and not words[0][0].isalpha():
        words.pop(0)
    name = ""
    for word in words[:6]:
        name = f"{name}-{word}" if name and len(name) + len(word) < 40 else name or word[:40]
    return name or "wish"


def digest_of_texts(texts: Mapping[str, str]) -> str:
    """The digest of a proposal's texts: a person accepts exactly the texts they have seen."""
    parts: Sequence[str] = [f"{name}\0{len(text)}\0{text}" for name, text in sorted(texts.items())]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _is_alive(pid: object) -> bool:
    try:
        os.kill(pid if isinstance(pid, int) and pid > 0 else 2**22 + 1, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size <= LONGEST_FILE


def _json(path: Path) -> Form | None:
    """The object in a JSON file; None if there is none, or it cannot be read."""
    try:
        form = json.loads(path.read_text(encoding="utf-8")) if _is_plain(path) else None
    except (OSError, ValueError, RecursionError):
        return None
    return form if isinstance(form, dict) else None


def text_of_form(form: Mapping[str, Any]) -> str:
    """The text of a file with all fields of a form."""
    return json.dumps(form, indent=1) + "\n"
