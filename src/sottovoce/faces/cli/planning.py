"""`sottovoce plan`: what a promise buys, before any data is touched; and what an accuracy costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.faces.cli import shared
from sottovoce.faces.cli.console import AsJson, console, emit, escape, number, table
from sottovoce.faces.cli.cut_words import hazard_cuts
from sottovoce.faces.cli.output_files import save_figure
from sottovoce.faces.cli.specs import facts_of, model_for, read_spec
from sottovoce.mechanisms import Mechanism
from sottovoce.mechanisms.conjugate.named_systems import FORMULAS, SYSTEMS
from sottovoce.mechanisms.expected_error import cautions
from sottovoce.mechanisms.mechanism_choice import CONJUGATE, DELTAS, ORDERS, Choice, choices, imagined_mean, names_for
from sottovoce.privacy.errors import InvalidValue, PromiseUnreachable
from sottovoce.privacy.numbers import whole as whole_number
from sottovoce.privacy.promises import Promise, parse_promise
from sottovoce.privacy.shares import percent, read_share, read_width

if TYPE_CHECKING:
    from sottovoce.mechanisms.required_share import Needed


def plan(
    question: Annotated[
        str | None, typer.Argument(help="Such as 'mean of sbp by ward', or 'smoker ~ age'; or say --system.")
    ] = None,
    system: Annotated[
        str | None, typer.Option(help=f"Such as beta-bernoulli:alpha=6,beta=12; one of {', '.join(SYSTEMS.kinds)}.")
    ] = None,
    n: shared.PublicN = None,
    target: Annotated[str | None, typer.Option(help="The promise, such as approx:1,1e-6.")] = None,
    budget: Annotated[str | None, typer.Option(help="With --width or a question: the budget, approx:1,1e-6.")] = None,
    width: Annotated[
        str | None,
        typer.Option(help="Which share of the budget it takes to know the answer to ± so much; a proportion to ± 2%."),
    ] = None,
    spend: Annotated[str | None, typer.Option(help="Of a question: what this share of the budget buys.")] = None,
    mechanism: Annotated[
        str, typer.Option(help=f"Of one column {', '.join(CONJUGATE)}; of others what serves them; or all.")
    ] = "all",
    facts: shared.FactsFile = None,
    protect: shared.Protect = None,
    column: Annotated[str | None, typer.Option(help="The column whose facts to take.")] = None,
    family: Annotated[str | None, typer.Option(help="Of a formula; by the kind of what is explained.")] = None,
    where: Annotated[str | None, typer.Option(help="Of a formula: only records for which this holds.")] = None,
    prior: Annotated[
        float | None, typer.Option(help="Of a formula: prior standard deviation of the linear predictor.")
    ] = None,
    misses: Annotated[
        float | None,
        typer.Option(help="Of a formula: how much it may miss, as regress takes it; 0 if it surely is right."),
    ] = None,
    exposure: Annotated[
        str | None,
        typer.Option(help="Of a formula of counts: the column of how long, or of how many, each was counted."),
    ] = None,
    event: Annotated[
        str | None, typer.Option(help="Of a formula of a time: the flag that says whether it ended in the event.")
    ] = None,
    cut: Annotated[
        list[str] | None,
        typer.Option(help="With --event: a time at which the hazard may change, or how many intervals."),
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="With --event: the column that says when follow-up began, where not at 0.")
    ] = None,
    mean: Annotated[
        str | None, typer.Option(help="Imagined mean of the data for the forecast, lists as a/b/c.")
    ] = None,
    within: Annotated[
        float | None, typer.Option(help="Of a regression: how near its chain must be, beside the prior's own length.")
    ] = None,
    precision: Annotated[float, typer.Option(help="With --within: the prior's precision.")] = 1.0,
    imagine: Annotated[
        list[str] | None,
        typer.Option(
            help="Of a question: smoker=20%, ward:B=5%, age=0.1 (its spread, of its range), visits=3 (its mean)."
        ),
    ] = None,
    kept: shared.Kept = "100%",
    level: shared.Level = "95%",
    spec: Annotated[
        Path | None, typer.Option(help="A TOML file with a table system, and n, target, mechanism.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the curves to this PNG or SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the mechanisms that keep a promise, or say what an accuracy costs. Needs no data and spends nothing."""
    given, held, certain = read_spec(spec), read_share("--kept", kept), read_share("--level", level)
    count, full = n if n is not None else given.get("n"), budget or given.get("budget") or "approx:1,1e-6"
    count = None if count is None else whole_number("n", count)
    known = facts_of(facts or given.get("facts"))
    if question is not None:
        from sottovoce.faces.cli.planning_questions import plan_question  # noqa: PLC0415 - needs the data extra

        alone = system is None and mechanism == "all" and mean is None and column is None and within is None
        paid = _paid(target, budget, spend, alone=alone)
        said = {"family": family, "where": where, "prior": prior, "misses": misses, "exposure": exposure}
        asked = (question, count, known, parse_promise(full), width, paid, plot)
        plan_question(
            *asked,
            said | {"event": event, "cuts": hazard_cuts(question, cut), "start": start},
            protect,
            imagine or (),
            held,
            certain,
            as_json=as_json,
        )
        return
    stated = any(value is not None for value in (where, prior, misses, exposure, event, cut, start))
    if imagine or held != 1 or stated or certain != 0.95:
        words = "--imagine, --kept, --where, --prior, --misses, --exposure, --event, --cut, --start and --level"
        raise InvalidValue(f"{words} go with a question; of a system say --mean")
    promise_text = target or given.get("target")
    priced = width is not None
    if (system is None and "system" not in given) or count is None or (promise_text is None and not priced):
        raise InvalidValue("plan needs a question, or --system, --n and --target or --width (or --spec FILE with them)")
    model = model_for(system, given.get("system"), known, column or given.get("column"))
    names = list(names_for(model)) if mechanism == "all" else [mechanism]
    imagined = imagined_mean(model) if mean is None else _means(mean)
    if width is not None:
        from sottovoce.mechanisms.required_share import shares_needed  # noqa: PLC0415 - brings the filter

        wanted = read_width(width, of_share=model.word in ("beta-bernoulli", "dirichlet-categorical"))
        needed = shares_needed(model, count, parse_promise(full), wanted, imagined, names)
        _say_needed(needed, full, as_json=as_json)
        if all(item.share is None for item in needed):
            raise PromiseUnreachable(_in_reach(needed, model, count, parse_promise(full), wanted, imagined))
        return
    promise = parse_promise(str(promise_text))
    if within is not None:
        from sottovoce.faces.cli.planning_chains import plan_chain  # noqa: PLC0415 - needs the regression extra

        plan_chain(model, count, promise, within, precision, as_json=as_json)
        return
    if model.word in FORMULAS:
        from sottovoce.faces.cli.planning_regressions import plan_regression  # noqa: PLC0415 - needs the regression extra

        plan_regression(model, count, promise, as_json=as_json)
        return
    result = choices(model, count, promise, imagined, names)
    if plot is not None:
        from sottovoce.faces.cli.figures import draw_choices  # noqa: PLC0415 - plots are an extra

        save_figure(draw_choices(result, promise), plot, dpi=130)
    if as_json:
        shown = {"system": model.to_dict(), "n": count, "target": promise.to_dict(), "mean": imagined}
        emit(shown | {"choices": [c.to_dict() for c in result], "cautions": list(cautions(promise, count))})
    else:
        _print(result, model, count, promise)
        if plot is not None:
            console.print(f"\ncurves written to {plot}", markup=False)
    if all(c.mechanism is None for c in result):
        raise PromiseUnreachable(f"no mechanism keeps {promise} for n = {count}; loosen the promise")


