# Sottovoce: make demo, make test, make lint, make papers, make bench, make docs
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: demo test lint papers bench docs clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# A stamp for each set of extras: reinstalled only when the pins or the project file change.
$(VENV)/.demo: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e ".[demo]"
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/sottovoce demo

# Bytecode is made once, not by every worker. Coverage is measured where a fault is worst, and only there: tracing every
# line takes a third of the time.
test: $(VENV)/.dev
	$(BIN)/python -m compileall -q -j 2 src papers benchmarks
	$(BIN)/python -m pytest -n 2 --dist loadfile --ignore=tests/privacy --ignore=src/sottovoce/privacy
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/privacy src/sottovoce/privacy --cov --cov-report=term-missing:skip-covered --cov-fail-under=95

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

papers: $(VENV)/.dev
	$(BIN)/python -m papers all --quick

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

docs: $(VENV)/.dev
	$(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) .venv-peers site demo-output papers-output .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
