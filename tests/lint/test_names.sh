#!/bin/bash
# Only in make check-all: it is about the project's own pages.
# Each name in backticks is that of something, and each rule is shown to bite: a function, a test, a file, a member, a guard.
set -u
cd "$(dirname "$0")/../.." || exit 1
lint=$PWD/tests/lint/names.sh
failed=0

"$lint" || failed=1

tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{src/wire,tests/unit}
printf 'typedef struct { int until; } tl_hold;\nstatic int keep(void) { return tl__keep_it(h.until); }\n' >"$tree/src/wire/keep.c"
printf 'GUARD(late_reply)\n' >"$tree/tests/unit/test_keep.c"

bites() { # a line of a page, what is found
    printf '%s\n' "$1" >"$tree/src/README.md"
    if "$lint" "$tree" >"$tree/out" || ! grep -q "^src/README.md:1: \`$2\`: no such " "$tree/out"; then
        echo "not noticed: $1"
        cat "$tree/out"
        failed=1
    fi
}
passes() { # a line of a page
    printf '%s\n' "$1" >"$tree/src/README.md"
    "$lint" "$tree" || { echo "refused for nothing: $1" && failed=1; }
}

bites 'It is kept by `kept()`.' kept
bites 'It is kept by `tl__kept_it()`.' tl__kept_it
bites 'See `unit/test_kept`.' unit/test_kept
bites 'See `wire/kept.c`.' wire/kept.c
bites 'See `kept.c` and `wire/keep.c`.' kept.c
bites 'It is in `tl_hold.till`.' tl_hold.till
bites 'The guard is `late_answer`.' late_answer
passes 'It is kept by `keep()`, and by `tl__keep_it`, until `tl_hold.until`.'
passes 'See `unit/test_keep`, `src/wire/keep.c`, `wire/keep`, `keep.c` and `src/wire`.'
passes 'The guard is `late_reply`; `--on-lost`, `K`, `/etc/x_y`, `fuzz_NAME.c` and `build/a_b` are none.'
((failed == 0))
