"""`sottovoce audit`: attack a mechanism, and say how close the attack comes to what is claimed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from sottovoce.audit import AuditReport, Verdict, subject_of
from sottovoce.audit import audit as run_audit
from sottovoce.audit.cases import Case, all_cases, find_case
from sottovoce.audit.scores import TESTS
from sottovoce.audit.survey import survey
from sottovoce.faces.cli import shared
from sottovoce.faces.cli.console import AsJson, console, emit, number, table
from sottovoce.faces.cli.figures import draw_trade_off
from sottovoce.faces.cli.output_files import check_places, save_figure
from sottovoce.faces.cli.specs import facts_of, model_for, read_spec
from sottovoce.mechanisms.mechanism_choice import CONJUGATE, build_mechanism, usual_name
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import parse_promise
from sottovoce.privacy.shares import percent, read_share

VIOLATED = 8
"""The exit code when some claim is violated."""
_DRAWS, _QUICK = 1_000_000, 100_000


def audit(
    system: Annotated[str | None, typer.Option(help="Such as beta-bernoulli:alpha=6,beta=12.")] = None,
    n: shared.PublicN = None,
    target: Annotated[str | None, typer.Option(help="The promise, such as approx:1,1e-3.")] = None,
    mechanism: Annotated[
        str | None, typer.Option(help=f"Of one column {', '.join(CONJUGATE)}. (By default diffused.)")
    ] = None,
    facts: shared.FactsFile = None,
    spec: Annotated[
        Path | None, typer.Option(help="A TOML file with a table system, and n, target, mechanism, facts.")
    ] = None,
    case: Annotated[str | None, typer.Option(help="A registered case by name; `list` names them.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Audit every registered case.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"At most {_QUICK:,} draws; a slow case has a tenth, or fewer.")
    ] = False,
    draws: Annotated[
        int | None, typer.Option(help=f"Outputs of each data set, at most. (By default {_DRAWS:,}.)")
    ] = None,
    delta: Annotated[float, typer.Option(help="The δ at which ε is bounded.")] = 1e-3,
    confidence: Annotated[str, typer.Option(help="The confidence of each bound, such as 99%.")] = "99%",
    seed: Annotated[int, typer.Option(help="The seed of the draws.")] = 0,
    secure: Annotated[
        bool, typer.Option("--secure", help="Draw with secure randomness, as a release does; no seed.")
    ] = False,
    test: Annotated[str, typer.Option(help=f"How the outputs are told apart: {', '.join(TESTS)}.")] = "auto",
    jobs: Annotated[int, typer.Option(help="How many processes.")] = 1,
    plot: Annotated[Path | None, typer.Option(help="Write the trade-off curves to this PNG or SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Attack a mechanism on its worst pair of data sets; exit code 8 if its claim is violated."""
    size = draws if draws is not None else (_QUICK if quick else _DRAWS)
    root, sure = None if secure else seed, read_share("--confidence", confidence)
    if case == "list":
        _list(as_json)
        return
    item = case is not None or system is not None or spec is not None
    if everything == item:
        raise InvalidValue("audit needs one of: --all; --case NAME; --system, --n and --target (or --spec FILE)")
    if everything:
        if plot is not None:
            raise InvalidValue("--plot draws one audit; name it with --case or --system")
        with _progress("auditing every case", as_json) as tell:
            result = survey(draws=size, delta=delta, confidence=sure, seed=root, jobs=jobs, progress=tell)
        _tell_all(result, delta, sure, as_json)
        reports = [report for _, report in result]
    else:
        check_places(plot=plot)
        subject = find_case(case).build() if case is not None else _planned(system, n, target, mechanism, facts, spec)
        with _progress("drawing", as_json) as tell:
            report = run_audit(
                subject,
                draws=size,
                delta=delta,
                confidence=sure,
                seed=root,
                test=test,
                jobs=jobs,
                progress=tell,
            )
        if plot is not None:
            save_figure(draw_trade_off(report), plot, dpi=130)
        _tell_one(report, plot, as_json)
        reports = [report]
    if any(report.verdict is Verdict.VIOLATED for report in reports):
        raise typer.Exit(VIOLATED)


