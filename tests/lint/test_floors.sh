#!/bin/bash
# The house rules hold, and each rule is shown to bite: a tree with one breach of it is refused.
# Only in make check-all: it is about changes to come.
set -u
cd "$(dirname "$0")/../.." || exit 1
lint=$PWD/tests/lint/floors.sh
failed=0

"$lint" || failed=1

tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT

bites() { # file, its text, what the finding must say
    rm -rf "$tree"/*
    mkdir -p "$tree"/src/{ground,wire,protocol,transport/local,client} "$tree"/compat/{dialect,stamp,examples} \
        "$tree"/tools/{base,lock,skew/judge}
    local h
    for h in src/{ground/clock,wire/command,protocol/{protocol,acquire,settle},transport/conn,client/client} \
        compat/{dialect/dialect,stamp/stamp} tools/{base/tool,lock/guard}; do : >"$tree/$h.h"; done
    "$lint" "$tree" >"$tree/out" || { echo "the clean tree is refused:" && cat "$tree/out" && failed=1; }
    mkdir -p "$tree/${1%/*}"
    printf '%b\n' "$2" >"$tree/$1"
    if "$lint" "$tree" >"$tree/out" || ! grep -q "^$1:[0-9]*: .*$3" "$tree/out"; then
        echo "not noticed in $1: $2"
        cat "$tree/out"
        failed=1
    fi
}

passes() { # file, its text
    mkdir -p "$tree/${1%/*}"
    printf '%b\n' "$2" >"$tree/$1"
    "$lint" "$tree" || { echo "refused for nothing in $1: $2" && failed=1; }
    rm -f "${tree:?}/$1"
}

bites src/attic/stranger.c 'int x;' 'not in a room'
bites src/wire/keys.c '#include "protocol/protocol.h"' 'src/wire includes protocol/protocol.h, of a room above'
bites src/protocol/acquire.c '#include "transport/conn.h"' 'of a room above'
bites src/transport/local/local.c '#include "transport/conn.h"' 'of a room above'
bites compat/stamp/stamp.c '#include "client/client.h"' 'of a room above'
bites compat/dialect/dialect.c '#include "stamp/stamp.h"' 'of a room above'
bites src/client/client.c '#include "dialect/dialect.h"' 'nothing of compat'
bites src/client/client.c '#include "base/tool.h"' 'nothing of the tool'
bites src/client/client.c '#include "nowhere.h"' 'not a header'
bites src/client/client.c '#include "client.h"' 'not a header'
bites src/client/client.c '#include <hiredis/hiredis.h>' 'transport/resp'
bites src/transport/conn.c '#include <openssl/ssl.h>' 'transport/tls.c'
bites src/wire/keys.c '#include <uuid/uuid.h>' 'ground/token.c'
bites src/transport/conn.c '#include <nghttp2/nghttp2.h>' 'transport/grpc.c'
bites src/wire/reply.c '#include <jansson.h>' 'tools/base/js.h'
bites tools/lock/run.c '#include <jansson.h>' 'tools/base/js.h'
bites src/simple.c '#include "client/client.h"' 'tidelock.h> and its own'
bites compat/distribute_lock_util.c '#include "client/client.h"' 'tidelock.h> and its own'
bites compat/examples/nightly.c '#include "client/client.h"' 'installed headers'
bites tools/main.c '#include "client/client.h"' 'the tool includes'
bites tools/base/tool.c '#include "lock/guard.h"' 'of a room above'
bites tools/lock/run.c '#include "dialect/dialect.h"' 'the tool includes' # but for skew_stamp.c
bites tools/main.c '#include <hiredis/hiredis.h>' 'transport/resp'
bites src/client/client.c 'int f(void) { clock_gettime(0, 0); }' 'clock.c'
bites tools/main.c 'long f(void) { return time(NULL); }' 'clock.c'
bites compat/dialect/dialect.c 'int f(void) { usleep(1); }' 'clock.c'
bites src/client/client.c 'int f(void) { printf("x"); }' 'prints nothing'
bites src/client/client.c 'int f(void) {\n    exit(1); }' 'ends no process'
bites src/client/client.c 'int f(void) { signal(1, 0); }' 'no signals'
long=$(printf '    g();\\n%.0s' {1..49})
bites src/client/client.c "int f(void) {\n$long}" 'more than 50 lines'
bites tools/main.c "static int f(int a,\n             int b) {\n$long}" 'more than 50 lines'
bites tests/unit/test_x.c 'const struct CMUnitTest t[] = {cmocka_unit_test(test_x)};' 'registered by TEST'
bites tests/unit/test_x.c 'int main(void) { return cmocka_run_group_tests(t, 0, 0); }' 'registered by TEST'
bites tests/unit/test_x.c '#include "ground/glob.c"' 'headers only'
bites tests/cli/test_x.sh 'migrate advance >"$out" 2>"$err" </dev/null &\nstep=$!' 'itself empty the file'
bites tests/cli/test_x.sh 'waits k \\\\\n    3>"$work/json" & # the second' 'itself empty the file'
bites src/client/client.c 'int f(void) { strcpy(a, b); }' 'bounded'
bites src/client/client.c 'int f(void) { return fork(); }' 'makes a process'

rm -rf "$tree"/src/client/client.c
passes src/client/client.c '/* time(0), exit(1) */ int f(void) { snprintf(a, 1, "exit(1) // \\" abort()"); p->time(0); } // abort()'
passes src/client/client.c '/*\n exit(1)\n*/ int x = runtime(0) + pthread_cond_signal(&c);'
passes src/protocol/acquire.c '#include <tidelock/tidelock.h>\n#include "protocol/acquire.h"\n#include "protocol/settle.h"\n#include "wire/command.h"'
passes src/transport/local/local_launch.c 'int f(void) { sigaction(1, 0, 0); return fork() ? 0 : _exit(1); }'
passes src/ground/clock.c 'int f(void) { return clock_gettime(0, 0); }'
passes tools/legacy/skew_stamp.c '#include "dialect/dialect.h"'
passes src/client/client.c "int f(void) {\n${long#*g();\\n}}\n\nint h(void) {\n    g();\n}"
passes tests/cli/test_x.sh '{ migrate advance & } >"$out" 2>"$err"\nredis MONITOR >>"$work/monitor" &\nlooks >"$out" && step=$!'
passes tests/unit/test_x.c '#include "tests.h"\nTEST(x) { }'

exit $failed
