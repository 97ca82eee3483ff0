// Package part is the second package.
package part

// Identity returns n.
func Identity(n int) int { return n }
