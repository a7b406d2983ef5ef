"""Elements of runs and definitions come from narval alone (N2)."""

from __future__ import annotations

import pytest

from narval.core.elements.canonical import canonical_given, elements_of
from narval.core.elements.element import CONTROL
from narval.core.elements.names import DEFINITIONS, RUNS
from narval.core.errors import ElementError
from narval.core.kinds import KINDS


@pytest.mark.parametrize("name", sorted(RUNS | DEFINITIONS))
def test_N2_what_only_narval_adds_is_refused_with_its_line(name: str) -> None:
    for text in (f"<{name}/>", f"<{name} state='failed'><a/></{name}>", f"<n:{name} xmlns:n='{CONTROL}'/>"):
        with pytest.raises(ElementError) as refused:
            elements_of(f"<memory>\n  <a/>\n  {text}\n</memory>")
        assert (refused.value.kind, refused.value.line) == ("reserved", 3)
        with pytest.raises(ElementError, match="is what narval calls a"):
            canonical_given(text)


def test_N2_a_name_like_them_or_of_another_namespace_is_nobodys_own() -> None:
    for text in ("<planet/>", "<todo/>", "<plan-b/>", '<x:plan xmlns:x="urn:x"/>', '<plan xmlns="urn:x"/>'):
        assert canonical_given(text) == text.encode()
    assert elements_of("<memory><a><plan/></a></memory>") == [b"<a><plan/></a>"]


def test_N2_every_kind_has_its_names_reserved() -> None:
    assert {kind.run for kind in KINDS.values() if kind.run} <= RUNS
    roots = {
        root for kind in KINDS.values() for root in kind.roots if root[0] != "{" and root == root.lower()
    }
    assert roots <= RUNS | DEFINITIONS
    assert set(KINDS) <= RUNS | DEFINITIONS
