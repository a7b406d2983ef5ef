"""python -m narval, and the program `narval`."""

from __future__ import annotations

import sys


def main() -> None:
    """Do what the command line says."""
    try:
        from narval.surfaces.cli import main as command_line

        command_line(prog_name="narval")
    except KeyboardInterrupt:  # before there was a command that could take it
        sys.exit(130)


if __name__ == "__main__":
    main()