def _planned(
    system: str | None,
    n: int | None,
    target: str | None,
    mechanism: str | None,
    facts: Path | None,
    spec: Path | None,
) -> Any:
    given = read_spec(spec)
    count, promise = n if n is not None else given.get("n"), target or given.get("target")
    if (system is None and "system" not in given) or count is None or promise is None:
        raise InvalidValue("audit needs --system, --n and --target (or --spec FILE with them)")
    model = model_for(system, given.get("system"), facts_of(facts or given.get("facts")), given.get("column"))
    name = mechanism or given.get("mechanism") or usual_name(model)
    return subject_of(build_mechanism(name, model, count, parse_promise(promise)))


@contextmanager
def _progress(what: str, as_json: bool) -> Iterator[Callable[[float], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=as_json) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda fraction: bar.update(task, completed=fraction)


def _list(as_json: bool) -> None:
    cases = all_cases().values()
    if as_json:
        emit([{"name": c.name, "tight": c.tight, "slow": c.slow} for c in cases])
        return
    rows = [(c.name, "exact" if c.tight else "an upper bound", _share(c)) for c in cases]
    console.print(table("Audited cases", ("name", "the claim is", "draws under --all"), rows, left=3))


def _share(case: Case) -> str:
    if case.one_in is not None:
        return f"one in {case.one_in:,}"
    return "a tenth" if case.slow else "all"


_COLOURS = {Verdict.HOLDS: "green", Verdict.DOUBTFUL: "yellow", Verdict.VIOLATED: "bold red"}


def _word(verdict: Verdict) -> str:
    return f"[{_COLOURS[verdict]}]{verdict}[/]"


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else percent(ratio)


def _tell_all(found: list[tuple[Case, AuditReport]], delta: float, confidence: float, as_json: bool) -> None:
    if as_json:
        emit([report.to_dict() | {"tight": case.tight} for case, report in found])
        return
    rows = [
        (
            case.name,
            Text(str(r.verdict), _COLOURS[r.verdict]),
            "exact" if case.tight else "bound",
            f"{r.draws:,}",
            number(r.epsilon.lower),
            number(r.epsilon.claimed),
            _percent(r.tightness),
            number(r.mu.lower, 3),
            number(r.mu.claimed, 3),
        )
        for case, r in found
    ]
    columns = ("mechanism", "verdict", "claim", "draws", "ε found", "ε claimed", "reached", "μ found", "μ claimed")
    title = f"What attacks find at δ = {delta:g}, each bound with {confidence:.4g} confidence"
    wide = Console(highlight=False, width=max(console.width, 118))  # narrower, words would break
    wide.print(table(title, columns, rows, left=3))
    count = {verdict: sum(r.verdict is verdict for _, r in found) for verdict in Verdict}
    console.print(f"\n{', '.join(f'{_word(v)} {k}' for v, k in count.items() if k)}")


def _tell_one(r: AuditReport, plot: Path | None, as_json: bool) -> None:
    if as_json:
        emit(r.to_dict())
        return
    rows = [
        (f"ε at δ = {r.delta:g}", number(r.epsilon.lower), number(r.epsilon.claimed), _percent(r.epsilon.ratio)),
        ("μ", number(r.mu.lower), number(r.mu.claimed), _percent(r.mu.ratio)),
        (
            f"δ at ε = {r.accused_at:.4g}",
            number(r.accusation.lower),
            number(r.accusation.claimed),
            _percent(r.accusation.ratio),
        ),
    ]
    console.print(f"[bold]{r.name}[/]: {_word(r.verdict)}")
    stopped = "; stopped early, the violation being clear" if r.stopped_early else ""
    console.print(f"[dim]{r.draws:,} draws of each data set by {r.test}, {r.seconds:.1f} s{stopped}[/]\n")
    title = f"Leaked at least, with {r.confidence:.4g} confidence"
    console.print(table(title, ("", "found", "claimed", "reached"), rows))
    if plot is not None:
        console.print(f"\ncurves written to {plot}", markup=False)
