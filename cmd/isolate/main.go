// Command isolate runs programs in sandboxes.
package main

import "github.com/isolate-run/isolate"

func main() { isolate.Init() }
