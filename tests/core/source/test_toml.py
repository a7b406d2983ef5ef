"""Places in TOML: of each key and value, however they are written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narval.core.errors import DefinitionError
from narval.core.source.text import Source
from narval.core.source.toml import TomlText

TEXT = '''\
first = 1 # a comment = 2
"a b".'c.d' = [ 1, [2, 3], # three
  { x = "}", y = """
]""" } ]
[table."sub.table"]
key = 2026-12-20 07:32:00.5
[[list]]
k = 1
[[list]]
k = { deep = { er = 1.5 } }
[list.below]
x = "\\"]"
[[list.more]]
y = 'z'
'''


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        (("first",), (1, 1), (1, 9)),
        (("a b", "c.d"), (2, 7), (2, 15)),
        (("a b", "c.d", 1, 1), (2, 24), (2, 24)),
        (("a b", "c.d", 2, "y"), (3, 14), (3, 18)),
        (("table", "sub.table"), (5, 8), (5, 8)),
        (("table", "sub.table", "key"), (6, 1), (6, 7)),
        (("list", 0, "k"), (8, 1), (8, 5)),
        (("list", 1), (9, 3), (9, 3)),
        (("list", 1, "k", "deep", "er"), (10, 16), (10, 21)),
        (("list", 1, "below", "x"), (12, 1), (12, 5)),
        (("list", 1, "more", 0, "y"), (14, 1), (14, 5)),
        (("list", 1, "more", 0, "missing"), (13, 8), (13, 8)),
        (("missing", "too"), (1, 1), (1, 1)),
    ],
)
def test_the_place_of_keys_and_values(path: Any, key: tuple[int, int], value: tuple[int, int]) -> None:
    text = TomlText(Source("x.toml", TEXT.encode()))
    assert (text.key(*path), text.value(*path)) == (key, value)


def test_a_fault_of_syntax_has_its_place() -> None:
    with pytest.raises(DefinitionError) as raised:
        TomlText(Source("x.toml", b"a = 1\nb = \n"))
    assert (raised.value.line, raised.value.column) == (2, 5)


@pytest.mark.parametrize("text", ["a = 1\nb = [\n  2, {}]\n", "a = 1\nb.c = '7' # 8\n\"d\" ={}"])
def test_a_number_of_too_many_digits_is_a_fault_at_its_place(text: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        TomlText(Source("x.toml", text.format("1_0" * 3_000).encode()))
    assert (raised.value.line, raised.value.column) == (3, 6)
    assert "expected a number of fewer digits, found 6,000" in str(raised.value)


def paths_in(value: Any, *path: str | int) -> Any:
    """Every path to a value."""
    yield path
    within = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in within:
        yield from paths_in(inner, *path, key)


@given(st.text(alphabet="ab.=[]{},\"'\\ #\n12-", max_size=40))
def test_whatever_is_toml_has_a_place_for_each_of_its_values(text: str) -> None:
    try:
        read = TomlText(Source("x.toml", text.encode()))
    except DefinitionError:
        return
    for path in paths_in(read.table):
        line, column = read.value(*path)
        assert 1 <= line <= text.count("\n") + 1
        assert column >= 1
        if path:
            assert read.key(*path) <= (line, column)
