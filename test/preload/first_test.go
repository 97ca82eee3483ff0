package preload_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/policy"
)

func TestFirst(t *testing.T) {
	r, err := isolate.Open(context.Background(), isolate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, _ := policy.ParsePreload("python:json")
	for range 3 {
		res, err := r.Run(context.Background(), isolate.Policy{Preload: s}, isolate.Cmd{Args: []string{"python3", "-c", "import os,sys,json; print(os.getpid(), os.getppid(), sys.argv, sys.path, os.environ); print(open('/proc/self/status').read()); print(open('/proc/self/maps').read()); os.system('ls -l /proc/self/fd; cat /proc/self/mountinfo|wc')"}})
		fmt.Printf("%v %+v\n%s\n%s\n", err, res.Reason, res.Stdout.Kept, res.Stderr.Kept)
		if err != nil { t.Fatal(err) }
	}
}
