package approve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/isolate-run/isolate/bridge"
	"github.com/isolate-run/isolate/internal/plaintext"
)

const (
	// shownBytes of the arguments are shown at once; the rest on demand.
	shownBytes = 4 << 10
	// maxAttempts bounds the answers nobody understands.
	maxAttempts = 5
)

// Terminal asks the person at a terminal, one question at a time. What the
// question holds is shown with everything escaped that a person would not see,
// and what was typed before the question appeared is not taken for an answer.
type Terminal struct {
	in   *os.File
	out  io.Writer
	open func() (*os.File, error)
	turn chan struct{}
	// typed is what was read and belongs to the next line. It is the turn's.
	typed []byte
}

// NewTerminal asks on in and out. The caller closes them, after the last
// question.
func NewTerminal(in *os.File, out io.Writer) *Terminal {
	return &Terminal{in: in, out: out, turn: make(chan struct{}, 1)}
}

// NewControllingTerminal asks on the terminal of this process, /dev/tty, which
// is opened for each question. Where there is none, nobody can be asked.
func NewControllingTerminal() *Terminal {
	return &Terminal{turn: make(chan struct{}, 1), open: func() (*os.File, error) {
		tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return nil, fmt.Errorf("cannot ask at the terminal: %w", err)
		}
		return tty, nil
	}}
}

// Reachable says why nobody can be asked, if that is known beforehand: there is
// no controlling terminal. Nil otherwise.
func (t *Terminal) Reachable() error {
	if t.open == nil {
		return nil
	}
	tty, err := t.open()
	if err != nil {
		return err
	}
	return tty.Close()
}

// Approve asks one question.
func (t *Terminal) Approve(ctx context.Context, q bridge.Question) (bridge.Decision, error) {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return bridge.Decision{}, ctx.Err()
	}
	defer func() { <-t.turn }()
	if t.open != nil {
		tty, err := t.open()
		if err != nil {
			return bridge.Decision{}, err
		}
		defer tty.Close()
		t.in, t.out, t.typed = tty, tty, nil
	}
	t.forget()
	shown, all := arguments(q.Args)
	t.print(heading(q) + shown)
	for range maxAttempts {
		t.print(prompt(all != ""))
		line, err := t.line(ctx)
		if err != nil {
			t.print("\n")
			return bridge.Decision{}, err
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		d, done := t.answer(ctx, word, strings.TrimSpace(rest), all)
		if done {
			d.By = "terminal"
			return d, nil
		}
	}
	return bridge.Decision{By: "terminal", Reason: "no answer that was understood"}, nil
}

// answer reads one answer; not done means that the question stands.
func (t *Terminal) answer(ctx context.Context, word, rest, all string) (bridge.Decision, bool) {
	n, err := strconv.Atoi(word)
	switch strings.ToLower(word) {
	case "n", "no", "":
		return bridge.Decision{Reason: plaintext.Clean(rest, maxText)}, true
	case "y", "yes":
		if rest == "" {
			return bridge.Decision{Verdict: bridge.Allow, For: 1}, true
		}
	case "s", "show":
		if all != "" {
			t.print(all)
			return bridge.Decision{}, false
		}
	case "e", "edit":
		return t.edit(ctx)
	default:
		if err == nil && n >= 1 && n <= MaxCalls && rest == "" {
			return bridge.Decision{Verdict: bridge.Allow, For: n}, true
		}
	}
	t.print("That is no answer.\n")
	return bridge.Decision{}, false
}

// edit asks for other arguments.
func (t *Terminal) edit(ctx context.Context) (bridge.Decision, bool) {
	t.print("New arguments, as one line of JSON (empty: none): ")
	line, err := t.line(ctx)
	if err != nil {
		return bridge.Decision{}, true
	}
	line = strings.TrimSpace(line)
	var object map[string]json.RawMessage
	if line == "" || json.Unmarshal([]byte(line), &object) != nil || object == nil {
		t.print("That is no JSON object; nothing is changed.\n")
		return bridge.Decision{}, false
	}
	return bridge.Decision{Verdict: bridge.Allow, For: 1, Args: json.RawMessage(line)}, true
}

// print writes to the terminal. If that fails, so will the reading.
func (t *Terminal) print(text string) { _, _ = io.WriteString(t.out, text) }

func heading(q bridge.Question) string {
	var b strings.Builder
	// The program may have left the terminal writing in an invisible colour.
	fmt.Fprintf(&b, plain+"\n--- isolate: may the program call this tool? ---\n")
	fmt.Fprintf(&b, "tool       %s\n", oneLine(q.Tool, 200))
	if q.Source != "" {
		fmt.Fprintf(&b, "from       %s\n", oneLine(q.Source, 200))
	}
	if q.Description != "" {
		fmt.Fprintf(&b, "says       %s\n", oneLine(q.Description, 200))
	}
	fmt.Fprintf(&b, "call       %d, id %s\n", q.Seq, oneLine(q.ID, 80))
	return b.String()
}

// oneLine is text on one line, visible and bounded.
func oneLine(text string, limit int) string {
	return strings.ReplaceAll(plaintext.Visible(plaintext.Clean(text, limit)), "\n", " ")
}

// arguments are the arguments as they are shown first, and, if that is not
// all, as they are shown on demand.
func arguments(args json.RawMessage) (shown, all string) {
	var b bytes.Buffer
	text := string(args)
	if json.Indent(&b, args, "  ", "  ") == nil {
		text = b.String()
	}
	text = plaintext.Visible(text)
	whole := "arguments\n  " + text + "\n"
	if len(text) <= shownBytes {
		return whole, ""
	}
	half := shownBytes / 2
	head := strings.ToValidUTF8(text[:half], "")
	end := strings.ToValidUTF8(text[len(text)-half:], "")
	return fmt.Sprintf("arguments, of which %d bytes are NOT SHOWN in the middle\n  %s\n  [… %[1]d bytes not shown …]\n%[3]s\n", len(text)-2*half, head, end), whole
}

// plain ends colours and other attributes of text (ECMA-48, SGR 0).
const plain = "\x1b[0m"

func prompt(more bool) string {
	if more {
		return "y: once  NUMBER: that many calls  e: edit  s: show all  n REASON: no [n] "
	}
	return "y: once  NUMBER: that many calls  e: edit  n REASON: no [n] "
}

var errNobody = errors.New("cannot read an answer: the input has ended")
