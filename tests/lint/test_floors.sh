#!/bin/bash
# The house rules hold, and each rule is shown to bite: a tree with one breach of it is refused.
set -u
cd "$(dirname "$0")/../.." || exit 1
lint=$PWD/tests/lint/floors.sh
failed=0

"$lint" || failed=1

tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT

bites() { # file, its text, what the finding must say
    rm -rf "$tree"/*
    mkdir -p "$tree"/{src,compat,tools}
    local h
    for h in src/{clock,command,protocol,acquire,settle,conn,client} compat/dialect; do : >"$tree/$h.h"; done
    "$lint" "$tree" >"$tree/out" || { echo "the clean tree is refused:" && cat "$tree/out" && failed=1; }
    printf '%b\n' "$2" >"$tree/$1"
    if "$lint" "$tree" >"$tree/out" || ! grep -q "^$1:[0-9]*: .*$3" "$tree/out"; then
        echo "not noticed in $1: $2"
        cat "$tree/out"
        failed=1
    fi
}

passes() { # file, its text
    printf '%b\n' "$2" >"$tree/$1"
    "$lint" "$tree" || { echo "refused for nothing in $1: $2" && failed=1; }
    rm -f "${tree:?}/$1"
}

bites src/stranger.c 'int x;' 'not in the table'
bites src/keys.c '#include "protocol.h"' 'floor 1 includes protocol.h of floor 2'
bites src/acquire.c '#include "acquire.h"\n#include "settle.h"' 'no leaf header'
bites src/client.c '#include "dialect.h"' 'nothing of compat'
bites src/client.c '#include "nowhere.h"' 'not a header'
bites src/client.c '#include <hiredis/hiredis.h>' 'floor 3'
bites src/conn_redis.c '#include <curl/curl.h>' 'conn_http'
bites src/keys.c '#include <uuid/uuid.h>' 'token.c'
bites compat/distribute_lock_util.c '#include "client.h"' 'tidelock.h> only'
bites tools/main.c '#include "client.h"' 'the tool includes'
bites tools/main.c '#include "dialect.h"' 'the tool includes' # but for skew_stamp.c
bites tools/main.c '#include <hiredis/hiredis.h>' 'no hiredis'
bites src/client.c 'int f(void) { clock_gettime(0, 0); }' 'clock.c'
bites tools/main.c 'long f(void) { return time(NULL); }' 'clock.c'
bites compat/dialect.c 'int f(void) { usleep(1); }' 'clock.c'
bites src/client.c 'int f(void) { printf("x"); }' 'prints nothing'
bites src/client.c 'int f(void) {\n    exit(1); }' 'ends no process'
bites src/client.c 'int f(void) { signal(1, 0); }' 'no signals'
bites src/client.c 'int f(void) { strcpy(a, b); }' 'bounded'
bites src/client.c 'int f(void) { return fork(); }' 'makes a process'

rm -rf "$tree"/src/client.c
passes src/client.c '/* time(0), exit(1) */ int f(void) { snprintf(a, 1, "exit(1) // \\" abort()"); p->time(0); } // abort()'
passes src/client.c '/*\n exit(1)\n*/ int x = runtime(0) + pthread_cond_signal(&c);'
passes src/acquire.c '#include <tidelock/tidelock.h>\n#include "acquire.h"\n#include "protocol.h"\n#include "command.h"'
passes src/local_launch.c 'int f(void) { sigaction(1, 0, 0); return fork() ? 0 : _exit(1); }'
passes src/clock.c 'int f(void) { return clock_gettime(0, 0); }'

exit $failed
