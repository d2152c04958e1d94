"""`sottovoce` and `python -m sottovoce`: the command line, interrupted in order from its first import on."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        from sottovoce.cli import main as run  # noqa: PLC0415 - takes a while, in which people change their minds

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
