// Attempts makes 200 attempts from Go's own network code, without libc: TCP
// over IPv4 and IPv6, from several goroutines. It prints how many failed.
package main

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

func main() {
	var failed atomic.Int64
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for i := range 10 {
				for _, host := range []string{"192.0.2.1", "2001:db8::1"} {
					if _, err := net.Dial("tcp", net.JoinHostPort(host, fmt.Sprint(1+i))); err != nil {
						failed.Add(1)
					}
				}
			}
		})
	}
	all.Wait()
	fmt.Println(failed.Load())
}
