"""The table of kinds: each has a folder and a row, and nothing else in the package knows its name.

A kind in `narval/kinds/NAME/` has a `language`, which reads its definitions, and an `engine`, which runs
them. Its parts further out (preparers of calls, operations, commands, methods, pages) are named here as text,
so that they are imported on first use: no inner room sees a surface, and removing a kind's folder and row
removes the kind.
"""

# No annotations as texts: each field of a named tuple would be compiled whenever a command starts.

from collections.abc import Mapping
from typing import NamedTuple

XSLT = "http://www.w3.org/1999/XSL/Transform"
PROCESS = "http://sarasvati.googlecode.com/ProcessDefinition"


class Kind(NamedTuple):
    """A kind of definitions: where it is, how its files are recognised, and its optional parts."""

    folder: str
    """Its package; a kind that is not run by itself has only its language there."""
    run: str = ""
    """The kind of its runs, the name of their element in memory; "" if it is not run by itself."""
    suffixes: tuple[str, ...] = ()
    """The suffixes of its files; a kind without suffixes occurs in modules."""
    roots: tuple[str, ...] = ()
    """The roots of its files; a kind without roots is written as text."""
    nests_current: bool = False
    """True if its runs nest the current version of one another, named without its group if needed."""
    composes: bool = False
    """True if `language.composition` has `compose_all`, which composes definitions from others."""
    warns: bool = False
    """True if `language.checks` has `warnings` about definitions of a library."""
    tells: bool = False
    """True if `language.telling` has `sentences`, which describe a definition."""
    asks: bool = False
    """True if its runs ask people; `language.checks` then has `doubts` about definitions of a home."""
    inline: bool = False
    """True if its definitions may be in cookbooks and steps too; `language.parser` then has `read_within`."""
    node: bool = True
    """False if processes leave its name to their authors, as a type of nodes."""
    besides: Mapping[str, str] = {}
    """Runs of other kinds that follow the same definitions: the packages of their engines in the folder."""
    undoes: str = ""
    """The kind among them that undoes runs of this kind."""
    knows_inputs: bool = False
    """True if elements made by steps of its runs contain only what is in the inputs their origin names."""
    gives: str | None = None
    """The label of its calls' results, "" for none; None if it depends on the call."""
    standing: str = ""
    """The kind among them of its service runs: one for each definition, started automatically."""
    cases: str = ""
    """The kind of run that starts with each object that a definition is given."""
    declarations: Mapping[str, str] = {}
    """The modules in the folder that read its declarations in Python modules, by the declarations' marks."""
    declared: tuple[str, ...] = ()
    """The kinds of these declarations: the store keeps modules whole."""
    preparers: Mapping[str, str] = {}
    """The kinds of calls that need preparation: `module:function` in the folder makes a preparer."""
    questions: str = ""
    """The class, as `module:Class`, that answers its engine's questions to the user's code (`View.ask`)."""
    hands_over: str = ""
    """The function, as `module:function`, that gives a nested run what its caller keeps beside its state."""
    operations: Mapping[str, tuple[str, ...]] = {}
    """Its operations, by the module in the folder that has them."""
    commands: Mapping[str, str] = {}
    """Its commands, each with the module in the folder that has it."""
    methods: str = ""
    """The class, as `module:Class` in the folder, with its methods for `narval.open()`."""
    pages: str = ""
    """The module in the folder whose pages the monitor shows."""
    tables: str = ""
    """The module in the folder whose `PARTS` are the tables of its runs in `narval show`."""

    @property
    def language(self) -> str:
        """The package that reads its definitions."""
        return f"{self.folder}.language" if self.run else self.folder

    @property
    def engine(self) -> str:
        """The package of the engine of its runs; "" if it is not run by itself."""
        return f"{self.folder}.engine" if self.run else ""

    @property
    def runs(self) -> Mapping[str, str]:
        """The packages of its engines, by kind of run."""
        beside = {run: f"{self.folder}.{package}" for run, package in self.besides.items()}
        return {self.run: self.engine, **beside} if self.run else {}


