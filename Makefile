PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help install demo test quick check format bench clean

help: ## list what make can do
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/tilewright: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.test: pyproject.toml $(BIN)/tilewright
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

$(VENV)/.dev: pyproject.toml $(BIN)/tilewright
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

install: $(BIN)/tilewright ## create .venv and install tilewright into it

demo: $(BIN)/tilewright ## the main job on a network of the zoo; says where the results are
	@mkdir -p demo
	$(BIN)/tilewright tile rn50_stem --node conv1 --split H=4
	$(BIN)/tilewright shrink fsrcnn@540x960 --memory 25% -o demo/fsrcnn_small.onnx --measure --plot demo/fsrcnn_memory.png
	@echo "Results: demo/fsrcnn_small.onnx, demo/fsrcnn_memory.png"

test: $(VENV)/.test ## everything
	$(BIN)/python -m pytest -n 2 --dist worksteal

quick: $(VENV)/.test ## the short loop before a commit, under 30 seconds
	$(BIN)/python -m pytest -m quick

check: $(VENV)/.dev ## format, lint, types, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(VENV)/.dev ## apply the format and the safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test ## measure speed and memory; writes bench/results/*.json
	$(BIN)/python bench/all.py

clean: ## remove what make created
	rm -rf $(VENV) demo bench/results
