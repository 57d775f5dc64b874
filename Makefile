# The few commands. Each installs what it needs: uv (if missing, into .uv/) and the locked packages (into .venv/).
SHELL := /bin/bash
UV := $(or $(shell command -v uv 2>/dev/null),.uv/bin/uv)
KUBE ?= embedded
RUN := $(UV) run --quiet --locked
# What the commands start (tests of the image, for one) calls uv by its name.
export PATH := $(abspath .uv/bin):$(PATH)
# The tests' many processes import the same packages: the first to come compiles them for all.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo sandbox binaries test e2e e2e-pulumi judge check format lock clean
.DEFAULT_GOAL := help

help: ## list the commands
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.uv/bin/uv:
	@echo "Installing uv into .uv/…"
	@python3 -m venv .uv && .uv/bin/pip install --quiet --disable-pip-version-check uv

install: $(filter .uv/bin/uv,$(UV)) ## install the locked packages into .venv/
	@test -d .venv || echo "Installing the locked packages into .venv/, once: up to two minutes…"
	@$(UV) sync --quiet --locked

demo: install ## the whole product on this machine: pending pods become nodes, empty nodes go (KUBE=real: on a real control plane)
	@$(RUN) python -m sandbox demo --kube $(KUBE)

sandbox: install ## leave a sandbox cluster running for kubectl and nodeless; prints the variables that lead there
	@$(RUN) python -m sandbox up --kube $(KUBE)

test: install ## all tests
	@$(RUN) pytest -n 6 --dist loadgroup $(PYTEST_FLAGS)

binaries: install ## those of a real control plane: found, or built once by Go
	@$(RUN) python -m sandbox.kubebinaries

e2e: install ## scenarios on a real control plane (KUBEBUILDER_ASSETS, or built once by Go)
	@$(RUN) python -m e2e $(E2E_FLAGS)

e2e-pulumi: install ## the stack by Pulumi itself, against the sandbox: preview to destroy (needs pulumi and its plugins)
	@$(RUN) python -m e2e.engine

judge: install ## kube-scheduler's own filters judge our plans for problems made up (JUDGE_FLAGS="FILE... --budget 0"; needs Go once)
	@$(RUN) python -m bench judge $(or $(JUDGE_FLAGS),--seeds 20)

check: install ## lint, format, types, import contracts, lock file
	@$(UV) lock --check --quiet
	@$(UV) pip check --quiet
	@$(RUN) ruff check --quiet .
	@$(RUN) ruff format --check --quiet .
	@$(RUN) mypy
	@$(RUN) lint-imports --no-cache

format: install ## format and fix what can be fixed
	@$(RUN) ruff check --fix --quiet . ; $(RUN) ruff format --quiet .

clean: ## remove everything that the other commands made
	rm -rf .venv .uv .sandbox .mypy_cache .ruff_cache .hypothesis .import_linter_cache .pytest_cache dist build
	find . -name __pycache__ -prune -exec rm -rf {} +
