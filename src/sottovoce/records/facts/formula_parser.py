"""Formulas: ``smoker ~ age + C(ward) + age:sex``, with the levels, bounds and scales of public facts."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidValue, NotInstalled
from sottovoce.privacy.numbers import shown
from sottovoce.records.facts.columns import Category, Column, Count, Flag, Number
from sottovoce.records.facts.derived_parser import call_at
from sottovoce.records.facts.encodings import Encoding, Floats, levels_of, scale_of
from sottovoce.records.facts.facts import Facts
from sottovoce.records.facts.formula_size import check_columns_of_terms, check_expansion
from sottovoce.records.facts.formula_splines import PUBLIC_TERMS, TIMES, centred_in, centred_words, splines_in
from sottovoce.records.facts.splines import Spline

_GROUP = re.compile(r"\+?\s*\(\s*1\s*\|\s*(?P<name>`[^`]+`|[^\W\d]\w*)\s*\)")
_POWER = re.compile(r"(?P<name>\w+)\s*(?:\*\*|\^)\s*\w*")
_ITSELF = re.compile(r"(?<![\w`])(`[^`]+`|\w+)\s*[*:]\s*\1(?![\w`])")
"""A column beside itself, which formulas read as the column."""
_QUOTED = re.compile(r"`[^`]*`|'(?P<one>[^'`]+)'|\"(?P<two>[^\"`]+)\"")
_BACKTICKS = re.compile(r"`([^`]*)`")
_PLUS = re.compile(r"\+(?=(?:[^`]*`[^`]*`)*[^`]*$)")
"""A plus outside of backticks."""
_CATEGORY = re.compile(r"^C\(\s*(?P<name>`[^`]+`|[^\W\d]\w*)\s*\)$")
_NAME = r"[A-Za-z_][A-Za-z0-9_]*|`[^`]+`"
_TERM = re.compile(rf"(?P<name>{_NAME})|C\((?P<levels>{_NAME})\)")
_LONGEST = 2000
_ROWS = 4096
_ANY = 256
"""Imagined records, and those of them that tell entries apart beside four for each."""
_MOST = 400
"""Terms at most: the information matrix has half the square of it in entries."""


@dataclass(frozen=True, eq=False)
class ParsedFormula:
    """What a formula says.

    Attributes
    ----------
    response
        The column to be explained.
    encoding
        How a record becomes a row.
    terms
        What each entry is called, as a statistician's table calls it.
    groups
        The entries of each ``(1 | group)``, first and last + 1.
    units
        The matrix A with which coefficients of the scaled rows become coefficients of the columns as they are.
    """

    response: str
    encoding: Encoding
    terms: tuple[str, ...]
    groups: tuple[tuple[int, int], ...]
    units: Floats


@functools.lru_cache(maxsize=64)
def _cached(text: str, facts: tuple[tuple[str, Column], ...]) -> ParsedFormula:
    return _parsed(text, Facts(dict(facts)))


def parse_formula(text: str, facts: Facts) -> ParsedFormula:
    """Return what a formula says of columns whose facts are public; nothing is read off any data.

    It may add columns, derived ones such as ``log(cost)`` or ``I(a - b)`` among them, ``C(column)``, products ``a:b``
    and ``a*b``, ``center(column)``, splines ``bs(column, df=4)`` and ``ns(column, df=4)`` on even knots, take the
    intercept away (``0 +`` or ``- 1``), and give a column of categories effects of its own that share their spread,
    ``(1 | column)``.

    Examples
    --------
    >>> facts = Facts(smoker=Flag(), age=Number(0, 110), sex=Flag(), ward=Category(["A", "B", "C"]))
    >>> parse_formula("smoker ~ age + C(ward) + age:sex", facts).terms
    ('Intercept', 'age', 'C(ward)[T.B]', 'C(ward)[T.C]', 'age:sex')
    """
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST:
        raise InvalidValue('a formula is a text such as "smoker ~ age + C(ward)"')
    return _cached(text, tuple(facts.items()))


def _parsed(text: str, facts: Facts) -> ParsedFormula:
    # Of texts no formula speaks, but for derived columns, which are names from here on.
    text = _QUOTED.sub(lambda name: name[0] if name[0][0] == "`" else f"`{name['one'] or name['two']}`", _named(text))
    left, sign, right = text.partition("~")
    response = left.strip().strip("`")
    if not sign or not response or "~" in right:
        raise InvalidValue(f'a formula reads "response ~ terms", such as "smoker ~ age + C(ward)". Got {shown(text)}')
    if call_at(response, 0) is not None:
        facts[response]  # which says what is wrong with it
    if response not in facts:
        times = TIMES if response.startswith("Surv(") else f"they name {', '.join(facts)}"
        raise InvalidValue(f"the facts name no column {shown(response)} to be explained; {times}")
    groups = [result["name"].strip("`") for result in _GROUP.finditer(right)]
    fixed = _GROUP.sub(" ", right).strip().lstrip("+").strip()
    fixed, splines = splines_in(fixed, facts)
    fixed, middles = centred_in(fixed, facts)
    if not (fixed or groups or splines):
        raise InvalidValue(f'nothing explains {response!r}: name a column, or write "~ 1" for the intercept alone')
    fixed = fixed or "1"
    if "|" in fixed:
        raise InvalidValue("a group has one effect a level: (1 | column); slopes that vary by group are not offered")
    _refuse_squares(fixed)
    plain = _plain(fixed, facts)
    names, exprs = _factors(fixed, facts) if plain is None else (list(plain.values()), {})
    _check_groups(groups, facts)
    if response in {*names, *groups, *splines}:
        raise InvalidValue(f"{response!r} is explained, and cannot explain itself")
    read = tuple(dict.fromkeys([*names, *splines, *groups]))
    columns = tuple(facts[name] for name in read)
    values = _values(columns)
    place = {name: k for k, name in enumerate(read)}
    entries, terms = (
        _entries(_matrix(fixed, _frame(read, columns, values)), exprs, place, columns)
        if plain is None
        else _plain_entries(plain, place, columns)
    )
    terms = [centred_words(term, middles) for term in terms]
    more, curved = _curved_entries(splines, place, entries)
    entries, terms = entries + more, terms + curved
    spans, count = [], len(entries)
    for name in groups:
        levels = columns[place[name]].categories  # type: ignore[attr-defined]
        spans.append((len(entries), len(entries) + len(levels)))
        entries += [((place[name], k),) for k in range(len(levels))]
        terms += [f"(1 | {name})[{level}]" for level in levels]
    if len(entries) > _MOST:
        raise InvalidValue(f"a formula has at most {_MOST} terms. Got {len(entries)}")
    if not entries:
        raise InvalidValue("a formula needs at least one term")
    curves = tuple(splines.get(name) for name in read) if splines else ()
    shifts = [
        0.0 if name not in middles else scale_of(column, centred=True).middle
        for name, column in zip(read, columns, strict=True)
    ]
    encoding, units = _in_units(read, columns, tuple(entries), count, values, curves, shifts)
    return ParsedFormula(response, encoding, tuple(terms), tuple(spans), units)


def _check_groups(groups: Sequence[str], facts: Facts) -> None:
    """Refuse groups that are too many, or of no category."""
    if len(set(groups)) < len(groups) or len(groups) > 2:
        raise InvalidValue("a formula has at most two groups (1 | column), each once")
    for name in groups:
        if not isinstance(facts[name], Category):
            raise InvalidValue(f"(1 | {name}) needs a column of categories; {name!r} is a {facts[name].word}")


def _named(text: str) -> str:
    """Return a formula with each derived column in backticks, as a name of several words is."""
    result, place = "", 0
    while place < len(text):
        end = call_at(text, place)
        quotes = _BACKTICKS.match(text, place)
        if end is not None and "`" in text[place:end]:
            raise InvalidValue(f"name {text[place:end]} in the facts, as a derived column, and say that name here")
        stop = end or (quotes.end() if quotes else place + 1)
        result += f"`{text[place:stop]}`" if end is not None else text[place:stop]
        place = stop
    return result


def _refuse_squares(fixed: str) -> None:
    """Refuse a column beside itself; what stands within the backticks of a derived column is none."""
    derived = [name for name in _BACKTICKS.findall(fixed) if call_at(name, 0) is not None]
    words = {name: f"_derived{place}_" for place, name in enumerate(dict.fromkeys(derived))}
    itself = _ITSELF.search(_BACKTICKS.sub(lambda name: words.get(name[1], name[0]), fixed))
    if itself is not None:
        product, name = itself[0], itself[1]
        for text, word in words.items():
            product, name = product.replace(word, text), name.replace(word, text)
        raise InvalidValue(f"{product} is {name} and no square: say square({name}), or ask by bands")


def _plain(fixed: str, facts: Facts) -> dict[str, str] | None:
    """Return the columns of a plain sum such as ``age + C(ward)``, by what each is called there; None of any other.

    Most formulas are one, and to load what reads all of them takes longer than most plans.
    """
    result: dict[str, str] = {}
    texts = [text.strip() for text in _PLUS.split(fixed)]
    for written in texts[texts[0] == "1" :]:
        term, text = _TERM.fullmatch(written), written.replace("`", "")
        name = (term["name"] or term["levels"]).strip("`") if term else ""
        if not term or name in result.values():
            return None
        levels = levels_of(facts[name])  # which says so where there is no such column
        number = isinstance(facts[name], Number | Count) and not term["levels"]
        if not number and (levels is None or len(levels) < 2):
            return None
        result[text] = name
    return result


def _plain_entries(
    plain: dict[str, str], place: dict[str, int], columns: Sequence[Column]
) -> tuple[list[tuple[tuple[int, int], ...]], list[str]]:
    """Return what `_entries` does, of a plain sum: levels but the first, each set against that."""
    entries: list[tuple[tuple[int, int], ...]] = [()]
    terms = ["Intercept"]
    for text, name in plain.items():
        at = place[name]
        levels = levels_of(columns[at])
        if levels is None or (text == name and isinstance(columns[at], Flag)):
            entries.append(((at, -1 if levels is None else 1),))
            terms.append(text)
            continue
        entries += [((at, level),) for level in range(1, len(levels))]
        terms += [f"{text}[T.{level}]" for level in levels[1:]]
    return entries, terms


def _curved_entries(
    splines: dict[str, Spline], place: dict[str, int], entries: Sequence[tuple[tuple[int, int], ...]]
) -> tuple[list[tuple[tuple[int, int], ...]], list[str]]:
    """Return the functions of the splines, and what each is called."""
    if lines := [name for name in splines if ((place[name], -1),) in entries]:
        kind, name = splines[lines[0]].kind, lines[0]
        raise InvalidValue(f"{kind}({name}) is a curve that {name} is part of; leave {name} alone out")
    each = [(name, spline, k) for name, spline in splines.items() for k in range(spline.df)]
    terms = [f"{spline.kind}({name})[{k + 1}]" for name, spline, k in each]
    return [((place[name], -2 - k),) for name, _, k in each], terms


def _factors(fixed: str, facts: Facts) -> tuple[list[str], dict[str, tuple[str, bool]]]:
    """Return the columns of the fixed part, and what each factor's expression stands for: (column, as categories)."""
    try:
        from formulaic import Formula  # noqa: PLC0415 - an extra
        from formulaic.parser import DefaultFormulaParser  # noqa: PLC0415
    except ImportError:
        raise NotInstalled(
            "a formula that is no plain sum of columns, each once, needs the regression extra: "
            f"pip install 'sottovoce[regression]'. Got {shown(fixed)}",
            name="formulaic",
        ) from None
    try:
        check_expansion(DefaultFormulaParser().get_ast(fixed))
        parsed = list(Formula(fixed))
    except InvalidValue:
        raise
    except Exception:  # every fault of its grammar has a class and a picture of its own
        apart = "; a condition stands apart, where='age >= 40' or --where" if " where " in fixed else ""
        raise InvalidValue(
            f"cannot read the terms {fixed!r}; write them like age + C(ward) + age:sex, and names of several words in "
            f"quotes or backticks{apart}"
        ) from None
    names: list[str] = []
    exprs: dict[str, tuple[str, bool]] = {}
    for term in parsed:
        for factor in getattr(term, "factors", ()):
            expr, method = factor.expr, factor.eval_method.value
            wrapped = _CATEGORY.match(expr)
            if method == "literal" and expr in ("0", "1"):
                continue
            if not (method == "lookup" or (method == "python" and wrapped)):
                raise InvalidValue(f"{expr} is no public term: {PUBLIC_TERMS}")
            name = wrapped["name"].strip("`") if wrapped else expr
            column = facts[name]
            if not isinstance(column, Number | Count | Flag | Category):
                raise InvalidValue(f"{name!r} is a {column.word}, which no formula takes")
            if wrapped and levels_of(column) is None:
                raise InvalidValue(f"{name!r} is a {column.word}: it has no public levels for {expr}")
            names.append(name)
            exprs[expr] = (name, bool(wrapped) or isinstance(column, Category))
    if power := _POWER.search(re.sub(r"`[^`]*`", "column", fixed)):
        raise InvalidValue(f"{power[0]} would mean {power['name']} alone: say square({power['name']})")
    levels = {expr: len(levels_of(facts[name]) or ()) if coded else None for expr, (name, coded) in exprs.items()}
    factors = [[factor.expr for factor in term.factors if factor.expr in levels] for term in parsed]
    check_columns_of_terms(factors, levels, most=_MOST)
    return list(dict.fromkeys(names)), exprs


