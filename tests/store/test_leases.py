"""Which of the daemons that share a store may work on which agent (G46 to G50); what fences the others."""

from __future__ import annotations

import re

import pytest

from narval.core.errors import ElsewhereError, FencedError, RequestError, SettingsError, StoreError
from narval.store.batch import (
    ACTIVE,
    HOME_AGENT,
    PASSIVE,
    SUSPENDED,
    AgentRow,
    MessageRow,
    SnapshotRow,
    TakenRow,
)
from narval.store.postgresql.leases import LEASE, WEIGHT
from tests.store.sharing import Member, Shared, leases_of
from tests.store.stores import added, batch, entry, running

ADA, BOB, CLEO, DAN = (
    AgentRow(10 + number, f"{number:032x}", name, PASSIVE)
    for number, name in enumerate(("ada", "bob", "cleo", "dan"))
)
OFFICE = AgentRow(20, "f" * 32, "@office")


def with_agents(shared: Shared, *rows: AgentRow) -> Member:
    """A daemon that has made some agents."""
    member = Member(shared, "attic")
    member.store.commit(batch(member.own.agent, agents=list(rows)))
    return member


# --- joining -----------------------------------------------------------------------------------------------


def test_G46_the_first_home_has_the_agent_that_a_new_store_has_and_the_next_one_of_its_own(
    shared: Shared,
) -> None:
    attic, barn = Member(shared, "attic"), Member(shared, "barn")
    assert (attic.own.agent, attic.own.name, attic.store.own) == (HOME_AGENT, "attic", HOME_AGENT)
    assert (barn.own.name, barn.store.own) == ("barn", barn.own.agent)
    assert barn.own.agent != HOME_AGENT
    assert re.fullmatch("[0-9a-f]{32}", barn.own.id)
    assert {row.name: row for row in barn.store.agents()} == {"attic": attic.own, "barn": barn.own}
    assert attic.leases.held() == {attic.own.agent}
    assert attic.number != barn.number


def test_a_home_finds_its_own_agent_again(shared: Shared) -> None:
    attic, barn = Member(shared, "attic"), Member(shared, "barn")
    for member in (attic, barn):
        member.store.commit(batch(member.own.agent, elements=[added(1)]))
        member.leases.leave()
        again = Member(shared, member.own.name)
        assert again.own == member.own
        again.store.commit(batch(again.own.agent, elements=[added(2)]))
        assert again.elements(again.own.agent) == [1, 2]


def test_a_home_at_work_is_refused_a_second_daemon_until_the_time_of_the_first_is_over(
    shared: Shared,
) -> None:
    attic = Member(shared, "attic")
    with pytest.raises(ElsewhereError, match=r"attic\.example.*name.*narval\.toml.*--standby"):
        Member(shared, "attic")
    shared.is_over(attic.number)
    again = Member(shared, "attic")
    assert again.own == attic.own
    with pytest.raises(FencedError) as fenced:
        attic.store.commit(batch(elements=[added(1)]))
    assert fenced.value.agents == {HOME_AGENT}
    with pytest.raises(FencedError):
        attic.leases.renew()


def test_what_is_new_is_recorded_only_once_all_daemons_know_it(shared: Shared) -> None:
    attic, barn = Member(shared, "attic", "0.1.0"), Member(shared, "barn", "0.0.9")
    with pytest.raises(RequestError, match=r"a swap needs narval 0\.1 on all.*: barn \(0\.0\.9\); upgrade"):
        attic.leases.need("0.1", "a swap")
    shared.is_over(barn.number)
    with pytest.raises(RequestError, match="barn"):  # it may still renew, and go on
        attic.leases.need("0.1", "a swap")
    barn.leases.leave()
    for _ in range(2):
        attic.leases.need("0.1", "a swap")
    with pytest.raises(
        StoreError, match=r"records that need .*0\.1 or later, and this is 0\.0\.9; start it with"
    ):
        Member(shared, "barn", "0.0.9")
    Member(shared, "barn", "0.1.0").leases.need("0.0", "what is older")


def test_a_home_may_not_have_the_name_of_an_agent(shared: Shared) -> None:
    with_agents(shared, ADA)
    with pytest.raises(SettingsError, match=r"'?ada'?"):
        Member(shared, "ada")


# --- making ------------------------------------------------------------------------------------------------


