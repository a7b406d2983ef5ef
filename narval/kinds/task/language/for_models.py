"""The language of tasks in short, for models that write definitions: an example, rules, and all its words."""

from __future__ import annotations

import re
from typing import get_args

from narval.kinds.task.language.calls import FORMS
from narval.kinds.task.language.definition import PREDEFINED, Invocation
from narval.kinds.task.language.words import CLAUSES, OF_STATES, OPERATORS, QUALIFIERS, SINGLE, UNITS

_EXAMPLE = """\
## Tasks: queues, which people or programs work on

In a file NAME.task; its types have the group NAME. An object goes from one type to the next.

```task
GLOBAL EVENT night EVERY 24 HRS
  CONDITION "true"
  AT 21:00 ABSOLUTE
  ACTION { launch("sh send.sh"); }

TASK TYPE question
  ROLES: helper
  WORK <work>
    <title>Question {$object/@number}</title>
    <field name="reply" type="text" required="solved">What you answer</field>
    <deadline after="16h mon-fri 9-17" outcome="exception"/>
  </work>
  INITIAL new
  FINAL solved
  STATE new EXPOSED
    ON EVENT taken GOTO working
    ON EVENT nobody GOTO EXCEPTION
  STATE working EXPOSED
    ON EVENT done GOTO solved
    ON EVENT more (number)
      WITHIN 40 HRS WORKING 09:00 TO 17:00 ON MON-FRI
      CONDITION "question[@number = $number]"
      ACTION { set(obj.more, "yes"); assert(solved); }
  STATE solved EXPOSED
  ON solved
    route(closed);

TASK TYPE closed
  INVOCATION: AUTO
  INITIAL closing
  STATE closing EXPOSED
    ON ASSERT { if (has(obj.more)) assert(EXCEPTION); else assert(COMMIT); }
    ON EVENT done GOTO COMMIT
    ON EVENT wrong GOTO EXCEPTION
```
"""

_RULES = """\
- An object is put into a queue by a script, or by an element: `<al:task-object type="NAME.question"
  xmlns:al="http://www.logilab.org/namespaces/Narval/1.2"><question number="1"/></al:task-object>`.
- `INVOCATION`: {invocations}. `TASK CODE "GROUP.NAME"`: the action or recipe that does it. `WORK`: what
  people of `ROLES` or `USERS` are asked; they answer with the name of a final state.
- `COMPENSATED BY` names the type that undoes this one, which says `INVOCATION: COMPENSATION` and
  `COMPENSATION TO`. `COMPOSED FROM`: it waits for all parts of an object that was split.
- {predefined} are final states that need no declaration: it goes on by `ON FORWARD route(TYPE);`, it is
  done, all that was done is undone, somebody else decides (`TASK TYPE exception`).
- `ON EVENT x GOTO STATE` is the only way into a state; `assert` goes along it. `ON ASSERT` and `ON LEAVING`
  have scripts. `ON EVENT x (PARAMETERS) WINDOW CONDITION "PATTERN" WINDOW ACTION {{ … }}` is a rule.
- Windows: `AT 21:00 ON SAT`, `AFTER 09:00 AND BEFORE 17:00`, `WITHIN 2 HRS`, `EVERY 1 HRS ON MON-FRI`.
- Scripts: {calls}, an action as `mail.write(…)`, `if (a == "b") … else …`, `has(obj.x)`. `obj.amount` is an
  attribute or the text of a child of the object.
"""


def page() -> str:
    """The page of the language for models."""
    rules = _RULES.format(
        invocations=", ".join(str(word).upper() for word in get_args(Invocation)),
        predefined=", ".join(PREDEFINED),
        calls=", ".join(f"`{form}`" for form, _, _ in FORMS.values()),
    )
    words = {*CLAUSES, *SINGLE, *OPERATORS, *QUALIFIERS, *UNITS, *OF_STATES}
    others = sorted(word for word in words if not re.search(rf"\b{word}\b", _EXAMPLE + rules))
    return f"{_EXAMPLE}\n{rules}\nIts other words: {' '.join(others)}."
