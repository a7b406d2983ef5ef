"""Why a run waits, or the story of an element, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from narval.ask.text import (
    Row,
    article,
    clean,
    counted,
    moment_in_zone,
    moment_there,
    newer_file,
    older_code,
    shortened,
    text_of,
)
from narval.core.definitions.reading.durations import duration
from narval.surfaces.cli.render.answers import MOST_LINES, SUSPENDED, newer_ways, standing
from narval.surfaces.cli.render.tables import came_from

_WAITS = {
    "condition": "waits for {text}",
    "time": "waits until {until}",
    "call": "waits for {text} to come back",
    "try": "waits until {until} for {text}",
    "again": "waits for an element that ends it, and until {until} to call {text} again",
    "input": "waits for {text}",
    "join": "waits for {text}",
    "signal": "waits to be told {text}",
    "limit": "is given up at {until}",
    "person": "waits for a person: {text}",
}
_OTHERWISE = {
    "condition": "an element for each condition",
    "call": "a call",
    "try": "another attempt of a call",
    "again": "its target",
    "input": "an element that may be taken",
    "join": "other steps",
    "signal": "something",
    "person": "work to be done",
}


def why(answer: Row) -> Iterator[str]:
    """The sentences on what a run waits for, or on the story of an element."""
    if "element" in answer:
        yield from _story(answer)
        return
    waiting, reason = answer["waiting"], answer.get("reason")
    if reason:
        said = answer.get("said", [reason])  # a peer of an older version tells the reason alone
        yield f"run {answer['run']} ({answer['state']}): {clean(text_of(said, moment_in_zone))}"
    elif waiting:
        yield f"run {answer['run']} is {answer['state']} and waits for {counted(len(waiting), 'thing')}"
    else:
        goes_on = "begins once a daemon runs" if answer["state"] == "ready" else "will go on by itself"
        yield f"run {answer['run']} is {answer['state']} and waits for nothing: it {goes_on}"
    if answer.get("newer"):
        yield f"it {newer_file(answer)}; {newer_ways(answer['run'], answer['newer'])}"
    if code := older_code(answer.get("newer_code", ()), answer["run"]):
        yield f"it {code}"
    if answer.get("agent_state") == SUSPENDED:
        how = f"`narval agents resume {clean(answer['agent'])}`"
        yield f"nothing goes on while {clean(answer['agent'])} is {standing(answer)}; {how}"
    for wait in waiting:
        yield from _wait(wait)


def _story(answer: Row) -> Iterator[str]:
    """The story of an element, a line each."""
    by = f", declared by {answer['declared']}" if answer["declared"] else ""
    came = ", ".join(filter(None, (came_from(answer), moment_in_zone(answer["added"]))))
    name = f"{article(answer['name'])} {clean(answer['name'])}"
    title = f" · {clean(answer['title'])}" if answer["title"] else ""
    yield f"element {answer['element']}, {name}{title}: {came}{by}"
    if (answer["origin"] or {}).get("call"):
        yield f"  made by     call {answer['origin']['call']}"
    if answer["labels"]:
        yield f"  labels      {clean(', '.join(answer['labels']))}"
    if answer["decided_by"]:
        yield f"  decided by  {clean(', '.join(answer['decided_by']))}"
    if answer["hearsay"]:
        yield "  hearsay     a language model's answer is in it; what goes outside because of it asks first"
    for before in answer["made_from"]:
        yield f"  made from   {titled(before)}"
    yield from dict.fromkeys(f"  used by     {_use(use)}" for use in answer["used_by"])
    for call in answer["given_to"]:
        yield f"  given to    {clean(call['target'])}, step {clean(call['step'])}{_in_run(call)}"
    for made in answer["made_of_it"][:MOST_LINES]:
        how = "made of it " if made["directly"] else "  and then "
        yield f"  {how} {titled(made)}, {came_from(made)}"
    if answer["made"] > MOST_LINES:
        more = answer["made"] - MOST_LINES
        yield f"              and {more} more: `narval why {answer['element']} --uses`"
    for run in answer["held_by"]:
        yield f"  held by    {_in_run(run).removeprefix(',').removeprefix(' in')}"
    for sent in answer["sent_to"]:
        yield f"  sent to     agent {clean(sent['agent'])}"
    if answer["withdrawn"] is not None:
        yield f"  withdrawn   {clean(answer['withdrawn'])}"
    elif answer["doubtful"]:
        yield f"  doubtful    made from what was withdrawn; to confirm: `narval confirm {answer['element']}`"
    elif answer["outdated"]:
        yield f"  outdated    {_outdated_by(answer['outdated_by'])}"
    for wait in answer["waiting"]:
        why_not = f"; not this one: expected {clean(wait['not'])}" if wait["not"] else ""
        yield f"  wanted by   {clean(wait['id'])}{_in_run(wait)}{why_not}"


def _use(use: Row) -> str:
    """The place where an element was used; one place has a row for each of its inputs or conditions."""
    place = f"transition {use['transition']}" if "transition" in use else f"step {use.get('step')}"
    return f"{clean(place)} of {clean(use['definition'])}{_in_run(use)}"


def titled(row: Row) -> str:
    """An element by its number, name and title."""
    title = f" · {row['title']}" if row.get("title") else ""
    return clean(f"{row['eid']} {row['name'] or '(forgotten)'}{title}")


def _given(inputs: Sequence[int], titles: Row) -> str:
    """The inputs of a call with their titles, the first of many."""
    more = f" and {len(inputs) - MOST_LINES} more" if len(inputs) > MOST_LINES else ""
    names = [f"{eid} {clean(titles.get(str(eid), ''))}".rstrip() for eid in inputs[:MOST_LINES]]
    return f", given {', '.join(names)}{more}" if inputs else ""


def _nearest(condition: Row) -> str:
    """The element that a condition is about, with its title."""
    title = f" ({clean(condition['title'])})" if condition.get("title") else ""
    return f"element {condition['nearest']}{title}"


def _in_run(row: Row) -> str:
    """The run of a row, its definition and its state."""
    if not row.get("run"):
        return ""
    about = f" of {clean(row['run_of'])} ({row['state']})" if row["run_of"] else " (forgotten)"
    return f", in run {row['run']}{about}"


def _outdated_by(by: Row | None) -> str:
    if by is None:
        return "what outdated it is no longer known"
    reason = f": {clean(by['reason'])}" if by["reason"] else ""
    element = titled(by if not by["reason"] else {**by, "title": ""})
    return f"by {element}, {came_from(by)}{reason}"


def _wait(wait: Row) -> Iterator[str]:
    what, zone = wait["for"], wait.get("zone")
    until = f"{moment_there(wait['until'])} ({clean(zone)})" if zone else moment_in_zone(wait["until"])
    text = clean(": ".join(filter(None, (wait.get("text") or _OTHERWISE.get(what), wait.get("about")))))
    form = _WAITS.get(what, "waits for {what} {text}")
    sentence = form.format(what=clean(what), text=text, until=until)
    if wait.get("reckoned"):
        sentence += f", {clean(wait['reckoned'])}"
    if what == "time" and text:
        sentence += f", and then for {text}"
    if until and "{until}" not in form:
        sentence += f", until {until}"
    yield ""
    yield f"{clean(wait['id'])} {sentence}"
    for call in wait.get("calls", ())[:MOST_LINES]:
        yield f"  it is call {call['call']}{_given(call['inputs'], call['titles'])}"
        if call.get("again"):
            yield "  it was called again: the daemon stopped before it came back, perhaps before it began"
        if call.get("place"):
            yield f"  it waits: {clean(call['place'])}"
        if call.get("at"):
            yield from _elsewhere(call["at"])
    asked = {one["item"]: one for one in wait.get("asked", ())}
    for one in asked.values():
        until = f", until {moment_in_zone(one['until'])}" if one["until"] else ""
        yield f"  it asks {clean(one['who'])}{until}: {clean(one['about'])}"
        yield f"  it is item {one['item']}: see `narval work show {one['item']}`"
    for run_of_call in (run for run in wait.get("runs", ()) if run not in asked):
        yield f"  it is run {run_of_call}: see `narval why {run_of_call}`"
    for condition in wait["conditions"]:
        yield from _condition(condition)


def _elsewhere(at: Row) -> Iterator[str]:
    """A call that another agent answers, and what its run waits for."""
    agent, since = clean(at["agent"]), f" since {moment_in_zone(at['since'])}"
    if at["run"] is None:
        yield {
            "gone": f"  agent {agent} no longer exists",
            "answered": f"  {agent} has answered; the answer is on its way",
            "there": f"  {agent} has taken it, and has not answered yet",
        }.get(at["state"], f"  {agent} has not taken it{since}: {_obstacle(at)}")
        return
    how = f"`narval why {at['run']} --agent {agent}`"
    run = f"run {at['run']} of {clean(at['name'])} is {clean(at['state'])}"
    there = f", {_where(at)}" if "home" in at else ""
    yield f"  {agent}{there} has it{since}: {run}, see {how}"
    if at["agent_state"] == SUSPENDED:
        yield f"    nothing goes on while {agent} is suspended; `narval agents resume {agent}`"
    for wait in at["waiting"]:
        yield from (f"    {line}" for line in _wait(wait) if line)


def _obstacle(at: Row) -> str:
    """The reason why a call is not taken: the state of the agent, or of the link with its home."""
    if "link" not in at:
        return f"it is {_where(at)}"
    link = f"the link is {clean(at['link'])}" if at["link"] else "there is no link"
    return f"{link}: {clean(at['why'])}" if at["why"] else link


def _where(at: Row) -> str:
    """The state of the agent that has a call, or the other daemon that runs it."""
    if "home" not in at:
        return str(at.get("agent_state"))
    return f"at home {clean(at['home'])}" if at["home"] else "at no daemon now"


def _condition(condition: Row) -> Iterator[str]:
    pattern, nearest = clean(condition["pattern"]), condition["nearest"]
    if condition.get("absent"):
        yield f"  {'met    ' if condition['met'] else 'not met'}  none fits {pattern}"
        if nearest:
            yield f"           {_nearest(condition)} does"
        return
    if condition.get("lasting"):
        pattern += f" for {duration(condition['lasting'])}"
    if condition.get("since"):
        yield f"  {'met    ' if condition['met'] else 'not met'}  {pattern}"
        holds = "has lasted since" if condition["met"] else "will have lasted at"
        since, until = moment_in_zone(condition["since"]), moment_in_zone(condition["until"])
        yield f"           {_nearest(condition)} fits since {since}, it {holds} {until}"
        return
    if condition["met"]:
        yield f"  met      {pattern}" + (f"  by {_nearest(condition)}" if nearest else "")
        return
    yield f"  not met  {pattern}"
    failed, value = clean(condition["failed"] or ""), shortened(condition["value"], 200)
    if nearest:
        yield f"           {_nearest(condition)} is nearest: expected {failed}, found {value}"
    elif failed:
        yield f"           expected {failed}, found {value}"
