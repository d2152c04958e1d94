# Sottovoce: make demo, make test, make simulations, make coverage, make lint, make papers, make bench, make docs
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: demo test simulations coverage lint papers bench docs clean

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

# Bytecode is made once, not by every worker. There is one worker more than a small machine has cores: some tests wait for
# the processes that they start.
WORKERS ?= 3
# Arrays come and go by the million: what one gave back, the next takes, and the system is not asked for each anew.
MEMORY := MALLOC_MMAP_THRESHOLD_=536870912 MALLOC_TRIM_THRESHOLD_=536870912 MALLOC_TOP_PAD_=16777216
PYTEST := $(MEMORY) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

test: $(VENV)/.dev
	$(BIN)/python -m compileall -q -j 2 src papers benchmarks
	$(PYTEST)

# What takes a minute or more, once a week: coverage over many tables.
simulations: $(VENV)/.dev
	$(PYTEST) -m weekly tests

# Where a fault is worst, every line is tried.
coverage: $(VENV)/.dev
	$(PYTEST) tests/privacy src/sottovoce/privacy --cov --cov-report=term-missing:skip-covered --cov-fail-under=95

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/names

papers: $(VENV)/.dev
	$(BIN)/python -m papers all --quick

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

docs: $(VENV)/.dev
	$(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) .venv-peers site demo-output papers-output .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
