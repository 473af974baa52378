#!/bin/sh
# Install what a goal needs and the machine lacks; do and print nothing when all is there.
#
#   tools/need.sh [-n] GROUP...    groups: build demo pages check lint model docs valgrind chrony promtool etcd deb packages
#                                  platforms release
#   tools/need.sh --try GROUP...   a package that can't be installed is reported, and is no failure
#
# CC=clang and SAN in the environment add that compiler and its sanitizer runtime to "build".
# -n reports in one line what is missing and stops (status 1 when something is).
# If this user may not install packages, the line says exactly what to type.
#
# No service of this machine is started, restarted, enabled or replaced, and no package removed:
#  - while apt runs, a temporary policy-rc.d forbids maintainer scripts to start or stop services;
#  - redis-server is installed rather than unpacked, since the tool needs it on the PATH and it has many
#    libraries; the unit that its package enables is disabled at once;
#  - etcd-server is installed in the same way, and its unit disabled;
#  - chrony would replace the machine's time service, so it is only unpacked, to build/chrony; where it is
#    installed already, the installed one is used;
#  - prometheus is a service, too, and only promtool is needed: so it is only unpacked.
set -u
cd "$(dirname "$0")/.." || exit 1

# group, package, what proves that it is installed
table='
build  gcc              cmd:cc
build  libc6-dev        header:stdlib.h
build  make             cmd:make
build  pkg-config       cmd:pkg-config
build  libhiredis-dev   header:hiredis/hiredis.h
build  uuid-dev         header:uuid/uuid.h
build  libssl-dev       header:openssl/ssl.h
build  libjansson-dev   header:jansson.h
build  libnghttp2-dev   header:nghttp2/nghttp2.h
demo   redis-server     cmd:redis-server
pages  scdoc            cmd:scdoc
check  libcmocka-dev    header:cmocka.h
check  liblua5.1-0-dev  header:lua5.1/lua.h
check  g++              cmd:g++
check  scdoc            cmd:scdoc
check  man-db           cmd:man
check  groff-base       cmd:groff
check  mandoc           cmd:mandoc
check  cmark-gfm        cmd:cmark-gfm
check  zsh              cmd:zsh
check  fish             cmd:fish
check  procps           cmd:ps
check  jq               cmd:jq
check  openssl          cmd:openssl
check  python3-redis    python:redis
check  python3-yaml     python:yaml
check  python3-cffi     python:cffi
check  cmake            cmd:cmake
check  git              cmd:git
check  gnupg            cmd:gpg
etcd   etcd-server      cmd:etcd
etcd   etcd-client      cmd:etcdctl
check  default-jdk-headless cmd:javac
demo   libfaketime      lib:faketime/libfaketime.so.1
lint   clang            cmd:clang
lint   clang-format     cmd:clang-format
lint   clang-tidy       cmd:clang-tidy
lint   cppcheck         cmd:cppcheck
model  spin             cmd:spin
model  gcc              cmd:cc
valgrind valgrind       cmd:valgrind
browser chromium        cmd:chromium
docs   cmark-gfm        cmd:cmark-gfm
docs   mandoc           cmd:mandoc
docs   scdoc            cmd:scdoc
docs   python3          cmd:python3
deb    dpkg-dev         cmd:dpkg-buildpackage
deb    debhelper        cmd:dh
deb    scdoc            cmd:scdoc
packages debootstrap    cmd:debootstrap
platforms qemu-user-static cmd:qemu-s390x-static
release debootstrap     cmd:debootstrap
release git             cmd:git
release gnupg           cmd:gpg
release jq              cmd:jq
chrony chrony           unpacked:usr/sbin/chronyd
promtool prometheus     unpacked:usr/bin/promtool
'

say() { echo "tidelock: $*" >&2; }
have_cmd() { command -v "$1" >/dev/null 2>&1; }

