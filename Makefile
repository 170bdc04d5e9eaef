PYTHON  ?= python3
WORKERS ?= 2

VENV    := .venv
BIN     := $(VENV)/bin
STARTED := $(VENV)/.started
DEV     := $(VENV)/.dev
REAL    := $(VENV)/.real
BENCH   := $(VENV)/.bench
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-real bench gallery format clean browser

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

demo: $(DEV) ## measure a residual network and its plain twin, offline, in seconds
	@$(BIN)/sigmascope demo

test: $(DEV) browser ## lint, check types, run tests and doctests (WORKERS=2)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

test-real: $(REAL) ## the networks that others have trained, on real data: downloads 190 MB, once
	SIGMASCOPE_REQUIRE_REAL=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) tests/real

bench: $(BENCH) ## time against the textbook pipelines
	$(BIN)/python benchmarks/run.py

gallery: $(DEV) ## reproduce every figure and table, and write docs/gallery.md
	$(BIN)/python papers/gallery.py

format: $(DEV) ## sort imports, mend what can be mended, lay out the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

clean: ## remove the virtual environment, caches and builds
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The report is tested in a real browser. Where there is none and none may be installed, those tests say that they are skipped.
browser:
	@for name in chromium chromium-browser google-chrome-stable google-chrome; do \
	  if command -v $$name >/dev/null; then exit 0; fi; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then echo "Installing Chromium: a minute, once"; \
	  apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends -y chromium >/dev/null; \
	fi || true; \
	command -v chromium >/dev/null || echo "No Chromium: the tests of the report in a browser are skipped. Try: apt install chromium"

# An installation that was cut off may look complete to pip. Its mark is still there, so the next one starts afresh.
$(DEV): pyproject.toml papers/pyproject.toml constraints.txt
	@echo "Setting up $(VENV): a few minutes, once"
	@if [ -e $(STARTED) ]; then rm -rf $(VENV); fi
	@mkdir -p $(VENV) && touch $(STARTED)
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) -e '.[dev]' -e papers
	@mv $(STARTED) $@

$(REAL): $(DEV)
	@mv $(DEV) $(STARTED)
	@$(INSTALL) -e '.[real]'
	@mv $(STARTED) $(DEV) && touch $@

$(BENCH): $(DEV)
	@mv $(DEV) $(STARTED)
	@$(INSTALL) -e '.[bench]'
	@mv $(STARTED) $(DEV) && touch $@
