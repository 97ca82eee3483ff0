package policy

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate/egress"
)

func TestNet(t *testing.T) {
	until := time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		file string
		want egress.Policy
	}{
		"mode":   {"[net]\nmode = \"full\"", egress.Policy{Mode: egress.ModeFull}},
		"dotted": {"net.mode = \"restricted\"", egress.Policy{Mode: egress.ModeRestricted}},
		"inline": {`net = { mode = "restricted", allow = [{ name = "a.example" }, { cidr = "9.9.9.0/24", protocol = "tcp", ports = [53, 853] }], deny = [{ name = "b.example", ports = [1] }] }`,
			egress.Policy{Mode: egress.ModeRestricted, Rules: []egress.Rule{{Name: "a.example"}, {CIDR: "9.9.9.0/24", Protocol: egress.TCP, Ports: []int{53, 853}}}, Deny: []egress.Deny{{Name: "b.example", Ports: []int{1}}}}},
		"everything": {`[net]
mode = "restricted"
exempt = ["198.18.0.0/16"]
dns = "real"
host-ports = [8000, 5432]
ipv6 = true
[[net.allow]]
name = "api.example"
id = "api"
reason = "r"
tls = "intercept"
methods = ["GET"]
paths = ["/v1/**"]
websocket = true
private = ["10.0.0.0/8"]
for = "10m"
until = "2026-12-31T12:00:00Z"
max-flows = 3
max-bytes-out = 100
inject = [{ header = "Authorization", variable = "TOKEN", prefix = "Bearer " }]
[[net.allow]]
name = "*.github.io"
public-suffix = true
`, egress.Policy{Mode: egress.ModeRestricted, Exempt: []string{"198.18.0.0/16"}, DNS: egress.DNSReal, IPv6: true, HostPorts: []int{8000, 5432}, Rules: []egress.Rule{
			{Name: "api.example", ID: "api", Reason: "r", TLS: egress.Intercept, Methods: []string{"GET"}, Paths: []string{"/v1/**"}, WebSocket: true, Private: []string{"10.0.0.0/8"},
				For: 10 * time.Minute, Until: until, MaxFlows: 3, MaxBytesOut: 100, Inject: []egress.Secret{{Header: "Authorization", Variable: "TOKEN", Prefix: "Bearer "}}},
			{Name: "*.github.io", PublicSuffix: true}}}},
	} {
		p, err := Decode(name, []byte(c.file))
		if err != nil || !reflect.DeepEqual(p.Net, c.want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", name, p.Net, err, c.want)
		}
	}
}

// Whatever is wrong is refused with its place, and a hint.
func TestBadNet(t *testing.T) {
	for file, want := range map[string]string{
		"net = 1":                                                                                  "line 1, column 7: cannot read net",
		"[net]\nmode = \"some\"":                                                                   "line 2, column 8",
		"[net]\nmode = 1":                                                                          "line 2, column 8",
		"[net]\nmodus = \"full\"":                                                                  "line 2, column 1: cannot use key",
		"[net]\nmode = \"full\"\nmode = \"full\"":                                                  "twice",
		"[net]\nmode = \"restricted\"\nhost-ports = [0]":                                           "port 0",
		"[net]\nmode = \"restricted\"\nhost-ports = [\"80\"]":                                      "line 3",
		"[net]\nmode = \"restricted\"\nhost-ports = [80, 80]":                                      "twice",
		"[net]\nipv6 = 1":                                                                          "line 2",
		"[net]\nipv6 = true":                                                                       "mode none",
		"[net]\nhost-ports = [80]":                                                                 "mode none",
		"[net.allow]\nname = \"a.example\"":                                                        "line 1",
		"[[net]]\nmode = \"full\"":                                                                 "line 1",
		"[[net.some]]\nname = \"a\"":                                                               "line 1",
		"net.mode = \"restricted\"\n[[net.allow]]\nnames = \"a.example\"":                          "line 3, column 1",
		"net.mode = \"restricted\"\n[[net.allow]]\nhost = \"a.example\"":                           `did you mean "name"?`,
		"net = { mode = \"full\", deny = [{ address = \"9.9.9.9\" }] }":                            `did you mean "cidr"?`,
		"[network]\nmode = \"full\"":                                                               `did you mean "net"?`,
		"net.mode = \"restricted\"\n[[net.allow]]\nname = \"host.isolate.internal\"":               "host-ports = [8000]",
		"net.mode = \"restricted\"\n[[net.allow]]\nname = \"*\"":                                   "line 3",
		"net.mode = \"restricted\"\n[[net.allow]]\nname = \"a.example\"\nports = [0]":              "port 0",
		"net.mode = \"restricted\"\n[[net.allow]]\nname = \"a.example\"\nports = [\"x\"]":          "line 4",
		"net.mode = \"restricted\"\n[[net.allow]]\nname = \"a.example\"\nfor = \"x\"":              "line 4",
		"net.mode = \"restricted\"\n[[net.allow]]\nname = \"a.example\"\nuntil = \"x\"":            "line 4",
		"net.mode = \"restricted\"\n[[net.allow]]\nname = \"a.example\"\nmax-flows = -1":           "line 4",
		"net.mode = \"restricted\"\n[[net.allow]]\nname = \"a.example\"\nwebsocket = \"x\"":        "line 4",
		"net.mode = \"restricted\"\n[[net.allow]]\nname = \"a.example\"\ninject = [{ a = \"x\" }]": "line 4",
		"net.mode = \"restricted\"\n[[net.deny]]\nname = \"a.example\"\nfor = \"1m\"":              "line 4, column 1",
		"net.mode = \"restricted\"\n[[net.allow]]\na.b = 1":                                        "cannot read net.allow.a.b",
		"[[net.allow]]\nname = \"a.example\"\n[net]\nmode = \"none\"":                              "cannot have network rules with mode none",
	} {
		_, err := Decode("x", []byte(file))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q in it", file, err, want)
		}
	}
}
