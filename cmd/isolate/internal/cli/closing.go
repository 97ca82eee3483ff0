package cli

import "github.com/isolate-run/isolate"

// closing is what is said at the end of a run on standard error: why isolate
// ended it, and what of its output or files is not there. A program that ended
// by itself, with whatever code, needs no words. The rules of words.go hold.
func closing(res isolate.Result, r request) []string {
	p := r.policy.WithDefaults()
	var lines []string
	say := func(text string) { lines = append(lines, "isolate: "+text) }
	if text := ending(res, p, r); text != "" {
		say(text)
	}
	if text := notInside(res, r); text != "" {
		say(text)
	}
	if text := noHostPort(res, p); text != "" {
		say(text)
	}
	if dropping(res) {
		for _, s := range []struct {
			name string
			of   isolate.Stream
		}{{"standard output", res.Stdout}, {"standard error", res.Stderr}} {
			if s.of.Dropped > 0 {
				say(dropped(s.of.Dropped, s.name, p))
			}
		}
	}
	if skipped(res.In) > 0 {
		say(notCopied(res.In.Skipped, "in", "--meta"))
	}
	if skipped(res.Out) > 0 {
		say(notCopied(res.Out.Skipped, "out", "--meta"))
	}
	if text := actedOn(res.Out, "--meta"); text != "" {
		say(text)
	}
	lines = append(lines, troubles(res.Calls)...)
	for _, text := range netClosing(res.Net) {
		say(text)
	}
	if res.Audit != nil && r.audit.dir != "" { // who did not ask for it did not begin a log either
		say(recordedAs(res.Audit))
	}
	return lines
}

// dropping says whether dropped output is news: a run that was ended by its
// output has said so, and after one that the caller ended nobody wanted it.
func dropping(res isolate.Result) bool {
	return res.Reason != isolate.ReasonOutput && res.Reason != isolate.ReasonCancelled
}

func skipped(m *isolate.Manifest) int {
	if m == nil {
		return 0
	}
	return len(m.Skipped)
}
