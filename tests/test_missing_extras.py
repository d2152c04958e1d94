"""Where an extra is not installed, what it would bring is named: nothing breaks, and nothing is called violated."""

import json
import subprocess
import sys

import pytest

from sottovoce.audit.checks.registered import _all
from sottovoce.audit.checks.result import CHECKS, attempt, check
from sottovoce.faces.cli import main
from sottovoce.privacy.errors import InvalidValue, NotInstalled
from sottovoce.privacy.lazy_imports import needing
from sottovoce.privacy.registry import Registry

JAX = "this needs jax, which is not installed: pip install 'sottovoce[regression]'"
WITHOUT = """
import json, sys

class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"jax", "jaxlib", "sklearn", "formulaic"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Gone())
from sottovoce.mechanisms.mechanism_choice import known_names, names_for
from sottovoce.mechanisms.mechanism import MECHANISMS
from sottovoce.faces.server.page.forms import several_systems
from sottovoce.faces.server.page.model_page import _not_installed
from sottovoce.mechanisms.conjugate import BetaBernoulli

print(json.dumps({
    "names": known_names(),
    "conjugate": list(names_for(BetaBernoulli(1, 1))),
    "several": [one["word"] for one in several_systems()],
    "said": _not_installed(),
    "words": list(MECHANISMS.not_installed()),
}))
"""


def test_without_jax_the_models_that_are_left_are_offered_and_the_page_says_what_is_missing():
    pytest.importorskip("fastapi", reason="needs the server extra")
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["said"] == [JAX]
    assert {"direct", "laplace"} <= set(told["names"])
    assert told["conjugate"] == ["direct", "diffused", "concentrated", "tempered", "laplace", "gaussian"]
    assert "count tables" in told["several"]
    assert "regression" not in told["several"]
    assert "diffused regression" in told["words"]


def test_a_check_whose_part_is_missing_is_not_tried_and_any_other_error_fails():
    def missing(package):
        return lambda: (_ for _ in ()).throw(ModuleNotFoundError(f"No module named {package!r}", name=package))

    assert attempt("looks", missing("jax")).to_dict() == {"name": "looks", "passed": None, "evidence": JAX}
    assert attempt("looks", missing("a_module_of_ours")).passed is False
    assert attempt("looks", lambda: (_ for _ in ()).throw(NotInstalled("needs more", name="x"))).passed is None


def test_registered_kinds_that_cannot_be_imported_are_counted():
    kinds = Registry("number", {"elsewhere": "jaxlib.that_is_not_there:Nowhere"}, "sottovoce.nothing")
    kinds.add(type("Here", (), {"word": "here", "example": classmethod(lambda cls: 1)}))
    passed, evidence = _all(kinds, lambda example: (attempt("one", lambda: (example == 1, "")),))
    assert passed
    assert evidence.startswith("1 checks of 1 kinds of number; 1 not tried: this needs jaxlib")
    assert list(kinds.not_installed()) == ["elsewhere"]
    assert not _all(kinds, lambda example: (attempt("one", lambda: (False, "")),))[0]


@pytest.mark.parametrize(("package", "code", "word"), [("ibis", 0, "not tried"), ("a_module_of_ours", 8, "failed")])
def test_the_command_says_what_was_not_tried(package, code, word, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["sottovoce", "check", "a check of this test"])

    @check("a check of this test")
    def broken():
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    try:
        with pytest.raises(SystemExit) as left:
            main()
    finally:
        del CHECKS["a check of this test"]
    assert (left.value.code or 0) == code
    assert word in " ".join(capsys.readouterr().out.split())


def test_a_missing_extra_is_an_error_of_ours_and_of_imports():
    error = needing(ModuleNotFoundError("No module named 'jax'", name="jax.numpy"))
    assert isinstance(error, InvalidValue)
    assert isinstance(error, ModuleNotFoundError)
    assert (str(error), error.name) == (JAX, "jax.numpy")
    assert needing(error) is error
    other = ModuleNotFoundError("No module named 'x'", name="x")
    assert needing(other) is other
