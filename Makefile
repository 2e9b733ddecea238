# nacre: `make demo` runs the main job, `make test` passes the tests.

export CGO_ENABLED ?= 0
GO      ?= go
BIN     := bin
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
TOOL    := $(GO) tool -modfile=tools/go.mod

.PHONY: help build demo test check fmt lint tidy deadcode race bench bench-memory fuzz probes clean

help:    ## show the targets
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t12

build: ## build the binaries and the built-in plugins into bin/
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...
	@for plugin in $(notdir $(wildcard plugins/*)); do \
	  mkdir -p $(BIN)/plugins/$$plugin/skill && \
	  $(GO) build -ldflags '-s -w' -o $(BIN)/plugins/$$plugin/handler ./plugins/$$plugin && \
	  cp plugins/$$plugin/manifest.json $(BIN)/plugins/$$plugin/ && \
	  cp plugins/$$plugin/skill/*.md $(BIN)/plugins/$$plugin/skill/ || exit 1; \
	done

demo: build ## run an agent sealed, attacks included; CONTROL=1 runs the same attacks unsealed, against decoys
	$(BIN)/nacre demo $(if $(CONTROL),--control)

test: build ## pass the tests; a missing peer is skipped by name
	$(GO) test -timeout 20m ./...

check: fmt tidy lint deadcode race ## what CI runs besides the tests

fmt:
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "run gofmt -w on: $$out"; exit 1; }

tidy:
	$(GO) mod tidy -diff

lint:
	$(GO) vet ./...
	$(TOOL) golangci-lint run ./...

deadcode:
	@out=$$($(TOOL) deadcode -test ./...); [ -z "$$out" ] || { echo "$$out"; exit 1; }

# What these drive are binaries and other people's programs, which the detector
# does not see.
OUTSIDE := /cmd/nacre$$|/internal/selfhost$$|/internal/egress/compat$$|/internal/sandbox/probe$$

race: build ## the tests with the race detector (needs gcc)
	CGO_ENABLED=1 $(GO) test -race -shuffle=on -timeout 30m $$($(GO) list ./... | grep -vE '$(OUTSIDE)')

bench: build ## print the tables of docs/performance.md
	$(GO) test -run '^$$' -bench . -benchtime 1s ./... | (cd tools && $(GO) run ./benchtable)

FUZZTIME ?= 1m
fuzz: ## run every fuzz target for FUZZTIME
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; done

bench-memory: ## measure how memories are found; LOCOMO=FILE adds conversations in its format
	$(if $(LOCOMO),LOCOMO='$(abspath $(LOCOMO))') $(GO) test -count=1 -v -run '^Test(Retrieval|Conversations)$$' ./internal/memory

probes: ## print the matrix of backends and escape probes; UPDATE=1 writes docs/security-matrix.md
	$(GO) test -count=1 -run '^TestMatrix$$' -v ./internal/sandbox/probe $(if $(UPDATE),-update)

clean: ## remove what build made
	rm -rf $(BIN)
