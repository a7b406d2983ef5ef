"""Which version of a process another one nests: the current one, found by its bare name too (section 9)."""

from __future__ import annotations

import narval


def definition(name: str, within: str, group: str = "g") -> str:
    return f'<process-definition name="{name}" group="{group}">{within}</process-definition>'


def outer(graph: str) -> str:
    return definition(
        "outer",
        '<node name="wait" type="wait" isStart="true"><condition><match>go</match></condition>'
        '<arc to="nest"/></node>'
        f'<node name="nest" type="nested"><custom><graph name="{graph}"/></custom></node>',
    )


WAITS = '<node name="a" type="wait" isStart="true"><condition><match>never</match></condition></node>'


def test_section_9_a_nested_process_is_of_the_version_there_is_when_it_begins() -> None:
    with narval.open() as agent:
        agent.load(definition("inner", WAITS))
        agent.load(outer("inner"))
        run = agent.start("g.outer")
        agent.until_idle()
        agent.load(definition("inner", '<node name="b" isStart="true"/>'))
        agent.add("<go/>")
        agent.until_idle()
        assert agent.run(run)["phase"] == "done"


def test_section_9_a_bare_name_is_looked_for_in_the_own_group_first() -> None:
    with narval.open() as agent:
        agent.load(definition("inner", WAITS, "a"))
        agent.load(definition("inner", '<node name="b" isStart="true"/>'))
        agent.load(outer("inner"))
        run = agent.start("g.outer")
        agent.add("<go/>")
        agent.until_idle()
        assert agent.run(run)["phase"] == "done"


def test_section_9_at_a_name_that_means_none_or_several_the_token_stays_with_its_error() -> None:
    for graph, groups in (("inner", ("a", "b")), ("missing", ())):
        with narval.open() as agent:
            for group in groups:
                agent.load(definition("inner", '<node name="b" isStart="true"/>', group))
            agent.load(outer(graph))
            run = agent.start("g.outer")
            agent.add("<go/>")
            agent.until_idle()
            [waiting] = [token for token in agent.run(run)["tokens"] if token["error"]]
            assert (agent.run(run)["phase"], waiting["node"]) == ("active", "nest")
