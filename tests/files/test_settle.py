"""Settle: which version of a file is active, and for whom a change of files counts (N13, N31)."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.source.text import Source
from narval.files.agents.collections import NO_FILES, Collection, made_of
from narval.files.found_files import FoundFiles
from narval.files.loaded import Loaded
from narval.files.settle import settle
from narval.files.snapshot import AgentFiles, Snapshot, changes
from tests.examples import examples

FILES = "abcd"
"""The files of a home, by the group of the recipes in each."""

RECIPE = (
    '<recipe group="{0}" name="{1}" start_step="s" end_step="s">'
    '<step id="s" type="{2}" target="{3}"/></recipe>'
)
Edit = tuple[str, str | None]
"""A file, and its new text; None of one that is removed."""


def text_of(group: str, names: Sequence[str], called: str, is_faulty: bool) -> str:
    """A file of recipes, of which the first calls a recipe of another file, if any is called."""
    nothing = ("action", "basic.nothing")
    calls = [("recipe", called) if called else nothing, nothing, nothing]
    recipes = (RECIPE.format(group, name, *call) for name, call in zip(names, calls, strict=False))
    return f"<cookbook>{''.join(recipes)}{'<' if is_faulty else ''}</cookbook>"


@st.composite
def edits(draw: st.DrawFn, files: str = FILES, faulty: bool = True) -> Edit:
    """An edit of one of some files."""
    group = draw(st.sampled_from(files))
    names = draw(st.lists(st.sampled_from(string.ascii_lowercase[:4]), min_size=1, max_size=3, unique=True))
    called = draw(st.sampled_from(["", *(f"{other}.{name}" for other in FILES for name in "ab")]))
    return group, draw(st.none() | st.just(text_of(group, names, called, faulty and draw(st.booleans()))))


def read(texts: Mapping[str, str], before: Collection = NO_FILES) -> Collection:
    sources = (Source(f"recipes/{group}.xml", text.encode()) for group, text in sorted(texts.items()))
    return made_of(FoundFiles(tuple(sources)), before)


class Home:
    """A home whose files are settled after each edit."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.loaded = settle(Loaded(), [NO_FILES], 0.0)

    def edit(self, edit: Edit) -> Loaded:
        group, text = edit
        self.texts.pop(group, None)
        if text is not None:
            self.texts[group] = text
        self.loaded = settle(self.loaded, [read(self.texts, self.loaded.collections[0])], 1.0)
        return self.loaded


def after(all_edits: Sequence[Edit]) -> Home:
    home = Home()
    for edit in all_edits:
        home.edit(edit)
    return home


def active(loaded: Loaded) -> dict[str, str]:
    """The digests of the definitions of the home that are active, by name."""
    own = (found for found in loaded.library if found.path.startswith("recipes/"))
    return {found.full_name: found.digest for found in own}


def of_file(loaded: Loaded, group: str) -> dict[str, str]:
    return {name: digest for name, digest in active(loaded).items() if name.startswith(f"{group}.")}


@settings(max_examples=examples(50))
@given(st.lists(edits(), max_size=6))
def test_what_is_read_twice_changes_nothing(all_edits: list[Edit]) -> None:
    home = after(all_edits)
    assert settle(home.loaded, home.loaded.collections, 2.0) is home.loaded
    anew = settle(home.loaded, [read(home.texts)], 2.0)  # parsed again, of equal texts
    assert (anew.files, anew.faults) == (home.loaded.files, home.loaded.faults)
    assert active(anew) == active(home.loaded)
    snapshot = Snapshot(AgentFiles(home.loaded, faults=home.loaded.faults))
    changed = changes(snapshot, Snapshot(AgentFiles(anew, faults=anew.faults)))
    assert not any(msgspec.structs.astuple(changed))


@settings(max_examples=examples(50))
@given(st.lists(edits(faulty=False), max_size=4), edits("ab"), edits("cd"))
def test_the_order_of_edits_to_different_files_does_not_matter(
    all_edits: list[Edit], first: Edit, second: Edit
) -> None:
    one, other = (after([*all_edits, *pair]).loaded for pair in ((first, second), (second, first)))
    assert one.faults == other.faults
    faulty = {fault.path for fault in one.faults}
    for group in FILES:
        if f"recipes/{group}.xml" not in faulty:
            assert of_file(one, group) == of_file(other, group)


@settings(max_examples=examples(50))
@given(st.lists(edits(), max_size=6), st.sampled_from(FILES))
def test_a_faulty_text_leaves_the_earlier_version_active(all_edits: list[Edit], group: str) -> None:
    home = after(all_edits)
    before = of_file(home.loaded, group)
    now = home.edit((group, text_of(group, "abc", "", True)))
    assert of_file(now, group) == before
    assert f"recipes/{group}.xml" in {fault.path for fault in now.faults}


@settings(max_examples=examples(50))
@given(st.lists(edits(), max_size=6), st.sampled_from(FILES))
def test_a_file_that_is_removed_takes_its_definitions_and_no_others(
    all_edits: list[Edit], group: str
) -> None:
    home = after(all_edits)
    before = active(home.loaded)
    now = home.edit((group, None))
    left = {name: digest for name, digest in before.items() if not name.startswith(f"{group}.")}
    assert active(now) == left


@pytest.mark.parametrize("changed", [("own",), ("ann",), ("own", "ann"), ()])
def test_a_change_concerns_those_whose_files_it_alters(changed: tuple[str, ...]) -> None:
    good, other = (after([("a", text_of("a", name, "", False))]).loaded for name in "ab")
    old = Snapshot(AgentFiles(good), agents={name: AgentFiles(good) for name in ("ann", "ben")})
    agents = {name: AgentFiles(other if name in changed else good) for name in ("ann", "ben")}
    told = changes(old, Snapshot(AgentFiles(other if "own" in changed else good), agents=agents))
    assert told.concerns_all == ("own" in changed)
    assert told.agents == {"ann"} & {*changed}
