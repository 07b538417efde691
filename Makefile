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

# make bench FOLDER=where/data/sets/are runs those too that measure real people.
BENCHMARKS := privacy_core objectives constraints hedge_speed regret_growth bandit_speed set_sizes decisions \
  offline_speed minimization_speed minimization
REAL := full_information epsilons offline continuous_greedy convex frank_wolfe theorems returning personal context planning rolling
LONG := year scans store service
bench: $(VENV)/.bench
	for one in $(BENCHMARKS); do $(BIN)/python -m benchmarks.$$one || exit 1; done
	for one in bandit feature_selection segments $(if $(FOLDER),$(REAL)); do \
	  $(BIN)/python -m benchmarks.$$one $(FOLDER) || exit 1; done
	$(BIN)/python -m tools.pages
	$(BIN)/python -m tools.images

# Every index of compiled loops is checked in a build of its own, in build/checked/lib. What a loop without the
# interpreter's lock cannot raise fails the test that ran it.
CHECKED := build/checked
LOOPS := tests/kernels tests/constraints tests/objectives tests/stored tests/data/test_store.py \
  tests/online/test_unchanged.py tests/privacy/test_unchanged.py
checked: $(VENV)/.test
	DISCREET_CHECKED=1 $(BIN)/python setup.py -q build --build-base $(CHECKED) --build-lib $(CHECKED)/lib
	PYTHONPATH=$(CHECKED)/lib $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(LOOPS)

# Runs a command that writes a page, and marks the page with the sources that it was made with.
MARK := $(BIN)/python -m tools.evidence mark
audit: checked
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m slow
	$(MARK) docs/audit.md -- $(BIN)/discreet audit --all --deep --out docs/audit.md
	$(BIN)/python tools/fuzz_states.py --cases 2000
	$(MARK) docs/rows.md -- $(BIN)/python -m tools.fuzz_rows --cases 20000 --out docs/rows.md
	$(BIN)/python -m tools.images

mutants: $(VENV)/.test
	$(MARK) docs/mutation_testing.md -- $(BIN)/python tools/mutants.py
	$(BIN)/python -m tools.images

chaos: $(VENV)/.test
	$(MARK) docs/chaos.md -- $(BIN)/python -m tools.chaos --kills 2000 --out docs/chaos.md
	$(MARK) docs/service/chaos.md -- $(BIN)/python -m tools.service_chaos \
	  --kills 1000 --postgres-kills 1000 --segment-kills 300 --personal-kills 300 --stores 4 --out docs/service/chaos.md
	$(MARK) docs/service/month.md -- $(BIN)/python -m tools.month --minutes 60 --out docs/service/month.md
	$(BIN)/python -m tools.images

load: $(VENV)/.test
	$(MARK) docs/load.md -- $(BIN)/python -m tools.under_load --out docs/load.md

# All of it again, for hours: every stored result and every page that commands write. Give FOLDER, as for
# `make bench`. What needs another machine (gpu) and what a person reads the findings of (fuzz) is left out.
evidence: bench
	for one in $(LONG); do $(BIN)/python -m benchmarks.$$one || exit 1; done
	$(MAKE) audit mutants chaos load versions release-check
	$(BIN)/python -m tools.pages
	$(BIN)/python -m tools.images
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
