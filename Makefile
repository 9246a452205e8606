# make demo   trains peers on real data and prints one comparison (about a minute on two cores)
# make test   everything the project checks (under ten minutes on two cores)
# make soak   what takes longer
# Everything lives in .venv, made on the first call. TORCH=torch==2.12.0 takes another release of torch.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
TORCH ?=

.PHONY: demo test soak bench lint clean

demo: $(VENV)/run.stamp
	$(BIN)/covey demo

test: lint
	$(BIN)/python -m pytest -m "not soak"

soak: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -m soak -v

bench: $(VENV)/dev.stamp
	$(BIN)/python -m benchmarks

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

$(VENV)/run.stamp: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v >= (3, 11) else f"covey needs Python 3.11 or newer, and {sys.executable} is {v[0]}.{v[1]}; name another: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(if $(TORCH),echo "$(TORCH)" > $(VENV)/constraints.txt,cp constraints.txt $(VENV)/constraints.txt)
	@echo "Installing covey into $(VENV) (torch is large; this takes a minute or two the first time) ..."
	$(PIP) install --constraint $(VENV)/constraints.txt --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp
	$(PIP) install --constraint $(VENV)/constraints.txt --editable '.[dev,network]'
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache
