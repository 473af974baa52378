#!/bin/bash
# No URL at all: one private server for each user, whatever the environment, and a word about it. This
# plays in a /tmp and a network of its own, as the real one may be at work for whoever runs the tests.
if [[ -z ${OWN_TMP:-} ]]; then
    for own in "unshare -mn" "unshare -rmn"; do
        $own true 2>/dev/null || continue
        OWN_TMP=$(mktemp -d)
        export OWN_TMP
        trap 'rm -rf "$OWN_TMP"' EXIT
        $own "$0"
        exit
    done
    echo "no namespaces: unshare(1) needs root, or user namespaces"
    exit 77
fi
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
unset TIDELOCK_URL
rm -rf "$work"

# ---- a /tmp of its own ------------------------------------------------------------------------
# The repository may lie in the other one.
mkdir "$OWN_TMP/test" "$OWN_TMP/test/home"
cp "$tidelock" "$OWN_TMP/test/"
chmod 1777 "$OWN_TMP"
mount --bind "$OWN_TMP" /tmp || fail "no other /tmp"
tidelock=/tmp/test/tidelock work=/tmp/test out=/tmp/test/out err=/tmp/test/err
dir=/tmp/tidelock-$(id -u)
cd /tmp || exit
end() {
    local pid
    for pid in $(jobs -p) $(cat "$dir/redis.pid" "$dir.away/redis.pid" 2>/dev/null); do
        kill -KILL "$pid" 2>/dev/null
    done
    clean_up
}
trap end EXIT
one='the server is the private one of this user, local:, whose locks other hosts don.t see'

# ---- one server, whatever the environment -----------------------------------------------------
own='HOME=/tmp/test/home LOGNAME=u'
environments=(
    "env -i"
    "env -i $own SHELL=/bin/sh PATH=/usr/bin:/bin" # cron
    "env -i $own USER=u SHELL=/bin/bash TERM=xterm LANG=C.UTF-8 PATH=$PATH XDG_RUNTIME_DIR=/tmp/test/run
        XDG_SESSION_ID=1 XDG_STATE_HOME=/tmp/test/state TMPDIR=/tmp/test/tmp" # a session
    "env -C / HOME=/ TMPDIR=/var/tmp TMP=/var/tmp XDG_RUNTIME_DIR=/nonexistent"
)

# shellcheck disable=SC2086
${environments[1]} "$tidelock" run job -- sleep 1000 2>/dev/null &
holder=$!
held() { [[ $("$tidelock" check job 2>/dev/null) == held* ]]; }
until_true 30 held || fail "the lock is not had"
pid=$(cat "$dir/redis.pid")
for e in "${environments[@]}"; do
    # shellcheck disable=SC2086
    expect 75 $e "$tidelock" run -n job -- true
    # shellcheck disable=SC2086
    expect 75 $e "$tidelock" --url local: run -n job -- true
    # shellcheck disable=SC2086
    expect 0 $e "$tidelock" local status --json
    json_has "$out" pid "$pid"
    json_has "$out" data "$dir"
done
kill "$holder"
wait_for "$holder" 10

# ---- it is said once, unless local: was asked for ---------------------------------------------
for c in "run k -- true" "lock -t 10ms said" "inspect" "doctor"; do
    # shellcheck disable=SC2086
    "$tidelock" $c >"$out" 2>"$err" </dev/null
    [[ $(grep -c "$one" "$err") == 1 ]] || fail "$c does not say once that locks hold on this host only"
    # shellcheck disable=SC2086
    "$tidelock" --url local: $c >"$out" 2>"$err" </dev/null
    ! grep -q "$one" "$err" || fail "$c says it though it was asked for"
done
TIDELOCK_URL=local: expect 0 "$tidelock" run k -- true
[[ ! -s $err ]] || fail "it is said though TIDELOCK_URL asks for it"
expect_line 0 "$one" "$tidelock" run k -- true
{ "$tidelock" run --forever -v k -- true & } 2>"$err"
forever=$!
twice() { (($(grep -c ': acquired' "$err") >= 2)); }
until_true 30 twice || fail "--forever does not go on"
kill "$forever"
wait_for "$forever" 10
[[ $(grep -c "$one" "$err") == 1 ]] || fail "--forever says it each time"

# ---- what concerns several hosts wants a URL --------------------------------------------------
for c in "agent --once" "agent --forget app1" "skew" "skew --format nagios" "migrate init --keys k* --yes" "migrate status"; do
    # shellcheck disable=SC2086
    expect_line 64 "^tidelock: ${c%% *}: say which server the hosts share: --url URL, or TIDELOCK_URL" "$tidelock" $c
done
expect 0 "$tidelock" --url local: agent --once

# ---- never a second server --------------------------------------------------------------------
[[ $(cat "$dir/redis.pid") == "$pid" ]] || fail "the server is another"
expect 0 "$tidelock" --url local: lock -t 1d job
another=$work/another
cat >"$another" <<'END'
#!/bin/sh
exec unshare -m sh -c 'mount -t tmpfs none /mnt && chmod 1777 /mnt && cp /tmp/test/tidelock /mnt/ &&
    mount --bind /mnt /tmp && export TIDELOCK_URL=local: && exec "$@"' sh "$@"
END
chmod +x "$another"
hidden="this user.s private server runs, but not in $dir"
expect_line 69 "$hidden" "$another" /tmp/tidelock run -n job -- true
expect_line 69 "$hidden" "$another" /tmp/tidelock local status
expect_line 69 "$hidden" "$another" /tmp/tidelock local stop
mv "$dir" "$dir.away"
expect_line 69 "$hidden" "$tidelock" --url local: run -n job -- true
expect_line 69 "$hidden" "$tidelock" local status
rm -rf "$dir"
mv "$dir.away" "$dir"
expect 75 "$tidelock" --url local: run -n job -- true

# Once it is gone another may come, in whatever place.
expect 0 "$tidelock" local stop --force
expect 0 "$another" sh -c '/tmp/tidelock run -n job -- true && /tmp/tidelock local stop'
expect 75 "$tidelock" --url local: run -n job -- true
expect 0 "$tidelock" local stop --force

# ---- a directory that can't be trusted --------------------------------------------------------
rm -rf "$dir"
chmod 0777 /tmp
expect_line 77 "$dir is refused, because others may move it away" "$tidelock" --url local: lock k
chmod 1777 /tmp
rm -rf "$dir"
mkdir /tmp/test/trap
chmod 700 /tmp/test/trap
ln -s /tmp/test/trap "$dir"
expect_line 77 "$dir is refused, because it is a symbolic link or no directory" "$tidelock" --url local: lock k
rm "$dir"
mkdir -m 777 "$dir"
expect_line 77 "$dir is refused, because others may enter it" "$tidelock" --url local: lock k
if chown 12345 "$dir" 2>/dev/null; then
    chmod 700 "$dir"
    expect_line 77 "$dir is refused, because it belongs to user 12345" "$tidelock" --url local: lock k
fi
[[ -z $(find "$dir" /tmp/test/trap -mindepth 1) ]] || fail "something was written there"
rmdir "$dir"
