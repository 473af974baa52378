"""A proxy before a redis-server that changes what it says of itself: for what a real one can't be told to be.

doctor_proxy.py SOCKET PORT-FILE [like:VERSION | lacks:COMMAND | flag:LOST | info:NAME=VALUE | config:NAME=VALUE | time:OFFSET_US | step:OFFSET_US
    | no-lua: | blessed:FLAG]...
like makes it a server of another version, as old_redis.py has it; rules behind it change that.
no-lua makes it a Valkey 9.1 without its Lua module. blessed makes it know BLESS (Redis 8.12): each key has this flag; "": none.
step begins with the fourth TIME of a connection, the second that the watch of its clock asks for. PORT-FILE.stepped says that it has come.
"""
import os, socket, sys, threading
from old_redis import VERSIONS

where, port_file, rules = sys.argv[1], sys.argv[2], [r.split(":", 1) for r in sys.argv[3:]]
old = next((v for k, v in rules if k == "like"), None)
like = VERSIONS[old] if old else {"info": {}, "lacks": [], "config": {}}
info = {**({"redis_version": old} if old else {}), **like["info"], **dict(v.split("=", 1) for k, v in rules if k == "info")}
lacks = like["lacks"] + [v for k, v in rules if k == "lacks"]
like.setdefault("flags", [])
like["flags"] = [f for f in like["flags"] if ("flag", f) not in map(tuple, rules)]
config = {**like["config"], **dict(v.split("=", 1) for k, v in rules if k == "config")}
shift = sum(int(v) for k, v in rules if k == "time")
step = sum(int(v) for k, v in rules if k == "step")

no_lua = any(k == "no-lua" for k, v in rules)
blessed = next((v for k, v in rules if k == "blessed"), None)
if no_lua:
    info = {"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "9.1.0", **info}

def line(f):
    text = f.readline()
    if not text.endswith(b"\r\n"):
        raise EOFError
    return text

def reply(f):
    """The raw bytes of one reply."""
    head = line(f)
    kind, rest = head[:1], head[1:-2]
    if kind == b"$" and int(rest) >= 0:
        return head + f.read(int(rest) + 2)
    if kind == b"*" and int(rest) >= 0:
        return head + b"".join(reply(f) for _ in range(int(rest)))
    return head

def bulk(text):
    return b"$%d\r\n%s\r\n" % (len(text), text)

def changed(words, answer, times):
    command = words[0].upper()
    if command == b"INFO" and info and answer.startswith(b"$"):
        lines = answer.split(b"\r\n")[1:-1]
        there = {l.split(b":")[0].decode() for l in lines}
        lines = [l if l.split(b":")[0].decode() not in info else b"%s:%s" % (l.split(b":")[0], info[l.split(b":")[0].decode()].encode())
                 for l in lines if info.get(l.split(b":")[0].decode(), "") is not None]
        lines += [("%s:%s" % i).encode() for i in info.items() if i[0] not in there and i[1] is not None]
        return bulk(b"\r\n".join(lines))
    if command == b"CONFIG" and config.get(words[2].decode(), "") is None:
        return b"*0\r\n"
    if command == b"CONFIG" and words[2].decode() in config:
        return b"*2\r\n" + bulk(words[2]) + bulk(config[words[2].decode()].encode())
    if command == b"TIME" and answer.startswith(b"*2"):
        parts = answer.split(b"\r\n")
        us = int(parts[2]) * 1000000 + int(parts[4]) + shift + (step if times >= 4 else 0)
        if step and times >= 4:
            open(port_file + ".stepped", "w").close()
        return b"*2\r\n" + bulk(b"%d" % (us // 1000000)) + bulk(b"%d" % (us % 1000000))
    return answer

def unknown(words):
    names = [b" ".join(words[:n]).upper().decode() for n in (1, 2)]
    return any(n in lacks for n in names)

def own(words):
    """The reply of what a redis-server of today doesn't know; None: it is asked."""
    command = words[0].upper()
    if no_lua and command == b"EVALSHA":
        return b"-NOSCRIPT No matching script. Please use EVAL.\r\n"
    if no_lua and (command == b"EVAL" or words[:2] == [b"SCRIPT", b"LOAD"]):
        return b"-ERR Could not find scripting engine 'lua'\r\n"
    if blessed is not None and words == [b"COMMAND", b"INFO", b"BLESS"]:
        return b"*1\r\n*1\r\n" + bulk(b"bless")
    if blessed is not None and words[:2] == [b"BLESS", b"GET"]:
        return b"*1\r\n" + bulk(blessed.encode()) if blessed else b"*0\r\n"
    return None

def known(words):
    """What is asked of WAITAOF, asked of WAIT, which a server from before it knows as well."""
    if "WAITAOF" not in like.get("has", []) or b"WAITAOF" not in words[1:]:
        return words
    at = words.index(b"WAITAOF")
    return words[:at] + [b"WAIT"] + words[at + 2:]

def serve(client):
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(where)
            ask, hear, times = client.makefile("rb"), server.makefile("rb"), 0
            while True:
                head = line(ask)
                words = []
                for _ in range(int(head[1:])):
                    words.append(ask.read(int(line(ask)[1:]) + 2)[:-2])
                times += words[0].upper() == b"TIME"
                if words[:2] == [b"ACL", b"GETUSER"] and like["flags"]:
                    flags = [bulk(f.encode()) for f in like["flags"]]
                    client.sendall(b"*2\r\n" + bulk(b"flags") + b"*%d\r\n" % len(flags) + b"".join(flags))
                    continue
                if unknown(words):
                    client.sendall(b"-ERR unknown command '%s'\r\n" % words[0])
                    continue
                if own(words):
                    client.sendall(own(words))
                    continue
                asked = known(words)
                server.sendall(b"*%d\r\n" % len(asked) + b"".join(map(bulk, asked)))
                client.sendall(changed(words, reply(hear), times))
    except (EOFError, OSError, ValueError):
        client.close()

listener = socket.create_server(("127.0.0.1", 0))
with open(port_file + ".new", "w") as f:
    f.write(str(listener.getsockname()[1]))
os.rename(port_file + ".new", port_file)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
