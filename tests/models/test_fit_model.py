"""Fitting models of one's own: posteriors against enumeration, evidence, checks, and errors in words."""

import json
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import betaln, gammaln
from scipy.stats import beta

pytest.importorskip("jax")
pytest.importorskip("numpyro")

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from papers.own_models import WORKED

import sottovoce as sv
from sottovoce.inference.custom import ModelFit, Observed, compare_models, masses, observed
from sottovoce.inference.custom.likelihood import log_normaliser
from sottovoce.inference.custom.program import Program, program_for
from sottovoce.inference.custom.sampling import judged
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.mechanisms.jax_compilation import compiler_options
from sottovoce.privacy.errors import InvalidValue

SEEN = Observed([70, 134], n=200, noise="laplace", scale=4.0)  # as in the example of `fit_model`: compiled once
QUICK: Mapping[str, Any] = {"chains": 2, "warmup": 200, "draws": 500}


def two(p: Any) -> Any:
    return [p, 1 - p]


def known(a: float, b: float) -> tuple[float, np.ndarray]:
    """log p(ñ) under a Beta(a, b) prior, and the posterior of the true count, by enumeration."""
    s, law = np.arange(201), IntegerNoise("laplace", 4.0)
    logs = gammaln(201) - gammaln(s + 1) - gammaln(201 - s) + betaln(a + s, b + 200 - s) - betaln(a, b)
    logs = logs + law.log_weight(70 - s) + law.log_weight(134 - (200 - s)) - 2 * log_normaliser(law)
    return float(np.log(np.exp(logs).sum())), np.exp(logs) / np.exp(logs).sum()


def drawn_fit(program: Program, p: np.ndarray, **others: np.ndarray) -> ModelFit:
    """A fit to draws that were made without chains: what is made of draws does not need any."""
    with jax.enable_x64(True):
        names = program.check()
    draws = {"p": p, "probabilities": np.stack([p, 1 - p], axis=-1)} | others
    return ModelFit(program, draws, tuple(names), {"p": {"r_hat": 1.0, "ess": float(p.size)}}, 0, ())


@pytest.fixture(scope="module")
def fair() -> ModelFit:
    return sv.fit_model(two, SEEN, prior={"p": dist.Beta(20, 20)}, **QUICK)


@pytest.fixture(scope="module")
def sure() -> ModelFit:
    """The posterior under a prior that is far off, drawn by enumeration."""
    rng = np.random.default_rng(2)
    count = rng.choice(201, size=(2, 500), p=known(300, 100)[1])
    prior = {"p": dist.Beta(300, 100)}
    return drawn_fit(program_for(two, {"cells": SEEN}, single=True, prior=prior), rng.beta(300 + count, 300 - count))


def test_the_posterior_is_that_of_enumeration(fair: ModelFit) -> None:
    _, weights = known(20, 20)
    s = np.arange(201)
    mean = float(weights @ ((20 + s) / 240))
    square = float(weights @ ((20 + s) * (21 + s) / (240 * 241)))
    assert fair["p"].mean() == pytest.approx(mean, abs=0.006)
    assert fair["p"].std() == pytest.approx((square - mean**2) ** 0.5, rel=0.12)
    low, high = fair.interval("p")
    assert low < mean < high
    assert fair.diagnostics["p"]["r_hat"] < 1.05
    assert fair.warnings == ()


