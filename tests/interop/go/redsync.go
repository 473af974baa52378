package main

// The mutex of redsync, over go-redis.

import (
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

type redsyncLock struct {
	sync *redsync.Redsync
	held *redsync.Mutex
}

func init() {
	libraries["redsync"] = func(server *redis.Client) lock {
		return &redsyncLock{sync: redsync.New(goredis.NewPool(server))}
	}
}

// A refusal is no error here; that the server could not be asked is one.
func refused(err error) error {
	var broken *redsync.RedisError
	if errors.As(err, &broken) {
		return err
	}
	return nil
}

// A request may take half the lifetime: the twentieth that is its default is short on a busy machine.
func (l *redsyncLock) acquire(key string, ttl, wait time.Duration) (string, error) {
	mutex := l.sync.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(1+retries(wait)),
		redsync.WithRetryDelay(retryEvery), redsync.WithTimeoutFactor(0.5))
	if err := mutex.Lock(); err != nil {
		return "", refused(err)
	}
	l.held = mutex
	return mutex.Value(), nil
}

// The lifetime belongs to the mutex: another lifetime is another mutex with the same value.
func (l *redsyncLock) extend(ttl time.Duration) (bool, error) {
	mutex := l.sync.NewMutex(l.held.Name(), redsync.WithExpiry(ttl), redsync.WithValue(l.held.Value()))
	held, err := mutex.Extend()
	return held, refused(err)
}

func (l *redsyncLock) release() (bool, error) {
	held, err := l.held.Unlock()
	return held, refused(err)
}
