#!/bin/sh
# What a lock of the contest protects, as tidelock's side does it: section.sh SOCKET. The peer
# programs do the same over their own clients. Two at once are seen, and lose an increment.
redis() { redis-cli -s "$socket" "$@"; }
socket=$1
[ "$(redis INCR interop:inside)" = 1 ] || redis INCR interop:overlaps
n=$(redis GET interop:counter)
redis SET interop:counter $((${n:-0} + 1))
redis DECR interop:inside
