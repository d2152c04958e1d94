"""What was written before the house was moved is read to the same values after it."""

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sottovoce.mechanisms import Mechanism, Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.profile import Profile
from sottovoce.service.answers.answer import Answer
from sottovoce.service.ledger import Ledger

HERE = Path(__file__).parent
PROFILES = json.loads((HERE / "profiles.json").read_text(encoding="utf-8"))
RELEASES = json.loads(gzip.decompress((HERE / "releases.json.gz").read_bytes()))
ENTRIES = json.loads((HERE / "entries.json").read_text(encoding="utf-8"))


def close(found, wanted, tolerance=1e-9):
    wanted = np.array([np.inf if x is None else x for x in np.atleast_1d(wanted)], dtype=float)
    np.testing.assert_allclose(np.atleast_1d(found), wanted, rtol=tolerance, atol=1e-300)


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_reads_back_to_the_same_curve(name):
    golden = PROFILES[name]
    profile = Profile.from_dict(golden["state"])
    # A composition is bounded from above, and its transform has changed since.
    close(profile.delta([0.0, 0.1, 0.5, 1.0]), golden["delta"], 1e-6 if name == "composed" else 1e-9)
    close(profile.renyi([1.0, 1.5, 2.0, 3.5]), golden["renyi"])
    close(profile.pure(), golden["pure"])
    assert json.loads(profile.to_json()) == golden["state"]


@pytest.mark.parametrize("name", RELEASES)
def test_every_release_reads_back_to_the_same_values(name):
    golden = RELEASES[name]
    release = Release.from_dict(golden["state"])
    assert release.parameter == golden["state"]["parameter"]
    if golden["mean"] is not None:
        mean = release.value.mean
        close(mean() if callable(mean) else mean, golden["mean"])


NAMED_NO_DATA = ("ornstein-uhlenbeck", "naive bayes")
"""What was written of these does not say which records they read: bounds of columns, or n."""


@pytest.mark.parametrize("name", RELEASES)
def test_every_mechanism_reads_back_and_promises_the_same(name):
    state = RELEASES[name]["state"]
    if name in NAMED_NO_DATA:
        with pytest.raises(InvalidValue):
            Mechanism.from_dict(state["mechanism"])
        return
    mechanism = Mechanism.from_dict(state["mechanism"])
    assert Mechanism.from_dict(mechanism.to_dict()).to_dict() == mechanism.to_dict()
    told = Profile.from_dict(state["profile"])
    found, wanted = mechanism.profile.delta([0.1, 0.5, 1.0]), told.delta([0.1, 0.5, 1.0])
    # A chain now counts its rounding: never less than what was told, and more only in digits that nobody reads.
    close(found, wanted, 1e-6 if name.startswith("logistic") else 1e-9)
    assert np.all(found >= wanted * (1 - 1e-9))


def test_a_ledger_is_read_and_verified_by_a_process_that_imported_nothing(tmp_path):
    place = tmp_path / "patients.ledger"
    shutil.copy(HERE / "patients.ledger", place)
    code = (
        "import json, sys\n"
        "from sottovoce.service.ledger import Ledger\n"
        "with Ledger(sys.argv[1]) as ledger:\n"
        "    print(json.dumps([[e.id, e.cost, e.profile.to_dict()] for e in ledger.entries('patients')]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, place], capture_output=True, text=True, check=True)
    for (number, cost, profile), golden in zip(json.loads(done.stdout), ENTRIES, strict=True):
        assert number == golden["entry"]["entry"]
        close(cost, golden["entry"]["cost"])
        assert profile == golden["release"]["profile"]


def test_the_releases_of_a_ledger_read_back(tmp_path):
    place = tmp_path / "patients.ledger"
    shutil.copy(HERE / "patients.ledger", place)
    with Ledger(place) as ledger:
        found = [Release.from_json(entry.release) for entry in ledger.entries("patients")]
    for release, golden in zip(found, ENTRIES, strict=True):
        assert release.to_dict()["value"] == golden["release"]["value"]


MEANS = json.loads(gzip.decompress((HERE / "means.json.gz").read_bytes()))


@pytest.mark.parametrize("name", MEANS)
def test_means_and_rates_of_before_tails_were_named_read_back_as_they_were_told(name):
    golden = MEANS[name]
    answer = Answer.from_dict(golden)
    assert answer.question.tails == ""
    assert answer.question.to_dict() == golden["release"]["value"]["question"]
    for row, told in zip(answer.rows, golden["table"], strict=True):
        assert row.keys() == told.keys()
        for key in told:
            assert row[key] == (pytest.approx(told[key], rel=1e-9) if isinstance(told[key], float) else told[key])


QUANTILES = json.loads(gzip.decompress((HERE / "quantiles.json.gz").read_bytes()))


@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles_of_even_bins_read_back_as_they_were(name):
    """They were released before quantiles were searched for."""
    golden = QUANTILES[name]
    answer = Answer.from_dict(golden)
    assert answer.question.bins >= 8
    assert answer.release.to_dict() == golden["release"]
    for row, released in zip(answer.rows, golden["table"], strict=True):
        assert row.keys() == released.keys()
        for key, value in released.items():
            assert row[key] == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value)
