#!/bin/bash
# Run by run.sh in a chroot that has the packages, a compiler and a Redis, and nothing of the sources.
set -eu
fail() { echo "use.sh: $*" && exit 1; }

redis-server --port 0 --unixsocket /tmp/redis.sock --save '' --daemonize yes --logfile /tmp/redis.log >/dev/null
for _ in {1..600}; do
    if redis-cli -s /tmp/redis.sock PING >/dev/null 2>&1; then break; fi
    sleep 0.1
done
export TIDELOCK_URL=unix:///tmp/redis.sock

# ---- the command -------------------------------------------------------------------------------
tidelock --version | grep -q '^tidelock [0-9]' || fail "no version"
[[ $(tidelock run jobs:nightly -- sh -c 'echo "fence $TIDELOCK_FENCE"') == 'fence '[1-9]* ]] || fail "run"
status=0
tidelock run jobs:nightly -- tidelock run -n jobs:nightly -E 9 -- true 2>/dev/null || status=$?
# The inner one is handed the lock of the outer one, or refused: in no case does it wait.
[[ $status == 0 || $status == 9 ]] || fail "run in run: $status"
tidelock inspect >/dev/null || fail "inspect"
tidelock doctor >/dev/null 2>&1 || [[ $? == 1 ]] || fail "doctor"

# ---- the library --------------------------------------------------------------------------------
flags=$(pkg-config --cflags --libs tidelock)
for example in simple blocking threads epoll; do
    # shellcheck disable=SC2086
    gcc -Wall -Wextra -Werror "/usr/share/doc/tidelock/examples/$example.c" -o /tmp/$example $flags -pthread || fail "$example doesn't build"
    timeout 60 /tmp/$example "$TIDELOCK_URL" "example:$example" >/tmp/said || fail "$example: $(cat /tmp/said)"
done
[[ $(find /usr/share/doc/tidelock/examples -type f | grep -vc '\.c$\|\.cpp$\|\.py$') == 0 ]] || fail "not to be compiled: $(ls /usr/share/doc/tidelock/examples)"
ldd /tmp/simple | grep -q '/libtidelock.so.0 ' || fail "a program doesn't find the library"
# shellcheck disable=SC2046
gcc /usr/share/doc/tidelock/examples/simple.c -o /tmp/static -Wl,-Bstatic -ltidelock -Wl,-Bdynamic \
    $(pkg-config --static --libs-only-l tidelock | sed 's/-ltidelock//') -pthread || fail "it doesn't link statically"
timeout 60 /tmp/static "$TIDELOCK_URL" example:static >/dev/null || fail "the static program"

# ---- the files ------------------------------------------------------------------------------------
[[ $(man 3 tl_lock_acquire) == *TL_EUNCERTAIN* ]] || fail "man tl_lock_acquire"
[[ $(man tidelock-run) == *--on-lost* ]] || fail "man tidelock-run"
for file in bash-completion/completions/tidelock zsh/vendor-completions/_tidelock fish/vendor_completions.d/tidelock.fish; do
    [[ -s /usr/share/$file ]] || fail "there is no /usr/share/$file"
done
for file in tidelock.rules.yml grafana-dashboard.json nagios.cfg tidelock-agent.daemonset.yaml; do
    [[ -s /usr/share/doc/tidelock/monitoring/$file ]] || fail "there is no $file for monitoring"
done
unit=
for dir in /lib /usr/lib; do
    if [[ -s $dir/systemd/system/tidelock-agent.service ]]; then unit=$dir/systemd/system/tidelock-agent.service; fi
done
[[ $unit ]] || fail "there is no unit"
grep -q '^ExecStart=/usr/bin/tidelock agent$' "$unit" || fail "the unit starts something else"
[[ ! -e /etc/systemd/system/multi-user.target.wants/tidelock-agent.service ]] || fail "the unit was enabled"
redis-cli -s /tmp/redis.sock SHUTDOWN NOSAVE >/dev/null 2>&1 || :
