"""Abalone, Adult and MNIST 3-against-8, prepared as in Geumlek et al. 2017 but with bounds fixed in advance.

Features are scaled to [−½, ½] by the bounds below (common knowledge of the units, not read off the file), clipped, and
each row is then scaled to norm 1, which needs no other row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from papers.data import ADULT_BOUNDS, adult, data_path
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["Regression", "load_regression"]

_ABALONE = ((0.0, 0.9), (0.0, 0.7), (0.0, 0.3), (0.0, 3.0), (0.0, 1.5), (0.0, 0.8), (0.0, 1.0))
"""Lengths in units of 200 mm, weights of 200 g: no abalone is longer than 18 cm or heavier than 600 g."""

_ADULT_CHOICES = {
    "workclass": "Private|Self-emp-not-inc|Self-emp-inc|Federal-gov|Local-gov|State-gov|Without-pay|Never-worked",
    "education": "Bachelors|Some-college|11th|HS-grad|Prof-school|Assoc-acdm|Assoc-voc|9th|7th-8th|12th|Masters"
    "|1st-4th|10th|Doctorate|5th-6th|Preschool",
    "marital_status": "Married-civ-spouse|Divorced|Never-married|Separated|Widowed|Married-spouse-absent"
    "|Married-AF-spouse",
    "occupation": "Tech-support|Craft-repair|Other-service|Sales|Exec-managerial|Prof-specialty|Handlers-cleaners"
    "|Machine-op-inspct|Adm-clerical|Farming-fishing|Transport-moving|Priv-house-serv|Protective-serv|Armed-Forces",
    "relationship": "Wife|Own-child|Husband|Not-in-family|Other-relative|Unmarried",
    "race": "White|Asian-Pac-Islander|Amer-Indian-Eskimo|Other|Black",
    "sex": "Female|Male",
    "native_country": "United-States|Cambodia|England|Puerto-Rico|Canada|Germany|Outlying-US(Guam-USVI-etc)|India"
    "|Japan|Greece|South|China|Cuba|Iran|Honduras|Philippines|Italy|Poland|Jamaica|Vietnam|Mexico|Portugal|Ireland"
    "|France|Dominican-Republic|Laos|Ecuador|Taiwan|Haiti|Columbia|Hungary|Guatemala|Nicaragua|Scotland|Thailand"
    "|Yugoslavia|El-Salvador|Trinadad&Tobago|Peru|Hong|Holand-Netherlands",
}


@dataclass(frozen=True, eq=False)
class Regression:
    """Rows of norm 1 and labels ±1, for training and for testing."""

    name: str
    X: Floats
    y: Floats
    X_test: Floats
    y_test: Floats

    def error(self, W: Floats) -> Floats:
        """Return the test error of each row of W."""
        return np.asarray(np.mean((self.X_test @ np.atleast_2d(W).T > 0) != (self.y_test[:, None] > 0), axis=0))


def load_regression(name: str) -> Regression:
    """Return ``abalone`` (2784 + 1393 rows, d = 9), ``adult`` (32561 + 16281, 104) or ``mnist`` (7988 + 3994, 784)."""
    readers = {"abalone": _abalone, "adult": _adult, "mnist": _mnist}
    if name not in readers:
        raise InvalidValue(f"no regression is called {name!r}; known: {', '.join(readers)}")
    return readers[name]()


def _scaled(columns: Floats, bounds: Floats) -> Floats:
    low, high = bounds.T
    return np.asarray(np.clip((columns - low) / (high - low), 0.0, 1.0) - 0.5)


def _unit(X: Floats) -> Floats:
    return np.asarray(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12))


def _split(name: str, X: Floats, y: Floats, train: int) -> Regression:
    order = seeded_rng(2017).permutation(len(y))  # a split of its own, the same for every run
    X, y = _unit(X)[order], y[order]
    return Regression(name, X[:train], y[:train], X[train:], y[train:])


def _abalone() -> Regression:
    table = np.loadtxt(data_path("abalone.data"), delimiter=",", dtype=str)
    numbers = _scaled(table[:, 1:8].astype(np.float64), np.array(_ABALONE))
    sex = np.stack([table[:, 0] == "M", table[:, 0] == "F"], axis=1) - 0.5
    labels = np.where(table[:, 8].astype(int) < 10, 1.0, -1.0)
    return _split("abalone", np.hstack([numbers, sex]), labels, 2784)


def _adult() -> Regression:
    return Regression("adult", *_adult_part("train"), *_adult_part("test"))


def _adult_part(part: Literal["train", "test"]) -> tuple[Floats, Floats]:
    table = adult(part).to_pandas()
    numbers = _scaled(table[list(ADULT_BOUNDS)].to_numpy(np.float64), np.array(list(ADULT_BOUNDS.values())))
    choices = [
        table[[name]].fillna("").to_numpy(object) == np.array(text.split("|")) for name, text in _ADULT_CHOICES.items()
    ]
    return _unit(np.hstack([numbers, *[c - 0.5 for c in choices]])), np.where(table["income"] == ">50K", 1.0, -1.0)


def _mnist() -> Regression:
    with np.load(data_path("mnist38_train.npz")) as file:
        images, labels = file["images"], file["labels"]
    return _split("mnist", images / 255.0 - 0.5, np.where(labels == 3, 1.0, -1.0), 7988)
