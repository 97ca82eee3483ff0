package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// The types of an attestation: an in-toto Statement with the predicate for
// runtime traces, whose fields beyond the specification begin with "isolate".
const (
	payloadInToto = "application/vnd.in-toto+json"
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://in-toto.io/attestation/runtime-trace/v0.2"
	monitorType   = "https://github.com/isolate-run/isolate"
	processType   = monitorType + "/run/v1"
)

// Statement is what an attestation says of a run: nothing that is not in its
// log, but for the program's file.
type Statement struct {
	Type          string     `json:"_type"`
	Subject       []Resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     Trace      `json:"predicate"`
}

// Resource is a name with its digests.
type Resource struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// Trace is the predicate.
type Trace struct {
	Monitor struct {
		Type string `json:"type"`
		// ConfigSource is the plan.
		ConfigSource Resource `json:"configSource"`
		// TracePolicy is how the run was confined: the record run.start.
		TracePolicy json.RawMessage `json:"tracePolicy"`
	} `json:"monitor"`
	MonitoredProcess struct {
		HostID string `json:"hostID"` // the origin of the host log
		Type   string `json:"type"`
		Event  string `json:"event"` // the id of the run
	} `json:"monitoredProcess"`
	MonitorLog struct {
		// Process are the records program.start and program.end.
		Process []json.RawMessage `json:"process"`
		// Network are destinations that were refused, those that are listed.
		Network []Refused `json:"network,omitempty"`
		// FileAccess are the files that were copied in, those that are listed.
		FileAccess []Resource `json:"fileAccess,omitempty"`
	} `json:"monitorLog"`
	Metadata struct {
		Started  string `json:"buildStartedOn"`
		Finished string `json:"buildFinishedOn"`
	} `json:"metadata"`

	// Program is the program's file as the host has it; absent if it is unknown.
	// It is of when the attestation was made, and in no log.
	Program *Resource `json:"isolateProgram,omitempty"`
	// Counts are the records blocked.counts, bridge.totals and run.end.
	Counts []json.RawMessage `json:"isolateCounts"`
	// Checkpoint is the last of the run's log, HostCheckpoint one of the host log
	// that has the run's seal.
	Checkpoint     string `json:"isolateCheckpoint"`
	HostCheckpoint string `json:"isolateHostCheckpoint"`
}

// Refused is a destination that was refused.
type Refused struct {
	IP      string `json:"ip"`
	Port    int    `json:"port,omitempty"`
	Call    string `json:"isolateCall"`
	Errno   string `json:"isolateErrno"`
	Process struct {
		PID int    `json:"pid,omitempty"`
		Exe string `json:"exe,omitempty"`
	} `json:"invokingProcess"`
}

// Attest makes a signed statement about a run that has ended: in-toto, in a
// DSSE envelope. Program is its program's file, if the caller knows it; nil is
// unknown. A run whose outputs have no digests (a terminal) is refused.
func (l *Log) Attest(run string, program *Resource) ([]byte, error) {
	s, err := statement(l.dir, run, program, string(l.Checkpoint()))
	if err != nil {
		return nil, fmt.Errorf("cannot attest run: %w", err)
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("cannot attest run: %w", err)
	}
	return sealEnvelope(payloadInToto, b, l.key())
}

// statement makes the statement about a run of its log.
func statement(dir, run string, program *Resource, host string) (Statement, error) {
	s := Statement{Type: statementType, PredicateType: predicateType, Subject: []Resource{}}
	p := &s.Predicate
	p.Monitor.Type, p.MonitoredProcess.Type, p.MonitoredProcess.Event = monitorType, processType, run
	p.MonitorLog.Process, p.Counts = []json.RawMessage{}, []json.RawMessage{}
	p.Program, p.HostCheckpoint = program, host
	if c, err := ParseCheckpoint([]byte(host)); err == nil {
		p.MonitoredProcess.HostID = c.Origin
	}
	ended := false
	err := Records(dir, run, func(r Record) error {
		e, err := r.Decode()
		if err != nil {
			return err
		}
		if _, last := e.(RunEnd); last {
			ended = true
			p.Metadata.Finished = r.Time.Format(time.RFC3339)
		}
		return s.add(r, e)
	})
	if err != nil {
		return s, err
	}
	if !ended {
		return s, errors.New("its log has no end")
	}
	if len(s.Subject) == 0 {
		return s, errors.New("its log has no digest of anything that it put out")
	}
	last, err := LastCheckpoint(dir, run)
	p.Checkpoint = string(last)
	return s, err
}

