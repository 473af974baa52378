#!/bin/bash
# The Python example reads the installed header by cffi, and its locks keep what it promises: so the header alone describes
# the shared library's interface.
. "$(dirname "$0")/lib.sh"
"$python" -c 'import cffi' 2>/dev/null || { echo "cffi is not installed (Debian: python3-cffi)" && exit 77; }
if [[ -n ${SAN:-} ]]; then echo "Python doesn't load a library with sanitizers" && exit 77; fi

root=$work/root prefix=/opt/tidelock
start_server
variant=(CC="${CC:-cc}")
if [[ ${BUILD:-} == *nocompat* ]]; then variant+=(COMPAT=0); fi
env -u COMPAT make -C "$here" -s --no-print-directory install DESTDIR="$root" PREFIX=$prefix "${variant[@]}" >"$out" 2>"$err" ||
    fail "make install: $(cat "$out")"
export PKG_CONFIG_PATH=$root$prefix/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root LD_LIBRARY_PATH=$root$prefix/lib
PYTHONPATH=$root$prefix/share/doc/tidelock/examples/python PYTHONDONTWRITEBYTECODE=1 timeout $run_limit \
    "$python" "$here/tests/cli/python_promises.py" "$TIDELOCK_URL" "$socket" >"$out" 2>"$err" || fail "status $?: $(cat "$err")"
[[ $(<"$out") == done && ! -s $err ]] || fail "it says $(cat "$out" "$err")"
