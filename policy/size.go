package policy

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Size is a number of bytes.
//
// Its text has a number, which may have a fraction, and a unit: "100B", "64K",
// "256M", "256MiB", "1.5GiB". Units are powers of 1024, and K, M, G and T are
// short for KiB, MiB, GiB and TiB. KB, MB and so on are refused, because half
// of the world reads them as powers of 1000, and so is a number without unit.
type Size int64

// Units of Size: powers of 1024, as in the texts "256M" and "256MiB".
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

// sizeUnits maps the units a size text may have to bytes.
var sizeUnits = map[string]Size{
	"B": 1,
	"K": KiB, "KiB": KiB,
	"M": MiB, "MiB": MiB,
	"G": GiB, "GiB": GiB,
	"T": TiB, "TiB": TiB,
}

// numberBytes bounds the digits of a number in a text: an int64 has 19.
const numberBytes = 32

// ParseSize reads a size such as "512M". A fraction is rounded down to whole
// bytes. Zero and negative sizes are refused: the zero Size of a Policy means
// "the default" and has no text. The error is a Problem.
func ParseSize(text string) (Size, error) { return parseSize("size", text) }

func parseSize(noun, text string) (Size, error) {
	number, unit := splitNumber(text)
	if cause, hint := sizeForm(number, unit); cause != "" {
		return 0, refuse(noun, text, cause, hint)
	}
	// A Rat, because a float64 holds no more than 53 bits exactly. Its
	// SetString knows exponents and fractions, which sizeForm has ruled out.
	bytes, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, refuse(noun, text, "it is not a number with a unit", sizeHint)
	}
	bytes.Mul(bytes, new(big.Rat).SetInt64(int64(sizeUnits[unit])))
	whole := new(big.Int).Quo(bytes.Num(), bytes.Denom())
	switch {
	case !whole.IsInt64():
		return 0, refuse(noun, text, "it is more than 63 bits hold", fmt.Sprintf("write %q at most", MaxSize))
	case whole.Sign() == 0:
		return 0, refuse(noun, text, "it is zero", zeroHint)
	}
	return Size(whole.Int64()), nil
}

const (
	sizeHint = `write a number and a unit, such as "512M" or "1.5GiB"`
	zeroHint = "write more than zero, or leave it out for the default"
)

// sizeForm says what is wrong with the form of a size; "" is nothing.
func sizeForm(number, unit string) (cause, hint string) {
	_, known := sizeUnits[unit]
	trimmed := strings.TrimSpace(unit)
	switch {
	case number == "" && unit == "":
		return "it is empty", sizeHint
	case number == "" && strings.HasPrefix(unit, "-"):
		return "it is negative", zeroHint
	case !isDecimal(number):
		return "it is not a number with a unit", sizeHint
	case unit == "" && strings.Trim(number, "0.") == "":
		return "it is zero and has no unit", zeroHint
	case unit == "":
		return "it has no unit", fmt.Sprintf("write %q or %q", number+"M", number+"KiB")
	case known:
		return "", ""
	case trimmed == "":
		return "it ends in space and has no unit", fmt.Sprintf("write %q or %q", number+"M", number+"KiB")
	}
	if meant, ok := meantUnit(trimmed); ok {
		return fmt.Sprintf("%s is not one of its units", quote(unit)), fmt.Sprintf("write %q", number+meant)
	}
	return fmt.Sprintf("%s is not one of its units", quote(unit)), "the units are B, K, M, G, T, KiB, MiB, GiB and TiB"
}

// meantUnit is the unit a misspelt one stands for: "m", "MB" and "mib" are M.
func meantUnit(unit string) (string, bool) {
	letter := strings.TrimSuffix(strings.ToUpper(unit), "B")
	letter = strings.TrimSuffix(letter, "I")
	if _, ok := sizeUnits[letter]; ok {
		return letter, true
	}
	return "B", strings.EqualFold(unit, "B")
}

// String is the exact text with the largest unit that divides the size:
// 1.5 GiB is "1536M". ParseSize reads it back for every size above zero.
func (s Size) String() string {
	for _, u := range []struct {
		size Size
		name string
	}{{TiB, "T"}, {GiB, "G"}, {MiB, "M"}, {KiB, "K"}} {
		if s > 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// MarshalText is String. The zero size gives "0B", which UnmarshalText
// refuses: it stands for a default and is to be left out.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseSize. A text that is refused leaves the size as it was.
func (s *Size) UnmarshalText(text []byte) error {
	v, err := ParseSize(string(text))
	if err != nil {
		return err
	}
	*s = v
	return nil
}

// splitNumber cuts a text behind its leading digits and dots.
func splitNumber(text string) (number, rest string) {
	rest = strings.TrimLeft(text, "0123456789.")
	return text[:len(text)-len(rest)], rest
}

// isDecimal tells whether the text is "D" or "D.D" with not too many digits.
func isDecimal(number string) bool {
	whole, fraction, dotted := strings.Cut(number, ".")
	if whole == "" || len(number) > numberBytes || dotted && fraction == "" {
		return false
	}
	return strings.Trim(whole, "0123456789") == "" && strings.Trim(fraction, "0123456789") == ""
}
