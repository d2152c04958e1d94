"""What the page's form says, read into a question, and what it says at first."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

from sottovoce.faces.server.questions import ServerQuestion
from sottovoce.mechanisms.conjugate.named_systems import FORMULAS, SYSTEMS, column_systems
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.filter import GAUSSIAN, Order, PrivacyFilter
from sottovoce.privacy.promises import ApproxDP, GaussianDP, Promise, PureDP, RenyiDP, ZeroConcentratedDP
from sottovoce.records.facts import Column

SEVERAL = "*"
"""What the form says for a column where a model names several itself."""
_MOST_FIELDS = 60


def read_form(body: bytes) -> dict[str, str]:
    """Return the fields of a posted form; the last of equal names counts."""
    try:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except (UnicodeDecodeError, ValueError):
        raise InvalidValue("the form cannot be read") from None


def purse_of(status: Mapping[str, Any]) -> PrivacyFilter:
    """Return the privacy filter of a budget, with what is spent of it, from what `Service.remaining` says."""
    budget, remaining = Promise.from_dict(status["budget"]), Promise.from_dict(status["remaining"])
    order: Order | None = None
    if isinstance(budget, ApproxDP):
        order = (
            remaining.order
            if isinstance(remaining, RenyiDP)
            else GAUSSIAN
            if isinstance(remaining, GaussianDP)
            else None
        )
    purse = PrivacyFilter(budget, order)
    spent = status["spent"] * purse.limit
    return PrivacyFilter(budget, order, [spent] if spent > 0 else [])


def share_target(purse: PrivacyFilter, percent: float) -> Promise:
    """Return the promise that costs this share of a budget, in the notion that the budget is counted in.

    >>> str(share_target(PrivacyFilter(PureDP(2.0)), 10.0))
    'pure:0.2'
    """
    return purse.share(percent / 100)


def scaled(target: Promise, factor: float) -> Promise:
    """Return a promise of the same kind, about the same neighbours, its strength times a factor."""
    match target:
        case ApproxDP(epsilon, _) | RenyiDP(_, epsilon) | PureDP(epsilon):
            return replace(target, epsilon=epsilon * factor)
        case ZeroConcentratedDP(rho):
            return replace(target, rho=rho * factor)
        case GaussianDP(mu):
            return replace(target, mu=mu * factor)
    raise InvalidValue(f"no promise of this kind can be scaled: {target}")


def question_of(form: Mapping[str, str], purse: PrivacyFilter | None, most_draws: int) -> ServerQuestion:
    """Return the question in a form, or raise `InvalidValue` naming the field that makes no sense."""
    kind = form.get("system", "")
    settings: dict[str, Any] = {"kind": kind}
    known = column_systems()
    column = form.get("column") or None
    if column == SEVERAL:
        settings, column = _settings(form.get("settings", "")) | {"kind": kind}, None
    for name in known[kind].settings if kind in known else ():
        text = form.get(name, "").strip()
        if text:
            several = [number_in(name.replace("_", " "), part) for part in text.split(",")]
            settings[name] = several if len(several) > 1 else several[0]
    draws = number_in("draws", form.get("draws") or "1")
    if draws != int(draws) or not 1 <= draws <= most_draws:
        raise InvalidValue(f"draws must be a whole number from 1 to {most_draws}. Got {draws:g}")
    return ServerQuestion(
        system=settings,
        target=_target(form, purse).exact(),
        mechanism=form.get("mechanism") or None,
        column=column,
        where=form.get("where", "").strip() or None,
        missing=_missing(form.get("missing", "").strip()),
        query=form.get("query", "").strip() or "theta",
        draws=int(draws),
    )


def _settings(text: str) -> dict[str, Any]:
    try:
        result = json.loads(text or "{}")
    except (ValueError, RecursionError):
        result = None
    if not isinstance(result, dict):
        raise InvalidValue('the columns of a model are JSON such as {"label": "smoker", "features": ["age", "ward"]}')
    return result


def several_systems() -> list[dict[str, str]]:
    """Return the systems that name several columns themselves, each with what it takes, as its code says.

    A formula is asked by its verb.
    """
    known, result = {*FORMULAS, *column_systems(), *SYSTEMS.not_installed()}, []
    for word in SYSTEMS.kinds:
        make = None if word in known else getattr(SYSTEMS[word], "from_facts", None)
        if make is not None:
            takes = (make.__doc__ or "").strip().partition("\n")[0].partition(": ")[2] or "``tables`` of columns."
            result.append({"word": word, "takes": re.sub("`+", "", takes)})
    return result


def imagined_mean(form: Mapping[str, str]) -> float | list[float] | None:
    """Return the mean that the records are imagined to have, for the forecast; None where the form says none."""
    text = form.get("imagined", "").strip()
    if not text:
        return None
    numbers = [number_in("imagined mean", part) for part in text.split(",")]
    return numbers if len(numbers) > 1 else numbers[0]


def _target(form: Mapping[str, str], purse: PrivacyFilter | None) -> Promise:
    word, strength = form.get("promise", "share"), number_in("strength", form.get("strength", ""))
    second = form.get("second", "").strip()
    if word == "share":
        if purse is None:
            raise InvalidValue("you have no budget here to take a share of; choose another promise")
        if not 0 < strength <= 100:
            raise InvalidValue(f"the share of your budget must lie above 0 and at most at 100 %. Got {strength:g}")
        return share_target(purse, strength)
    if strength <= 0:
        raise InvalidValue(f"the strength of a promise must be > 0. Got {strength:g}")
    match word:
        case "approx":
            return ApproxDP(strength, number_in("delta", second or "1e-6"))
        case "renyi":
            return RenyiDP(number_in("order", second or "2"), strength)
        case "pure":
            return PureDP(strength)
        case "zcdp":
            return ZeroConcentratedDP(strength)
        case "gaussian":
            return GaussianDP(strength)
    raise InvalidValue(f"no promise is called {word!r}")


def number_in(name: str, text: str) -> float:
    """Return the number that a field of a form holds."""
    try:
        value = float(text)
    except ValueError:
        raise InvalidValue(f"{name} must be a number. Got {text.strip()!r}") from None
    if not math.isfinite(value):
        raise InvalidValue(f"{name} must be finite. Got {text.strip()!r}")
    return value


def _missing(text: str) -> str | float | bool | None:
    if not text:
        return None
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text


def first_values(facts: Mapping[str, Any], *, share: bool) -> dict[str, str]:
    """Return what the form says before anyone typed: the first column and a modest share of the budget."""
    column = next((column for column in facts["columns"] if column["systems"]), None)
    values = {"column": "" if column is None else column["name"], "query": "theta", "draws": "1", "where": ""}
    values |= {"system": likely_system(column), "missing": "", "imagined": "", "settings": "", "mechanism": ""}
    values |= {"promise": "share", "strength": "5"} if share else {"promise": "approx", "strength": "0.5"}
    values |= {"second": ""}
    return dict.fromkeys((field["name"] for field in prior_fields()), "") | values | prior_values(column)


def prior_fields() -> list[dict[str, Any]]:
    """Return the fields for the numbers of a prior, each with the systems that take it."""
    result: dict[str, dict[str, Any]] = {}
    for word, kind in column_systems().items():
        for name, setting in kind.settings.items():
            field = result.setdefault(name, {"name": name, "label": setting.label, "systems": []})
            field["systems"].append(word)
    return list(result.values())


def prior_values(column: Mapping[str, Any] | None) -> dict[str, str]:
    """Return a prior that says little, for each field of any system of a column; made of public facts only."""
    values: dict[str, str] = {}
    for word in [likely_system(None)] if column is None else column["systems"]:
        kind = column_systems()[word]
        usual = kind.usual(None if column is None else Column.from_dict(column["facts"])) or {}
        values |= {name: _written(usual[name]) for name in kind.settings if name in usual}
    return values


def _written(value: object) -> str:
    return ", ".join(f"{item:.6g}" for item in value) if isinstance(value, list) else f"{value:.6g}"


def likely_system(column: Mapping[str, Any] | None) -> str:
    """Return the system that a column most likely calls for: a mean where numbers spread far, else its first."""
    if column is None:
        return next((word for word, kind in column_systems().items() if kind.usual(None) is not None), "")
    systems: list[str] = column["systems"]
    fact = column["facts"]
    spread = fact["kind"] == "number" or fact.get("high", 0) > 30
    return "normal-mean" if spread and "normal-mean" in systems else next(iter(systems), "")
