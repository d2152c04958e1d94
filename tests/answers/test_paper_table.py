"""Tables for papers: every number is one that the answer shows, whatever the columns are called."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sottovoce as sv

ODD = "a_b&c"
"""A name with signs that mean something in LaTeX and in Markdown."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 3000), ODD: rng.choice(["x|y", "50 %", "{}"], 3000)})
    frame["died"] = rng.random(3000) < 1 / (1 + np.exp(3 - 0.03 * frame["age"]))
    facts = sv.Facts(age=sv.Number(18, 90), died=sv.Flag(), **{ODD: sv.Category(["x|y", "50 %", "{}", "no one"])})
    ledger = tmp_path_factory.mktemp("paper") / "ledger"
    with sv.Curator(frame, ledger, sv.ApproxDP(1, 1e-6), facts=facts, dataset="paper") as curator:
        return [
            curator.mean("age", by=ODD, spend=0.2),
            curator.counts(ODD, spend=0.1),
            curator.proportion("died", spend=0.1),
            curator.regress("died ~ age", spend=0.3),
        ]


def plain_cells(table: str) -> list[list[str]]:
    """Read the cells of a LaTeX table back, by the rules of LaTeX for the signs that mean something."""
    lines = table.partition("\\midrule\n")[2].partition("\\bottomrule")[0].strip().split("\n")
    cells = [re.split(r"(?<!\\)&", line.removesuffix(r"\\")) for line in lines]
    signs = {r"\textbackslash{}": "\\", r"$-$": "-"} | {f"\\{c}": c for c in "&%$#_{}"}
    read = []
    for line in cells:
        for sign, plain in signs.items():
            line = [cell.replace(sign, plain) for cell in line]
        read.append([cell.strip() for cell in line])
    return read


def test_latex_says_what_the_table_says(answers: list[Any]) -> None:
    for answer in answers:
        table = answer.to_latex(label="tab:one")
        assert r"\label{tab:one}" in table
        assert table.count("{") == table.count("}")
        columns = re.search(r"tabular}{(l*r+)}", table)
        assert columns is not None
        head, body = answer.paper_lines()
        assert len(columns[1]) == len(head)
        assert plain_cells(table) == body
    assert answers[0].to_latex(caption=r"$\bar{x}$").count(r"\caption{$\bar{x}$}") == 1


def test_markdown_says_what_the_table_says(answers: list[Any]) -> None:
    for answer in answers:
        lines = [line for line in answer.to_markdown().splitlines() if line.startswith("|")]
        read = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
        head, body = answer.paper_lines()
        plain = [[re.sub(r"\\([\\|*_`<>\[\]])", r"\1", cell) for cell in line] for line in read]
        assert plain == [head, ["---"] * len(head), *body]


def test_estimates_and_intervals_are_those_of_the_table(answers: list[Any]) -> None:
    for answer in answers:
        for cells, row in zip(answer.paper_lines()[1], answer.rows, strict=True):
            low, _, high = (cells[-1] or cells[2]).partition(" to ")  # an intercept has no ratio
            ratio = "odds_ratio" in row and cells[-1]
            ends = ("odds_ratio_low", "odds_ratio_high") if ratio else ("low", "high")
            near = 10 ** -len(low.partition(".")[2])
            assert float(low.replace(",", "")) == pytest.approx(row[ends[0]], abs=near)
            assert float(high.replace(",", "")) == pytest.approx(row[ends[1]], abs=near)


def test_rows_that_noise_hides_have_no_estimate(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [30, 40] * 10})
    facts = sv.Facts(age=sv.Number(0, 100))
    with sv.Curator(frame, tmp_path / "ledger", sv.PureDP(1), facts=facts, dataset="few") as curator:
        answer = curator.mean("age", spend=0.01)
    assert [cells[0] for cells in answer.paper_lines()[1]] == ["not known"]


def test_frames_of_other_libraries(answers: list[Any]) -> None:
    for answer in answers:
        for frame in (answer.to_polars(), pl.DataFrame(answer), pl.from_arrow(pa.table(answer))):
            assert frame.rows(named=True) == answer.rows


def test_the_methods_of_quantiles_say_that_they_were_searched_for(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": np.random.default_rng(1).integers(18, 90, 3000)})
    facts = sv.Facts(age=sv.Number(0, 110))
    with sv.Curator(frame, tmp_path / "ledger", sv.ApproxDP(1, 1e-6), facts=facts, dataset="ages") as curator:
        answer = curator.quantiles("age", 0.5, spend=0.5)
    said = answer.methods()
    assert f"in {len(answer.posterior.rounds)} rounds" in said and "released once" not in said
    assert "credible" not in said and "intervals of the values that a test does not reject" in said


def test_the_methods_say_what_was_run(answers: list[Any], tmp_path: Path) -> None:
    said = answers[0].methods()
    assert "3,000 records" in said and "discrete Gaussian noise" in said and "one record replaced by another" in said
    assert "95 % credible intervals, which include the noise" in said and "Canonne" in said
    assert "-zCDP" in answers[-1].methods() and "Bun and Steinke" in answers[-1].methods()
    frame = pd.DataFrame({"age": [30, 40] * 1234})
    facts = sv.Facts(age=sv.Number(0, 100))
    secret = sv.PureDP(1).under(sv.ADD_REMOVE)
    with sv.Curator(frame, tmp_path / "ledger", secret, facts=facts, dataset="secret") as curator:
        said = curator.mean("age", spend=0.5).methods()
    assert "2,468" not in said and "secret number" in said and "geometric" in said
