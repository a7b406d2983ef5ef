"""Ten restarts during triage: every answerable mail has exactly one acknowledgement (N35, N37)."""

from __future__ import annotations

import email
import email.policy
import random
import signal
import time
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from tests.acceptance.home import Narval, shipped

RESTARTS = 10
MAIL = """\
From: p{n}@example.com
To: assistant@example.org
Subject: mail {n}
Message-ID: <m{n}@example.com>
Date: Sat, 21 Nov 2026 08:00:00 +0000
{more}
hello {n}
"""


def arrive(home: Path, number: int) -> bool:
    """A mail is delivered as Maildir wants it; every tenth came through a list and is not to be answered."""
    through_list = number % 10 == 0
    more = "List-Id: <all.example.com>\n" if through_list else ""
    box = home / "data/demo/Maildir"
    (box / "tmp" / f"{number:05d}.x").write_text(MAIL.format(n=number, more=more))
    (box / "tmp" / f"{number:05d}.x").rename(box / "new" / f"{number:05d}.x")
    return not through_list


def acknowledged(home: Path) -> Counter[str]:
    """How often each mail was answered."""
    found: Counter[str] = Counter()
    for file in (home / "var/outbox/new").iterdir():
        message = email.message_from_bytes(file.read_bytes(), policy=email.policy.default)
        found[str(message["In-Reply-To"])] += 1
    return found


def live_through(home: Path, mails: int, seed: int) -> Counter[str]:
    """Mails come in while the daemon is stopped and killed ten times; what was answered in the end."""
    chance = random.Random(seed)
    narval = Narval(home)
    for file in (home / "data/demo/Maildir/new").iterdir():
        file.unlink()
    coming = iter(range(1, mails + 1))
    answerable = {f"<m{n}@example.com>" for n in range(1, mails + 1) if n % 10}
    kills = [signal.SIGKILL] * 6 + [signal.SIGTERM] * 4
    chance.shuffle(kills)
    for kill in kills:
        daemon = narval.daemon()
        until = time.monotonic() + chance.uniform(0.3, 0.8)
        while time.monotonic() < until:
            for number in islice(coming, 1 + mails // 80):
                arrive(home, number)
            time.sleep(0.05)
        daemon.send_signal(kill)
        daemon.communicate()
    for number in coming:
        arrive(home, number)
    done = narval("run", "--until-idle", "--timeout", "120")
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    found = acknowledged(home)
    assert set(found) == answerable, f"seed {seed}"
    return found


@pytest.mark.parametrize("seed", [random.randrange(10**6)], ids=["any"])
def test_N35_ten_restarts_during_triage_of_200_mails_leave_one_acknowledgement_each(
    tmp_path: Path, seed: int
) -> None:
    shipped(tmp_path / "home")
    assert set(live_through(tmp_path / "home", 200, seed).values()) == {1}


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(5))
def test_N35_ten_restarts_during_triage_of_1000_mails_leave_one_acknowledgement_each(
    tmp_path: Path, seed: int
) -> None:
    shipped(tmp_path / "home")
    assert set(live_through(tmp_path / "home", 1000, seed).values()) == {1}
