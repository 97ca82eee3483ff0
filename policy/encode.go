package policy

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/isolate-run/isolate/egress"
)

// Encode writes a policy as a file that Decode reads as the same policy, for
// whoever takes policies as text, such as a server. What a file cannot say is
// an error: a Bridge, text that is not UTF-8, and what Decode would refuse.
func Encode(p Policy) ([]byte, error) {
	if p.Bridge != NoBridge {
		return nil, errors.New("cannot write policy: no file has a bridge")
	}
	text, err := marshal(p)
	if err != nil {
		return nil, err
	}
	read, err := Decode("policy", text)
	if err != nil {
		return nil, err
	}
	// the library writes a byte that is not UTF-8 as the character of its number
	if again, err := marshal(read); err != nil || !bytes.Equal(again, text) {
		return nil, errors.New("cannot write policy: a path or a value in it is not UTF-8")
	}
	return text, nil
}

func marshal(p Policy) ([]byte, error) {
	text, err := toml.Marshal(fileOf(p))
	if err != nil {
		return nil, fmt.Errorf("cannot write policy: %w", err)
	}
	return text, nil
}

// file is a policy as the TOML library writes it; keys has the names.
type file struct {
	Profile     Profile           `toml:"profile,omitempty"`
	Rootfs      string            `toml:"rootfs,omitempty"`
	Hostname    string            `toml:"hostname,omitempty"`
	Preload     string            `toml:"preload,omitempty"`
	Memory      Size              `toml:"memory,omitempty"`
	CPUs        float64           `toml:"cpus,omitempty"`
	PIDs        int               `toml:"pids,omitempty"`
	Disk        Size              `toml:"disk,omitempty"`
	Inodes      int               `toml:"inodes,omitempty"`
	Files       int               `toml:"files,omitempty"`
	Output      Size              `toml:"output,omitempty"`
	EndOnOutput EndOnOutput       `toml:"end-on-output,omitempty"`
	Time        string            `toml:"time,omitempty"`
	CPUTime     string            `toml:"cpu-time,omitempty"`
	Grace       string            `toml:"grace,omitempty"`
	Allow       []Weakening       `toml:"allow,omitempty"`
	ReadOnly    []fileBind        `toml:"read-only,omitempty"`
	Env         map[string]string `toml:"env,omitempty"`
	Net         *fileNet          `toml:"net,omitempty"`
}

type fileBind struct {
	Source string `toml:"source"`
	Target string `toml:"target,omitempty"`
}

type fileNet struct {
	Mode      egress.Mode `toml:"mode,omitempty"`
	DNS       egress.DNS  `toml:"dns,omitempty"`
	Exempt    []string    `toml:"exempt,omitempty"`
	IPv6      bool        `toml:"ipv6,omitempty"`
	HostPorts []int       `toml:"host-ports,omitempty"`
	Allow     []fileRule  `toml:"allow,omitempty"`
	Deny      []fileDeny  `toml:"deny,omitempty"`
}

type fileRule struct {
	Name         string          `toml:"name,omitempty"`
	CIDR         string          `toml:"cidr,omitempty"`
	Ports        []int           `toml:"ports,omitempty"`
	Protocol     egress.Protocol `toml:"protocol,omitempty"`
	TLS          egress.TLS      `toml:"tls,omitempty"`
	Methods      []string        `toml:"methods,omitempty"`
	Paths        []string        `toml:"paths,omitempty"`
	WebSocket    bool            `toml:"websocket,omitempty"`
	Private      []string        `toml:"private,omitempty"`
	For          string          `toml:"for,omitempty"`
	Until        string          `toml:"until,omitempty"`
	MaxFlows     int             `toml:"max-flows,omitempty"`
	MaxBytesOut  int64           `toml:"max-bytes-out,omitempty"`
	PublicSuffix bool            `toml:"public-suffix,omitempty"`
	Inject       []fileSecret    `toml:"inject,omitempty,inline"`
	ID           string          `toml:"id,omitempty"`
	Reason       string          `toml:"reason,omitempty"`
}

type fileSecret struct {
	Header   string `toml:"header"`
	Variable string `toml:"variable"`
	Prefix   string `toml:"prefix,omitempty"`
}

type fileDeny struct {
	Name  string `toml:"name,omitempty"`
	CIDR  string `toml:"cidr,omitempty"`
	Ports []int  `toml:"ports,omitempty"`
}

func fileOf(p Policy) file {
	f := file{
		Profile: p.Profile, Rootfs: p.Rootfs, Hostname: p.Hostname, Preload: p.Preload.String(),
		Memory: p.Memory, CPUs: p.CPUs, PIDs: p.PIDs, Disk: p.Disk, Inodes: p.Inodes, Files: p.Files,
		Output: p.Output, EndOnOutput: p.EndOnOutput,
		Time: durationText(p.Wall), CPUTime: durationText(p.CPUTime), Grace: durationText(p.Grace),
		Allow: p.Allow, Env: p.Env,
	}
	for _, b := range p.ReadOnly {
		f.ReadOnly = append(f.ReadOnly, fileBind(b))
	}
	if !reflect.ValueOf(p.Net).IsZero() {
		f.Net = fileNetOf(p.Net)
	}
	return f
}

func fileNetOf(n egress.Policy) *fileNet {
	f := &fileNet{Mode: n.Mode, DNS: n.DNS, Exempt: n.Exempt, IPv6: n.IPv6, HostPorts: n.HostPorts}
	for _, r := range n.Rules {
		rule := fileRule{
			Name: r.Name, CIDR: r.CIDR, Ports: r.Ports, Protocol: r.Protocol, TLS: r.TLS,
			Methods: r.Methods, Paths: r.Paths, WebSocket: r.WebSocket, Private: r.Private,
			For: durationText(r.For), MaxFlows: r.MaxFlows, MaxBytesOut: r.MaxBytesOut,
			PublicSuffix: r.PublicSuffix, ID: r.ID, Reason: r.Reason,
		}
		if !r.Until.IsZero() {
			rule.Until = r.Until.Format(time.RFC3339Nano)
		}
		for _, s := range r.Inject {
			rule.Inject = append(rule.Inject, fileSecret(s))
		}
		f.Allow = append(f.Allow, rule)
	}
	for _, d := range n.Deny {
		f.Deny = append(f.Deny, fileDeny(d))
	}
	return f
}

// durationText is a duration as a file has it; zero, which stands for a
// default, is left out.
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return shortDuration(d)
}
