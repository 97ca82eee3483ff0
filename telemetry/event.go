package telemetry

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"

	"github.com/isolate-run/isolate/audit"
	"github.com/isolate-run/isolate/internal/plaintext"
)

// Attributes of the registry of OpenTelemetry. Those of gen_ai are in
// development there.
const (
	containerID    = attribute.Key("container.id")
	runtimeName    = attribute.Key("container.runtime.name")
	errorType      = attribute.Key("error.type")
	executableName = attribute.Key("process.executable.name")
	executablePath = attribute.Key("process.executable.path")
	exitCode       = attribute.Key("process.exit.code")
	processID      = attribute.Key("process.pid")
	destination    = attribute.Key("destination.address")
	destPort       = attribute.Key("destination.port")
	ruleName       = attribute.Key("security_rule.name")
	recordUID      = attribute.Key("log.record.uid")
	operation      = attribute.Key("gen_ai.operation.name")
	toolName       = attribute.Key("gen_ai.tool.name")
	toolCallID     = attribute.Key("gen_ai.tool.call.id")
)

// Attributes of our own.
const (
	runID      = attribute.Key("isolate.run.id")
	planDigest = attribute.Key("isolate.plan.digest")
	netMode    = attribute.Key("isolate.net.mode")
	profile    = attribute.Key("isolate.profile")
	identity   = attribute.Key("isolate.identity")
	weakenings = attribute.Key("isolate.weakenings")
	reason     = attribute.Key("isolate.reason")

	recordIndex = attribute.Key("isolate.record.index")
	recordLeaf  = attribute.Key("isolate.record.leaf")
	logOrigin   = attribute.Key("isolate.log.origin")
	logSize     = attribute.Key("isolate.log.size")
	logRoot     = attribute.Key("isolate.log.root")
)

// fields are the fields of events that become attributes, beside being in the
// body: those for which the registry has a name, and those that people search.
var fields = map[string]attribute.Key{
	"program": executablePath, "exe": executablePath, "pid": processID, "exit_code": exitCode,
	"address": destination, "port": destPort, "rule": ruleName, "tool": toolName, "errno": errorType, "code": errorType,
	"reason": reason, "verdict": "isolate.verdict", "limit": "isolate.limit", "call": "isolate.call",
}

// warnings are the events of something that was refused or cut short.
var warnings = map[audit.Name]bool{
	"socket.blocked": true, "syscall.denied": true, "blocked.counts": true, "call.refused": true, "flow.deny": true,
	"net.flood": true, "net.stop": true, "limit.hit": true, "output.truncated": true,
}

// event is a record of the audit log as a log record: its bytes are the body, so
// that the body's hash is the leaf's.
func event(r audit.Record, c audit.Checkpoint) log.Record {
	var out log.Record
	out.SetEventName("isolate." + string(r.Event))
	out.SetTimestamp(r.Time)
	out.SetObservedTimestamp(time.Now())
	out.SetSeverity(log.SeverityInfo)
	if warnings[r.Event] {
		out.SetSeverity(log.SeverityWarn)
	}
	out.SetBody(attribute.StringValue(string(r.Bytes)))
	leaf := r.Leaf()
	out.AddAttributes(
		recordUID.String(r.Run+"/"+strconv.FormatInt(r.Seq, 10)), runID.String(r.Run), containerID.String(r.Run), planDigest.String(r.Policy),
		recordIndex.Int64(r.Seq), recordLeaf.String(base64.StdEncoding.EncodeToString(leaf[:])),
	)
	if c.Size > 0 {
		out.AddAttributes(logOrigin.String(c.Origin), logSize.Int64(c.Size), logRoot.String(base64.StdEncoding.EncodeToString(c.Root[:])))
	}
	out.AddAttributes(named(r)...)
	return out
}

// named are the fields of a record that have names of their own.
func named(r audit.Record) []attribute.KeyValue {
	var data map[string]json.RawMessage
	if json.Unmarshal(r.Data, &data) != nil {
		return nil
	}
	var list []attribute.KeyValue
	for field, key := range fields {
		value, there := data[field]
		var text string
		var number int64
		switch {
		case !there:
		case json.Unmarshal(value, &text) == nil:
			list = append(list, key.String(clean(text)))
		case json.Unmarshal(value, &number) == nil:
			list = append(list, key.Int64(number))
		}
	}
	if strings.HasPrefix(string(r.Event), "call.") {
		var id string
		if json.Unmarshal(data["id"], &id) == nil {
			list = append(list, toolCallID.String(clean(id)))
		}
	}
	return list
}

// maxValue bounds an attribute in bytes.
const maxValue = 256

// clean makes a text that a program may have chosen fit for an attribute.
func clean(text string) string {
	return strings.ReplaceAll(plaintext.Clean(text, maxValue), "\n", " ")
}
