package host

// Libseccomp is the library that compiles the filters.
type Libseccomp struct {
	// Built is the version of the headers the program was built with,
	// Loaded that of the library it runs with: "2.5.4".
	Built  string `json:"built"`
	Loaded string `json:"loaded"`
	// API is the level of the library on this kernel; see
	// seccomp_api_get(3). Level 6 has user notification, 7 killable waits.
	API int `json:"api"`
	// Unknown are the names among Options.Syscalls that it does not know and
	// would leave out of a filter without a word.
	Unknown []string `json:"unknown,omitempty"`
}
