# The tests are plain `go test ./...`; these targets are for what a flag or a tool is needed for.

GO ?= go

.PHONY: build test bench fuzz lint wasip1

build: ## the command, static
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/maelys ./cmd/maelys

test: ## all tests on this machine
	$(GO) test ./...

bench: ## one line a measurement: RATIO name value limit, or SKIP name reason
	@$(GO) test -run '^$$' -bench Ratio ./... | grep -E '^RATIO |^SKIP |^FAIL|^panic'

FUZZTIME ?= 20m
fuzz: ## every fuzz target in turn, FUZZTIME each: 20m, or 80000x for so many inputs
	$(GO) test ./mir -run '^$$' -fuzz '^FuzzVerify$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 1s
	$(GO) test ./manifest -run '^$$' -fuzz '^FuzzCompile$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 1s
	$(GO) test ./manifest -run '^$$' -fuzz '^FuzzFormat$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 1s
	$(GO) test ./plan -run '^$$' -fuzz '^FuzzRuntime$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 1s
	$(GO) test ./mediator -run '^$$' -fuzz '^FuzzAnswer$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 1s
	$(GO) test ./mediator -run '^$$' -fuzz '^FuzzHello$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 1s
	$(GO) test ./mediator -run '^$$' -fuzz '^FuzzSpecial$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 1s

lint: ## gofmt, vet, staticcheck, golangci-lint, from tools/go.mod
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	$(GO) tool -modfile=tools/go.mod staticcheck ./...
	$(GO) tool -modfile=tools/go.mod golangci-lint run ./...

wasip1: ## the tests of all that needs no kernel, as WebAssembly in wazero
	$(GO) build -modfile=tools/go.mod -o bin/wazero github.com/tetratelabs/wazero/cmd/wazero
	tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && for p in mir manifest plan host internal/cli; do \
		GOOS=wasip1 GOARCH=wasm $(GO) test -c -o bin/test.wasm ./$$p && \
		bin/wazero run -mount=.:/src:ro -mount="$$tmp":/tmp -env PWD=/src/$$p bin/test.wasm -test.short || exit 1; \
	done
