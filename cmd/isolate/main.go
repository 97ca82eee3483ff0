// Command isolate runs programs in sandboxes; see package cli for what it
// does with its flags, and `isolate help` for what they are. Where a server
// runs, package ahead hands exec, run and shell over to it, before main.
package main

import (
	"context"
	"os"

	"github.com/isolate-run/isolate"
	_ "github.com/isolate-run/isolate/cmd/isolate/internal/ahead"
	"github.com/isolate-run/isolate/cmd/isolate/internal/cli"
)

func main() {
	isolate.Init()
	os.Exit(cli.Run(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr))
}
