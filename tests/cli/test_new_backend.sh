#!/bin/bash
# A kind of server more is a file of its own and a line in three others: the kinds of URLs, their schemes, the rows. Here it
# is the memory of the process (new_backend/backend_memory.c), and what every kind must do it does.
# Only in make check-all: it builds the library once more.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
if [[ ${VALGRIND:-} == 1 ]]; then echo "there is nothing for valgrind to see" && exit 77; fi

copy=$work/copy
mkdir "$copy"
(cd "$here" && find Makefile include src tools/need.sh tools/*.in -type f -print0 2>/dev/null | xargs -0 cp --parents -t "$copy") ||
    fail "the tree can't be copied"
cp -r "$copy/src" "$work/before"
cp "$here/tests/cli/new_backend/backend_memory.c" "$copy/src/client/"

add() { # file, line after which, what
    grep -qF -- "$2" "$copy/src/$1" || fail "$1 has no line \"$2\""
    awk -v line="$2" -v more="$3" '{ print } index($0, line) && !said { print more; said = 1 }' "$copy/src/$1" >"$work/new" &&
        mv "$work/new" "$copy/src/$1"
}
add transport/endpoint.h '    TL_URL_LOCAL,' '    TL_URL_MEMORY,'
add transport/endpoint.c '} schemes[] = {' '    {.name = "memory:", .parse = parse_memory, .kind = TL_URL_MEMORY},'
awk '/^static const struct scheme/ && !said { print "static bool parse_memory(parse *p, tl_bytes text) {\n    return text.n < sizeof p->to->host && memcpy(p->to->host, \"memory\", 7);\n}\n"; said = 1 } { print }' \
    "$copy/src/transport/endpoint.c" >"$work/new" && mv "$work/new" "$copy/src/transport/endpoint.c"
add client/backend.h '#define TL_BACKENDS(ROW) ' '    ROW(TL_URL_MEMORY, memory) \'

touched=$(diff -rq "$work/before" "$copy/src" | grep -c '^Files ')
((touched <= 3)) || fail "$touched existing files were touched"

make=(env -u BUILD -u COMPAT -u ONLY -u MAKEFLAGS -u SAN make -s -C "$copy" -j2 TLS=0 COMPAT=0 CFLAGS=-O0)
"${make[@]}" lib >"$out" 2>&1 || fail "it doesn't build: $(tail -n 5 "$out")"
lib=$(find "$copy/build" -name libtidelock.a | head -n 1)
read -ra libs <<<"$(pkg-config --libs hiredis uuid jansson libnghttp2 2>/dev/null || echo -lhiredis -luuid -ljansson -lnghttp2)"
"${CC:-cc}" -Wall -Wextra -Werror -I"$copy/include" "$here/tests/cli/new_backend/program.c" "$lib" "${libs[@]}" -pthread -ldl -lm \
    -o "$work/program" >"$out" 2>&1 || fail "the program isn't built: $(tail -n 5 "$out")"
"$work/program" memory: >"$out" 2>&1 || fail "$(cat "$out")"
# The same program, and what it checks, on a server of which there is one.
start_server
"$work/program" "$TIDELOCK_URL" >"$out" 2>&1 || fail "on a Redis server: $(cat "$out")"
