# `make demo` and `make test` are all a newcomer needs; both install what is missing and may be repeated.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup install demo test lint docs conformance ci bench build release schemathesis soak study services

ENV = eval "$$(scripts/build-env)"
# Where the shared conformance suite and test data are looked for; tests that need them say so when they are absent.
export SCHEDULER_SHARED ?= $(abspath ../shared)

help: ## Lists what can be made.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: ## Installs what building needs and is missing (root or sudo).
	@scripts/setup

build: setup ## Builds the binary in the profile that tests and the demo use.
	@$(ENV); cargo build --locked -p stella-scheduler

release: setup ## Builds the optimised binary.
	@$(ENV); cargo build --locked --release -p stella-scheduler

# Where `make install` puts the binary.
BIN ?= $(if $(filter 0,$(shell id -u)),/usr/local/bin,$(HOME)/.local/bin)

install: build ## Puts the binary into BIN: /usr/local/bin for root, else ~/.local/bin.
	@$(ENV); install -D -s -m 755 "$$CARGO_TARGET_DIR/debug/stella-scheduler" "$(BIN)/stella-scheduler"
	@echo "installed $(BIN)/stella-scheduler"
	@case ":$$PATH:" in *":$(BIN):"*) ;; *) echo 'it is not on the path yet: export PATH="$(BIN):$$PATH"';; esac

demo: build ## Runs the main job on a sample catalog; KEEP=1 leaves it running, ARGS passes options.
	@$(ENV); "$$CARGO_TARGET_DIR/debug/stella-scheduler" demo $(if $(KEEP),--keep) $(ARGS)

services: ## Starts the servers that tests need. The embedded engine needs none.
	@echo "the tests of this version need no servers: they run on the embedded engine"

test: setup services ## Runs every test.
	@scripts/setup nextest
	@$(ENV); cargo nextest run --locked --workspace
	@$(ENV); cargo test --locked --workspace --doc

lint: setup ## Formatting, clippy with warnings denied, documentation.
	cargo fmt --all --check
	@scripts/check-layers
	@$(ENV); cargo clippy --locked --workspace --all-targets -- -D warnings
	@$(ENV); RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items

conformance: build ## Runs the shared black-box suite on the same build, where it is there.
	@$(ENV); scripts/conformance "$$CARGO_TARGET_DIR/debug/stella-scheduler"

ci: lint test conformance ## What .ci/run runs.

bench: setup ## Measures, in release.
	@$(ENV); cargo bench --locked -p scheduler-benches
	@$(ENV); cargo bench --locked -p stella-scheduler --bench service

study: setup ## Replays real advisories and writes docs/results/precision.md.
	@scripts/study

schemathesis: build ## Holds the service against its OpenAPI document (schemathesis from PyPI); ARGS passes options.
	@$(ENV); scripts/schemathesis "$$CARGO_TARGET_DIR/debug/stella-scheduler" $(ARGS)

soak: schemathesis ## The long tests.
	@$(ENV); SOAK=1 cargo nextest run --locked --workspace --run-ignored all
