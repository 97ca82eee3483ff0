package stub

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/isolate-run/isolate/bridge"
)

// checker is a process that loads generated modules and looks at them; one
// serves many sets, because starting it costs more than a check.
type checker struct {
	argv  []string
	mutex sync.Mutex
	in    io.Writer
	out   *bufio.Reader
}

var (
	pythonChecker = &checker{argv: []string{"/usr/bin/python3", "testdata/check.py"}}
	nodeChecker   = &checker{argv: []string{"node", "--no-warnings", "--experimental-vm-modules", "testdata/check.cjs"}}
)

// typesChecker holds the types against TypeScript's own compiler; nil where npm
// has not put that beside the tests.
var typesChecker = sync.OnceValue(func() *checker {
	dir := os.Getenv("ISOLATE_TEST_NPM")
	if _, err := os.Stat(filepath.Join(dir, "typescript")); dir == "" || err != nil {
		return nil
	}
	return &checker{argv: []string{"node", "testdata/types.cjs", dir}}
})

func (c *checker) start() error {
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	// It ends when this process does and with it the pipe.
	if err := cmd.Start(); err != nil {
		return err
	}
	c.in, c.out = in, bufio.NewReader(out)
	return nil
}

func (c *checker) check(line []byte) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.in == nil {
		if err := c.start(); err != nil {
			return err
		}
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return err
	}
	answer, err := c.out.ReadString('\n')
	if err != nil {
		return err
	}
	if answer = strings.TrimSpace(answer); answer == "" {
		return nil
	}
	var text string
	if err := json.Unmarshal([]byte(answer), &text); err != nil {
		return err
	}
	return errors.New(text)
}

// load generates modules and has all checkers load them.
func load(t testing.TB, tools []bridge.Tool) []File {
	t.Helper()
	m, err := newModel(tools)
	if err != nil {
		t.Fatal(err)
	}
	files, err := generate(tools)
	if err != nil {
		t.Fatal(err)
	}
	type expected struct {
		ID     string   `json:"id"`
		Name   string   `json:"name"`
		Doc    string   `json:"doc"`
		About  string   `json:"about"`
		Params []string `json:"params"`
		Fields []string `json:"fields"`
	}
	job := struct {
		Files map[string]string `json:"files"`
		Tools []expected        `json:"tools"`
	}{map[string]string{}, []expected{}}
	for _, f := range files {
		job.Files[f.Path] = string(f.Content)
	}
	for _, tl := range m.tools {
		e := expected{ID: tl.id, Name: string([]rune(tl.Name)), About: tl.Description, Params: tl.params,
			Doc: strings.TrimSpace(tl.help(&pythonTypes{names: map[string]bool{}}))}
		for i, f := range tl.fields {
			if tl.params[i] != "" {
				e.Fields = append(e.Fields, string([]rune(f.name)))
			}
		}
		job.Tools = append(job.Tools, e)
	}
	line, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	checkers := []*checker{pythonChecker, nodeChecker}
	if c := typesChecker(); c != nil {
		checkers = append(checkers, c)
	}
	for _, c := range checkers {
		if err := c.check(line); err != nil {
			t.Errorf("%s: %v", c.argv, err)
		}
	}
	return files
}
