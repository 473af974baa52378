"""The other side of test_redis_py.c: redis.lock.Lock, one command a line.

    acquire TTL_MS WAIT_MS    -> "yes" or "no"     (TTL_MS 0: without a lifetime)
    release | extend TTL_MS   -> "ok" or the name of the exception
"""
import sys

import redis
from redis.lock import Lock


def main():
    server = redis.Redis(host="127.0.0.1", port=int(sys.argv[1]))
    lock = None
    print("ready", flush=True)
    for line in sys.stdin:
        command, *numbers = line.split()
        numbers = [int(n) / 1000 for n in numbers]
        try:
            if command == "acquire":
                lock = Lock(server, sys.argv[2], timeout=numbers[0] or None, sleep=0.02)
                got = lock.acquire(blocking=numbers[1] > 0, blocking_timeout=numbers[1] or None)
                answer = "yes" if got else "no"
            elif command == "extend":
                lock.extend(numbers[0], replace_ttl=True)
                answer = "ok"
            else:
                lock.release()
                answer = "ok"
        except redis.exceptions.RedisError as error:
            answer = type(error).__name__
        print(answer, flush=True)


main()
