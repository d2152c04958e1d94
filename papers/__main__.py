"""`python -m papers`: run the experiments."""

from __future__ import annotations

import sys

import typer

from papers.reproducing import reproduce
from sottovoce.faces.cli.console import fail
from sottovoce.privacy.errors import SottovoceError

if __name__ == "__main__":
    try:
        typer.run(reproduce)
    except SottovoceError as error:
        sys.exit(fail(error, as_json="--json" in sys.argv))
