#!/bin/bash
# With --strict the server hears nothing but SETNX, GET, GETSET and DEL, from the first byte of a
# connection to its last: for servers and proxies that know no more, or are to see no more.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
"$tidelock" run --help-all | grep -q -e --protocol || { echo "this build has no compat" && exit 77; }
strict=(--protocol timestamp --strict)
start_server
redis SETNX held $(($(now_ms) + 600000)) >/dev/null
redis SET old $(($(now_ms) - 60000)) >/dev/null

{ redis-cli -s "$socket" MONITOR & } >"$work/monitor" 2>&1
wait_file "$work/monitor"
expect 0 "$tidelock" run "${strict[@]}" free -- true
expect 75 "$tidelock" run -n "${strict[@]}" held -- true
expect 0 "$tidelock" run "${strict[@]}" old -- true
expect 0 "$tidelock" lock "${strict[@]}" free
read -r token _ <"$out"
expect 0 "$tidelock" unlock "${strict[@]}" free "$token"
redis ECHO the-end >/dev/null
heard_all() { grep -q the-end "$work/monitor"; }
until_true 10 heard_all || fail "MONITOR does not tell"

# run: acquire it, compare, delete; look at another's, once more for the message; take over what has expired; lock and unlock.
said=$(sed -n 's/^[^"]*"\([^"]*\)" "\([^"]*\)".*/\1 \2/p' "$work/monitor" | sed '/the-end/d' | tr '\n' ,)
want='SETNX free,GET free,DEL free,'
want+='SETNX held,GET held,GET held,'
want+='SETNX old,GET old,GETSET old,GET old,DEL old,'
want+='SETNX free,GET free,DEL free,'
[[ $said == "$want" ]] || fail "the server heard $said"
# Words without a key are none of the four.
[[ $(grep -c '"' "$work/monitor") == $(($(tr -cd , <<<"$said" | wc -c) + 1)) ]] || fail "$(cat "$work/monitor")"

# What it can't do is not the server's fault, which has EVAL.
for c in "extend free 12345678901234 --ttl 60s" inspect "break -y free"; do
    # shellcheck disable=SC2086
    expect_line 64 strict "$tidelock" $c "${strict[@]}"
    ! grep -q EVAL "$err" || fail "$c: EVAL is there: $(cat "$err")"
done
