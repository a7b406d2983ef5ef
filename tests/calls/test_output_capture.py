"""Prints of actions go to the log."""

import asyncio
import contextvars
import io
import logging
import sys
from typing import Any

import pytest

from narval.calls.context import CallContext
from narval.calls.output_capture import capture_output, end_prints, log_print, log_record
from narval.surfaces.cli.render.answers import log_line
from narval.system.log import Logbook


def within(call: str) -> contextvars.Context:
    return CallContext(call, 1, "s").context()


def test_output_is_captured_once_and_put_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout
    restore = capture_output()
    captured = sys.stdout
    capture_output()()
    assert sys.stdout is captured
    restore()
    assert sys.stdout is before


def test_lines_of_calls_that_print_at_once_are_kept_apart(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "narval.action")
    restore = capture_output()
    try:
        one, two = within("1"), within("2")
        one.run(sys.stdout.write, "from ")
        two.run(sys.stdout.writelines, ["of ", "two\n", "rest"])
        one.run(sys.stdout.write, "one\n")
        end_prints("2")
        end_prints("1")
    finally:
        restore()
    assert [(r.getMessage(), r.call) for r in caplog.records] == [
        ("of two", "2"),
        ("from one", "1"),
        ("rest", "2"),
    ]


def test_text_without_an_end_is_told_when_it_gets_long(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "narval.action")
    restore = capture_output()
    try:
        within("1").run(sys.stdout.write, "x" * 20_000)
        assert sum(len(r.getMessage()) for r in caplog.records) > 10_000
        end_prints("1")
    finally:
        restore()
    assert sum(len(r.getMessage()) for r in caplog.records) == 20_000


def test_a_log_handler_that_writes_to_the_captured_stream_does_not_come_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    restore = capture_output()
    handler = logging.StreamHandler(sys.stdout)
    logger = logging.getLogger("narval.action")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        within("1").run(print, "hello")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
        restore()
    assert capsys.readouterr().out == "hello\n"


def test_a_captured_stream_is_otherwise_what_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    encoding, restore = sys.stdout.encoding, capture_output()
    try:
        assert sys.stdout.encoding == encoding
        assert sys.stdout.isatty() is False
        print("plain", flush=True)
    finally:
        restore()
    assert capsys.readouterr().out == "plain\n"


def test_outside_a_daemon_what_a_program_of_its_own_prints_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log_print("from a worker", "1", 1, "s")
    assert capsys.readouterr().out == "from a worker\n"


def test_a_line_for_a_closed_output_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    log_print("from a worker", "1", 1, "s")


@pytest.mark.parametrize(
    ("name", "logged"),
    [
        ("narval", "narval.action"),
        ("narval.trust", "narval.action.trust"),
        ("narval.action", "narval.action"),
        ("narval.action.mine", "narval.action.mine"),
        ("narvalous.x", "narvalous.x"),
        ("a." * 200, "a." * 100),
    ],
)
def test_the_name_that_a_worker_gives_its_logger_becomes_no_logger(
    name: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "narval")
    loggers = set(logging.root.manager.loggerDict)
    log_record(name, logging.DEBUG, "below the level", "1", 1, "s")
    log_record(name, logging.INFO, "100%", "1", 1, "s")
    (record,) = caplog.records
    assert (record.name, record.levelname, record.getMessage(), record.run) == (logged, "INFO", "100%", 1)
    assert set(logging.root.manager.loggerDict) == loggers


def test_a_wrong_log_call_fails_no_action(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "narval")
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("narval").addHandler(handler)
    restore = capture_output()
    try:
        of_actions = logging.getLogger().handlers[-1]
        record = logging.LogRecord("other", logging.WARNING, "", 0, "%d items", ("x",), None)
        within("1").run(of_actions.handle, record)
    finally:
        restore()
        logging.getLogger("narval").removeHandler(handler)
    assert any("%d items" in line for line in records), "the log says which call it was"


def test_a_line_of_the_log_has_the_run_and_the_step_of_the_action() -> None:
    async def lines() -> list[dict[str, Any]]:
        logbook = Logbook(None)
        logbook.attach()
        restore = capture_output()
        try:
            within("1").run(print, "hello")
        finally:
            restore()
            logbook.detach()
        return logbook.lines(0, 10)

    (line,) = asyncio.run(lines())
    assert (line["run"], line["step"], line["message"]) == (1, "s", "hello")
    assert log_line(line).endswith("narval.action  run 1 s: hello")


def test_a_logger_of_a_library_keeps_its_level_within_a_call_and_python_adds_no_handler(
    capsys: pytest.CaptureFixture[str],
) -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logging.getLogger("narval").addHandler(handler)
    restore = capture_output()
    try:
        within("1").run(logging.getLogger("other").warning, "w")
        logging.getLogger("other").warning("outside")
        logging.getLogger("silenced").addHandler(logging.NullHandler())
        logging.getLogger("silenced.below").warning("dropped")
    finally:
        restore()
        logging.getLogger("narval").removeHandler(handler)
    assert [(each.name, each.levelname, each.run, each.step) for each in records] == [
        ("other", "WARNING", 1, "s")
    ]
    assert capsys.readouterr().err == "outside\n"
