"""Streams of open pages: what they are sent, and each bound on them; clock and daemon are played."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from narval.core.errors import DaemonGoneError, RequestError, SilentError
from narval.surfaces.http.hub import IN_ALL, LINGER, FollowedPage, PageNews
from narval.surfaces.http.page import Follows, Patch, Shown
from narval.surfaces.http.stream import QUEUE, PageStream, differences, message, picture
from tests.surfaces.http.fake_time import run
from tests.surfaces.http.followed_pages import Pages, PlayedPage

Dialogue = Callable[[Pages, PlayedPage], Awaitable[None]]


def played(dialogue: Dialogue) -> None:
    async def all_of_it() -> None:
        async with Pages() as pages:
            await dialogue(pages, PlayedPage())

    run(all_of_it())


class TestPicture:
    def test_M60_only_what_differs_is_told_and_the_last_names_the_turn(self) -> None:
        before = picture(
            {"live_a": "1", "live_b": "2"}, [Patch("p0", "todo", "idle"), Patch("p1", "x", "done")]
        )
        after = picture(
            {"live_a": "1", "live_b": "3"}, [Patch("p0", "done", "done", "2"), Patch("p1", "x", "done")]
        )
        told = differences(before, after, 9)
        assert [(one.name, one.data, one.turn) for one in told] == [
            ("regions", '{"live_b":"3"}', None),
            ("parts", '[["p0","done","done","2"]]', 9),
        ]
        assert differences(after, after, 10) == []

    def test_M60_a_message_is_one_event_whatever_is_in_it(self) -> None:
        frame = message("regions", {"live_a": "a\n\nevent: over\r\ndata: x"}, 3).frame()
        assert frame.startswith("id: 3\nevent: regions\ndata: {")
        assert frame.count("\n") == 4
        assert "\r" not in frame


class TestStream:
    def test_M61_a_queue_that_is_full_is_emptied_and_replaced_by_everything(self) -> None:
        async def dialogue() -> None:
            stream = PageStream(lambda: [message("everything")], has_all=True)
            for number in range(QUEUE):
                stream.offer([message("regions", number)])
            assert len(await stream.take()) == QUEUE
            for number in range(QUEUE + 5):
                stream.offer([message("regions", number)])
            assert [one.name for one in await stream.take()] == ["everything"]
            stream.offer([message("parts")])
            assert [one.name for one in await stream.take()] == ["parts"]

        run(dialogue())


class TestPages:
    def test_M60_a_page_is_sent_everything_and_then_what_differs(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            page.parts = [Patch("p0", "todo", "idle")]
            browser = await pages.open(page)
            assert browser.take() == [
                ("back", None),
                ("regions", {"live_state": "waiting", "live_form": "token-of-s1"}),
                ("parts", [["p0", "todo", "idle", ""]]),
            ]
            page.state = "running"
            pages.daemon.changes(57)
            await asyncio.sleep(0.01)
            assert browser.take() == [("regions", {"live_state": "running"})]

        played(dialogue)

    def test_M61_news_of_others_make_nothing_anew(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            await pages.open(page)
            for _ in range(5):
                pages.daemon.changes(58, elements=True)
                await asyncio.sleep(1)
            assert page.made == 1

        played(dialogue)

    def test_M61_one_task_makes_a_page_for_all_who_look_and_one_question_is_under_way(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            others = [PlayedPage() for _ in range(19)]
            browsers = [await pages.open(one, f"s{number}") for number, one in enumerate([page, *others])]
            asked, made = pages.daemon.asked, page.made
            page.state = "running"
            pages.daemon.changes(57)
            await asyncio.sleep(1)
            assert all(("regions", {"live_state": "running"}) in browser.events for browser in browsers)
            assert (page.made - made, sum(one.made for one in others)) == (1, 0)
            assert (pages.daemon.asked - asked, pages.daemon.open) == (1, 1)

        played(dialogue)

    def test_M61_a_page_is_made_four_times_a_second_at_most(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            browser = await pages.open(page)
            made = page.made
            for number in range(200):
                page.state = f"state {number}"
                pages.daemon.changes(57)
                await asyncio.sleep(0.05)
            assert page.made - made <= 41
            await asyncio.sleep(1)
            assert browser.events[-1] == ("regions", {"live_state": "state 199"})

        played(dialogue)

    def test_M61_a_page_that_is_costly_to_make_is_made_half_of_the_time_at_most(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            await pages.open(page)
            page.takes, made = 2.0, page.made
            for _ in range(40):
                pages.daemon.changes(57)
                await asyncio.sleep(0.5)
            assert page.made - made <= 6

        played(dialogue)

    def test_M28_a_page_that_changes_by_itself_is_made_in_time_and_told_anew_to_who_is_back(
        self,
    ) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            page.in_seconds = 10.0
            browser = await pages.open(page)
            page.state, page.in_seconds, made = "going on", None, page.made
            await asyncio.sleep(8)
            assert page.made == made
            await asyncio.sleep(2)
            assert browser.events[-1] == ("regions", {"live_state": "going on"})
            await asyncio.sleep(100)
            assert page.made == made + 1
            back = await pages.open(page, last=pages.daemon.turn)  # its turn says nothing of what it has seen
            assert ("live_state", "going on") in back.events[-1][1].items()

        played(dialogue)

    def test_M61_who_takes_nothing_for_30_seconds_is_closed(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            browser = await pages.open(page)
            browser.stalls = True
            page.state = "running"
            pages.daemon.changes(57)
            await asyncio.sleep(29)
            assert pages.hub.streams == 1
            await asyncio.sleep(2)
            assert pages.hub.streams == 0

        played(dialogue)

    def test_M62_the_fifth_stream_of_a_session_supersedes_the_oldest(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            browsers = [await pages.open(PlayedPage(number)) for number in range(4)]
            other = await pages.open(page, "s2")
            browsers.append(await pages.open(PlayedPage(4)))
            assert [browser.names[-1] == "superseded" for browser in browsers] == [True] + [False] * 4
            assert browsers[0].task.done()
            assert "superseded" not in other.names
            assert pages.hub.streams == 5

        played(dialogue)

    def test_M62_two_hundred_streams_are_followed_and_no_more(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            for number in range(IN_ALL):
                await pages.open(page, f"s{number // 4}")
            refused = await pages.open(page, "late")
            assert refused.status == 503
            assert refused.sent == "200 pages are followed already; this one is read without."
            renewed = await pages.open(page, "s0")
            assert (renewed.status, pages.hub.streams) == (200, IN_ALL)

        played(dialogue)

    def test_M60_a_run_that_is_over_ends_its_stream(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            browser = await pages.open(page)
            page.state, page.over = "done", True
            pages.daemon.changes(57)
            await asyncio.sleep(1)
            assert browser.events[-2:] == [("regions", {"live_state": "done"}), ("over", None)]
            assert browser.task.done()
            again = await pages.open(page)
            assert again.names == ["back", "regions", "over"]

        played(dialogue)

    def test_M60_a_reconnect_is_told_what_is_different_now(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            browser = await pages.open(page)
            await browser.leave()
            same = await pages.open(page, last=pages.daemon.turn)
            assert same.names == []
            await same.leave()
            page.state = "running"
            pages.daemon.changes(57)
            await asyncio.sleep(1)
            changed = await pages.open(page, last=pages.daemon.turn - 1)
            assert changed.names == ["back", "regions"]

        played(dialogue)

    def test_M60_who_comes_back_to_a_page_is_not_sent_a_picture_of_before(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            await (await pages.open(page)).leave()
            page.state = "with a draft"  # of which no news have come
            back = await pages.open(page)
            await asyncio.sleep(1)
            assert back.events[0] == ("back", None)
            assert [told["live_state"] for name, told in back.events if name == "regions"] == ["with a draft"]

        played(dialogue)

    def test_M60_nothing_is_made_before_there_are_news_of_a_daemon_that_was_away(self) -> None:
        """Its picture would be of no turn, and who comes back would be taken to have seen it."""
        turns, made = [0], list[int]()

        async def again() -> tuple[Shown, dict[str, str]]:
            made.append(turns[-1])
            return Shown("page.html", {}, follows=Follows(runs=True)), {"live_state": "well"}

        async def dialogue() -> None:
            page = FollowedPage(again, lambda: turns[-1])
            task = asyncio.create_task(page.run())
            for turn in (0, 7):
                turns.append(turn)
                page.tell(PageNews(turn, lost=True))
                await asyncio.sleep(1)
            task.cancel()

        run(dialogue())
        assert made == [7]

    @pytest.mark.parametrize(("parts", "most"), [(100, 41), (1_000, 11)])
    def test_M61_a_page_of_a_large_graph_is_made_less_often(self, parts: int, most: int) -> None:
        turns, made = [0], list[int]()
        patches = tuple(Patch(f"p{number}", "active", "active") for number in range(parts))

        async def again() -> tuple[Shown, dict[str, str]]:
            made.append(turns[-1])
            return Shown("page.html", {}, follows=Follows(runs=True), parts=patches), {}

        async def dialogue() -> None:
            page = FollowedPage(again, lambda: turns[-1])
            task = asyncio.create_task(page.run())
            for turn in range(1, 101):
                turns.append(turn)
                page.tell(PageNews(turn, lost=True))
                await asyncio.sleep(0.1)
            task.cancel()

        run(dialogue())
        assert most - 2 <= len(made) <= most

    def test_M4_a_daemon_that_goes_is_told_and_its_return_within_two_seconds(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            browser = await pages.open(page)
            browser.take()
            pages.daemon.fails(DaemonGoneError("gone"))
            await asyncio.sleep(60)
            [(name, told)] = browser.take()
            assert name == "gone"
            assert told["text"].startswith("No daemon at work since ")
            late = await pages.open(page, "s2")
            assert late.names[0] == "gone"
            page.state = "running"
            pages.daemon.fails(None)
            await asyncio.sleep(2)
            assert browser.take() == [("back", None), ("regions", {"live_state": "running"})]

        played(dialogue)

    def test_M4_a_daemon_that_is_silent_is_told_as_silent_and_not_as_gone(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            browser = await pages.open(page)
            browser.take()
            page.error = SilentError("it is silent as the page is made")
            pages.daemon.changes(57)
            await asyncio.sleep(1)
            assert browser.take() == [("gone", {"text": "it is silent as the page is made"})]
            pages.daemon.fails(SilentError("it is silent"))
            await asyncio.sleep(60)
            assert browser.take() == [("gone", {"text": "it is silent"})]

        played(dialogue)

    def test_M4_a_daemon_that_goes_while_a_page_is_made_is_told_and_the_page_does_not_say_back(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            browser = await pages.open(page)
            browser.take()
            page.takes = 2.0
            pages.daemon.changes(57)
            await asyncio.sleep(1)
            pages.daemon.fails(DaemonGoneError("gone"))
            await asyncio.sleep(60)
            assert [name for name, _ in browser.take()] == ["gone"]

        played(dialogue)

    def test_M4_a_page_that_was_never_made_is_told_at_once_and_sent_everything_on_return(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            page.takes = 2.0
            browser = await pages.open(page)
            pages.daemon.fails(DaemonGoneError("gone"))
            await asyncio.sleep(5)
            assert [name for name, _ in browser.take()] == ["gone"]
            pages.daemon.fails(None)
            await asyncio.sleep(5)
            back = {"live_state": "waiting", "live_form": "token-of-s1"}
            assert browser.take() == [("back", None), ("regions", back)]

        played(dialogue)

    @pytest.mark.parametrize(
        ("error", "sentence"),
        [
            (RequestError("there is no run 57"), "there is no run 57"),
            (
                ValueError("a bug"),
                "This page broke down as it was made again; the log of narval web says where.",
            ),
        ],
    )
    def test_M60_a_page_that_cannot_be_made_says_so_and_goes_on(
        self, error: Exception, sentence: str
    ) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            browser = await pages.open(page)
            browser.take()
            page.error = error  # type: ignore[assignment]
            pages.daemon.changes(57)
            await asyncio.sleep(1)
            assert browser.take() == [("gone", {"text": sentence})]
            page.error = None
            pages.daemon.changes(57)
            await asyncio.sleep(1)
            assert browser.take() == [("back", None)]

        played(dialogue)

    def test_M87_a_page_on_which_nothing_changes_wakes_no_daemon_and_is_pinged(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            browser = await pages.open(page)
            asked = pages.daemon.asked
            await asyncio.sleep(300)
            assert (pages.daemon.asked, page.made) == (asked, 1)
            assert browser.pings == 20

        played(dialogue)

    def test_M60_what_nobody_has_open_is_not_followed(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            await (await pages.open(page)).leave()
            await asyncio.sleep(LINGER + 1)
            assert (pages.hub.streams, pages.daemon.open) == (0, 0)
            pages.daemon.changes(57)
            await asyncio.sleep(1)
            assert page.made == 1

        played(dialogue)

    def test_M68_a_form_in_a_region_has_the_token_of_who_looks(self) -> None:
        async def dialogue(pages: Pages, page: PlayedPage) -> None:
            first, second = await pages.open(page), await pages.open(page, "s2")
            assert first.events[1][1]["live_form"] == "token-of-s1"
            assert second.events[1][1]["live_form"] == "token-of-s2"
            stranger = await pages.open(PlayedPage(), "s3", person="ben")
            assert stranger.events[1][1]["live_state"] == "waiting"

        played(dialogue)
