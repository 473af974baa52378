package main

// The lock of bsm/redislock, over go-redis.

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

type redislockLock struct {
	client *redislock.Client
	held   *redislock.Lock
}

func init() {
	libraries["redislock"] = func(server *redis.Client) lock {
		return &redislockLock{client: redislock.New(server)}
	}
}

func (l *redislockLock) acquire(key string, ttl, wait time.Duration) (string, error) {
	bound, cancel := context.WithTimeout(ctx, wait+20*time.Second) // else it waits no longer than ttl
	defer cancel()
	retry := redislock.LimitRetry(redislock.LinearBackoff(retryEvery), retries(wait))
	held, err := l.client.Obtain(bound, key, ttl, &redislock.Options{RetryStrategy: retry})
	if errors.Is(err, redislock.ErrNotObtained) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	l.held = held
	return held.Token(), nil
}

func (l *redislockLock) extend(ttl time.Duration) (bool, error) {
	err := l.held.Refresh(ctx, ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}

func (l *redislockLock) release() (bool, error) {
	err := l.held.Release(ctx)
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return false, nil
	}
	return err == nil, err
}
