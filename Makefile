# One line a target. `go build` and `go test` are the build system.
TAGS := seccomp,runc_nocriu
.PHONY: setup build install test bench lint fuzz vmtest man
PREFIX ?= /usr/local

setup: ; ./setup
build: ; go build -tags $(TAGS) -ldflags '-s -w' -o bin/ ./cmd/isolate ./cmd/isolate/isolate-otel && CGO_ENABLED=0 go build -ldflags '-s -w' -o bin/isolate-netd ./cmd/isolate-netd
install: build man ; ./install $(DESTDIR)$(PREFIX)
test: ; ./test/all
bench: ; go test -tags $(TAGS) -run '^$$' -bench 'Start|Bridge' -benchtime 200x ./bench && go test -tags $(TAGS) -run '^$$' -bench 'Throughput|Audit|Notify' -benchtime 12x ./bench && go test -tags $(TAGS) -run '^$$' -bench Kept -benchtime 1x ./bench
lint: ; go vet -tags $(TAGS) ./... && go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 -tags $(TAGS) ./...
fuzz: ; ./test/fuzz 60s
vmtest: ; ./test/vm/all
man: ; go run -tags $(TAGS) ./cmd/isolate/internal/genman bin/man
