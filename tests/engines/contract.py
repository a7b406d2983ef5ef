"""The engines keep the contract: read by the type checker alone."""

from narval.engines.automaton import engine as automaton
from narval.engines.engine import Engine
from narval.engines.process import engine as process
from narval.engines.recipe import engine as recipe
from narval.engines.task import engine as task
from narval.engines.task_case import engine as task_case
from narval.engines.task_server import engine as task_server
from narval.engines.work import engine as work

ENGINES: tuple[Engine, ...] = (recipe, automaton, process, work, task, task_case, task_server)
