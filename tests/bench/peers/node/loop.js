/*
 * Clients of npm's redlock over ioredis that want one lock again and again: loop.js PORT CLIENTS HOLD_US KEY.
 * It speaks the protocol of ../../README.md. Each client has a connection of its own; one thread runs them all.
 */
'use strict';
const readline = require('readline');
const Redis = require('ioredis');
const { default: Redlock, ResourceLockedError, ExecutionError } = require('redlock');

const [port, clients, holdUs, key] = process.argv.slice(2);
const LIFETIME_MS = 30000;
const RETRY_MS = 20;
const RETRIES = 50; // then it looks whether to go on

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
let over = true;

class Client {
    turns = 0;
    heldNs = 0n;

    constructor() {
        this.server = new Redis(Number(port), '127.0.0.1', { maxRetriesPerRequest: 0, retryStrategy: () => null });
        this.redlock = new Redlock([this.server], { retryCount: RETRIES, retryDelay: RETRY_MS, retryJitter: 0 });
        this.redlock.on('error', (error) => {
            if (!(error instanceof ResourceLockedError))
                throw error;
        });
    }

    /* null: another had it all the time. */
    async acquire() {
        try {
            return await this.redlock.acquire([key], LIFETIME_MS);
        } catch (error) {
            if (!(error instanceof ExecutionError))
                throw error;
            return null;
        }
    }

    async loop() {
        while (!over) {
            const lock = await this.acquire();
            if (!lock)
                continue;
            const start = process.hrtime.bigint();
            await pause(holdUs / 1000);
            this.heldNs += process.hrtime.bigint() - start;
            this.turns++;
            await lock.release();
        }
    }
}

async function main() {
    const all = Array.from({ length: Number(clients) }, () => new Client());
    let loops = [];
    const commands = {
        async go() {
            over = false;
            loops = all.map((one) => one.loop());
            loops.forEach((loop) => loop.catch(fail));
            return 'ok';
        },
        async stop() {
            over = true;
            await Promise.all(loops);
            return 'ok';
        },
        async turns() {
            const held = all.reduce((sum, one) => sum + one.heldNs, 0n);
            return ['turns', held, ...all.map((one) => one.turns)].join(' ');
        },
    };
    await Promise.all(all.map((one) => one.server.ping()));
    console.log('ready');
    for await (const line of readline.createInterface({ input: process.stdin }))
        console.log(await commands[line]());
    process.exit(0);
}

function fail(error) {
    console.error(error);
    process.exit(1);
}

main().catch(fail);
