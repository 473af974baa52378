#!/bin/bash
# compat/MIGRATION.md: its commands, one after the other as they stand there (but for how long they wait), lead a
# service that holds a lock from the first C service to tokens.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/migrate.sh"
start_server
ln -s "$tidelock" "$work/bin/tidelock"
guide=$here/compat/MIGRATION.md

"$python" - "$guide" "$work" <<'PY' || fail "no commands in the guide"
import re, sys
blocks = re.findall(r"^ *```sh\n(.*?)^ *```", open(sys.argv[1]).read(), re.S | re.M)
for i, block in enumerate(blocks):
    lines = [l.strip() for l in block.splitlines()]
    # a day and the leases of 30 s are too long for a test
    lines = [l.replace("--watch 1d", "--watch 1s").replace("migrate init", "migrate init --lease 1s") for l in lines]
    open("%s/step%02d" % (sys.argv[2], i), "w").write("set -e\n" + "\n".join(lines) + "\n")
sys.exit(len(blocks) < 8)
PY

# A service that follows the phase and takes its lock again and again, and Java, which has crashed.
export socket register
"$tidelock" run --protocol auto --max-skew 300ms --legacy-lag 100ms --legacy-ttl 5s -t 3s --forever jobs:mine -- \
    sh -c "redis-cli -s '$socket' GET jobs:mine >>'$work/held'; sleep 1.5" 2>"$work/service" &
service=$!
wait_file "$work/held" 20
redis SETNX jobs:old $(($(server_ms) - 600000)) >/dev/null

# Has everybody who is at work read the phase, if there is one?
confirmed() {
    is_free "$register" ||
        ! "$tidelock" migrate clients | grep -qE '^  (behind|unregistered|ahead)' 2>/dev/null
}
# As if three leases of 30 s had passed since a client has ended.
forget_dead() {
    local id record pid
    while read -r id && read -r record; do
        read -r _ _ _ _ _ _ pid _ <<<"$record"
        [[ -d /proc/$pid ]] || redis HDEL "$register:clients" "$id" >/dev/null
    done < <(redis HGETALL "$register:clients")
}
phases=
for step in "$work"/step*; do
    forget_dead
    until_true 60 confirmed || fail "${step##*/}: $("$tidelock" migrate clients)"
    tries=0
    until timeout 100 bash "$step" >"$out" 2>"$err" </dev/null; do # a refusal says what to wait for
        grep -q 'refused: ' "$err" || fail "${step##*/}: $(cat "$step")"
        ((++tries < 60)) || fail "${step##*/} is refused: $(cat "$step")"
        # shellcheck disable=SC2016
        sed -i '/^tidelock migrate advance --watch/{s/^/if [ "$(redis-cli -s "$socket" HGET "$register" phase)" = 1 ]; then /;s/$/; fi/;}' "$step"
        sleep 0.5
    done
    phases+="$(redis HGET "$register" phase) "
    ! gone $service || fail "${step##*/}: the service has ended: $(cat "$work/service")"
done
[[ $phases =~ ^\ *(1\ )+2\ 1\ 3\ 3\ $ ]] || fail "phases: '$phases'"
is_free jobs:old || fail "what Java left is still there"
grep -q '^[0-9]\{13\}$' "$work/held" || fail "no stamp ever: $(cat "$work/held")"
tokens() { tail -n 1 "$work/held" | grep -qE '^[0-9a-f]{8}-[0-9a-f-]{27}$'; }
until_true 20 tokens || fail "no token: $(tail -n 3 "$work/held")"
kill $service
wait_for $service 20
