package net

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/egress"
)

// clients are real programs against the fake registries. None has a proxy set,
// but for the two that are about proxies.
var clients = []struct {
	name, needs, script, want string
	http                      bool
}{
	{"curl", "curl", "curl -sSL https://registry.example/redirect?to=https://cdn.example/x", "cdn.example /x", false},
	{"curl socks", "curl", "curl -sSL --noproxy '' --socks5-hostname 198.18.0.1:1080 https://registry.example/redirect?to=https://cdn.example/x", "cdn.example /x", false},
	{"curl proxy", "curl", "curl -sSL --noproxy '' -x http://198.18.0.1:3128 https://registry.example/redirect?to=https://cdn.example/x", "cdn.example /x", false},
	{"python proxy", "python3", "https_proxy=http://198.18.0.1:3128 python3 -c 'import urllib.request as r; print(r.urlopen(\"https://registry.example/redirect?to=https://cdn.example/x\").read().decode())'", "cdn.example /x", false},
	{"wget", "wget", "wget -qO- ${CA:+--ca-certificate=$CA} 'https://registry.example/redirect?to=https://cdn.example/x'", "cdn.example /x", false},
	{"python", "python3", `python3 -c 'import urllib.request as u; print(u.urlopen("https://registry.example/redirect?to=https://cdn.example/x").read().decode())'`, "cdn.example /x", false},
	// D 21: what Python 3.13 checks by default
	{"python strict", "python3", `python3 -c 'import ssl, urllib.request as u; c = ssl.create_default_context(); c.verify_flags |= ssl.VERIFY_X509_STRICT; print(u.urlopen("https://registry.example/redirect?to=https://cdn.example/x", context=c).read().decode())'`, "cdn.example /x", false},
	{"node", "node", `node -e 'fetch("https://registry.example/redirect?to=https://cdn.example/x").then(r=>r.text()).then(console.log,e=>console.log(e.cause||e))'`, "cdn.example /x", false},
	{"git", "git", "git ls-remote https://registry.example/repo.git", "refs/heads/main", false},
	{"pip", "pip", "python3 -m pip install -q --no-cache-dir --disable-pip-version-check --target t --index-url https://registry.example/simple hello && python3 t/hello.py", "hello from the wheel", false},
	{"npm", "npm", "npm install --silent --fetch-retries=0 --no-audit --no-fund --registry https://registry.example hello-npm && node -e 'require(\"hello-npm\")'", "hello from npm", false},
	{"go", "go", "mkdir m && cd m && GOFLAGS=-mod=mod GOPROXY=https://registry.example/goproxy GOSUMDB=off go mod download -json example.org/hello@v1.0.0 | grep Zip", "v1.0.0.zip", false},
	{"uv", "uv", "uv pip install -q --no-cache --native-tls --target t --index-url https://registry.example/simple hello && python3 t/hello.py", "hello from the wheel", false},
	{"cargo", "cargo", `mkdir -p c/.cargo c/src && cd c && touch src/lib.rs && printf '[registries.world]\nindex = "sparse+https://registry.example/index/"\n[net]\nretry = 0\n' >.cargo/config.toml &&
		printf '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nhello-cargo = { version = "1", registry = "world" }\n' >Cargo.toml && CARGO_HOME=/tmp/cargo cargo fetch && ls /tmp/cargo/registry/cache/*`, "hello-cargo-1.0.0.crate", false},
	{"apt", "apt-get", `mkdir -p l/partial c/partial && echo 'deb [trusted=yes] http://registry.example/debian stable main' >s.list && apt-get -q -o Dir::Etc::SourceList=$PWD/s.list -o Dir::Etc::SourceParts=/nonexistent -o Dir::State=$PWD -o Dir::State::Lists=$PWD/l -o Dir::Cache=$PWD/c -o Dir::State::status=/dev/null -o APT::Sandbox::User= -o Acquire::AllowInsecureRepositories=1 -o Acquire::Languages=none update; grep -h Package: l/*Packages*`, "hello-apt", true},
}

