package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/plan"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/workspace"
)

// request is what the flags of exec or shell come to.
type request struct {
	policy isolate.Policy
	cmd    isolate.Cmd
	// explain is explainText, explainJSON, or empty for a run.
	explain string
	// unwritten are the flags that name what only a run writes, if there is none.
	unwritten string
	// stdin connects the program to our standard input, tty to the terminal.
	stdin, tty bool
	meta       metaTarget
	audit      auditRequest
	// attest is the file for the attestation, absolute; empty is none.
	attest string
	// build is what comes before the program, of the run command.
	build buildStep
	// file is set for the run command.
	file *programFile
	// hostFile is an argument that names a file of the host which is not copied
	// in; empty if there is none, or if a file is what the command runs.
	hostFile string
	// hostProgram says that the program names one.
	hostProgram bool
	// tools are what the program may call.
	tools toolset
}

// reader turns flags into a request. It goes on after a problem.
type reader struct {
	*app
	flags    flags
	request  request
	problems []plan.Problem
}

// readRequest reads the flags and the program. The request is to be used only
// if there are no problems, but for its meta, which is set if it can be.
func (a *app) readRequest(f flags, program []string) (request, []plan.Problem) {
	r := &reader{app: a, flags: f, problems: a.mistakes}
	r.readAll(program)
	return r.request, r.problems
}

// readAll reads what exec, shell and run have in common.
func (r *reader) readAll(program []string) {
	r.readMeta()
	r.readExplain(program)
	r.readPolicy()
	r.readBuild()
	r.readEnv()
	r.readProgram(program)
	r.readStreams()
	r.readFiles()
	r.findHostFile()
	r.request.audit = r.readAudit()
	r.readAttest()
	r.contradictions()
	r.validate()
}

// readPolicy reads policyFlags.
func (r *reader) readPolicy() {
	r.readPolicyFile()
	r.readView()
	r.readNet()
	r.readLimits()
	r.readAllow()
}

func (r *reader) add(p ...plan.Problem) { r.problems = append(r.problems, p...) }

// wrong reports the mistake in the value of a flag.
func (r *reader) wrong(flag string, err error) { r.add(wrongValue(flag, err)) }

// read sets *to from the flag of that name, if it was given.
func read[T any](r *reader, flag string, to *T, parse func(string) (T, error)) {
	text, given := r.flags.one(flag, &r.problems)
	if !given {
		return
	}
	v, err := parse(text)
	if err != nil {
		r.wrong(flag, err)
		return
	}
	*to = v
}

func (r *reader) readMeta() {
	text, given := r.flags.one("meta", &r.problems)
	if !given || r.request.meta != (metaTarget{}) {
		return // there is none, or it was read before the rest
	}
	var problems []plan.Problem
	r.request.meta, problems = r.readMetaTarget(text)
	if what := r.needs(r.request.meta.file); what != "" {
		r.request.meta = metaTarget{} // not even why is written there
		problems = []plan.Problem{writtenOver("the result", text, what)}
	}
	for _, p := range problems {
		if !slices.Contains(r.problems, p) { // it may have been read before the rest
			r.add(p)
		}
	}
}

func (r *reader) readExplain(program []string) {
	text, given := r.flags.one("explain", &r.problems)
	if !given {
		return
	}
	switch {
	case text != explainText && text != explainJSON:
		r.add(notAForm(text))
	case len(program) > 0 && (program[0] == explainText || program[0] == explainJSON):
		r.add(formApart(program[0]))
	}
	r.request.explain = text
}

// readPolicyFile comes first of all that sets the policy: flags override it.
func (r *reader) readPolicyFile() {
	name, given := r.flags.one("policy", &r.problems)
	if !given {
		return
	}
	path, err := r.abs(name)
	if err != nil {
		r.add(unreadable("policy", name, err))
		return
	}
	f, err := os.Open(path)
	if err != nil {
		r.add(unreadable("policy", name, err))
		return
	}
	defer f.Close()
	p, err := policy.Read(name, f)
	var bad *policy.DecodeError
	switch {
	case errors.As(err, &bad):
		for _, q := range bad.Problems {
			r.add(wrongFile("policy", bad.Name, q))
		}
	case err != nil:
		r.add(unreadable("policy", name, err))
	default:
		r.request.policy = p
	}
}

