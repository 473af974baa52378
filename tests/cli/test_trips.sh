#!/bin/bash
# How many round trips `run` takes after it has connected: the login, the acquire, the release. One connection.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
open_port
server=$port
claim_port
port=$claimed
{ "$python" "$here/tests/cli/trips_proxy.py" "$port" "$server" & } >"$work/trips" 2>&1
wait_file "$work/trips"
counted() { sed 1d "$work/trips"; }
# Once without: the server learns the scripts.
expect 0 "$tidelock" run --url "redis://127.0.0.1:$server" k -- true

count() { # connections that have ended by then, arguments of run
    local n=$1
    shift
    has_ended() { (($(counted | wc -l) >= n)); }
    expect 0 "$tidelock" run --url "$@" k -- true
    until_true 10 has_ended || fail 'no connection has ended'
}
count 1 "redis://127.0.0.1:$port"
count 2 "redis://127.0.0.1:$port/3"
count 3 "redis://127.0.0.1:$port" -n
[[ $(counted) == $'trips 3\ntrips 3\ntrips 3' ]] || fail "$(counted)"

# A login with a password takes no more.
redis ACL SETUSER ann on '>annpass7' '~*' '&*' '+@all' >/dev/null
count 4 "redis://ann:annpass7@127.0.0.1:$port"
[[ $(counted | tail -n 1) == 'trips 3' ]] || fail "with a password: $(counted | tail -n 1)"