def test_G1_daemons_make_agents_of_different_numbers_and_names(shared: Shared) -> None:
    attic, barn = Member(shared, "attic"), Member(shared, "barn")
    wanted = [(attic, "ada"), (attic, "bob"), (barn, "cleo")]
    made = [member.leases.make(name, ACTIVE) for member, name in wanted]
    assert barn.leases.make("ada", ACTIVE) is None
    rows = [taken.row for taken in made if taken is not None]
    assert [(row.name, row.state) for row in rows] == [(name, ACTIVE) for _, name in wanted]
    assert len({row.agent for row in rows} | {attic.own.agent, barn.own.agent}) == 5
    for (member, _), row in zip(wanted, rows, strict=True):
        assert member.store.of(row.agent).identity() == row
        assert row.agent in member.leases.held()
        member.store.commit(batch(row.agent, elements=[added(1)]))


def test_G20_it_is_known_who_holds_each_agent_under_which_epoch(shared: Shared) -> None:
    attic, barn = Member(shared, "attic"), Member(shared, "barn")
    ada = attic.leases.make("ada", PASSIVE)
    assert ada is not None
    attic.leases.pin(ada.row.agent, "attic")
    attic.leases.give([ada.row.agent])
    known = {of.agent: of for of in barn.leases.owners()}
    assert known[attic.own.agent].home == known[attic.own.agent].pinned == "attic"
    assert known[barn.own.agent].home == "barn"
    assert known[ada.row.agent] == (ada.row.agent, "", ada.epoch, "attic")


def test_a_daemon_whose_time_is_over_holds_nothing(shared: Shared) -> None:
    attic, barn = Member(shared, "attic"), Member(shared, "barn")
    shared.is_over(attic.number)
    known = {of.agent: of for of in barn.leases.owners()}
    assert (known[attic.own.agent].home, known[attic.own.agent].pinned) == ("", "attic")


# --- renewing ----------------------------------------------------------------------------------------------


def test_G46_a_renewal_tells_the_time_and_who_is_there(shared: Shared) -> None:
    attic, barn = with_agents(shared, ADA), Member(shared, "barn")
    beat = attic.leases.renew()
    first, second = sorted(beat.daemons)
    assert (first.daemon, first.home, first.address) == (attic.number, "attic", "attic.example")
    assert (first.version, first.digest, first.agents) == ("1.0", "d1", 2)
    assert (second.daemon, second.home, second.agents) == (barn.number, "barn", 1)
    assert (first.draining, beat.free) == (False, 0)
    assert first.until == pytest.approx(beat.at + LEASE, abs=0.01)
    assert attic.leases.renew().at >= beat.at


def test_G46_a_renewal_tells_which_agents_of_the_daemon_have_messages(shared: Shared) -> None:
    attic, barn = with_agents(shared, ADA), Member(shared, "barn")
    own = attic.own.agent
    letters = [MessageRow(to, own, 1, f"{to}", "element", 1.0, None, b"", b"<e/>") for to in (ADA.agent, 99)]
    letters += [letters[0]._replace(agent=barn.own.agent)]
    attic.store.commit(batch(own, messages=letters))
    assert attic.leases.renew().mail == {ADA.agent}
    assert barn.leases.renew().mail == {barn.own.agent}


def test_a_daemon_whose_time_was_over_goes_on_if_nobody_has_taken_its_agents(shared: Shared) -> None:
    attic = Member(shared, "attic")
    shared.is_over(attic.number)
    attic.leases.renew()
    attic.store.commit(batch(elements=[added(1)]))
    assert attic.elements() == [1]


def test_a_renewal_tells_of_who_drains_and_of_what_may_be_taken(shared: Shared) -> None:
    attic, barn = with_agents(shared, ADA, BOB), Member(shared, "barn")
    attic.leases.renew(draining=True)
    attic.leases.give([ADA.agent])
    beat = barn.leases.renew()
    assert {row.home: row.draining for row in beat.daemons} == {"attic": True, "barn": False}
    assert beat.free == 1
    shared.is_over(attic.number)
    beat = barn.leases.renew()
    assert ([row.home for row in beat.daemons], beat.free) == (["barn"], 2)


def test_a_renewal_tells_of_homes_whose_daemon_is_gone_without_having_left(shared: Shared) -> None:
    attic, barn, cellar = (Member(shared, name) for name in ("attic", "barn", "cellar"))
    cellar.leases.leave()
    assert barn.leases.renew().lost == ()
    shared.is_over(attic.number)
    assert barn.leases.renew().lost == ("attic",)
    barn.leases.take()
    assert barn.leases.renew().lost == ("attic",)
    Member(shared, "attic")
    assert barn.leases.renew().lost == ()


