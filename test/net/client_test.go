package net

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// measuringClient is what a measuring program does: "down ADDR SECONDS", "up ADDR
// SECONDS", "echo ADDR COUNT", "open ADDR COUNT". It prints one number a line:
// bytes a second, or microseconds of the median and the 99th of a hundred.
func measuringClient(order string) error {
	var what, addr string
	var n int
	if _, err := fmt.Sscan(order, &what, &addr, &n); err != nil {
		return err
	}
	switch what {
	case "down", "up":
		return bulk(what, addr, time.Duration(n)*time.Second)
	case "echo":
		return echoes(addr, n)
	}
	return opens(addr, n)
}

func bulk(way, addr string, d time.Duration) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte(way[:1])); err != nil {
		return err
	}
	b := make([]byte, 256<<10)
	began, total := time.Now(), 0
	for time.Since(began) < d {
		var n int
		if way == "down" {
			n, err = c.Read(b)
		} else {
			n, err = c.Write(b)
		}
		if total += n; err != nil {
			return err
		}
	}
	fmt.Println(int(float64(total) / time.Since(began).Seconds()))
	return nil
}

func echoes(addr string, count int) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte("e")); err != nil {
		return err
	}
	b := make([]byte, 1024)
	return measure(count, func() error {
		if _, err := c.Write(b); err != nil {
			return err
		}
		_, err := io.ReadFull(c, b)
		return err
	})
}

func opens(addr string, count int) error {
	return measure(count, func() error {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Write([]byte("ex")); err != nil {
			return err
		}
		_, err = io.ReadFull(c, make([]byte, 1))
		return err
	})
}

func measure(count int, f func() error) error {
	var times []time.Duration
	for range count {
		began := time.Now()
		if err := f(); err != nil {
			return err
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	fmt.Println(times[count/2].Microseconds())
	fmt.Println(times[count*99/100].Microseconds())
	return nil
}

// runOrder runs the order of the environment, if there is one.
func runOrder() (int, bool) {
	order := os.Getenv("ISOLATE_NETCLIENT")
	if order == "" {
		return 0, false
	}
	if err := measuringClient(strings.TrimSpace(order)); err != nil {
		fmt.Println(err)
		return 1, true
	}
	return 0, true
}
