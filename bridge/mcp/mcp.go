// Package mcp speaks the Model Context Protocol on both sides of the bridge.
//
// Open connects to a server of the host, over the standard streams of a command,
// a Unix socket or HTTP, and makes tools of what it offers: "files" with a tool
// "read_file" gives the tool "files.read_file". Serve is the other way round: it
// shows the tools of a broker to clients that speak MCP over a Unix socket, and
// every call goes through the broker like any other.
//
// The servers are trusted as far as the operator trusts them: a command has the
// operator's rights, and what a server answers is bounded, cleaned and passed
// on. The clients of Serve are not trusted at all. Neither side offers or uses
// prompts, resources, sampling, roots or elicitation.
//
// It is the only package that uses the MCP SDK, and for the client side only:
// what hostile clients send is read by a small decoder here. Kernel: as
// internal/procgroup.
package mcp

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/isolate-run/isolate/bridge"
)

// Config says which server to use and which of its tools.
type Config struct {
	// Name is the server's here, and the beginning of its tools' names: 1 to
	// 32 letters, digits, _ and -, a letter first. Required.
	Name string

	// Command, Socket and URL are three ways to reach a server. Exactly one is
	// set.
	Command *Command
	// Socket is the path of a Unix socket at which a server speaks
	// newline-delimited JSON.
	Socket string
	// URL is the endpoint of a server that speaks streamable HTTP. With Header
	// it is https, or on this machine.
	URL string
	// Header is sent with every HTTP request; it may hold a secret.
	Header http.Header

	// Allow lists the tools to use, by the server's names, with the wildcards
	// of path.Match. Nil means all.
	Allow []string
	// Deny lists tools that are not used, even if Allow does.
	Deny []string

	// Effects says which tools may change something.
	Effects Effects
	// Approve says when a person is asked.
	Approve bridge.Approval
	// Timeout bounds one call. Zero means the broker's limit.
	Timeout time.Duration
	// MaxCalls bounds the calls of each tool in one run. Zero means that only
	// the limit of the run counts.
	MaxCalls int
}

// Command is a server that is started for the purpose.
type Command struct {
	// Path is the program's file, relative to Dir; a name without a slash is
	// looked for in the PATH of Env. Required.
	Path string
	// Args come after the name.
	Args []string
	// Dir is the working directory, absolute. Required.
	Dir string
	// Env is the whole environment as "NAME=VALUE".
	Env []string
}

// Effects says how it is known whether a tool may change something.
type Effects int

// The ways.
const (
	// AsAnnotated believes the server: a tool with readOnlyHint changes
	// nothing.
	AsAnnotated Effects = iota
	// AllReadOnly and AllMayWrite overrule it.
	AllReadOnly
	AllMayWrite
)

// ParseFlag reads what a command line says about a server: NAME=unix:PATH,
// NAME=http://… or https://…, or NAME=COMMAND. The command is split at spaces;
// there is no quoting. Dir and Env of a command are the caller's to set.
func ParseFlag(text string) (Config, error) {
	name, where, ok := strings.Cut(text, "=")
	c := Config{Name: name}
	words := strings.Fields(where)
	switch {
	case !ok || len(words) == 0:
		return c, fmt.Errorf("cannot read MCP server %q: write NAME=COMMAND, NAME=unix:PATH or NAME=http://HOST/…", text)
	case strings.HasPrefix(where, "unix:"):
		c.Socket = strings.TrimPrefix(where, "unix:")
	case strings.HasPrefix(where, "http://"), strings.HasPrefix(where, "https://"):
		c.URL = where
	default:
		c.Command = &Command{Path: words[0], Args: words[1:]}
	}
	return c, nil
}

var nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,31}$`) })

// CheckName says whether a server may have that name.
func CheckName(name string) error {
	if !nameForm().MatchString(name) {
		return fmt.Errorf("cannot use server name %q: it is not 1 to 32 letters, digits, _ and - with a letter first", name)
	}
	return nil
}

// check says whether c can be used at all.
func (c Config) check() error {
	if err := CheckName(c.Name); err != nil {
		return err
	}
	ways := 0
	for _, set := range []bool{c.Command != nil, c.Socket != "", c.URL != ""} {
		if set {
			ways++
		}
	}
	switch {
	case ways != 1:
		return fmt.Errorf("cannot use MCP server %q: give it one of a command, a socket and a URL, not %d", c.Name, ways)
	case len(c.Header) > 0 && c.URL == "":
		return fmt.Errorf("cannot use MCP server %q: headers are for a URL", c.Name)
	case c.Command != nil && !filepath.IsAbs(c.Command.Dir):
		return fmt.Errorf("cannot use MCP server %q: its working directory %q is not absolute", c.Name, c.Command.Dir)
	}
	for _, pattern := range append(append([]string(nil), c.Allow...), c.Deny...) {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("cannot use MCP server %q: pattern %q: %w", c.Name, pattern, err)
		}
	}
	if c.URL != "" {
		return c.checkURL()
	}
	return nil
}

func (c Config) checkURL() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		// The URL is not repeated: it may hold a secret.
		return fmt.Errorf("cannot use MCP server %q: its URL is not http://HOST/… or https://HOST/…", c.Name)
	case u.User != nil:
		return fmt.Errorf("cannot use MCP server %q: its URL has a user or password; use a header", c.Name)
	case u.Scheme == "http" && len(c.Header) > 0 && !isLoopback(u.Hostname()):
		return fmt.Errorf("cannot use MCP server %q: headers over http would be read on the way; write https", c.Name)
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() || host == "localhost"
}
