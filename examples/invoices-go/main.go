// Command invoices-go gives two Go functions to a program in a sandbox, which
// sums the invoices of the EU with them: isolate as a library.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"

	"github.com/isolate-run/isolate"
)

type invoice struct {
	ID     string `json:"id"`
	Region string `json:"region"`
	Total  int    `json:"total"`
}

var invoices = []invoice{{"INV-1", "EU", 1200}, {"INV-2", "US", 800}, {"INV-3", "EU", 750}}

type byID struct {
	ID string `json:"id" jsonschema:"its id, such as INV-1"`
}

// program is what a model might have written.
//
//go:embed program.py
var program string

func main() {
	isolate.Init() // first: this program is also what builds its cells
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	tools, err := makeTools()
	if err != nil {
		return err
	}
	r, err := isolate.Open(ctx, isolate.Options{})
	if err != nil {
		return err
	}
	defer r.Close()
	res, err := r.Run(ctx, isolate.Policy{}, isolate.Cmd{
		Args:   []string{"python3", "-c", program},
		Tools:  tools,
		Answer: isolate.FindAnswer,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s%s", res.Stdout.Kept, res.Stderr.Kept)
	fmt.Fprintf(out, "ended by %s, answer %q, %d calls\n", res.Reason, res.Answer.Text, res.Calls.Done)
	return nil
}

// makeTools makes the two tools. Their schemas come from the Go types.
func makeTools() (*isolate.Tools, error) {
	tools := &isolate.Tools{}
	list := isolate.Tool{Name: "list_invoices", Description: "List the ids of all invoices."}
	err := isolate.AddTool(tools, list, func(context.Context, struct{}) ([]string, error) {
		var ids []string
		for _, i := range invoices {
			ids = append(ids, i.ID)
		}
		return ids, nil
	})
	if err != nil {
		return nil, err
	}
	get := isolate.Tool{Name: "get_invoice", Description: "Get one invoice."}
	err = isolate.AddTool(tools, get, func(_ context.Context, in byID) (invoice, error) {
		for _, i := range invoices {
			if i.ID == in.ID {
				return i, nil
			}
		}
		return invoice{}, &isolate.ToolError{Class: "failed", Code: "no_such_invoice", Message: "there is no invoice " + in.ID}
	})
	return tools, err
}
