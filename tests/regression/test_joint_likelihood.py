"""One likelihood over all looks: its derivatives, and its posterior beside brute force and beside the truth."""

import math

import numpy as np
import pytest
from scipy import special, stats

from sottovoce.inference.regression import AdaptiveLooks, Formula
from sottovoce.inference.regression.coefficients import Coefficients
from sottovoce.inference.regression.joint_likelihood import JointLikelihood
from sottovoce.inference.regression.joint_posterior import JointPosterior, JointRegression
from sottovoce.inference.regression.joint_priors import JointPriors
from sottovoce.inference.regression.misfit_covariance import misfit_covariance
from sottovoce.inference.regression.released_look import ReleasedLook
from sottovoce.inference.regression.row_law import RowLaw
from sottovoce.mechanisms import observation_model
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Flag, Number

N = 4000
FACTS = Facts(
    y=Flag(), k=Count(40), z=Number(-4, 4), x=Number(-3, 3), w=Number(-3, 3), f=Flag(), g=Category(("a", "b", "c"))
)


def table(seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(2, N)).clip(-3, 3)
    f, g = rng.random(N) < 0.3, rng.integers(0, 3, N)
    t = -0.5 + 0.8 * x - 0.4 * w + 0.5 * f
    y, z = rng.random(N) < special.expit(t), np.clip(t + rng.normal(size=N), -4, 4)
    k = rng.poisson(np.exp(t)).clip(0, 40)
    return {"y": y, "k": k, "z": z, "x": x, "w": w, "f": f, "g": np.array(["a", "b", "c"])[g]}


def released(text: str, rho: float, family: str = "", seed: int = 3) -> Coefficients:
    found = AdaptiveLooks(Formula(text, FACTS, family), N, rho).release(table(seed), seeded_rng(seed)).value
    assert isinstance(found, Coefficients)
    return found


@pytest.mark.parametrize(
    ("text", "family"), [("y ~ x*w + f + g", ""), ("y ~ x + w", "probit"), ("z ~ x + f:w", ""), ("k ~ x + f", "")]
)
def test_derivatives_are_those_of_the_moments(text: str, family: str) -> None:
    found = released(text, 0.5, family)
    model = JointLikelihood(found.formula, N, found.looks)
    u = np.random.default_rng(2).normal(size=model.size) / 2
    model.aim(u)
    at, step = model.moments(u), 1e-6
    for k in range(model.size):  # moments at two places beside it
        e = step * (np.arange(model.size) == k)
        up, down = model.moments(u + e, slopes=False), model.moments(u - e, slopes=False)
        for name, slopes in (("scores", at.score_slopes), ("matrices", at.matrix_slopes), ("theta", at.theta_slopes)):
            assert slopes is not None
            moved = (getattr(up, name) - getattr(down, name)) / (2 * step)
            assert np.allclose(slopes[:, k], moved, rtol=1e-5, atol=1e-6 * np.abs(slopes).max())


def test_the_law_of_rows_has_the_moments_it_says() -> None:
    """Plain random draws of the law as its docstring has it, beside its pseudo-rows."""
    formula = Formula("y ~ x + w + f", FACTS)
    law, priors = RowLaw(formula.encoding), JointPriors()
    u = np.zeros(law.size)
    first, second = law.blocks
    u[first.start : first.start + 3] = 0.2, 0.3, 1.0
    u[second.start : second.start + 4] = -0.3, 0.1, 0.0, 1.2
    u[first.stop - 1] = 1.5  # f moves x
    u[law.tilted] = -0.5, 0.5
    rng, draws = np.random.default_rng(0), 1_000_000
    shares = -special.log_ndtr(-np.array([-0.5, 0.5]))
    f = rng.random(draws) < shares[1] / shares.sum()
    r = math.tanh(1.2 * math.sqrt(special.polygamma(1, 1.0) / 2))
    e = rng.normal(size=(2, draws))
    e[1] = r * e[0] + math.sqrt(1 - r * r) * e[1]
    spread = [float(law.spread(value)[0]) for value in (0.3, 0.1)]
    skewed = np.exp(priors.skew_sd * e[0] - priors.skew_sd**2 / 2) - 1
    skewed /= math.sqrt(math.expm1(priors.skew_sd**2))
    x = 2 * stats.norm.cdf(0.2) - 1 + spread[0] * (skewed + 1.5 * priors.shift_sd * f)
    w = 2 * stats.norm.cdf(-0.3) - 1 + spread[1] * e[1]
    rows = np.column_stack([np.ones(draws), x.clip(-1, 1), w.clip(-1, 1), f])
    made = law.rows(u, *law.points(np.array([1.0, 0.5]))[:2])
    assert math.isclose(made.weights.sum(), 1.0)
    assert np.allclose((made.rows.T * made.weights) @ made.rows, rows.T @ rows / draws, atol=4e-3)


def infer(formula: Formula, n: int, looks: tuple[ReleasedLook, ...]) -> JointPosterior:
    return observation_model.infer(JointRegression(formula, n), looks)


