#!/bin/bash
# What was skipped is never counted as passed: tests/run.sh counts it apart, whole files and single tests, and says why;
# and what REDIS_SERVER and ETCD name is what tests start.
set -u
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tests/unit"
program() { # name, lines
    printf '#!/bin/sh\n%s\n' "$2" >"$work/tests/unit/$1"
    chmod 755 "$work/tests/unit/$1"
}
run() { BUILD=$work LOGS=$work/log "$@" tests/run.sh "${sources[@]}" >"$work/out" 2>/dev/null; }
fail() {
    echo "$1:"
    sed 's/^/  /' "$work/out"
    exit 1
}
says() { [[ $(tail -n "$1" "$work/out") == "$2" ]] || fail "the end is not '$2'"; }
sources=(tests/unit/whole.c tests/unit/parts.c tests/unit/none.c)

program none 'echo "[       OK ] d"'
program whole 'echo "SKIP: there is no moon" && exit 77'
# As cmocka says it: once where it happens, once at the end.
program parts 'cat <<END
[ RUN      ] a
SKIP: it is day
[  SKIPPED ] a
[ RUN      ] b
[       OK ] b
[ RUN      ] c
[  SKIPPED ] c
[  SKIPPED ] 2 test(s), listed below:
[  SKIPPED ] a
[  SKIPPED ] c
END'
run env -u REDIS_SERVER || fail "skipped is no failure"
says 5 'skipped:
  unit/parts: a: it is day
  unit/parts: c
  unit/whole: there is no moon
2 passed, 0 failed, 3 skipped'

# A file all of whose tests were skipped has passed nothing.
program parts 'printf "[ RUN      ] a\n[  SKIPPED ] a\n"'
run env -u REDIS_SERVER || fail "skipped is no failure"
says 1 '1 passed, 0 failed, 2 skipped'

# A script says what of it was skipped, and passes with the rest.
printf '#!/bin/sh\n%s\n' 'printf "SKIP: it is new\n[  SKIPPED ] the moon\n"' >"$work/part.sh" && chmod 755 "$work/part.sh"
program parts 'exit 77'
sources=("../../../../../../../../../..$work/part.sh")
run env -u REDIS_SERVER || fail "skipped is no failure"
says 1 '1 passed, 0 failed, 1 skipped'
grep -q 'part: the moon: it is new$' "$work/out" || fail "it isn't told"
sources=(tests/unit/whole.c tests/unit/parts.c tests/unit/none.c)

# A server of another name comes first, by the name that was given (one program may be several), and is told of; one that
# doesn't run is no server.
program none 'redis-server --version | grep -q Moon'
printf '#!/bin/sh\necho "${0##*/} server"\n' >"$work/program" && chmod 755 "$work/program"
ln -s program "$work/Moon"
sources=(tests/unit/none.c)
run env REDIS_SERVER="$work/Moon" || fail "another server is not started"
grep -qx 'server: Moon server' "$work/out" || fail "it isn't told"
says 1 '1 passed, 0 failed, 0 skipped'
if run env REDIS_SERVER="$work/none"; then fail "a server that isn't there passes"; fi

# Of tests that start no such server none counts as passed on it.
listed() { env -u MAKEFLAGS -u ONLY -u REDIS_SERVER -u ETCD make -s --no-print-directory --eval='listed: ; @printf "%s\n" $(TESTS)' listed "$@" 2>/dev/null; }
listed REDIS_SERVER=x >"$work/out"
grep -q conform/test_acquire "$work/out" && ! grep etcd "$work/out" || fail "an etcd's tests count for another Redis"
listed >"$work/out"
grep -q chaos/test_etcd_away "$work/out" || fail "an etcd's tests are not run"

# So it is with an etcd, and the etcdctl beside it goes with it; without one it is that of the system.
program none 'etcd --version | grep -q Sun && etcdctl version | grep -q etcdctl'
mkdir "$work/of-sun" "$work/bare"
cp "$work/program" "$work/of-sun/Sun" && cp "$work/program" "$work/of-sun/etcdctl" && cp "$work/program" "$work/bare/Sun"
run env ETCD="$work/of-sun/Sun" || fail "another etcd is not started"
grep -qx 'server: Sun server' "$work/out" || fail "it isn't told"
says 1 '1 passed, 0 failed, 0 skipped'
program none 'etcd --version | grep -q Sun && [ "$(command -v etcdctl)" != "'"$work"'/log/server/etcdctl" ]'
run env ETCD="$work/bare/Sun" || fail "an etcdctl is made up"
if run env ETCD="$work/none"; then fail "an etcd that isn't there passes"; fi

# Where all was skipped nothing has passed.
program none 'exit 77'
if run env -u REDIS_SERVER; then fail "nothing but a skip passes"; fi
says 1 '0 passed, 0 failed, 1 skipped'
exit 0
