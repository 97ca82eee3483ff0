package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestProfileText(t *testing.T) {
	for p, name := range map[Profile]string{ProfileDefault: "default", ProfileCompat: "compat", ProfileStrict: "strict"} {
		text, err := p.MarshalText()
		if err != nil || string(text) != name || p.String() != name {
			t.Errorf("Profile(%d): %q, %q, %v; want %q", int(p), text, p, err, name)
		}
		got := Profile(9)
		if err := got.UnmarshalText([]byte(name)); err != nil || got != p {
			t.Errorf("UnmarshalText(%q) = %d, %v", name, int(got), err)
		}
	}
	for _, text := range []string{"", "Default", "strict ", "0", "unconfined"} {
		p := ProfileStrict
		err := p.UnmarshalText([]byte(text))
		wantProblem(t, "Profile "+text, err, "")
		if p != ProfileStrict {
			t.Errorf("refused text %q changed the profile to %v", text, p)
		}
	}
	for _, p := range []Profile{-1, 3} {
		if text, err := p.MarshalText(); err == nil {
			t.Errorf("Profile(%d).MarshalText() = %q, want an error", int(p), text)
		}
	}
	if got := Profile(7).String(); got != "Profile(7)" {
		t.Errorf("String of a profile that is none = %q", got)
	}
}

func TestEndOnOutputText(t *testing.T) {
	for e, name := range map[EndOnOutput]string{KeepRunning: "keep-running", EndRun: "end-run"} {
		text, err := json.Marshal(e)
		if err != nil || string(text) != `"`+name+`"` || e.String() != name {
			t.Errorf("EndOnOutput(%d): %s, %q, %v; want %q", int(e), text, e, err, name)
		}
		got := EndOnOutput(9)
		if err := json.Unmarshal(text, &got); err != nil || got != e {
			t.Errorf("UnmarshalText(%s) = %d, %v", text, int(got), err)
		}
	}
	for _, text := range []string{"", "true", "End-Run", "1"} {
		var e EndOnOutput
		wantProblem(t, "EndOnOutput "+text, e.UnmarshalText([]byte(text)), "")
	}
	if _, err := EndOnOutput(2).MarshalText(); err == nil {
		t.Error("EndOnOutput(2).MarshalText: no error")
	}
}

func TestParseWeakening(t *testing.T) {
	if !slices.IsSorted(Weakenings) {
		t.Errorf("Weakenings %q are not sorted", Weakenings)
	}
	for _, w := range Weakenings {
		if got, err := ParseWeakening(string(w)); err != nil || got != w {
			t.Errorf("ParseWeakening(%q) = %q, %v", w, got, err)
		}
	}
	for text, hint := range map[string]string{
		"weak-limit": `did you mean "weak-limits"?`, "weak_limits": `did you mean "weak-limits"?`, "unsafe": `did you mean "unsafe-binds"?`,
		"": "host-ports, no-denial-records, unsafe-binds or weak-limits", "everything": "host-ports, no-denial-records, unsafe-binds or weak-limits",
	} {
		got, err := ParseWeakening(text)
		wantProblem(t, "ParseWeakening "+text, err, hint)
		if got != "" {
			t.Errorf("ParseWeakening(%q) = %q with its error", text, got)
		}
	}
}

func TestQuoteCutsBetweenCharacters(t *testing.T) {
	for _, text := range []string{strings.Repeat("ä", 60), "x" + strings.Repeat("ä", 60), strings.Repeat("\x80", 100)} {
		got := quote(text)
		if !strings.HasSuffix(got, `"…`) || len(got) > 4*quotedBytes+8 || strings.Contains(got, `ä\x`) {
			t.Errorf("quote(%q) = %s", text, got)
		}
	}
}
