PYTHON ?= python3
BIN    := .venv/bin
READY  := .venv/.ready

.PHONY: demo test check format lint types docs dist bench clean

demo: $(READY)           ## see it work: results, report.html and a labelled folder under demo/
	$(BIN)/protoadapt demo --out demo

test: $(READY)           ## the whole test suite; ends with its slowest tests and its duration
	$(BIN)/pytest -n 2 --dist worksteal --durations 10

check: format lint types test

format: $(READY)
	$(BIN)/ruff format .

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

docs: $(READY)           ## the documentation site in site/; a broken link or a missing docstring fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dist: $(READY)           ## sdist and wheel in dist/, checked, installed into empty environments and tried there
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*
	bash .ci/try-wheel

bench: $(READY)          ## speed, side by side with the naive way
	$(BIN)/python -m benchmarks.inference

clean:
	rm -rf .venv build dist demo site

# One environment for everything; made again when a dependency changes.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "protoadapt needs Python 3.11 or newer: run make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "this Python has no venv: run 'apt-get install python3-venv' (Debian, Ubuntu), then make again"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt torch
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	@touch $(READY)
