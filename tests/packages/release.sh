#!/bin/bash
# The source archive of a release, in a chroot of Debian 12 that has make and nothing of the sources: `make check` sets up,
# builds and tests; what `make install` installs builds an example. Run by make release.
#
#   tests/packages/release.sh build/release/tidelock-VERSION.tar.gz
archive=$(realpath "$1")
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/chroot.sh"
at=$work/release name=$(basename "$archive" .tar.gz)

step "bookworm: base" base bookworm &&
    step "unpack" unpack bookworm "$at" &&
    step "make" inside "$at" "$apt update && $apt install make ca-certificates" &&
    cp "$archive" "$at/root/" &&
    step "make check" inside "$at" "cd /root && tar -xzf $name.tar.gz && cd $name && make check" &&
    tail -n 1 "$work/step.log" &&
    step "make install" inside "$at" "cd /root/$name && make install PREFIX=/usr && cd / && \
        cc /usr/share/doc/tidelock/examples/simple.c -o /tmp/simple \$(pkg-config --cflags --libs tidelock) && tidelock --version"
status=$?
[[ ${KEEP:-} ]] || rm -rf "$at"
echo "$passed passed, $failed failed"
exit $status
