"""A proxy before a redis-server, for what goes wrong in the middle of a step of `tidelock migrate`.

migrate_proxy.py SERVER-SOCKET SOCKET lose|stop:PID|java:KEY
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
                other[s].sendall(data)
            except OSError:
                data = b""
            if not data:
                close(s)
