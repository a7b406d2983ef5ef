"""Patterns: XPath expressions read, checked, compiled by shape, tested and explained (N9, N10, N11).

`pattern` is the way in. The modules in the order in which an expression meets them: `lexer` lifts its
literals out; `compiled` keeps the rest once for each shape, compiled by `xpath1` (lxml) or `xpath3`
(elementpath). For that `syntax` reads it, `functions` checks its calls, `budget` bounds it, and `analysis`
turns it into the tests of `key`: of a field (`field_paths`, `field`) against a term (`terms`). `explain`
walks it when an element does not match.
"""
