"""An NTP server that lies as it is told: one UDP port for each argument, MODE or MODE@ADDRESS. Prints
"MODE HOST:PORT" for each, then serves until its standard input ends; then prints "MODE QUESTIONS MS" for each:
how many, and how long the second came after the first. Whoever asks "closed" is refused.
"""
import os
import select
import socket
import struct
import sys
import time

EPOCH = 2208988800


def stamp(t):
    return (int(t) + EPOCH) % 2**32 << 32 | int(t % 1 * 2**32)


def answer(mode, question, n):
    """The packets for the n-th question."""
    origin = struct.unpack(">Q", question[40:48])[0]
    offset = {"ahead": 0.25, "behind": -0.25, "second": 1.0, "glitch": 2**32 / 1e9, "far": 5.0}.get(mode, 0.0)
    if mode == "jump" and n > 1:
        offset = 10.0
    now = time.time() + offset
    f = dict(li=0, mode=4, stratum=3, delay=66, dispersion=66, reference=0x0A000001, set=now - 30, received=now, sent=now)
    if mode == "kiss" or (mode == "latekiss" and n > 1):
        f.update(stratum=0, reference=0x52415445)
    elif mode == "leap3":
        f.update(li=3)
    elif mode == "stratum16":
        f.update(stratum=16)
    elif mode == "local":
        f.update(reference=0x7F7F0101)
    elif mode == "exact":
        f.update(dispersion=0)
    elif mode == "stale":
        f.update(set=now - 86400)
    elif mode == "client":
        f.update(mode=3)
    elif mode == "origin":
        origin ^= 1
    packet = struct.pack(">BBbbIIIQQQQ", f["li"] << 6 | 4 << 3 | f["mode"], f["stratum"], 6, -20, f["delay"], f["dispersion"],
                         f["reference"], stamp(f["set"]), origin, stamp(f["received"]), stamp(f["sent"]))
    if mode == "silent":
        return []
    if mode == "short":
        return [packet[:47]]
    if mode == "forged":  # what a stranger sends first
        return [packet[:24] + os.urandom(8) + struct.pack(">QQ", stamp(now + 9), stamp(now + 9)), packet]
    return [packet]


def main():
    modes, sockets, asked = [], [], []
    for word in sys.argv[1:]:
        mode, _, host = word.partition("@")
        s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        s.bind((host or "127.0.0.1", 0))
        modes.append(mode)
        if mode == "closed":  # its port is nobody else's, and hears itself alone
            s.connect(s.getsockname())
        sockets.append(s)
        asked.append([])
        print(mode, ("[%s]:%d" if ":" in host else "%s:%d") % s.getsockname()[:2])
    sys.stdout.flush()
    while True:
        ready = select.select(sockets + [sys.stdin], [], [])[0]
        if sys.stdin in ready and not sys.stdin.readline():
            break
        for i, s in enumerate(sockets):
            if s in ready:
                question, peer = s.recvfrom(1000)
                asked[i].append(time.monotonic())
                for packet in answer(modes[i], question, len(asked[i])):
                    s.sendto(packet, peer)
    for mode, at in zip(modes, asked):
        print(mode, len(at), int((at[1] - at[0]) * 1000) if len(at) > 1 else 0)


main()