# --- the fence ---------------------------------------------------------------------------------------------


def test_G47_what_a_former_owner_decided_is_not_recorded(shared: Shared) -> None:
    attic, barn = with_agents(shared, ADA), Member(shared, "barn")
    attic.leases.give([ADA.agent])
    [taken] = barn.leases.take()
    assert taken.row == ADA
    barn.store.commit(batch(ADA.agent, elements=[added(1)]))
    with pytest.raises(FencedError) as fenced:
        attic.store.commit(batch(elements=[added(5)]), batch(ADA.agent, elements=[added(2)]))
    assert fenced.value.agents == {ADA.agent}
    assert (attic.elements(), barn.elements(ADA.agent)) == ([], [1])
    attic.store.commit(batch(elements=[added(5)]))
    assert attic.elements() == [5]


def test_G47_one_whose_agents_were_taken_while_it_did_not_renew_is_fenced_and_knows_it(
    shared: Shared,
) -> None:
    attic, barn = with_agents(shared, ADA, BOB), Member(shared, "barn")
    shared.is_over(attic.number)
    assert {taken.row for taken in barn.leases.take()} == {ADA, BOB}
    with pytest.raises(FencedError) as fenced:
        attic.store.commit(batch(ADA.agent, elements=[added(2)]))
    assert fenced.value.agents == {ADA.agent}
    with pytest.raises(FencedError):
        attic.leases.renew()
    assert attic.leases.held() == frozenset()
    with pytest.raises(FencedError):
        attic.store.commit(batch(elements=[added(2)]))


def test_G50_what_was_read_ahead_of_an_agent_counts_until_it_has_a_turn_or_another_owner(
    shared: Shared,
) -> None:
    attic, barn = with_agents(shared, ADA, BOB), Member(shared, "barn")
    both = [ADA.agent, BOB.agent]
    for agent in both:
        attic.store.commit(batch(agent, elements=[added(eid) for eid in (1, 2, agent)]))
    attic.store.read_ahead(both)
    assert [attic.elements(agent) for agent in both] == [[1, 2, agent] for agent in both]
    assert list(attic.store.of(BOB.agent).runs()) == []
    attic.store.commit(batch(ADA.agent, elements=[added(50)]))
    assert attic.elements(ADA.agent) == [1, 2, ADA.agent, 50]
    attic.leases.give([BOB.agent])
    barn.leases.take()
    barn.store.commit(batch(BOB.agent, elements=[added(50)]))
    assert attic.elements(BOB.agent) == [1, 2, BOB.agent, 50]


def test_G50_histories_that_were_read_ahead_are_those_of_the_runs_that_are_asked_for(shared: Shared) -> None:
    attic = with_agents(shared, ADA)
    runs, entries = [running(eid) for eid in (3, 4, 9)], [entry(eid, eid) for eid in (3, 4, 9)]
    saved = [SnapshotRow(4, 2, b"state")]
    attic.store.commit(batch(ADA.agent, runs=runs, journal=entries, snapshots=saved))
    ada, parts = attic.store.of(ADA.agent), ((3, 4), (9, 9), (5, 8))
    before = [ada.under_way(*part) for part in parts]
    attic.store.read_ahead([ADA.agent])
    assert [ada.under_way(*part) for part in parts] == before
    assert [sorted(histories) for histories in before] == [[3, 4], [9], []]
    assert before[0][4].snapshot == saved[0]


def test_G47_an_agent_that_comes_back_goes_on_under_another_epoch(shared: Shared) -> None:
    attic, barn = with_agents(shared, ADA), Member(shared, "barn")
    attic.store.commit(batch(ADA.agent, elements=[added(1)]))
    epochs = []
    for member, other in ((barn, attic), (attic, barn)):
        other.leases.give([ADA.agent])
        [taken] = member.leases.take()
        member.store.commit(batch(ADA.agent, elements=[added(2 + len(epochs))]))
        epochs.append(taken.epoch)
    assert attic.elements(ADA.agent) == [1, 2, 3]
    assert epochs == sorted(set(epochs))
    assert attic.leases.held() == {attic.own.agent, ADA.agent}


