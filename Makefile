# Everything a fresh clone needs: Python 3.11 or newer, pip, make and git.
PYTHON ?= python3
# Tests start hundreds of processes: compiled modules are kept between them.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo serve-demo reproduce reproduce-quick test torture lint bench clean

demo: $(READY)
	$(BIN)/nearveil demo --out demo

# The service with made-up people in it, until Ctrl-C.
serve-demo: $(READY)
	$(BIN)/nearveil serve-demo --out serve-demo

# The paper again: report/report.html. NEARVEIL_DATA_DIR names the folder with the real check-ins.
reproduce: $(READY)
	$(BIN)/nearveil reproduce --out report

reproduce-quick: $(READY)
	$(BIN)/nearveil reproduce --quick --out report-quick

# One process more than cores: browsers, services and Spark are mostly waited for.
test: lint
	$(BIN)/python -m pytest -n 3 --doctest-modules

# Flood the service, send it any bytes, let each of its writes fail, kill it fifty times on each store, and take its
# database away for two minutes; an hour.
torture: $(READY)
	$(BIN)/python -m tests.services.flood
	$(BIN)/python -m tests.services.fuzz --minutes 5
	$(BIN)/python -m tests.services.faults
	$(BIN)/python -m tests.services.torture --kills 50
	$(BIN)/python -m tests.services.outage --seconds 120

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --num-workers 2

bench: $(READY)
	$(BIN)/python -m benchmarks

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Nearveil needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo serve-demo report report-quick bench build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
