"""Patterns: XPath expressions parsed, checked, compiled by shape, tested and explained (N9, N10, N11).

`pattern` is the entry point. An expression passes the modules in this order: `syntax` lifts its literals out;
`compiled` keeps the rest once for each shape, compiled by `xpath1` (lxml) or `xpath3` (elementpath). For that
`syntax` parses it, `functions` checks its calls, `budget` and `held` limit it, and `analysis` turns it into
the tests of `key`: of a field against a term. `explain` walks it when an element does not match.
"""