def test_no_daemon_registers_or_removes_an_agent_that_another_has(shared: Shared) -> None:
    attic, barn = with_agents(shared, ADA), Member(shared, "barn")
    asked = batch(barn.own.agent, agents=[ADA._replace(state=SUSPENDED)], removed_agents=[ADA.agent])
    asked.elements.append(added(1))
    barn.store.commit(asked)
    assert attic.store.of(ADA.agent).identity() == ADA
    attic.store.commit(batch(removed_agents=[ADA.agent]))
    assert attic.leases.find("ada") is None
    assert attic.leases.held() == {attic.own.agent}


def test_an_agent_that_a_daemon_makes_is_its_own(shared: Shared) -> None:
    attic = with_agents(shared, ADA)
    assert attic.leases.held() == {attic.own.agent, ADA.agent}
    attic.store.commit(batch(ADA.agent, elements=[added(1)]), batch(agents=[BOB]))
    attic.store.commit(batch(BOB.agent, elements=[added(1)]))
    assert (attic.elements(ADA.agent), attic.elements(BOB.agent)) == ([1], [1])


def test_a_new_agent_has_a_number_and_a_name_of_its_own(shared: Shared) -> None:
    attic, barn = Member(shared, "attic"), Member(shared, "barn")
    ada, bob = attic.leases.make("ada", PASSIVE), barn.leases.make("bob", ACTIVE)
    assert ada is not None
    assert bob is not None
    assert (ada.row.name, ada.row.state, bob.row.name, bob.row.state) == ("ada", PASSIVE, "bob", ACTIVE)
    assert len({ada.row.agent, bob.row.agent, attic.own.agent, barn.own.agent}) == 4
    assert len({ada.row.id, bob.row.id}) == 2
    assert barn.leases.make("ada", PASSIVE) is None
    assert attic.leases.held() == {attic.own.agent, ada.row.agent}
    attic.store.commit(batch(ada.row.agent, elements=[added(1)]))
    with pytest.raises(FencedError):
        attic.store.commit(batch(bob.row.agent, elements=[added(1)]))


def test_it_is_told_who_has_which_agent(shared: Shared) -> None:
    attic, barn = with_agents(shared, ADA, BOB), Member(shared, "barn")
    attic.leases.give([BOB.agent])
    known = {owned.agent: owned for owned in barn.leases.owners()}
    homes = {agent: (owned.home, owned.pinned) for agent, owned in known.items()}
    assert homes == {
        HOME_AGENT: ("attic", "attic"),
        ADA.agent: ("attic", ""),
        BOB.agent: ("", ""),
        barn.own.agent: ("barn", "barn"),
    }
    barn.leases.take()
    [bob] = [owned for owned in attic.leases.owners() if owned.agent == BOB.agent]
    assert bob.home == "barn"
    assert bob.epoch > known[BOB.agent].epoch


# --- taking and giving -------------------------------------------------------------------------------------


def test_G49_agents_with_work_are_taken_first_and_in_portions(shared: Shared) -> None:
    attic, barn = with_agents(shared, ADA, BOB, CLEO, DAN), Member(shared, "barn")
    letter = MessageRow(DAN.agent, HOME_AGENT, 1, "m", "element", 1.0, None, b"", b"<e/>")
    attic.store.commit(batch(messages=[letter], agents=[BOB._replace(state=ACTIVE)]))
    shared.is_over(attic.number)
    assert {taken.row.name for taken in barn.leases.take(2)} == {"bob", "dan"}
    assert {taken.row.name for taken in barn.leases.take(2)} == {"ada", "cleo"}
    assert barn.leases.take() == []


def test_G49_of_two_who_take_each_agent_goes_to_one(shared: Shared) -> None:
    attic = with_agents(shared, ADA, BOB, CLEO)
    others = [Member(shared, home) for home in ("barn", "cellar")]
    attic.leases.give([ADA.agent, BOB.agent, CLEO.agent])
    taken = [other.leases.take(2) for other in others]
    assert [len(each) for each in taken] == [2, 1]
    assert {each.row.name for portion in taken for each in portion} == {"ada", "bob", "cleo"}
    for other, portion in zip(others, taken, strict=True):
        other.store.commit(*(batch(each.row.agent, elements=[added(1)]) for each in portion))


def test_a_daemon_that_has_just_begun_takes_only_what_nobody_holds(shared: Shared) -> None:
    attic, barn = with_agents(shared, ADA, BOB), Member(shared, "barn")
    attic.leases.give([BOB.agent])
    shared.is_over(attic.number)
    assert {taken.row for taken in barn.leases.take(of_others=False)} == {BOB}
    attic.leases.renew()
    attic.store.commit(batch(ADA.agent, elements=[added(1)]))
    assert barn.leases.take() == []


