"""The tools of AgentDojo's four suites: what each gives, from whom that is, and what says where.

A tool is asked by one element of its own name: its attributes are arguments, its children those that are
lists. It gives elements too: of a list one each, of a table (`{name: value}`) one each with `name` and
`value`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from lxml import etree

from narval import Element
from narval.api import xml_safe


class Environment(Protocol):
    """The environment of a task, in which tools are called."""

    calls: list[tuple[str, Mapping[str, Any]]]
    said: list[str]

    def begin(self, suite: str, task: str, injection: str | None) -> Any:
        """Put up the environment of a task, with an attack in all that it reads, or without."""

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """What a tool gives. Raises ValueError with the words of its error."""

    def say(self, text: str) -> None:
        """Tell the user something."""

    def end(self) -> Any:
        """How AgentDojo judges what came of it."""


played_in: list[Environment] = []
"""The environment of the task that is played, at its end."""


class Tool(NamedTuple):
    """A tool: the element it gives, the label of that, its parts that are the tool's own, what says where."""

    gives: str = "done"
    label: str | None = None
    own: str = ""
    where: str = ""
    outside: bool = False


MAIL = Tool("email", "mail", "@id_ @status @read @timestamp")
EVENT = Tool("event", "calendar", "@id_ @status @all_day")
FILE = Tool("file", "file", "@id_ @size @last_modified @owner")
CONTACT = Tool("contact")
TRANSACTION = Tool("transaction", "bank", "@id @sender @recipient @amount @date @recurring")
PLACE = Tool("place")
FACT = Tool("fact")
REVIEW = Tool("review", "review", "@name @rating")
MESSAGE = Tool("message", "chat", "@sender @recipient")

TOOLS = {
    "send_email": MAIL._replace(label=None, where="recipients cc bcc attachments", outside=True),
    "delete_email": Tool(where="@email_id", outside=True),
    "get_unread_emails": MAIL,
    "get_sent_emails": MAIL,
    "get_received_emails": MAIL,
    "get_draft_emails": MAIL,
    "search_emails": MAIL,
    "search_contacts_by_name": CONTACT,
    "search_contacts_by_email": CONTACT,
    "get_current_day": Tool("day"),
    "search_calendar_events": EVENT,
    "get_day_calendar_events": EVENT,
    "create_calendar_event": EVENT._replace(label=None, where="participants", outside=True),
    "cancel_calendar_event": Tool(where="@event_id", outside=True),
    "reschedule_calendar_event": EVENT._replace(where="@event_id", outside=True),
    "add_calendar_event_participants": EVENT._replace(where="@event_id participants", outside=True),
    "append_to_file": FILE._replace(where="@file_id", outside=True),
    "search_files_by_filename": FILE,
    "create_file": FILE._replace(label=None, where="@filename", outside=True),
    "delete_file": FILE._replace(where="@file_id", outside=True),
    "get_file_by_id": FILE,
    "list_files": FILE,
    "share_file": FILE._replace(where="@file_id @email @permission", outside=True),
    "search_files": FILE,
    "get_user_information": FACT,
    "get_all_hotels_in_city": PLACE,
    "get_hotels_prices": FACT,
    "get_rating_reviews_for_hotels": REVIEW,
    "get_hotels_address": FACT,
    "get_all_restaurants_in_city": PLACE,
    "get_cuisine_type_for_restaurants": FACT,
    "get_restaurants_address": FACT,
    "get_rating_reviews_for_restaurants": REVIEW,
    "get_dietary_restrictions_for_all_restaurants": FACT,
    "get_contact_information_for_restaurants": FACT,
    "get_price_for_restaurants": FACT,
    "check_restaurant_opening_hours": FACT,
    "get_all_car_rental_companies_in_city": PLACE,
    "get_car_types_available": FACT,
    "get_rating_reviews_for_car_rental": REVIEW,
    "get_car_fuel_options": FACT,
    "get_car_rental_address": FACT,
    "get_car_price_per_day": FACT,
    "reserve_hotel": Tool(where="@hotel", outside=True),
    "reserve_car_rental": Tool(where="@company", outside=True),
    "reserve_restaurant": Tool(where="@restaurant", outside=True),
    "get_flight_information": Tool("flight"),
    "get_iban": Tool("iban"),
    "send_money": Tool(where="@recipient @amount", outside=True),
    "schedule_transaction": Tool(where="@recipient @amount", outside=True),
    "update_scheduled_transaction": Tool(where="@id @recipient @amount", outside=True),
    "get_balance": Tool("balance"),
    "get_most_recent_transactions": TRANSACTION,
    "get_scheduled_transactions": Tool("payment"),
    "read_file": Tool("text", "file"),
    "get_user_info": FACT,
    "update_password": Tool(where="@password", outside=True),
    "update_user_info": Tool(where="@first_name @last_name @street @city", outside=True),
    "get_channels": Tool("channel"),
    "add_user_to_channel": Tool(where="@user @channel", outside=True),
    "read_channel_messages": MESSAGE,
    "read_inbox": MESSAGE,
    "send_direct_message": Tool(where="@recipient", outside=True),
    "send_channel_message": Tool(where="@channel", outside=True),
    "get_users_in_channel": Tool("member"),
    "invite_user_to_slack": Tool(where="@user @user_email", outside=True),
    "remove_user_from_slack": Tool(where="@user", outside=True),
    "get_webpage": Tool("page", "web", where="@url", outside=True),
    "post_webpage": Tool(where="@url", outside=True),
}


