package audit

// The events of a sandbox's network. Times of flows are in the records; names,
// hosts and paths come from inside and are printable ASCII.

// NetStart says that the network is open.
type NetStart struct {
	Mode string `json:"mode" doc:"restricted or full"`
	Gen  int64  `json:"gen" doc:"generation of the policy"`
}

// NetPolicy says that another policy is in force.
type NetPolicy struct {
	Mode string `json:"mode" doc:"restricted or full"`
	Gen  int64  `json:"gen" doc:"generation of the policy"`
}

// NetGrant says that somebody has opened the network for a time.
type NetGrant struct {
	Rules  []string `json:"rules" doc:"ids of the rules that were added"`
	For    int64    `json:"for_ms" doc:"milliseconds for which they hold"`
	Reason string   `json:"reason" doc:"why, in the words of who granted it"`
}

// DNSQuery is one look-up.
type DNSQuery struct {
	Gen     int64  `json:"gen" doc:"generation of the policy that judged"`
	Name    string `json:"name,omitempty" doc:"name asked for"`
	QType   string `json:"qtype,omitempty" doc:"kind of record asked for"`
	To      string `json:"to,omitempty" doc:"resolver that the program addressed; another one than ours never sees it"`
	Verdict string `json:"verdict" doc:"allow or deny"`
	Reason  string `json:"reason,omitempty" doc:"why it was denied"`
	Rule    string `json:"rule,omitempty" doc:"rule that allowed it or came nearest"`
	// Addrs is empty unless names have their real addresses inside.
	Addrs []string `json:"addrs,omitempty" doc:"addresses of the answer, if they are real ones"`
}

// FlowOpen is one connection.
type FlowOpen struct {
	Gen   int64  `json:"gen" doc:"generation of the policy that judged"`
	Flow  int64  `json:"flow" doc:"number of the flow in this sandbox"`
	Via   string `json:"via" doc:"tun; connect or socks through a proxy"`
	Proto string `json:"proto" doc:"tcp or udp"`
	Name  string `json:"name,omitempty" doc:"host"`
	Port  int    `json:"port" doc:"port"`
	SNI   string `json:"sni,omitempty" doc:"name in the TLS hello"`
	ALPN  string `json:"alpn,omitempty" doc:"protocols in the TLS hello"`
	Dial  string `json:"dial,omitempty" doc:"address and port that is dialled"`
	Rule  string `json:"rule" doc:"rule that allowed it"`
}

// FlowDeny is one attempt that was denied.
type FlowDeny struct {
	Gen    int64  `json:"gen" doc:"generation of the policy that judged"`
	Flow   int64  `json:"flow,omitempty" doc:"number of the flow in this sandbox"`
	Via    string `json:"via,omitempty" doc:"tun; connect or socks through a proxy"`
	Proto  string `json:"proto,omitempty" doc:"tcp, udp, icmp or ip- and a number"`
	Name   string `json:"name,omitempty" doc:"host, if there is one"`
	To     string `json:"to,omitempty" doc:"address and port that the program addressed"`
	Port   int    `json:"port,omitempty" doc:"port"`
	SNI    string `json:"sni,omitempty" doc:"name in the TLS hello"`
	Reason string `json:"reason" doc:"why it was denied"`
	Class  string `json:"addr_class,omitempty" doc:"kind of address that was denied"`
	Rule   string `json:"rule,omitempty" doc:"rule that came nearest"`
}

// FlowClose is the end of a connection.
type FlowClose struct {
	Flow     int64  `json:"flow" doc:"number of the flow"`
	Name     string `json:"name,omitempty" doc:"host"`
	Port     int    `json:"port" doc:"port"`
	BytesIn  int64  `json:"bytes_in" doc:"bytes to the program"`
	BytesOut int64  `json:"bytes_out" doc:"bytes from the program"`
	Took     int64  `json:"took_us" doc:"microseconds that it lived"`
	Reason   string `json:"reason,omitempty" doc:"why it was cut; dial_failed if nobody answered; empty if it ended by itself"`
}

// HTTPRequest is one request that was looked at.
type HTTPRequest struct {
	Flow     int64  `json:"flow" doc:"number of the flow"`
	Method   string `json:"method,omitempty" doc:"method"`
	Host     string `json:"host,omitempty" doc:"host in the request"`
	Path     string `json:"path,omitempty" doc:"path, without what follows a question mark"`
	Verdict  string `json:"verdict" doc:"allow or deny"`
	Reason   string `json:"reason,omitempty" doc:"why it was denied"`
	Rule     string `json:"rule,omitempty" doc:"rule that allowed it or came nearest"`
	Status   int    `json:"status,omitempty" doc:"status of the answer"`
	Location string `json:"location_host,omitempty" doc:"host that the answer sends the program to"`
	Scrubbed int    `json:"scrubbed,omitempty" doc:"headers of the answer that held a secret"`
}

// NetFlood counts equal denials that have no record of their own.
type NetFlood struct {
	Name   string `json:"name,omitempty" doc:"host, if there is one"`
	To     string `json:"to,omitempty" doc:"address and port that the program addressed"`
	Port   int    `json:"port,omitempty" doc:"port"`
	Proto  string `json:"proto,omitempty" doc:"protocol"`
	Reason string `json:"reason" doc:"why they were denied"`
	Count  int64  `json:"count" doc:"how many there were"`
}

// NetStop says that the network ended before the sandbox did.
type NetStop struct {
	Reason string `json:"reason" doc:"audit: the log could not be written; stopped: the process died"`
}

func (NetStart) event() Name    { return "net.start" }
func (NetPolicy) event() Name   { return "policy.change" }
func (NetGrant) event() Name    { return "net.grant" }
func (DNSQuery) event() Name    { return "dns.query" }
func (FlowOpen) event() Name    { return "flow.open" }
func (FlowDeny) event() Name    { return "flow.deny" }
func (FlowClose) event() Name   { return "flow.close" }
func (HTTPRequest) event() Name { return "http.request" }
func (NetFlood) event() Name    { return "net.flood" }
func (NetStop) event() Name     { return "net.stop" }
