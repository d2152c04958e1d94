"""`sottovoce plan`: what a promise buys, before any data is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.cli.console import AsJson, console, emit, escape, number, table
from sottovoce.cli.specs import facts_of, model_for, read_spec
from sottovoce.mechanisms import Mechanism
from sottovoce.mechanisms.choices import CONJUGATE, DELTAS, ORDERS, Choice, choices, imagined_mean, names_for
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise, parse_promise
from sottovoce.systems.naming import SYSTEMS

__all__ = ["plan"]


def plan(
    system: Annotated[
        str | None, typer.Option(help=f"Such as beta-bernoulli:alpha=6,beta=12; one of {', '.join(SYSTEMS)}.")
    ] = None,
    n: Annotated[int | None, typer.Option(help="The number of records, which is public.")] = None,
    target: Annotated[str | None, typer.Option(help="The promise, such as approx:1,1e-6.")] = None,
    mechanism: Annotated[
        str, typer.Option(help=f"Of one column {', '.join(CONJUGATE)}; of others what serves them; or all.")
    ] = "all",
    facts: Annotated[Path | None, typer.Option(help="The facts, a TOML file: bounds and categories.")] = None,
    column: Annotated[str | None, typer.Option(help="The column whose facts to take.")] = None,
    mean: Annotated[
        str | None, typer.Option(help="Imagined mean of the data for the forecast, lists as a/b/c.")
    ] = None,
    spec: Annotated[Path | None, typer.Option(help="A TOML file with [system], n, target, mechanism.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the curves to this PNG or SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the mechanisms that keep a promise. Needs no data and spends nothing."""
    given = read_spec(spec)
    system_text, count = system, n if n is not None else given.get("n")
    promise_text = target or given.get("target")
    if (system_text is None and "system" not in given) or count is None or promise_text is None:
        raise InvalidValue("plan needs --system, --n and --target (or --spec FILE with them)")
    known = facts_of(facts or given.get("facts"))
    model = model_for(system_text, given.get("system"), known, column or given.get("column"))
    promise = parse_promise(promise_text)
    names = list(names_for(model)) if mechanism == "all" else [mechanism]
    imagined = imagined_mean(model) if mean is None else [float(x) for x in mean.split("/")]
    found = choices(model, count, promise, imagined, names)
    if plot is not None:
        from sottovoce.cli.figures import choices_figure  # noqa: PLC0415 - plots are an extra

        choices_figure(found, promise, plot)
    if as_json:
        emit(
            {
                "system": model.to_dict(),
                "n": count,
                "target": promise.to_dict(),
                "mean": imagined,
                "choices": [c.to_dict() for c in found],
            }
        )
        return
    _print(found, model, count, promise)
    if plot is not None:
        console.print(f"\ncurves written to {plot}")


def _print(found: list[Choice], system: Any, n: int, promise: Promise) -> None:
    console.print(f"[bold]{system.to_dict()['system']}[/], n = {n}, promise [bold]{promise}[/]\n")
    rows = []
    for c in found:
        if c.mechanism is None:
            rows.append((c.name, "out of reach", "", "", "", ""))
            continue
        kept = ", ".join(f"{k}={_short(v)}" for k, v in _settings(c.mechanism).items())
        f = c.forecast
        told = (None, None, None) if f is None else (f.interval_width, f.exact_width, f.expected_kl)
        rows.append((c.name, kept or "as it is", str(c.mechanism.profile.basis), *map(number, told)))
    columns = ("mechanism", "setting", "basis", "95 % width", "no privacy", "KL")
    console.print(table("What the promise buys", columns, rows, left=3))
    for c in found:
        if c.mechanism is None:
            console.print(f"[dim]{c.name}: {escape(c.reason)}[/]")
    reachable = [c for c in found if c.mechanism is not None]
    if not reachable:
        return
    profiles = []
    for c in reachable:
        if c.mechanism is not None:
            p = c.mechanism.profile
            profiles.append(
                (c.name, *(number(p.epsilon(d), 3) for d in (0.0, *DELTAS)), *(number(p.renyi(o), 3) for o in ORDERS))
            )
    heads = ("", "δ=0", *(f"δ={d:g}" for d in DELTAS), *(f"λ={o:g}" for o in ORDERS))
    console.print()
    console.print(table("What each does: ε(δ), and the Rényi divergence of order λ", heads, profiles))


def _settings(mechanism: Mechanism) -> dict[str, Any]:
    return {k: v for k, v in mechanism.to_dict().items() if k not in ("mechanism", "n", "system", "grid", "noise")}


def _short(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
