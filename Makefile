# Two commands matter: `make run` and `make test`. Both set up what they need in .venv and build/.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.ready

.PHONY: help run demo setup test lint unit test-llamacpp test-catalogue test-vllm bench bench-prober trial-freeze trial-busy trial-soak trial-ledger bench-ledger trial-replicas clean

help:            ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(SETUP): pyproject.toml constraints.txt scripts/setup.sh
	@PYTHON=$(PYTHON) bash scripts/setup.sh $(VENV)
	@touch $@

setup: $(SETUP)  ## make the virtual environment with everything that tests and engines need

run: $(SETUP)    ## two real llama.cpp engines and Pulsegate over them, until Ctrl-C
	@exec $(BIN)/pulsegate demo --stay

demo: $(SETUP)   ## freeze one of two engines, watch the verdict change, thaw it
	@exec $(BIN)/pulsegate demo

test: lint unit test-llamacpp  ## everything but the long real suites

lint: $(SETUP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/pyright

unit: $(SETUP)
	$(BIN)/pytest

test-llamacpp: $(SETUP)  ## the suites against the embedded engine
	$(BIN)/pytest -m llamacpp --timeout 300

test-catalogue: $(SETUP)  ## every recorded failure, played by the simulator, and the verdict on it
	$(BIN)/pytest tests/catalogue

test-vllm: $(SETUP)      ## the suites against a real vLLM (installs it into build/vllm: 2.5 GB)
	bash scripts/install-vllm.sh build/vllm
	$(BIN)/pytest -m vllm --timeout 900

bench-prober: $(SETUP)   ## cost and punctuality of the prober at 500, 2,000 and 5,000 endpoints
	$(BIN)/python -m bench.prober

bench: $(SETUP)  ## requests through Pulsegate and through other gateways, side by side (20 minutes, a quiet machine)
	$(BIN)/python -m bench.gateway $(ARGS)

trial-freeze: $(SETUP)   ## freeze, kill and slow down engines under load: nobody may notice (8 minutes)
	$(BIN)/python -m bench.trial_freeze $(ARGS)

trial-busy: $(SETUP)     ## engines at and over their capacity: health must not make it worse (30 minutes)
	$(BIN)/python -m bench.trial_busy $(ARGS)

trial-soak: $(SETUP)     ## ten minutes of mixed load and random faults on 20 engines: failures, leaks, memory
	$(BIN)/python -m bench.trial_soak $(ARGS)

trial-ledger: $(SETUP)   ## kill -9 of workers and control processes under load: each answer is booked once (15 minutes)
	$(BIN)/python -m bench.trial_ledger $(ARGS)

trial-replicas: $(SETUP) ## up to 20 gateways over 60 engines: probes, take-over, news, a Redis that goes away (50 minutes)
	$(BIN)/python -m bench.trial_replicas $(ARGS)

bench-ledger: $(SETUP)   ## appends a second, a million lines summed up, and how soon the cost gate knows
	$(BIN)/python -m bench.ledger $(ARGS)

clean:           ## remove what the other targets made
	rm -rf $(VENV) build dist
