"""Answers as a paper prints them: tables in Markdown, LaTeX and frames, and a methods paragraph with its citations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from sottovoce.mechanisms.release import Release, cost_in_words
from sottovoce.privacy.composition import compose
from sottovoce.privacy.errors import NotInstalled
from sottovoce.privacy.shares import percent
from sottovoce.service.answers.word_table import NOT_KNOWN, sentence, word_document

_LATEX = {c: rf"\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "∞": r"$\infty$",
    "–": "--",
    "±": r"$\pm$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
}
_MINUS = re.compile(r"(?<!\S)-(?=\d)")
_NOISE = {
    "gaussian": (
        "discrete Gaussian noise",
        "Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy, NeurIPS 2020",
    ),
    "laplace": (
        "two-sided geometric noise",
        "Ghosh, Roughgarden and Sundararajan, Universally Utility-Maximizing Privacy Mechanisms, STOC 2009",
    ),
}
_DEFINED = "Dwork, McSherry, Nissim and Smith, Calibrating Noise to Sensitivity in Private Data Analysis, TCC 2006"
_LOOKS = "Bun and Steinke, Concentrated Differential Privacy, TCC 2016-B"
_SEARCH, _SMOOTH = "quantile search", ("smooth means", "smooth group means")


class _Printed(Protocol):
    """What an answer has that is printed."""

    @property
    def release(self) -> Release: ...
    @property
    def level(self) -> float: ...
    @property
    def question(self) -> Any: ...
    @property
    def rows(self) -> list[dict[str, Any]]: ...
    @property
    def notes(self) -> list[str]: ...
    def paper_lines(self) -> tuple[list[str], list[list[str]]]: ...


class PaperTable:
    """An answer's table for a paper: rounded to what its intervals bear out, as everywhere else."""

    def to_markdown(self: _Printed) -> str:
        """Return the table in Markdown, what it is above it and its notes below."""
        return in_markdown(self.question.describe(), *self.paper_lines(), self.notes)

    def to_latex(self: _Printed, *, caption: str | None = None, label: str | None = None) -> str:
        r"""Return the table in LaTeX, with the rules of the package ``booktabs`` and the notes in small print.

        Parameters
        ----------
        caption, label
            What stands above it, in LaTeX's own signs, the question where None; and its ``\label``.
        """
        head, body = self.paper_lines()
        title = _in_latex(self.question.describe()) if caption is None else caption
        return in_latex(title, head, body, self.notes, head.index("estimate"), label)

    def as_gt(self: _Printed) -> Any:
        """Return the table as a `great_tables.GT`, to be styled and saved as HTML, PNG or LaTeX."""
        head, body = self.paper_lines()
        return in_great_tables(self.question.describe(), head, body, self.notes, head.index("estimate"))

    def to_docx(self: _Printed, path: str | Path) -> None:
        """Write the table into a Word document, the question above it and the notes below."""
        head, body = self.paper_lines()
        words = head.index("estimate")
        Path(path).write_bytes(word_document(self.question.describe(), head, body, self.notes, words))

    def to_polars(self: _Printed) -> Any:
        """Return the rows of `table` as a polars frame."""
        import polars as pl  # noqa: PLC0415 - whoever asks for it has it

        return pl.DataFrame(self.rows, infer_schema_length=None)

    def __arrow_c_stream__(self: _Printed, requested_schema: object = None) -> Any:
        """Give the rows of `table` to whatever library speaks Arrow: ``pl.DataFrame(answer)``, ``pa.table(answer)``."""
        import pyarrow as pa  # noqa: PLC0415 - whoever asks for it has it

        return pa.Table.from_pylist(self.rows).__arrow_c_stream__(requested_schema)

    def methods(self: _Printed) -> str:
        """Return a paragraph for the methods section of a paper, true to what was run, and what to cite."""
        return methods_paragraph(self.question.describe(), [self.release], self.level)


def methods_paragraph(described: str, releases: Sequence[Release], level: float) -> str:
    """Return how the answer was made that one release, or several under one price, let out, and what to cite."""
    mechanism, profiles = releases[0].mechanism, [item.profile for item in releases]
    profile = profiles[0] if len(profiles) == 1 else compose(profiles)
    units = f"{profile.relation.unit}s"
    n = mechanism.get("n")
    of = f"a secret number of {units}" if n is None or profile.relation.hides_n else f"{n:,} {units}"
    added = list(dict.fromkeys(_added(item.mechanism, item.value) for item in releases))
    searched = [item.mechanism.get("mechanism") == _SEARCH for item in releases]
    intervals = "intervals of the values that a test does not reject" if all(searched) else "credible intervals"
    apart = (
        ", of quantiles intervals of the values that a test does not reject" if any(searched) > all(searched) else ""
    )
    cited = dict.fromkeys([_DEFINED, *(source for _, source in added)])
    costs = "This answer by itself costs" if len(releases) == 1 else f"The {len(releases)} releases together cost"
    return (
        f'We asked for "{described}", of {of}, under differential privacy with neighbouring data '
        f"sets that differ in {profile.relation.sentence().partition(':')[0]}. {' '.join(said for said, _ in added)} "
        f"{costs} {cost_in_words(profile)}. Estimates are posterior medians given the noisy statistics alone, with "
        f"{percent(level)} {intervals}{apart}, which include the noise; computed with Sottovoce "
        f"{metadata.version('sottovoce')}. Cite: {'; '.join(cited)}."
    )


