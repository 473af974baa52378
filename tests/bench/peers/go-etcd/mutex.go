package main

// etcd's own lock: a Mutex under a session for each client, which keeps itself alive.

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

type etcdClient struct{ session *concurrency.Session }

func init() {
	libraries["etcd-mutex"] = func(address string) (locker, error) {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: 20 * time.Second})
		if err != nil {
			return nil, err
		}
		session, err := concurrency.NewSession(client, concurrency.WithTTL(int(lifetime/time.Second)))
		return &etcdClient{session}, err
	}
}

func (c *etcdClient) acquire(ctx context.Context, key string) (func() error, error) {
	mutex := concurrency.NewMutex(c.session, key)
	if err := mutex.Lock(ctx); err != nil {
		return nil, err
	}
	return func() error { return mutex.Unlock(context.Background()) }, nil
}
