#!/bin/bash
# Debian packages of this tree, in a chroot of each release of Debian that is to have them: built twice, with that
# release's own compiler and libraries, which must make the same bytes; looked over by lintian; installed in a chroot
# that never saw the sources, used as their users would, and purged, which must leave nothing. RPM packages are built by
# Debian's rpmbuild, installed, used and removed.
#
#   make check-packages [SUITES="bookworm trixie"]
#
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/chroot.sh"
read -ra suites <<<"${SUITES:-bookworm trixie}"

build() { # chroot, where in it
    mkdir -p "$1$2" &&
        tar -C "$1$2" -xf "$work/source.tar" &&
        inside "$1" "cd $2 && DEB_BUILD_OPTIONS=parallel=\$JOBS tools/packaging/deb.sh /root/out$2"
}

same() { # chroot, two folders in it
    local names
    names=$(cd "$1/root/out$2" && ls ./*.deb) && [[ $(wc -l <<<"$names") -ge 3 ]] || return 1
    for deb in $names; do
        cmp "$1/root/out$2/$deb" "$1/root/out$3/$deb" || return 1
    done
}

use() { # chroot
    cp tests/packages/use.sh "$1/root/" && inside "$1" 'cd /root && bash use.sh'
}

rpms() { # chroot, where in it
    cp tests/packages/use_rpm.sh "$1/root/" && inside "$1" "$apt install rpm && bash /root/use_rpm.sh $2"
}

# What a chroot has, without what logs and caches of apt and dpkg are about.
files() { (cd "$1" && find . -xdev -path ./proc -prune -o -path ./root -prune -o -path ./tmp -prune -o -path ./var/log -prune -o \
    -path ./var/cache -prune -o -path ./var/lib/dpkg -prune -o -path ./var/lib/apt -prune -o -print | sort); }
purged() { # chroot
    files "$1" >"$work/before"
    inside "$1" "$apt install /root/out/*.deb && $apt purge tidelock libtidelock-dev libtidelock0" || return 1
    files "$1" >"$work/after"
    diff "$work/before" "$work/after"
}

# What docker build would do with the example's Dockerfile, each stage in a chroot of its own.
image() { # folder of its stages
    local file=tools/packaging/examples/Dockerfile at='' cwd user=root what rest from to entry command
    while read -r what rest; do
        case $what in
        FROM)
            [[ $rest == debian:12* ]] || { echo "no chroot for $rest" && return 1; }
            at=$1/${rest##* } cwd=/
            unpack bookworm "$at" || return 1
            ;;
        RUN) inside "$at" "cd $cwd; $rest" </dev/null || return 1 ;;
        WORKDIR) cwd=$rest && mkdir -p "$at$cwd" ;;
        COPY)
            read -r from to <<<"$rest"
            if [[ $from == --from=* ]]; then
                from=$1/${from#--from=}${to%% *} to=${to#* }
            fi
            [[ $to == /* ]] || to=$cwd/$to
            mkdir -p "$at$to" && if [[ -d $from ]]; then cp -a "$from/." "$at$to"; else cp -a "$from" "$at$to"; fi || return 1
            ;;
        USER) user=$rest ;;
        ENTRYPOINT) entry=$("$python" -c 'import json, sys; print(*json.loads(sys.argv[1]))' "$rest") ;;
        CMD) command=$("$python" -c 'import json, sys; print(*json.loads(sys.argv[1]))' "$rest") ;;
        *) echo "what is $what?" && return 1 ;;
        esac
    done < <(sed -e :a -e '/\\$/N; s/\\\n//; ta' "$file" | grep -v '^#\|^$')
    [[ $user != root ]] || { echo "it is run by root" && return 1; }
    # shellcheck disable=SC2086 # words
    chroot --userspec="$user" "$at" $entry $command | grep '^usage: tidelock' &&
        chroot --userspec="$user" "$at" $entry --url redis://127.0.0.1:1 run -n k -- true
    [[ $? == 69 ]]
}

python=$(command -v python3)
tar -C "$root" -cf "$work/source.tar" --exclude=./build --exclude=./.git . || exit 1
for suite in "${suites[@]}"; do
    maker=$work/maker-$suite user=$work/user-$suite
    step "$suite: base" base "$suite" || continue
    step "$suite: what building needs" unpack "$suite" "$maker" &&
        step "$suite: compiler and libraries" inside "$maker" "$apt update && $apt install build-essential debhelper \
            libhiredis-dev libjansson-dev libnghttp2-dev libssl-dev pkgconf scdoc uuid-dev lintian" &&
        step "$suite: build" build "$maker" /first &&
        step "$suite: build elsewhere" build "$maker" /second/of/two &&
        step "$suite: the same bytes" same "$maker" /first /second/of/two &&
        step "$suite: lintian" inside "$maker" 'lintian --allow-root --fail-on error /root/out/first/*.changes' &&
        sed 's/^/      | /' "$work/step.log" &&
        step "$suite: RPM packages" rpms "$maker" /first &&
        unpack "$suite" "$user" && mkdir -p "$user/root/out" && cp "$maker"/root/out/first/{lib,}tidelock*_*.deb "$user/root/out/" &&
        rm -f "$user"/root/out/*dbgsym* &&
        step "$suite: what using needs" inside "$user" "$apt update && $apt install gcc libc6-dev pkgconf redis-server man-db \
            libhiredis-dev libjansson-dev libnghttp2-dev libssl-dev uuid-dev libzstd-dev zlib1g-dev" && # a static libcrypto wants the last two
        step "$suite: installed and purged" purged "$user" &&
        step "$suite: installed" inside "$user" "$apt install /root/out/*.deb" &&
        step "$suite: used" use "$user"
    [[ $suite != bookworm ]] || step "$suite: the steps of the example's image" image "$work/image"
    [[ ${KEEP:-} ]] || rm -rf "$maker" "$user" "$work/image"
done

echo "$passed passed, $failed failed"
[[ ${SUITES:-} ]] || tests/record.sh tests/README.md runs "| \`make check-packages\` | $passed passed, $failed failed | $(date -u +%F) |"
((failed == 0))
