#!/bin/bash
# The library is built without OpenSSL, jansson and legacy clients, and says what it lacks when a URL asks for it. A warning
# ends the build of a clone, and not that of a release.
# Only in make check-all: it builds the library once more.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
if [[ ${VALGRIND:-} == 1 ]]; then echo "there is nothing for valgrind to see" && exit 77; fi

copy=$work/copy
mkdir "$copy"
(cd "$here" && find Makefile include src compat tools/need.sh -type f -print0 | xargs -0 cp --parents -t "$copy") || fail "the tree can't be copied"
make=(env -u BUILD -u COMPAT -u ONLY -u MAKEFLAGS -u SAN -u WERROR make -C "$copy" -j2 CFLAGS=-O0)
warns() { "${make[@]}" -n V=1 "$@" | grep -q -- ' -Werror .*-c '; }
warns lib && fail "a release ends at a warning"
mkdir "$copy/.git"
warns lib || fail "a clone doesn't end at a warning"
rm -r "$copy/.git"

"${make[@]}" -s WERROR=1 TLS=0 JSON=0 COMPAT=0 lib >"$out" 2>"$err" || fail "it isn't built: $(tail -n 5 "$err")"
[[ ! -s $err ]] || fail "it complains of what was not wanted: $(cat "$err")"
lib=$(find "$copy/build" -maxdepth 2 -name libtidelock.a)
cat >"$work/open.c" <<'END'
#include <stdio.h>
#include <tidelock/tidelock.h>
int main(int argc, char **argv) {
    tl_error err;
    tl_client *client;
    for (int i = 1; i < argc; i++)
        if (tl_client_open(&TL_CLIENT_OPTIONS(.url = argv[i]), &client, &err))
            puts(err.message);
}
END
read -ra libs <<<"$(pkg-config --libs hiredis uuid 2>/dev/null || echo -lhiredis -luuid)"
"${CC:-cc}" -Wall -Wextra -Werror -I"$copy/include" "$work/open.c" "$lib" "${libs[@]}" -pthread -ldl -lm -o "$work/open" >"$out" 2>"$err" ||
    fail "the program isn't built: $(tail -n 5 "$err")"
"$work/open" redis://127.0.0.1 rediss://127.0.0.1 etcd://127.0.0.1 >"$out" 2>"$err"
[[ $(wc -l <"$out") == 2 ]] || fail "lines: $(cat "$out")"
grep -q 'rediss: .TLS. is not in this build, .*libssl-dev' "$out" || fail "no TLS: $(cat "$out")"
grep -q 'etcd: is not in this build, .*libjansson-dev' "$out" || fail "no etcd: $(cat "$out")"
