"""The command completion: the script by which a shell completes the arguments of narval."""

from __future__ import annotations

import click

from narval.surfaces.cli.command import command
from narval.surfaces.cli.session import Session

SHELLS = ("bash", "zsh", "fish")

_EXAMPLE = """\
narval completion bash
narval completion zsh > ~/.narval-completion.zsh
narval completion fish > ~/.config/fish/completions/narval.fish"""


@command("completion", example=_EXAMPLE, local=True)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(session: Session, shell: str) -> None:
    """Print the script with which a shell completes narval's lines.

    In ~/.bashrc, eval "$(narval completion bash)"; in ~/.zshrc, the same with zsh, after compinit; for fish,
    into the file of the example. Then the key Tab completes commands, options and what the home knows: runs,
    definitions, elements, agents, people, and more.
    """
    from click.shell_completion import get_completion_class

    from narval.surfaces.cli import main

    shell_class = get_completion_class(shell)
    assert shell_class is not None
    script = shell_class(main, {}, "narval", "_NARVAL_COMPLETE").source().rstrip()
    session.give({"shell": shell, "script": script}, lambda reply: click.echo(reply["script"]))