// D 75: with exactly the hosts that are needed, in both ways of TLS; without
// one of them the denial names it.
func TestClients(t *testing.T) {
	r := open(t)
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.needs); err != nil {
				t.Skipf("needs %s", c.needs)
			}
			if c.needs == "cargo" {
				if dir, usual := cargoDir(); dir == "" && !usual {
					t.Skip("needs cargo where sandboxes and this user can see it")
				}
			}
			for _, mode := range []egress.TLS{egress.Peek, egress.Intercept} {
				if c.http && mode == egress.Intercept {
					continue
				}
				for _, hosts := range [][]string{{"registry.example", "cdn.example"}, {"registry.example"}} {
					p := isolate.Policy{Net: egress.Policy{Mode: egress.ModeRestricted}, Wall: 90 * time.Second, Memory: 2 * isolate.Size(1<<30), Disk: isolate.Size(1 << 30)}
					for _, h := range hosts {
						rule := egress.Rule{Name: h, TLS: mode}
						if c.http {
							rule.Protocol = egress.HTTP
						}
						p.Net.Rules = append(p.Net.Rules, rule)
					}
					res := runClient(t, r, p, c.script, mode)
					got := strings.Contains(out(res), c.want)
					if got != (len(hosts) == 2) {
						t.Errorf("%s, %v: %s\n%s\n%+v", mode, hosts, out(res), res.Stderr.Kept, res.Net)
					}
					if len(hosts) == 1 && !deniedHost(res, "cdn.example") {
						t.Errorf("%s: the denial does not name the host: %+v", mode, res.Net)
					}
				}
			}
		})
	}
}

