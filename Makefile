PYTHON ?= python3
VENV ?= .venv
VERSIONS ?= 1.6.1 1.7.2 1.8.0 latest

export PYTHON
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Whatever environment the caller's shell has active, only the one under $(VENV) counts.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME PIP_USER PIP_TARGET PIP_PREFIX

.DEFAULT_GOAL = help
.NOTPARALLEL:
.PHONY: help demo test lint battery test-versions docs bench real clean check-python

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 15

demo: $(VENV)/.installed ## install the package and run its demonstration
	$(VENV)/bin/python -m sklntp

test: lint ## lint, then all tests and doctests
	$(VENV)/bin/python -m pytest

lint: $(VENV)/.installed-test ## ruff: rules and formatting
	$(VENV)/bin/python -m ruff check
	$(VENV)/bin/python -m ruff format --check

battery: $(VENV)-floor/.installed ## scikit-learn's checks, and what leans on SciPy, on the oldest dependencies
	$(VENV)-floor/bin/python -m pytest tests/test_sklearn_battery.py tests/test_max_margin.py tests/test_generalization.py

test-versions: check-python ## scikit-learn's checks on each of VERSIONS
	@.ci/test-versions $(VERSIONS)

docs: $(VENV)/.installed-doc ## the documentation with its gallery, into docs/_build/html
	MPLBACKEND=agg $(VENV)/bin/python -m sphinx -q -W --keep-going docs docs/_build/html

bench: $(VENV)/.installed-bench ## speed and size beside PyTorch and others, into docs/benchmarks.md
	$(VENV)/bin/python benchmarks/run.py

real: $(VENV)/.installed-test ## next tokens of your own sequences: make real FILES="log.txt ..." (a file has one sequence a line)
	$(VENV)/bin/python benchmarks/real.py $(FILES)

clean: ## remove the environments, caches and built files
	@for venv in $(VENV) $(VENV)-floor; do [ ! -e $$venv/pyvenv.cfg ] || rm -rf $$venv; done
	rm -rf build dist .pytest_cache .ruff_cache docs/_build docs/auto_examples docs/generated
	find sklntp tests examples docs benchmarks -name __pycache__ -exec rm -rf {} + 2>/dev/null || true

check-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "sklntp needs Python 3.11 or newer, but PYTHON=$(PYTHON) is:" \
	    "$$($(PYTHON) --version 2>&1). Try make PYTHON=python3.11" >&2; exit 1; }

# $(call venv,DIR) makes an environment there, anew if one lacks a working pip.
define venv
@$(1)/bin/python -m pip --version >/dev/null 2>&1 || { echo "Making $(1) ..."; \
  [ ! -e $(1)/pyvenv.cfg ] || clear=--clear; $(PYTHON) -m venv $$clear $(1); }
endef

# The stamps: .installed has no extra, .installed-test the extra "test", .installed-doc "doc".
$(VENV)/.installed: pyproject.toml | check-python
	$(call venv,$(VENV))
	$(VENV)/bin/python -m pip install -q -e .
	@touch $@

$(VENV)/.installed-%: pyproject.toml | check-python
	$(call venv,$(VENV))
	$(VENV)/bin/python -m pip install -q -e ".[$*]"
	@touch $@ $(VENV)/.installed

# Floors are read from pyproject.toml, so that the oldest versions tested are those declared.
$(VENV)-floor/.installed: pyproject.toml | check-python
	$(call venv,$(VENV)-floor)
	@floors=$$($(PYTHON) -c 'import tomllib; \
	  needs = tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]; \
	  print(*(n.replace(">=", "==") for n in needs if not n.startswith("scikit-learn")))') && \
	echo "Installing scikit-learn==1.6.1 $$floors" && \
	$(VENV)-floor/bin/python -m pip install -q -e . pytest pandas scikit-learn==1.6.1 $$floors
	@touch $@
