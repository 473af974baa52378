package main

// The mutex of redsync over go-redis: it asks again at a pace that is 50 to 250 ms unless its caller
// chooses, and here is that of the others.

import (
	"context"
	"math"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

type redsyncClient struct{ sync *redsync.Redsync }

func init() {
	libraries["redsync"] = func(address string) (locker, error) {
		server := redis.NewClient(&redis.Options{Addr: address, PoolSize: 1})
		return &redsyncClient{redsync.New(goredis.NewPool(server))}, server.Ping(ctx).Err()
	}
}

func (l *redsyncClient) acquire(waiting context.Context, key string) (func() error, error) {
	mutex := l.sync.NewMutex(key, redsync.WithExpiry(lifetime), redsync.WithTries(math.MaxInt32),
		redsync.WithRetryDelay(retryEvery))
	err := mutex.LockContext(waiting)
	return func() error {
		_, err := mutex.Unlock()
		return err
	}, err
}
