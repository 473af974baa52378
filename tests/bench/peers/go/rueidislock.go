package main

// rueidislock: its clients track the key, and the server tells them that it has changed.

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

type rueidisClient struct{ rueidislock.Locker }

func init() {
	libraries["rueidislock"] = func(address string) (locker, error) {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: []string{address}},
			KeyValidity:    lifetime,
			KeyMajority:    1, // one key: there is one server
			NoLoopTracking: true,
			TryNextAfter:   time.Second, // how long its request may take, too
		})
		return rueidisClient{l}, err
	}
}

func (l rueidisClient) acquire(waiting context.Context, key string) (func() error, error) {
	_, release, err := l.WithContext(waiting, key)
	return func() error {
		release()
		return nil
	}, err
}
