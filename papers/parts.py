"""Parts of an experiment: done once, kept on disk, taken from there when the experiment is run again.

A part is a function of one value whose answer JSON can hold. Answers land in `setting.cache`, each written whole or not
at all, so that a run may be stopped at any moment.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from papers.registry import Setting

__all__ = ["read_json", "run_parts", "write_json"]


def run_parts(setting: Setting, compute: Callable[[Any], Any], items: Mapping[str, Any]) -> dict[str, Any]:
    """Return compute(item) for every item by name, and tell `setting.advance` of each.

    With `setting.jobs` above 1 the parts share that many processes; `compute` must then be a function of a module.

    Examples
    --------
    >>> run_parts(Setting(Path("unused")), abs, {"a": -1, "b": 2})
    {'a': 1, 'b': 2}
    """
    done: dict[str, Any] = {}
    for name in items:
        kept = read_json(_path(setting.cache, name)) if setting.cache else None
        if kept is not None:
            done[name] = kept["answer"]
    left = {name: item for name, item in items.items() if name not in done}
    setting.advance(len(done) / max(1, len(items)))
    for name, answer in _computed(setting, compute, left):
        if setting.cache:
            write_json(_path(setting.cache, name), {"part": name, "answer": answer})
        done[name] = answer
        setting.advance(len(done) / len(items))
    return {name: done[name] for name in items}


def _computed(setting: Setting, compute: Callable[[Any], Any], items: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if setting.jobs <= 1 or len(items) <= 1:
        for name, item in items.items():
            yield name, compute(item)
        return
    # A forked child of a process that runs JAX can hang, so each starts afresh.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(setting.jobs, len(items)), mp_context=fresh) as pool:
        names = {pool.submit(compute, item): name for name, item in items.items()}
        for future in as_completed(names):
            yield names[future], future.result()


def _path(cache: Path, name: str) -> Path:
    """Return the file of a part: its name may hold any letters, its file only safe ones."""
    return cache / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.json"


def read_json(path: Path) -> Any:
    """Return what the file holds, or None where there is no whole file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def write_json(path: Path, value: Any) -> None:
    """Write the file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(value, indent=1, ensure_ascii=False), encoding="utf-8")
    beside.replace(path)
