"""The directory of people: roles, absences, rights (P15–P19)."""

from __future__ import annotations

from datetime import date

from narval.core.definitions.people.directory import Away, Directory, Person, Right, day_of

TODAY = date(2026, 12, 24)
ABSENT = Away(date(2026, 12, 20), date(2027, 1, 5))


def away(instead: str) -> Away:
    return Away(ABSENT.first, ABSENT.last, instead)


PEOPLE = Directory(
    (
        Person("ann", login="ann", mail=("Ann@example.org", "a@home.example"), roles=("approver",)),
        Person("ben", login="ben", roles=("director",)),
        Person("cleo", roles=("clerk",)),
        Person("dan"),
    ),
    above={"director": ("approver",), "approver": ("clerk",)},
    admin_roles=("director",),
)


def with_absences(**instead: str) -> Directory:
    """The directory where some are away, each with who acts meanwhile."""
    people = tuple(
        Person(
            found.name, roles=found.roles, away=away(instead[found.name]) if found.name in instead else None
        )
        for found in PEOPLE.people
    )
    return Directory(people, PEOPLE.above)


def test_K17_who_holds_a_role_holds_those_below() -> None:
    assert PEOPLE.roles_of("ben") == ("director", "approver", "clerk")
    assert PEOPLE.holders("clerk") == ("ann", "ben", "cleo")
    assert PEOPLE.role_of("ben", ("clerk", "approver")) == "clerk", "the first of those that are asked for"
    assert PEOPLE.role_of("cleo", ("approver",)) is None
    assert PEOPLE.role_of("nobody", ("approver",)) is None


def test_P15_people_are_known_by_name_login_and_each_address() -> None:
    assert PEOPLE.by_login("ben") is PEOPLE.person("ben")
    assert PEOPLE.by_login("") is None
    assert PEOPLE.by_address("ann@EXAMPLE.org") is PEOPLE.by_address("a@home.example") is PEOPLE.person("ann")


def test_P16_the_owner_alone_holds_every_role_whatever_it_is_called() -> None:
    alone = Directory.of_owner("me")
    assert alone.right("me", (), ("approver",), (), TODAY) == Right("me", "approver")
    assert alone.right("you", (), (), (), TODAY) is None
    assert [name for name in ("me", "you") if alone.is_admin(name)] == ["me"]
    assert alone.by_login("me") is alone.person("me")


def test_P17_with_people_and_roles_one_must_be_listed_and_hold_a_role() -> None:
    def may(people: tuple[str, ...], roles: tuple[str, ...]) -> list[str]:
        return list(PEOPLE.eligible(people, roles, (), TODAY))

    assert may((), ()) == ["ann", "ben", "cleo", "dan"]
    assert may(("ann", "dan"), ()) == ["ann", "dan"]
    assert may((), ("approver",)) == ["ann", "ben"]
    assert may(("ann", "dan"), ("approver",)) == ["ann"]
    assert may(("dan",), ("approver",)) == []


def test_P18_the_right_says_which_role_counted_and_equal_directories_have_one_digest() -> None:
    assert PEOPLE.right("ben", (), ("approver", "director"), (), TODAY) == Right("ben", "approver")
    assert PEOPLE.right("dan", (), (), (), TODAY) == Right("dan")
    same = Directory(PEOPLE.people, dict(PEOPLE.above), admin_roles=PEOPLE.admin_roles)
    assert same.digest == PEOPLE.digest
    assert with_absences(ann="dan").digest != with_absences(ann="ben").digest


def test_P19_a_substitute_acts_for_who_is_away_and_for_who_was_to_act() -> None:
    people = with_absences(ann="cleo", cleo="dan")
    assert people.right("dan", (), ("approver",), (), TODAY) == Right("dan", "approver", "ann")
    assert list(people.substitutes("ann", TODAY)) == ["cleo", "dan"]
    assert set(people.represented_by("dan", TODAY)) == {"ann", "cleo"}
    assert people.right("dan", (), ("approver",), (), date(2027, 1, 6)) is None, "they are back"
    assert people.right("dan", (), ("approver",), (), date(2027, 1, 5)) is not None, "the last day counts"
    assert people.right("dan", (), ("approver",), (), date(2026, 12, 19)) is None


def test_P19_exclusions_follow_both() -> None:
    people = with_absences(ann="dan", cleo="dan")
    may = people.right
    assert may("dan", (), ("approver",), ("ann",), TODAY) is None, "for Ann's sake alone"
    assert may("dan", (), ("clerk",), ("ann",), TODAY) == Right("dan", "clerk", "cleo")
    assert may("dan", (), (), ("ann",), TODAY) == Right("dan"), "a right of one's own stays"
    assert may("dan", (), ("approver",), ("dan",), TODAY) is None
    assert may("ben", (), ("approver",), ("ann",), TODAY) == Right("ben", "approver")


def test_an_absence_without_end_and_one_without_anybody_instead() -> None:
    people = Directory((Person("ann", away=Away(instead="ben")), Person("ben"), Person("cleo", away=Away())))
    assert people.represented_by("ben", TODAY) == ("ann",)
    assert list(people.substitutes("cleo", TODAY)) == []


def test_administrators_are_people_and_roles() -> None:
    people = Directory(PEOPLE.people, PEOPLE.above, admin_people=("dan", "gone"), admin_roles=("director",))
    assert [name for name in ("ann", "ben", "dan", "gone") if people.is_admin(name)] == ["ben", "dan"]


def test_a_day_is_that_of_the_zone() -> None:
    late = 1_798_153_200.0  # 2026-12-24 23:00 in UTC
    assert day_of(late, "UTC") == TODAY
    assert day_of(late, "Europe/Paris") == date(2026, 12, 25)


def test_all_who_may_act_are_those_of_whom_each_may() -> None:
    for people in (
        PEOPLE,
        with_absences(ann="dan"),
        with_absences(ann="cleo", cleo="dan"),
        with_absences(dan="ann"),
    ):
        for named in ((), ("ann",), ("dan", "cleo")):
            for roles in ((), ("clerk",), ("approver", "director"), ("nobody",)):
                for out in ((), ("ann",), ("cleo", "dan")):
                    each = {p.name: people.right(p.name, named, roles, out, TODAY) for p in people.people}
                    expected = {name: right for name, right in each.items() if right is not None}
                    assert people.eligible(named, roles, out, TODAY) == expected
