"""`sottovoce explain`: what a promise, a ledger or a server means, in plain words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.faces.cli import shared
from sottovoce.faces.cli.console import AsJson, console, emit, escape
from sottovoce.faces.cli.output_files import save_figure
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import parse_promise
from sottovoce.privacy.shares import read_share
from sottovoce.service.answers.explanations import Explanation, texts
from sottovoce.service.answers.explanations import explain as explained

_COLOURS = {"●": "blue", "○": "red", "·": "dim"}


def explain(
    what: Annotated[
        str,
        typer.Argument(help="A promise such as approx:1,1e-6, a ledger's path or address, or a server's TOML file."),
    ],
    baseline: shared.Baseline = "1%",
    dataset: Annotated[str | None, typer.Option(help="Of a ledger or a server with several data sets: which.")] = None,
    language: Annotated[str, typer.Option(help="Of the explanation.")] = "en",
    plot: Annotated[Path | None, typer.Option(help="Write a picture of it to this PNG or SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a promise means, in words that a patient understands. Reads no data and spends nothing."""
    shown = _told(what, dataset, {"baseline": read_share("--baseline", baseline), "language": language})
    if plot is not None:
        save_figure(shown.plot(), plot)
    if as_json:
        emit(shown.to_dict())
        return
    console.print(f"[bold]{escape(shown.title)}[/]\n")
    for line in shown.icons.lines():
        console.print("".join(f"[{colour}]{mark * line.count(mark)}[/]" for mark, colour in _COLOURS.items()))
    legend = shown.icons.legend(texts(language))
    console.print("  ".join(f"{mark} {label}" for mark, label in zip(_COLOURS, legend, strict=False)) + "\n")
    for sentence in shown.sentences:
        console.print(escape(sentence) + "\n")


def _told(what: str, dataset: str | None, options: dict[str, Any]) -> Explanation:
    if what.startswith(("http://", "https://")):
        raise InvalidValue("give a server by its configuration file; a running one answers at /api/v1/…/explanation")
    if what.endswith(".toml"):
        return _server(Path(what), dataset, options)
    if Path(what).exists() or "://" in what or what.endswith(".ledger"):
        from sottovoce.service.ledger import Ledger  # noqa: PLC0415 - opens a database

        with Ledger(what) as ledger:
            return explained(ledger, dataset=dataset, **options)
    return explained(parse_promise(what), **options)


def _server(path: Path, dataset: str | None, options: dict[str, Any]) -> Explanation:
    """Explain the budget of a server's data set: as far as it is spent, where its ledger is there already."""
    from sottovoce.faces.server import read_config  # noqa: PLC0415 - an extra
    from sottovoce.service.ledger import Ledger  # noqa: PLC0415 - opens a database

    config = read_config(path)
    names = list(config.datasets)
    if dataset is None and len(names) > 1:
        raise InvalidValue(f"this server has {len(names)} data sets; say --dataset, one of {', '.join(names)}")
    name = names[0] if dataset is None else dataset
    if name not in config.datasets:
        raise InvalidValue(f"no data set is called {name!r}; {path.name} has {', '.join(names)}")
    place = config.ledger.removeprefix("sqlite:///")
    if "://" in place or Path(place).exists():
        with Ledger(config.ledger, anchor=config.anchor) as ledger:
            if ledger.find_budget(name) is not None:
                return explained(ledger, dataset=name, **options)
    return explained(config.datasets[name].budget, **options)
