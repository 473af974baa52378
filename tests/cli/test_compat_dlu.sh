#!/bin/bash
# The drop-in for DistributeLockUtil as a program finds it: what `make install` has installed builds
# the example of the guide, as C and as C++, and the example does what it says.
source "$(dirname "$0")/lib.sh"
root=$work/root
start_server

# What is being tested, which is built already.
variant=(CC="${CC:-cc}" SAN="${SAN:-}")
env -u COMPAT -u BUILD -u MAKEFLAGS make -C "$here" -s --no-print-directory install DESTDIR="$root" PREFIX=/opt/tidelock \
    "${variant[@]}" >"$out" 2>"$err" || fail "make install"
export PKG_CONFIG_PATH=$root/opt/tidelock/lib/pkgconfig:${PKG_CONFIG_PATH:-} PKG_CONFIG_SYSROOT_DIR=$root
export LD_LIBRARY_PATH=$root/opt/tidelock/lib
read -ra flags <<<"-Wall -Wextra -Werror ${SAN:+-fsanitize=$SAN} $(pkg-config --cflags tidelock)"
read -ra libs <<<"$(pkg-config --libs tidelock)"
"${CC:-cc}" "${flags[@]}" "$root/opt/tidelock/share/doc/tidelock/examples/nightly.c" "${libs[@]}" -o "$work/nightly" >"$out" 2>"$err" ||
    fail "the example does not build"

# The same for Java, where it was built.
jar=$here/${BUILD:-build}/tidelock-java.jar
[[ ! -e $jar ]] || cmp -s "$jar" "$root/opt/tidelock/share/java/tidelock.jar" || fail "the jar is not installed"

# All of it, and the lock is given back.
printf 'one\ntwo\n' | timeout $run_limit "$work/nightly" "$TIDELOCK_URL" jobs:nightly >"$out" 2>"$err" || fail "status $?"
[[ $(<"$out") == $'one\ntwo' && ! -s $err ]] || fail "it says: $(<"$out")"
assert_free jobs:nightly

# What a Java service holds is not touched.
stamp=$(($(now_ms) + 600000))
[[ $(redis SETNX jobs:nightly $stamp) == 1 ]] || fail "SETNX"
expect 75 "$work/nightly" "$TIDELOCK_URL" jobs:nightly
grep -q '^nightly: acquire jobs:nightly: another holds it$' "$err" || fail "it does not say why"
[[ $(redis GET jobs:nightly) == "$stamp" ]] || fail "another's lock was touched"

expect 69 "$work/nightly" unix:///nowhere/redis.sock jobs:nightly
expect 64 "$work/nightly"

# As C++, where there is a compiler for it.
if command -v c++ >/dev/null; then
    c++ -x c++ -fsyntax-only "${flags[@]}" "$root/opt/tidelock/share/doc/tidelock/examples/nightly.c" 2>"$err" || fail "it is no C++"
else
    part_skipped "nightly.c as C++" "c++ is not installed (Debian: g++)"
fi

# Each piece of C in the guide is C.
awk '/^```c$/ { printf "void piece_%d(void) {\n", ++n; inside = 1; next }
    /^```$/ { if (inside) print "}"; inside = 0 }
    inside' "$root/opt/tidelock/share/doc/tidelock/MIGRATION.md" >"$work/pieces"
cat - "$work/pieces" >"$work/guide.c" <<'C'
#include <tidelock/distribute_lock_util.h>
extern tl_dlu *locks;
extern tl_error err;
extern const char *key;
void die(const char *words);
bool more_work(void);
void do_a_little(void);
void write_row(uint64_t fence);
C
[[ $(grep -c '^void piece_' "$work/guide.c") -ge 5 ]] || fail "the guide has no C"
"${CC:-cc}" -fsyntax-only "${flags[@]}" -Wno-unused-variable -Wno-unused-but-set-variable "$work/guide.c" >"$out" 2>"$err" ||
    fail "the guide's C does not compile"

# Without compat/ in the build nothing of it is installed.
if env -u BUILD -u MAKEFLAGS make -n -C "$here" COMPAT=0 install DESTDIR="$root" 2>/dev/null |
    grep -qE 'install .* compat/'; then
    fail "COMPAT=0 installs the header"
fi
