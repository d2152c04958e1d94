"""Priors of the joint likelihood of a regression's looks: every number that decides an answer, and where it is from.

The priors of the rows are those of a survey of 315 numeric columns of 78 public tables, in units in which the public
bounds of a column are −1 and 1 (`benchmarks/spreads.py`, `docs/theory/column-spreads.md`).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["JointPriors"]


@dataclass(frozen=True)
class JointPriors:
    """Hyperparameters of the rows' law, of how far a formula misses, and of residuals.

    Attributes
    ----------
    spread_median, spread_scale, spread_freedom
        log s of a column's standard deviation s is Student t about log of the median. The survey fits a normal law of
        log s with middle −2.02 and scale .70; four degrees of freedom in its place allow for owners whose bounds are
        far more generous (Gelman et al., *Bayesian Data Analysis*, ch. 17). Means are uniform between the bounds.
    narrowest
        A slope counts by what it does to the linear predictor over a spread no smaller than this: of a column that
        spreads over less than a thousandth of its stated bounds the bounds are wrong, and the slope is not boundless.
    skew_sd
        κ ~ N(0, skew_sd²) of the shifted log-normal law of a column (survey: .44; .37 without the wildest columns).
    correlation_shape
        η of the LKJ law of the correlations of numbers (Lewandowski, Kurowicka & Joe 2009): 1 is uniform, the survey
        fits 3.
    shift_sd
        How many standard deviations a flag or a level moves the mean of a number, as a standard deviation: a medium
        effect (Cohen 1988). Shares of flags and levels are uniform (Dirichlet of ones; survey: a = .98).
    association_sd
        The same of log odds ratios between two flags or levels.
    misfit_log_mean, misfit_log_sd
        log τ of how far the formula misses, as a part of how far responses vary about it, is normal about log of the
        formula's `misses` plus the mean: with −1 and 1, E τ² = `misses`², for E e^{2(u − 1)} is 1.
    dispersion_median, dispersion_log_sd
        Log-normal law of a linear regression's residual standard deviation, in half widths of the response's bounds.
    tail_ratio, tail_median, tail_sd
        Residuals are normal but for a share Φ(u) whose deviation is `tail_ratio` times as large, the contaminated
        normal law of Tukey (1960), u normal about Φ⁻¹(`tail_median`).
    residual_skew_sd
        κ ~ N(0, residual_skew_sd²) of the shifted log-normal law of residuals: κ = 1, whose skewness is 6, and 1.5, as
        costs and lengths of stay have it, lie one and one and a half deviations out.
    count_dispersion_shape
        The dispersion α of counts is Lomax, P(α > a) = (1 + a)^−shape: with 3 its mean is one half, and nights in a
        hospital, of which most people have none, vary as with an α of thirty.
    count_tail_scale, count_tail_freedom
        λ, how much more counts lose beyond where they are cut than a negative binomial law's, is Student t. Of rates of
        16 other laws (inverse Gaussian, Weibull, Pareto, none for a part of people, a few many times as large), where
        dispersions are what cut counts vary by, nine in ten lie within ±.23, half within ±.03 and one at .93. Where one
        in fifty has twenty times as many as others it is .3 to 2.5, which noise may hide: hence the wider scale.
    count_variation_error
        What cut counts vary by, beside a negative binomial law's that varies as much where they are cut elsewhere: of
        those laws dispersions differ by a quarter from one cut to the next, and what counts vary by by a tenth.
    person_variation_error
        By what part the variation of averages of a person's rows may differ, entry by entry, from what the design
        effects of its columns make of it (`PersonAverages`): they are exact where residuals within a person are as
        alike whatever the rows are. A tenth, as of counts.
    missing_median, missing_sd
        The share of records in which a value is missing is Φ(u), u normal about Φ⁻¹(`missing_median`).
    secret_log_sd
        Of a secret number of records the logarithm is normal about that of a first guess: a factor of 400 either way.
    nugget
        The relative error of sums over pseudo-rows in place of records, as a part of √(HᵢᵢHⱼⱼ): 288 and 336 of them, at
        the mode, against 10⁶ random rows are off by .001 to .004 (root mean square over the entries of the worst look)
        where columns are normal, exponential or log-normal, by .010 and .017 where all have t₃ tails and common shocks,
        which the law does not have (`benchmarks/sharpness/pseudo_rows.py`). It is the worst of these, rounded up.
    """

    spread_median: float = 0.133
    spread_scale: float = 0.70
    spread_freedom: int = 4
    narrowest: float = 1e-3
    skew_sd: float = 0.4
    correlation_shape: float = 1.0
    shift_sd: float = 0.5
    association_sd: float = 1.0
    misfit_log_mean: float = -1.0
    misfit_log_sd: float = 1.0
    dispersion_median: float = 0.2
    dispersion_log_sd: float = 1.2
    tail_ratio: float = 3.0
    tail_median: float = 0.05
    tail_sd: float = 0.8
    residual_skew_sd: float = 1.0
    count_dispersion_shape: float = 3.0
    count_tail_scale: float = 0.3
    count_tail_freedom: int = 2
    count_variation_error: float = 0.1
    person_variation_error: float = 0.1
    missing_median: float = 0.01
    missing_sd: float = 1.0
    secret_log_sd: float = 3.0
    nugget: float = 0.02