def test_once_something_of_a_daemon_is_taken_nobody_holds_what_is_left(shared: Shared) -> None:
    attic, barn, cellar = with_agents(shared, ADA, BOB), Member(shared, "barn"), Member(shared, "cellar")
    shared.is_over(attic.number)
    assert len(barn.leases.take(1)) == 1
    assert len(cellar.leases.take(of_others=False)) == 1
    with pytest.raises(FencedError):
        attic.leases.renew()


def test_nobody_takes_what_somebody_has(shared: Shared) -> None:
    with_agents(shared, ADA)
    barn = Member(shared, "barn")
    assert (barn.leases.take(), barn.leases.claim("ada"), barn.leases.claim("nobody")) == ([], None, None)


def test_an_agent_is_claimed_by_its_name(shared: Shared) -> None:
    attic, barn = with_agents(shared, ADA, BOB), Member(shared, "barn")
    attic.leases.give([ADA.agent, BOB.agent])
    taken = barn.leases.claim("bob")
    assert taken is not None
    assert taken.row == BOB
    barn.store.commit(batch(BOB.agent, elements=[added(1)]))
    assert {other.row for other in attic.leases.take()} == {ADA}


def test_an_agent_with_files_stays_with_the_home_that_has_them(shared: Shared) -> None:
    attic, barn = with_agents(shared, ADA, BOB), Member(shared, "barn")
    attic.leases.pin(ADA.agent, "attic")
    attic.leases.give([ADA.agent, BOB.agent])
    assert barn.leases.claim("ada") is None
    assert {taken.row for taken in barn.leases.take()} == {BOB}
    assert {taken.row for taken in attic.leases.take()} == {ADA}
    attic.leases.pin(ADA.agent, "")
    attic.leases.give([ADA.agent])
    assert {taken.row for taken in barn.leases.take()} == {ADA}
    with pytest.raises(FencedError):
        attic.leases.pin(ADA.agent, "attic")


def test_the_row_of_a_peer_is_claimed_by_its_name_alone(shared: Shared) -> None:
    attic, barn = with_agents(shared, OFFICE), Member(shared, "barn")
    attic.leases.pin(OFFICE.agent, OFFICE.name)
    assert barn.leases.claim(OFFICE.name) is None
    attic.leases.give([OFFICE.agent])
    assert (attic.leases.take(), barn.leases.take()) == ([], [])
    taken = barn.leases.claim(OFFICE.name)
    assert taken is not None
    assert taken.row == OFFICE
    assert OFFICE.agent in barn.leases.pinned()


def test_the_own_agent_of_a_home_waits_for_it(shared: Shared) -> None:
    attic, barn = Member(shared, "attic"), Member(shared, "barn")
    attic.leases.leave()
    assert barn.leases.take() == []
    assert barn.leases.claim("attic") is None


def test_an_agent_is_found_with_who_has_it(shared: Shared) -> None:
    attic = with_agents(shared, ADA, BOB)
    attic.leases.give([BOB.agent])
    barn = Member(shared, "barn")
    row, daemon = barn.leases.find("ada") or (None, None)
    assert row == ADA
    assert daemon is not None
    assert (daemon.daemon, daemon.home, daemon.address) == (attic.number, "attic", "attic.example")
    assert barn.leases.find("bob") == (BOB, None)
    assert barn.leases.find("cleo") is None


def test_G56_who_leaves_gives_all_back_at_once(shared: Shared) -> None:
    attic, barn = with_agents(shared, ADA, BOB), Member(shared, "barn")
    attic.leases.leave()
    assert attic.leases.held() == frozenset()
    assert {taken.row for taken in barn.leases.take()} == {ADA, BOB}
    assert [row.home for row in barn.leases.renew().daemons] == ["barn"]
    with pytest.raises(StoreError):
        attic.leases.renew()


def test_a_store_whose_daemon_has_not_joined_holds_nothing(shared: Shared) -> None:
    leases = leases_of(shared.store())
    assert (leases.daemon, leases.held()) == (0, frozenset())
    assert with_agents(shared, ADA, CLEO).leases.held() == {HOME_AGENT, ADA.agent, CLEO.agent}


