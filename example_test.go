package isolate_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/isolate-run/isolate"
)

// Run one program with the tightest policy and look at how it ended.
func ExampleRuntime_Run() {
	ctx := context.Background()
	r, err := isolate.Open(ctx, isolate.Options{})
	if err != nil {
		log.Fatal(err) // a refusal says what this machine lacks, and the remedy
	}
	defer r.Close()

	res, err := r.Run(ctx, isolate.Policy{Wall: 10 * time.Second}, isolate.Cmd{
		Args: []string{"python3", "-c", "print(6*7)"},
	})
	if err != nil {
		log.Fatal(err) // the sandbox did not do its job; the program may not have run
	}
	fmt.Printf("%s %d: %s", res.Reason, res.ExitCode, res.Stdout.Kept)
}

// Keep a sandbox for several programs that share files.
func ExampleRuntime_Sandbox() {
	ctx := context.Background()
	r, err := isolate.Open(ctx, isolate.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()

	box, err := r.Sandbox(ctx, isolate.Policy{})
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()
	for _, script := range []string{"echo one > file", "cat file"} {
		res, err := box.Run(ctx, isolate.Cmd{Args: []string{"sh", "-c", script}, Stdout: os.Stdout})
		if err != nil {
			log.Fatal(err)
		}
		if res.ExitCode != 0 {
			fmt.Println(res.Detail)
		}
	}
}
