package container

import "testing"

func TestSilent(t *testing.T) {
	const head = "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes packets\n"
	for devices, want := range map[string]bool{
		head + "    lo:       0       0    0    0\n": true,
		head + "    lo:      60       1    0    0\n": false,
		head + "    lo:       0       0    0    1\n": false,
		head + "  eth0:       0       0    0    0\n": false,
		head + "    lo: 0 0 0 0\n  tun0: 0 0 0 0\n":  false,
		head:                    false,
		"":                      false,
		"lo: 0 0\nlo: 0 0\nlo ": false,
	} {
		if err := silent(devices); (err == nil) != want {
			t.Errorf("%q: %v, want silent: %t", devices, err, want)
		}
	}
}

// What cannot be read is not unmarked.
func TestUnmarked(t *testing.T) {
	if err := new(network).unmarked(-1); err == nil {
		t.Error("no process at all is unmarked")
	}
}