// runClient runs a script that trusts the world, by its own variables where TLS
// passes through, and by what the sandbox is told where it does not.
func runClient(t *testing.T, r *isolate.Runtime, p isolate.Policy, script string, mode egress.TLS) isolate.Result {
	t.Helper()
	ca := "/etc/ssl/certs/ca-certificates.crt"
	env := map[string]string{"NO_PROXY": "*", "npm_config_cache": "/tmp/npm", "CA": ca}
	if mode == egress.Peek {
		for _, name := range []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE", "CARGO_HTTP_CAINFO"} {
			env[name] = ca
		}
	} else {
		env["CA"] = "/run/isolate/ca-bundle.pem"
	}
	if _, err := exec.LookPath("go"); err == nil {
		env["GOCACHE"], env["GOPATH"] = "/tmp/gocache", "/tmp/gopath"
	}
	env["PATH"] = "/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin"
	if dir, _ := cargoDir(); dir != "" {
		p.ReadOnly = []isolate.Bind{{Source: dir, Target: "/opt/rust"}}
		env["PATH"] += ":/opt/rust/bin"
	}
	res, err := r.Run(context.Background(), p, isolate.Cmd{Args: []string{"sh", "-c", script}, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// cargoDir is where cargo is if not in /usr, which sandboxes see; usual says
// that it is there.
func cargoDir() (dir string, usual bool) {
	if path, err := exec.LookPath("cargo"); err == nil && strings.HasPrefix(path, "/usr/bin/") {
		return "", true
	}
	b, err := exec.Command("rustc", "--print", "sysroot").Output()
	if err != nil {
		return "", false
	}
	dir = strings.TrimSpace(string(b))
	if f, err := os.Open(filepath.Join(dir, "bin", "cargo")); err != nil {
		return "", false
	} else {
		f.Close()
	}
	return dir, false
}

func deniedHost(res isolate.Result, host string) bool {
	for _, d := range res.Net.Denials {
		if d.Host == host && d.Reason == egress.ReasonNameNotAllowed {
			return true
		}
	}
	return false
}

// Interception from the inside: methods, paths, and a secret that the program
// does not have.
func TestInterceptInside(t *testing.T) {
	t.Setenv("WORLD_TOKEN", "s3cr3t-of-the-host")
	r := open(t)
	p := isolate.Policy{Net: egress.Policy{Mode: egress.ModeRestricted, Rules: []egress.Rule{
		{Name: "api.example", Methods: []string{"GET"}, Paths: []string{"/header", "/v1/**"}, Inject: []egress.Secret{{Header: "Authorization", Variable: "WORLD_TOKEN", Prefix: "Bearer "}}},
		{Name: "allowed.example", TLS: egress.Intercept}, {Name: "cdn.example"}, // D 77: what passes through is still trusted
	}}}
	res := sh(t, r, p, `echo "$WORLD_TOKEN"; curl -sS -H "Authorization: Bearer $WORLD_TOKEN" https://api.example/header; echo
		for u in https://api.example/v1/x https://api.example/v2 "https://api.example/v1/%2e%2e/x"; do curl -sS -o /dev/null -w '%{http_code} ' --path-as-is $u; done
		curl -sS -o /dev/null -w '%{http_code} ' -X POST https://api.example/v1/x; curl -sS -o /dev/null -w '%{http_code}\n' -H "X: $WORLD_TOKEN" https://allowed.example/
		ls -l /run/isolate; touch /run/isolate/x 2>&1; env | grep -c CA_BUNDLE
		curl -sS https://cdn.example/through`)
	text := out(res)
	if strings.Contains(text, "s3cr3t") {
		t.Errorf("the secret is inside: %s", text)
	}
	for _, want := range []string{"isolate-placeholder-", "\n[removed]****************\n", "200 403 400 405 403", "Read-only file system", "cdn.example /through"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s\n%s\n%+v", want, text, res.Stderr.Kept, res.Net)
		}
	}
}

// muslClient looks a name up with musl's resolver, which asks all servers at
// once and has no nsswitch, and fetches a page.
const muslClient = `
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char **argv) {
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *a;
	int e = getaddrinfo(argv[1], "80", &hints, &a);
	if (e) { printf("lookup: %s\n", gai_strerror(e)); return 1; }
	int s = socket(a->ai_family, a->ai_socktype, 0);
	if (connect(s, a->ai_addr, a->ai_addrlen)) { perror("connect"); return 2; }
	dprintf(s, "GET /musl HTTP/1.0\r\nHost: %s\r\n\r\n", argv[1]);
	char b[4096]; int n;
	while ((n = read(s, b, sizeof b)) > 0) write(1, b, n);
	return 0;
}`

// A static program with another C library.
func TestMusl(t *testing.T) {
	if _, err := exec.LookPath("musl-gcc"); err != nil {
		t.Skip("needs musl-gcc")
	}
	r := open(t)
	dir := t.TempDir()
	bin, source := filepath.Join(dir, "client"), filepath.Join(dir, "client.c")
	if err := os.WriteFile(source, []byte(muslClient), 0o644); err != nil {
		t.Fatal(err)
	}
	if b, err := exec.Command("musl-gcc", "-static", "-o", bin, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	for host, want := range map[string]string{"allowed.example": "allowed.example /musl", "evil.example": "lookup: Name does not resolve"} {
		res, err := r.Run(context.Background(), allow(t, "allow:http://allowed.example"), isolate.Cmd{Args: []string{"./client", host}, In: []isolate.Input{{Source: bin, Target: "client"}}})
		if err != nil || !strings.Contains(out(res), want) {
			t.Errorf("%s: %v %s %s", host, err, out(res), res.Stderr.Kept)
		}
		if host == "evil.example" && !deniedHost(res, host) {
			t.Errorf("the denial does not name the host: %+v", res.Net)
		}
	}
}

// D 49: what tries QUIC first is told at once that there is none, and goes on
// with TCP.
func TestQUICFallsBack(t *testing.T) {
	r := open(t)
	res, err := r.Run(context.Background(), allow(t, "allow:allowed.example"), isolate.Cmd{Args: []string{"python3", "-c", `
import socket, time
for host in "allowed.example", "9.9.9.2":
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(10); s.connect((host, 443))
    began = time.monotonic()
    s.send(b"\xc0" + b"\0" * 1199) # as long as the first packet of QUIC has to be
    try: print(s.recv(10))
    except OSError as e: print(type(e).__name__, "soon" if time.monotonic() - began < 1 else "late")
socket.create_connection(("allowed.example", 443)); print("tcp")
`}})
	if err != nil || out(res) != "ConnectionRefusedError soon\nConnectionRefusedError soon\ntcp\n" {
		t.Errorf("%v %s %s", err, out(res), res.Stderr.Kept)
	}
}
