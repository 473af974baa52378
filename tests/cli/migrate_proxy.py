"""A proxy before a redis-server, for what goes wrong in the middle of a step of `tidelock migrate`.

migrate_proxy.py SERVER-SOCKET SOCKET lose|stop:PID|java:KEY|up:REGISTER|restart:REGISTER|once:|old:
old: scripts find no redis.replicate_commands, as below 3.2.
once: the register can be read once, and never again.
up: once the register has phase 1, a scan ends only when it has phase 2, and a later epoch. restart: once it has phase 1, the first
connection is lost while a scan goes on. SOCKET.scans counts them from then on.
lose: the first connection is lost when the third is made. stop: that process is stopped before the change. java: a legacy
client locks and unlocks that key when the fourth connection is made.
"""
import os, select, signal, socket, sys

there, here, what = sys.argv[1], sys.argv[2], sys.argv[3].split(":")
listener = socket.socket(socket.AF_UNIX)
listener.bind(here + ".new")
listener.listen(16)
os.rename(here + ".new", here) # whoever finds it can connect
other, first, made = {}, None, 0

def connect():
    global first, made
    client, server = listener.accept()[0], socket.socket(socket.AF_UNIX)
    server.connect(there)
    other[client], other[server] = server, client
    made += 1
    if made == 1:
        first = client
    if made == 3 and what[0] == "lose":
        close(first)
    if made == 4 and what[0] == "java":
        with socket.socket(socket.AF_UNIX) as java:
            java.connect(there)
            for command in "SETNX %s 1", "DEL %s":
                java.sendall((command % sys.argv[3][5:] + "\r\n").encode())
                java.recv(100)

def ask(*words):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(there)
        s.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        return s.recv(1000).split(b"\r\n")[1]

reads = 0
def reads_again(data):
    global reads
    reads += b"HGETALL" in data
    return b"HGETALL" in data and reads > 1

scans = 0
def scan():
    global scans
    register = sys.argv[3].split(":", 1)[1].encode()
    if scans == 0 and ask(b"HGET", register, b"phase") != b"1":
        return
    scans += 1
    open(here + ".scans", "w").write(str(scans))
    if scans == 1 and what[0] == "up":
        ask(b"EVAL", b"redis.call('HSET', KEYS[1], 'phase', 2) redis.call('HINCRBY', KEYS[1], 'epoch', 1) return 'ok'", b"1", register)
    if scans == 1 and what[0] == "restart":
        close(first)

def close(end):
    for s in (end, other.pop(end)):
        other.pop(s, None)
        s.close()

while True:
    for s in select.select([listener, *other], [], [])[0]:
        if s is listener:
            connect()
        elif s in other:
            try: # one end may go while the other still speaks
                data = s.recv(65536)
                if what[0] == "stop" and b"local R, C, L" in data:
                    os.kill(int(what[1]), signal.SIGSTOP)
                if what[0] == "once" and reads_again(data):
                    raise OSError
                if what[0] in ("up", "restart") and b"HGETALL" not in data and b"\r\nEVALSHA\r\n" in data:
                    scan()
                if what[0] == "old":
                    data = data.replace(b"redis.replicate_commands", b"redis.replicate_commandX")
                other[s].sendall(data)
            except OSError:
                data = b""
            if not data:
                close(s)
