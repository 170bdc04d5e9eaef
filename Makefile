PYTHON  ?= python3
WORKERS ?= 2

VENV    := .venv
BIN     := $(VENV)/bin
STARTED := $(VENV)/.started
DEV     := $(VENV)/.dev
REAL    := $(VENV)/.real
BENCH   := $(VENV)/.bench
AUDIT   := $(VENV)/.audit
DOCS    := $(VENV)/.docs
FAULTS  := $(VENV)/faults.jsonl
JOURNAL := $(VENV)/audit.jsonl
PROOFS  := $(VENV)/real-networks.jsonl
PYTEST  := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
# What `make check` runs, but for tests marked slow; what `make test-portable` runs with kernels of
# other processors.
CHECKED   := tests/test_architecture.py tests/maths tests/store tests/capture tests/measure \
             tests/compare
NUMERICAL ?= tests/maths tests/measure tests/compare tests/symmetry tests/papers
SETTINGS  ?= sse avx2
sse       := MKL_CBWR=COMPATIBLE ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 \
             OPENBLAS_CORETYPE=Nehalem
avx2      := MKL_ENABLE_INSTRUCTIONS=AVX2 ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 \
             OPENBLAS_CORETYPE=Zen

.PHONY: help demo check lint test test-thorough test-portable test-real test-real-all test-faults test-gpu audit bench gallery \
        docs release-check format clean browser

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

demo: $(DEV) ## measure a residual network and its plain twin, offline, in seconds
	@$(BIN)/sigmascope demo

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint ## what to run at every change, in a minute: lint, types, quick tests (WORKERS=2)
	$(PYTEST) -m "not slow and not thorough" $(CHECKED)

test: lint browser ## what to run before a change lands, 11 min: lint, types, tests, doctests
	$(PYTEST) -m "not thorough"

test-thorough: $(DEV) browser ## what make test leaves out: all examples, networks and engines, 3 min
	$(PYTEST) -m thorough

test-portable: $(DEV) ## the numerical tests as other processors compute (SETTINGS="sse avx2")
	@$(foreach one,$(SETTINGS),echo "$(one): $($(one))" && $($(one)) $(PYTEST) $(NUMERICAL) &&) true

test-real: $(REAL) ## the networks that others have trained, on real data: downloads 205 MB, once
	SIGMASCOPE_REQUIRE_REAL=1 $(PYTEST) tests/real

test-real-all: $(REAL) ## all of them, 1.1 GB: writes benchmarks/results/real-networks.md
	rm -f $(PROOFS) && export SIGMASCOPE_REAL=all SIGMASCOPE_REAL_JOURNAL=$(abspath $(PROOFS)) && \
	  SIGMASCOPE_REQUIRE_REAL=1 $(PYTEST) tests/real && $(BIN)/python -m tests.real.table $(PROOFS)

test-faults: $(DEV) ## kills, threads, changed files, failing networks: writes docs/reliability.md
	rm -f $(FAULTS) && export SIGMASCOPE_FAULTS=full SIGMASCOPE_FAULTS_RESULTS=$(abspath $(FAULTS)) && \
	  $(PYTEST) tests/faults && $(BIN)/python -m tests.faults.table

test-gpu: ## the CUDA tests, where PYTHON has torch and pytest; EXTRA=DIR adds packages it lacks
	PYTHONPATH=.:src:papers/src:$(EXTRA) $(PYTHON) -m tests.on_gpu

audit: $(AUDIT) ## networks of ten libraries against a count of torch's operators: 15 min
	OMP_NUM_THREADS=1 $(BIN)/python audit/run.py --workers $(WORKERS) --journal $(JOURNAL)

bench: $(BENCH) ## time against the textbook pipelines
	$(BIN)/python benchmarks/run.py

gallery: $(DEV) ## reproduce every figure and table, and write docs/gallery.md
	$(BIN)/python papers/gallery.py

docs: $(DOCS) browser ## build the documentation site into build/docs and check it: 6 min, no network
	DOCS_WORKERS=$(WORKERS) OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q \
	  -j $(WORKERS) docs build/docs
	$(BIN)/python docs/check.py build/docs

release-check: $(DEV) ## wheels and sdists in clean environments: writes packaging/checked.md
	$(INSTALL) build hatchling twine
	$(BIN)/python packaging/check.py --workers $(WORKERS) $(foreach one,$(PYTHONS),--python $(one))

format: $(DEV) ## sort imports, mend what can be mended, lay out the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

clean: ## remove the virtual environment, caches and builds
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The report is tested in a real browser. Where none can be installed, those tests are skipped with
# the reason.
browser:
	@for name in chromium chromium-browser google-chrome-stable google-chrome; do \
	  if command -v $$name >/dev/null; then exit 0; fi; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing Chromium: a minute, once"; \
	  apt-get -qq update && DEBIAN_FRONTEND=noninteractive \
	    apt-get -qq install --no-install-recommends -y chromium >/dev/null; \
	fi || true; \
	command -v chromium >/dev/null || \
	  echo "No Chromium: browser tests of the report are skipped. Try: apt install chromium"

# An interrupted installation may look complete to pip. Its mark remains, so the next one starts over.
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

$(AUDIT): $(DEV) audit/requirements.txt
	@mv $(DEV) $(STARTED)
	@$(INSTALL) --no-deps -r audit/requirements.txt
	@mv $(STARTED) $(DEV) && touch $@

$(DOCS): $(DEV)
	@mv $(DEV) $(STARTED)
	@$(INSTALL) -e '.[docs]'
	@mv $(STARTED) $(DEV) && touch $@
