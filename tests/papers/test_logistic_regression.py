"""The paper's figure on logistic regression: what it saw is seen, and the figure is drawn again from its table."""

from __future__ import annotations

import csv
import math

import pytest
from papers.logistic_regression import FIVE, FOUR, OPS, OPS_RENYI, PRINTED, mechanism_for
from papers.registry import Setting, find

from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.losses import Logistic
from sottovoce.privacy.promises import RenyiDP


def test_what_the_paper_saw_is_seen_here(quick_run):
    outcome, files = quick_run("logistic-regression")
    assert all(finding.holds for finding in outcome.findings), outcome.findings
    (table,) = (path for path in files if path.suffix == ".csv")
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert {row["mechanism"] for row in rows} >= {OPS, OPS_RENYI, FOUR, FIVE, *PRINTED.values()}


def test_its_figure_is_drawn_again_from_its_table(quick_run, tmp_path):
    outcome, files = quick_run("logistic-regression")
    (table,) = (path for path in files if path.suffix == ".csv")
    again = tmp_path / "again"
    redrawn = find("logistic-regression").redraw(table, Setting(again, quick=True))
    assert [(f.claim, f.holds) for f in redrawn.findings] == [(f.claim, f.holds) for f in outcome.findings]
    assert {path.name for path in redrawn.files} == {path.name for path in files}
    assert (again / table.name).read_bytes() == table.read_bytes()


@pytest.mark.parametrize("order", [1, 100])
def test_each_mechanism_keeps_its_promise_and_wastes_nothing(order):
    design = Design(Logistic(), dimension=9, data_norm=1.0)
    target = RenyiDP(order, 0.05)
    four, five = (mechanism_for(name, design, 3000, target) for name in (FOUR, FIVE))
    for chain in (four, five):
        assert chain.profile.renyi(order) == pytest.approx(0.05, rel=2e-3)  # steps are whole, and rounding is counted
        assert chain.profile.renyi(order) <= 0.05
    assert (four.data_weight, five.prior_precision) == (1.0, 3.0)
    # The paper's own rules hold for exact samples; a certified chain may use a little more of the data.
    assert five.data_weight == pytest.approx(math.sqrt(0.05 * 3.0 / (2 * order)), rel=0.35)
    assert five.data_weight >= math.sqrt(0.05 * 3.0 / (2 * order))
    ops = mechanism_for(OPS, design, 3000, target)
    assert ops.design.radius == 1000.0
    assert 2 * ops.data_weight * 1000.0 == pytest.approx(0.05)
    # As printed: what the same formulas (2ρ²λ/m and 4ρ/β) say, solved for the constant.
    printed = {name: mechanism_for(PRINTED[name], design, 3000, target) for name in (OPS, FOUR, FIVE)}
    for name in (FOUR, FIVE):
        assert 2 * printed[name].data_weight ** 2 * order / printed[name].prior_precision == pytest.approx(0.05)
    assert 4 * printed[OPS].data_weight / 1e-3 == pytest.approx(0.05)
