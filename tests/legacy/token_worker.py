"""A client of tokens in a loop: redis.lock.Lock beside the others of README.md.

    token_worker.py PORT LIFETIME_MS KEY SLACK_MS LAG_MS SEED

It only tries: on a stamp that a dead service has left it would wait for ever.
"""
import random
import select
import sys
import time

import redis
from redis.lock import Lock


def say(line):
    print(line, flush=True)


lines = open(0, "rb", buffering=0)  # what has come is seen by select
stops = False


def wait_for_ok():
    global stops
    line = lines.readline()
    while line == b"stop\n":
        stops = True
        line = lines.readline()
    if line != b"ok\n":
        sys.exit(1)


def told_to_stop():
    return stops or select.select([lines], [], [], 0)[0]


def work(lock, began_us, life_us, draw):
    say(f"enter {time.monotonic_ns() // 1000} {began_us + life_us} 0")
    wait_for_ok()
    time.sleep(draw.uniform(0.005, 0.02))
    say("leave")
    wait_for_ok()
    try:
        lock.release()
    except redis.exceptions.LockError as error:
        say(f"note {type(error).__name__}")


def main():
    port, life_ms, key, _, _, seed = sys.argv[1:]
    draw = random.Random(int(seed))
    server = redis.Redis(host="127.0.0.1", port=int(port))
    server.ping()
    say("ready")
    while not told_to_stop():
        lock = Lock(server, key, timeout=int(life_ms) / 1000)
        began_us = time.monotonic_ns() // 1000
        if lock.acquire(blocking=False):
            work(lock, began_us, int(life_ms) * 1000, draw)
        time.sleep(draw.uniform(0.02, 0.06))
    say("end")


main()
