"""The command line: thin faces of the curator."""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
import warnings
from importlib import import_module
from importlib.util import LazyLoader, find_spec, module_from_spec
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

import sottovoce
from sottovoce.faces.cli.plain_words import take_plainly

__all__ = ["COMMANDS", "application", "main"]

COMMANDS = {
    "facts": ("facts:facts", "Write a template of the public facts of a table, to be filled in."),
    "plan": ("planning:plan", "Compare the mechanisms that keep a promise, or say what an accuracy costs."),
    "ask": ("asking:ask", "Answer a question with an interval in every row."),
    "describe": (
        "describing:describe",
        "Describe columns by group, as the Table 1 of a paper: means, medians, shares, and what is missing.",
    ),
    "regress": ("regressing:regress", "Print a regression table with an interval in every row."),
    "know": (
        "synthesising:know",
        "Answer a share or a count from what was released before: no record is read, and nothing is spent.",
    ),
    "synthesize": (
        "synthesising:synthesize",
        "Write synthetic tables of what was released: for nothing, unless relations are to be learnt first.",
    ),
    "again": (
        "again:again",
        "Tell an answer that was paid for again, and what follows from it: nothing is read, and nothing spent.",
    ),
    "finish": (
        "finishing:finish",
        "Make the answer of an entry that was paid for, and whose records went away before any was read: free.",
    ),
    "release": ("releasing:release", "Release a posterior from a table."),
    "ledger": ("ledgers:app", "Open, show, verify and export a ledger."),
    "profile-graph": (
        "profile_graph:app",
        "Hide which distribution a record came from: plan a mechanism, or release a column.",
    ),
    "explain": ("explaining:explain", "Say what a promise means, in words that a patient understands."),
    "card": ("carding:card", "Write the privacy card of a data set: its budget, every release, what it means."),
    "balance": ("balancing:balance", "Say what share of a budget an accuracy or a risk takes, and what it brings."),
    "audit": (
        "auditing:audit",
        "Attack a mechanism on its worst pair of data sets; exit code 8 if its claim is violated.",
    ),
    "check": (
        "checking:check",
        "Check this very installation: densities, samplers, noise, spending, randomness; exit code 8 if one fails.",
    ),
    "serve": ("serving:serve", "Answer questions over HTTP until stopped."),
    "mcp": ("agents:mcp", "Let an agent ask, within a part of the budget, over standard input or HTTP."),
    "tokens": ("serving:tokens_app", "Create, list and revoke the tokens of a server."),
    "receipt": ("serving:receipt_app", "Check a receipt that a server signed."),
    "demo": (
        "demo:demo",
        "Ask three questions by group, be refused a fourth, and write a report, on 95,821 real road collisions.",
    ),
}
"""Every command: where it lives here, and what the help says of it. A command is imported when it is run."""

_PAYING = ("ask", "describe", "regress", "release", "synthesize")
"""Commands that charge a budget: whoever interrupts one is told that it may have."""

_EPILOG = (
    "Exit codes: 0 done · 2 wrong argument, file or value · 3 budget does not cover it · "
    "4 unproven claim not accepted · 5 ledger unavailable · 6 ledger corrupt · "
    "7 promise unreachable · 8 a claim violated · 1 a fault of ours · 130 interrupted."
)


@functools.cache  # and so with the command: Typer would read every signature again for every call in one process
def application(word: str | None = None) -> typer.Typer:
    """Return the application, with the command called `word` ready to run and the others known by name only."""
    app = typer.Typer(
        name="sottovoce",
        help="Bayesian inference on sensitive data, with its privacy proven and counted.",
        epilog=_EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    app.callback()(_options)
    for name, (place, about) in COMMANDS.items():
        if name != word:
            app.command(name, help=about)(_nothing)
            continue
        module, _, attribute = place.partition(":")
        _postpone("numpy", "f2py", "testing")
        result: Any = getattr(import_module(f"{__name__}.{module}"), attribute)
        if isinstance(result, typer.Typer):
            app.add_typer(result, name=name)
        else:
            app.command(name)(result)
    return app


@functools.cache
def _command(word: str | None) -> Any:
    return take_plainly(typer.main.get_command(application(word)))


def _postpone(package: str, *parts: str) -> None:
    """Have parts of a package loaded when they are touched: SciPy asks NumPy for all it has, which is never used."""
    full = import_module(package)
    for part in parts:
        name = f"{package}.{part}"
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
            sys.modules[name] = module = module_from_spec(spec)
            spec.loader.exec_module(module)
            setattr(full, part, module)


def _nothing() -> None:
    """Stand for a command that is not the one to run."""


def _version(value: bool) -> None:
    if value:
        print(f"sottovoce {sottovoce.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; no traceback reaches the user, and a warning is one line."""
    as_json = "--json" in sys.argv
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: _warn(str(message), as_json=as_json)
        last, logging.lastResort = logging.lastResort, _Warner(as_json)
        try:
            _run(as_json)
        finally:
            logging.lastResort = last


def _warn(said: str, *, as_json: bool) -> None:
    shown = " ".join(said.split())
    print(json.dumps({"warning": shown}) if as_json else f"beware: {shown}", file=sys.stderr)


class _Warner(logging.Handler):
    """What is logged where nobody set up logs, told as a warning is."""

    def __init__(self, as_json: bool) -> None:
        super().__init__(logging.WARNING)
        self._as_json = as_json
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        if said not in self._told:  # a command may open one ledger twice
            self._told.add(said)
            _warn(said, as_json=self._as_json)


def _run(as_json: bool) -> None:
    word = next((argument for argument in sys.argv[1:] if argument in COMMANDS), None)
    try:
        code = _command(word)(standalone_mode=False)
        sys.stdout.flush()
    except typer.Exit as leave:
        code = leave.exit_code
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except TyperException as wrong:  # an unknown command or option
        code = _refuse(wrong.format_message(), as_json=as_json) if str(wrong) else 2  # the help was shown
    except (BrokenPipeError, SystemExit) as leave:
        if isinstance(leave, SystemExit) and not isinstance(leave.__context__, BrokenPipeError):
            raise
        # `| head -1` has read enough, for which Rich would leave with code 1; what is left to write goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:  # every error becomes one line and an exit code
        from sottovoce.faces.cli.console import fail  # noqa: PLC0415 - brings half the house

        code = fail(error, as_json=as_json)
    if code == 130 and word in _PAYING:
        shown = "interrupted; what was under way may be charged, and stays so: sottovoce ledger show says"
        print(
            json.dumps({"error": "Interrupted", "message": shown, "exit": 130}) if as_json else shown, file=sys.stderr
        )
    sys.exit(code if isinstance(code, int) else 0)


def _refuse(said: str, *, as_json: bool) -> int:
    from sottovoce.faces.cli.console import fail  # noqa: PLC0415 - brings half the house
    from sottovoce.privacy.errors import InvalidValue  # noqa: PLC0415

    return fail(InvalidValue(said), as_json=as_json)
