"""Patterns in what was imported mean the nodes that came with it."""

from __future__ import annotations

import narval

INNER = """<process-definition name="inner" group="g">
  <node name="get" type="action"><custom><target>m.get</target></custom><arc to="wait"/></node>
  <node name="wait" type="wait"><arc to="check"/>
    <condition><match>answer[@to = $get/@id]</match></condition></node>
  <node name="check"><guard type="xpath" else="Skip no">question[@id = $get/@id]</guard>
    <arc to="well"/><arc to="badly" name="no"/></node>
  <node name="well"/><node name="badly"/>
</process-definition>"""
OUTER = """<process-definition name="outer" group="g">
  <node name="start" isStart="true"><arc external="e" to="get"/></node>
  <external name="e" processDefinition="inner"/>
</process-definition>"""


def test_a_variable_is_a_node_beside_the_one_that_asks(tmp_path: object) -> None:
    module = f"{tmp_path}/m.py"
    with open(module, "w", encoding="utf-8") as file:
        file.write(
            "from narval import Output, action\n"
            '@action(outputs=[Output("q", "question")])\ndef get():\n    return "<question id=\'7\'/>"\n'
        )
    with narval.open() as agent:
        agent.load(module)
        agent.load(INNER)
        agent.load(OUTER)
        run = agent.start("g.outer")
        agent.until_idle()
        agent.add("<answer to='6'/>")
        agent.until_idle()
        assert agent.run(run)["phase"] == "active"
        agent.add("<answer to='7'/>")
        agent.until_idle()
        assert agent.run(run)["phase"] == "done"
        assert agent.run(run)["tokens"][-1]["node_id"] == "e:well"
