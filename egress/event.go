package egress

import (
	"net/netip"
	"time"
)

// Kinds of events.
const (
	EventStart   = "net.start"
	EventDNS     = "dns.query"
	EventOpen    = "flow.open"
	EventDeny    = "flow.deny"
	EventRequest = "http.request"
	EventClose   = "flow.close"
	EventFlood   = "net.flood"
	EventPolicy  = "policy.change"
	EventStop    = "net.stop"
)

// Via is how a flow came in.
type Via string

// The ways in.
const (
	ViaTUN     Via = "tun"
	ViaConnect Via = "connect"
	ViaSOCKS   Via = "socks"
	ViaDNS     Via = "dns"
)

// Event is one thing that happened on a sandbox's network. Texts that come from
// inside are printable ASCII of at most 256 bytes.
type Event struct {
	Type string `json:"type"`
	// Seq counts the events of a sandbox from 1, without a gap.
	Seq uint64 `json:"seq"`
	// Gen is the generation of the policy that judged.
	Gen  uint64    `json:"gen"`
	Time time.Time `json:"time"`
	// Flow ties events together; 0 is none.
	Flow uint64 `json:"flow,omitempty"`
	// Again says that the opening is not the flow's first: another address, or
	// another connection.
	Again    bool           `json:"again,omitempty"`
	Via      Via            `json:"via,omitempty"`
	Proto    string         `json:"proto,omitempty"`
	Name     string         `json:"name,omitempty"`
	Dst      netip.AddrPort `json:"dst,omitzero"` // as the program addressed it
	Port     uint16         `json:"port,omitempty"`
	QType    string         `json:"qtype,omitempty"`
	Addrs    []netip.Addr   `json:"addrs,omitempty"` // that the program was told, with DNSReal
	SNI      string         `json:"sni,omitempty"`
	Host     string         `json:"host,omitempty"`
	ALPN     string         `json:"alpn,omitempty"`
	Method   string         `json:"method,omitempty"`
	Path     string         `json:"path,omitempty"` // without the query
	Status   int            `json:"status,omitempty"`
	Location string         `json:"location_host,omitempty"`
	Verdict  Verdict        `json:"verdict,omitempty"`
	Rule     string         `json:"rule,omitempty"`
	Reason   Reason         `json:"reason,omitempty"`
	Class    Class          `json:"addr_class,omitempty"`
	Hint     string         `json:"hint,omitempty"`
	// Dial is the address of the other side; never told to the program.
	Dial     netip.AddrPort `json:"dial,omitzero"`
	BytesIn  int64          `json:"bytes_in,omitempty"`
	BytesOut int64          `json:"bytes_out,omitempty"`
	// Took is how long the flow lived, in nanoseconds.
	Took time.Duration `json:"took_ns,omitempty"`
	// Count is how many equal denials a flood event stands for; First is when
	// they began.
	Count   uint64    `json:"count,omitempty"`
	First   time.Time `json:"first,omitzero"`
	Mode    string    `json:"mode,omitempty"`
	Scrubs  int       `json:"scrubbed,omitempty"`
	Dropped uint64    `json:"dropped,omitempty"`
}

// Recorder keeps events, which come in order, several at once when there are
// many. It is called from one goroutine.
type Recorder interface {
	// Record returns when they are durable; its error means that they are not,
	// and that what they announce must not happen.
	Record([]Event) error
	// Later gives them their place, and does not wait: they are durable when
	// those of a later Record are, or soon. Its error means that they, or
	// earlier ones, will not be.
	Later([]Event) error
}

// printable replaces what is not printable ASCII and cuts at 256 bytes.
func printable(s string) string {
	const most = 256
	b := []byte(s[:min(len(s), most)])
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}

// Clean makes the texts of an event safe to show.
func (e Event) Clean() Event {
	for _, s := range []*string{&e.Name, &e.SNI, &e.Host, &e.ALPN, &e.Method, &e.Path, &e.Location, &e.QType, &e.Proto} {
		*s = printable(*s)
	}
	return e
}
