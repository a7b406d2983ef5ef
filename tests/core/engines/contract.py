"""The engines keep the contract: read by the type checker alone."""

from narval.core.engines.engine import Diagnoses, Engine
from narval.kinds.automaton.engine import engine as automaton
from narval.kinds.process.engine import engine as process
from narval.kinds.recipe.engine import engine as recipe
from narval.kinds.task.engine import engine as task
from narval.kinds.task.engine.case import engine as task_case
from narval.kinds.task.engine.server import engine as task_server
from narval.kinds.work.engine import engine as work

DIAGNOSES: tuple[Diagnoses, ...] = (recipe, process, task_server)
ENGINES: tuple[Engine, ...] = (recipe, automaton, process, work, task, task_case, task_server)
