# Sottovoce: make demo, make test, make lint, make bench, make docs
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: demo test lint bench docs clean

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

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadgroup --cov --cov-report=
	$(BIN)/python -m coverage report --include='*/sottovoce/privacy/*' --fail-under=95
	@$(BIN)/python -m coverage report | tail -n 1

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

docs: $(VENV)/.dev
	$(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) .venv-peers site demo-output papers-output .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
