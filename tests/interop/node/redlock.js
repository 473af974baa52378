/* The lock of npm's redlock, over ioredis. */
'use strict';
const { default: Redlock, ResourceLockedError, ExecutionError } = require('redlock');

const RETRY_MS = 20;

module.exports = (server) => {
    const redlock = new Redlock([server], { retryCount: 0, retryDelay: RETRY_MS, retryJitter: 0 });
    let held;

    /* It reports every refusal as the same error; what is behind it comes as an event. */
    redlock.on('error', (error) => {
        if (!(error instanceof ResourceLockedError))
            throw error;
    });
    const refused = (error) => {
        if (!(error instanceof ExecutionError))
            throw error;
        return null;
    };
    return {
        async acquire(key, ttl, wait) {
            const retryCount = Math.ceil(wait / RETRY_MS);
            const lock = await redlock.acquire([key], ttl, { retryCount }).catch(refused);
            held = lock || held;
            return lock && lock.value;
        },
        async extend(ttl) {
            const lock = await redlock.extend(held, ttl).catch(refused);
            held = lock || held;
            return lock !== null;
        },
        async release() {
            return await redlock.release(held).catch(refused) !== null;
        },
    };
};
