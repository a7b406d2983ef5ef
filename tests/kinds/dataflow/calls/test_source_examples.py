"""The plans that the source prints, run against wrappers that answer as its sites did (T60)."""

from __future__ import annotations

from pathlib import Path

from narval.kinds.dataflow.calls.messages import FlowMessage
from tests.kinds.dataflow.calls.driving import drive
from tests.kinds.dataflow.language.reading import ALIASES
from tests.kinds.dataflow.language.test_compiler import (
    HOME_SEEKERS,
    HOME_SEEKERS_SUBPLAN,
    THEATER_LOC,
    THEATER_LOC_2,
)

CITY = """
from narval import function, wrapper

PLACES = {"cuisinenet": ("1 Elm Street", "3 Oak Road"), "yahoo": ("2 Sea View", "1 Elm Street")}

def asked(query):
    return query.rpartition(" ")[2]

@wrapper(attributes={"address": "String"})
def cuisinenet(query):
    yield from ({"address": one} for one in PLACES["cuisinenet"] if asked(query) == "York")

@wrapper(attributes={"address": "String"})
def yahoo(query):
    yield from ({"address": one} for one in PLACES["yahoo"] if asked(query) == "York")

@wrapper(attributes={"address": "String", "longitude": "Number"})
def geocoder(query):
    address = query.removeprefix("code ")
    yield {"address": address, "longitude": int(address[0])}

@function
def makeRestoQuery(city):
    return {"city": f"restaurants in {city}"}

@function
def makeTheaterQuery(city):
    return {"city": f"theaters in {city}"}

@function
def makeGeoQuery(place):
    return {"address": f"code {place['address']}"}
"""


def test_T60_both_listings_of_TheaterLoc_run_as_they_are_printed(tmp_path: Path) -> None:
    over, taken = drive(tmp_path, ALIASES + THEATER_LOC_2, CITY, {"city": "York"})
    assert over.state == "done", over
    found = {(row["address"], row["longitude"]) for row in taken.rows["restaurants_and_theaters"]}
    assert found == {("1 Elm Street", 1), ("2 Sea View", 2), ("3 Oak Road", 3)}

    over, taken = drive(tmp_path, ALIASES + THEATER_LOC, CITY, {"city": "York"})
    assert over.state == "done", over
    rows = taken.rows["restaurants_and_theaters"]
    assert {(row["address"], row["longitude"]) for row in rows} == {("1 Elm Street", 1), ("3 Oak Road", 3)}
    assert {row["right_address"] for row in rows} == {"2 Sea View", "1 Elm Street"}


SEEKERS = """
from narval import wrapper

PAGES = {"p1": (("h1", "h2"), "p2"), "p2": (("h3",), "p3"), "p3": ((), None)}

def named(query):
    return query.rpartition("='")[2].rstrip("'")

@wrapper("HomeSeekersInitial", attributes={"URL": "String"})
def initial(query):
    assert "maxPrice < 900 and city='York'" in query, query
    yield {"URL": "p1"}

@wrapper("HomeSeekersList", attributes={"HOUSE_URL": "String"})
def houses(query):
    yield from ({"HOUSE_URL": one} for one in PAGES[named(query)][0])

@wrapper("HomeSeekersNext", attributes={"URL": "String"})
def following(query):
    if PAGES[named(query)][1]:
        yield {"URL": PAGES[named(query)][1]}

@wrapper("HomeSeekersDetail", attributes={"price": "Number", "address": "String"})
def detail(query):
    yield {"price": 100 * int(named(query)[1]), "address": f"{named(query)[1]} Elm Street"}
"""


def test_T37_T60_HomeSeekers_follows_all_pages_and_tells_of_each_house(tmp_path: Path) -> None:
    told: list[str] = []

    async def mail(message: FlowMessage) -> None:
        told.append(f"{message.dest} {message.text}")

    subplan = HOME_SEEKERS_SUBPLAN.replace(": rightUnion)", ": leftUnion)", 1)
    text = ALIASES + HOME_SEEKERS + subplan
    given = {"maxPrice": "900", "city": "York"}
    over, taken = drive(tmp_path, text, SEEKERS, given, senders={"mailto": mail})
    assert over.state == "done", over
    assert sorted(row["price"] for row in taken.rows["houseDetails"]) == [100, 200, 300]
    assert sorted(told) == [
        f'mailto:barish@isi.edu {{"price":{number}00,"address":"{number} Elm Street"}}'
        for number in (1, 2, 3)
    ]
