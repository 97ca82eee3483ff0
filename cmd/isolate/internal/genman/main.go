// Command genman writes the manual pages of the isolate command:
//
//	go run -tags seccomp ./cmd/isolate/internal/genman DIR
//
// It is a program of its own because cobra/doc takes 0.6 ms to initialise,
// which isolate would pay at every start of itself and of every cell. The
// date on the pages is $SOURCE_DATE_EPOCH if it is set, else today.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/isolate-run/isolate/cmd/isolate/internal/cli"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "error: cannot write manual pages: one directory is needed")
		fmt.Fprintln(stderr, "hint: write genman DIR")
		return 2
	}
	if err := write(args[0]); err != nil {
		fmt.Fprintf(stderr, "error: cannot write manual pages: %v\n", err)
		return 1
	}
	return 0
}

func write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root := cli.Commands()
	root.DisableAutoGenTag = true // no line that differs from day to day
	for _, c := range root.Commands() {
		c.Flags().VisitAll(nameValue)
	}
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "isolate", Manual: "isolate manual"}, dir)
}

// nameValue makes a page say --memory=SIZE: cobra/doc prints the default there,
// which for our flags is in the text.
func nameValue(f *pflag.Flag) {
	if f.Value.Type() != "bool" {
		f.DefValue = f.Value.Type()
	} else if f.DefValue == "" {
		f.DefValue = "false"
	}
}
