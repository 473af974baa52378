#!/bin/bash
# The library asks the system through its seams alone; and the lint that says so bites: an object that imports
# what it may not is refused, however the source brings that about.
# Only in make check-all: it is about changes to come.
set -u
cd "$(dirname "$0")/../.." || exit 1
lint=$PWD/tests/lint/seams.sh
failed=0

"$lint" . "${BUILD:-build}/obj" || failed=1

tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT

looks_at() { # file, its text
    rm -rf "${tree:?}"/*
    mkdir -p "$tree/${1%/*}" "$tree/obj/${1%/*}"
    printf '%b\n' "$2" >"$tree/$1"
    # shellcheck disable=SC2086
    ${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -c "$tree/$1" -o "$tree/obj/${1%.c}.o" ||
        { echo "does not compile: $2" && failed=1; }
    "$lint" "$tree" "$tree/obj" >"$tree/out"
}

bites() { # file, its text, what the finding must say
    if looks_at "$1" "$2" || ! grep -q "^$1: .*$3" "$tree/out"; then
        echo "not noticed in $1: $2"
        cat "$tree/out"
        failed=1
    fi
}

passes() { # file, its text
    looks_at "$1" "$2" || { echo "refused for nothing in $1: $2" && cat "$tree/out" && failed=1; }
}

poll='#include <poll.h>\n'
bites src/client/driver.c "$poll int f(void) { return poll(0, 0, 1); }" 'calls poll, which belongs to .*src/ground/socket'
bites src/client/driver.c "$poll void *f(void) { return (void *)&ppoll; }" 'calls ppoll, which belongs to src/ground/wait'
bites src/client/driver.c "$poll int f(int n) { struct pollfd p[3]; return poll(p, n, 1); }" 'calls poll, '
bites src/transport/stream.c '#include <sys/socket.h>\nlong f(void) { char c[9]; return recv(3, c, sizeof c, 0) + c[0]; }' 'calls recv, '
bites src/transport/tls.c '#include <sys/socket.h>\nlong f(void) { return send(3, "", 1, 0); }' 'calls send, '
bites src/client/gate.c '#include <pthread.h>\nint f(pthread_mutex_t *m) { return pthread_mutex_lock(m); }' 'src/ground/thread'
bites src/client/gate.c '#include <pthread.h>\n#define W(c, m) pthread_cond_wait(c, m)\nint f(void *c, void *m) { return W(c, m); }' 'src/ground/thread'
bites compat/auto/protocol_auto.c '#include <time.h>\nint f(struct timespec *t) { return clock_gettime(1, t); }' 'src/ground/clock'
bites src/transport/resolve.c '#include <netdb.h>\nint f(struct addrinfo **r) { return getaddrinfo("x", "1", 0, r); }' 'src/ground/names'
bites src/ground/token.c '#include <sys/random.h>\nlong f(void *to) { return getrandom(to, 8, 0); }' 'src/ground/random'
bites src/client/client.c '#include <unistd.h>\nint f(void) { return getpid(); }' 'src/ground/process'
bites src/client/client.c '#include <stdlib.h>\nchar *f(void) { return getenv("HOME"); }' 'no row'
bites src/ground/wait.c '#include <time.h>\nint f(struct timespec *t) { return clock_gettime(1, t); }' 'src/ground/clock'
bites src/protocol/acquire.c '#include <stdlib.h>\nvoid *f(void) { return malloc(1); }' 'calls malloc, '

passes src/ground/wait.c "$poll int f(struct pollfd *p) { return ppoll(p, 1, 0, 0); }"
passes src/client/client.c '#include <stdlib.h>\n#include <string.h>\nextern int tl__x(char *); int f(void) { return tl__x(malloc(strlen("a"))); }'

looks_at src/client/client.c 'int x;'
rm "$tree/obj/src/client/client.o"
"$lint" "$tree" "$tree/obj" | grep -q '^src/client/client.c: has no object' || { echo "an object that is missing is not noticed" && failed=1; }

exit $failed
