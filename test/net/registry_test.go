package net

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// serveRegistry serves fake registries of package managers on registry.example.
// Their files are on cdn.example, to which a redirect leads.
func serveRegistry(rw http.ResponseWriter, r *http.Request) bool {
	const cdn = "https://cdn.example"
	p := r.URL.Path
	send := func(kind string, b []byte) bool {
		rw.Header().Set("Content-Type", kind)
		_, _ = rw.Write(b)
		return true
	}
	file := strings.HasPrefix(r.Host, "cdn.example")
	switch {
	case p == "/simple/hello/":
		name := "hello-1.0-py3-none-any.whl"
		sum := sha256.Sum256(wheel())
		return send("text/html", fmt.Appendf(nil, `<!DOCTYPE html><html><body><a href="/files/%s#sha256=%s">%s</a></body></html>`, name, hex.EncodeToString(sum[:]), name))
	case strings.HasPrefix(p, "/files/") && !file:
		http.Redirect(rw, r, cdn+p, http.StatusFound)
		return true
	case strings.HasSuffix(p, ".whl") && file:
		return send("application/octet-stream", wheel())
	case p == "/hello-npm":
		sum := sha512.Sum512(npmPackage())
		b, _ := json.Marshal(map[string]any{"name": "hello-npm", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": map[string]any{
			"name": "hello-npm", "version": "1.0.0", "dist": map[string]string{"tarball": "https://registry.example/files/hello-npm-1.0.0.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}}}})
		return send("application/json", b)
	case strings.HasSuffix(p, ".tgz") && file:
		return send("application/octet-stream", npmPackage())
	case p == "/goproxy/example.org/hello/@v/list":
		return send("text/plain", []byte("v1.0.0\n"))
	case p == "/goproxy/example.org/hello/@v/v1.0.0.info":
		return send("application/json", []byte(`{"Version":"v1.0.0","Time":"2024-01-01T00:00:00Z"}`))
	case p == "/goproxy/example.org/hello/@v/v1.0.0.mod":
		return send("text/plain", []byte("module example.org/hello\n"))
	case p == "/goproxy/example.org/hello/@v/v1.0.0.zip":
		http.Redirect(rw, r, cdn+"/files/hello.zip", http.StatusFound)
		return true
	case p == "/files/hello.zip" && file:
		return send("application/zip", goModule())
	case p == "/index/config.json":
		return send("application/json", []byte(`{"dl": "https://cdn.example/crates"}`))
	case p == "/index/he/ll/hello-cargo":
		sum := sha256.Sum256(crate())
		return send("text/plain", fmt.Appendf(nil, `{"name":"hello-cargo","vers":"1.0.0","deps":[],"cksum":"%s","features":{},"yanked":false}`+"\n", hex.EncodeToString(sum[:])))
	case p == "/crates/hello-cargo/1.0.0/download" && file:
		return send("application/x-tar", crate())
	case strings.HasPrefix(p, "/repo.git/"):
		http.Redirect(rw, r, cdn+"/git"+r.URL.RequestURI(), http.StatusFound)
		return true
	case p == "/git/repo.git/info/refs" && file:
		return send("text/plain", []byte("1111111111111111111111111111111111111111\trefs/heads/main\n"))
	case p == "/debian/dists/stable/Release" || p == "/debian/dists/stable/main/binary-amd64/Packages":
		http.Redirect(rw, r, "http://cdn.example"+p+"-file", http.StatusFound)
		return true
	case p == "/debian/dists/stable/Release-file" && file:
		sum := sha256.Sum256([]byte(packages))
		return send("text/plain", fmt.Appendf(nil, "Origin: test\nSuite: stable\nCodename: stable\nArchitectures: amd64\nComponents: main\nDate: Mon, 01 Jan 2024 00:00:00 UTC\nSHA256:\n %s %d main/binary-amd64/Packages\n", hex.EncodeToString(sum[:]), len(packages)))
	case p == "/debian/dists/stable/main/binary-amd64/Packages-file" && file:
		return send("text/plain", []byte(packages))
	case strings.HasPrefix(p, "/debian/"):
		http.NotFound(rw, r)
		return true
	}
	return false
}

const packages = "Package: hello-apt\nVersion: 1.0\nArchitecture: amd64\nMaintainer: test\nFilename: pool/hello.deb\nSize: 1\nSHA256: 0000000000000000000000000000000000000000000000000000000000000000\nDescription: test\n\n"

func wheel() []byte {
	const info = "hello-1.0.dist-info/"
	return zipped([][2]string{{"hello.py", "print('hello from the wheel')\n"}, {info + "METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", "hello.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"}})
}

func goModule() []byte {
	const m = "example.org/hello@v1.0.0/"
	return zipped([][2]string{{m + "go.mod", "module example.org/hello\n"}, {m + "hello.go", "package hello\n"}})
}

func zipped(files [][2]string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		e, _ := w.CreateHeader(&zip.FileHeader{Name: f[0], Method: zip.Deflate})
		_, _ = e.Write([]byte(f[1]))
	}
	w.Close()
	return b.Bytes()
}

func npmPackage() []byte {
	return tarred([][2]string{{"package/package.json", `{"name":"hello-npm","version":"1.0.0","main":"index.js"}`}, {"package/index.js", "console.log('hello from npm')\n"}})
}

func crate() []byte {
	const c = "hello-cargo-1.0.0/"
	return tarred([][2]string{{c + "Cargo.toml", "[package]\nname = \"hello-cargo\"\nversion = \"1.0.0\"\nedition = \"2021\"\n"}, {c + "src/lib.rs", ""}})
}

func tarred(files [][2]string) []byte {
	var b bytes.Buffer
	g := gzip.NewWriter(&b)
	w := tar.NewWriter(g)
	for _, f := range files {
		_ = w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))})
		_, _ = w.Write([]byte(f[1]))
	}
	w.Close()
	g.Close()
	return b.Bytes()
}