def test_chains_that_failed_are_told_beside_numbers_that_cannot_move() -> None:
    """A composition of one entry has no R-hat, and hid that of any unknown named after it."""
    rng = np.random.default_rng(1)
    fine, one = rng.normal(size=(4, 200)), np.ones((4, 200, 1))
    apart, lost = fine + 9 * np.arange(4)[:, None], np.where(np.arange(4)[:, None] > 0, fine, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert judged({"a": one, "b": fine}, 0)[1] == []
        for failed in ({"a": one, "b": apart}, {"b": apart, "c": one}, {"b": lost}, {"b": one}, {"b": one[:1]}):
            assert "have not converged: R-hat of 'b'" in " ".join(judged(failed, 0)[1])


def test_bayes_factors_are_those_of_enumeration(fair: ModelFit, sure: ModelFit) -> None:
    for fit, prior in ((fair, (20, 20)), (sure, (300, 100))):
        assert fit.evidence.log == pytest.approx(known(*prior)[0], abs=max(5 * fit.evidence.error, 0.02))
        assert fit.evidence.error < 0.1
    factor = fair.evidence.factor(sure.evidence)
    assert factor.log == pytest.approx(known(20, 20)[0] - known(300, 100)[0], abs=0.1)
    assert " to 1" in repr(factor)


def test_a_wrong_model_is_found_by_the_check_and_by_the_comparison(fair: ModelFit, sure: ModelFit) -> None:
    assert fair.check().passed
    assert not sure.check().passed
    assert "NOT" in repr(sure.check())
    table = compare_models({"sure": sure, "fair": fair})
    assert table["model"].tolist() == ["fair", "sure"]
    assert table["probability"][0] > 0.99
    assert table["stacking"][0] > 0.5
    assert table["check"].tolist() == [True, False]


def test_what_a_fit_shows(fair: ModelFit) -> None:
    assert "exact likelihood" in fair.summary()
    assert fair.table["unknown"].tolist() == ["p"]
    data = fair.to_arviz()
    assert data.posterior["p"].shape == (2, 500)
    assert data.log_likelihood["noisy counts"].shape == (2, 500, 2)
    made = fair.predictive()
    assert made.shape == (1000, 2)
    assert made.sum(axis=1).std() > fair.predictive(noise=False).sum(axis=1).std() == 0
    drawing = fair.plot()
    assert "noise" in drawing.axes[0].get_legend().get_texts()[-1].get_text()
    with pytest.raises(InvalidValue, match="has no"):
        fair["q"]


def test_one_model_for_several_releases_a_sum_and_public_data() -> None:
    rng = np.random.default_rng(3)
    sites = {
        name: Observed(rng.multinomial(n, [0.3, 0.7]) + rng.integers(-3, 4, 2), n, "laplace", b)
        for name, n, b in (("north", 3000, 2.0), ("south", 500, 6.0))
    }

    def model() -> Any:
        p = numpyro.sample("p", dist.Uniform(0, 1))
        numpyro.sample("public", dist.Binomial(400, p), obs=125)
        numpyro.sample("sum", sv.numpyro.NoisySum(p, jnp.sqrt(p * (1 - p)), 1000, 20.0), obs=310.0)
        return {name: two(p) for name in sites}

    fit = sv.fit_model(model, sites, **QUICK)
    assert fit["p"].mean() == pytest.approx(0.3, abs=0.025)
    assert fit["p"].std() < 0.0081  # of the larger release alone it is 0.0084
    assert fit.probabilities("south").shape == (1000, 2)
    assert fit.form == "normal, exact"
    with pytest.raises(InvalidValue, match="name one of"):
        fit.probabilities()


def mistakes() -> list[tuple[Any, str]]:
    def three(p: Any) -> Any:
        return jnp.stack([p, 1 - p, 0.0])

    def much(p: Any) -> Any:
        return jnp.stack([p, p])

    def nothing(p: Any) -> Any:
        return jnp.stack([p, 1 - p]) * jnp.log(-1.0)

    def below(p: Any) -> Any:
        return jnp.stack([p + 1, -p])

    def silent(p: Any) -> None:
        del p

    def word(p: Any) -> Any:
        del p
        return "half and half"

    def law(p: Any) -> Any:
        return dist.Normal(p, 1.0)

    return [
        (three, "the release has 2 cells"),
        (much, "sum to .*, not to 1"),
        (nothing, "NaN"),
        (below, "below zero"),
        (silent, "yields nothing"),
        (word, "yields a str that is no array of numbers"),
        (law, "one column of numbers"),
    ]


@pytest.mark.parametrize(("model", "words"), mistakes(), ids=lambda value: getattr(value, "__name__", None))
def test_a_model_with_a_mistake_is_told_so(model: Any, words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        sv.fit_model(model, SEEN, prior={"p": dist.Uniform(0, 1)})


def test_an_error_of_the_models_own_is_told_with_its_cause() -> None:
    def misspelt() -> Any:
        return two({"p": numpyro.sample("p", dist.Uniform(0, 1))}["q"])

    with pytest.raises(InvalidValue, match="an error of its own: KeyError: 'q'") as told:
        sv.fit_model(misspelt, SEEN)
    assert isinstance(told.value.__cause__, KeyError)


def test_other_mistakes_are_told_too() -> None:
    def fixed() -> Any:
        return jnp.array([0.4, 0.6])

    def discrete() -> Any:
        k = numpyro.sample("k", dist.Binomial(3, 0.5))
        return two(k / 3)

    for model, given, words in (
        (fixed, {}, "no sites"),
        (two, {"prior": {}}, "no sites"),
        (discrete, {}, "discrete unknowns"),
        ([0.4, 0.6], {}, "a function"),
        (two, {"prior": {"p": 0.5}}, "NumPyro distribution"),
        (two, {"prior": {"p": dist.Uniform(0, 1)}, "form": "fast"}, "form must be"),
        (two, {"prior": {"p": dist.Uniform(0, 1)}, "chains": 0}, "chains"),
        (lambda a, b: two(a), {}, "takes its cells"),
    ):
        with pytest.raises(InvalidValue, match=words):
            sv.fit_model(model, SEEN, **given)
    with pytest.raises(InvalidValue, match="for each of a, b"):
        sv.fit_model(two, {"a": SEEN, "b": SEEN}, prior={"p": dist.Uniform(0, 1)})


def test_an_answer_of_another_kind_is_refused(tmp_path: Path) -> None:
    facts = sv.Facts(age=sv.Number(0, 110))
    with sv.Curator(
        pd.DataFrame({"age": [1.0, 50.0, 70.0] * 30}), tmp_path / "l", sv.PureDP(5), facts=facts, dataset="d"
    ) as curator:
        answer = curator.mean("age", spend=0.5)
    with pytest.raises(InvalidValue, match="Got an answer of mean"):
        sv.fit_model(two, answer, prior={"p": dist.Uniform(0, 1)})
    with pytest.raises(InvalidValue, match="Got a int"):
        sv.fit_model(two, 3, prior={"p": dist.Uniform(0, 1)})
    with pytest.raises(InvalidValue, match=r"there is no file .*nowhere.json; a model is fitted to an answer"):
        observed(tmp_path / "nowhere.json")
    (tmp_path / "words.json").write_text("words", encoding="utf-8")
    with pytest.raises(InvalidValue, match=r"words.json holds no JSON; a model is fitted to an answer"):
        observed(tmp_path / "words.json")
    for counts in ([1.5, 2], [3], [[1, 2], [3, 4]], ["a", "b"]):
        with pytest.raises(InvalidValue, match="noisy counts"):
            Observed(counts, 10, "laplace", 1.0)  # type: ignore[arg-type]


def test_records_in_no_cell_are_left_out_of_the_model(tmp_path: Path) -> None:
    facts = sv.Facts(age=sv.Number(0, 100))
    ages = [10.0] * 300 + [70.0] * 100 + [None] * 100
    with sv.Curator(pd.DataFrame({"age": ages}), tmp_path / "l", sv.PureDP(5.0), facts=facts, dataset="d") as curator:
        answer = curator.counts(sv.Cells(facts, {"age": 2}), spend=sv.PureDP(2.0))
    seen = observed(answer)
    assert (seen.size, seen.n) == (2, 500)
    assert seen.outside == pytest.approx(100, abs=15)
    read, prior = json.loads(json.dumps(answer.to_dict())), {"p": dist.Uniform(0, 1)}
    with pytest.raises(InvalidValue, match="chains must be"):  # of one answer, that is, not of a mapping of several
        sv.fit_model(two, read, prior=prior, chains=0)
    # Every p and share outside on a grid: N(nπ, n(diag π - ππ') + σ²I) with π = (p(1-o), (1-p)(1-o), o), flat priors.
    p, out = (np.arange(1, 400, 2) / 400)[:, None, None], (np.arange(1, 400, 2) / 400)[:, None]
    shares = np.concatenate(np.broadcast_arrays(p * (1 - out), (1 - p) * (1 - out), out), axis=-1)
    spread = 500 * (shares[..., None] * np.eye(3) - shares[..., None] * shares[..., None, :])
    spread += seen.law.variance * np.eye(3)
    gap = np.array([*seen.counts, seen.outside]) - 500 * shares
    logs = -0.5 * ((gap * np.linalg.solve(spread, gap[..., None])[..., 0]).sum(-1) + np.linalg.slogdet(spread)[1])
    logs -= 1.5 * np.log(2 * np.pi)
    rng = np.random.default_rng(4)
    place = rng.choice(logs.size, size=(2, 500), p=(np.exp(logs) / np.exp(logs).sum()).ravel())
    drawn = (np.stack(np.divmod(place, 200)) + rng.uniform(size=(2, *place.shape))) / 200
    assert drawn.mean(axis=(1, 2)) == pytest.approx([0.75, 0.2], abs=0.05)  # of the 400, not of the 500
    fit = drawn_fit(
        program_for(two, {"cells": observed(read)}, single=True, prior=prior, form="normal"), drawn[0], outside=drawn[1]
    )
    assert fit.evidence.error < 0.2
    assert fit.evidence.log == pytest.approx(np.log(np.exp(logs).mean()), abs=5 * fit.evidence.error)


def test_a_missing_extra_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpyro", None)
    for name in [name for name in sys.modules if name.startswith("sottovoce.inference.custom")]:
        monkeypatch.delitem(sys.modules, name)  # as if nobody had asked for it yet
    for name in ("fit_model", "numpyro", "models"):
        monkeypatch.delitem(vars(sv), name, raising=False)
    for name in ("fit_model", "numpyro"):
        with pytest.raises(sv.SottovoceError) as told:
            getattr(sv, name)
        (line,) = str(told.value).splitlines()
        assert line.endswith("pip install 'sottovoce[models]'")


@pytest.mark.parametrize("name", [name for name in WORKED if name != "SIR epidemic"])  # the guide fits that one
def test_the_worked_models_yield_probabilities_and_slopes(name: str) -> None:
    worked = WORKED[name]
    counts = np.full(worked.cells.size, 2000 // worked.cells.size)
    with jax.enable_x64(True):
        seen = Observed(counts, 2000, "laplace", 2.0, cells=worked.cells)
        program = program_for(worked.model, {"cells": seen}, single=True, form="normal")
        names = program.check()
        start = program.back(program.starts[0])
        potential = jax.jit(
            jax.grad(lambda z: numpyro.infer.util.potential_energy(program, (program.counts,), {}, z)),
            compiler_options=compiler_options(seldom=True),
        )
        slopes = jax.tree.leaves(potential(start))
    assert set(start) == set(names)
    assert all(np.all(np.isfinite(slope)) for slope in slopes)


def test_masses_by_three_roads_agree() -> None:
    edges = [0.0, 1.0, 2.5, 4.0, 8.0, 12.0]
    with jax.enable_x64(True):
        gamma = dist.Gamma(2.0, 0.7)

        class Bare:
            log_prob, batch_shape, support = staticmethod(gamma.log_prob), (), gamma.support

        # As in a model: under one compiled program rather than in a hundred small ones.
        by_cdf, by_rule, batch, one, counts, terms = jax.jit(
            lambda: (
                masses(gamma, edges),
                masses(Bare(), edges),
                masses(dist.Normal(jnp.array([1.0, 5.0]), 2.0), edges),
                masses(dist.Normal(5.0, 2.0), edges),
                masses(dist.Poisson(3.0), [0, 1, 2, 5, float("inf")]),
                jnp.exp(dist.Poisson(3.0).log_prob(jnp.arange(60))),
            )
        )()
        assert np.allclose(by_cdf, by_rule, atol=1e-6)
        assert float(by_cdf.sum()) == pytest.approx(1.0)
        assert batch.shape == (2, 5)
        assert np.allclose(batch[1], one)
        assert np.allclose(counts, [terms[0], terms[1], terms[2:5].sum(), terms[5:].sum()])
        with pytest.raises(InvalidValue, match="cdf or log_prob"):
            masses(3.0, edges)


@pytest.mark.parametrize("counts", [(70, 130), (6000, 14000)], ids=["summed out", "as normal"])
def test_next_to_no_noise_gives_the_posterior_of_the_counts_themselves(counts: tuple[int, int]) -> None:
    """A Gaussian scale of .05 is none: Beta(1, 1) becomes Beta(1 + x, 1 + n - x). Half of all steps diverged."""
    seen = Observed(counts, n=sum(counts), noise="gaussian", scale=0.05)
    fit = sv.fit_model(two, seen, prior={"p": dist.Beta(1, 1)}, **QUICK)
    law = beta(1 + counts[0], 1 + counts[1])
    assert fit.form == ("exact" if sum(counts) == 200 else "normal")
    assert (fit.diverged, fit.warnings) == (0, ())
    error = law.std() / np.sqrt(fit.diagnostics["p"]["ess"])
    assert abs(fit["p"].mean() - law.mean()) < 5 * error
    assert fit["p"].std() == pytest.approx(law.std(), rel=0.2)
