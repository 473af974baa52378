#!/usr/bin/env python3
"""Writes old_scripts.txt: what real servers answer to scripts that a server of their age may refuse.

    old_scripts.py PORT... >old_scripts.txt     servers of different versions on 127.0.0.1, which are emptied

An answer is shown as it came: text, or '-' and the words of an error, without the script's own name. 'nil' is none.
"""
import re
import socket
import sys

READS = ["'TIME'", "'RANDOMKEY'", "'SRANDMEMBER', 's'", "'SRANDMEMBER', 's', '2'", "'LASTSAVE'", "'SCAN', '0'",
         "'PUBSUB', 'NUMSUB', 'x'", "'INFO'", "'DBSIZE'", "'KEYS', '*'", "'SMEMBERS', 's'", "'HGETALL', 'h'",
         "'TTL', 'k'", "'PTTL', 'k'", "'GET', 'k'", "'EXISTS', 'k'", "'TYPE', 'k'"]
WRITES = ["'DEL', 'k'", "'PEXPIRE', 'k', '9'", "'HMSET', 'h', 'f', 'v'", "'SADD', 's', 'n'", "'PUBLISH', 'c', 'm'", "'GET', 'k'"]
EFFECTS = "if redis.replicate_commands then redis.replicate_commands() end "
SET = "redis.call('SET', 'k', 'v')"
SCRIPTS = [f"redis.call({r}) return {SET}" for r in READS] + \
          [f"redis.call('TIME') return redis.call({w})" for w in WRITES] + [
    f"{SET} redis.call('TIME') return {SET}",
    f"{SET} return #redis.call('TIME')",
    f"redis.pcall('TIME') return {SET}",
    "redis.call('TIME') return redis.pcall('SET', 'k', 'v').err",
    f"{EFFECTS}redis.call('TIME') return {SET}",
    f"redis.call('TIME') {EFFECTS}return {SET}",
    f"{SET} {EFFECTS}redis.call('TIME') return {SET}",
    "return redis.replicate_commands and 'there' or 'none'",
    "return redis.pcall('SCAN', '0').err and 'none' or 'there'",
    "return redis.pcall('PUBSUB', 'NUMSUB', 'x').err and 'none' or 'there'",
    "return redis.call('NOPE')",
    "return redis.pcall('NOPE').err",
    "return redis.call('GET', 's')",
    "return redis.pcall('GET', 's').err",
    "return redis.call('GET')",
    "return nil .. 1",
]


class Server:
    def __init__(self, port):
        self.file = socket.create_connection(("127.0.0.1", port)).makefile("rwb")

    def ask(self, *words):
        words = [w.encode() for w in words]
        self.file.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        self.file.flush()
        return self.read()

    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"*":
            return str([self.read() for _ in range(int(rest))])
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2].decode() if int(rest) >= 0 else "nil"
        return "-" + re.sub("f_[0-9a-f]{40}", "f_SHA", rest).rstrip() if kind == b"-" else rest


servers = {}
for port in sys.argv[1:]:
    server = Server(int(port))
    servers[re.search(r"redis_version:([\d.]+)", server.ask("INFO")).group(1)] = server
for script in SCRIPTS:
    print("> " + script)
    for version, server in servers.items():
        server.ask("FLUSHALL")
        server.ask("SADD", "s", "m")
        print(version, server.ask("EVAL", script, "0"))
