"""A server of Redis' protocol whose clock is off, and which calls itself a replica: late_redis.py PORT US MASTERPORT.
It answers TIME, INFO, PING and nothing else. Prints a line once it listens.
"""
import socketserver
import sys
import time

PORT, OFF_US, MASTER = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
INFO = "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\nrun_id:%s\r\n# Replication\r\nrole:slave\r\nmaster_host:127.0.0.1\r\nmaster_port:%s\r\n" % ("f" * 40, MASTER)


def bulk(text):
    return b"$%d\r\n%s\r\n" % (len(text), text.encode())


class Client(socketserver.StreamRequestHandler):
    def handle(self):
        while True:
            line = self.rfile.readline()
            if not line:
                return
            words = []
            for _ in range(int(line[1:])):
                n = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(n + 2)[:-2].decode())
            word = words[0].upper()
            if word == "TIME":
                us = time.time_ns() // 1000 + OFF_US
                self.wfile.write(b"*2\r\n" + bulk(str(us // 1000000)) + bulk(str(us % 1000000)))
            elif word == "INFO":
                self.wfile.write(bulk(INFO))
            elif word == "PING":
                self.wfile.write(b"+PONG\r\n")
            else:
                self.wfile.write(b"-ERR unknown command '%s'\r\n" % word.encode())


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


with Server(("127.0.0.1", PORT), Client) as server:
    print("listening", flush=True)
    server.serve_forever()
