"""A proxy before a redis-server, by whose word its clock is off: late_proxy.py PORT US SERVERPORT.
One request after the other: nothing is subscribed to through it. Prints a line once it listens.
"""
import socket
import socketserver
import sys
import time

PORT, OFF_US, SERVER = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])


def read_value(f):
    """One value of the protocol, as its bytes."""
    line = f.readline()
    if not line.endswith(b"\r\n"):
        raise EOFError
    n = int(line[1:]) if line[:1] in b"*$" else -1
    if line[:1] == b"*":
        return line + b"".join(read_value(f) for _ in range(max(n, 0)))
    return line + (f.read(n + 2) if n >= 0 else b"")


class Client(socketserver.StreamRequestHandler):
    def handle(self):
        with socket.create_connection(("127.0.0.1", SERVER)) as there, there.makefile("rb") as answers:
            try:
                while True:
                    request = read_value(self.rfile)
                    there.sendall(request)
                    answer = read_value(answers)
                    if request == b"*1\r\n$4\r\nTIME\r\n" and answer[:1] == b"*":
                        us = time.time_ns() // 1000 + OFF_US
                        words = b"%d" % (us // 1000000), b"%d" % (us % 1000000)
                        answer = b"*2\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
                    self.wfile.write(answer)
            except (EOFError, OSError):
                pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


with Server(("127.0.0.1", PORT), Client) as server:
    print("listening", flush=True)
    server.serve_forever()
