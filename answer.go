package isolate

import "bytes"

// AnswerMark begins the line in which a program says its result, after the
// habit of programs that models write.
const AnswerMark = "RESULT:"

// MaxAnswer bounds an answer in bytes; a longer one is not cut but missing.
const MaxAnswer = 1 << 20

// AnswerFrom says where an answer was found.
type AnswerFrom string

// The places.
const (
	AnswerMarked  AnswerFrom = "marked"    // the last line that begins with AnswerMark
	AnswerLast    AnswerFrom = "last-line" // there is none: the last line that is not empty, if the program exited with 0
	AnswerNone    AnswerFrom = "none"      // there is no such line either
	AnswerTooLong AnswerFrom = "too-long"  // the line is longer than MaxAnswer
)

// Answer is what a program printed as its result. All of its standard output
// is looked at, also what the limit of the output drops.
type Answer struct {
	// Text is what follows the mark, or the line, without the space around it.
	Text string
	From AnswerFrom
}

// answerScan finds the answer in a stream, in bounded memory. The zero value
// is ready to use.
type answerScan struct {
	line           answerLine // the one that has no end yet
	marked, last   answerLine
	isMarked, some bool
}

// answerLine is a line, or the beginning of one that is too long.
type answerLine struct {
	text []byte
	long bool
}

func (l *answerLine) add(p []byte) {
	if room := MaxAnswer + len(AnswerMark) + 1 - len(l.text); len(p) > room {
		p, l.long = p[:room], true
	}
	l.text = append(l.text, p...)
}

func (l *answerLine) set(from answerLine) {
	l.text, l.long = append(l.text[:0], from.text...), from.long
}

func (s *answerScan) write(p []byte) {
	end := bytes.IndexByte(p, '\n')
	if end < 0 {
		s.line.add(p)
		return
	}
	s.line.add(p[:end])
	s.ended(s.line)
	p = p[end+1:]
	end = bytes.LastIndexByte(p, '\n')
	if end >= 0 {
		s.whole(p[:end])
	}
	s.line = answerLine{text: s.line.text[:0]}
	s.line.add(p[end+1:])
}

// whole looks at lines that are all there, of which only the last ones count.
func (s *answerScan) whole(p []byte) {
	p = bytes.TrimRight(p, " \t\r\n")
	if len(p) == 0 {
		return
	}
	s.ended(newLine(p[bytes.LastIndexByte(p, '\n')+1:]))
	at := bytes.LastIndex(p, []byte("\n"+AnswerMark)) + 1
	if at == 0 && !bytes.HasPrefix(p, []byte(AnswerMark)) {
		return
	}
	line, _, _ := bytes.Cut(p[at:], []byte("\n"))
	s.ended(newLine(line))
}

func newLine(p []byte) (l answerLine) {
	l.add(p)
	return l
}

// ended notes a line that has ended, if it is one of those that count.
func (s *answerScan) ended(l answerLine) {
	if bytes.HasPrefix(l.text, []byte(AnswerMark)) {
		s.marked.set(l)
		s.isMarked = true
	} else if l.long || len(bytes.TrimSpace(l.text)) > 0 {
		s.last.set(l)
		s.some = true
	}
}

// answer is the answer so far, as if the stream ended here.
func (s *answerScan) answer() Answer {
	s.ended(s.line)
	s.line = answerLine{}
	from, l := AnswerLast, s.last
	switch {
	case s.isMarked:
		from, l = AnswerMarked, s.marked
	case !s.some:
		return Answer{From: AnswerNone}
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(l.text, []byte(AnswerMark)))
	if l.long || len(text) > MaxAnswer {
		return Answer{From: AnswerTooLong}
	}
	return Answer{Text: string(text), From: from}
}
