"""A release: the value that leaves the house, with what it cost and how it was made."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sottovoce.mechanisms.arviz_groups import arviz_groups
from sottovoce.mechanisms.conjugate.distributions import Distribution
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import canonical, json_object, restoring
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.registry import Registry

POSTERIORS = Registry(
    "released value",
    {
        "noisy": "sottovoce.mechanisms.noisy_posterior:NoisyPosterior",
        "noisy tables": "sottovoce.inference.latent.count_tables:NoisyTables",
        "gaussian": "sottovoce.inference.regression.gaussian_posterior:GaussianPosterior",
        "coefficients": "sottovoce.inference.regression.coefficients:Coefficients",
        "chosen": "sottovoce.inference.regression.best_of:Chosen",
        "softmax": "sottovoce.inference.regression.softmax:SoftmaxPosterior",
        "hidden markov posterior": "sottovoce.inference.latent.hidden_markov_posterior:HiddenMarkovPosterior",
        "network posterior": "sottovoce.inference.latent.network_posterior:NetworkPosterior",
        "random field posterior": "sottovoce.inference.latent.random_field_posterior:RandomFieldPosterior",
        "noisy cells": "sottovoce.inference.cells.cells_posterior:CellsPosterior",
        "quantile search": "sottovoce.inference.cells.quantile_posterior:QuantilePosterior",
        "smooth mean": "sottovoce.inference.cells.smooth_mean_posterior:SmoothMeanPosterior",
        "smooth groups": "sottovoce.inference.cells.smooth_groups_posterior:SmoothGroupsPosterior",
        "class posterior": "sottovoce.inference.latent.class_posterior:ClassPosterior",
        "noisy marginals": "sottovoce.inference.synthesis.table_marginals:NoisyMarginals",
        "noisy value": "sottovoce.mechanisms.function_statistic:NoisyValue",
    },
    "sottovoce.posteriors",
)
"""Every kind of released value that is more than numbers, by the word under `posterior` (or `value`) of its JSON."""


@dataclass(frozen=True, repr=False)
class Release:
    """What a mechanism lets out.

    Attributes
    ----------
    value
        A number, an array of samples (draws first), or a whole posterior.
    profile
        What this release provably costs.
    mechanism
        The mechanism in plain words and public numbers.
    parameter
        What the value is about, such as ``theta``; names the variable in ArviZ.
    reproducible
        True when a seeded generator made it: fit for experiments, never to publish.
    """

    value: Any
    profile: Profile
    mechanism: Mapping[str, Any]
    parameter: str = "theta"
    reproducible: bool = False

    def __repr__(self) -> str:
        note = ", made with a seed: never to publish" if self.reproducible else ""
        return f"Release({self.parameter}: {_words(self.value)}, by {self.mechanism.get('mechanism')}{note})"

    def _repr_html_(self) -> str:
        from html import escape  # noqa: PLC0415 - brings the names of all characters

        rows = [
            (self.parameter, _words(self.value)),
            ("mechanism", str(self.mechanism.get("mechanism"))),
            ("cost", cost_in_words(self.profile)),
        ]
        rows += [("seeded", "fit for experiments, never to publish")] if self.reproducible else []
        remaining = 'style="text-align:left"'
        body = "".join(f"<tr><td {remaining}>{escape(a)}</td><td {remaining}>{escape(b)}</td></tr>" for a, b in rows)
        return f"<table><caption {remaining}><strong>Release</strong></caption><tbody>{body}</tbody></table>"

    def to_dict(self) -> dict[str, object]:
        """Return the release as plain values."""
        return {
            "value": _plain(self.value),
            "parameter": self.parameter,
            "mechanism": _plain(dict(self.mechanism)),
            "profile": self.profile.to_dict(),
            "reproducible": self.reproducible,
        }

    @cached_property
    def text(self) -> str:
        """The release as ledgers record it: the one JSON text of its plain values, made once."""
        return canonical(self.to_dict())

    def to_json(self, indent: int | None = None) -> str:
        """Return the release as JSON."""
        return json.dumps(self.to_dict(), indent=indent)

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> Release:
        """Read a release from `to_dict`'s form: numbers, arrays of samples, distributions, noisy
        posteriors.
        """
        with restoring("a release"):
            return Release(
                _value(state["value"]),
                Profile.from_dict(state["profile"]),
                dict(state["mechanism"]),
                str(state["parameter"]),
                bool(state["reproducible"]),
            )

    @staticmethod
    def from_json(text: str) -> Release:
        """Read a release from `to_json`'s form."""
        return Release.from_dict(json_object(text, "a release"))

    def to_arviz(self, draws: int = 1000, terms: Sequence[str] | None = None) -> Any:
        """Return the samples as ArviZ has them; a whole posterior is sampled `draws` times.

        `terms` names the entries of a sample that is a vector.
        """
        value = self.value.sample(draws) if hasattr(self.value, "sample") else self.value
        array = np.atleast_1d(np.asarray(value, dtype=np.float64))
        if array.ndim == 0 or array.size == 0:
            raise InvalidValue("there is no sample to export")
        attributes = {"profile": self.profile.to_json(), "reproducible": int(self.reproducible)}
        named: dict[str, Any] = {}
        if terms is not None:
            named = {"coords": {"term": list(terms)}, "dims": {self.parameter: ["term"]}}
        return arviz_groups({"posterior": {self.parameter: array[None, ...]}}, attrs=attributes, **named)


def _words(value: Any) -> str:
    """Return a released value in a few words: a number, how many numbers, or a posterior's mean and interval."""
    if isinstance(value, int | float | np.number):
        return f"{float(value):.4g}"
    if isinstance(value, np.ndarray):
        return f"{value.item():.4g}" if value.ndim == 0 else f"{value.shape[0]} samples" + _each(value.shape[1:])
    kind = type(value).__name__
    if _one_number(value):
        low, high = np.ravel(value.interval(0.95))
        return f"{float(value.mean):.4g} ({low:.4g} to {high:.4g})"
    return f"a {kind}" if not isinstance(value, Mapping | str) else str(value)[:80]


def _one_number(value: Any) -> bool:
    """Say whether a value is the posterior of one number that is quickly told; others are told by their kind."""
    return np.size(getattr(value, "noisy", ())) == 1 and np.ndim(value.mean) == 0


def _each(shape: tuple[int, ...]) -> str:
    return f" of {' by '.join(map(str, shape))} numbers" if shape else ""


def cost_in_words(profile: Profile) -> str:
    """Return a profile at one place, rounded up, and its basis."""
    pure = float(profile.pure())
    shown = math.nextafter(pure, math.inf) if math.isfinite(pure) else float(profile.epsilon(1e-6))
    if not math.isfinite(shown):
        return f"a {profile.word} profile ({profile.basis})"
    up = math.ceil(shown * 1e4) / 1e4
    return f"ε = {up:.10g}{'' if math.isfinite(pure) else ' at δ = 1e-6'} ({profile.basis})"


def _value(plain: Any) -> Any:
    if isinstance(plain, Mapping) and "distribution" in plain:
        return Distribution.from_dict(plain)
    word = plain.get("posterior", plain.get("value")) if isinstance(plain, Mapping) else None
    if word is not None:
        return POSTERIORS[word].from_dict(plain)
    return np.asarray(plain, dtype=np.float64) if isinstance(plain, list) else plain


_ALREADY_PLAIN = (float, int, str, bool, type(None))


def _plain(value: object) -> Any:
    if type(value) in _ALREADY_PLAIN:  # most are, and there may be thousands
        return value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
