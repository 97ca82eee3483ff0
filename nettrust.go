package isolate

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container"
	"github.com/isolate-run/isolate/egress/control"
	"github.com/isolate-run/isolate/internal/dirfd"
)

// Files below container.NetworkFiles.
const (
	bundleName = "ca-bundle.pem"
	aptName    = "apt.conf"
)

// trustVariables are how programs are told what to trust. Most of them replace
// what a program trusts, so all name a bundle that has the public roots too.
var trustVariables = []string{
	"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "npm_config_cafile", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO",
	"DENO_CERT", "AWS_CA_BUNDLE", "NIX_SSL_CERT_FILE", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
}

// trust tells the program about the authority of its network process, and what
// stands for the secrets.
func (b *box) trust(c control.Config, authority string) error {
	b.netEnv = map[string]string{}
	for name, s := range c.Secrets {
		b.netEnv[name] = s.Placeholder
	}
	if authority == "" {
		return nil
	}
	const bundle = container.NetworkFiles + "/" + bundleName
	for _, name := range trustVariables {
		b.netEnv[name] = bundle
	}
	b.netEnv["APT_CONFIG"] = container.NetworkFiles + "/" + aptName
	files := map[string][]byte{
		bundleName: append(append([]byte{}, c.Roots...), authority...),
		aptName:    []byte("Acquire::https::CaInfo \"" + bundle + "\";\n"),
	}
	return dirfd.Owner(b.owner()).Do(func() error {
		for name, content := range files {
			if err := writeNew(b.sandbox.NetworkDir, name, content); err != nil {
				return fmt.Errorf("cannot tell the sandbox whom to trust: %w", err)
			}
		}
		return nil
	})
}

// writeNew makes a file in a directory that only we write to.
func writeNew(dir *os.File, name string, content []byte) error {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	_, err = f.Write(content)
	return err
}
