package loan

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
)

// lines reads JSON objects, one a line, none longer than maxLine.
type lines struct{ from *bufio.Scanner }

func newLines(r io.Reader) lines {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4<<10), maxLine)
	return lines{s}
}

// next reads one; io.EOF is the end.
func (l lines) next(to any) error {
	if !l.from.Scan() {
		if err := l.from.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	if err := json.Unmarshal(l.from.Bytes(), to); err != nil {
		return errors.New("cannot read what the other side says: it is no JSON of the kind")
	}
	return nil
}
