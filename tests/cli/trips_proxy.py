"""A proxy before a redis-server that counts round trips: trips_proxy.py PORT SERVERPORT.
Prints a line once it listens, and for each connection that has ended how often requests followed a reply, or
came first.
"""
import select
import socket
import sys

PORT, SERVER = int(sys.argv[1]), int(sys.argv[2])
SIZE = 65536


def trips(client, server):
    """Forward until either side closes."""
    n, asked = 0, False
    while True:
        for s in select.select([client, server], [], [])[0]:
            data = s.recv(SIZE)
            if not data:
                return n
            if s is client and not asked:
                n += 1
            asked = s is client
            (server if asked else client).sendall(data)


with socket.create_server(("127.0.0.1", PORT)) as listener:
    print("listening", flush=True)
    while True:
        client, _ = listener.accept()
        with client, socket.create_connection(("127.0.0.1", SERVER)) as server:
            print("trips", trips(client, server), flush=True)