// readView reads what the program sees: root, read-only paths, host name.
func (r *reader) readView() {
	p := &r.request.policy
	read(r, "rootfs", &p.Rootfs, func(text string) (string, error) {
		if text == "host" {
			return "", nil
		}
		return r.dirOf(text)
	})
	read(r, "hostname", &p.Hostname, notEmpty)
	read(r, "preload", &p.Preload, policy.ParsePreload)
	for _, text := range r.flags.many("ro") {
		b, err := policy.ParseBind(text)
		if err == nil {
			b.Source, err = r.abs(b.Source)
		}
		if err != nil {
			r.wrong("ro", err)
			continue
		}
		p.ReadOnly = append(p.ReadOnly, b)
	}
}

// readEnv reads --env and --env-from. They are the program's, not the
// policy's: a secret in them is no part of the plan.
func (r *reader) readEnv() {
	env := map[string]string{}
	set := func(flag, name, value string) {
		if old, twice := env[name]; twice && old != value {
			r.add(variableTwice(name))
		}
		env[name] = value
	}
	for _, text := range r.flags.many("env") {
		if !strings.Contains(text, "=") && text != "" {
			r.add(variableWithoutValue(text))
			continue
		}
		name, value, err := policy.ParseEnv(text)
		if err != nil {
			r.wrong("env", err)
			continue
		}
		set("env", name, value)
	}
	for _, text := range r.flags.many("env-from") {
		if strings.Contains(text, "=") {
			r.add(variableWithValue(text))
			continue
		}
		value, found := r.getenv(text)
		if _, _, err := policy.ParseEnv(text + "=" + value); err != nil {
			r.wrong("env-from", err)
			continue
		}
		if !found {
			r.add(variableUnset(text))
			continue
		}
		set("env-from", text, value)
	}
	r.request.cmd.Env = env
}

func (r *reader) readLimits() {
	p := &r.request.policy
	read(r, "memory", &p.Memory, policy.ParseSize)
	read(r, "cpus", &p.CPUs, policy.ParseCPUs)
	read(r, "pids", &p.PIDs, policy.ParseCount)
	read(r, "time", &p.Wall, policy.ParseDuration)
	read(r, "cpu-time", &p.CPUTime, policy.ParseDuration)
	read(r, "grace", &p.Grace, policy.ParseDuration)
	read(r, "disk", &p.Disk, policy.ParseSize)
	read(r, "inodes", &p.Inodes, policy.ParseCount)
	read(r, "files", &p.Files, policy.ParseCount)
	read(r, "output", &p.Output, policy.ParseSize)
	if len(r.flags.many("end-on-output")) > 0 {
		p.EndOnOutput = policy.KeepRunning
		if r.flags.on("end-on-output", &r.problems) {
			p.EndOnOutput = policy.EndRun
		}
	}
	read(r, "profile", &p.Profile, func(text string) (v policy.Profile, err error) {
		err = v.UnmarshalText([]byte(text))
		return v, err
	})
}

func (r *reader) readAllow() {
	for _, text := range r.flags.many("allow") {
		w, err := policy.ParseWeakening(text)
		if err != nil {
			r.wrong("allow", err)
			continue
		}
		if p := &r.request.policy; !allows(p.Allow, w) {
			p.Allow = append(p.Allow, w)
		}
	}
}

func allows(list []policy.Weakening, w policy.Weakening) bool {
	for _, have := range list {
		if have == w {
			return true
		}
	}
	return false
}

func (r *reader) readProgram(program []string) {
	c := &r.request.cmd
	c.Args = program
	switch {
	case len(program) > 0 && program[0] == "":
		r.add(emptyProgram())
	case len(program) == 0 && r.request.explain == "" && r.request.file == nil:
		r.add(noProgram())
	}
	r.readDir()
}

func (r *reader) readDir() {
	read(r, "workdir", &r.request.cmd.Dir, func(text string) (string, error) {
		if text == "" {
			return "", errEmpty
		}
		if !filepath.IsAbs(text) {
			text = filepath.Join(workspaceDir, text)
		}
		return filepath.Clean(text), nil
	})
}

// workspaceDir is where a program starts and where --in puts files.
const workspaceDir = "/workspace"

func (r *reader) readStreams() {
	r.request.stdin = r.flags.on("stdin", &r.problems)
	r.request.tty = r.flags.on("tty", &r.problems)
	if !r.request.tty || r.request.stdin || r.request.explain != "" {
		return // no terminal is wanted, or that it is wanted is wrong already
	}
	r.termType()
	_, in := asTerminal(r.stdin)
	_, out := asTerminal(r.stdout)
	if !in || !out {
		r.add(notATerminal(in))
	}
}