def _values(columns: Sequence[Column]) -> list[Floats]:
    """Return imagined records, a column each, categories as their places: all levels are among them."""
    rng, result = np.random.default_rng(1), []
    for column in columns:
        levels = levels_of(column)
        if isinstance(column, Category) and levels is not None:
            result.append(np.concatenate([np.arange(len(levels)), rng.integers(len(levels), size=_ROWS)])[:_ROWS])
        elif isinstance(column, Flag):
            result.append(np.append([False, True], rng.random(_ROWS - 2) < 0.5))
        else:
            scale = scale_of(column, centred=True)
            result.append(rng.uniform(scale.low, scale.high, _ROWS))
    return [np.asarray(column, dtype=np.float64) for column in result]


def _frame(names: Sequence[str], columns: Sequence[Column], values: Sequence[Floats]) -> Any:
    """Return imagined records as a frame: what formulaic sees instead of the data."""
    import pandas as pd  # noqa: PLC0415 - an extra

    frame: dict[str, object] = {}
    for name, column, given in zip(names, columns, values, strict=True):
        frame[name] = given == 1 if isinstance(column, Flag) else given
        if isinstance(column, Category):
            words = [f"l{k}" for k in range(len(column.categories))]
            frame[name] = pd.Categorical([words[int(code)] for code in given], categories=words)
    return pd.DataFrame(frame, index=range(_ROWS))


