"""The methods of an agent for people and their work; `narval.open(by="ann")` says who asks."""

from __future__ import annotations

from narval.kinds.work.operations import acts, items, log
from narval.surfaces.python.runner import forward


class OfWork:
    """Worklists, items and answers. An act that the rules refuse raises WorkRefusedError."""

    worklist = forward(items.worklist)
    work_item = forward(items.work_item)
    claim = forward(acts.claim)
    release = forward(acts.release)
    save = forward(acts.save)
    move = forward(acts.move)
    delegate = forward(acts.delegate)
    answer = forward(acts.answer)
    take_back = forward(acts.take_back)
    refuse = forward(acts.refuse)
    reassign = forward(acts.reassign)
    forget_person = forward(acts.forget_person)
    work_log = forward(log.work_log)
    work_folder = forward(acts.work_folder)
