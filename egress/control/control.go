// Package control is the conversation between a supervisor and the process
// that holds the network of one sandbox (package egress/netd): its messages,
// and the supervisor's end of it, which starts that process, keeps its events
// and ends it.
//
// It does not touch packets and imports nothing heavy, so that whoever starts
// sandboxes without a network pays nothing for it. Both ends trust each other;
// what comes from inside the sandbox are texts in events, which are cleaned
// before they are kept. It needs Linux for the descriptors it passes on.
//
// The ladder, one line of JSON each way over a stream socket:
//
//	supervisor → config          the first message; the device is descriptor 4
//	process    → ready           confined, and denying everything
//	supervisor → begin           the run starts: rules and their clocks are in force
//	process    → event           as often as something happens; if it is durable …
//	supervisor → ack             … the process waits for this before it goes on
//	supervisor → policy          another policy; living flows are judged again
//	process    → changed         … has done it, or says why not
//	supervisor → config, mourn   in place of a process that died: its connections are ended
//	either     closes            the process ends, and with it every flow
package control

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/isolate-run/isolate/egress"
)

// Config is what the process has to know before it is confined.
type Config struct {
	// Floor is what of this machine no rule opens.
	Floor egress.Floor `json:"floor"`
	// Resolvers answer for the upstream side; the sandbox never reaches them.
	Resolvers []netip.AddrPort `json:"resolvers"`
	// Hosts are the host's own names for addresses.
	Hosts map[string][]netip.Addr `json:"hosts,omitempty"`
	// IPv6 is whether the host has a global IPv6 address.
	IPv6 bool `json:"ipv6,omitempty"`
	// IPv6Inside is whether the sandbox has IPv6 beside IPv4.
	IPv6Inside bool `json:"ipv6_inside,omitempty"`
	// Intercept asks for a certificate authority.
	Intercept bool `json:"intercept,omitempty"`
	// Roots is the PEM bundle that upstream certificates are verified with.
	Roots []byte `json:"roots,omitempty"`
	// Mourn are the connections of a process that died: they are ended, and
	// nothing is ever allowed. The program sees resets, not silence.
	Mourn []Connection `json:"mourn,omitempty"`
	// Secrets are the values of the variables that rules inject.
	Secrets map[string]Secret `json:"secrets,omitempty"`
}

// Connection is a TCP connection as the sandbox's kernel has it.
type Connection struct {
	Local  netip.AddrPort `json:"local"`
	Remote netip.AddrPort `json:"remote"`
}

// Secret is a value and what stands for it inside.
type Secret struct {
	Value       string `json:"value"`
	Placeholder string `json:"placeholder"`
}

// Begin puts a policy in force.
type Begin struct {
	Policy egress.Policy `json:"policy"`
	Number uint64        `json:"number"`
	// Granted is when the clocks of the rules started.
	Granted time.Time `json:"granted"`
}

// Ack answers a durable event.
type Ack struct {
	Seq uint64 `json:"seq"`
	// Err is why the event is not durable; empty if it is.
	Err string `json:"err,omitempty"`
}

// ToProcess is a message of the supervisor. One field is set.
type ToProcess struct {
	Config *Config `json:"config,omitempty"`
	Begin  *Begin  `json:"begin,omitempty"`
	Ack    *Ack    `json:"ack,omitempty"`
}

// Ready says that the process is confined and denies everything.
type Ready struct {
	// CA is the certificate of its authority, PEM; empty without one.
	CA string `json:"ca,omitempty"`
	// Confined are the layers that hold it.
	Confined []string `json:"confined"`
}

// Changed answers Begin.
type Changed struct {
	Number uint64 `json:"number"`
	Err    string `json:"err,omitempty"`
}

// ToSupervisor is a message of the process. Event may come with Durable.
type ToSupervisor struct {
	Ready   *Ready        `json:"ready,omitempty"`
	Changed *Changed      `json:"changed,omitempty"`
	Event   *egress.Event `json:"event,omitempty"`
	// Durable asks for an Ack.
	Durable bool `json:"durable,omitempty"`
	// Err is why the process ends.
	Err string `json:"err,omitempty"`
}

// Descriptors of the process, beyond 0 to 2.
const (
	SocketFD = 3
	DeviceFD = 4
)

// Name is the argument 0 by which the process knows what it is.
const Name = "isolate-netd"

// line writes one message.
func line(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("cannot write message: %w", err)
	}
	return append(b, '\n'), nil
}
