# Every target installs what it needs by itself; the only thing expected is a Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile -c constraints.txt
# One worker per core; the tests are written to be independent of each other.
WORKERS ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: help demo test lint install bench audit checked mutants chaos load evidence peers versions release-check docs outputs format clean
help:
	@echo "make demo     see it work"
	@echo "make test     run the tests"
	@echo "make lint     ruff, mypy --strict, and a user's program under mypy and pyright"
	@echo "make audit    check every privacy claim, interrupts at every line, and every index of compiled loops; docs/audit.md"
	@echo "make mutants  break the library, one expression at a time, and see whether the tests notice; docs/mutation_testing.md"
	@echo "make chaos    kill writers of a ledger 2,000 times, a service 1,000 times, and live a month in an hour; docs"
	@echo "make load     run the tests ten times on a busy machine, for hours; docs/load.md"
	@echo "make evidence every stored result and generated page again, in hours; python -m tools.evidence lists the stale ones"
	@echo "make peers    the same questions to apricot, submodlib, OpenDP, dp-accounting, implicit, scikit-learn and h11"
	@echo "make bench    measure it, also against other libraries; results go to benchmarks/results"
	@echo "make outputs  run the tutorials; what they print and draw goes onto their pages and into docs/notebooks"
	@echo "make versions the wheel on other Pythons, with the oldest and the newest packages; docs/releases.md"
	@echo "make release-check   build dist/, and try the wheel in new environments, with and without each extra"
	@echo "make docs     the documentation as a site, in build/site"
	@echo "make install  everything above, installed into $(VENV)"

demo: $(VENV)/.demo
	$(BIN)/discreet demo

# Bytecode is written for what is loaded, once, whatever the shell says about it.
export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tools.typed

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Results and pages again, with the commands of tools/evidence.py. FOLDER is where data sets of real people are;
# without it, what measures them is left out.
MAKE_AGAIN = $(BIN)/python -m tools.evidence make $(if $(FOLDER),--folder $(FOLDER))
SHOW = $(BIN)/python -m tools.pages && $(BIN)/python -m tools.images
bench: $(VENV)/.bench
	$(MAKE_AGAIN) 'benchmarks/*.py'
	$(SHOW)

# Every index of compiled loops is checked in a build of its own, in build/checked/lib. What a loop without the
# interpreter's lock cannot raise fails the test that ran it.
CHECKED := build/checked
LOOPS := tests/kernels tests/constraints tests/objectives tests/stored tests/data/test_store.py \
  tests/online/test_unchanged.py tests/privacy/test_unchanged.py
checked: $(VENV)/.test
	DISCREET_CHECKED=1 $(BIN)/python setup.py -q build --build-base $(CHECKED) --build-lib $(CHECKED)/lib
	PYTHONPATH=$(CHECKED)/lib $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(LOOPS)

audit: checked
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m slow
	$(MAKE_AGAIN) docs/audit.md docs/rows.md
	$(BIN)/python tools/fuzz_states.py --cases 2000
	$(SHOW)

mutants: $(VENV)/.test
	$(MAKE_AGAIN) docs/mutation_testing.md
	$(SHOW)

chaos: $(VENV)/.test
	$(MAKE_AGAIN) docs/chaos.md docs/service/chaos.md docs/service/month.md
	$(SHOW)

load: $(VENV)/.test
	$(MAKE_AGAIN) docs/load.md

# Every stored result and every page that commands write and that is older than the code, the quickest first, for
# hours. It can be ended and goes on another day. What needs another machine (gpu) and what a person reads the
# findings of (fuzz) is left out.
evidence: $(VENV)/.bench checked
	$(MAKE_AGAIN)
	$(SHOW)
	$(BIN)/python -m tools.evidence

# Other libraries' answers compared with ours.
peers: $(VENV)/.peers
	$(BIN)/python -m pytest tests/peers

versions: $(VENV)/.test
	$(BIN)/python -m tools.versions
	$(BIN)/python -m tools.pages docs/releases.md
	$(BIN)/python -m tools.images

release-check: $(VENV)/.test
	$(BIN)/python -m tools.release check
	$(BIN)/python -m tools.pages docs/releases.md

docs: $(VENV)/.test
	$(BIN)/python -m mkdocs build --strict

outputs: $(VENV)/.test
	$(BIN)/python -m tools.outputs

install: $(VENV)/.test $(VENV)/.lint

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "discreet needs Python 3.11 or newer; point PYTHON at one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; } \
	  || { rm -rf $(VENV); echo "could not make a virtual environment; on Debian: apt-get install python3-venv"; exit 1; }

# What the package is built with. Modules that have changed are compiled beside their sources, while pip brings
# what the package needs.
comma := ,
define install
@$(BIN)/python setup.py -q build_ext --inplace & compiling=$$!; \
  DISCREET_COMPILED=1 $(PIP) --no-build-isolation -e '.[$(1)]' || { kill $$compiling; exit 1; }; \
  wait $$compiling
endef
KERNELS := $(wildcard src/discreet/kernels/*.pyx src/discreet/kernels/*.pxd src/discreet/kernels/*.h)
$(VENV)/.build: $(VENV)/bin/python pyproject.toml constraints.txt setup.py $(KERNELS)
	$(PIP) cython setuptools
	@touch $@

DEMO := plots,sklearn,service
$(VENV)/.demo: $(VENV)/.build
	$(call install,$(DEMO))
	@touch $@

$(VENV)/.test: $(VENV)/.build
	$(call install,test)
	@for name in chromium chromium-browser google-chrome; do command -v $$name && exit 0; done; \
	  $(BIN)/playwright install chromium || echo 'no Chromium: pages will not be tried in a browser'
	@touch $@

$(VENV)/.lint: $(VENV)/.build
	$(call install,lint)
	@touch $@

$(VENV)/.bench: $(VENV)/.build
	$(call install,bench)
	@touch $@

$(VENV)/.peers: $(VENV)/.build
	$(call install,test$(comma)peers)
	@touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
