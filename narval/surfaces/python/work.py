"""The methods of an agent for people and their work (P44): `narval.open(by="ann")` says who asks."""

from __future__ import annotations

from narval.operations import work, work_log
from narval.surfaces.python.forward import forward


class OfWork:
    """What people are asked, and what they answer. What the rules refuse raises WorkError."""

    worklist = forward(work.worklist)
    work_item = forward(work.work_item)
    claim = forward(work.claim)
    release = forward(work.release)
    save = forward(work.save)
    delegate = forward(work.delegate)
    answer = forward(work.answer)
    take_back = forward(work.take_back)
    refuse = forward(work.refuse)
    reassign = forward(work.reassign)
    work_log = forward(work_log.work_log)
