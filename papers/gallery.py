"""The gallery in the documentation: pages written from what the experiments found, never by hand.

``FOLDER/outcomes.json`` holds the latest outcome of each experiment and its words, ``figures`` and ``tables`` its
files. All pages follow from them and from the catalogue, so that a page that says something else is out of date, and a
test says so.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from papers.catalogue import CATALOGUE, Document
from papers.parts import read_json, write_json
from papers.registry import Experiment
from papers.runner import Record

__all__ = ["pages", "read_outcomes", "update_gallery"]

_PAGES = {
    "posterior-sampling": ("Geumlek et al. 2017", "Rényi privacy of posterior samples"),
    "thesis": ("Geumlek 2020", "The thesis, chapters 4, 6 and 7"),
    "gibbs-posteriors": ("Minami et al. 2016", "Privacy without sensitivity"),
    "robust-inference": ("Dimitrakakis", "Robust and private inference"),
    "ours": ("", "Ours"),
}
"""Pages by file name: the source that puts an experiment there (the first that fits), and the heading."""

_LARGEST_TABLE = 60_000
"""Bytes of a table the documentation carries; larger ones are written again by the command."""

_MADE = "<!-- Written by `python -m papers NAME --gallery docs/gallery`; do not edit. -->\n"


def update_gallery(
    records: Iterable[Record], output: Path, folder: Path, known: Mapping[str, Experiment]
) -> list[Path]:
    """Take the records and their files into the gallery, write every page anew and return the pages."""
    outcomes = read_outcomes(folder)
    for record in records:
        outcomes[record.name] = _outcome(record, output, folder)
    for name in outcomes.keys() & known.keys():
        words = known[name]
        outcomes[name] |= {"title": words.title, "source": words.source, "about": words.about}
    write_json(folder / "outcomes.json", dict(sorted(outcomes.items())))
    written = []
    for name, text in pages(outcomes).items():
        (folder / name).write_text(text, encoding="utf-8")
        written.append(folder / name)
    return written


def read_outcomes(folder: Path) -> dict[str, Any]:
    """Return the outcomes the gallery holds, by experiment."""
    return dict(read_json(folder / "outcomes.json") or {})


def pages(outcomes: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of every page by file name."""
    homes = {name: _home(outcome["source"]) for name, outcome in sorted(outcomes.items())}
    made = {}
    for page, (_, heading) in _PAGES.items():
        here = [name for name in homes if homes[name] == page]
        if here:
            sections = [_section(name, outcomes[name]) for name in here]
            made[f"{page}.md"] = f"{_MADE}\n# {heading}\n\n" + "\n".join(sections)
    made["index.md"] = _index(outcomes, homes)
    return made


def _home(source: str) -> str:
    return next(page for page, (word, _) in _PAGES.items() if word in source)


def _outcome(record: Record, output: Path, folder: Path) -> dict[str, Any]:
    figures = [Path(name) for name in record.files if name.endswith(".png")]
    tables = [Path(name) for name in record.files if name.endswith(".csv")]
    for figure in figures:
        _small_png(output / figure, folder / "figures" / figure.name)
    kept = [table for table in tables if (output / table).stat().st_size <= _LARGEST_TABLE]
    for table in kept:
        (folder / "tables").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(output / table, folder / "tables" / table.name)
    return {
        "quick": record.quick,
        "seed": record.seed,
        "figures": [figure.name for figure in figures],
        "tables": [table.name for table in kept],
        "findings": [vars(finding) for finding in record.findings],
        "notes": record.notes,
    }


def _small_png(source: Path, target: Path) -> None:
    """Copy a figure with 128 colours, a quarter of the size and the same to the eye."""
    from PIL import Image

    with Image.open(source) as image:
        small = image.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    small.save(buffer, "PNG", optimize=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(buffer.getvalue())


def _section(name: str, outcome: Mapping[str, Any]) -> str:
    findings = outcome["findings"]
    seen = sum(finding["holds"] for finding in findings)
    size = "the quick size" if outcome["quick"] else "full size"
    lines = [f"## {_plain(outcome['title'])} {{ #{name} }}", "", f"*{_plain(outcome['source'])}*", ""]
    lines += [_plain(outcome["about"]), ""]
    for figure in outcome["figures"]:
        lines += [f"![{_plain(outcome['title'])}](figures/{figure})", ""]
    if findings:
        lines += ["| what is claimed | seen here? | numbers |", "| --- | --- | --- |"]
        lines += [
            f"| {_cell(f['claim'])} | {'yes' if f['holds'] else '**no**'} | {_cell(f['evidence'])} |" for f in findings
        ]
        lines += [""]
    if outcome["notes"]:
        lines += [_plain(outcome["notes"]), ""]
    tables = ", ".join(f"[{table}](tables/{table})" for table in outcome["tables"])
    numbers = f" Its numbers: {tables}." if tables else ""
    lines += [
        f"{seen} of {len(findings)} seen. `python -m papers {name}`, {size}, seed {outcome['seed']}.{numbers}",
        "",
    ]
    return "\n".join(lines)


def _index(outcomes: Mapping[str, Any], homes: Mapping[str, str]) -> str:
    findings = [finding for name in homes for finding in outcomes[name]["findings"]]
    seen = sum(finding["holds"] for finding in findings)
    lines = [
        _MADE,
        "# Gallery",
        "",
        "Every figure of the five documents this library is built on, drawn again by it, with what the document saw",
        f"and whether we see it. Of {len(findings)} claims {seen} are seen; the other {len(findings) - seen} are",
        "named, with the reason. One command draws a figure, another draws all of them and goes on where it was",
        "stopped:",
        "",
        "```console",
        "$ python -m papers kl-utility --quick",
        "$ python -m papers all",
        "```",
        "",
        "## Not seen",
        "",
        "| experiment | what is claimed | what we find |",
        "| --- | --- | --- |",
    ]
    for name in homes:
        for finding in outcomes[name]["findings"]:
            if not finding["holds"]:
                lines.append(f"| {_link(name, homes)} | {_cell(finding['claim'])} | {_cell(finding['evidence'])} |")
    for document in CATALOGUE:
        lines += ["", *_contents(document, outcomes, homes)]
    shown = {name for document in CATALOGUE for entry in document.entries for name in entry.experiments}
    others = [name for name in homes if name not in shown]
    lines += ["", "## Ours", "", "| experiment | what it shows |", "| --- | --- |"]
    lines += [f"| {_link(name, homes)} | {_plain(outcomes[name]['title'])} |" for name in others]
    return "\n".join(lines) + "\n"


def _contents(document: Document, outcomes: Mapping[str, Any], homes: Mapping[str, str]) -> list[str]:
    lines = [f"## {document.title}", "", "| | what it shows | drawn again |", "| --- | --- | --- |"]
    for entry in document.entries:
        links = ", ".join(
            _link(name, homes) if name in outcomes else f"`python -m papers {name}`" for name in entry.experiments
        )
        where = "; ".join(part for part in (links, _plain(entry.reason)) if part)
        lines.append(f"| {entry.figure} | {_cell(entry.shows)} | {where} |")
    return lines


def _link(name: str, homes: Mapping[str, str]) -> str:
    return f"[{name}]({homes[name]}.md#{name})"


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is, but for code in backticks."""
    parts = text.split("`")
    for k in range(0, len(parts), 2):
        for character in "*_":
            parts[k] = parts[k].replace(character, f"\\{character}")
        parts[k] = parts[k].replace("<", "&lt;")
    return "`".join(parts)


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")