def test_G49_an_agent_whose_moment_has_come_has_work(shared: Shared) -> None:
    attic, barn = with_agents(shared, ADA, DAN._replace(wake_at=5.0)), Member(shared, "barn")
    shared.is_over(attic.number)
    assert [taken.row.name for taken in barn.leases.take(1)] == ["dan"]


def test_G32_messages_to_an_agent_that_goes_stay_for_their_senders_but_those_it_was_said_of(
    shared: Shared,
) -> None:
    attic, barn = with_agents(shared, ADA, BOB), Member(shared, "barn")
    rows = [
        MessageRow(ADA.agent, sender, n, f"{n}", "element", 1.0, None, b"", b"<a/>")
        for sender in (BOB.agent, barn.own.agent)
        for n in (1, 2)
    ]
    attic.store.commit(batch(BOB.agent, messages=rows[:2]))
    barn.store.commit(batch(barn.own.agent, messages=rows[2:]))
    taken = [TakenRow(ADA.agent, BOB.agent, 2)]
    attic.store.commit(batch(attic.own.agent, taken=taken, removed_agents=[ADA.agent]))
    assert barn.store.letters.strays() == rows[2:]
    barn.store.commit(batch(barn.own.agent, taken=[TakenRow(ADA.agent, barn.own.agent, 2)]))
    assert barn.store.letters.waiting() == barn.store.letters.strays() == []


def test_G55_an_agent_is_handed_over_to_a_daemon_which_finds_it_with_its_next_renewal(shared: Shared) -> None:
    attic, barn = with_agents(shared, ADA, BOB, CLEO), Member(shared, "barn")
    for member in (attic, barn):
        member.leases.renew()
    assert attic.leases.hand_over([ADA.agent], barn.number)
    assert attic.leases.held() == {attic.own.agent, BOB.agent, CLEO.agent}
    attic.leases.give([BOB.agent])
    _, holder = attic.leases.find("ada") or (ADA, None)
    assert holder is not None
    assert holder.home == "barn"
    beat = barn.leases.renew()
    assert (beat.free, beat.unknown) == (2, 1)
    [given] = barn.leases.take(1)
    assert (given.row, given.was_given) == (ADA, True)
    [taken] = barn.leases.take()
    assert (taken.row, taken.was_given) == (BOB, False)
    with pytest.raises(FencedError):
        attic.store.commit(batch(ADA.agent, elements=[added(2)]))
    barn.store.commit(batch(ADA.agent, elements=[added(1)]))
    beat = barn.leases.renew()
    assert (beat.free, beat.unknown) == (0, 0)


def test_G55_nothing_is_handed_over_to_a_daemon_that_is_gone_or_drains(shared: Shared) -> None:
    attic, barn, cellar = with_agents(shared, ADA), Member(shared, "barn"), Member(shared, "cellar")
    shared.is_over(barn.number)
    cellar.leases.renew(draining=True)
    for to in (barn.number, cellar.number, 999):
        assert not attic.leases.hand_over([ADA.agent], to)
        assert attic.leases.renew().unknown == 1, "it has it still, and takes it again"
        assert [taken.row for taken in attic.leases.take()] == [ADA]


def test_G55_what_was_handed_over_to_a_daemon_that_is_lost_is_taken_by_others(shared: Shared) -> None:
    attic, barn, cellar = with_agents(shared, ADA), Member(shared, "barn"), Member(shared, "cellar")
    assert attic.leases.hand_over([ADA.agent], barn.number)
    assert cellar.leases.take() == []
    shared.is_over(barn.number)
    assert [taken.row for taken in cellar.leases.take()] == [ADA]


def test_G54_daemons_tell_one_another_their_weights_and_which_agents_are_theirs_alone(shared: Shared) -> None:
    attic = with_agents(shared, ADA, BOB)
    barn = shared.store()
    leases_of(barn).join("barn", "barn.example", "1.0", "d1", 30)
    assert {row.home: row.weight for row in attic.leases.renew().daemons} == {"attic": WEIGHT, "barn": 30}
    attic.leases.pin(ADA.agent, "attic")
    assert attic.leases.pinned() == {attic.own.agent, ADA.agent}
    attic.leases.give([ADA.agent, BOB.agent])
    assert attic.leases.pinned() == {attic.own.agent}
    attic.leases.take()
    assert attic.leases.pinned() == {attic.own.agent, ADA.agent}
    attic.leases.pin(ADA.agent, "")
    assert attic.leases.pinned() == {attic.own.agent}