def _in_reach(found: list[Needed], model: Any, n: int, budget: Promise, width: float, mean: Any) -> str:
    """Return what would do where a width is out of reach: the width that the whole budget gives, and more records."""
    best = min(
        (offer for offer in found if offer.width is not None), key=lambda offer: offer.width or 0.0, default=None
    )
    if best is None:
        return f"± {width:g} is out of reach of {budget}; no mechanism says how wide its intervals are"
    from sottovoce.mechanisms.required_share import records_needed  # noqa: PLC0415

    enough = records_needed(model, n, budget, width, mean, best.name)
    more = "" if enough is None else f", and n = {enough:,} would do"
    return f"± {width:g} is out of reach: all of {budget} gives ± {number(best.width, 3)} ({best.name}){more}"


def _paid(target: str | None, budget: str | None, spend: str | None, *, alone: bool) -> str | None:
    """Return what is paid for a question: a share of the budget, or a promise; nothing that was said is passed over."""
    if not alone:
        raise InvalidValue(
            "a question brings its system and mechanism: leave out --system, --mechanism, --column, --mean and --within"
        )
    if target is not None and (spend is not None or budget is not None):
        raise InvalidValue("say --target, or --budget and --spend: a target is all that is paid")
    return target if spend is None else spend


def _means(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split("/")]
    except ValueError:
        raise InvalidValue(f"--mean is a number, or several as a/b/c. Got {text!r}") from None


