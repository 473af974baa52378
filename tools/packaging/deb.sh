#!/bin/bash
# Debian packages of this tree: libtidelock0, libtidelock-dev and tidelock.
#
#   tools/packaging/deb.sh OUT        (make deb: build/deb)
#
# The tree has no debian/: it is put together with what ships below OUT/tidelock-VERSION, from tools/packaging/debian, the
# record of the interface (its symbols), LICENSE and the version in the header. The same tree makes the same bytes,
# wherever and whenever: its time is SOURCE_DATE_EPOCH, or that of the last commit; where there is no clone, that of the
# change log. DEBFULLNAME and DEBEMAIL say who packages it.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "${1:?OUT}"
out=$(cd "$1" && pwd)
export LC_ALL=C TZ=UTC

version=$(sed -n 's/^#define TL_VERSION *"\(.*\)".*/\1/p' "$root/include/tidelock/tidelock.h")
[[ $version ]] || { echo "deb.sh: the header has no version" >&2 && exit 1; }
if [[ ${SOURCE_DATE_EPOCH:-} ]]; then
    when=$SOURCE_DATE_EPOCH
elif [[ -e $root/.git ]]; then # where another user owns it git refuses
    when=$(git -C "$root" log -1 --format=%ct 2>/dev/null) ||
        { echo "deb.sh: git does not say when the last commit was made; set SOURCE_DATE_EPOCH" >&2 && exit 1; }
else
    when=$(stat -c %Y "$root/src/CHANGELOG.md")
fi
export SOURCE_DATE_EPOCH=$when
who="${DEBFULLNAME:-the packagers of tidelock} <${DEBEMAIL:-packagers@tidelock.invalid}>"

tree=$out/tidelock-$version
rm -rf "$tree" "$out"/*.deb "$out"/*.changes "$out"/*.buildinfo
mkdir -p "$tree/tests/lint"
for part in LICENSE README.md Makefile src include compat tools; do cp -a "$root/$part" "$tree/"; done
cp -a "$root/tests/lint/abi.txt" "$tree/tests/lint/"
cp -a "$root/tools/packaging/debian" "$tree/debian"
find "$tree" -exec touch -h -d "@$when" {} +

cd "$tree"
sed -i "s|@MAINTAINER@|$who|" debian/control
{
    echo "tidelock ($version) unstable; urgency=medium"
    echo
    echo "  * What has changed: changelog.gz, beside this file."
    echo
    echo " -- $who  $(date -u -R -d "@$when")"
} >debian/changelog
# The licence, as the format wants it: whose it is, with the year, its first line, and the rest as one paragraph.
{
    sed -n "s/^Copyright (c) /Copyright: $(date -u -d "@$when" +%Y) /p" LICENSE
    echo 'License: Expat'
    sed '1,/^Copyright/d' LICENSE | sed '1{/^$/d}; s/^$/./; s/^/ /'
} >debian/license
sed -i -e '/@COPYRIGHT@/{r debian/license' -e 'd}' debian/copyright
rm debian/license
# Each symbol asks for this version: a program that was built with it may set members of structs that an older one rejects.
{
    echo 'libtidelock.so.0 libtidelock0 #MINVER#'
    echo '* Build-Depends-Package: libtidelock-dev'
    echo " TIDELOCK_0@TIDELOCK_0 $version"
    sed -n 's/^.* symbol \(tl_[a-z_]*\)@@\(TIDELOCK_[0-9]*\)$/\1@\2/p' tests/lint/abi.txt | sort | sed "s/^/ /; s/\$/ $version/"
} >debian/libtidelock0.symbols

if ! dpkg-buildpackage -b -us -uc >"$out/build.log" 2>&1; then
    tail -n 30 "$out/build.log" >&2
    echo "deb.sh: the packages were not built; all of it is in $out/build.log" >&2
    exit 1
fi
ls "$out"/*.deb