def brute_force(model: JointLikelihood, posterior: JointPosterior) -> tuple[np.ndarray, np.ndarray]:
    """Truncated importance sampling (Ionides 2008) of the exact density from a widened law around the mode: means and
    deviations of θ.
    """
    psi = misfit_covariance(model, posterior.latent)
    near = model.gauss_newton(posterior.latent, psi, 0.0)
    root = np.linalg.cholesky(np.linalg.inv(near.metric))
    law = stats.multivariate_t(shape=1.3**2 * root @ root.T, df=6, seed=5)
    steps = law.rvs(8000)
    logs = np.array([model.log_density(posterior.latent + step, psi, 0.0) for step in steps]) - law.logpdf(steps)
    weights = np.exp(logs - logs.max())
    weights = np.minimum(weights, weights.mean() * math.sqrt(len(weights)))
    weights /= weights.sum()
    assert 1 / (weights**2).sum() > 200
    thetas = np.array([model.place(posterior.latent + step)[0] for step in steps])
    mean = weights @ thetas
    return mean, np.sqrt(weights @ (thetas - mean) ** 2)


@pytest.mark.parametrize("text", ["y ~ x", "z ~ x"])
def test_the_posterior_is_that_of_brute_force(text: str) -> None:
    """Both know of the formula's being right: then one law of θ remains, and importance sampling finds it."""
    found = AdaptiveLooks(Formula(text, FACTS, misses=0.0), N, 0.1).release(table(4), seeded_rng(4)).value
    assert isinstance(found, Coefficients)
    posterior = infer(found.formula, N, found.looks)
    model = JointLikelihood(found.formula, N, found.looks)
    model.aim(posterior.latent)
    mean, sd = brute_force(model, posterior)
    mine = np.sqrt(np.einsum("k,kii->i", posterior.weights, posterior.covariances))
    assert np.all(np.abs(posterior.mean - mean) < 0.3 * sd)
    assert np.all((mine > 0.8 * sd) & (mine < 1.3 * sd))


@pytest.mark.parametrize("text", ["y ~ x + w", "z ~ x + w"])
def test_all_looks_tell_and_intervals_hold_the_truth(text: str) -> None:
    scale = 4 if text.startswith("z") else 1
    truth = np.array([-0.35, 0.8 * 3, -0.4 * 3]) / scale
    inside, narrower = [], []
    for seed in range(12):
        found = released(text, 0.05, seed=seed)
        posterior, last = infer(found.formula, N, found.looks), infer(found.formula, N, found.looks[-2:])
        sd, alone = (
            np.sqrt(np.einsum("k,kii->i", p.weights, p.covariances + (m := p.means - p.mean)[:, :, None] * m[:, None]))
            for p in (posterior, last)
        )
        inside += (np.abs(posterior.mean - truth)[1:] < 1.96 * sd[1:]).tolist()
        narrower.append(np.log(sd / alone).mean())
    assert np.mean(inside) >= 0.85
    assert np.mean(narrower) < 0


def test_a_rare_flag_that_the_first_looks_hide_is_found() -> None:
    """From where its share seems to be nothing, undamped steps overshoot; the search then ended with a slope of ± 9."""
    n, formula = 20_000, Formula("y ~ x + f", Facts(y=Flag(), x=Number(-1, 1), f=Flag()))
    mechanism = AdaptiveLooks.calibrate(formula, n, ApproxDP(0.5, 1e-5))
    widths = []
    for seed in (0, 2, 7):
        rng = np.random.default_rng(seed)
        x, f = rng.normal(0, 0.5, n).clip(-1, 1), rng.random(n) < 0.05
        data = {"y": rng.random(n) < special.expit(-1.4 + 0.3 * x + 0.3 * f), "x": x, "f": f}
        found = mechanism.release(data, seeded_rng(seed)).value
        widths.append(float(np.diff(found.interval()[2])[0] / 2))
    assert max(widths) < 1.0


def test_the_log_likelihood_of_looks_is_finite_and_prefers_the_mode() -> None:
    found = released("y ~ x", 0.5)
    posterior = infer(found.formula, N, found.looks)
    eta, model = JointLikelihood(found.formula, N, found.looks).eta, JointRegression(found.formula, N)
    far = posterior.latent + 2.0 * (np.arange(len(posterior.latent)) == eta.start + 1)
    near, off = (model.log_likelihood(found.looks, u) for u in (posterior.latent, far))
    assert math.isfinite(near) and near > off


def test_a_secret_number_of_records_is_told_by_the_looks() -> None:
    """The same table with and without its number of records: what is known of θ is nearly the same."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=N).clip(-3, 3)
    data = {"y": rng.random(N) < special.expit(0.3 + 0.8 * x), "x": x}
    formula = Formula("y ~ x", FACTS)
    rows = {}
    for n in (N, None):
        found = AdaptiveLooks(formula, n, 5.0).release(data, seeded_rng(4)).value
        assert JointRegression.knows(formula, n)
        rows[n] = JointRegression(formula, n).posterior(found.looks)
    known, secret = rows[N], rows[None]
    sd = np.sqrt(np.diag(known.covariances[0]))
    assert np.all(np.abs(known.mean - secret.mean) < sd)
    assert np.all(np.abs(secret.mean - [0.3, 2.4]) < 4 * sd)
