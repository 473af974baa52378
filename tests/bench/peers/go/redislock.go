package main

// bsm/redislock over go-redis: it asks again at the pace that its caller chooses.

import (
	"context"
	"errors"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

type redislockClient struct{ client *redislock.Client }

func init() {
	libraries["redislock"] = func(address string) (locker, error) {
		server := redis.NewClient(&redis.Options{Addr: address, PoolSize: 1})
		return &redislockClient{redislock.New(server)}, server.Ping(ctx).Err()
	}
}

func (l *redislockClient) acquire(waiting context.Context, key string) (func() error, error) {
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(retryEvery)}
	for {
		held, err := l.client.Obtain(waiting, key, lifetime, options)
		if errors.Is(err, redislock.ErrNotObtained) { // it waits for one lifetime at most
			continue
		}
		return func() error { return held.Release(ctx) }, err
	}
}
