"""What can become of a definition: all that its runs may do, found by walking through its engine.

`choices.py` goes through every answer to what cannot be known, `view.py` is a memory of which nothing is
known, `provable.py` what is sure even so, `situation.py` how far a run has come, `outcomes.py` what may
happen next, `walk.py` the search, `anatomy.py` what the parts of a definition are, `findings.py` what is told
of it, `story.py` in which words, and `homes.py` does it for all that a home has.

The engines know nothing of it: it speaks to them by their contract alone. What it calls impossible is, as
long as they keep to two habits: an engine learns of memory by asking its view, and it takes no notice of the
number of an element, of the order of a table, or of a count beyond `view.MANY`.
"""
