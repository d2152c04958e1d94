"""diffprivlib's pure-private logistic regression on the data of the error table, in an environment of its own.

diffprivlib does not import beside a current scikit-learn (and adds n times too much noise beside 1.4, which divides the
loss by n), so that two environments meet in a folder::

    python benchmarks/glm_peer.py export FOLDER                        # ours
    pip install diffprivlib "scikit-learn<1.4" "numpy<2"               # another environment
    python benchmarks/glm_peer.py run FOLDER                           # that one; prints a table
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

NAMES, EPSILONS, RELEASES = ("abalone", "mnist", "adult"), (0.1, 0.3, 1.0, 3.0), 20


def export(folder: Path) -> None:
    """Write the prepared data sets."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
    from sottovoce.experiments.regression_data import load_regression

    for name in NAMES:
        data = load_regression(name)
        np.savez(folder / f"{name}.npz", X=data.X, y=data.y, X_test=data.X_test, y_test=data.y_test)


def run(folder: Path) -> None:
    """Fit diffprivlib's classifier and print its mean test error."""
    from diffprivlib.models import LogisticRegression

    warnings.simplefilter("ignore")
    print(f"{'data':<9}" + "".join(f"  pure ε = {e:<8g}" for e in EPSILONS))
    for name in NAMES:
        data = np.load(folder / f"{name}.npz")
        cells = []
        for epsilon in EPSILONS:
            errors = []
            for seed in range(RELEASES):
                model = LogisticRegression(epsilon=epsilon, data_norm=1.0, fit_intercept=False, random_state=seed)
                model.fit(data["X"], data["y"])
                errors.append(1 - model.score(data["X_test"], data["y_test"]))
            cells.append(f"{np.mean(errors):.4f} ± {np.std(errors):.4f}")
        print(f"{name:<9}" + "".join(f"  {cell:<17}" for cell in cells), flush=True)


if __name__ == "__main__":
    verb, place = sys.argv[1], Path(sys.argv[2])
    {"export": export, "run": run}[verb](place)
