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
	for call, n := range s.ByCall {
		if n -= earlier.ByCall[call]; n > 0 {
			if out.ByCall == nil {
				out.ByCall = map[string]int64{}
			}
			out.ByCall[call] = n
		}
	}
	return out
}
