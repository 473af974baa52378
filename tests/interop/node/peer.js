/*
 * The peer program for Node: peer.js LIBRARY PORT. It speaks the protocol of ../README.md; the file
 * LIBRARY.js beside it turns one library's lock into acquire, extend and release. It never decides
 * by itself who holds the lock.
 */
'use strict';
const readline = require('readline');
const Redis = require('ioredis');

const [library, port] = process.argv.slice(2);
const server = new Redis(Number(port), '127.0.0.1', { maxRetriesPerRequest: 0, retryStrategy: () => null });
const lock = require(`./${library}`)(server);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function section() {
    if (await server.incr('interop:inside') !== 1)
        await server.incr('interop:overlaps');
    const n = Number(await server.get('interop:counter'));
    await server.set('interop:counter', n + 1);
    await server.decr('interop:inside');
}

const commands = {
    async acquire(key, ttl, wait) {
        const value = await lock.acquire(key, Number(ttl), Number(wait));
        return value ? `ok ${value}` : 'busy';
    },
    async extend(ttl) {
        return await lock.extend(Number(ttl)) ? 'ok' : 'lost';
    },
    async release() {
        const released = await lock.release();
        return released === undefined ? 'done' : released ? 'ok' : 'lost';
    },
    async count(key, ttl, rounds) {
        for (let i = 0; i < rounds; i++) {
            if (!await lock.acquire(key, Number(ttl), 60000))
                throw new Error('no turn within a minute');
            await section();
            if (await lock.release() === false)
                throw new Error('the lock was lost');
            await pause(Math.random() * 20);
        }
        return `ok ${rounds}`;
    },
};

async function main() {
    await server.ping();
    console.log('ready');
    for await (const line of readline.createInterface({ input: process.stdin })) {
        const [command, ...words] = line.split(' ');
        console.log(await commands[command](...words));
    }
    server.disconnect();
}

main().catch((error) => {
    console.log(`error ${error.message}`);
    process.exit(1);
});
