/* The mutex of npm's redis-semaphore, over ioredis. It holds the key "mutex:NAME". */
'use strict';
const { Mutex } = require('redis-semaphore');

const PREFIX = 'mutex:';

module.exports = (server) => {
    let key, held;

    /* Its own refreshing is off: the driver says when a lock is extended. */
    const mutex = (ttl, more) => {
        if (!key.startsWith(PREFIX))
            throw new Error(`the key begins with ${PREFIX}`);
        return new Mutex(server, key.slice(PREFIX.length), { lockTimeout: ttl, refreshInterval: 0, ...more });
    };
    return {
        async acquire(name, ttl, wait) {
            key = name;
            const attempts = wait ? {} : { acquireAttemptsLimit: 1 };
            const lock = mutex(ttl, { acquireTimeout: wait || 60000, retryInterval: 20, ...attempts });
            if (!await lock.tryAcquire())
                return null;
            held = lock;
            return held.identifier;
        },
        /* A mutex "acquired externally" refreshes where others acquire. */
        async extend(ttl) {
            const lock = mutex(ttl, { identifier: held.identifier, acquiredExternally: true });
            if (!await lock.tryAcquire())
                return false;
            held = lock;
            return true;
        },
        /* It does not say whether it still held the key. */
        async release() {
            await held.release();
        },
    };
};
