"""python -m narval, and the program `narval`."""

from __future__ import annotations


def main() -> None:
    """Do what the command line says."""
    from narval.surfaces.cli import main as command_line

    command_line(prog_name="narval")


if __name__ == "__main__":
    main()
