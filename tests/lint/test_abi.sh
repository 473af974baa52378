#!/bin/bash
# The library is what the record of its interface says; and each change that an old program would notice is shown to
# be refused, in copies of the headers and in a library of empty functions. make abi-record accepts additions alone.
# Only in make check-all: it is about changes to come.
set -u
cd "$(dirname "$0")/../.." || exit 1
lint=$PWD/tests/lint/abi.sh recorded=$PWD/tests/lint/abi.txt library=${BUILD:-build}/libtidelock.so
export CC=${CC:-cc} COMPAT=${COMPAT:-1}
failed=0

[[ -z ${SAN:-} ]] || { echo "what a sanitizer adds is no interface" && exit 77; }
"$lint" . "$library" "$recorded" >/dev/null || "$lint" . "$library" "$recorded" || failed=1
if "$lint" . "$library" "$recorded" | grep '^skipped'; then exit 77; fi
library=$(realpath "$library")

tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
cd "$tree" || exit 1
main=$OLDPWD

fresh() {
    rm -rf include compat
    mkdir -p include compat
    cp -R "$main/include/tidelock" include/
    [[ $COMPAT == 0 ]] || cp "$main/compat/distribute_lock_util.h" compat/
    cp "$recorded" abi.txt
    lib=$library
}
complain() {
    echo "$1"
    cat out
    failed=1
}
edit() { # header, sed script
    cp "include/tidelock/$1" before
    sed -i "$2" "include/tidelock/$1"
    if cmp -s before "include/tidelock/$1"; then echo "nothing to edit in $1: $2" && failed=1; fi
}
compare() { "$lint" . "$lib" abi.txt >out 2>&1; }
record() { "$lint" --record . "$lib" abi.txt >out 2>&1; }

# Both refuse it and say what it is; the record stays as it was, but with BREAKING=1 has it.
breaks() { # what the finding must say
    if compare || ! grep -q "^breaks: .*$1" out; then complain "not noticed: $1"; fi
    if record || ! grep -q "^breaks: .*$1" out || ! cmp -s "$recorded" abi.txt; then complain "recorded: $1"; fi
    BREAKING=1 record && compare || complain "cannot be recorded at all: $1"
    fresh
}
# It fails until it is recorded, which works.
is_new() { # what the finding must say
    if compare || ! grep -q "^new: .*$1" out || grep -q '^breaks' out; then complain "not taken as new: $1"; fi
    record && compare || complain "not recorded: $1"
    fresh
}
# It can't be recorded.
is_wrong() { # what the finding must say
    if compare || BREAKING=1 record || ! grep -q "$1" out; then complain "not refused: $1"; fi
    cmp -s "$recorded" abi.txt || complain "recorded: $1"
    fresh
}

# A library that exports what the record has, changed by a sed script.
stub() { # sed script on the names, one a line
    local without='^-'
    [[ $COMPAT != 0 ]] || without='^(legacy|distribute_lock_util)\.h '
    grep -vE "$without" "$recorded" | sed -n 's/.* symbol \(.*\)@@.*/\1/p' | sed "$1" | sed 's/.*/void &(void) {}/' >stub.c
    $CC -shared -fPIC -w "-Wl,--version-script=${2:-$main/src/tidelock.map}" stub.c -o stub.so || failed=1
    lib=$tree/stub.so
}

fresh
stub ''
compare || complain "the library of empty functions differs"
fresh

