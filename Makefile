# nacre: `make demo` runs the main job, `make test` passes the tests.

export CGO_ENABLED ?= 0
GO      ?= go
BIN     := bin
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
TOOL    := $(GO) tool -modfile=tools/go.mod

.PHONY: help build fixtures older demo demo-cluster k8s kube test-k8s life picture screenshots drawn torture test ci-full check fmt lint tidy deadcode race release bench bench-cluster bench-memory bench-injection fuzz probes clean

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

k8s: build ## build nacre-k8s, and the sandbox-init of its pods, into bin/
	$(GO) build -C k8s -ldflags '-s -w' -o $(abspath $(BIN))/ ./cmd/nacre-k8s
	$(GO) build -C k8s -ldflags '-s -w' -o $(abspath $(BIN))/pod/ ./cmd/sandbox-init

# Where the control plane of the tests of k8s/ is kept: it is built once.
KUBE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/nacre-kube

kube: ## build the control plane that the tests of k8s/ run (minutes, once)
	bash tools/kube/build $(KUBE)

test-k8s: k8s ## pass the tests of k8s/; those of a whole cluster need make kube, and are skipped by name without
	NACRE_BUILT=$(abspath $(BIN)) NACRE_KUBE=$(if $(wildcard $(KUBE)/built),$(KUBE)) $(GO) test -C k8s -vet=off -count=1 -timeout 20m ./...

# Programs that only tests need. NACRE_BUILT tells them where all of them are, so
# that each is linked once.
FIXTURES := $(addprefix ./cmd/nacre/testdata/,plugins/desk plugins/post plugins/reach probe reader) ./internal/egress/compat/testdata/goclient

fixtures: build ## build what the tests run
	$(GO) build -ldflags '-s -w' -o $(BIN)/test/ $(FIXTURES)

# The commit of which `make older` builds the nacre that works beside this one in a test: one that is on
# main, before the tables of the store that came last.
OLDER := 8ae8c2b

older: ## build the nacre of an earlier commit into bin/older, for the test of two versions on one store
	rm -rf $(BIN)/older $(BIN)/older.src && mkdir -p $(BIN)/older.src
	git archive $(OLDER) | tar -x -C $(BIN)/older.src
	$(MAKE) -C $(BIN)/older.src build BIN=$(abspath $(BIN)/older) VERSION=$(OLDER)
	rm -rf $(BIN)/older.src

demo: build ## run an agent sealed, attacks included; CONTROL=1 runs the same attacks unsealed, against decoys
	$(BIN)/nacre demo $(if $(CONTROL),--control)

demo-cluster: fixtures ## three nodes on one PostgreSQL: one killed, one stopped and resumed, one cut off; what was taken over when
	@out=$$(NACRE_REQUIRE=all NACRE_BUILT=$(abspath $(BIN)) $(GO) test -count=1 -timeout 10m -v -run '^TestNodesCarryOnEachOthersMessages$$' ./cmd/nacre 2>&1); code=$$?; \
	  echo "$$out" | if [ $$code = 0 ]; then sed -n 's/^ *\(|.*\)/\1/p; s/^ *\([0-9]* \(messages\|tick\).*: .*\)/\1/p'; else cat; fi; exit $$code

life: fixtures ## replay twenty recorded tasks over ten days: what is estimated, told, proposed and lost (docs/life.md)
	@out=$$(NACRE_REQUIRE=all NACRE_BUILT=$(abspath $(BIN)) $(GO) test -count=1 -timeout 20m -v -run '^TestTheTwentyTasks$$' ./cmd/nacre 2>&1); code=$$?; \
	  echo "$$out" | if [ $$code = 0 ]; then sed -n 's/^ *[a-z_0-9.]*go:[0-9]*: \(|.*\)/\1/p'; else cat; fi; exit $$code

