// Package programs runs practical programs in sandboxes: interpreters,
// compilers, tools and what people do with them.
//
// It has tests only. It needs what package isolate needs, and the programs.
package programs