h=tidelock.h
edit $h 's/^#define TL_VERSION_NUMBER 9/&1/'
compare || complain "a new version counts as a change"
fresh
edit $h 's/INT64_C(8) <</INT64_C(16) <</'
breaks 'was "macro TL_STATS_BUCKET_US (i) (INT64_C(8) << (i))"'
stub '/^tl_lock_extend$/d'
edit $h '/^tl_err tl_lock_extend(/d'
breaks 'gone: "symbol tl_lock_extend@@TIDELOCK_0"'
sed 's/TIDELOCK_0/TIDELOCK_1/' "$main/src/tidelock.map" >next.map
stub '' "$tree/next.map"
breaks 'gone: "symbol tl_version@@TIDELOCK_0"'
edit $h 's/^tl_err tl_lock_acquire(tl_lock \*lock, int64_t/tl_err tl_lock_acquire(tl_lock *lock, int32_t/'
breaks 'was "function tl_lock_acquire tl_err (tl_lock \*, int64_t, tl_error \*)"'
edit $h 's/^typedef void (\*tl_done_fn)(tl_lock \*lock, /&int more, /'
breaks 'type tl_done_fn'
edit $h 's/TL_LOST_TAKEN, .*/TL_LOST_ROUND, TL_LOST_TAKEN,/'
breaks 'was "enum tl_lost_why.TL_LOST_TAKEN = 2", is .* = 3'
edit $h 's/TL_EDENIED = 10,.*//'
breaks 'gone: "enum tl_err.TL_EDENIED = 10"'
edit $h 's/^#define TL_TOKEN_SIZE 37/#define TL_TOKEN_SIZE 41/'
breaks 'constant TL_TOKEN_SIZE'
edit $h 's/^#define TL_LOCK_OPTIONS(/#define TL_LOCK_OPTS(/'
breaks 'gone: "macro TL_LOCK_OPTIONS '
edit $h 's/^    const char \*url; /    const char *password; /; t; s/^    const char \*password; /    const char *url; /'
breaks 'was "member tl_client_options.url offset 8 .* offset 16 '
edit $h 's/^    int32_t drift_ppm; /    uint32_t drift_ppm; /'
breaks 'was "member tl_client_options.drift_ppm .* int32_t", is .* uint32_t'
edit $h 's/^    void \*retry_ctx;/    int not_alone;\n&/'
breaks 'was "member tl_lock_options.retry_ctx'
edit $h 's/^    bool manual_renew; /    bool in_padding;\n&/'
breaks 'member tl_lock_options.in_padding .* padding'
edit $h 's/^    const struct tl_legacy_options \*legacy; .* this key .*//'
breaks 'was "struct tl_lock_options sizeof 136", is .* 128'
edit $h 's/^} tl_error;/    int more;\n&/'
breaks 'tl_error grew from 252 to 256 bytes, but does not begin with size'
edit $h 's/^} tl_error;/    int more;\n&/'
breaks 'new member tl_error.more of a struct that does not begin with size'
edit inspect.h 's/^    char dialect\[24\];/&\n    bool in_padding;/'
breaks 'new member tl_lock_info.in_padding at offset 461'
mv include/tidelock/inspect.h moved
grep -v tl_client_scan moved >include/tidelock/inspect.h # a piece of its prototype is left
if compare || ! grep -q 'cannot read this declaration' out; then complain "an odd declaration is passed over"; fi
fresh

stub '$a tl_lock_more'
edit $h 's/^tl_err tl_lock_extend(/tl_err tl_lock_more(tl_lock *lock);\n&/'
is_new 'function tl_lock_more tl_err (tl_lock \*)'
edit $h 's/^    TL_ABOUT_LEGACY = 3/&, TL_ABOUT_MORE = 4/'
is_new 'enum tl_about.TL_ABOUT_MORE = 4'
edit $h 's/^} tl_lock_options;/    int64_t more_ms;\n&/'
is_new 'tl_lock_options grew from 136 to 144 bytes'

stub '$a tl_lock_more'
is_wrong 'tl_lock_more@@TIDELOCK_0: exported, but no public header declares it'
edit $h 's/^tl_err tl_lock_extend(/tl_err tl_lock_more(tl_lock *lock);\n&/'
is_wrong 'tl_lock_more is declared, but the library does not export it'

# Without what legacy clients need its lines stay as they are.
COMPAT=0
stub '$a tl_lock_more'
edit $h 's/^tl_err tl_lock_extend(/tl_err tl_lock_more(tl_lock *lock);\n&/'
record && grep -q '^legacy.h symbol tl_dialect_at@@' abi.txt && grep -q '^tidelock.h symbol tl_lock_more@@' abi.txt ||
    complain "a record made without compat lacks lines"

exit $failed
