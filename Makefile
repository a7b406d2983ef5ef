# Two commands on a fresh machine (Python 3.11 or later): `make demo` and `make test`.
# Everything is set up in .venv, inside this folder; nothing global is touched.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ALONE  := $(VENV)/.narval
STAMP  := $(VENV)/.installed
# each of the hundreds of programs that tests start would compile narval anew
unexport PYTHONDONTWRITEBYTECODE
TELLING = $(PYTHON) tests/setting_up.py

.DEFAULT_GOAL := help
.PHONY: help demo test check compiled browser format docs pages bench wishes soak vendor shots deb clean

help:  ## what one can do here
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 16

# The demo needs narval alone; what develops it takes minutes more.
$(ALONE): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "narval needs Python 3.11 or later, found $$($(PYTHON) --version)"; exit 1; }
	@$(TELLING) "making $(VENV)" $(PYTHON) -m venv $(VENV)
	@$(TELLING) "installing narval into $(VENV)" $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --editable .
	@touch $(ALONE)

$(STAMP): $(ALONE)
	@$(TELLING) "installing what develops narval into $(VENV)" $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --editable '.[dev]'
	@touch $(STAMP)

demo: $(ALONE)  ## the assistant answers the demo mail; ONCE=1 ends when idle, as without a terminal; MAILDIR=path takes your own mail
	@$(BIN)/python -m narval.surfaces.cli.demo $(if $(ONCE),--once) $(if $(MAILDIR),--maildir '$(MAILDIR)') $(if $(SCRATCH),--scratch '$(SCRATCH)')

# What the tests of pages want, installed where it is missing and the system lets us (M96).
HAS_PAGES = command -v dot && command -v promtool && { [ -n "$$NARVAL_BROWSER" ] || command -v chromium-headless-shell || command -v chromium || command -v google-chrome; }

browser:
	@{ $(HAS_PAGES); } >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || { \
	  $(TELLING) "installing a browser, Graphviz and promtool for the tests of pages" \
	    sh -c 'apt-get update && apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=120 chromium-headless-shell graphviz prometheus' 2>/dev/null \
	  || echo "they cannot be had here; tests that want them are skipped"; }

# One worker more than two cores have: tests often wait for programs and for moments. Each worker would
# compile all tests of a fresh clone; here one program does, on the core that the check of types leaves.
# What fails beside others is run once more, alone: a real fault fails again, a machine that was too busy
# for a program to answer in time does not. Both runs are printed; a test that needs the second is to be mended.
test: browser  ## style, types and all tests
	@$(MAKE) --no-print-directory -j2 check compiled
	@$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder || { [ $$? = 1 ] && echo "once more, alone:" && \
	  $(BIN)/python -m pytest --last-failed --last-failed-no-failures none --maxfail 3; }

compiled: $(STAMP)
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || true

check: $(STAMP)  ## style and types alone
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@[ -d .mypy_cache ] || echo "checking types, for a minute the first time …"
	@$(BIN)/mypy

format: $(STAMP)  ## put the code in shape
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

$(VENV)/.docs: $(STAMP)
	@$(TELLING) "installing what makes the site" $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --editable '.[docs]'
	@touch $@

docs: $(VENV)/.docs  ## the site of the pages in docs/, in build/site; a link that leads nowhere fails
	@$(BIN)/python -m sphinx --quiet --nitpicky --fail-on-warning --keep-going --fresh-env docs build/site || { rm -f build/site/searchindex.js; exit 1; }
	@echo "build/site/index.html"

pages: $(STAMP)  ## write the pages that are made from the code anew
	@$(BIN)/python -m tests.house.pages

# PEERS: the folder of the peers' scripts; 1 stands for ../shared/peers.
PEERS_FOLDER = $(if $(filter 1,$(PEERS)),../shared/peers,$(PEERS))

bench: $(STAMP)  ## what it costs (docs/explanation/performance.md); PEERS=folder measures others in turn; ONLY="W1 W3"; ROUNDS=5; WRITE=1
	@$(BIN)/python -m bench $(ONLY) $(if $(PEERS),--peers '$(PEERS_FOLDER)') $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(WRITE),--write)

wishes: $(STAMP)  ## score a model at the wishes of tests/wishes: MODEL=NAME of [models] in the settings of HOME_DIR (~/.narval); ONLY="parcel frost"
	@$(BIN)/python -m tests.wishes '$(MODEL)' $(if $(HOME_DIR),--home '$(HOME_DIR)') $(if $(ONLY),--only '$(ONLY)')

soak: $(STAMP)  ## the long runs
	@$(BIN)/python -m pytest -m soak --timeout 3600
	@HYPOTHESIS_PROFILE=random $(BIN)/python -m pytest -m 'hypothesis and not soak' --timeout 3600
	@NARVAL_EXAMPLES=400 $(BIN)/python -m pytest --timeout 3600 tests/agent/test_recovery.py tests/trials/explore/test_soundness.py

shots: $(STAMP) browser  ## take the pictures of docs/reference/monitor.md anew; ONLY="status run"
	@$(BIN)/python -m tests.browser.shots $(ONLY)

# The package is for the Python that makes it: that of the system.
DEB_PYTHON ?= /usr/bin/python3

deb: $(STAMP)  ## a Debian package in dist/, with all that narval imports (docs/how-to/install.md)
	@rm -rf build/wheel && $(BIN)/python -m pip wheel --disable-pip-version-check --quiet --no-deps -w build/wheel .
	@$(DEB_PYTHON) packaging/deb.py build/wheel/narval-*.whl dist

vendor:  ## fetch the scripts that are not ours anew (npm)
	@$(BIN)/python -m tests.surfaces.web.vendored

clean:  ## remove what was set up
	rm -rf $(VENV) .demo .bench .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
