package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/tlog"
)

// Record is one event with its envelope, as it stands in a log.
type Record struct {
	// Seq is its place in its log, from 0 on.
	Seq int64
	// Run is the id of the run; empty in the host log.
	Run string
	// Time is the wall clock, in microseconds and UTC; Mono the time since the
	// log was opened by this process, which no clock setting changes.
	Time time.Time
	Mono time.Duration
	// Policy is the digest of the plan in force; empty in the host log.
	Policy string
	Event  Name
	// Data is the event itself: canonical JSON. Decode gives it its type.
	Data json.RawMessage
	// After is the digest of the checkpoint before this record; empty if a
	// record is before it.
	After string
	// Bytes is the whole record: the leaf of the tree.
	Bytes []byte
}

// Leaf is the hash of the record as a leaf of its tree.
func (r Record) Leaf() tlog.Hash { return tlog.RecordHash(r.Bytes) }

// envelope is a record in JSON.
type envelope struct {
	After  string `json:"after,omitempty" doc:"digest of the signed checkpoint that stands directly before this record"`
	Data   Event  `json:"data" doc:"the event's own fields"`
	Event  Name   `json:"event" doc:"name of the event"`
	Mono   int64  `json:"mono_us" doc:"microseconds since this process opened the log; no clock setting changes it"`
	Policy string `json:"policy,omitempty" doc:"digest of the plan in force (runs)"`
	Run    string `json:"run,omitempty" doc:"id of the run (runs)"`
	Seq    int64  `json:"seq" doc:"place in the log, from 0 on"`
	Time   string `json:"time" doc:"wall clock, UTC"`
}

const timeForm = "2006-01-02T15:04:05.000000Z"

// maxText bounds the strings of an event, but for notes and payloads.
const maxText = 4096

// clip makes a text from outside fit for a record.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// clipped is the event with its texts clipped: no caller can make a record
// that is too large, whatever a program named a file.
func clipped(e Event) Event {
	v := reflect.New(reflect.TypeOf(e)).Elem()
	v.Set(reflect.ValueOf(e))
	for i := range v.NumField() {
		f := v.Field(i)
		switch {
		case f.Kind() == reflect.String && v.Type().Field(i).Name != "Cert":
			f.SetString(clip(f.String()))
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.String:
			list := make([]string, 0, min(f.Len(), maxList))
			for j := range min(f.Len(), maxList) {
				list = append(list, clip(f.Index(j).String()))
			}
			f.Set(reflect.ValueOf(list).Convert(f.Type()))
		}
	}
	return v.Interface().(Event)
}

// maxList bounds the lists of an event.
const maxList = 32

// encode makes the bytes of a record.
func encode(e envelope) ([]byte, error) {
	e.Event = e.Data.event()
	e.Data = clipped(e.Data)
	b, err := canonical(e)
	if err != nil {
		return nil, fmt.Errorf("cannot encode record %s: %w", e.Event, err)
	}
	if len(b) > maxFrame {
		return nil, fmt.Errorf("cannot encode record %s: it has %d bytes, over %d", e.Event, len(b), maxFrame)
	}
	return b, nil
}

// ParseRecord reads a record, which may be anything. Its slices are those of b.
func ParseRecord(b []byte) (Record, error) {
	r := Record{Seq: -1, Bytes: b}
	var timeText string
	err := scanObject(b, func(key, value []byte) (err error) {
		switch string(key) {
		case "after":
			r.After, err = plainText(value)
		case "data":
			r.Data = value
		case "event":
			var s string
			s, err = plainText(value)
			r.Event = Name(s)
		case "mono_us":
			var n int64
			n, err = count(value)
			r.Mono = time.Duration(n) * time.Microsecond
		case "policy":
			r.Policy, err = plainText(value)
		case "run":
			r.Run, err = plainText(value)
		case "seq":
			r.Seq, err = count(value)
		case "time":
			timeText, err = plainText(value)
		default:
			err = fmt.Errorf("it has an unknown field %q", key)
		}
		return err
	})
	if err != nil {
		return Record{}, fmt.Errorf("cannot read record: %w", err)
	}
	r.Time, err = time.Parse(timeForm, timeText)
	switch {
	case err != nil || len(timeText) != len(timeForm):
		return Record{}, errors.New("cannot read record: it has no time")
	case r.Seq < 0 || r.Event == "" || len(r.Data) == 0 || r.Data[0] != '{':
		return Record{}, errors.New("cannot read record: a field is missing")
	}
	return r, nil
}

// plainText reads a string of the envelope, where nothing needs an escape.
func plainText(v []byte) (string, error) {
	if len(v) < 2 || v[0] != '"' || bytes.IndexByte(v, '\\') >= 0 {
		return "", errNotCanonical
	}
	return string(v[1 : len(v)-1]), nil
}

func count(v []byte) (int64, error) {
	if v[0] == '-' {
		return 0, errNotCanonical
	}
	return strconv.ParseInt(string(v), 10, 64)
}

// Decode gives the event of a record its type. An event that this version does
// not know, or a field of one, is an error.
func (r Record) Decode() (Event, error) {
	for _, known := range Vocabulary() {
		if known.Name != r.Event {
			continue
		}
		v := reflect.New(reflect.TypeOf(known.zero))
		d := json.NewDecoder(bytes.NewReader(r.Data))
		d.DisallowUnknownFields()
		if err := d.Decode(v.Interface()); err != nil {
			return nil, fmt.Errorf("cannot read event %s: %w", r.Event, err)
		}
		return v.Elem().Interface().(Event), nil
	}
	return nil, fmt.Errorf("cannot read event %q: this version does not know it", r.Event)
}
