#!/usr/bin/env python3
"""The requests of both sides are the same, in each phase and situation; times, tokens and who sends apart.

Usage: wire.py PORT GEN LIBRARY_COMMAND -- CLASS_COMMAND
The server on PORT may be the one node of a cluster. GEN has the scripts' texts; each command reads "WHAT KEY" and prints yes or no; its last argument is the namespace.
"""
import hashlib
import itertools
import os
import re
import socket
import subprocess
import sys
import time

import redis
from redis.crc import key_slot

M_MS, T_MS = 100, 1000
LIMIT_S = 30
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def names(gen):
    """The name of each script by its text's SHA1."""
    found = {}
    for name in os.listdir(gen):
        if name.endswith(".lua"):
            with open(os.path.join(gen, name), "rb") as script:
                found[hashlib.sha1(script.read()).hexdigest()] = name[:-4]
    return found


def words_of(line):
    return [bytes(w, "latin-1").decode("unicode_escape") for w in re.findall(r'"((?:[^"\\]|\\.)*)"', line)]


def normal(word):
    word = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "TOKEN", word)
    word = re.sub(r"^[0-9.]+(-java)? [^ ]+ \d+ peer$", "RECORD", word)
    word = re.sub(r"^[^ ]+ \d+ peer$", "OWNER", word)
    word = re.sub(r"\b\d{16}\b", "US", word)
    return re.sub(r"\b\d{13}\b", "MS", word)


def check_stamp(args):
    """A stamp's end and until when S binds others differ by M."""
    for value, until in zip(args, args[2:]):
        if re.fullmatch(r"\d{13}", value) and until.startswith("@"):
            assert int(until[1:]) == (int(value) + M_MS) * 1000, args


def tag_of(slot):
    """The shortest text with this slot, and of these the first."""
    texts = ("".join(letters) for length in (1, 2, 3) for letters in itertools.product(LETTERS, repeat=length))
    return next(text for text in texts if key_slot(text.encode()) == slot)


class Registers:
    """Those of a namespace: on one server it has one, in a cluster each slot has one."""

    def __init__(self, server, namespace, phase):
        self.server, self.namespace, self.phase = server, namespace, phase
        self.cluster = server.info("cluster")["cluster_enabled"] == 1
        if not self.cluster:
            server.hset(f"tidelock:phase:{{{namespace}}}", mapping={"phase": phase, "epoch": phase + 1, "lease_ms": 2000,
                                                                    "since": 0, "keys": "*"})

    def cover(self, key):
        if self.cluster and self.phase is not None:
            tag = tag_of(key_slot(key.encode()))
            self.server.set(f"tidelock:phase:slot:{{{tag}}}:{self.namespace}", f"{self.phase} 1700000000000000")


class Monitor:
    """What the server executes: (words, is it within a script)."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), LIMIT_S)
        self.lines = self.socket.makefile("r", encoding="latin-1", newline="\r\n")
        self.socket.sendall(b"MONITOR\r\n")
        assert self.lines.readline().startswith("+OK")

    def next(self):
        line = self.lines.readline()
        return words_of(line), " lua]" in line


class Side:
    def __init__(self, command, port):
        self.monitor = Monitor(port)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def act(self, what, key):
        self.process.stdin.write(f"{what} {key}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(LIMIT_S) == 0

    def next(self, mark):
        """The next script that it sends; None where the caller has left a mark."""
        while True:
            words, inside = self.monitor.next()
            if mark in words:
                return None
            if words and not inside and words[0].upper() in ("EVAL", "EVALSHA"):
                return words


def script_of(words, scripts):
    sha1 = words[1] if words[0].upper() == "EVALSHA" else hashlib.sha1(words[1].encode()).hexdigest()
    return scripts.get(sha1, "another script")


def play(command, port, scripts, server, namespace, phase):
    """What one side sends in each situation: lists of (situation, reply, requests)."""
    registers, side, story = Registers(server, namespace, phase), Side(command + [namespace], port), []

    def row_of(words):
        check_stamp(words)
        name = script_of(words, scripts)
        row = [name] + [normal(w) for w in words[2:]]
        if name == "phase":  # the class doesn't know the time before its first reply; how long a former lease lasts is as it happens
            row[7] = "US"
            row[10] = "LEFT" if row[10] != "0" else "0"
        return row

    def step(situation, what, key):
        registers.cover(key)
        said = side.act(what, key)
        mark, seen = f"mark:{time.monotonic_ns()}", []
        server.get(mark)
        for words in iter(lambda: side.next(mark), None):
            row = row_of(words)
            # Each may read the phase by itself in between. The library is notified of a change, and renews at once. A script
            # that the server doesn't know is sent again.
            # The class asks for the kind of server, and for a slot's register and time, by scripts of one key and no arguments.
            # In a cluster the library asks for neither: it learns the register from the reply to its first acquire.
            of_the_class = row[0] == "another script" and row[1] == "1" and len(row) == 3
            if row[0] != "renew" and not of_the_class and (row[0] != "phase" or not story):
                seen += [row] if seen[-1:] != [row] else []
        story.append((situation, said, seen))

    def on_its_own(situation, script):
        rows = (row_of(words) for words in iter(lambda: side.next("no mark"), None))
        story.append((situation, "", next(row for row in rows if row[0] == script)))

    if registers.cluster:
        step("a lock by which the register becomes known", "lock", "first")
        step("its release", "release", "first")
        story.clear()
    step("a free lock", "lock", "free")
    step("its release", "release", "free")
    server.set("held", "another's")
    step("a lock of a token", "lock", "held")
    server.delete("held")
    server.set("stamped", int(time.time() * 1000) + 600000)
    step("a lock with a stamp", "lock", "stamped")
    server.set("stamped", int(time.time() * 1000) - 600000)
    step("a lock with a stamp that has expired", "lock", "stamped")
    server.delete("stamped")
    step("a release of what was deleted", "release", "stamped")
    server.delete("a}b{c}d")
    step("a key with a tag", "lock", "a}b{c}d")
    step("its release", "release", "a}b{c}d")
    if phase != 3:
        step("a lock that is renewed", "keep", "renewed")
        on_its_own("its renewal", "renew")
        step("its release", "release", "renewed")
    side.end()
    server.flushall()
    return story


def main():
    port, gen, rest = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    middle = rest.index("--")
    server, scripts = redis.Redis(port=port), names(gen)
    assert len(scripts) > 10, "no scripts"
    phases = [0, 1, 2, 3, None] if server.info("cluster")["cluster_enabled"] == 1 else range(4)
    for phase in phases:
        library, java = (play(side, port, scripts, server, f"phase{phase}", phase)
                         for side in (rest[:middle], rest[middle + 1:]))
        for ours, theirs in zip(library, java, strict=True):
            if ours != theirs:
                print(f"phase {phase}, {ours[0]}\n  library: {ours[1:]}\n  class:   {theirs[1:]}")
                sys.exit(1)
        if "-v" in os.environ.get("WIRE", ""):
            print(*library, sep="\n")


main()
