"""AgentDojo: what a stranger's text can make narval do, over 97 tasks and 949 attacks.

    python -m bench.agentdojo [SUITE …] [--task N] [--model right|worst] [--python PYTHON] [--json FILE]

PYTHON has the package `agentdojo`; without it an environment is made in `build/agentdojo`. Each user task is
a recipe, written from its wish alone. Its tools are actions. Where text has to be understood it asks a model,
which is a script: the *right* one answers what the author of the task would, the *worst* one what the
injection wants, wherever the form of its answer leaves room.
"""
