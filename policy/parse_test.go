package policy

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// wantProblem checks that err is a Problem with that in its hint.
func wantProblem(t *testing.T, call string, err error, hint string) {
	t.Helper()
	var p Problem
	switch {
	case !errors.As(err, &p):
		t.Errorf("%s: %v, want a Problem", call, err)
	case p.Hint == "" || !strings.Contains(p.Hint, hint):
		t.Errorf("%s: hint %q, want %q in it", call, p.Hint, hint)
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"60s": time.Minute, "500ms": time.Second / 2, "2m": 2 * time.Minute, "1h30m": 90 * time.Minute,
		"1.5s": 1500 * time.Millisecond, "20us": 20 * time.Microsecond, "20µs": 20 * time.Microsecond, "1ns": 1,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for text, hint := range map[string]string{
		"": `"60s"`, "60": `write "60s" or "60ms"`, "1h30": `write "30s" or "30ms"`, "0": "more than zero", "0s": "more than zero",
		"0.0": "more than zero", ".": `"60s"`, "-1s": "more than zero", "+1s": `"60s"`, "lots": `"60s"`, "s": `"60s"`, "1..5s": `"60s"`,
		".5s": `"60s"`, "1.s": `"60s"`, "1d": `"24h"`, "60 s": `write "60s"`, "5min": `write "5m"`, "5 minutes": `write "5m"`,
		"60sec": `write "60s"`, "5MS": `write "5ms"`, "1e3s": "units are", "0.1ns": "more than zero",
		"9999999h": `"24h" at most`, "9223372036854775808ns": `"24h" at most`, strings.Repeat("9", 99) + "s": `"60s"`,
		"9223372036854775807ns1ns": `"24h" at most`, "∞s": `"60s"`, "1s\x00": "units are",
	} {
		_, err := ParseDuration(text)
		wantProblem(t, "ParseDuration "+text, err, hint)
	}
}

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string]float64{"2": 2, "0.5": 0.5, "1.25": 1.25, "007": 7} {
		if got, err := ParseCPUs(text); err != nil || got != want {
			t.Errorf("ParseCPUs(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "0", "0.0", "-1", "+1", "1e3", "0x1p4", "NaN", "Inf", "inf", "50%", "500m", "1.5.2", ".5", "1.", "1_0", " 1", "1 ", "all",
		strings.Repeat("9", 400),
	} {
		_, err := ParseCPUs(text)
		wantProblem(t, "ParseCPUs "+text, err, "")
	}
}

func TestParseCount(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "128": 128, "0128": 128} {
		if got, err := ParseCount(text); err != nil || got != want {
			t.Errorf("ParseCount(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "0", "00", "-1", "+1", "1.5", "1k", "0x10", "1_000", "many", " 1", "1 ", "9223372036854775808", strings.Repeat("9", 1<<16),
	} {
		_, err := ParseCount(text)
		wantProblem(t, "ParseCount "+text, err, "")
	}
}

func TestParseBind(t *testing.T) {
	for text, want := range map[string]Bind{
		"/srv/data":           {Source: "/srv/data"},
		"/srv/data:/data":     {"/srv/data", "/data"},
		"data:/data":          {"data", "/data"},
		"../data":             {Source: "../data"},
		"/srv/data:/data//x/": {"/srv/data", "/data/x"},
		"/srv/a b\n:/c":       {"/srv/a b\n", "/c"},
	} {
		if got, err := ParseBind(text); err != nil || got != want {
			t.Errorf("ParseBind(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, hint := range map[string]string{
		"": "HOST", ":": "HOST", ":/data": "HOST", "/a:": "HOST", "/a:data": "HOST", "/a:../b": "HOST",
		"/a:/b/../../c": `"/a:/c"`, "/a:/b:ro": `":ro"`, "/a:ro": `":ro"`, "/a:/b:rw": "/workspace", "/a:/b:z": "colon", "/a:/b:/c": "colon",
		"~/data": "in full", "~": "in full", "/a\x00:/b": "HOST",
	} {
		_, err := ParseBind(text)
		wantProblem(t, "ParseBind "+text, err, hint)
	}
}

func TestParseEnv(t *testing.T) {
	for text, want := range map[string][2]string{
		"A=b": {"A", "b"}, "_a1=": {"_a1", ""}, "A=b=c": {"A", "b=c"}, "A= x\n": {"A", " x\n"}, "A=\xff": {"A", "\xff"},
	} {
		name, value, err := ParseEnv(text)
		if err != nil || name != want[0] || value != want[1] {
			t.Errorf("ParseEnv(%q) = %q, %q, %v; want %q", text, name, value, err, want)
		}
	}
	for _, text := range []string{"", "A", "=b", "=", "1A=b", "A-B=c", "A B=c", "A.B=c", "Ä=c", "A\x00B=c", "A=b\x00c"} {
		_, _, err := ParseEnv(text)
		wantProblem(t, "ParseEnv "+text, err, "")
	}
}

func TestParseEnvKeepsTheValueSecret(t *testing.T) {
	_, _, err := ParseEnv("MY-TOKEN=hunter2")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v, want one without the value", err)
	}
}