// termType tells a program with a terminal what kind it is: it is the user's,
// seen through. This is the one variable that is copied without being named.
func (r *reader) termType() {
	const name = "TERM"
	env := r.request.cmd.Env
	if _, given := env[name]; given {
		return
	}
	value, _ := r.getenv(name)
	if _, _, err := policy.ParseEnv(name + "=" + value); err != nil || value == "" {
		value = "dumb"
	}
	env[name] = value
}

func (r *reader) readFiles() {
	c := &r.request.cmd
	for _, text := range r.flags.many("in") {
		in, err := r.readInput(text)
		if err != nil {
			r.wrong("in", err)
			continue
		}
		c.In = append(c.In, in)
	}
	for _, p := range workspace.CheckInputs(c.In) {
		r.add(plan.Problem(p))
	}
	read(r, "out", &c.Out, r.outOf)
	if c.Out != "" {
		for _, p := range workspace.CheckOutput(c.Out) {
			r.add(plan.Problem(p))
		}
	}
}

// findHostFile looks for arguments that were likely meant as a file of the
// host: a relative path, where nothing is copied in that could have its name.
func (r *reader) findHostFile() {
	c := r.request.cmd
	if len(c.Args) == 0 || len(c.In) > 0 || c.Dir != "" || r.request.file != nil {
		return
	}
	of := func(arg string) bool { return !filepath.IsAbs(arg) && r.isFile(arg) }
	r.request.hostProgram = of(c.Args[0])
	for _, arg := range c.Args[1:] {
		if of(arg) {
			r.request.hostFile = arg
			return
		}
	}
}

// readInput reads PATH or PATH:NAME. NAME has no colon, so that the last one
// divides; PATH may have some. A text that is the path of a file as a whole
// names that file, unless it can be meant both ways.
func (r *reader) readInput(text string) (isolate.Input, error) {
	whole, err := r.abs(text)
	colon := strings.LastIndexByte(text, ':')
	switch {
	case text == "":
		return isolate.Input{}, errNoSource
	case colon < 0 || err != nil:
		return isolate.Input{Source: whole}, err
	}
	target, isWhole := text[colon+1:], there(whole)
	source, err := r.abs(text[:colon])
	isDivided := colon > 0 && target != "" && there(source)
	switch {
	case isWhole && isDivided:
		return isolate.Input{}, twoMeaningsError{text, text[:colon], target}
	case isWhole:
		return isolate.Input{Source: whole}, nil
	case colon == 0:
		return isolate.Input{}, errNoSource
	case target == "" || !isDivided && strings.Contains(text[:colon], ":"):
		return isolate.Input{}, errInputForm
	}
	return isolate.Input{Source: source, Target: target}, err
}

// there says whether a path leads to something, be it a link to nothing.
func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// contradictions are flags that cannot both be meant.
func (r *reader) contradictions() {
	if r.request.stdin && r.request.tty {
		r.add(stdinAndTTY())
	}
	if r.request.explain == "" {
		return
	}
	// a command that would do something is to be explained as it stands
	r.request.meta, r.request.unwritten = metaTarget{}, r.flags.given("out", "meta", "audit", "attest")
}

// validate checks the policy as a whole. A value that could not be read is at
// its default there, and so is not told of twice.
func (r *reader) validate() {
	get := func(name string) string { v, _ := r.getenv(name); return v }
	for _, p := range r.request.policy.Validate(policy.Surroundings{
		RuntimeDir:  get("XDG_RUNTIME_DIR"),
		Home:        get("HOME"),
		SSHAuthSock: get("SSH_AUTH_SOCK"),
	}) {
		r.add(wrongSetting(p))
	}
}

func notEmpty(text string) (string, error) {
	if text == "" {
		return "", errEmpty
	}
	return text, nil
}

func (r *reader) dirOf(text string) (string, error) {
	if text == "" {
		return "", errEmpty
	}
	return r.abs(text)
}

// outOf is a directory that files are written to.
func (r *reader) outOf(text string) (string, error) {
	dir, err := r.dirOf(text)
	if err == nil {
		if err := notRecorded(dir); errors.Is(err, errRecorded) {
			return "", err
		}
	}
	return dir, err
}

// abs makes a host path absolute: the libraries know no working directory.
func (a *app) abs(path string) (string, error) {
	switch {
	case filepath.IsAbs(path):
		return filepath.Clean(path), nil
	case a.dirErr != nil:
		return "", a.dirErr
	}
	return filepath.Join(a.dir, path), nil
}
