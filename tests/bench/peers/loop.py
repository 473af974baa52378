#!/usr/bin/python3
"""Clients of redis-py's Lock that want one lock again and again: loop.py PORT CLIENTS HOLD_US KEY.

It speaks the protocol of ../README.md. Each client is a forked process with a connection of its own.
"""
import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time

import redis

RETRY_EVERY_S = 0.02
LIFETIME_S = 30
PR_SET_PDEATHSIG = 1


def serve(port, hold_s, key, mine, order, done):
    """Loop whenever told to; `mine` is this client's turns and how long it held, ns."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    lock = redis.Redis(port=port).lock(key, timeout=LIFETIME_S, sleep=RETRY_EVERY_S)
    lock.redis.ping()
    done.release()
    while True:
        order.told.acquire()
        while not order.over.value:
            lock.acquire()
            start = time.monotonic_ns()
            time.sleep(hold_s)
            mine[1] += time.monotonic_ns() - start
            mine[0] += 1
            lock.release()
        done.release()


class Order:
    """What one client is told."""

    def __init__(self, over):
        self.told = multiprocessing.Semaphore(0)
        self.over = over


def watch(pids):
    """A client that ends, ends all."""
    os.wait()
    end(pids)


def end(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os._exit(1)


def main():
    port, clients, hold_us, key = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    done = multiprocessing.Semaphore(0)
    over = multiprocessing.RawValue(ctypes.c_bool, False)
    orders = [Order(over) for _ in range(clients)]
    counts = [multiprocessing.RawArray(ctypes.c_int64, 2) for _ in range(clients)]
    pids = []
    for order, mine in zip(orders, counts):
        pid = os.fork()
        if pid == 0:
            serve(port, hold_us / 1e6, key, mine, order, done)
        pids.append(pid)
        done.acquire()
    threading.Thread(target=watch, args=(pids,), daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        said = "ok"
        if line == "go\n":
            over.value = False
            for order in orders:
                order.told.release()
        elif line == "stop\n":
            over.value = True
            for _ in orders:
                done.acquire()
        elif line == "turns\n":
            said = " ".join(map(str, ["turns", sum(c[1] for c in counts)] + [c[0] for c in counts]))
        else:
            said = "unknown command"
        print(said, flush=True)
    end(pids)


main()
