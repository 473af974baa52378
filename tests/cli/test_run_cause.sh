#!/bin/bash
# run when renewals are refused: the line that tells of the loss, and the JSON, say what for.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
needs_redis 6.0 ACL
start_server
redis ACL SETUSER app on '>old' '~*' '&*' '+@all' >/dev/null
redis ACL SETUSER other on '>old' '~*' '&*' '+@all' >/dev/null

start_run() { # key, user, options...
    local key=$1 user=$2
    shift 2
    { "$tidelock" --url "unix://$user:old@$socket" run -t 10s --json-fd 3 "$@" "$key" -- sleep 600 & } \
        3>"$work/json.$key" 2>"$work/err.$key"
}
is_held() { [[ -n $(redis GET "$1") ]]; }

# The first renewal fails with the connection, all others by the login. The library's texts show 64 bytes of a key.
permission=permission-$(printf '%080d' 0)
start_run password app
first=$!
start_run "$permission" other
second=$!
until_true 20 is_held password && until_true 20 is_held "$permission" || fail "the locks are not acquired"
redis ACL SETUSER app '<old' '>new' >/dev/null
redis CLIENT KILL USER app >/dev/null
redis ACL SETUSER other -eval -evalsha >/dev/null
for of in "$first password WRONGPASS" "$second $permission NOPERM"; do
    read -r pid key words <<<"$of"
    wait_for "$pid" 30
    err=$work/err.$key
    [[ $status == 74 ]] || fail "$key: status $status"
    grep -q "^tidelock: $key: the lock .*$words" "$err" || fail "the line of the loss does not say $words"
    ! grep -q "(${key:0:64}" "$err" || fail "the line of the loss repeats the key"
    json_has "$work/json.$key" state lost
    ! grep -q "\"error\": *\"${key:0:64}" "$work/json.$key" || fail "the error in the JSON begins with the key"
    grep -q "\"error\": *\"[^\"]*$words" "$work/json.$key" || fail "the JSON does not say $words: $(cat "$work/json.$key")"
done