torture: ## kill, cut, slow and silence three nodes for minutes while 1,500 messages come in; the seed is printed
	NACRE_REQUIRE=all NACRE_SIZE=full $(GO) test -count=1 -timeout 20m -v -run '^TestNothingIsLostInAStorm$$' ./internal/inbox

# What runs the tests; CI has one that also notes how long each takes. Nothing is vetted here, since the
# linter of make check does that, and what only a debugger reads is not linked.
GOTEST ?= $(GO) test -vet=off -ldflags='-s -w'
# What the tests are told: where the binaries are, and with which programs.
TOLD := PATH="$$(.ci/path)" NACRE_BUILT=$(abspath $(BIN))
# Many tests wait for processes more than they compute: there are more at once
# than processors.
AT_A_TIME := $(addsuffix $(shell expr 2 '*' "$$(nproc 2>/dev/null || echo 2)"),-p= -parallel=)

# What `make test` is to run: all packages, unless a part of them is named.
PACKAGES ?= ./...
# What go test is told besides.
FLAGS ?=

test: fixtures ## pass the tests at their small sizes; a missing peer is skipped by name; RACE=1 lets the race detector see them
ifdef RACE
	$(raced)
	some=$$(.ci/raced -t '$(IN_TURN)|$(IN_PARTS)' $(PACKAGES)) && [ -n "$$some" ] && \
	  $(TOLD) $(GOTEST) -timeout 30m -run '$(WITHOUT_DETECTOR)' $$some
	raced=$$(.ci/raced $(PACKAGES)) && others=$$($(GO) list $(PACKAGES) | grep -vxF "$$raced") && \
	  $(TOLD) $(GOTEST) -timeout 70m $(AT_A_TIME) $$others
else
	$(TOLD) $(GOTEST) -timeout 70m $(AT_A_TIME) $(value FLAGS) $(PACKAGES)
endif
	$(GO) test -C examples/embed -vet=off -timeout 10m ./...

ci-full: fixtures older ## pass the tests at their large sizes: tens of thousands of files, gigabytes, minutes each
	$(TOLD) NACRE_OLDER=$(abspath $(BIN))/older NACRE_SIZE=full $(GOTEST) -count=1 -timeout 60m ./...
	bash .ci/macos
	$(MAKE) kube
	NACRE_SIZE=full $(MAKE) test-k8s
	[ "$$(id -u)" != 0 ] || bash .ci/engines $(GOTEST) -count=1 -timeout 30m ./internal/sandbox ./internal/sandbox/probe

check: fmt tidy drawn lint deadcode race ## what CI runs besides the tests

fmt:
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "run gofmt -w on: $$out"; exit 1; }

tidy:
	$(GO) mod tidy -diff
	cd examples/embed && $(GO) mod tidy -diff
	cd k8s && $(GO) mod tidy -diff

picture: ## draw docs/demo.svg, the picture of README.md, from docs/demo.md
	cd tools && $(GO) run ./picture <../docs/demo.md >../docs/demo.svg

screenshots: ## take the pictures of docs/cockpit.md, as its test sees the page in Chromium
	NACRE_REQUIRE=all NACRE_SCREENSHOTS=$(abspath docs) $(GO) test -count=1 -run '^TestInARealBrowser$$/^on_a_phone' ./internal/web

drawn:
	@cd tools && $(GO) run ./picture <../docs/demo.md | cmp -s - ../docs/demo.svg || { echo "docs/demo.svg is not of docs/demo.md: run make picture"; exit 1; }

# The linter's govet has all that go vet looks for, tests included. The other modules are
# vetted here alone: go test has settings of its own for that, for which all that is imported is
# read once more.
lint:
	$(GO) vet -C examples/embed ./...
	$(GO) vet -C k8s ./...
	$(TOOL) golangci-lint run ./...

deadcode:
	@out=$$($(TOOL) deadcode -test ./...); [ -z "$$out" ] || { echo "$$out"; exit 1; }

