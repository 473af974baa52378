// The peer program for etcd's own lock in Go: peer PORT. It speaks the protocol of ../README.md; the lock is a
// concurrency.Mutex under a session that keeps itself alive. It never decides by itself who holds the lock.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

var ctx = context.Background()

type peer struct {
	client  *clientv3.Client
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func ms(word string) time.Duration {
	n, _ := strconv.Atoi(word)
	return time.Duration(n) * time.Millisecond
}

// wait 0: one try. "" when busy.
func (p *peer) acquire(key string, ttl, wait time.Duration) (string, error) {
	session, err := concurrency.NewSession(p.client, concurrency.WithTTL(int(ttl/time.Second)))
	if err != nil {
		return "", err
	}
	mutex := concurrency.NewMutex(session, key)
	if wait > 0 {
		limited, cancel := context.WithTimeout(ctx, wait)
		err = mutex.Lock(limited)
		cancel()
	} else {
		err = mutex.TryLock(ctx)
	}
	if err == nil {
		p.session, p.mutex = session, mutex
		return mutex.Key(), nil
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, concurrency.ErrLocked) {
		err = nil
	}
	return "", errors.Join(err, session.Close())
}

func (p *peer) release() error {
	return errors.Join(p.mutex.Unlock(ctx), p.session.Close())
}

// What the lock protects: as in ../section_file.sh.
func section(file string) error {
	inside := file + ".inside"
	if os.Mkdir(inside, 0o700) != nil {
		os.WriteFile(file+".overlaps", nil, 0o600)
	}
	said, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(said)))
	if err != nil {
		return err
	}
	err = os.WriteFile(file, fmt.Appendln(nil, n+1), 0o600)
	return errors.Join(err, os.Remove(inside))
}

func (p *peer) under(key string, ttl time.Duration, work func() error) error {
	value, err := p.acquire(key, ttl, time.Minute)
	if err == nil && value == "" {
		err = errors.New("no turn within a minute")
	}
	if err != nil {
		return err
	}
	return errors.Join(work(), p.release())
}

func note(file, name string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, name)
	return errors.Join(err, f.Close())
}

func (p *peer) answer(line string) (string, error) {
	words := append(strings.Fields(line), "", "", "", "", "")
	key, ttl := words[1], ms(words[2])
	switch words[0] {
	case "acquire":
		value, err := p.acquire(key, ttl, ms(words[3]))
		if value == "" {
			return "busy", err
		}
		return "ok " + value, err
	case "release":
		return "ok", p.release()
	case "turn":
		return "ok", p.under(key, ttl, func() error { return note(words[3], words[4]) })
	case "count":
		n, _ := strconv.Atoi(words[3])
		var err error
		for i := 0; i < n && err == nil; i++ {
			err = p.under(key, ttl, func() error { return section(words[4]) })
		}
		return "ok " + words[3], err
	}
	return "", errors.New("unknown command")
}

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:" + os.Args[1]}, DialTimeout: 20 * time.Second})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	p := peer{client: client}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		said, err := p.answer(lines.Text())
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println(said)
	}
}
