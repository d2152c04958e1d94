"""Every sentence about δ is held to Gaussian noise, of which all chances have closed forms."""

import importlib
import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import sottovoce as sv
from audit.checks.sentences import least_noise, true_of
from sottovoce.service.answers.card import card, in_words, superseded
from sottovoce.service.answers.explanations import texts

ROOT = Path(__file__).parents[2]
PROMISES = [sv.ApproxDP(epsilon, delta) for epsilon in (0.1, 1.0, 3.0) for delta in (1e-9, 1e-6, 1e-3)]

SAID_WRONGLY = re.compile(
    r"(but for|except(ions)?( for)?|apart from|save)\b[^.|]{0,40}\b(chance|probability|events?)\b"
    r"[^.|]{0,25}(δ|delta|1 in|\{rare\}|1e-)"
    r"|with (a )?(chance|probability)( of)? (at most )?(1 [-−–] )?(δ\b|delta\b)[^.]{0,30}(loss|times|ε)"
    r"|(fails?|broken|exceeds?)[^.|]{0,20}with (a )?(chance|probability)( of)? (at most )?(δ|delta)",
)


@pytest.mark.parametrize("promise", PROMISES, ids=str)
@pytest.mark.parametrize("relation", list(texts("en")["relation"]))
def test_the_sentence_of_a_card_is_true_of_the_least_noise_that_keeps_the_promise(promise, relation):
    claim = sv.parse_promise(f"{promise} {relation}")
    assert true_of(in_words(claim), least_noise(promise.epsilon, promise.delta))


@pytest.mark.parametrize("promise", PROMISES, ids=str)
def test_the_sentence_is_no_weaker_than_the_promise(promise):
    """With a shift one twentieth larger than the promise allows, what it says is seen to be false."""
    mu = least_noise(promise.epsilon, promise.delta)
    assert not true_of(in_words(promise), 1.05 * mu)


@pytest.mark.parametrize("promise", PROMISES, ids=str)
def test_what_was_said_before_is_found_false(promise):
    """A loss above ε has up to 149 times the chance δ, where noise is as little as keeps the promise."""
    mu = least_noise(promise.epsilon, promise.delta)
    factor, rare = f"{np.exp(promise.epsilon):.4f} times", f"1 in {1 / promise.delta:,.0f}"
    was = f"no answer becomes more than {factor} as likely, but for exceptions with a chance of at most {rare}."
    demo = f"nothing that could come of it becomes more than {factor} likelier, but for a chance of {rare}."
    assert not true_of(was, mu) and not true_of(demo, mu)
    assert SAID_WRONGLY.search(was) and SAID_WRONGLY.search(demo)
    assert norm.cdf(mu / 2 - promise.epsilon / mu) > promise.delta


def written() -> list[Path]:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    sources = [path for kind in ("*.py", "*.toml", "*.html", "*.js") for path in (ROOT / "src").rglob(kind)]
    quoting = ("CHANGELOG.md", "planted-faults.md")  # these name what was or is made wrong
    return [path for path in (*pages, *sources) if path.name not in quoting]


def test_nothing_that_is_written_says_that_losses_above_epsilon_are_rarer_than_delta():
    assert len(written()) > 500
    wrong = [
        f"{path.relative_to(ROOT)}: {said[0]}"
        for path in written()
        for said in SAID_WRONGLY.finditer(" ".join(path.read_text(encoding="utf-8").split()))
    ]
    assert wrong == []
    for false in ("The same, except for events of probability δ.", "it fails with probability at most δ"):
        assert SAID_WRONGLY.search(false), false


def test_the_report_of_the_demo_says_what_its_budget_keeps(tmp_path):
    report = importlib.import_module("sottovoce.faces.cli.report")
    with sv.Ledger(tmp_path / "l", create=True) as ledger:
        budget = ledger.open_budget("collisions", sv.ApproxDP(1.0, 1e-6), n=7, schema={"x": "float64"})
    page = report.write_report(tmp_path / "report.html", budget, [], []).read_text()
    lead = " ".join(re.search(r'<p class="lead">(.*?)</p>', page, re.S)[1].replace("&#x27;", "'").split())
    assert in_words(budget.promise) in lead and true_of(lead, least_noise(1.0, 1e-6))


def test_every_notion_of_a_card_has_been_looked_at():
    """A new sentence about δ is held to noise above, or this list grows."""
    notions = texts("en")["card"]["notions"]
    assert {word for word, text in notions.items() if "{rare}" in text} == {"approx"}


def test_a_card_of_version_1_verifies_and_is_told_apart(tmp_path, monkeypatch, capsys):
    cards = pytest.importorskip("sottovoce.faces.server.cards")
    receipts = pytest.importorskip("sottovoce.faces.server.receipts")
    from sottovoce.faces.cli import main
    from sottovoce.service.answers import card as made_by

    signer = receipts.Signer(tmp_path / "key.pem")
    (tmp_path / "key.pub.pem").write_bytes(signer.public_key)
    budgets = {"approx": sv.ApproxDP(1.0, 1e-6), "pure": sv.PureDP(1.0)}
    with sv.Ledger(tmp_path / "l", create=True) as ledger:
        for name, budget in budgets.items():
            ledger.open_budget(name, budget, n=100, schema={"smoker": "boolean"})
        now = {name: card(ledger, name) for name in budgets}
    for version, name in ((1, "approx"), (1, "pure"), (2, "approx"), (3, "approx")):
        page = cards.sign_card(made_by.Card(dict(now[name].content) | {"card": version}), signer)
        (tmp_path / "card.html").write_text(page)
        words = ["sottovoce", "card", "--verify", tmp_path / "card.html", "--key", tmp_path / "key.pub.pem", "--json"]
        monkeypatch.setattr("sys.argv", [*map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        if version > 2:
            assert left.value.code == 2
            continue
        said = json.loads(capsys.readouterr().out)
        wrong = superseded(version, budgets[name])
        assert said["good"] and said["superseded"] == wrong
        assert (wrong is None) == ((version, name) != (1, "approx"))
        assert wrong is None or true_of(wrong, least_noise(1.0, 1e-6))


def test_rounding_of_small_deltas_goes_to_the_less_private_side():
    said = [in_words(sv.ApproxDP(1.0, delta)).rsplit("plus ", 1)[1][:-1] for delta in (3.3e-13, 1.23456789e-20)]
    values = [float(text) for text in said]
    assert values[0] >= 3.3e-13 and values[1] >= 1.23456789e-20
    assert all(a > b for a, b in pairwise(values))