# What measures, or tries one input after the other, races with nobody, and takes minutes under the detector.
IN_TURN := Injection|Conversations|Retrieval|EveryChangedByteIsFound|NothingIsLaundered|ASchemaThatReadsOverAndOverEnds|SchemasMeanWhatTheySayElsewhere|ABodyThatUnpacksToTooMuchIsRefused|ABodyOfBeginningsTakesLittle|AnArchiveWith(out)?TheCredential(Arrives|DoesNotArrive)|NothingOfAWordStaysInAPage|TheIndexThatIsKeptFindsTheSame|AReaderKeepsTraces|MemoryOnlyNarrows|HostileShapesAreLinear|AQuestionIsSeenWholeInAnySize|ALongTextIsReadWhole|WhatACommandCostsIsBounded|MemoryDoesNotGrowWithCalls|Compression
IN_PARTS := AdapterIsABrain|IsEndedWhenItIsNotWhatWasLaunched
# A part of a test is named with the test that it is of: a line of 64 MiB is one input, too.
ACTED := (Loop|Replay)IsABrain$$/^an_acted_program$$/^a_line_o
WITHOUT_DETECTOR := ^Test($(IN_TURN))$$|^FuzzBounds$$|($(IN_PARTS))$$/^(a_line_o|bigger)|$(ACTED)

# What only the detector's programs need is compiled without what only a debugger reads.
# Nothing to run is an error: go test would take the folder that it is in.
define raced
raced=$$(.ci/raced $(PACKAGES)) && [ -n "$$raced" ] && \
  $(TOLD) CGO_ENABLED=1 $(GOTEST) -race -vet=off -skip '$(WITHOUT_DETECTOR)' -gcflags=all=-dwarf=false -shuffle=on -timeout 50m $(AT_A_TIME) $$raced
endef

race: fixtures ## the tests with the race detector (needs gcc)
	$(raced)

release: ## make what people install, into dist/: TARGETS=linux/amd64,darwin/arm64; SIGN=KEY signs it
	$(GO) run -C tools/release . --root $(abspath .) $(if $(TARGETS),--targets $(TARGETS)) $(if $(SIGN),--sign $(abspath $(SIGN)))

bench: build ## print the tables of docs/performance.md
	$(GO) test -run '^$$' -bench . -benchtime 1s ./... | (cd tools && $(GO) run ./benchtable)

FUZZTIME ?= 1m
fuzz: ## run every fuzz target for FUZZTIME
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; done

bench-cluster: fixtures ## print the figures of docs/scale.md: messages of 1, 2 and 3 nodes, and statements of a session
	@NACRE_REQUIRE=all NACRE_SIZE=full NACRE_BUILT=$(abspath $(BIN)) $(GO) test -count=1 -timeout 30m -v -run '^(TestFigures|TestStatementsOfASession)$$' ./internal/inbox ./cmd/nacre | sed -n 's/^ *\(|.*\)/\1/p; /^ *--- FAIL\|^FAIL/p'

bench-memory: ## measure how memories are found; LOCOMO=FILE adds conversations in its format
	$(if $(LOCOMO),LOCOMO='$(abspath $(LOCOMO))') $(GO) test -count=1 -v -run '^Test(Retrieval|Conversations)$$' ./internal/memory

bench-injection: ## measure how many attacks stop, and what it costs; DATA=FOLDER takes other runs in the same format
	@ABLATION=1 MISSES=$(MISSES) $(if $(DATA),DATA='$(abspath $(DATA))') $(GO) test -count=1 -timeout 30m -v -run '^TestInjection$$' ./kernel | sed -n 's/^ *injection_test.go:[0-9]*: //p; /^ *--- FAIL\|^FAIL/p'

probes: ## print the matrix of backends and escape probes; UPDATE=1 writes docs/security-matrix.md
	$(GO) test -count=1 -run '^TestMatrix$$' -v ./internal/sandbox/probe $(if $(UPDATE),-update)

clean: ## remove what build made
	rm -rf $(BIN)
