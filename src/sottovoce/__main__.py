"""`sottovoce` and `python -m sottovoce`: the command line, interrupted in order from its first import on."""

import gc
import os
import sys

__all__ = ["main"]

_LITTER = 50_000
"""How many things are made before Python looks for litter: a command makes many that it keeps, and ends soon."""


def main() -> None:
    """Run the command line."""
    gc.set_threshold(_LITTER)
    # Matrices are small here. Threads that share one spend most of their time waiting for each other, which takes all
    # cores: a plan of 37 terms is no sooner done, and takes fifteen times the processor time on sixteen cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is imported
    try:
        from sottovoce.faces.cli import main as run  # noqa: PLC0415 - takes a while, in which people change their minds

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
