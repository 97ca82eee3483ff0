package audit

import (
	"fmt"
	"reflect"
	"strings"
)

// Kind is one event of the vocabulary.
type Kind struct {
	Name Name
	// Log is where it stands: "run" or "host".
	Log string
	// Meaning is one sentence.
	Meaning string
	zero    Event
}

// Vocabulary lists every event there is.
func Vocabulary() []Kind {
	return vocabulary
}

var vocabulary = []Kind{
	kindOf(RunStart{}, "run", "The first record. It is durable before anything of the program runs."),
	kindOf(ProgramStart{}, "run", "A program is about to start. It is durable before the program runs."),
	kindOf(ProgramEnd{}, "run", "How the program ended, and what it used."),
	kindOf(SocketBlocked{}, "run", "A socket call that was refused. The first of each kind are listed; blocked.counts has all."),
	kindOf(SyscallDenied{}, "run", "Another refused call that indicates an attempt to get out."),
	kindOf(BlockedCounts{}, "run", "The exact counts of refused calls."),
	kindOf(CallAccepted{}, "run", "A tool call was admitted. It is durable before the tool runs; without a call.finished it is not known what the tool did."),
	kindOf(CallFinished{}, "run", "A tool call was answered. It is durable before any later record of its run."),
	kindOf(CallRefused{}, "run", "A tool call was refused; the tool did not run."),
	kindOf(CallDiscarded{}, "run", "A tool gave its result after the run; it was thrown away."),
	kindOf(Approval{}, "run", "Somebody decided about a tool call."),
	kindOf(BridgeTotals{}, "run", "What the broker counted, independently of the records."),
	kindOf(NetStart{}, "run", "The sandbox's network is open. It is durable before anything can be reached."),
	kindOf(NetPolicy{}, "run", "Another network policy. It is durable before it is in force."),
	kindOf(NetGrant{}, "run", "Somebody has opened the network for a time. It is durable before it holds; a policy.change follows."),
	kindOf(DNSQuery{}, "run", "A look-up, answered or not; nothing is asked outside for it."),
	kindOf(FlowOpen{}, "run", "A connection to the outside. It is durable before the first byte goes out; dialled once more, to another address or again, the flow has another one."),
	kindOf(FlowDeny{}, "run", "An attempt to reach something that was denied."),
	kindOf(HTTPRequest{}, "run", "A request on a connection that is looked into."),
	kindOf(FlowClose{}, "run", "The end of a connection, and how much went over it."),
	kindOf(NetFlood{}, "run", "Equal denials beyond 50 a second, counted."),
	kindOf(NetStop{}, "run", "The network ended early, and with it every connection."),
	kindOf(LimitHit{}, "run", "A limit was met."),
	kindOf(OutputTruncated{}, "run", "Output over its limit was thrown away."),
	kindOf(FilesCopied{}, "run", "Files were copied in or out."),
	kindOf(FileCopied{}, "run", "One of the first of these files."),
	kindOf(RunEnd{}, "run", "The last record, with what the others must add up to."),
	kindOf(LogCreated{}, "host", "The first record of the host log."),
	kindOf(RunOpened{}, "host", "A run was opened."),
	kindOf(RunSealed{}, "host", "A run has ended, or was found after a crash."),
	kindOf(RunRefused{}, "host", "A run was refused by its policy, by the machine or by the Runtime. Nothing of it ran."),
	kindOf(LogRecovered{}, "host", "What a crash left of an unfinished write was cut off the host log."),
	kindOf(KeyRotated{}, "host", "The host key was exchanged."),
}

func kindOf(e Event, log, meaning string) Kind { return Kind{e.event(), log, meaning, e} }

// Fields are the fields of an event.
func (k Kind) Fields() []Field { return fieldsOf(reflect.TypeOf(k.zero)) }

// Field is one field of an event.
type Field struct {
	Name, Type, Meaning string
	// Always is whether it is there also when it is empty.
	Always bool
}

func fieldsOf(t reflect.Type) []Field {
	var out []Field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, Field{name, typeName(f.Type), f.Tag.Get("doc"), options != "omitempty"})
	}
	return out
}

func typeName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[*Payload]():
		return "payload"
	case t == reflect.TypeFor[Event]():
		return "object"
	}
	switch t.Kind() {
	case reflect.Slice:
		return "list of " + typeName(t.Elem()) + "s"
	case reflect.Map:
		return "counts by name"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Bool:
		return "true or false"
	}
	return "text"
}

// EventsDocument is docs/audit-events.md.
func EventsDocument() string {
	var b strings.Builder
	b.WriteString(documentIntro)
	table := func(fields []Field) {
		b.WriteString("| Field | Type | Meaning |\n|---|---|---|\n")
		for _, f := range fields {
			presence := ""
			if !f.Always {
				presence = "; left out when empty"
			}
			fmt.Fprintf(&b, "| `%s` | %s%s | %s |\n", f.Name, f.Type, presence, f.Meaning)
		}
	}
	table(fieldsOf(reflect.TypeFor[envelope]()))
	b.WriteString("\n## Payloads\n\n" + payloadIntro)
	table(fieldsOf(reflect.TypeFor[Payload]()))
	for _, log := range []struct{ name, title string }{{"run", "Events of a run"}, {"host", "Events of the host log"}} {
		fmt.Fprintf(&b, "\n## %s\n", log.title)
		for _, k := range Vocabulary() {
			if k.Log == log.name {
				fmt.Fprintf(&b, "\n### `%s`\n\n%s\n\n", k.Name, k.Meaning)
				table(k.Fields())
			}
		}
	}
	return b.String()
}

const documentIntro = `# Events of the audit log

This file is written by ` + "`go test ./audit -run Document -update`" + ` from package audit; [audit.md](audit.md) says what the log is for.

A record is one line of canonical JSON (RFC 8785; numbers are integers). The vocabulary is closed: no other events and no other fields occur. Texts have at most 4096 bytes, lists 32 entries; a text that was cut ends in "…".

## Every record

`

const payloadIntro = `What a tool or a program was given is not stored as such, but as a salted digest: ` + "`sha256(salt ‖ bytes)`, `salt = HMAC-SHA-256(secret, nonce)`" + `. The secret is in the host's key file. Who has the log only cannot find short values by trying; who keeps the secret can prove what a record stands for by giving away the salt of that one record. The text itself is stored on request only, up to a limit, with the values of fields redacted whose names say that they are secret.

`
