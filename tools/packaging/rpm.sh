#!/bin/bash
# RPM packages of this tree: tidelock, tidelock-libs, tidelock-devel and tidelock-static.
#
#   tools/packaging/rpm.sh OUT [OPTIONS OF RPMBUILD]
#
# The libraries that it needs are there by rpm's own knowledge; --nodeps is for a machine where another kind of
# package brought them.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "${1:?OUT}"
out=$(cd "$1" && pwd)
shift
export LC_ALL=C

version=$(sed -n 's/^#define TL_VERSION *"\(.*\)".*/\1/p' "$root/include/tidelock/tidelock.h")
[[ $version ]] || { echo "rpm.sh: the header has no version" >&2 && exit 1; }
mkdir -p "$out/SOURCES"
tar -C "$root" -czf "$out/SOURCES/tidelock-$version.tar.gz" --exclude=./build --exclude=./.git --transform "s,^\.,tidelock-$version," .
sed "s/@VERSION@/$version/" "$root/tools/packaging/rpm/tidelock.spec" >"$out/tidelock.spec"
if ! rpmbuild -ba --define "_topdir $out" "$@" "$out/tidelock.spec" >"$out/build.log" 2>&1; then
    tail -n 30 "$out/build.log" >&2
    echo "rpm.sh: the packages were not built; all of it is in $out/build.log" >&2
    exit 1
fi
find "$out/RPMS" "$out/SRPMS" -name '*.rpm' | sort
