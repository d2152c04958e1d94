"""What one must know to read the coefficients of a regression, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sottovoce.mechanisms.release import Release
from sottovoce.privacy.shares import percent
from sottovoce.records.facts.encodings import levels_of
from sottovoce.records.readings.families import LinearFamily
from sottovoce.service.answers.digits import formatted
from sottovoce.service.answers.out_of_bounds_levels import beyond_note
from sottovoce.service.answers.period_words import charged_note
from sottovoce.service.answers.protection import nobody_note, protection_note
from sottovoce.service.answers.repeated_question import repeat_note

if TYPE_CHECKING:  # the room needs an extra
    from sottovoce.inference.regression.coefficients import Coefficients
    from sottovoce.inference.regression.formula import Formula


_FITTING = "a formula that misses a little is allowed for; where it misses much, an ordinary regression may lie outside"
"""Said unless one column of levels is all that explains, which fits whatever the rows weigh."""
_UNFITTING = (
    "the formula seems to fit badly: records with unusual values point elsewhere than the others. Intervals are wider "
    "for it, which the column privacy holds as well, and may still miss what an ordinary regression finds; let a "
    "number bend (its square as a column of its own, in the file) or ask by its bands"
)
"""Said where much more is missed than formulas miss on average."""
_STATED = (
    "a formula that misses {:g} of how far responses vary is allowed for; where it misses more, an ordinary regression "
    "may lie outside"
)
"""Said instead where who asked said how much."""
_RIGHT = "the formula was taken to be right; where it is not, intervals hold less often"
"""Said where who asked said so."""
_WRONG = (
    "the formula seems to fit badly: records with unusual values point elsewhere than the others. With misses={:g} "
    "intervals do not allow for it and hold less often; without it they do"
)
"""Said where who asked trusted it more than formulas deserve."""
_BADLY = 1.5
"""So many times as much."""
_HIDDEN = (
    "noise hides {}: for all that is seen values may be nearly alike and a coefficient large, as intervals allow; "
    "what is predicted of {} stays within its bounds, and more records or a larger share tell more. So it looks, too, "
    "where no record has such a value, or the data write it otherwise than the facts do: compare their words"
)
"""Said where intervals are wide for what is believed of columns beforehand; of no records they are that alone."""
_PRIOR = "prior: each column moves {} by 0 ± {:.3g} over the records (a standard deviation); prior= changes it"
"""Said of every regression with columns: where noise hides one, its interval is as wide as this allows."""
_MOVED = {
    "logistic": "the log-odds",
    "multinomial": "the log-odds",
    "ordinal": "the log-odds",
    "poisson": "the log-rate",
    "linear": "the response",
    "hazard": "the log hazard",
}
_OFTEN = 0.05
_REACHING = (
    "many counts reach their public bound, {:g}, or by how they vary much lies beyond it, and they are taken to be cut "
    "there: where none can be larger, as of so many out of {:g}, rates are told too high, and where few counts are far "
    "larger, too low. Then state a bound that lies farther out"
)
"""Said where more than this part of counts would reach it, or of all that is counted would lie beyond it, by the law
that is told of them."""
_PER = "rates are per unit of {}, e to the intercept where all terms are zero; told by the last look alone"
"""Said of counts with an exposure."""
_PROPORTIONAL = (
    "hazard ratios of {}, taken to be the same at all times, over a baseline that is constant between the cuts; "
    "told by the last two looks"
)
"""Said of hazards."""
_HIGHER = "odds ratios of a higher {}, taken to be the same wherever it is cut (proportional odds)"
"""Said of ordered responses."""
_VARIED = "overdispersion: counts of mean μ vary by μ + αμ² (negative binomial), α = {} ({}: {} to {}); 0 is Poisson's"
"""Said of counts."""
NAMED = 6
"""So many terms are named that noise hides."""


def regression_notes(
    posterior: Coefficients,
    rows: Sequence[Mapping[str, Any]],
    release: Release,
    level: float,
    earlier: int | None,
    narrower: Sequence[str],
) -> list[str]:
    """Return what is said below the table of a regression; `narrower` says what would narrow its intervals."""
    question, cut = posterior.formula, posterior.cut
    result: list[str] = []
    result += _of_terms(question)
    if cut is not None:
        said = question.model.cutting if question.sees_tails else question.model.unmeasured
        result.append(said.format(cut))
    if (varied := posterior.overdispersion(level)) is not None:
        cells = numbers_of(dict(zip(("estimate", "sd", "low", "high"), (varied[0], 0.0, *varied[1:]), strict=True)))
        result.append(_VARIED.format(cells[0], percent(level), cells[2], cells[3]))
    if (posterior.full or 0.0) > _OFTEN:
        high = float(question.response.high)  # type: ignore[attr-defined]
        result.append(_REACHING.format(high, high))
    if len(question.design.names) > 1 or any(levels_of(item) is None for item in question.design.columns):
        allowed, usual = question.misses or 0.0, question.model.missed
        if (posterior.misses or 0.0) > _BADLY * max(allowed, usual):
            result.append(_WRONG.format(allowed) if allowed < usual else _UNFITTING)
        elif question.stated is None:
            result.append(_FITTING)
        else:
            result.append(_STATED.format(question.stated) if question.stated else _RIGHT)
    if hidden := [row["term"] for row in rows if row["privacy_share"] is None]:
        more = f" and {len(hidden) - NAMED} more" if len(hidden) > NAMED else ""
        result.append(_HIDDEN.format(", ".join(hidden[:NAMED]) + more, question.parsed.response))
    result += narrower
    result += _of_prior(question)
    if (beyond := beyond_note(posterior)) is not None:
        result.append(beyond)
    closing = (
        question.whose,
        nobody_note(question.facts),
        protection_note(release.profile, release.mechanism),
        charged_note(release.mechanism),
        repeat_note(earlier),
    )
    return [*result, *(note for note in closing if note is not None)]


def _of_terms(question: Formula) -> list[str]:
    """Return what coefficients speak of."""
    said = {
        f"positive where {question.modelled} is likelier": question.modelled,
        f"each beside {question.reference}": question.reference,
        _PROPORTIONAL.format(getattr(question, "event", "")): question.family == "hazard",
        _HIGHER.format(question.parsed.response): question.family == "ordinal",
        _PER.format(question.exposure): question.exposure,
    }
    return [note for note, holds in said.items() if holds]


def _of_prior(question: Formula) -> list[str]:
    """Return how wide slopes may be before anything is seen, where there are any."""
    if not any(question.design.entries):
        return []
    half = question.model.scale.half if isinstance(question.model, LinearFamily) else 1.0
    return [_PRIOR.format(_MOVED.get(question.family, "the linear predictor"), half * question.slope_sd)]


def numbers_of(row: Mapping[str, object]) -> list[str]:
    """Return estimate, sd, low and high with as many digits as the interval bears out."""
    return formatted(row, names=("estimate", "sd", "low", "high"))
