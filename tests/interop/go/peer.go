// The peer program for Go: peer LIBRARY PORT. It speaks the protocol of ../README.md; a file beside
// it for each library turns that library's lock into acquire, extend and release. It never decides
// by itself who holds the lock.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const retryEvery = 20 * time.Millisecond

type lock interface {
	acquire(key string, ttl, wait time.Duration) (value string, err error) // "" when busy
	extend(ttl time.Duration) (held bool, err error)
	release() (held bool, err error)
}

// Each library's file adds itself.
var libraries = map[string]func(*redis.Client) lock{}

var ctx = context.Background()

// How often to try again within so long.
func retries(wait time.Duration) int {
	return int(wait / retryEvery)
}

func section(server *redis.Client) error {
	inside, err := server.Incr(ctx, "interop:inside").Result()
	if err == nil && inside != 1 {
		err = server.Incr(ctx, "interop:overlaps").Err()
	}
	if err != nil {
		return err
	}
	n, err := server.Get(ctx, "interop:counter").Int()
	if err != nil && err != redis.Nil {
		return err
	}
	if err = server.Set(ctx, "interop:counter", n+1, 0).Err(); err != nil {
		return err
	}
	return server.Decr(ctx, "interop:inside").Err()
}

func count(server *redis.Client, l lock, key string, ttl time.Duration, rounds int) error {
	for i := 0; i < rounds; i++ {
		value, err := l.acquire(key, ttl, time.Minute)
		if err == nil && value == "" {
			err = errors.New("no turn within a minute")
		}
		if err == nil {
			err = section(server)
		}
		if err != nil {
			return err
		}
		held, err := l.release()
		if err == nil && !held {
			err = errors.New("the lock was lost")
		}
		if err != nil {
			return err
		}
		time.Sleep(time.Duration(rand.Intn(20)) * time.Millisecond)
	}
	return nil
}

func either(yes bool, then, otherwise string) string {
	if yes {
		return then
	}
	return otherwise
}

func ms(word string) time.Duration {
	n, _ := strconv.Atoi(word)
	return time.Duration(n) * time.Millisecond
}

func answer(server *redis.Client, l lock, line string) (string, error) {
	words := append(strings.Fields(line), "", "", "", "")
	switch words[0] {
	case "acquire":
		value, err := l.acquire(words[1], ms(words[2]), ms(words[3]))
		return either(value != "", "ok "+value, "busy"), err
	case "extend":
		held, err := l.extend(ms(words[1]))
		return either(held, "ok", "lost"), err
	case "release":
		held, err := l.release()
		return either(held, "ok", "lost"), err
	case "count":
		rounds, _ := strconv.Atoi(words[3])
		return "ok " + words[3], count(server, l, words[1], ms(words[2]), rounds)
	}
	return "", errors.New("unknown command")
}

func main() {
	server := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[2]})
	l := libraries[os.Args[1]](server)
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		said, err := answer(server, l, lines.Text())
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println(said)
	}
}
