"""A simulation writes to nobody, whatever the home's ways are (P81, P60)."""

from __future__ import annotations

from pathlib import Path

from tests.ask.letters import Post
from tests.surfaces.cli.command_line import narval as command


def test_P81_a_simulation_writes_to_nobody(tmp_path: Path) -> None:
    post = Post(tmp_path)
    scenario = tmp_path / "s.xml"
    scenario.write_text(
        """<scenario><start recipe="w.approve"><request what="a desk"/></start>
        <answer work="w.approve" by="ann" after="2h" outcome="approve"/></scenario>"""
    )
    done = command(post.home, "simulate", str(scenario))
    assert done.exit_code == 0, done.output
    assert "done" in done.output
    assert not (post.home / "out").exists()
