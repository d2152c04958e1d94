"""Privacy cards: all of a ledger on one page, signed, and no letter of it changed unseen."""

import json
import re
import sys
from html.parser import HTMLParser

import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.faces.cli import main
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise
from sottovoce.service.answers.card import asked, card

FACTS = sv.Facts(smoker=sv.Flag(), ward=sv.Category(["A", "<b>B</b>"]), age=sv.Number(0, 110))
BUDGETS = [
    *(sv.PureDP(1.0), sv.ApproxDP(1.0, 1e-6), sv.RenyiDP(4, 0.5), sv.ZeroConcentratedDP(0.1), sv.GaussianDP(0.5)),
    *(sv.MaxAdvantage(0.1), sv.MaxSuccess(0.05, baseline=0.01), sv.PureDP(1e300)),
]


@pytest.fixture
def curator(tmp_path):
    data = pa.table({"smoker": [True, False, False, True] * 25, "ward": ["A"] * 100, "age": [40.0] * 100})
    with sv.Curator(data, tmp_path / "l", sv.ApproxDP(1.0, 1e-6), facts=FACTS, dataset="patients", who="ada") as opened:
        yield opened


class _Words(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text, self.open = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open = tag

    def handle_data(self, data):
        if self.open not in ("style", "script"):
            self.text.append(data)


def read(page):
    words = _Words()
    words.feed(page)
    return words.tags, " ".join(" ".join(words.text).split())


def test_every_release_is_on_the_card_with_its_purpose_and_its_share(curator):
    curator.proportion("smoker", by="ward", spend=0.05, purpose="The annual report")
    curator.mean("age", where="smoker == true", spend=0.1)
    made = card(curator, issuer="The office", made="2026-01-02 03:04 UTC")
    first, second = made.content["releases"]
    assert (first["question"], first["purpose"]) == ("proportion of smoker by ward", "The annual report")
    assert (second["question"], second["purpose"]) == ("mean of age where smoker == true", None)
    assert first["share"] == pytest.approx(0.05, rel=1e-6)
    assert made.content["spent"] == pytest.approx(0.15, rel=1e-6)
    tags, text = read(made.to_html())
    for said in ("The office", "100 records", "The annual report", "not stated", "5 %", "10 %", "0 – 110", "28"):
        assert said in text
    assert "b" not in tags and "<b>B</b>" in text  # a category is a text, whatever it holds
    assert sum(one["covered"] for one in made.content["questions"]) == 11
    assert text.count("Not covered") == 5
    told = sv.explain(curator)
    assert told.so_far < told.after and f"at most {told.so_far} of those 1,000" in text


def test_what_was_given_up_and_what_was_lost_are_said(curator):
    mechanism = curator.mechanism_for(curator.question("proportion", "smoker"), 0.05)
    curator.give_up(curator.reserve(mechanism).reservation, ValueError())
    lost = curator.reserve(mechanism)
    lost.reservation.touch()
    curator.give_up(lost.reservation, ValueError())
    content = card(curator).content
    assert content["given_up"] == 1
    assert content["releases"] == [] and [one["state"] for one in content["unanswered"]] == ["lost"]
    curator.proportion("smoker", spend=0.05)
    text = read(card(curator).to_html())[1]
    assert "nothing came out, and it still counts" in text and "Charged without an answer" in text
    assert "(releases so far: 1; charged, and no answer recorded: 1)" in text


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_a_card_of_every_kind_of_budget_before_anything_was_released(tmp_path, budget):
    with sv.Ledger(tmp_path / "l", create=True) as ledger:
        ledger.open_budget("d", budget, n=7, schema={"x": "float64"})
        made = card(ledger)
    assert made.content["releases"] == [] and made.content["spent"] == 0
    text = read(made.to_html())[1]
    assert "Nothing was released yet" in text and "{" not in text
    assert Promise.from_dict(made.content["budget"]["promise"]) == budget
    assert ("next to no protection" in text) == (budget == sv.PureDP(1e300))


def test_a_ledger_of_several_data_sets_is_asked_for_one(tmp_path):
    with sv.Ledger(tmp_path / "l", create=True) as ledger:
        for name in ("first", "second"):
            ledger.open_budget(name, sv.PureDP(1.0), n=7, schema={"x": "float64"})
        with pytest.raises(InvalidValue, match="'first', 'second'"):
            card(ledger)
        with pytest.raises(InvalidValue, match="'first', 'second'"):
            sv.explain(ledger)
        assert card(ledger, "second").content["dataset"] == "second"
        assert sv.explain(ledger, dataset="first").so_far == 10
    with pytest.raises(InvalidValue, match="from a ledger"):
        card(3)


@pytest.mark.parametrize("purpose", ["x" * 301, "two\nlines", 3])
def test_a_purpose_is_one_line(curator, purpose):
    with pytest.raises(InvalidValue, match="one line of text"):
        curator.proportion("smoker", purpose=purpose)
    assert curator.history() == []


def test_a_card_from_another_key_or_with_another_letter_is_refused(curator, tmp_path):
    cards = pytest.importorskip("sottovoce.faces.server.cards")
    receipts = pytest.importorskip("sottovoce.faces.server.receipts")
    curator.proportion("smoker", spend=0.05, purpose="Report </script><script>alert(1)</script>")
    signer, other = receipts.Signer(tmp_path / "key.pem"), receipts.Signer(tmp_path / "other.pem")
    page = cards.sign_card(card(curator), signer)
    assert page.count("<script") == 1 and "alert(1)</script>" not in page
    assert cards.verify_card(page, signer.public_key)["releases"][0]["share"] == pytest.approx(0.05, rel=1e-6)
    with pytest.raises(InvalidValue, match="another key"):
        cards.verify_card(page, other.public_key)
    # Any one letter: of what is seen, of what is signed, of the style, at either end.
    places = [m.start() for m in re.finditer("5 %|Report|color|signed|doctype|\n</html>", page)]
    for place in [*places, len(page) - 1]:
        altered = page[:place] + ("!" if page[place] != "!" else "?") + page[place + 1 :]
        with pytest.raises(InvalidValue):
            cards.verify_card(altered, signer.public_key)
    for broken in (
        *("", page + page, page + "<p>also</p>", page.replace("\n", "\r\n")),
        *(card(curator).to_html(), re.sub(r'("signature"> *)[^<]*', r"\1[1]", page)),
        *(re.sub(r'("signature"> *)[^<]*', r"\1{", page), re.sub(r'("signature"> *)[^<]*', r"\1{}", page)),
    ):
        with pytest.raises(InvalidValue):
            cards.verify_card(broken, signer.public_key)
    # A receipt of the same key is no card, nor the other way round.
    receipt = json.dumps(signer.sign({"receipt": 1, "entry": 7}))
    with pytest.raises(InvalidValue, match="no card"):
        cards.verify_card(re.sub(r'("signature">)[^<]*', lambda m: m[1] + receipt, page), signer.public_key)
    with pytest.raises(InvalidValue, match="no receipt"):
        receipts.verify_receipt(json.loads(re.search(r'"signature">([^<]*)', page)[1]), signer.public_key)


@pytest.fixture
def command(monkeypatch, capsys):
    def run(*words, code=0):
        monkeypatch.setattr(sys, "argv", ["sottovoce", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        assert left.value.code == code, said.err
        return " ".join((said.out + said.err).split())

    return run


def test_the_command_makes_signs_and_checks(command, tmp_path):
    pytest.importorskip("cryptography")
    place, out = tmp_path / "p.ledger", tmp_path / "card.html"
    with sv.Ledger(place, create=True) as ledger:
        ledger.open_budget(str(tmp_path / "p.parquet"), sv.PureDP(1.0), n=7, schema={"x": "float64"})
    made = json.loads(command("card", place, "--out", out, "--json"))
    assert made["content"]["dataset"] == "p.parquet"
    assert str(tmp_path) not in out.read_text()  # where the data lie is nobody's business
    public = tmp_path / "p.ledger.key.pub.pem"
    assert (tmp_path / "p.ledger.key.pem").stat().st_mode & 0o077 == 0
    assert "no letter of the page was changed" in command("card", "--verify", out, "--key", public, place)
    out.write_text(out.read_text().replace("7 records", "8 records"))
    assert "the page was altered" in command("card", "--verify", out, "--key", public, code=2)
    with sv.Ledger(tmp_path / "other", create=True) as ledger:
        ledger.open_budget("d", sv.PureDP(1.0), n=7, schema={"x": "float64"})
    command("card", place, "--out", out)
    command("card", "--verify", out, "--key", public, tmp_path / "other", code=6)
    for wrong, code in ((["card"], 2), (["card", "--verify", out], 2), (["card", tmp_path / "none"], 5)):
        assert command(*wrong, code=code)


@pytest.mark.parametrize(
    ("relation", "n", "said"),
    [
        ("replace-one", 7, "7 records"),
        ("replace-one of a person", 7, "7 persons"),
        ("add-remove", None, "a secret number of records"),
    ],
)
def test_a_card_that_is_checked_says_how_many_are_protected(command, tmp_path, relation, n, said):
    pytest.importorskip("cryptography")
    place, out, public = (tmp_path / name for name in ("p.ledger", "card.html", "p.ledger.key.pub.pem"))
    promise = sv.parse_promise(f"pure:1 {relation}")
    with sv.Ledger(place, create=True) as ledger:
        ledger.open_budget("p", promise, n=n, schema={"x": "float64"})
    command("card", place, "--out", out)
    told = command("card", "--verify", out, "--key", public)
    assert said in told and "0 % of the budget" in told


@pytest.mark.parametrize("where", [None, "age > 40"])
def test_a_regression_is_told_by_its_formula(where):
    """In the words of the ledger and of the answer, where the extra that reads formulas may be missing."""
    formula = sv.regression.Formula("smoker ~ age", FACTS, where=where)
    assert asked({"mechanism": {"mechanism": "looks", "system": formula.to_dict()}, "column": ["age"]}) == (
        "regression",
        formula.describe(),
    )
