// Command isolate-otel is the isolate command with telemetry linked in. Nobody
// calls it by name: isolate continues as it when the variables of OpenTelemetry
// name a collector (docs/telemetry.md).
package main

import (
	"context"
	"os"

	"github.com/isolate-run/isolate"
	_ "github.com/isolate-run/isolate/cmd/isolate/internal/ahead"
	"github.com/isolate-run/isolate/cmd/isolate/internal/cli"
	"github.com/isolate-run/isolate/cmd/isolate/internal/otlp"
)

func main() {
	isolate.Init()
	os.Exit(cli.RunWithTelemetry(context.Background(), otlp.Open, os.Args, os.Stdin, os.Stdout, os.Stderr))
}
