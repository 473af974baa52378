#!/bin/bash
# No circle of calls between modules; and the lint that says so bites.
# Only in make check-all: it is about changes to come.
set -u
cd "$(dirname "$0")/../.." || exit 1
lint=$PWD/tests/lint/circles.sh
failed=0

"$lint" "${BUILD:-build}/obj" || failed=1

tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
cd "$tree" || exit 1

write() { # file without .c, its text
    mkdir -p "${1%/*}" "obj/${1%/*}"
    echo "$2" >"$1.c"
    ${CC:-cc} -c "$1.c" -o "obj/$1.o" || failed=1
}
bites() { # what the finding must name
    if "$lint" obj >out || ! grep -q "$1" out; then echo "not noticed: $1" && cat out && failed=1; fi
}
passes() {
    "$lint" obj >out || { cat out && failed=1; }
}

write src/a 'int b(void); int a(void) { return b(); }'
write src/b 'int c(void); int b(void) { return c(); }'
write tools/c 'int c(void) { return 0; }'
passes
write tools/c 'int a(void); int c(void) { return a(); }'
bites 'src/a src/b tools/c\|src/b tools/c src/a\|tools/c src/a src/b'
write tools/c 'extern int table; int table2; int *c(void) { return &table; }'
write src/a 'int b(void); int table; int a(void) { return b(); }'
bites src/a
rm -rf src tools obj
write src/client/keeper 'int b(void); int a(void) { return b(); }'
write src/client/keeper_more 'int a(void); int b(void) { return a(); }'
passes
rm -rf src obj
mkdir obj
if "$lint" obj >out; then echo "no objects are no reason to be content" && failed=1; fi
exit $failed
