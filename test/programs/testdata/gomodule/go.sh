# A82: go build of a module of two packages, and what it made.
set -eu
export PATH="$PATH:/usr/local/go/bin" GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local
go build -o hello .
./hello 2>&1
