#!/bin/bash
# A CMake project finds what `make install` has installed, wherever that is moved, and links both targets.
. "$(dirname "$0")/lib.sh"
command -v cmake >/dev/null || { echo "cmake is not installed" && exit 77; }

root="$work/the root" prefix=/opt/tidelock project=$work/project
start_server

# The same variant as is being tested, which is built already.
variant=(CC="${CC:-cc}" SAN="${SAN:-}")
if [[ ${BUILD:-} == *nocompat* ]]; then variant+=(COMPAT=0); fi
env -u COMPAT make -C "$here" -s --no-print-directory install DESTDIR="$root" PREFIX=$prefix "${variant[@]}" >"$out" 2>"$err" ||
    fail "make install: $(cat "$out")"
mv "$root$prefix" "$work/moved"
version=$("$tidelock" --version | sed -n 's/^tidelock \([0-9.]*\).*/\1/p')

mkdir -p "$project"
cp "$here/tools/examples/simple.c" "$project/"
write_project() { # version or components asked for
    cat >"$project/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.10)
project(uses_tidelock C)
find_package(tidelock $1 CONFIG REQUIRED)
find_package(tidelock $1 CONFIG REQUIRED) # a second time does no harm
add_executable(shared simple.c)
target_link_libraries(shared PRIVATE tidelock::tidelock)
add_executable(fixed simple.c)
target_link_libraries(fixed PRIVATE tidelock::static)
END
    rm -rf "$project/build"
}

configure() {
    CFLAGS=${SAN:+-fsanitize=$SAN} cmake -S "$project" -B "$project/build" -DCMAKE_C_COMPILER="${CC:-cc}" -DCMAKE_PREFIX_PATH="$work/moved" >"$out" 2>"$err"
}

write_project "$version"
configure || fail "cmake: $(cat "$err")"
cmake --build "$project/build" >"$out" 2>"$err" || fail "cmake --build: $(cat "$err")"
for program in shared fixed; do
    timeout $run_limit "$project/build/$program" "$TIDELOCK_URL" "cmake:$program" >"$out" 2>"$err" || fail "$program ends with $?"
done
readelf -d "$project/build/shared" | grep -q 'NEEDED.*libtidelock.so' || fail "the shared library isn't used"
if readelf -d "$project/build/fixed" | grep -q libtidelock; then fail "the static library isn't used"; fi

# Debian's /lib is a link to /usr/lib: CMake finds the library there where PATH names /bin before /usr/bin.
ln -s moved/lib "$work/lib" && mkdir "$work/bin"
rm -rf "$project/build"
PATH=$work/bin:$PATH CFLAGS=${SAN:+-fsanitize=$SAN} cmake -S "$project" -B "$project/build" -DCMAKE_C_COMPILER="${CC:-cc}" >"$out" 2>"$err" ||
    fail "cmake, by a link to the library's directory: $(cat "$err")"

# Components are the targets' names.
write_project "COMPONENTS tidelock static"
if ! configure; then fail "both components were asked for: $(cat "$err")"; fi
write_project "COMPONENTS dynamic"
if configure; then fail "a component that doesn't exist was found"; fi
grep -q "no component 'dynamic'" "$err" || fail "a component that doesn't exist: $(cat "$err")"
write_project "OPTIONAL_COMPONENTS dynamic"
configure || fail "what need not be there was missing: $(cat "$err")"

# Before 1.0 the next minor version may break programs.
minor=$(cut -d. -f2 <<<"$version")
before=0.$((minor - 1)) after=0.$((minor + 1))
for other in 99.0 "$after" "$before" "$before...<$version" "$before...$before.9" "$after...1.0" "${version%.*}.999"; do
    write_project "$other"
    if configure; then fail "$other was asked for, and $version was found"; fi
done
for same in "${version%.*}" "$version EXACT" "$before...$version" "$before...<$after" "$version...1.0"; do
    write_project "$same"
    configure || fail "$same was asked for, and $version was not found: $(cat "$err")"
done
