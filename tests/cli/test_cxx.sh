#!/bin/bash
# tidelock.hpp: it compiles without a warning, and does what it promises. ALL=1: with each compiler that is here, as each C++.
# timeout: 240
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
flags=(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Weffc++ -Wconversion -Werror -O1 -g "-I$here/include" -pthread)
if [[ -n ${SAN:-} ]]; then flags+=("-fsanitize=$SAN" -fno-sanitize-recover=all); fi
libs=$(pkg-config --libs hiredis uuid openssl jansson libnghttp2 2>/dev/null) || libs='-lhiredis -luuid -lssl -lcrypto -ljansson -lnghttp2'
libtidelock=$here/${BUILD:-build}/libtidelock.a

found=0
for cxx in g++ clang++; do
    command -v $cxx >/dev/null || { part_skipped $cxx "$cxx is not installed (Debian: g++, clang)" && continue; }
    # A build with sanitizers links only with the compiler that it was made by.
    own=g++
    if [[ ${CC:-cc} == clang* ]]; then own=clang++; fi
    if [[ -n ${SAN:-} && $cxx != "$own" ]]; then continue; fi
    if [[ ${ALL:-} != 1 ]] && ((found)); then continue; fi
    found=1
    for std in c++20 c++2b; do
        if [[ ${ALL:-} != 1 && $std != c++20 ]]; then continue; fi
        $cxx -std=$std "${flags[@]}" -fsyntax-only "$here/tests/cli/cxx_promises.cpp" >"$out" 2>"$err" || fail "$cxx, $std: $(head -20 "$err")"
    done
    # An older C++ is refused by one error.
    echo '#include <tidelock/tidelock.hpp>' >"$work/old.cpp"
    $cxx -std=c++14 "${flags[@]}" -fsyntax-only "$work/old.cpp" >"$out" 2>"$err" && fail "$cxx accepts C++14"
    [[ $(grep -c ' error: ' "$err") == 1 && $(<"$err") == *'requires C++17'* ]] || fail "$cxx, c++14: $(cat "$err")"
    # shellcheck disable=SC2086
    $cxx -std=c++17 "${flags[@]}" "$here/tests/cli/cxx_promises.cpp" "$libtidelock" $libs -lm -o "$work/promises" >"$out" 2>"$err" ||
        fail "$cxx: $(head -20 "$err")"
    timeout $run_limit "$work/promises" "$TIDELOCK_URL" >"$out" 2>"$err" || fail "$cxx: status $?: $(cat "$out")"
    [[ ! -s $out && ! -s $err ]] || fail "$cxx: it prints $(cat "$out")"
    [[ $(redis KEYS '*cxx:?' | grep -c '^cxx') == 0 ]] || fail "$cxx: a lock is left: $(redis KEYS '*')"
done
((found)) || { echo "there is no C++ compiler here" && exit 77; }
