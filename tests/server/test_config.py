"""The configuration: each mistake is one sentence that names the entry."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from sottovoce.faces.server.config import Config, read_config
from sottovoce.faces.server.service import Service
from sottovoce.privacy.errors import InvalidValue, LedgerUnavailable
from sottovoce.privacy.promises import ApproxDP, PureDP
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import Ledger
from support.offices import write_office

GOOD = """
[datasets.patients]
source = "patients.parquet"
budget = "approx:1,1e-6"
[datasets.patients.columns.smoker]
kind = "flag"
[datasets.patients.columns.age]
kind = "number"
low = 0
high = 100
[datasets.patients.columns.ward]
kind = "category"
categories = ["N", "S"]
[analysts.ada]
budgets = { patients = "pure:0.5" }
"""


AGAIN = '[datasets.again]\nsource = "{}.parquet"\nbudget = "pure:1"\n[datasets.again.columns.smoker]\nkind = "flag"\n'


def read(folder: Path, text: str) -> Config:
    (folder / "server.toml").write_text(text)
    return read_config(folder / "server.toml")


def test_what_is_left_out_has_a_default(tmp_path: Path) -> None:
    config = read(tmp_path, GOOD)
    assert (config.host, config.port, config.workers, config.tls) == ("127.0.0.1", 8400, 1, None)
    assert config.ledger == str(tmp_path / "server.ledger")
    assert config.limits.answer_grid == 0.25
    patients = config.datasets["patients"]
    assert patients.budget == ApproxDP(1.0, 1e-6)
    assert patients.columns["smoker"].systems == ("beta-bernoulli",)
    assert patients.columns["age"].systems == ("gamma-exponential", "normal-mean")
    assert patients.columns["ward"].systems == ("dirichlet-categorical",)
    assert config.analysts["ada"].budgets == {"patients": PureDP(0.5)}


def test_secrets_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[server]\nledger = "env:LEDGER"\n' + GOOD
    with pytest.raises(InvalidValue, match=r"ledger in \[server\] is read from LEDGER"):
        read(tmp_path, text)
    monkeypatch.setenv("LEDGER", "postgresql+psycopg://u:p@db/x")
    assert read(tmp_path, text).ledger == "postgresql+psycopg://u:p@db/x"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[datasets.patients]", "[datasets.patients", "is not TOML"),
        ("[analysts.ada]", "[analist.ada]\n[analysts.ada]", "no 'analist'; known: datasets, analysts, limits, server"),
        ("[analysts.ada]", "[limits]\nbody_byte = 5\n[analysts.ada]", "[limits] has no 'body_byte'; known: requests"),
        ("[analysts.ada]", "[limits]\nbody_bytes = 5\n[analysts.ada]", "body_bytes in [limits] must be a number from"),
        ("[analysts.ada]", "[limits]\ndraws = 1.5\n[analysts.ada]", "draws in [limits] must be a whole number"),
        ("[analysts.ada]", "[server]\nport = true\n[analysts.ada]", "port in [server] must be a number"),
        ("[analysts.ada]", "[server]\ntls = 3\n[analysts.ada]", "[server.tls] must be a table"),
        (
            "[analysts.ada]",
            '[server]\ntls = { certificate = "c", key = "k" }\n[analysts.ada]',
            "there is no such file",
        ),
        ("[analysts.ada]", '[server]\nhost = "0.0.0.0"\n[analysts.ada]', "in the clear"),
        *(
            ("[analysts.ada]", f'[server]\ntrusted_proxies = ["{one}"]\n[analysts.ada]', "trusted_proxies in [server]")
            for one in ("*", "0.0.0.0/0", "::/0", "8.8.0.0/16", "10.0.0.0/8", "proxy.example", "10.0.0.2/16", "")
        ),
        ('source = "patients.parquet"', "", "[datasets.patients] lacks source"),
        ('source = "patients.parquet"', "source = 3", "source in [datasets.patients] must be a text. Got 3"),
        ("approx:1,1e-6", "approx:1", "budget in [datasets.patients]"),
        ("approx:1,1e-6", "pure:0", "budget in [datasets.patients]: a budget of pure:0 pays for no answer"),
        ("pure:0.5", "pure:-1", "patients in [analysts.ada.budgets]: epsilon must be >= 0"),
        ("{ patients =", "{ patents =", "[analysts.ada.budgets] has no 'patents'; known: patients"),
        ("[datasets.patients]", "[datasets.'../etc']", "is no name"),
        ("[analysts.ada]", "[analysts.'ada lovelace']", "is no name"),
        ("high = 100", "high = -1", "[datasets.patients.columns.age]: low must be below high"),
        ("high = 100", 'high = "x"', "high must be a"),
        ("high = 100", "", "a number needs low, high. Got low"),
        ('"number"', '"numbers"', "no column is of the kind 'numbers'"),
        ('["N", "S"]', '["N", "N"]', "categories must be different"),
        ('["N", "S"]', '["N"]', "2 to 64 different"),
        (
            "high = 100",
            'high = 100\nsystems = ["gamma-poisson"]',
            "gamma-poisson does not read a number; it can",
        ),
        ("high = 100", 'high = 100\nsystems = ["magic"]', "some of beta-bernoulli"),
        ("high = 100", "high = 100\nradius = 1.0", "a number takes high, low, missing. Got radius"),
        (
            "[analysts.ada]",
            '[datasets.patients.columns.a]\nkind="person"\n[datasets.patients.columns.b]\nkind="person"\n'
            "[analysts.ada]",
            "more than one person",
        ),
        ('budget = "approx:1,1e-6"', 'budget = "approx:1,1e-6"\norder = 0.5', "order in [datasets.patients]"),
        ('budget = "approx:1,1e-6"', 'budget = "approx:1,1e-6"\nmechanisms = ["x"]', "some of direct, diffused"),
        ('budget = "approx:1,1e-6"', 'budget = "approx:1,1e-6"\nconditions = 1', "true or false"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new) if old != "[datasets.patients]" else GOOD.replace(old, new, 1)
    with pytest.raises(InvalidValue) as error:
        read(tmp_path, text)
    assert said in str(error.value)
    assert "server.toml" in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="No such file"):
        read_config(tmp_path / "nothing.toml")


@pytest.mark.parametrize(("missing", "said"), [("datasets", "no data set"), ("columns", "has no columns")])
def test_a_server_needs_data(tmp_path: Path, missing: str, said: str) -> None:
    text = "" if missing == "datasets" else '[datasets.x]\nsource = "x.csv"\nbudget = "pure:1"'
    with pytest.raises(InvalidValue, match=said):
        read(tmp_path, text)


def test_the_same_data_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="registered twice"):
        read(tmp_path, GOOD + AGAIN.format("patients"))


def test_facts_in_a_file_of_their_own_are_columns(tmp_path: Path) -> None:
    (tmp_path / "facts.toml").write_text('[age]\nkind = "number"\nlow = 0\nhigh = 9\n[name]\nkind = "person"\n')
    text = GOOD.replace('1,1e-6"', '1,1e-6"\nfacts = "facts.toml"', 1)
    patients = read(tmp_path, text).datasets["patients"]
    assert patients.facts.person == "name" and patients.columns["name"].systems == ()
    assert patients.facts["age"].high == 100  # the section's own word counts


@pytest.mark.parametrize("types", ["5", "{ age = 5 }"])
def test_types_are_words_by_column(tmp_path: Path, types: str) -> None:
    text = GOOD.replace('budget = "approx:1,1e-6"', f'budget = "approx:1,1e-6"\ntypes = {types}')
    with pytest.raises(InvalidValue, match=r"types in \[datasets.patients\]"):
        read(tmp_path, text)


def csv_office(folder: Path, last: str, types: str = "") -> dict[str, Any]:
    folder.mkdir()
    (folder / "patients.csv").write_text("smoker,age,ward\n" + "true,44,N\n" * 99 + last)
    text = GOOD.replace("patients.parquet", "patients.csv").replace('1,1e-6"\n', f'1,1e-6"\n{types}\n', 1)
    service = Service(read(folder, text))
    facts = service._datasets["patients"].facts()
    service.close()
    return facts


def test_what_the_server_publishes_of_a_csv_file_depends_on_no_record(tmp_path: Path) -> None:
    neighbours = [csv_office(tmp_path / str(k), last) for k, last in enumerate(("true,44,N\n", "n/a,n/a\n", ",,,,\n"))]
    assert neighbours[0] == neighbours[1] == neighbours[2]
    given = csv_office(tmp_path / "typed", "n/a", 'types = { age = "int64" }')
    assert [column["type"] for column in given["columns"]] == ["boolean", "int64", "string"]


def test_the_same_data_by_a_link_is_refused(tmp_path: Path) -> None:
    config = write_office(tmp_path)
    (tmp_path / "link.parquet").symlink_to(tmp_path / "patients.parquet")
    again = (
        '[datasets.again]\nsource = "link.parquet"\nbudget = "pure:1"\n[datasets.again.columns.smoker]\nkind = "flag"\n'
    )
    text = config.path.read_text() + again
    with pytest.raises(InvalidValue, match="shares records with 'patients'"):
        Service(read(tmp_path, text))


def test_a_budget_of_the_command_line_goes_on_under_its_name(tmp_path: Path) -> None:
    config = write_office(tmp_path)
    data = tmp_path / "patients.parquet"
    known = config.datasets["patients"]
    with Curator(data, config.ledger, known.budget, facts=known.facts, order=known.order) as curator:
        curator.proportion("smoker", spend=0.25)
    with pytest.raises(InvalidValue, match=f"Say dataset='{data.resolve()}' to go on with it"):
        Service(config)
    named = config.path.read_text().replace("[datasets.patients]", f"[datasets.patients]\ndataset = '{data.resolve()}'")
    with contextlib.closing(Service(read(tmp_path, named))) as service:
        assert curator.budget.id in {budget.whole for budget in service.ledger.budgets()}
        assert service.ledger.find_budget("patients") is None


class TestOpening:
    def open(self, config: Config) -> None:
        Service(config).close()

    def rewrite(self, config: Config, old: str, new: str) -> Config:
        text = config.path.read_text()
        assert old in text
        config.path.write_text(text.replace(old, new))
        return read_config(config.path)

    def test_it_opens_again_as_it_was(self, tmp_path: Path) -> None:
        config = write_office(tmp_path)
        budgets = []
        for _ in range(2):
            self.open(config)
            with Ledger(config.ledger) as ledger:
                budgets.append(ledger.budgets())
        assert budgets[0]
        assert budgets[0] == budgets[1]

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ('budget = "approx:4,1e-6"', 'budget = "approx:5,1e-6"', "never changes"),
            ('staff = "pure:0.5"', 'staff = "pure:0.7"', r"\[analysts.ada.budgets\].*never changes"),
            ("columns.smoker]", "columns.smokes]", "no such column"),
            ("columns.visits]", "columns.visitors]", "no such column"),
        ],
    )
    def test_what_cannot_be_opened_is_one_clear_error(self, tmp_path: Path, old: str, new: str, said: str) -> None:
        config = write_office(tmp_path)
        self.open(config)
        with pytest.raises(InvalidValue, match=said):
            self.open(self.rewrite(config, old, new))

    @pytest.mark.parametrize("each", ["approx:0.1,1e-6", "approx:0.25,1e-6", "25%", "12.5 %"])
    def test_two_parts_of_any_size_open(self, tmp_path: Path, each: str) -> None:
        config = write_office(tmp_path, each=each)
        self.open(config)
        with Ledger(config.ledger) as ledger:
            parts = [budget for budget in ledger.budgets() if budget.whole is not None]
        assert len(parts) >= 2
        assert all(budget.limit > 0 for budget in parts)

    @pytest.mark.parametrize("each", ["0%", "-3%", "150%", "x%"])
    def test_an_impossible_share_names_the_analyst(self, tmp_path: Path, each: str) -> None:
        with pytest.raises(InvalidValue, match=r"\[analysts.ada.budgets\] must be a share of the whole"):
            self.open(write_office(tmp_path, each=each))

    def test_a_ledger_in_a_place_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(LedgerUnavailable):
            self.open(write_office(tmp_path, ledger="nowhere/server.ledger"))


def test_tls_and_proxies_let_it_leave_the_machine(tmp_path: Path) -> None:
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_text("x")
    tls = '[server]\nhost = "0.0.0.0"\ntls = { certificate = "cert.pem", key = "key.pem" }\n'
    found: Any = read(tmp_path, tls + GOOD).tls
    assert found.key == tmp_path / "key.pem"
    for one in ("10.0.0.2", "172.17.0.0/16", "8.8.8.0/24", "fd00::/64", "::1"):
        proxy = f'[server]\nhost = "0.0.0.0"\ntrusted_proxies = ["{one}"]\n'
        assert read(tmp_path, proxy + GOOD).trusted_proxies == (one,)


def test_the_anchor_is_a_path_beside_the_file_or_an_address(tmp_path: Path) -> None:
    assert read(tmp_path, GOOD).anchor is None
    assert read(tmp_path, '[server]\nanchor = "usb/note"\n' + GOOD).anchor == str(tmp_path / "usb" / "note")
    url = "postgresql+psycopg://u@db/x"
    assert read(tmp_path, f'[server]\nanchor = "{url}"\n' + GOOD).anchor == url


def test_the_server_notes_elsewhere_how_far_its_ledger_has_come(tmp_path: Path) -> None:
    config = write_office(tmp_path, server='anchor = "note"')
    Service(config).close()
    with Ledger(config.ledger) as ledger:
        assert str(ledger.verify()) in (tmp_path / "note").read_text()
