"""`sottovoce` and `python -m sottovoce`: the command line, interrupted in order from its first import on."""

import gc
import sys

__all__ = ["main"]

_LITTER = 50_000
"""How many things are made before Python looks for litter: a command makes many that it keeps, and ends soon."""


def main() -> None:
    """Run the command line."""
    gc.set_threshold(_LITTER)
    try:
        from sottovoce.cli import main as run  # noqa: PLC0415 - takes a while, in which people change their minds

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
