#!/bin/bash
# All lints, each labelled; ends with "N passed, N failed". Run it by `make lint`, which makes the
# generated sources and the library's objects, and passes GEN, BUILD, CPPFLAGS, LUA_CPPFLAGS and JOBS.
set -u
cd "$(dirname "$0")/../.." || exit 1
GEN=${GEN:-build/gen} BUILD=${BUILD:-build} JOBS=${JOBS:-1}
passed=0 failed=0

mapfile -t sources < <(find src compat tools tests -name '*.c' 2>/dev/null | sort)
mapfile -t shipped < <(find src compat tools -name '*.c' ! -name 'loop_*' 2>/dev/null | sort) # those want libraries
mapfile -t all < <(find include src compat tools tests -name '*.[ch]' 2>/dev/null | sort)
compat=()
if [[ -d compat ]]; then
    compat=(-DTL_COMPAT=1 -iquote compat -Ibuild/lint)
    mkdir -p build/lint/tidelock # where programs find it once it is installed
    ln -sf ../../../compat/distribute_lock_util.h build/lint/tidelock/
fi
read -ra extra <<<"${CPPFLAGS:-} ${LUA_CPPFLAGS:--I/usr/include/lua5.1}"
# With guards that can be removed: else it would find conditions that are always true.
flags=(-std=c11 -D_GNU_SOURCE -DTL_GUARDS -Wall -Wextra -Iinclude -iquote src -iquote "$GEN" "${compat[@]}"
    -iquote tools -iquote tests/lib -iquote tests/sim "${extra[@]}")

lint() { # label, command...
    local label=$1 start=$SECONDS
    shift
    if "$@"; then
        passed=$((passed + 1))
        echo "ok    lint $label ($((SECONDS - start)) s)"
    else
        failed=$((failed + 1))
        echo "FAIL  lint $label ($((SECONDS - start)) s)"
    fi
}

# Nothing to look at is nothing wrong.
each() { [[ ${#list[@]} == 0 ]] || printf '%s\0' "${list[@]}" | xargs -0 "$@"; }

format() {
    mapfile -t list < <(find include tools tests -name '*.[ch]pp' | sort)
    list+=("${all[@]}")
    ! each clang-format --dry-run 2>&1 | sed -n 's/^\([^ :]*:[0-9]*\):.*clang-format-violations.*/\1: not laid out by .clang-format (make format does it)/p' |
        sort -u -t: -k1,1 | grep .
}

# Only what ships: it is slow, and the tests are run under sanitizers instead. Its analyzer follows few paths at first
# (DEEP=1: all that it can, in ten times as long). A file is looked at again when it has changed, or a header that it includes,
# or how it is looked at: build/lint/tidy has what was well.
deep=(-Xclang -analyzer-config -Xclang mode=shallow)
if [[ -n ${DEEP:-} ]]; then deep=(); fi
tidy_one() { # flags..., file
    local file=${*: -1} with=("${@:1:$#-1}") stamp said
    stamp=build/lint/tidy/$( (echo "${with[*]}"; clang-tidy --version; cat .clang-tidy
        clang "${with[@]}" -MM "$file" | tr -d '\\\n' | sed 's/^[^:]*://' | xargs cat) | sha256sum | cut -c1-40)
    if [[ -e $stamp ]]; then return; fi
    # What it found is on stdout; stderr only counts what it left out.
    said=$(clang-tidy --quiet "$file" -- "${with[@]}" 2>/dev/null) && [[ -z $said ]] && touch "$stamp" && return
    echo "$said"
    return 1
}
export -f tidy_one
tidy() {
    list=("${shipped[@]}")
    mkdir -p build/lint/tidy
    # shellcheck disable=SC2016
    each -n 1 -P "$JOBS" bash -c 'tidy_one "$@"' tidy "${flags[@]}" "${deep[@]}"
}

check() {
    list=("${sources[@]}")
    if [[ -z ${DEEP:-} ]]; then mapfile -t list < <(printf '%s\n' "${sources[@]}" | grep -v '^tests/[^ls]'); fi # but lib, legacy and sim
    mkdir -p build/cppcheck
    # An error that is told has been filled by the call that failed; of that no comment in the source can convince it with -j.
    each cppcheck -q -j "$JOBS" --cppcheck-build-dir=build/cppcheck --std=c11 --language=c --inline-suppr \
        --error-exitcode=1 --enable=warning,portability,performance --suppress=missingIncludeSystem \
        --suppress=unmatchedSuppression --suppress=ctuPointerArith --suppress=ctuuninitvar:tools/link/lacking.c --library=posix -D_GNU_SOURCE -DTL_GUARDS -DTL_COMPAT=1 -Iinclude -Isrc \
        -I"$GEN" -Icompat -Itools -Ibuild/lint -Itests/lib -Itests/sim --template='{file}:{line}: {id}: {message}' 2>&1
}

# Each public header alone, as C11 and as C++17.
header() {
    local strict=(-Wall -Wextra -Wpedantic -Werror -Iinclude -Ibuild/lint -fsyntax-only) h
    for h in include/tidelock/*.h compat/distribute_lock_util.h; do
        [[ -e $h ]] || continue
        clang -std=c11 "${strict[@]}" -x c - <<<"#include <tidelock/${h##*/}>" &&
            clang++ -std=c++17 "${strict[@]}" -x c++ - <<<"#include <tidelock/${h##*/}>" || return 1
    done
    clang++ -std=c++17 "${strict[@]}" -x c++ - <<<"#include <tidelock/tidelock.hpp>"
}

lint floors tests/lint/floors.sh
lint words tests/lint/words.py
lint names tests/lint/names.sh
lint kinds tests/lint/kinds.sh
lint seams tests/lint/seams.sh . "$BUILD/obj"
lint circles tests/lint/circles.sh "$BUILD/obj"
lint header header
lint format format
lint cppcheck check
lint clang-tidy tidy

echo "$passed passed, $failed failed"
((failed == 0))
