#!/bin/bash
# The examples, built as their heads say against what `make install` has installed, do what they show.
# Those for a library's event loop are left out where the library is not installed.
. "$(dirname "$0")/lib.sh"

root=$work/root prefix=/opt/tidelock
examples=$root$prefix/share/doc/tidelock/examples
start_server

# The same variant as is being tested, which is built already.
variant=(CC="${CC:-cc}" SAN="${SAN:-}")
if [[ ${BUILD:-} == *nocompat* ]]; then variant+=(COMPAT=0); fi
(umask 077 && env -u COMPAT make -C "$here" -s --no-print-directory install DESTDIR="$root" PREFIX=$prefix "${variant[@]}" >"$out" 2>"$err") ||
    fail "make install: $(cat "$out")"
export PKG_CONFIG_PATH=$root$prefix/lib/pkgconfig:${PKG_CONFIG_PATH:-} PKG_CONFIG_SYSROOT_DIR=$root
export LD_LIBRARY_PATH=$root$prefix/lib

# Whatever umask root has, it is for all users.
closed=$(find "$root" \( -type f ! -perm -444 -o -type d ! -perm -555 \) -print)
[[ -z $closed ]] || fail "not for all users: $closed"

for file in "$here"/tools/monitoring/*; do
    cmp -s "$file" "$root$prefix/share/doc/tidelock/monitoring/${file##*/}" || fail "${file##*/} is not installed"
done

# What the pages link to is installed, too.
while IFS=: read -r page link; do
    [[ -e ${page%/*}/${link%%#*} ]] || fail "$page: there is no $link"
done < <(grep -roP --include='*.md' '\]\(\K(?!https?:|#)[^)]+' "$root$prefix/share/doc/tidelock")

# JSON is the tool's, and in the library etcd's, whose answers it reads: linked, where a static program finds it.
readelf -d "$root$prefix/bin/tidelock" | grep -q 'NEEDED.*libjansson' || fail "readelf doesn't show what the tool needs"
readelf -d "$root$prefix/lib/libtidelock.so" | grep -q 'NEEDED.*libjansson' || fail "the library can't read what etcd answers"
# Without it etcd is asked by its JSON gateway.
if pkg-config --exists libnghttp2 2>/dev/null && [[ ${HTTP2-} != 0 ]]; then
    readelf -d "$root$prefix/lib/libtidelock.so" | grep -q 'NEEDED.*libnghttp2' || fail "the library can't speak gRPC"
    [[ $(pkg-config --static --libs tidelock) == *nghttp2* ]] || fail "tidelock.pc doesn't name libnghttp2"
fi
[[ $(pkg-config --define-variable=prefix=/moved --libs tidelock) == *"/moved/lib "* ]] || fail "tidelock.pc can't be moved: $(pkg-config --define-variable=prefix=/moved --libs tidelock)"
[[ $(pkg-config --static --libs tidelock) == *jansson* ]] || fail "tidelock.pc doesn't name jansson"
[[ $(pkg-config --cflags tidelock) != *@(hiredis|uuid)* ]] || fail "its users get other headers' directories: $(pkg-config --cflags tidelock)"

# Both libraries show the names of the public headers alone.
if [[ -z ${SAN:-} ]]; then
    hidden=$(nm -g --defined-only "$root$prefix/lib/libtidelock.a" | awk 'NF == 3 && $3 !~ /^tl_[a-z]/ {print $3}')
    [[ -z $hidden ]] || fail "names of its own in libtidelock.a: $hidden"
fi

flags=(-Wall -Wextra -Werror -g)
if [[ -n ${SAN:-} ]]; then flags+=("-fsanitize=$SAN"); fi

link() { # example, more for the linker...
    local name=$1
    shift
    "${CC:-cc}" "${flags[@]}" $(pkg-config --cflags tidelock) "$examples/$name.c" -o "$work/$name" "$@" >"$out" 2>"$err" ||
        fail "$name.c does not build"
}

build() { # example
    # shellcheck disable=SC2046
    link "$1" $(pkg-config --libs tidelock) -pthread
}

run() { # example, expected output as a pattern
    timeout $((120 * slow)) "$work/$1" "$TIDELOCK_URL" "example:$1" >"$out" 2>"$err" || fail "$1 ends with $?"
    # shellcheck disable=SC2053
    [[ $(<"$out") == $2 ]] || fail "$1 says: $(<"$out")"
    [[ ! -s $err ]] || fail "$1 complains"
    [[ $(redis EXISTS "example:$1") == 0 ]] || fail "$1 leaves its lock behind"
}

try() { # example, expected output
    build "$1"
    run "$@"
}

try simple $'step 1, fence *\nstep 2, fence *\nstep 3, fence *\ndone'
# In C++, where its compiler is.
cxx=g++
if [[ ${CC:-cc} == clang* ]]; then cxx=clang++; fi
if command -v $cxx >/dev/null; then
    # shellcheck disable=SC2046
    $cxx -std=c++17 "${flags[@]}" $(pkg-config --cflags tidelock) "$examples/guard.cpp" -o "$work/guard" $(pkg-config --libs tidelock) \
        -pthread >"$out" 2>"$err" || fail "guard.cpp does not build"
    run guard $'step 1, fence *\nstep 2, fence *\nstep 3, fence *\ndone'
else
    part_skipped guard "$cxx is not installed (Debian: g++, clang)"
fi
try blocking $'held for the next @(10 s|while)\nstored 300\nreleased' # a second may have gone by
try threads 'counted to 200'
try metrics '*tidelock_held_now 1*tidelock_hold_seconds_count 0'

# Once in a period: who comes later finds it done, and who waits for one that fails does it.
once() { # expected output
    timeout $((120 * slow)) "$work/once" "$TIDELOCK_URL" example:once 3600 >"$out" 2>"$err" || depth=1 fail "once ends with $?"
    # shellcheck disable=SC2053
    [[ $(<"$out") == $1 ]] || depth=1 fail "once says: $(<"$out")"
    [[ ! -s $err ]] || depth=1 fail "once complains"
}
build once
once 'working, fence *'
once 'done by once example on *'
[[ $(redis GET example:once) == resting\ * && $(redis PTTL example:once) -gt 3400000 ]] || fail "once leaves $(redis GET example:once)"
"$tidelock" break --yes example:once 2>"$err" || fail "the rest isn't ended"
"$tidelock" run example:once -- sleep 1
once 'working, fence *'

# Three processes in one line, at Redis and at an etcd.
in_line() { # URL
    timeout $((240 * slow)) "$work/in_line" "$1" example:line "$work/counter" >"$out" 2>"$err" || fail "in_line ends with $?"
    [[ $(tail -n 1 "$out") == 'counted to 30' && $(cut -d ' ' -f 1 "$work/counter") == 30 ]] || fail "in_line says: $(<"$out")"
    [[ $(grep -cE '^process [123], turn +([1-9]|10), fence [0-9]+: [0-9]+$' "$out") == 30 ]] || fail "in_line says: $(<"$out")"
    for who in 1 2 3; do [[ $(grep -c "^process $who, " "$out") == 10 ]] || fail "in_line's turns: $(<"$out")"; done
    sed -n 's/.*fence \([0-9]*\):.*/\1/p' "$out" | sort -n -u -c || fail "a fence went back: $(<"$out")"
    [[ ! -s $err ]] || fail "in_line complains"
}
build in_line
in_line "$TIDELOCK_URL"
if command -v etcd >/dev/null; then
    url=$(TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo etcd 2>"$err") || fail "no etcd"
    in_line "$url"
    TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo stop || fail "the etcd was not ended"
else
    part_skipped "in_line on etcd" "there is no etcd (Debian: etcd-server)"
fi
try epoll $'round 1: held, fence *\nround 2: held, fence *\nround 3: held, fence *'

# Statically too, with what tidelock.pc names for that.
link simple "$root$prefix/lib/libtidelock.a" $(pkg-config --static --libs-only-l tidelock | sed 's/-ltidelock//') -pthread
LD_LIBRARY_PATH= run simple $'step 1, fence *\nstep 2, fence *\nstep 3, fence *\ndone'

# A lock that is held elsewhere is waited for, and not had. (Its last look may begin too late to be answered.)
redis SET example:simple "another's" >/dev/null
for _ in 1 2 3; do
    timeout $((120 * slow)) "$work/simple" "$TIDELOCK_URL" example:simple >"$out" 2>"$err" &&
        fail "simple took another's lock"
    [[ $(redis GET example:simple) == "another's" ]] || fail "simple touched another's lock"
    grep -q 'no reply in' "$err" || break
done
grep -q 'another holds it' "$err" || fail "simple does not say why"

# Without the sysroot, which those libraries are not in.
loop() { # example, the library's name for pkg-config, its package
    local its
    its=$(env -u PKG_CONFIG_SYSROOT_DIR pkg-config --cflags --libs "$2" 2>/dev/null) || {
        part_skipped "loop_$1" "$2 is not installed (Debian: $3)"
        return 0
    }
    # shellcheck disable=SC2046,SC2086
    link "loop_$1" $its $(pkg-config --libs tidelock) -pthread
    run "loop_$1" $'held\nreleased'
}
if [[ ${SAN:-} != *thread* ]]; then # their own code is not built for it
    loop uv libuv libuv1-dev
    loop event libevent libevent-dev
    loop glib glib-2.0 libglib2.0-dev
fi

# What was installed is gone, and nothing else: no page of others, and nothing in a directory whose name a space ends.
uninstall() { # DESTDIR, PREFIX
    env -u COMPAT make -C "$here" -s --no-print-directory uninstall DESTDIR="$1" PREFIX="$2" "${variant[@]}" >"$out" 2>"$err"
}
others=$prefix/share/man/man3/tl_others.3
echo '.TH tl_others 3 2026-01-01 "thin layers 1.0"' >"$root$others"
uninstall "$root" $prefix || fail "make uninstall: $(cat "$err")"
uninstall "$root b" $prefix || fail "make uninstall: $(cat "$err")"
left=$(cd "$root" && find . -type f)
[[ $left == ".$others" ]] || fail "make uninstall leaves $left"
left=$(cd "$root" && find . -type d -empty)
[[ -z $left ]] || fail "make uninstall leaves directories with nothing in them: $left"
for unclear in opt "/opt/a b" ""; do
    if uninstall "$root" "$unclear"; then fail "PREFIX=$unclear is neither absolute nor one path"; fi
done
# Of an empty path all of DESTDIR would be removed, and files put there.
for empty in PREFIX LIBDIR BINDIR MANDIR DOCDIR JAVADIR UNITDIR BASHCOMP ZSHCOMP FISHCOMP; do
    for what in install uninstall; do
        if make -n -C "$here" $what DESTDIR="$root" PREFIX=$prefix $empty= >"$out" 2>"$err"; then fail "make $what takes an empty $empty"; fi
        grep -q "make $what: $empty must be an absolute path without spaces: \"\"" "$err" || fail "make $what, $empty="
    done
done