def _say_needed(found: list[Needed], budget: str, *, as_json: bool) -> None:
    if as_json:
        emit({"budget": budget, "needed": [item.to_dict() for item in found]})
        return
    rows = [
        (
            item.name,
            "more than there is" if item.share is None else percent(item.share),
            f"± {number(item.width, 3)}",
        )
        for item in found
    ]
    console.print(table("What it takes", ("mechanism", f"of {budget}", "known to"), rows, left=1))


def _print(found: list[Choice], system: Any, n: int, promise: Promise) -> None:
    console.print(f"[bold]{system.to_dict()['system']}[/], n = {n}, promise [bold]{promise}[/]\n")
    for caution in cautions(promise, n):
        console.print(f"[yellow]beware:[/] {escape(caution)}\n")
    rows: list[tuple[str, ...]] = []
    for c in found:
        if c.mechanism is None:
            rows.append((c.name, "out of reach", "", "", "", ""))
            continue
        kept = ", ".join(f"{k}={_short(v)}" for k, v in _settings(c.mechanism).items())
        widths = (None, None) if c.forecast is None else (c.forecast.interval_width, c.forecast.exact_width)
        error = None if c.expected is None else c.expected.error
        rows.append((c.name, kept or "as it is", str(c.mechanism.profile.basis), *map(number, (error, *widths))))
    columns: tuple[str, ...] = ("mechanism", "setting", "basis", "error", "95 % width", "no privacy")
    title = "What the promise buys"
    if all(c.expected is None and c.forecast is None for c in found):  # then settings have the room
        columns, rows = columns[:3], [row[:3] for row in rows]
    elif any(c.expected is not None for c in found):
        title += ", least expected error first"
    console.print(table(title, columns, rows, left=3))
    for c in found:
        for caution in c.cautions:
            console.print(f"[yellow]{c.name}:[/] {escape(caution)}")
        if c.mechanism is None:
            console.print(f"[dim]{c.name}: {escape(c.reason)}[/]")
    profiles = [
        (c.name, *(_brief(value, room) for values, room in zip(c.curves(), (7, 6), strict=True) for value in values))
        for c in found
        if c.mechanism
    ]
    if not profiles:
        return
    heads = ("", "δ=0", *(f"δ={d:g}" for d in DELTAS), *(f"λ={o:g}" for o in ORDERS))
    console.print()
    console.print(table("What each does: ε(δ), and the Rényi divergence of order λ", heads, profiles))


def _brief(value: float, room: int) -> str:
    """Return a number in so many characters, for a table of eight columns must not break it in two."""
    texts = [number(value, digits) for digits in (3, 2, 1)]
    return next((text for text in texts if len(text) <= room), texts[-1])


def _settings(mechanism: Mechanism) -> dict[str, Any]:
    return {k: v for k, v in mechanism.to_dict().items() if k not in ("mechanism", "n", "system", "grid", "noise")}


def _short(value: Any) -> str:
    """Return a setting for a table: of a part with settings of its own, or several, how many; JSON has them all."""
    if isinstance(value, dict | list):
        return f"({len(value)} {'settings' if isinstance(value, dict) else 'of them'})"
    return f"{value:.5g}" if isinstance(value, float) else str(value)
