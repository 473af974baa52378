# shellcheck shell=bash
# Chroots of Debian's releases: what tests of packages and of a release share. Source it first.
#
# Needs root. The mirror is the one that this machine's apt uses. What debootstrap brings is kept in
# build/packages/base-SUITE.tar; a chroot lives in a namespace of its own, so nothing of it outlives the run.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
root=$PWD work=$PWD/build/packages
passed=0 failed=0
export LC_ALL=C
mkdir -p "$work"
when=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y src/CHANGELOG.md)
[[ $(id -u) == 0 ]] || { echo "a chroot needs root" && exit 1; }

# The mirror of the release that this machine runs; not of security updates and the like, which lack most packages.
mirror=$(apt-get indextargets --format '$(SITE) $(CODENAME)' 'Created-By: Packages' |
    awk -v mine="$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" '$2 == mine { print $1; exit }')
[[ $mirror ]] || { echo "apt has no mirror of the release that runs here" && exit 1; }

step() { # label, command...
    local label=$1 start=$SECONDS
    shift
    if "$@" >"$work/step.log" 2>&1; then
        passed=$((passed + 1))
        echo "ok    $label ($((SECONDS - start)) s)"
    else
        failed=$((failed + 1))
        echo "FAIL  $label ($((SECONDS - start)) s)"
        tail -n 40 "$work/step.log" | sed 's/^/      | /'
        return 1
    fi
}

base() { # suite
    local at=$work/base-$1
    [[ ! -e $at.tar ]] || return 0
    rm -rf "$at"
    debootstrap --variant=minbase "$1" "$at" "$mirror" && tar -C "$at" -cf "$at.tar.part" . && mv "$at.tar.part" "$at.tar"
    local status=$?
    rm -rf "$at"
    return $status
}

# A fresh one, which knows its own name as each installed system does; its services are never started.
unpack() { # suite, where
    rm -rf "$2"
    mkdir -p "$2" && tar -C "$2" -xpf "$work/base-$1.tar" &&
        printf '#!/bin/sh\nexit 101\n' >"$2/usr/sbin/policy-rc.d" && chmod 755 "$2/usr/sbin/policy-rc.d" &&
        printf '127.0.0.1\tlocalhost\n' >"$2/etc/hosts" &&
        printf 'path-include=/usr/share/man/*\npath-include=/usr/share/doc/*\n' >"$2/etc/dpkg/dpkg.cfg.d/all-of-it"
}

# In namespaces of its own, with terminals of its own: its processes and mounts end with it. Its root is a mount, as rpm wants it.
inside() { # chroot, script
    unshare --mount --pid --fork --kill-child bash -c 'mount --bind "$1" "$1" && mount -t proc proc "$1/proc" && \
        mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts" && exec chroot "$1" /usr/bin/env -i \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        SOURCE_DATE_EPOCH="$3" JOBS="$4" bash -euc "$2"' inside "$1" "$2" "$when" "$(nproc)"
}

apt='apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0'