KINDS: dict[str, Kind] = {
    "action": Kind(
        "narval.core.definitions.action",
        tells=True,
        suffixes=(".tools",),
        declarations={"__narval_action__": "parser", "MODULE_XML": "parser"},
        declared=("action",),
    ),
    "transform": Kind(
        "narval.core.definitions.transform",
        tells=True,
        suffixes=(".xsl", ".xslt"),
        roots=(f"{{{XSLT}}}stylesheet", f"{{{XSLT}}}transform"),
    ),
    "recipe": Kind(
        "narval.kinds.recipe",
        run="plan",
        suffixes=(".xml",),
        roots=("cookbook", "recipe"),
        warns=True,
        tells=True,
        besides={"plan-undo": "engine.undo"},
        undoes="plan-undo",
        knows_inputs=True,
    ),
    "automaton": Kind(
        "narval.kinds.automaton",
        run="automaton",
        gives="program",
        suffixes=(".xml",),
        roots=("automaton", "AUTOMATON", "Automaton"),
        warns=True,
        tells=True,
        commands={"automaton": "cli"},
    ),
    "process": Kind(
        "narval.kinds.process",
        run="process",
        suffixes=(".xml",),
        roots=("process-definition", f"{{{PROCESS}}}process-definition"),
        nests_current=True,
        composes=True,
        warns=True,
        tells=True,
        declarations={"__narval_code__": "language.code_parser"},
        declared=("node-type", "predicate", "date-function", "string-function", "join", "listener"),
        preparers={"node": "calls.tasks:preparer"},
        questions="calls.questions:QuestionAnswerer",
        hands_over="calls.transient:hand_over",
        operations={
            "operations": (
                "complete", "backtrack", "rerun", "tokens", "traverse", "environment", "set_environment",
                "execute_queued", "execute_token", "reevaluate", "retry_arc_token", "finalize", "listen",
                "unlisten",
            )
        },
        commands=dict.fromkeys(("complete", "backtrack", "rerun", "tokens", "environment"), "cli"),
        methods="python:OfProcesses",
    ),
    "work": Kind(
        "narval.kinds.work",
        run="work",
        gives="",
        suffixes=(".xml",),
        roots=("work",),
        warns=True,
        tells=True,
        asks=True,
        inline=True,
        operations={
            "operations.items": ("worklist", "work_item"),
            "operations.acts": (
                "claim", "release", "save", "move", "delegate", "answer", "take_back", "refuse",
                "reassign",
                "forget_person", "work_folder",
            ),
            "operations.log": ("work_log",),
        },
        commands={"work": "cli.command"},
        methods="python:OfWork",
        pages="page",
    ),
    "task": Kind(
        "narval.kinds.task",
        run="task",
        suffixes=(".task",),
        warns=True,
        tells=True,
        node=False,
        besides={"task-server": "engine.server", "task-case": "engine.case"},
        standing="task-server",
        cases="task-case",
        operations={
            "operations.programs": (
                "task_init", "task_get", "task_assert", "task_raise", "task_wait", "task_state", "task_down",
            ),
            "operations.administration": ("task_put", "task_stop", "task_finish", "task_retry"),
            "operations.queries": ("tasks", "task_events", "task_queue", "task_where"),
            "operations.overview": ("task_types", "task_cases"),
            "operations.records": ("task_passed", "task_log", "task_time", "task_times"),
        },
        commands={"task": "cli.command"},
        methods="python:OfTasks",
        pages="page",
        tables="cli.tables",
    ),
    "dataflow": Kind(
        "narval.kinds.dataflow",
        run="dataflow",
        suffixes=(".plan",),
        composes=True,
        warns=True,
        tells=True,
        declarations={"__narval_dataflow__": "language.code_parser"},
        declared=("operator", "wrapper", "function"),
        preparers={"flow": "calls.calls:preparer"},
        operations={"operations": ("remembered", "forget_remembered", "flow_results", "record_flow_results")},
        commands={"dataflow": "cli", "remembered": "cli"},
        pages="page",
    ),
}  # fmt: skip
"""The kinds by name."""

ENDED = ("done", "failed", "cancelled")
"""The phases of ended runs."""

PHASES = ("active", *ENDED)
"""The phases of runs: each status of each kind belongs to one."""

ASKS = frozenset(name for name, kind in KINDS.items() if kind.asks)
"""The kinds whose runs ask people."""

UNDOING = frozenset(kind.undoes for kind in KINDS.values() if kind.undoes)
"""The kinds of runs that undo others."""

KNOWING_INPUTS = frozenset(kind.run for kind in KINDS.values() if kind.knows_inputs)
"""The kinds of runs whose steps make only what is in the inputs that origins name."""

NESTS_CURRENT = frozenset(name for name, kind in KINDS.items() if kind.nests_current)
"""The kinds whose nested runs use the current version."""

INLINE = tuple(name for name, kind in KINDS.items() if kind.inline)
"""The kinds whose definitions may be in cookbooks and steps, by the name of their element."""

ASKING = next(name for name, kind in KINDS.items() if kind.asks)
"""The kind of definitions that ask people."""

IN_MODULES = frozenset(name for kind in KINDS.values() for name in kind.declared)
"""The kinds of the declarations in modules: the store keeps modules whole."""

DECLARATIONS: Mapping[str, str] = {
    mark: f"{kind.folder}.{module}" for kind in KINDS.values() for mark, module in kind.declarations.items()
}
"""The names that mark a declaration in a module, or in a value of it, and the modules that read the
declaration: their `declared` gets the imported module, its source and its group.
"""