def in_markdown(title: str, head: Sequence[str], body: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """Return a table in Markdown, its title above it and its notes below."""
    lines = [_row(head, _in_markdown), "|" + " --- |" * len(head), *(_row(line, _in_markdown) for line in body)]
    below = "".join(f"\n- {_in_markdown(note)}" for note in notes)
    return f"**{_in_markdown(title)}**\n\n" + "\n".join(lines) + (below and "\n" + below) + "\n"


def in_latex(
    title: str,
    head: Sequence[str],
    body: Sequence[Sequence[str]],
    notes: Sequence[str],
    words: int,
    label: str | None = None,
) -> str:
    """Return a table in LaTeX; so many of its first columns are words, and its title is in LaTeX's own signs."""
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{title}}}",
        *([] if label is None else [rf"\label{{{label}}}"]),
        rf"\begin{{tabular}}{{{'l' * words}{'r' * (len(head) - words)}}}",
        r"\toprule",
        " & ".join(map(_in_latex, head)) + r" \\",
        r"\midrule",
        *(" & ".join(map(_in_latex, line)) + r" \\" for line in body),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par{{\footnotesize {_in_latex(sentence(note))}}}" for note in notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def in_great_tables(
    title: str, head: Sequence[str], body: Sequence[Sequence[str]], notes: Sequence[str], words: int
) -> Any:
    """Return a table as a `great_tables.GT`; so many of its first columns are words."""
    try:
        import great_tables as gt  # noqa: PLC0415 - an extra
    except ImportError:
        said = "typeset tables need the tables extra: pip install 'sottovoce[tables]'"
        raise NotInstalled(said, name="great_tables") from None
    import pandas as pd  # noqa: PLC0415 - an extra

    names = [f"c{place}" for place in range(len(head))]  # two columns may be called alike
    frame = pd.DataFrame([list(line) for line in body], columns=names, dtype=str)
    table = gt.GT(frame).tab_header(title=title).cols_label(dict(zip(names, head, strict=True)))
    table = table.cols_align("left", columns=names[:words]).cols_align("right", columns=names[words:])
    for note in notes:
        table = table.tab_source_note(sentence(note))
    return table


def interval_name(level: float) -> str:
    """Return the heading of intervals.

    >>> interval_name(0.95)
    '95 % interval'
    """
    return f"{percent(level)} interval"


def estimate_cells(numbers: Sequence[str], *, known: bool = True) -> list[str]:
    """Return an estimate and its interval as cells.

    >>> estimate_cells(["4.8", "3.0", "6.7"]), estimate_cells(["?", "0", "1"], known=False)
    (['4.8', '3.0 to 6.7'], ['not known', '0 to 1'])
    """
    return [numbers[0] if known else NOT_KNOWN, f"{numbers[1]} to {numbers[2]}"]


def _added(mechanism: Mapping[str, Any], posterior: Any) -> tuple[str, str]:
    """Return what was done to the statistics, and whom to cite for it."""
    if (noise := mechanism.get("noise")) in _NOISE:
        name, cited = _NOISE[noise]
        if mechanism.get("mechanism") == _SEARCH:
            rounds = len(posterior.rounds)
            return (
                f"Records were counted in cells of the column in {rounds} round{'s' if rounds > 1 else ''}, each cut "
                f"finer where the noisy counts of those before had left the quantiles; every count was released with "
                f"{name}.",
                cited,
            )
        times = f"in {len(mechanism['entries'])} answers" if "entries" in mechanism else "once"
        return f"The statistics it rests on were released {times} with {name}.", cited
    if mechanism.get("mechanism") in _SMOOTH:
        looks = len(posterior.looks)
        return (
            f"The column's tail was looked for in {looks} round{'' if looks == 1 else 's'} of counts, then values were "
            "added up within a window chosen by these noisy counts, and positions beyond it; all were released with "
            "discrete Gaussian noise. The tail was taken to follow a generalized Pareto law, or one with a lump.",
            f"{_LOOKS}; Pickands, Statistical Inference Using Extreme Order Statistics, Annals of Statistics 1975",
        )
    if "rho" in mechanism:
        return (
            f"Sums over clipped records were released in several looks with discrete Gaussian noise, together "
            f"{mechanism['rho']:.3g}-zCDP.",
            _LOOKS,
        )
    return f"It was released by the mechanism called {mechanism.get('mechanism')}.", "its own paper (see How to cite)"


def _row(cells: Sequence[str], written: Any) -> str:
    return "| " + " | ".join(written(cell) for cell in cells) + " |"


def _in_markdown(text: str) -> str:
    return " ".join("".join(f"\\{c}" if c in "\\|*_`<>[]" else c for c in text).split())


def latex_words(text: str) -> str:
    """Return words as LaTeX writes them."""
    return _in_latex(text)


def _in_latex(text: str) -> str:
    return _MINUS.sub(r"$-$", " ".join("".join(_LATEX.get(c, c) for c in text).split()))
