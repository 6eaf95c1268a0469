PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FILES ?= 20000

.DEFAULT_GOAL := help
.PHONY: help install demo picture test quick soak golden check format bench clean

help: ## list what make can do
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/tilewright: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.compiled: $(BIN)/tilewright $(shell find src -name '*.py' -path '*/kernels/*') src/tilewright/schedule/kernel.py src/tilewright/memory/greedy.py $(wildcard src/tilewright/manycore/*.py)
	@echo "compiling the hot loops, once: about a minute"
	@find src -name '*.nb[ic]' -delete  # those of other versions may name what is gone
	@$(BIN)/tilewright plan four_convs@64x64 --on npu-2.7 --memory-limit 64KiB --effort low --no-verify > /dev/null
	@$(BIN)/tilewright plan rn50_stem --on npu-2.7 --effort low --no-verify > /dev/null
	@$(BIN)/tilewright plan four_convs@16x16 --on examples/manycore/three_cores.yaml --mapping examples/manycore/fused.yaml --no-verify > /dev/null
	@touch $@

$(VENV)/.test: pyproject.toml $(BIN)/tilewright
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

$(VENV)/.dev: pyproject.toml $(BIN)/tilewright
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

install: $(VENV)/.compiled ## create .venv, install tilewright into it, compile its hot loops

demo: $(VENV)/.compiled ## tiles, a smaller model, and a planned network with its report; under three minutes
	@mkdir -p demo
	$(BIN)/tilewright tile rn50_stem --node conv1 --split H=4
	$(BIN)/tilewright shrink fsrcnn@540x960 --memory 25% -o demo/fsrcnn_small.onnx
	$(BIN)/tilewright plan resnet18 --on npu-2.7 --out demo/resnet18 --force
	@$(BIN)/python -c "$$HEADLINE" demo/resnet18/summary.json
	@echo "Report: demo/resnet18/report.html"

define HEADLINE
import json, sys
run = json.load(open(sys.argv[1]))
print(
    f"{run['model']} on {run['machine']}: {run['latency_ms']:.2f} ms, "
    f"{run['search']['speed_up']:.2f}x as fast as layer by layer, "
    f"{1 + run['gap']:.2f}x of the lower bound; "
    f"{run['verified']['tasks_executed']} tasks executed, same results as onnxruntime"
)
endef
export HEADLINE

picture: demo/resnet18/report.html ## the report as docs/images/report.png, from a demo run; needs Chromium
	$(BIN)/python bench/report_picture.py demo/resnet18 docs/images/report.png --height 1615

demo/resnet18/report.html:
	$(MAKE) demo

test: $(VENV)/.test $(VENV)/.compiled ## everything
	$(BIN)/python -m pytest -n 2 --dist worksteal

quick: $(VENV)/.test ## the short loop before a commit, under 30 seconds
	$(BIN)/python -m pytest -m quick

soak: $(VENV)/.test ## fresh examples and FILES mutated inputs of each kind (20000: hours; not part of `test`)
	TILEWRIGHT_SOAK=$(FILES) $(BIN)/python -m pytest -n 2 --dist worksteal -m soak

golden: $(VENV)/.test ## write all golden files anew, after a change that is meant; then read the diff
	TILEWRIGHT_GOLDEN=write $(BIN)/python -m pytest -m golden

check: $(VENV)/.dev $(VENV)/.test ## format, lint, types, import layers
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
