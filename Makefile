# Everything a fresh clone needs: Python 3.11 or newer, pip, make and git.
PYTHON ?= python3
# Tests start hundreds of processes: compiled modules are kept between them.
unexport PYTHONDONTWRITEBYTECODE
# One environment to try Nearveil, and one with the tools of developers, which is three times as large.
DEMO := .venv-demo
DEMO_READY := $(DEMO)/.ready
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TOOLS := build/tools
GENERATOR := build/generator

.PHONY: demo serve-demo reproduce reproduce-quick reproduce-beyond test evidence lint bench clean lock sbom wheel wheel-demo lint-deploy docs

demo: $(DEMO_READY)
	$(DEMO)/bin/nearveil demo --out demo

# The service with synthetic users in it, until Ctrl-C.
serve-demo: $(DEMO_READY)
	$(DEMO)/bin/nearveil serve-demo --out serve-demo

# The paper again: report/report.html, in at most 15 minutes on two cores; in two minutes, with wide intervals; and what the
# paper does not have. NEARVEIL_DATA_DIR names the folder with the real check-ins.
reproduce: $(DEMO_READY)
	$(DEMO)/bin/nearveil reproduce paper --out report

reproduce-quick: $(DEMO_READY)
	$(DEMO)/bin/nearveil reproduce paper --quick --out report-quick

reproduce-beyond: $(DEMO_READY)
	$(DEMO)/bin/nearveil reproduce beyond --out report-beyond

# One process more than cores: browsers, services and Spark are mostly waited for.
test: lint
	$(BIN)/python -m pytest -n 3 --doctest-modules

# Everything slow that a claim rests on: the tests marked "evidence", and floods, fuzzing, faults, kills and outages of the
# service. Writes build/evidence.md, with figures.
evidence: $(READY) $(GENERATOR)/.ready
	$(BIN)/python -m tests.evidence

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --num-workers 2

bench: $(READY)
	$(BIN)/python -m benchmarks

# The site in site/, to be read from disk: site/index.html. A broken link or a warning is an error.
docs: $(READY)
	$(BIN)/python -m deploy.build_site site

# Python compiles what is imported at the first import: all packages would take half a minute.
$(DEMO_READY): INSTALL := --no-compile -e '.[research,serve]'
$(READY): INSTALL := -e '.[dev]'
$(DEMO_READY) $(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Nearveil needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(INSTALL)
	touch $@

# Makes a client of the service's description, in the tests. It needs other versions of packages than Nearveil has.
$(GENERATOR)/.ready: Makefile
	$(PYTHON) -m venv $(GENERATOR)
	$(GENERATOR)/bin/python -m pip install --quiet --disable-pip-version-check openapi-python-client==0.29.1
	touch $@

# The wheel of the last commit in dist/, built twice with the same bytes.
wheel: $(READY)
	$(BIN)/python deploy/build_wheel.py dist

# The wheel in an empty environment: nearveil demo must run.
wheel-demo: wheel
	rm -rf build/wheel-demo
	$(PYTHON) -m venv build/wheel-demo
	build/wheel-demo/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "$$(ls dist/nearveil-*.whl)[research]"
	cd build/wheel-demo && bin/nearveil demo --out demo

# What is pinned, with the hashes of all its files: constraints-hashed.txt has what constraints.txt has,
# deploy/requirements.txt what the image has, deploy/build-requirements.txt what builds it, and deploy/tools.txt the tools below.
LOCK := $(TOOLS)/bin/uv pip compile --quiet --generate-hashes --no-header --no-annotate --python-version 3.11.4 --python-platform linux
lock: $(TOOLS)/.ready
	$(LOCK) --no-deps constraints.txt -o constraints-hashed.txt
	$(LOCK) --extra serve --constraints constraints.txt pyproject.toml -o deploy/requirements.txt
	echo hatchling | $(LOCK) --constraints constraints.txt - -o deploy/build-requirements.txt
	$(LOCK) deploy/tools.in -o deploy/tools.txt

# A list of everything in the image, with hashes: dist/nearveil.cdx.json (CycloneDX).
sbom: $(TOOLS)/.ready
	mkdir -p dist
	$(TOOLS)/bin/cyclonedx-py requirements deploy/requirements.txt --pyproject pyproject.toml --mc-type application --output-reproducible --of JSON -o dist/nearveil.cdx.json

# Dockerfile, YAML files and workflows.
lint-deploy: $(TOOLS)/.ready
	$(TOOLS)/bin/hadolint --ignore DL3059 Dockerfile
	$(TOOLS)/bin/yamllint --strict --config-file deploy/yamllint.yaml compose.yaml deploy .github
	$(TOOLS)/bin/check-jsonschema --builtin-schema vendor.compose-spec compose.yaml
	$(TOOLS)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(TOOLS)/bin/zizmor --offline --quiet --config deploy/zizmor.yml .github/workflows

$(TOOLS)/.ready: deploy/tools.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r deploy/tools.txt
	touch $@

clean:
	rm -rf $(DEMO) $(VENV) demo serve-demo report report-quick report-beyond bench build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
