#!/bin/bash
# Passwords: by URL, environment and file; refused ones; and that none is ever shown.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
secret='hunter2secret'
redis() { redis-cli -s "$socket" -a "$secret" --no-auth-warning "$@" 2>/dev/null; }
start_server --requirepass "$secret"
redis ACL SETUSER ann on '>annpass7' '~*' '&*' '+@all' >/dev/null
plain=unix://$socket
# The form with a user and a password needs a port to listen on.
open_port
quiet() { ! grep -qE 'hunter2|annpass|wrongpass' "$out" "$err" || depth=1 fail "a secret is shown"; }

# ---- who gets in ------------------------------------------------------------------------------
unset TIDELOCK_URL
expect 0 "$tidelock" run --url "redis://:$secret@127.0.0.1:$port" k -- true
expect 0 "$tidelock" run --url "redis://ann:annpass7@127.0.0.1:$port" k -- true
TIDELOCK_PASSWORD=$secret expect 0 "$tidelock" run --url "$plain" k -- true
echo "$secret" >"$work/pw"
expect 0 "$tidelock" run --url "$plain" --password-file "$work/pw" k -- true
printf '%s' "$secret" >"$work/pw"
expect 0 "$tidelock" --password-file="$work/pw" --url "$plain" run k -- true
printf '%s\r\nmore\n' "$secret" >"$work/pw"
expect 0 "$tidelock" run --url "$plain" --password-file "$work/pw" k -- true
TIDELOCK_URL="redis://:$secret@127.0.0.1:$port" expect 0 "$tidelock" run k -- true
# What was typed beats the environment.
TIDELOCK_PASSWORD=wrongpass expect 0 "$tidelock" run --url "$plain" --password-file "$work/pw" k -- true
TIDELOCK_PASSWORD=wrongpass expect 0 "$tidelock" run --url "redis://:$secret@127.0.0.1:$port" k -- true
TIDELOCK_PASSWORD=$secret TIDELOCK_URL="redis://:wrongpass@127.0.0.1:$port" expect 0 "$tidelock" run k -- true
TIDELOCK_URL=nonsense:// expect 0 "$tidelock" run --url "$plain" --password-file "$work/pw" k -- true

# ---- who does not -----------------------------------------------------------------------------
for c in "run k -- echo never" "run -n k -- echo never" "lock k" "unlock k t" "extend k t --ttl 1s" "check k"; do
    # shellcheck disable=SC2086
    expect_line 77 . "$tidelock" --url "$plain" $c
    # shellcheck disable=SC2086
    TIDELOCK_PASSWORD=wrongpass expect_line 77 . "$tidelock" --url "$plain" $c
    quiet
done
expect_line 77 . "$tidelock" run --url "redis://:wrongpass@127.0.0.1:$port" k -- true
quiet
expect_line 77 . "$tidelock" run --url "redis://ann:wrongpass@127.0.0.1:$port" k -- true
quiet
expect 77 "$tidelock" run --forever --url "$plain" k -- true
# A user who may not do what a lock needs is told so.
redis ACL SETUSER bob on '>bobpass' '~other:*' '+@all' >/dev/null
expect_line 77 . "$tidelock" run --url "redis://bob:bobpass@127.0.0.1:$port" k -- true

# ---- files that are no good -------------------------------------------------------------------
: >"$work/empty"
expect_line 78 'empty' "$tidelock" run --url "$plain" --password-file "$work/empty" k -- true
echo >"$work/empty"
expect_line 78 'empty' "$tidelock" run --url "$plain" --password-file "$work/empty" k -- true
expect_line 78 'No such file' "$tidelock" run --url "$plain" --password-file "$work/none" k -- true
expect_line 78 'directory' "$tidelock" run --url "$plain" --password-file "$work" k -- true
head -c 16385 /dev/zero | tr '\0' x >"$work/big"
expect_line 78 'longer than 16384 bytes' "$tidelock" run --url "$plain" --password-file "$work/big" k -- true
printf 'hunter2\0rest\n' >"$work/zero"
expect_line 78 'zero byte' "$tidelock" run --url "$plain" --password-file "$work/zero" k -- true
quiet

# ---- access tokens are long -------------------------------------------------------------------
for n in 2000 16384; do
    head -c $n /dev/zero | tr '\0' t >"$work/token"
    redis ACL SETUSER tok reset on ">$(cat "$work/token")" '~*' '&*' '+@all' >/dev/null
    expect 0 "$tidelock" run --url "redis://tok@127.0.0.1:$port" --password-file "$work/token" k -- true
    TIDELOCK_URL="redis://tok:$(cat "$work/token")@127.0.0.1:$port" expect 0 "$tidelock" check k
