"""The best attack of an audit never does better than the sentence that explains the mechanism says."""

from __future__ import annotations

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.audit import Verdict, audit
from sottovoce.audit.subject import subject_of
from sottovoce.mechanisms.mechanism import MECHANISMS
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.risk import trade_off


def beaten(report, claim: Profile) -> list[tuple]:
    """Return where the attack did better: at a false-alarm rate that it surely kept, hits that it surely had."""
    band = report.band
    some = slice(1, None, 8)  # of the thresholds at which the attack was held to its promise
    false, surely = band.fpr_high[some], 1 - band.fnr_high[some]
    most = 1 - trade_off(claim, false)
    found = [
        (float(f), float(hits)) for f, hits, least in zip(false, surely, most, strict=True) if hits > least + 1e-12
    ]
    told = sv.explain(claim)
    found += [("toss", told.right)] if 50 * (1 + np.max(1 - band.fnr_high - band.fpr_high)) > told.right else []
    for rate, hits in zip(false[::3], surely[::3], strict=True):
        if 1e-6 < rate <= 0.5:
            said = sv.explain(claim, baseline=float(rate))
            found += [(said.before, said.after)] if said.after / said.people < hits else []
    return found


@pytest.mark.parametrize("word", MECHANISMS.kinds)
def test_no_attack_on_a_registered_mechanism_beats_its_sentence(word):
    example = MECHANISMS[word].example()
    report = audit(example, draws=1000, early_stop=False)
    assert report.verdict is not Verdict.VIOLATED
    assert beaten(report, example.profile) == []


@pytest.mark.parametrize("level", [0.4, 2.0])
def test_the_attack_comes_near_the_sentence_and_beats_a_false_one(level):
    """Randomized response: the sentence is exact, so that half the level is a lie which the attack exposes."""
    truth = 1 / (1 + np.exp(-level))

    def response(data, rng, draws):
        return np.where(rng.random(draws) < truth, data[0], 1 - data[0]).astype(float)

    subject = subject_of(response, ([0], [1]), PureProfile(level))
    report = audit(subject, draws=40_000, early_stop=False)
    assert beaten(report, PureProfile(level)) == []
    assert beaten(report, PureProfile(level / 2)) != []