have_file() { # suffix, directories
    suffix=$1; shift
    for d in "$@"; do [ -e "$d/$suffix" ] && return 0; done
    return 1
}

is_there() { # proof package
    what=${1#*:}
    case $1 in
    cmd:*) have_cmd "$what" ;;
    header:*) have_file "$what" /usr/include /usr/local/include /usr/include/*-linux-gnu* \
        $(echo "${C_INCLUDE_PATH:-}:${CPATH:-}" | tr : ' ') ;;
    python:*) have_file "$what/__init__.py" /usr/lib/python3/dist-packages \
        /usr/local/lib/python3*/dist-packages || /usr/bin/python3 -c "import $what" 2>/dev/null ;;
    lib:*) have_file "$what" /usr/lib /usr/lib64 /usr/lib/*-linux-gnu* ;;
    clang_rt:*) have_file "libclang_rt.$what-$(uname -m).a" /usr/lib/llvm-*/lib/clang/*/lib/linux ;;
    unpacked:*) [ -x "/$what" ] || [ -e "build/$2/$what" ] ;;
    esac
}

missing() { # groups
    echo "$table" | while read -r group package proof; do
        case " $* " in *" $group "*) is_there "$proof" "$package" || echo "$package" ;; esac
    done | sort -u | tr '\n' ' '
}

# ---- installing, as root --------------------------------------------------------------------
policy=/usr/sbin/policy-rc.d
saved=/usr/sbin/policy-rc.d.tidelock-saved

hold_services() {
    # A run that was killed may have left its policy behind: restore the old one first.
    release_services
    if [ -e $policy ] || [ -L $policy ]; then mv $policy $saved; fi
    printf '#!/bin/sh\n# temporary: tidelock installs packages without starting services\nexit 101\n' >$policy
    chmod 755 $policy
}

release_services() {
    if grep -qs '^# temporary: tidelock' $policy; then rm -f $policy; fi
    if [ -e $saved ] || [ -L $saved ]; then mv $saved $policy; fi
}

# The packages enable their units (and init scripts) for the next boot, which is not wanted here.
disable_etcd() {
    [ -n "$fresh_etcd" ] && [ -e /usr/bin/etcd ] || return 0
    if have_cmd deb-systemd-helper; then deb-systemd-helper disable etcd.service; fi
    if have_cmd update-rc.d; then update-rc.d etcd disable; fi
    [ ! -L /etc/systemd/system/etcd2.service ] || rm -f /etc/systemd/system/etcd2.service # its alias
} >/dev/null 2>&1

disable_redis() {
    [ -n "$fresh_redis" ] && [ -e /usr/bin/redis-server ] || return 0
    if have_cmd deb-systemd-helper; then deb-systemd-helper disable redis-server.service; fi
    if have_cmd update-rc.d; then update-rc.d redis-server disable; fi
    [ ! -L /etc/systemd/system/redis.service ] || rm -f /etc/systemd/system/redis.service # its alias
} >/dev/null 2>&1

apt() {
    DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -qq -y --no-install-recommends --no-remove \
        -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold "$@" </dev/null
}

lists_there() { ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; }

install_now() { # packages
    log=$(mktemp) || exit 1
    fresh_redis=
    fresh_etcd=
    case " $* " in *' etcd-server '*) [ -e /usr/bin/etcd ] || fresh_etcd=1 ;; esac
    case " $* " in *' redis-server '*) [ -e /usr/bin/redis-server ] || fresh_redis=1 ;; esac
    trap 'trap - EXIT; disable_redis; disable_etcd; release_services; rm -f "$log"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    exec 9>/run/tidelock-need.lock && { ! have_cmd flock || flock 9; }
    hold_services
    say "installing $* (no service is started)"
    { lists_there || apt update; } >"$log" 2>&1
    # Old lists name packages that no longer exist: fetch the lists again, and try once more.
    if ! apt install "$@" >>"$log" 2>&1 9>&- && ! { apt update && apt install "$@"; } >"$log" 2>&1 9>&-; then
        tail -n 20 "$log" >&2
        say "apt-get could not install $*"
        exit 1
    fi
}

# ---- unpacking, as anyone -------------------------------------------------------------------
# Unpack the package, and its dependencies that are not installed, below build/PACKAGE.
unpack_now() { # package
    dir=$PWD/build/$1
    say "unpacking $1 to build/$1 (nothing is installed)"
    rm -rf "$dir.tmp" && mkdir -p "$dir.tmp" || exit 1
    lists_there || { [ "$(id -u)" = 0 ] && apt update >/dev/null 2>&1; }
    all=$(apt-get -s --no-install-recommends install "$1" 2>/dev/null | awk '/^Inst /{print $2}')
    if (cd "$dir.tmp" && apt-get -qq download $all && for deb in *.deb; do dpkg -x "$deb" . && rm "$deb"; done) \
        >"$dir.log" 2>&1 && [ -n "$all" ]; then
        rm -rf "$dir" "$dir.log" && mv "$dir.tmp" "$dir"
    else
        say "could not unpack $1: see build/$1.log (are apt's lists there? try: apt-get update)"
        exit 1
    fi
}

# ---- main -----------------------------------------------------------------------------------
if [ "${1:-}" = --install ]; then # this script runs itself so, by sudo
    shift
    install_now "$@"
    exit 0
fi

if [ "${1:-}" = --try ]; then
    shift
    "$PWD/tools/need.sh" "$@" || say "going on without $*"
    exit 0
fi

only_say=
if [ "${1:-}" = -n ]; then only_say=1; shift; fi
asked=$*
groups=" $* "
case $groups in *' check '*) groups="$groups demo etcd " ;; esac
case $groups in *' demo '* | *' deb '*) groups="$groups build " ;; esac
# clang is needed by its own name. Its sanitizers are in a package of their own, with the version in its name.
case ${CC:-cc} in
clang*)
    table="$table
build ${CC} cmd:${CC}"
    if [ -n "${SAN:-}" ]; then
        major=$({ "$CC" -dumpversion || apt-cache depends clang | sed -n 's/.* clang-\([0-9]*\)$/\1/p'; } 2>/dev/null)
        runtime=asan
        case $SAN in *fuzzer*) runtime=fuzzer ;; *thread*) runtime=tsan ;; esac
        table="$table
build libclang-rt-${major%%.*}-dev clang_rt:$runtime"
    fi
    ;;
esac

lacking=$(missing $groups)
lacking=${lacking% }
[ -n "$lacking" ] || exit 0

if ! have_cmd apt-get || ! have_cmd dpkg; then
    say "missing: $lacking (Debian's names): install them with this system's package manager, then try again"
    exit 1
fi

unpack=
install=
for p in $lacking; do
    case $p in chrony | prometheus) unpack="$unpack $p" ;; *) install="$install $p" ;; esac
done
install=${install# }

type_this="apt-get install $install"
sudo=$(have_cmd sudo && echo "sudo ")
lists_there || type_this="apt-get update && $sudo$type_this"
# redis-server and etcd-server have services, which this script keeps from starting.
case " $install " in *' redis-server '* | *' etcd-server '*) type_this="tools/need.sh $asked" ;; esac
[ -n "$sudo" ] && type_this="$sudo$type_this" || type_this="$type_this   (as root)"

if [ -n "$only_say" ]; then
    say "missing: $lacking; type: $type_this"
    exit 1
fi
if [ -n "$install" ]; then
    if [ "$(id -u)" = 0 ]; then
        (install_now $install) || exit 1
    elif have_cmd sudo && sudo -n true 2>/dev/null; then
        sudo -n "$PWD/tools/need.sh" --install $install || exit 1
    else
        say "missing: $install; type: $type_this"
        exit 1
    fi
fi
for p in $unpack; do unpack_now "$p"; done
exit 0
