// Package nearest finds the word that somebody meant, for "did you mean".
//
// It knows no words itself and needs no kernel.
package nearest

import "strings"

// maxBytes bounds the words that are compared: the time grows with the product
// of their lengths, and few names are half as long.
const maxBytes = 64

// Word is the candidate a misspelt word most likely stands for, for "did
// you mean". Case does not count, and _ is -. It allows one wrong, missing,
// additional or swapped letter for every three of the word, and at least one;
// then it takes a word of three letters or more for the start of a candidate,
// if of one only. Of two equally near candidates the first wins.
func Word(word string, candidates []string) (string, bool) {
	if word == "" || len(word) > maxBytes {
		return "", false
	}
	w := fold(word)
	best, distance := "", max(1, len(w)/3)+1
	for _, c := range candidates {
		if len(c) > maxBytes {
			continue
		}
		if d := editDistance(w, fold(c)); d < distance {
			best, distance = c, d
		}
	}
	if best == "" && len(w) >= 3 {
		best = completion(w, candidates)
	}
	return best, best != ""
}

// completion is the only candidate that starts with the word, or "".
func completion(word string, candidates []string) string {
	found := ""
	for _, c := range candidates {
		if !strings.HasPrefix(fold(c), word) {
			continue
		}
		if found != "" {
			return ""
		}
		found = c
	}
	return found
}

func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "-") }

// editDistance is the number of bytes to insert, delete, replace or swap with
// their neighbour that turns a into b (optimal string alignment). A distance
// of bytes is enough: our names are ASCII.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
