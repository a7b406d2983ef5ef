"""XPath expressions read, checked, compiled by shape, turned into tests and explained (N9, N10, N11).

`narval.memory.match` is the way in. The modules in the order in which a pattern meets them: `lexer` lifts
its literals out, `shape` keeps what is left, compiled and analysed once (`classic` by lxml, `modern` by
elementpath); for that `syntax` reads it, `signatures` checks it, `analysis` finds what it asks of a
`field`, and `key` holds the tests; `explain` walks it when an element does not match.
"""
