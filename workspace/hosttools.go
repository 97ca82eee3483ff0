package workspace

import (
	"strings"
	"sync"
	"unicode"
)

// Files that tools of the host act on without being asked: the way out of a
// sandbox that needs no bug. They are copied, because a program may well have
// been asked to write one, and each is flagged in the manifest. The list is of
// kinds known when it was written; a file that is not flagged is not thereby
// safe, and Makefile, package.json, conftest.py and their like run as soon as
// somebody builds or tests.

// byName are files that act wherever they are. Keys are folded names.
var byName = sync.OnceValue(func() map[string]string {
	return flatten(map[string]string{
		"shell start-up file": ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv " +
			".zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc .login .logout .inputrc",
		"directory environment, run on entering": ".envrc mise.toml .mise.toml .autoenv .autoenv.zsh",
		"git configuration":                      ".gitconfig .gitmodules .git-credentials .lfsconfig",
		"git hook manager":                       ".pre-commit-config.yaml lefthook.yml .lefthook.yml lefthook.yaml .huskyrc",
		"editor start-up file": ".vimrc .exrc .nvimrc .nvim.lua .gvimrc .emacs .dir-locals.el .dir-locals-2.el " +
			".devcontainer.json",
		"debugger or interpreter start-up file": ".gdbinit .lldbinit .pdbrc .irbrc .pryrc .rprofile .pythonrc .pythonrc.py",
		"package manager configuration":         ".npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pypirc .condarc .bazelrc",
		"continuous integration": ".gitlab-ci.yml .travis.yml jenkinsfile azure-pipelines.yml .drone.yml .woodpecker.yml " +
			"bitbucket-pipelines.yml .cirrus.yml appveyor.yml",
		"agent instructions or configuration": "claude.md claude.local.md agents.md agents.override.md agent.md gemini.md " +
			".cursorrules .clinerules .windsurfrules .roorules .goosehints .mcp.json mcp.json .aider.conf.yml " +
			"copilot-instructions.md opencode.json .claude.json",
		"desktop start-up file": "autorun.inf desktop.ini",
	})
})

// byDirectory are directories whose files act, wherever they are.
var byDirectory = sync.OnceValue(func() map[string]string {
	return flatten(map[string]string{
		"editor configuration":   ".vscode .idea .zed .fleet .devcontainer .nvim .vim .emacs.d",
		"git hook manager":       ".husky",
		"continuous integration": ".circleci .buildkite .woodpecker .gitea .forgejo",
		"agent instructions or configuration": ".claude .cursor .codex .gemini .windsurf .continue .roo .clinerules .aider " +
			".amazonq .kiro .junie .opencode .agents .goose",
		"build tool configuration": ".cargo .mvn",
		"keys and login":           ".ssh .gnupg",
	})
})

// byPair are two directories, one in the other, whose files act.
var byPair = map[string]string{
	".github/workflows":     "continuous integration",
	".github/actions":       "continuous integration",
	".github/instructions":  "agent instructions or configuration",
	".github/agents":        "agent instructions or configuration",
	".github/hooks":         "agent instructions or configuration",
	".config/autostart":     "desktop start-up file",
	".config/systemd":       "service started by the user's manager",
	".config/environment.d": "session environment",
	".config/fish":          "shell start-up file",
	".config/git":           "git configuration",
	".config/nvim":          "editor start-up file",
	".config/mise":          "directory environment, run on entering",
}

// byEnding are the ends of names.
var byEnding = map[string]string{
	".code-workspace": "editor configuration",
	".desktop":        "desktop start-up file",
}

// gitFiles are the files of a git directory that name programs for git to
// run, or send it to another directory that does.
var gitFiles = map[string]string{
	"config":          "git configuration",
	"config.worktree": "git configuration",
	"commondir":       "git directory that points elsewhere",
	"gitdir":          "git directory that points elsewhere",
}

const gitHook = "git hook"

// hostTool says which tool of the host acts on the file at folded, the folded
// components of its path, or "" for none known. inGit: one of its directories
// is a git directory.
func hostTool(folded []string, inGit bool) string {
	name, dirs := folded[len(folded)-1], folded[:len(folded)-1]
	if name == ".git" {
		return "git directory that points elsewhere"
	}
	if inGit {
		if len(dirs) > 0 && dirs[len(dirs)-1] == "hooks" {
			return gitHook
		}
		if why := gitFiles[name]; why != "" {
			return why
		}
	}
	if why := byName()[name]; why != "" {
		return why
	}
	for i, d := range dirs {
		if why := byDirectory()[d]; why != "" {
			return why
		}
		if i > 0 && byPair[dirs[i-1]+"/"+d] != "" {
			return byPair[dirs[i-1]+"/"+d]
		}
	}
	for end, why := range byEnding {
		if strings.HasSuffix(name, end) {
			return why
		}
	}
	return ""
}

// isGitDirectory tells whether git would take the directory of this folded
// path, which holds these folded names, for one of its own. It does so for a
// bare repository under any name.
func isGitDirectory(path []string, holds map[string]bool) bool {
	named := len(path) > 0 && path[len(path)-1] == ".git"
	return named || holds["head"] && holds["objects"] && holds["refs"]
}

// fold maps names to one form that some file system takes for the same file:
// without case; without the characters that do not show, as HFS+ does; without
// final dots and blanks, and with the short form of .git, as Windows does.
func fold(name string) string {
	folded := strings.TrimRight(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return foldRune(r)
	}, name), ". ")
	if folded == "git~1" {
		return ".git"
	}
	return folded
}

// foldRune is the lower-case form of the first rune that r folds to, so that
// the Kelvin sign is a k and the long s an s.
func foldRune(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return unicode.ToLower(least)
}

// twins finds the names of one directory that differ only in what fold takes
// away, and gives for each of them another.
func twins(names []string) map[string]string {
	first, found := map[string]string{}, map[string]string{}
	for _, n := range names {
		key := fold(n)
		if other, ok := first[key]; ok {
			found[n] = other
			if found[other] == "" {
				found[other] = n
			}
			continue
		}
		first[key] = n
	}
	return found
}

// flatten turns reason → names into name → reason.
func flatten(lists map[string]string) map[string]string {
	flat := map[string]string{}
	for why, names := range lists {
		for name := range strings.FieldsSeq(names) {
			flat[name] = why
		}
	}
	return flat
}
