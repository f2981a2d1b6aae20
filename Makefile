# Everything runs in the project's own virtual environment; only Python 3.11+, git and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint serve bench crash clean

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "wfcore needs Python 3.11 or newer")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --python $(BIN)/python --group dev -e .
	@touch $(READY)

demo: $(READY)
	@$(BIN)/python examples/release_notes/demo.py

serve: $(READY)
	@$(BIN)/wfcore serve

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest -n auto

bench: $(READY)
	$(BIN)/python -m benchmarks

# Kills real processes at every point: STORE=postgres, SECONDS=600 for as many as that allows, STORM=300 for a storm.
STORE ?= sqlite
SECONDS ?= 0
STORM ?= 0

crash: $(READY)
	$(BIN)/python tests/crash --store $(STORE) --seconds $(SECONDS) --storm $(STORM)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis .demo