def _matrix(fixed: str, frame: object) -> Any:
    from formulaic import model_matrix  # noqa: PLC0415 - an extra

    try:
        return model_matrix(fixed, frame)
    except Exception:
        raise InvalidValue(f"cannot read the terms {fixed!r}; write them like age + C(ward) + age:sex") from None


def _entries(
    matrix: Any, exprs: dict[str, tuple[str, bool]], place: dict[str, int], columns: Sequence[Column]
) -> tuple[list[tuple[tuple[int, int], ...]], list[str]]:
    """Return the factors of each column of a model matrix, read from its structure, and what to call it."""
    entries: list[tuple[tuple[int, int], ...]] = []
    terms: list[str] = []
    for part in matrix.model_spec.structure:
        patterns = []
        for scoped in part.scoped_terms:
            result = [exprs[item.factor.expr] + (item.factor.expr,) for item in scoped.factors]
            level = r"\[(T\.)?(l\d+|False|True)\]"
            text = ":".join(re.escape(expr) + (level if coded else "") for _, coded, expr in result)
            patterns.append((re.compile(f"^{text or 'Intercept'}$"), result))
        for name in part.columns:
            matched, result = next((m, f) for p, f in patterns if (m := p.match(name)) is not None)
            coded_levels = iter(matched.groups())
            entry, named = [], []
            for column, coded, expr in result:
                at = place[column]
                if not coded:  # a flag is what C(flag) is: its one level, set
                    entry.append((at, 1 if isinstance(columns[at], Flag) else -1))
                    named.append(expr)
                    continue
                against, word = next(coded_levels) or "", next(coded_levels)
                level_at = int(word[1:]) if word[0] == "l" else int(word == "True")
                entry.append((at, level_at))
                named.append(f"{expr}[{against}{levels_of(columns[at])[level_at]}]")  # type: ignore[index]
            entries.append(tuple(entry))
            terms.append(":".join(named) or "Intercept")
    return entries, terms


