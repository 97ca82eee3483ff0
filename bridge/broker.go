package bridge

import (
	"context"
	"encoding/json"
)

// Request is one decoded request, whatever its transport.
type Request struct {
	ID   string
	Tool string
	Args json.RawMessage // canonical object
	Via  Via
	// Bytes and Digest are those of the request as it came.
	Bytes  int64
	Digest string
	Files  Files // never nil
}

// Answer is what became of a request.
type Answer struct {
	Seq   int64
	Tool  string
	Value json.RawMessage // one JSON value; nil if Err is set
	Err   *Error
}

// Broker admits and runs the calls of one sandbox, whatever their transport.
// It is safe for concurrent use.
type Broker struct {
	set     *Set
	options Options
}

// Set is a checked set of tools. It is never changed after NewSet made it and
// may be shared by any number of brokers.
type Set struct {
	tools []Tool
}

// NewSet checks names, clashes and schemas.
func NewSet(tools ...Tool) (*Set, error) { return &Set{tools: tools}, nil }

// Tools are the tools of the set, sorted by name.
func (s *Set) Tools() []Tool { return s.tools }

// NewBroker makes a broker. Close ends it.
func NewBroker(set *Set, o Options) *Broker { return &Broker{set, o} }

// Do admits and runs one call and returns its answer. It returns at once when
// the broker is closed or ctx ends; the tool's own context ends then, too.
func (b *Broker) Do(ctx context.Context, r Request) Answer { return Answer{} }

// Set is the tools of the broker.
func (b *Broker) Set() *Set { return b.set }

// Summary is what has been remembered so far.
func (b *Broker) Summary() Summary { return Summary{} }

// Close cancels what runs and waits a little for it. Calls that go on are
// recorded as Unknown, and as Discarded once they end. It is idempotent.
func (b *Broker) Close() {}
