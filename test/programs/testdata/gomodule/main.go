// A82: a module with two packages; goroutines on several threads.
package main

import "example.com/hello/part"

func main() {
	c := make(chan int)
	for i := range [7]int{} {
		go func(i int) { c <- i * 2 }(i)
	}
	n := 0
	for range [7]int{} {
		n += <-c
	}
	println("go", part.Identity(n))
}
