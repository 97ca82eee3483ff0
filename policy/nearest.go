package policy

import "github.com/isolate-run/isolate/internal/nearest"

// Nearest is the candidate a misspelt word most likely stands for, for "did
// you mean"; see nearest.Word.
func Nearest(word string, candidates []string) (string, bool) { return nearest.Word(word, candidates) }
