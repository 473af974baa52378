#!/bin/bash
# The library, the tool, and the tests of unit and wire on other processors, C libraries and compilers: each platform
# in a chroot of its own. Programs of another processor are made by Debian's cross compiler and run by qemu-user.
#
#   make check-platforms [PLATFORMS="bookworm-s390x trixie-clang musl"]
#
# A row for each platform says what its tests counted. Needs root, amd64 and Debian's mirror. Programs of another
# processor also need qemu-user-static and Linux 6.7, where a namespace knows by itself what runs them.
#
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/chroot.sh"

# name, suite, processor, compiler
table='
bookworm-amd64  bookworm amd64 gcc
bookworm-clang  bookworm amd64 clang
bookworm-arm64  bookworm arm64 gcc
bookworm-i386   bookworm i386  gcc
bookworm-armhf  bookworm armhf gcc
bookworm-s390x  bookworm s390x gcc
trixie-amd64    trixie   amd64 gcc
trixie-gcc-13   trixie   amd64 gcc-13
trixie-clang    trixie   amd64 clang
trixie-lto      trixie   amd64 gcc
trixie-arm64    trixie   arm64 gcc
trixie-i386     trixie   i386  gcc
trixie-armhf    trixie   armhf gcc
trixie-s390x    trixie   s390x gcc
musl            trixie   amd64 musl-gcc
'
declare -A triplet=([arm64]=aarch64-linux-gnu [i386]=i686-linux-gnu [armhf]=arm-linux-gnueabihf [s390x]=s390x-linux-gnu)
declare -A machine=([arm64]=aarch64 [armhf]=arm [s390x]=s390x)
left_out=() # platforms that could not be had

# A command in a user namespace, with the machines that qemu stands for: the host's own list of them stays as it is.
emulated() { # command...
    unshare --user bash -c 'until read -r _ </proc/self/gid_map; do sleep 0.1; done; exec unshare --mount "$@"' \
        emulated bash -euc 'mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
            for name in aarch64 arm s390x; do cat "/usr/lib/binfmt.d/qemu-$name.conf" >/proc/sys/fs/binfmt_misc/register; done
            "$@"' emulated "$@" &
    local child=$!
    until [[ $(readlink /proc/$child/ns/user) != "$(readlink /proc/self/ns/user)" ]]; do sleep 0.1; done
    { echo '0 0 4294967295' >/proc/$child/uid_map && echo '0 0 4294967295' >/proc/$child/gid_map; } || kill $child
    wait $child
}
export -f inside
export when

# Why this machine cannot have the platform; nothing when it can.
lacking() { # processor
    if [[ $(dpkg --print-architecture) != amd64 ]]; then
        echo "this machine is not amd64"
    elif [[ ${machine[$1]:-} ]]; then
        if [[ ! -e /usr/lib/binfmt.d/qemu-${machine[$1]}.conf ]]; then
            echo "qemu-user-static is missing"
        elif ! emulated true 2>/dev/null; then
            echo "a namespace has no binfmt_misc of its own before Linux 6.7"
        fi
    fi
}

libraries='libhiredis-dev libjansson-dev libnghttp2-dev libssl-dev uuid-dev libcmocka-dev liblua5.1-0-dev'

install_native() { # chroot, compiler
    inside "$1" "$apt update && $apt install make procps pkgconf libc6-dev gcc $2 $libraries"
}

