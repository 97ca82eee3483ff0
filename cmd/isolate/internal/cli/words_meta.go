package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/isolate-run/isolate/plan"
)

// The document of --meta. The rules of words.go hold.

var errNotAFile = errors.New("it is not a file")

// Why a descriptor cannot take the document.
const (
	descriptorIsStream = "it is one of the program's streams"
	descriptorNotOpen  = "it was not passed to isolate"
	descriptorReadOnly = "it is open for reading only"
)

func metaNowhere(text string) plan.Problem {
	why := "it is no name of a file"
	if strings.HasPrefix(text, "-") {
		why = "no descriptor has such a number"
	}
	if text == "-" {
		why = "standard output is the program's"
	}
	return plan.Problem{
		What:   fmt.Sprintf("cannot write the result to %q: %s", text, why),
		Remedy: "write --meta FILE, or --meta 3 with 3>FILE behind the command",
	}
}

func metaDescriptor(text, why string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot write the result to descriptor %s: %s", text, why),
		Remedy: "open one from 3 on, as --meta 3 with 3>FILE behind the command does\na file of that name is ./" + text,
	}
}

func metaFile(name string, err error) plan.Problem {
	p := plan.Problem{
		What:   fmt.Sprintf("cannot write the result to %q: %v", name, cause(err)),
		Remedy: "name a file in a directory that you can write to",
	}
	if errors.Is(err, errRecorded) {
		p.What = fmt.Sprintf("cannot write the result to %q: %v", name, err)
		p.Remedy = "name a file elsewhere"
	}
	if errors.Is(err, errNotAFile) {
		p.Remedy = "name a file that may be replaced; for anything else pass a descriptor, as --meta 3 with 3>… does"
	}
	return p
}

func writtenOver(what, name, file string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot write %s to %q: it is %s", what, name, file),
		Remedy: "name another file; what is there would be lost",
	}
}

func metaUnwritten(err error) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot write the result: %v", err),
		Remedy: "name a file in a directory that you can write to, with space left",
	}
}
