#!/bin/bash
# Run by run.sh in a chroot that has rpm and the sources: RPM packages are built, installed and used. Debian brought the
# libraries, of which rpm knows nothing.
set -eu
fail() { echo "use_rpm.sh: $*" && exit 1; }

cd "$1"
tools/packaging/rpm.sh /root/rpm --nodeps --define 'debug_package %{nil}' || fail "not built"
cd /root/rpm/RPMS/*/
packages=(./*.rpm)
((${#packages[@]} == 4)) || fail "other packages: ${packages[*]}"
rpm -qp --qf '[%{=NAME} %{FILEMODES:perms} %{FILENAMES}\n]' "${packages[@]}" | awk '$2 !~ /^d/ { print $1, $3 }' | sort >/root/rpm/files
twice=$(awk '{ print $2 }' /root/rpm/files | sort | uniq -d)
[[ ! $twice ]] || fail "in two packages: $twice"
rpm -ivh --nodeps "${packages[@]}"
ldconfig

library=$(rpm --eval '%{_libdir}')
export PKG_CONFIG_PATH=$library/pkgconfig LD_LIBRARY_PATH=$library
[[ $(tidelock --version) == "tidelock $(rpm -q --qf '%{VERSION}' tidelock)" ]] || fail "another version"
for program in /usr/bin/tidelock "$library/libtidelock.so"; do ! ldd -r "$program" | grep 'not found\|undefined' || fail "$program lacks something"; done
read -ra flags <<<"$(pkg-config --cflags --libs tidelock)"
gcc -Wall -Werror /usr/share/doc/tidelock/examples/simple.c -o /tmp/simple "${flags[@]}" || fail "an example doesn't build"
ldd /tmp/simple | grep -q "$library/libtidelock.so.0 " || fail "a program doesn't find the library"
for file in "$(rpm --eval '%{_mandir}')"/man{1/tidelock-run.1,3/tl_lock_acquire.3}* /usr/lib/systemd/system/tidelock-agent.service; do
    [[ -s $file ]] || fail "there is no $file"
done
mapfile -t installed < <(rpm -qa 'tidelock*')
rpm -e --nodeps "${installed[@]}"
left=$(while read -r _ file; do [[ ! -e $file ]] || echo "$file"; done </root/rpm/files)
[[ ! $left ]] || fail "left behind: $left"
cat /root/rpm/files