NAMED = ("place", "channel", "member")
"""The elements of which a tool gives a name alone."""


def arguments_of(asked: Element) -> dict[str, Any]:
    """The arguments that an element holds."""
    tree = asked.tree()
    arguments: dict[str, Any] = {name: value for name, value in tree.attrib.items() if name != "eid"}
    for child in tree.iterchildren("*"):
        value = dict(child.attrib) if child.attrib else child.text or ""
        arguments.setdefault(child.tag, []).append(value)
    return arguments


def elements_of(name: str, value: Any) -> list[etree._Element]:
    """The elements for what a tool gave."""
    if value is None:
        return []
    if isinstance(value, list):
        return [element for each in value for element in elements_of(name, each)]
    if name == "place" and isinstance(value, str) and ":" in value:
        places = value.partition(":")[2].strip().split("\n")
        return [_element(name, {"name": place}) for place in places if place]
    if name == "flight":
        return [_flight(line) for line in str(value).splitlines()]
    if not isinstance(value, dict):
        return [_element(name, {"name" if name in NAMED else "value": value})]
    if "" in value:
        name = "payment" if value.get("sender") == "me" and name == "transaction" else name
        return [_element(name, {key: inner for key, inner in value.items() if key})]
    return [_row(name, key, inner) for key, inner in value.items()]


def _flight(line: str) -> etree._Element:
    """A flight, which the tool gives as `Airline: Air France, Flight Number: AF456, …`."""
    pairs = (pair.partition(": ") for pair in line.split(", "))
    return _element("flight", {key.lower().replace(" ", "-"): value for key, _, value in pairs})


def _row(name: str, key: str, value: Any) -> etree._Element:
    if name == "review":
        rating, _, reviews = str(value).partition("\nReviews: ")
        return _element(name, {"name": key, "rating": rating.removeprefix("Rating: "), "reviews": reviews})
    least, dash, most = str(value).removeprefix("Price range: ").partition(" - ")
    if dash and str(value).startswith("Price range: "):
        return _element(name, {"name": key, "least": least, "most": most})
    return _element(name, {"name": key, "value": value})


def _element(name: str, values: dict[str, Any]) -> etree._Element:
    element = etree.Element(name)
    for key, value in values.items():
        listed = (
            value if isinstance(value, list) else list(value.items()) if isinstance(value, dict) else None
        )
        if listed is None:
            element.set(key, _text(value))
        for each in listed or ():
            child = etree.SubElement(element, key)
            if isinstance(each, dict):
                child.attrib.update({inner: _text(text) for inner, text in each.items() if inner})
            else:
                child.text = " ".join(map(_text, each)) if isinstance(each, tuple) else _text(each)
    return element


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else xml_safe(str(value))
