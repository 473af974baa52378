// Clients of Go's lock libraries that want one lock again and again: loop LIBRARY PORT CLIENTS HOLD_US
// KEY. It speaks the protocol of ../../README.md. Each client has connections of its own, and its loop
// is a goroutine; a file beside this one for each library makes its lock a locker.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	lifetime   = 30 * time.Second
	retryEvery = 20 * time.Millisecond // of libraries that ask again and again
	patience   = 3 * time.Second       // with waiters that nobody tells of the last release
)

// Waits until the lock is held; the function that it returns releases it.
type locker interface {
	acquire(ctx context.Context, key string) (release func() error, err error)
}

// Each library's file adds itself; the function connects a client to a server.
var libraries = map[string]func(address string) (locker, error){}

var ctx = context.Background()

type client struct {
	locker
	turns  atomic.Int64
	heldNs atomic.Int64
}

type crowd struct {
	clients []*client
	key     string
	hold    time.Duration
	over    atomic.Bool
	loops   sync.WaitGroup
	waiting context.Context
	giveUp  context.CancelFunc
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		fail(err)
	}
	return n
}

func (c *crowd) loop(one *client) {
	defer c.loops.Done()
	for !c.over.Load() {
		release, err := one.acquire(c.waiting, c.key)
		if c.waiting.Err() != nil {
			return
		}
		if err != nil {
			fail(err)
		}
		start := time.Now()
		time.Sleep(c.hold)
		one.heldNs.Add(int64(time.Since(start)))
		one.turns.Add(1)
		if err = release(); err != nil {
			fail(err)
		}
	}
}

func (c *crowd) turns() string {
	var held int64
	var counts strings.Builder
	for _, one := range c.clients {
		held += one.heldNs.Load()
		fmt.Fprint(&counts, " ", one.turns.Load())
	}
	return fmt.Sprint("turns ", held, counts.String())
}

func (c *crowd) begin() {
	c.over.Store(false)
	c.waiting, c.giveUp = context.WithCancel(ctx)
	c.loops.Add(len(c.clients))
	for _, one := range c.clients {
		go c.loop(one)
	}
}

func (c *crowd) end() {
	c.over.Store(true)
	timer := time.AfterFunc(patience, c.giveUp)
	c.loops.Wait()
	timer.Stop()
	c.giveUp()
}

func (c *crowd) answer(line string) string {
	switch line {
	case "go":
		c.begin()
	case "turns":
		return c.turns()
	case "stop":
		c.end()
	default:
		return "unknown command"
	}
	return "ok"
}

func main() {
	c := crowd{key: os.Args[5], hold: time.Duration(number(os.Args[4])) * time.Microsecond}
	for i := number(os.Args[3]); i > 0; i-- {
		l, err := libraries[os.Args[1]]("127.0.0.1:" + os.Args[2])
		if err != nil {
			fail(err)
		}
		c.clients = append(c.clients, &client{locker: l})
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(c.answer(lines.Text()))
	}
}
