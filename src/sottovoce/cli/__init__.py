"""The command line: thin faces of the curator."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from typer.exceptions import TyperException

from sottovoce import __version__
from sottovoce.cli.auditing import audit
from sottovoce.cli.checking import check
from sottovoce.cli.console import fail
from sottovoce.cli.demo import demo
from sottovoce.cli.explaining import explain
from sottovoce.cli.ledgers import app as ledger_app
from sottovoce.cli.planning import plan
from sottovoce.cli.profile_graph import app as profile_graph_app
from sottovoce.cli.releasing import release
from sottovoce.cli.serving import receipt_app, serve, tokens_app
from sottovoce.privacy.errors import InvalidValue

__all__ = ["app", "main"]

_EPILOG = (
    "Exit codes: 0 done · 2 wrong argument, file or value · 3 budget does not cover it · "
    "4 unproven claim not accepted · 5 ledger unavailable · 6 ledger corrupt · "
    "7 promise unreachable · 8 a claim violated · 1 a fault of ours."
)

app = typer.Typer(
    name="sottovoce",
    help="Bayesian inference on sensitive data, with its privacy proven and counted.",
    epilog=_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(plan)
app.command()(release)
app.add_typer(ledger_app, name="ledger")
app.add_typer(profile_graph_app, name="profile-graph")
app.command()(explain)
app.command()(audit)
app.command()(check)
app.command()(serve)
app.add_typer(tokens_app, name="tokens")
app.add_typer(receipt_app, name="receipt")
app.command()(demo)


def _version(value: bool) -> None:
    if value:
        print(f"sottovoce {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; no traceback reaches the user."""
    as_json = "--json" in sys.argv
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except typer.Exit as leave:
        code = leave.exit_code
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except TyperException as wrong:  # an unknown command or option
        code = fail(InvalidValue(str(wrong)), as_json=as_json) if str(wrong) else 2  # the help was shown
    except (BrokenPipeError, SystemExit) as leave:
        if isinstance(leave, SystemExit) and not isinstance(leave.__context__, BrokenPipeError):
            raise
        # `| head -1` has read enough, for which Rich would leave with code 1; what is left to write goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:  # every error becomes one line and an exit code
        code = fail(error, as_json=as_json)
    sys.exit(code if isinstance(code, int) else 0)
