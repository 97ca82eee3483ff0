package cli

import (
	"fmt"

	"github.com/isolate-run/isolate/client"
	"github.com/isolate-run/isolate/plan"
)

// What a command says that asks the server. The rules of words.go hold.

func noServer(err *client.UnreachableError) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot ask the server: there is none on %q", err.Socket),
		Remedy: "start one with \"isolate serve\", or name its socket with --socket",
	}
}

func notThroughTheDoor(args []string) plan.Problem {
	return plan.Problem{What: fmt.Sprintf("cannot carry out %q here: the server carries out exec, run and shell", args)}
}

func noName(command string) plan.Problem {
	return plan.Problem{
		What:   fmt.Sprintf("cannot do %q with nothing: it has no name", command),
		Remedy: "write the name of a run or a sandbox; \"isolate ps\" lists them",
	}
}

func logLost(n int64) string {
	return fmt.Sprintf("%d bytes before this are not kept", n)
}