# The processor that runs it installs nothing: what a package runs when it's installed is the chroot's own.
install_foreign() { # chroot, processor
    local of=${triplet[$2]}
    inside "$1" "dpkg --add-architecture $2 && $apt update && $apt dist-upgrade &&
        $apt install make procps pkgconf gcc-$of libc6-dev-$2-cross ${libraries// /:$2 }:$2"
}

# Everything for musl from what Debian's packages are made of, since none of them is there as a library for it: less
# OpenSSL, whose making would take longer than all the rest. The kernel's headers are those of the other C library.
install_musl() { # chroot
    inside "$1" "sed 's/^deb /deb-src /' /etc/apt/sources.list >/etc/apt/sources.list.d/source.list
        $apt update && $apt install make procps pkgconf gcc libc6-dev musl-tools dpkg-dev cmake xz-utils busybox
        mkdir /root/of && cd /root/of
        apt-get -qq --download-only source hiredis jansson nghttp2 cmocka lua5.1 util-linux || : # it lacks some of Debian's patches
        for archive in *.orig.tar.?z; do tar -xf \$archive; done" && inside "$1" "$(declare -f make_for_musl) && cd /root/of && make_for_musl"
}

make_for_musl() {
    local here=/opt/musl headers=/usr/include/x86_64-linux-musl libc=/usr/include/x86_64-linux-gnu
    ln -s /usr/include/{linux,asm-generic} $libc/asm $headers/
    by_cmake() { # folder, options
        cmake -S "$1"-* -B "build-$1" -DCMAKE_C_COMPILER=musl-gcc -DCMAKE_INSTALL_PREFIX=$here -DCMAKE_INSTALL_LIBDIR=lib \
            -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON "${@:2}" &&
            make -C "build-$1" "-j$JOBS" install
    }
    by_cmake hiredis -DDISABLE_TESTS=ON
    by_cmake jansson -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF
    by_cmake nghttp2 -DENABLE_LIB_ONLY=ON -DBUILD_STATIC_LIBS=ON -DBUILD_TESTING=OFF
    by_cmake cmocka -DWITH_EXAMPLES=OFF
    (cd util-linux-* && ./configure CC=musl-gcc CFLAGS='-O2 -fPIC' --prefix=$here --disable-all-programs --enable-libuuid \
        --disable-shared --disable-nls && make "-j$JOBS" install)
    make -C lua-*/src CC=musl-gcc MYCFLAGS='-fPIC -DLUA_USE_POSIX' a
    install -D -m 644 -t $here/include/lua5.1 lua-*/src/l*.h && install -m 644 lua-*/src/liblua.a $here/lib/liblua5.1.a
}

# The steps of the APKBUILD, in the order and with the tools of Alpine's abuild, which Debian lacks.
alpine() { # chroot, compiler, further arguments of make
    inside "$1" "cd /root/tree && export $settings CC=$2 $3 MAKEFLAGS=BUILD=build
        mkdir /opt/busybox && for tool in awk find grep sed xargs; do ln -s /usr/bin/busybox /opt/busybox/\$tool; done
        version=\$(sed -n 's/^#define TL_VERSION *\"\(.*\)\".*/\1/p' include/tidelock/tidelock.h)
        sed \"s/@VERSION@/\$version/\" tools/packaging/alpine/APKBUILD >/root/APKBUILD
        PATH=/opt/busybox:\$PATH sh -euc '. /root/APKBUILD && pkgdir=/root/pkg && build && check && package'
        \$CC tools/examples/simple.c -o /tmp/simple -I/root/pkg/usr/include -L/root/pkg/usr/lib -ltidelock
        ! readelf -d /tmp/simple /root/pkg/usr/bin/tidelock | grep libc.so.6 && /root/pkg/usr/bin/tidelock --version"
}

# Optimised as a whole: the static library still shows the names of the public headers alone, and links without -flto.
# Tests are left out, since each program would be optimised with all of the library.
build_whole() { # chroot, compiler
    mkdir -p "$1/root/tree" && tar -C "$1/root/tree" -xf "$work/source.tar" &&
        inside "$1" "cd /root/tree && make -j\$JOBS WERROR=1 CC=$2 CFLAGS='-O3 -flto=auto' install DESTDIR=/root/whole PREFIX=/usr && cd /root/whole/usr
            if nm -g --defined-only lib/libtidelock.a | grep ' [A-Z] ' | grep -v ' tl_[a-z_0-9]*$'; then exit 1; fi
            $2 -fno-lto share/doc/tidelock/examples/simple.c -Iinclude lib/libtidelock.a -o /tmp/simple \
                \$(pkg-config --libs hiredis uuid openssl jansson libnghttp2) -pthread -lm"
}

build_and_test() { # chroot, compiler, further arguments of make
    mkdir -p "$1/root/tree" && tar -C "$1/root/tree" -xf "$work/source.tar" &&
        inside "$1" "cd /root/tree && export WERROR=1 $settings
            make -j\$JOBS CC=$2 $3 all && make -j\$JOBS JOBS=\$JOBS CC=$2 $3 check-run ONLY='unit wire'"
}
export -f build_and_test
export work settings

# A mirror that lacks files of its own lists is no fault of a platform.
bring() { # label, command...
    local before=$failed
    step "$@" && return
    if grep -q '^E: Failed to fetch' "$work/step.log"; then
        failed=$before
        left_out+=("${1%%:*}")
        echo "skip  ${1%%:*}: the mirror lacks packages that it lists"
    fi
    return 1
}

row() { # platform, what its compiler is
    rows+=("$(printf '%-15s %-42s %s' "$1" "$2" "$(grep ' passed, ' "$work/step.log" | tail -n 1)")")
}

platform() { # name, suite, processor, compiler
    local at=$work/platform-$1 of=${triplet[$3]:-} compiler=$4 other='' by=() status
    settings=
    # Emulated, all seeded scenarios of three tests would take longer than the rest.
    if [[ ${machine[$3]:-} ]]; then by=(emulated) settings='ORACLE_RUNS=20000 SKEW_RUNS=5000 '; fi
    step "$1: base" base "$2" && step "$1: chroot" unpack "$2" "$at" || return 1
    if [[ $of ]]; then
        compiler=$of-gcc other="AR=$of-ar OBJCOPY=$of-objcopy"
        settings+=PKG_CONFIG_LIBDIR=/usr/lib/$of/pkgconfig
        bring "$1: compiler and libraries" install_foreign "$at" "$3" || return 1
    elif [[ $compiler == musl-gcc ]]; then
        other="TLS=0 CPPFLAGS='-isystem /opt/musl/include -I/opt/musl/include/lua5.1' LDFLAGS=-L/opt/musl/lib"
        settings=PKG_CONFIG_LIBDIR=/opt/musl/lib/pkgconfig
        bring "$1: compiler and libraries" install_musl "$at" || return 1
    else
        bring "$1: compiler and libraries" install_native "$at" "$4" || return 1
    fi
    if [[ $1 == *-lto ]]; then
        step "$1: build as a whole" build_whole "$at" "$compiler"
    else
        step "$1: unit and wire" "${by[@]}" build_and_test "$at" "$compiler" "$other"
    fi
    status=$?
    row "$1" "$compiler $(inside "$at" "$compiler -dumpfullversion 2>/dev/null || $compiler -dumpversion")"
    if [[ $1 == musl ]]; then step "$1: steps of the APKBUILD" alpine "$at" "$compiler" "$other"; fi
    [[ ${KEEP:-} ]] || rm -rf "$at"
    return $status
}

rows=()
tar -C "$root" -cf "$work/source.tar" --exclude=./build --exclude=./.git . || exit 1
for asked in ${PLATFORMS:-$(awk '{ print $1 }' <<<"$table")}; do
    read -r name suite processor compiler <<<"$(awk -v name="$asked" '$1 == name' <<<"$table")"
    if [[ ! $name ]]; then
        echo "FAIL  $asked is no platform: there are $(awk '{ print $1 }' <<<"$table" | xargs)"
        failed=$((failed + 1))
        continue
    fi
    why=$(lacking "$processor")
    if [[ $why ]]; then
        left_out+=("$name")
        echo "skip  $name: $why"
        continue
    fi
    platform "$name" "$suite" "$processor" "$compiler"
done
((${#rows[@]} == 0)) || printf '%s\n' "${rows[@]}"
echo "$passed passed, $failed failed, ${#left_out[@]} skipped"
[[ ${PLATFORMS:-} ]] || tests/record.sh tests/README.md runs "| \`make check-platforms\` | ${#rows[@]} platforms${left_out:+, without ${left_out[*]}}: $(printf '%s\n' "${rows[@]}" |
    awk '{ for (i = 2; i <= NF; i++) n[$i] += $(i - 1) }
        END { print n["passed,"] + 0 " files passed, " n["failed,"] + 0 " failed, " n["skipped"] + 0 " skipped" }'); $failed steps failed | $(date -u +%F) |"
((failed == 0))
