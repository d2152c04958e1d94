"""The ledger's word: what it says after its files were swapped, restored or charged less than nothing."""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

from sottovoce.audit.checks.result import check, verdict
from sottovoce.privacy.errors import SottovoceError
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger import Ledger, charging
from sottovoce.service.ledger.hash_chain import canonical


@contextmanager
def _ledger(folder: Path, **options: Any) -> Iterator[Ledger]:
    with Ledger(folder / "p.ledger", create=True, **options) as ledger:
        ledger.open_budget("p", RenyiDP(2.0, 1.0), n=1, schema={})
        yield ledger


def _charges(ledger: Ledger) -> bool:
    try:
        ledger.reserve(ledger.budget("p"), GaussianProfile(0.1), {})
    except SottovoceError:
        return False
    return True


def _copied(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


_SWAPS: dict[str, Callable[[Path], None]] = {
    "removed": Path.unlink,
    "replaced by a copy": _copied,
    "robbed of its log": lambda path: path.with_name("p.ledger-wal").unlink(),
    "robbed of its locks": lambda path: path.with_name("p.ledger-shm").unlink(),
    "given a second name": lambda path: path.with_name("second").hardlink_to(path),
}


@check("a swapped ledger charges nothing")
def swapped() -> tuple[bool, str]:
    """A file that its path no longer leads to must not be charged: nobody else would ever see it."""
    problems = []
    for how, swap in _SWAPS.items():
        with tempfile.TemporaryDirectory() as folder, _ledger(Path(folder)) as ledger:
            before = _charges(ledger)
            swap(Path(folder) / "p.ledger")
            if not before or _charges(ledger):
                problems.append(f"a ledger that was {how} while it was open was charged")
    return verdict(problems, f"{len(_SWAPS)} ways to swap its files, each refused")


@check("an anchor elsewhere finds a restored backup")
def restored() -> tuple[bool, str]:
    """A backup of everything beside the ledger, put back, must not give spent budget back."""
    problems = []
    for kind in ("path", "ledger"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            anchor = str(folder / "note") if kind == "path" else f"sqlite:///{folder / 'other.ledger'}"
            (folder / "office").mkdir()
            with _ledger(folder / "office"):
                pass
            shutil.copytree(folder / "office", folder / "backup")
            with _ledger(folder / "office", anchor=anchor) as ledger:
                _charges(ledger)
            shutil.rmtree(folder / "office")
            shutil.copytree(folder / "backup", folder / "office")
            try:
                with _ledger(folder / "office", anchor=anchor) as ledger:
                    spent = float(ledger.spent(ledger.budget("p")))
                    problems.append(f"a backup was restored beside its anchor ({kind}), and {spent:g} is spent")
            except SottovoceError:
                pass
    return verdict(problems, "a restored backup is refused, with the anchor in a file and in another ledger")


@check("a forged checkpoint opens no ledger")
def checkpointed() -> tuple[bool, str]:
    """Who can write the ledger and not its owner's secret must not have a limit raised or a total lowered unseen."""
    problems = []
    for what, old, new in (
        ("limit raised", '"limit":1.0', '"limit":9.0'),
        ("total lowered", '"spent":"', '"spent":"0'),
    ):
        with tempfile.TemporaryDirectory() as name, _state_in(Path(name)):
            folder = Path(name)
            with _ledger(folder) as ledger:
                _charges(ledger)
                ledger.leave_checkpoint()
            _forge(folder, old, new)
            try:
                with Ledger(folder / "p.ledger") as ledger:
                    if ledger.opened[0].count:
                        problems.append(f"a ledger with its {what} was opened from a checkpoint to match")
            except SottovoceError:
                pass
    return verdict(problems, "a limit raised and a total lowered, in the ledger and in its checkpoint, are refused")


@contextmanager
def _state_in(folder: Path) -> Iterator[None]:
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(folder)
    try:
        yield
    finally:
        del os.environ["XDG_STATE_HOME"]
        if before is not None:
            os.environ["XDG_STATE_HOME"] = before


def _forge(folder: Path, old: str, new: str) -> None:
    """Rewrite what a ledger's events say, and its checkpoint to match; nobody but the owner can seal that."""
    connection = sqlite3.connect(folder / "p.ledger", isolation_level=None)
    rules = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in rules:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("UPDATE sottovoce_events SET body = replace(body, ?, ?)", (old, new))
    for _, rule in rules:
        connection.execute(rule)
    connection.close()
    (path,) = (folder / "sottovoce").glob("*.checkpoint")
    seal, _, body = path.read_text().partition("\n")
    content = json.loads(body)
    for event in content["state"]["events"]:
        event[6] = event[6].replace(old, new)
    path.write_text(f"{seal}\n{canonical(content)}")


@check("no cost below zero is charged")
def costs() -> tuple[bool, str]:
    """A profile that is wrong must not give budget back: the ledger's own gate, whatever the filter lets through."""
    problems, wrong = [], (-6.42, -5e-324, -math.inf, math.nan)
    with tempfile.TemporaryDirectory() as folder, _ledger(Path(folder)) as ledger:
        budget = ledger.budget("p")
        for cost in wrong:
            try:
                total = charging.charged(budget, Fraction(1, 2), cost)
                problems.append(f"a cost of {cost:g} was charged: of 0.5 spent, {float(total):g} is left")
            except SottovoceError:
                pass
    return verdict(problems, f"{len(wrong)} costs that are none, each refused")
