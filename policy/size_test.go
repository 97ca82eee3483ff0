package policy

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"1B": 1, "100B": 100, "64K": 64 << 10, "64KiB": 64 << 10,
		"256M": 256 << 20, "256MiB": 256 << 20, "1G": 1 << 30, "1GiB": 1 << 30, "2T": 2 << 40, "2TiB": 2 << 40,
		"1.5GiB": 3 << 29, "0.5K": 512, "007M": 7 << 20, "1.0B": 1,
		"0.1G":                  107374182, // rounded down from 107374182.4
		"9223372036854775807B":  math.MaxInt64,
		"8388607T":              8388607 << 40,
		"0.0009765625K":         1,
		"9007199254740993.000B": 9007199254740993, // 2^53+1: no float64 in between
	} {
		got, err := ParseSize(text)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestParseSizeRefuses(t *testing.T) {
	for text, hint := range map[string]string{
		"":                              `"512M"`,
		"512":                           `write "512M" or "512KiB"`,
		"1.5":                           `write "1.5M" or "1.5KiB"`,
		"512 ":                          `write "512M" or "512KiB"`,
		"lots":                          `"512M"`,
		"-1G":                           "more than zero",
		"-":                             "more than zero",
		"+1G":                           "a number and a unit",
		"0":                             "more than zero",
		"0.0":                           "more than zero",
		"0G":                            "more than zero",
		"0.5B":                          "more than zero",
		"1.5.2G":                        "a number and a unit",
		"1.G":                           "a number and a unit",
		".5G":                           "a number and a unit",
		".":                             "a number and a unit",
		"M":                             "a number and a unit",
		"1e3M":                          "the units are",
		"0x10M":                         "the units are",
		"1_000M":                        "the units are",
		"1/2G":                          "the units are",
		"512 M":                         `write "512M"`,
		"512m":                          `write "512M"`,
		"512MB":                         `write "512M"`,
		"512kb":                         `write "512K"`,
		"512mib":                        `write "512M"`,
		"10b":                           `write "10B"`,
		"10P":                           "the units are",
		"512Mx":                         "the units are",
		"٣M":                            "a number and a unit",
		"8388608T":                      `"4096T" at most`,
		"9223372036854775808B":          `"4096T" at most`,
		strings.Repeat("9", 32) + "T":   `"4096T" at most`,
		strings.Repeat("9", 33) + "T":   "a number and a unit",
		strings.Repeat("9", 1<<20) + "": "a number and a unit",
		"1M\x00":                        "the units are",
	} {
		got, err := ParseSize(text)
		var p Problem
		if !errors.As(err, &p) {
			t.Errorf("ParseSize(%.40q) = %d, %v; want a Problem", text, got, err)
			continue
		}
		if !strings.Contains(p.Hint, hint) {
			t.Errorf("ParseSize(%.40q): hint %q, want %q in it", text, p.Hint, hint)
		}
		if len(err.Error()) > 400 {
			t.Errorf("ParseSize(%.40q): error of %d bytes", text, len(err.Error()))
		}
	}
}

func TestSizeString(t *testing.T) {
	for size, want := range map[Size]string{
		0: "0B", 1: "1B", -5: "-5B", 1023: "1023B", 1024: "1K", 1536: "1536B",
		512 * MiB: "512M", 3 * GiB / 2: "1536M", 2 * TiB: "2T",
		math.MaxInt64: "9223372036854775807B", math.MinInt64: "-9223372036854775808B",
	} {
		if got := size.String(); got != want {
			t.Errorf("Size(%d).String() = %q, want %q", int64(size), got, want)
		}
	}
}

func TestSizeText(t *testing.T) {
	text, err := (256 * MiB).MarshalText()
	if err != nil || string(text) != "256M" {
		t.Errorf("MarshalText = %q, %v", text, err)
	}
	s := Size(7)
	if err := s.UnmarshalText([]byte("512")); err == nil || s != 7 {
		t.Errorf("UnmarshalText of a refused text: %v and %d, want an error and 7", err, s)
	}
	if err := s.UnmarshalText([]byte("1.5GiB")); err != nil || s != 3*GiB/2 {
		t.Errorf("UnmarshalText = %d, %v", s, err)
	}
}
