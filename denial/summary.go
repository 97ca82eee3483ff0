package denial

// Summary is what a run's refused calls add up to. Counts are exact; Events
// holds the first few in full.
type Summary struct {
	Total  int64   `json:"total"`
	Events []Event `json:"events,omitempty"`
	// Folded is how many events are counted in Total but not listed.
	Folded int64 `json:"folded"`
	// ByCall counts per system call name.
	ByCall map[string]int64 `json:"by_call,omitempty"`
	// ByClass counts the socket calls among them by what they were for: "kind"
	// for a kind of socket, else the class of the destination.
	ByClass map[string]int64 `json:"by_class,omitempty"`
}

// Event is one refused call.
type Event struct {
	// Elapsed since the start of the run, in nanoseconds.
	Elapsed int64  `json:"elapsed_ns"`
	PID     int    `json:"pid"`
	Exe     string `json:"exe,omitempty"`
	Call    string `json:"call"`
	// Family, Type, Address and Port are set for socket calls. Address is
	// "unreadable" when the program gave an address that is none.
	Family  string `json:"family,omitempty"`
	Type    string `json:"type,omitempty"`
	Address string `json:"address,omitempty"`
	Port    int    `json:"port,omitempty"`
	// Errno is the name of the error the program got, for example "ENETUNREACH".
	Errno string `json:"errno"`
}

// Since is what s has beyond an earlier summary of the same Recorder.
func (s Summary) Since(earlier Summary) Summary {
	out := Summary{Total: s.Total - earlier.Total, Folded: s.Folded - earlier.Folded}
	out.Events = append(out.Events, s.Events[min(len(earlier.Events), len(s.Events)):]...)
	out.ByCall, out.ByClass = grown(s.ByCall, earlier.ByCall), grown(s.ByClass, earlier.ByClass)
	return out
}

// grown is by how much counts have grown; nil if none has.
func grown(now, before map[string]int64) map[string]int64 {
	var out map[string]int64
	for key, n := range now {
		if n -= before[key]; n > 0 {
			if out == nil {
				out = map[string]int64{}
			}
			out[key] = n
		}
	}
	return out
}
