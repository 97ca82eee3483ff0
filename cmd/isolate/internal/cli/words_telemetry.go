package cli

import (
	"errors"
	"fmt"
)

// What is said of telemetry. The rules of words.go hold; it is never an error:
// what runs does not depend on it.

var errNoTelemetryProgram = errors.New("there is no " + telemetryProgram + " beside this program (make install puts it into ../libexec/isolate)")

func nothingSent(err error) string { return "OpenTelemetry is not told: " + oneLine(err.Error()) }

func unknownExporter(signal, name string) error {
	return fmt.Errorf("OTEL_%s_EXPORTER is %q: only otlp and none are known", signal, name)
}

func unknownProtocol(variable, name string) error {
	return fmt.Errorf("%s is %q: only http/protobuf is spoken", variable, name)
}
