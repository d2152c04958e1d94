"""An environment of its own for each peer, made on demand, and a way to ask it questions.

A peer is a script in this folder and a list of pins. `ask` starts the script in the peer's environment with the
question as JSON on standard input, and reads its answer as JSON from standard output. Arrays travel as ``.npz`` files
whose paths are part of the question.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

__all__ = ["PINS", "PeerUnavailable", "ask", "pins_of"]

ROOT = Path(__file__).resolve().parents[2]

PINS: dict[str, tuple[str, ...]] = {
    # Later releases of scikit-learn divide the loss by n, and diffprivlib would then add n times too much noise.
    "diffprivlib": ("diffprivlib==0.6.5", "scikit-learn==1.3.2", "numpy==1.26.4", "scipy==1.11.4", "pandas==2.1.4"),
    "mbi": ("mbi==2.0.0", "jax==0.10.2", "numpy==2.4.6", "scipy==1.17.1", "pandas==3.1.1", "networkx==3.6.1"),
    "autodp": ("autodp==0.2.3.1", "numpy==2.4.6", "scipy==1.17.1", "matplotlib==3.11.2", "absl-py==2.5.1"),
}


class PeerUnavailable(Exception):
    """The peer's environment cannot be made here, or its script failed."""


def pins_of(name: str) -> str:
    """Return the peer with its version, for a table's note; what it stands beside is pinned above."""
    return PINS[name][0].replace("==", " ")


def python_of(name: str) -> Path:
    """Return the interpreter of the peer's environment, making the environment if its pins have changed."""
    folder = ROOT / f".venv-peers/{name}"
    python, stamp = folder / "bin/python", folder / "pins"
    wanted = hashlib.sha256("\n".join((sys.version, *PINS[name])).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"making an environment for {name} in {folder.relative_to(ROOT)} ...", file=sys.stderr)
    venv.create(folder, clear=True)  # our own pip fills it: one of its own takes seconds to make
    command = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "-q"]
    command += ["install", *PINS[name]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise PeerUnavailable(f"{name} could not be installed; is there a network? pip says: {last[0]}")
    stamp.write_text(wanted)
    return python


def ask(name: str, question: dict[str, Any], *, threads: int | None = None) -> Any:
    """Return the answer of the peer's script to a question, with at most so many threads for its linear algebra."""
    command = [str(python_of(name)), str(Path(__file__).with_name(f"{name}_peer.py"))]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"PYTHONWARNINGS": "ignore"}
    if threads is not None:
        environment |= {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    done = subprocess.run(
        command, input=json.dumps(question), capture_output=True, text=True, check=False, env=environment, cwd=ROOT
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise PeerUnavailable(f"{name} failed: {last[0]}")
    return json.loads(done.stdout)