def _in_units(
    names: tuple[str, ...],
    columns: tuple[Column, ...],
    entries: Any,
    many: int,
    values: list[Floats],
    splines: tuple[Spline | None, ...],
    shifts: Sequence[float],
) -> tuple[Encoding, Floats]:
    """Return the encoding with every number centred that may be, and the matrix from its coefficients to the raw ones.

    A number may be measured from its middle where the model can say so: where each scaled row is a combination of raw
    entries. Otherwise (a product without its parts) it is measured from zero.
    """
    fixed = entries[:many]
    centred = [True] * len(columns)
    units = np.eye(len(entries))
    if not fixed:
        return Encoding(names, columns, entries, tuple(centred), splines), units
    # Imagined rows tell every combination apart: some at random, and four for each entry with its levels set and of all
    # other columns the first level, so that none of many products is met in no row.
    values = [column[: 4 * many + _ANY].copy() for column in values]
    for place, column in enumerate(columns):
        if levels_of(column) is not None:
            values[place][_ANY:] = np.repeat([dict(entry).get(place, 0) for entry in fixed], 4)
    raw = np.ones((4 * many + _ANY, many))
    for i, entry in enumerate(fixed):
        for place, level in entry:
            if level < -1:
                raw[:, i] *= Encoding(names, columns, (((place, level),),), (), splines).rows(values, len(raw))[0][:, 0]
            else:
                raw[:, i] *= values[place] - shifts[place] if level < 0 else values[place] == level
    sizes = np.maximum(np.abs(raw).max(axis=0), 1e-300)
    inverse = np.linalg.pinv(raw / sizes, rcond=1e-12)
    for place in [-1, *range(len(columns))]:
        if place >= 0:
            centred[place] = False
        scaled = Encoding(names, columns, fixed, tuple(centred), splines).rows(values, len(raw))[0]
        solved = inverse @ scaled
        if np.abs(raw / sizes @ solved - scaled).max() < 1e-8:
            solved[np.abs(solved) < 1e-9] = 0.0
            # x_scaled = B'x_raw, so x_scaled·θ = x_raw·Bθ.
            units[: len(fixed), : len(fixed)] = solved / sizes[:, None]
            break
    else:  # pragma: no cover - numbers measured from zero are multiples of the raw ones
        raise InvalidValue("the terms of this formula say the same thing twice; leave one out")
    return Encoding(names, columns, entries, tuple(centred), splines), units