done

# ---- a file that changes while a lock is held --------------------------------------------------
redis ACL SETUSER rota on '>hunter2-1' '~*' '&*' '+@all' >/dev/null
echo hunter2-1 >"$work/rotated"
{ "$tidelock" --url "redis://rota@127.0.0.1:$port" --password-file "$work/rotated" run -t 12s kept -- sleep 600 & } 2>"$err"
run=$!
is_kept() { [[ -n $(redis GET kept) ]]; }
logs_in_again() { # what for
    redis CLIENT KILL USER rota >/dev/null
    until_true 20 is_in || fail "$1: $(cat "$err")"
}
is_in() { redis CLIENT LIST | grep -q 'user=rota'; }
until_true 20 is_kept || fail "the lock is not acquired"
echo hunter2-2 >"$work/rotated"
redis ACL SETUSER rota '>hunter2-2' '<hunter2-1' >/dev/null
logs_in_again "the next password is not read"
# One that is missing, or not written yet, is no password: that of before serves.
rm "$work/rotated"
logs_in_again "without the file the password of before is not used"
grep -q 'warning: --password-file .*rotated: No such file.*; the password that was read from it last is used' "$err" || fail "no line says that it is missing"
: >"$work/rotated"
logs_in_again "with an empty file the password of before is not used"
kill $run
wait_for $run 10
[[ $status == 143 ]] || fail "the run that outlived a password ended with status $status"
quiet
# What can be read once only is not read again, nor waited for.
expect 0 "$tidelock" --url "$plain" --password-file <(echo "$secret") run k -- true

# ---- a '@' behind the login is none's ----------------------------------------------------------
mkdir "$work/a@b"
ln -s "$socket" "$work/a@b/r.sock"
for url in "unix:$work/a@b/r.sock" "unix://$work/a@b/r.sock" "UNIX:$work/a@b/r.sock"; do
    TIDELOCK_PASSWORD=$secret TIDELOCK_URL=$url expect 0 "$tidelock" run k -- printenv TIDELOCK_URL
    grep -qxF "$url" "$out" || fail "the command sees $(cat "$out") instead of $url"
    TIDELOCK_PASSWORD=$secret expect 0 "$tidelock" --url "$url" check k
done
TIDELOCK_URL="unix://ann:annpass7@$work/a@b/r.sock" expect 0 "$tidelock" run k -- printenv TIDELOCK_URL
grep -qxF "unix://ann@$work/a@b/r.sock" "$out" || fail "the command sees $(cat "$out")"

# ---- nothing is shown -------------------------------------------------------------------------
# Neither in the list of processes nor in the environment of tidelock and of its command.
{ TIDELOCK_PASSWORD=$secret TIDELOCK_URL="redis://ann:annpass7@127.0.0.1:$port" "$tidelock" run -v \
    --url "redis://hunter2first@127.0.0.1:1" --url=redis://:hunter2second@127.0.0.1:1 --url "redis://:$secret@127.0.0.1:$port/0" k -- sh -c 'env >"$1.tmp"; mv "$1.tmp" "$1"; exec sleep 600' sh "$work/env" & } \
    >"$out" 2>"$err"
run=$!
wait_file "$work/env"
tr '\0' ' ' <"/proc/$run/cmdline" >"$work/cmdline"
grep -q '127.0.0.1' "$work/cmdline" || fail "the arguments are gone: $(cat "$work/cmdline")"
! grep -q hunter2 "$work/cmdline" || fail "ps shows the password: $(cat "$work/cmdline")"
! grep -qaE 'hunter2|annpass' "/proc/$run/environ" || fail "/proc/environ shows the password"
! grep -qE 'hunter2|annpass|^TIDELOCK_PASSWORD' "$work/env" || fail "the command's environment has a password"
grep -qx "TIDELOCK_URL=redis://ann@127.0.0.1:$port" "$work/env" || fail "the command does not see the URL"
kill $run
wait_for $run 10
quiet
# Without a password in it the URL is passed on as it is.
TIDELOCK_PASSWORD=$secret TIDELOCK_URL=$plain expect 0 "$tidelock" run k -- env
grep -qx "TIDELOCK_URL=$plain" "$out" || fail "the command does not see TIDELOCK_URL"
! grep -q TIDELOCK_PASSWORD "$out" || fail "the command sees TIDELOCK_PASSWORD"