// add takes over what a record says.
func (s *Statement) add(r Record, e Event) error {
	p := &s.Predicate
	subject := func(name, sum string) {
		if sum != "" {
			s.Subject = append(s.Subject, resource(name, sum))
		}
	}
	switch e := e.(type) {
	case RunStart:
		p.Metadata.Started = r.Time.Format(time.RFC3339)
		p.Monitor.ConfigSource, p.Monitor.TracePolicy = resource("plan", e.Plan), r.Data
	case ProgramStart:
		p.MonitorLog.Process = append(p.MonitorLog.Process, r.Data)
	case ProgramEnd:
		p.MonitorLog.Process = append(p.MonitorLog.Process, r.Data)
		subject("stdout", e.StdoutSHA256)
		subject("stderr", e.StderrSHA256)
	case FileCopied:
		if e.Way == "out" {
			subject("out/"+e.Path, e.SHA256)
		} else {
			p.MonitorLog.FileAccess = append(p.MonitorLog.FileAccess, resource(e.Path, e.SHA256))
		}
	case SocketBlocked:
		if e.Address != "" {
			n := Refused{IP: e.Address, Port: e.Port, Call: e.Call, Errno: e.Errno}
			n.Process.PID, n.Process.Exe = e.PID, e.Exe
			p.MonitorLog.Network = append(p.MonitorLog.Network, n)
		}
	case BlockedCounts, BridgeTotals, RunEnd:
		p.Counts = append(p.Counts, r.Data)
	}
	return nil
}

// resource is a name with a SHA-256, which may have its name before it.
func resource(name, sum string) Resource {
	return Resource{name, map[string]string{"sha256": strings.TrimPrefix(sum, "sha256:")}}
}

// attested reads the attestations: the keys that may sign them are known. What
// they remember of the host log is an anchor.
func (v *verification) attested() {
	wrong := func(r Reason, log, what string) { v.add(Problem{r, log, "attestation: " + what}) }
	for _, msg := range v.o.Attestations {
		payload, err := openEnvelope(msg, payloadInToto, v.hosts)
		switch {
		case errors.Is(err, errUnknownKey):
			wrong(UnknownKey, "host", err.Error())
			continue
		case errors.Is(err, errBadSignature):
			wrong(BadSignature, "host", err.Error())
			continue
		case err != nil:
			wrong(Damaged, "host", err.Error())
			continue
		}
		if r, log, err := v.compare(payload); err != nil {
			wrong(r, log, err.Error())
			continue
		}
		v.report.Attested++
	}
}

// compare makes the statement anew of the log and compares.
func (v *verification) compare(payload []byte) (Reason, string, error) {
	var s Statement
	if err := json.Unmarshal(payload, &s); err != nil || !validID(s.Predicate.MonitoredProcess.Event) {
		return Damaged, "host", errors.New("it is no statement about a run")
	}
	run := s.Predicate.MonitoredProcess.Event
	if r, err := v.remembers(s.Predicate.HostCheckpoint); err != nil {
		return r, run, err
	}
	now, err := statement(v.dir, run, s.Predicate.Program, s.Predicate.HostCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return MissingRun, run, errors.New("there is no log of the run")
	}
	if err != nil {
		return Damaged, run, err
	}
	b, err := json.Marshal(now)
	if err != nil {
		return Damaged, run, err
	}
	if !bytes.Equal(b, payload) {
		return RootMismatch, run, errors.New("it says otherwise than the log of the run")
	}
	return "", run, nil
}

// remembers compares the checkpoint of an attestation with the host log.
func (v *verification) remembers(checkpoint string) (Reason, error) {
	c, _, err := OpenCheckpoint([]byte(checkpoint), note.VerifierList(v.hosts...))
	switch {
	case err != nil:
		return BadSignature, err
	case c.Origin != v.host.origin:
		return Fork, fmt.Errorf("it is of log %q, this is log %q", c.Origin, v.host.origin)
	case c.Size > v.host.tree.size:
		return RolledBack, fmt.Errorf("it remembers %d records, there are %d", c.Size, v.host.tree.size)
	}
	return "", nil
}
