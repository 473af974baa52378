#!/bin/bash
# compat/RUNBOOK.md: its lines, pasted one after the other into a shell as they stand there (but for the server, the namespace and
# its keys, and for how long they wait), lead services that hold locks from the first C service to tokens, and back, without a
# refusal. The names are others than the page's, so that no line is left which has a name of its own.
# timeout: 180
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/migrate.sh"
start_server
open_port # redis-cli knows no URL of a socket
export TIDELOCK_URL=redis://127.0.0.1:$port
register='tidelock:phase:{nights}'
ln -s "$tidelock" "$work/bin/tidelock"

"$python" - "$here/compat" "$work" "$TIDELOCK_URL" <<'PY' || fail "no commands in the runbook"
import re, sys
guide, work, url = sys.argv[1:]
def boxes(text):
    return [[l.strip() for l in box.splitlines()] for box in re.findall(r"^ *```sh\n(.*?)^ *```", text, re.S | re.M)]
pages = re.split(r"(?m)^## ", open(guide + "/RUNBOOK.md").read())
section = {p.splitlines()[0]: boxes(p) for p in pages}
steps = [b for name, all in section.items() if name[:2] in ("0.", "1.", "2.", "3.", "4.", "5.") for b in all]
end, gone = section["6. The end"]
cluster, cluster_gone = section["In a Redis Cluster"]
named = {"there": sum(steps, []), "end": end, "gone": gone, "back": sum(section["The way back"], []),
         "sentinels": sum(section["With Sentinels"], []), "cluster": cluster, "cluster_gone": cluster_gone,
         "lost": sum(section["When the server has lost the register"], [])}
settings = {"export TIDELOCK_URL=": url, "NS=": "nights", "KEYS=": "'cron:[a-z]*'", "TRY=": "cron:tidelock-try", "WATCH=": "1s", "LEASE=": "1s"}
def ours(line):
    for name, value in settings.items():
        line = name + value if line.startswith(name) else line
    line = re.sub(r" +# .*", "", line)
    return line.replace("--monitor 1m", "--monitor 1s") + " --watch 1s" if line.startswith("tidelock migrate survey") else line
for name, lines in named.items():
    open("%s/%s" % (work, name), "w").write("".join(ours(l) + "\n" for l in lines))
for name, least in {"there": 14, "end": 3, "gone": 1, "back": 2, "sentinels": 3, "cluster": 8, "cluster_gone": 3, "lost": 2}.items():
    assert len(named[name]) >= least, name
# what the reader is told to set is there to be set, and what is used has been set
assert {n.split()[-1] for n in settings} <= {l.split("=")[0].split()[-1] + "=" for l in named["there"][:6]}
# beyond what is set no line names the keys or the namespace of the page, nor does a command in the text
for name, lines in named.items():
    for line in lines[6 if name == "there" else 0:]:
        assert "cron:" not in line and "default" not in line, line
for command in re.findall(r"`((?:tidelock|redis-cli) [^`]*)`", "".join(pages)):
    assert "cron:" not in command and "default" not in command, command
    assert not re.match(r"tidelock migrate (init|status|clients|advance|rollback|sweep)\b", command) or '--namespace "$NS"' in command, command
PY

# Services that follow the phase: one acquires its lock again and again, one keeps it, one was killed, and some have ended
# before there was a register. Java has crashed.
export socket register
auto=(--protocol auto --namespace 'cron:[a-z]*=nights' --clock-skew-max 300ms --legacy-delay-max 100ms --legacy-ttl-min 12s -t 10s)
start_service() {
    { "$tidelock" run "${auto[@]}" --forever cron:mine -- \
        sh -c "redis-cli -s '$socket' GET cron:mine >>'$work/held'; sleep 1.5" & } 2>"$work/service"
    service=$!
}
start_service
{ "$tidelock" run "${auto[@]}" cron:long -- sleep 1000 & } 2>"$work/long.err"
long=$!
wait_file "$work/held" 20
until_true 20 is_held cron:long || fail "the second service has no lock"
for _ in 1 2 3; do expect 0 "$tidelock" run "${auto[@]}" cron:short -- true; done
redis SETNX cron:old $(($(server_ms) - 600000)) >/dev/null
kill_one() { # once there is a register: before, its lease is 30 s
    "$tidelock" run "${auto[@]}" cron:dead -- sleep 1000 &
    dead=$!
    until_true 20 is_held cron:dead || fail "the third service has no lock"
    kill -KILL $dead
    wait $dead 2>/dev/null
    redis DEL cron:dead >/dev/null
}

# What is said where no terminal shows that it goes on.
says_that_it_waits() { # file
    grep -q '^tidelock: migrate init: registered; waiting until all clients have read it, for [0-9.]* s at most$' "$1"
}

# As a person would: into one shell, whose variables stay, each line only when the one before has succeeded.
phases=
paste_lines() { # file
    local line
    while IFS= read -r line; do
        eval "$line" >"$out" 2>"$err" </dev/null || fail "${1##*/}: status $?: $line: $(cat "$out")"
        ! grep -q 'refused' "$err" || fail "${1##*/}: refused: $line"
        if [[ $line == "tidelock migrate init"* && ${1##*/} == there ]]; then cp "$err" "$work/init.err"; fi
        phases+="$(redis HGET "$register" phase) "
        if [[ $line == "tidelock migrate init"* && ${1##*/} == there ]]; then kill_one; fi
        ! gone $service && ! gone $long || fail "$line: a service has ended: $(cat "$work/service" "$work/long.err")"
    done <"$1"
}
tokens() { tail -n 1 "$work/held" | grep -qE '^[0-9a-f]{8}-[0-9a-f-]{27}$'; }
stamps() { tail -n 1 "$work/held" | grep -q '^[0-9]\{13\}$'; }
paste_lines "$work/there"
[[ $phases =~ ^\ *(1\ )+2\ 3\ $ ]] || fail "phases: '$phases'"
says_that_it_waits "$work/init.err" || fail "init is silent: $(cat "$work/init.err")"
is_free cron:old || fail "what Java left is still there"
grep -q '^[0-9]\{13\}$' "$work/held" || fail "no stamp ever: $(cat "$work/held")"
until_true 20 tokens || fail "no token: $(tail -n 3 "$work/held")"
kill $long # its token would be waited for
wait $long 2>/dev/null
long=$service
phases=
paste_lines "$work/back"
[[ $phases == "2 1 " ]] || fail "the way back: '$phases'"
grep -q 'no token is left: Java may start' "$out" || fail "nobody says when Java may start: $(cat "$out")"
until_true 20 stamps || fail "no stamp: $(tail -n 3 "$work/held")"

# All of it again, to the end.
phases=
paste_lines "$work/there"
paste_lines "$work/end"
[[ $phases =~ ^(1\ )+2\ 3\ 3\ 3\ 3\ $ ]] || fail "again: '$phases'"

# The register is lost under a service that knows it, which ends. It is made again, and the service is started again.
redis DEL "$register" >/dev/null
wait_for $service 60
[[ $status == 77 ]] && grep -q 'its register has gone' "$work/service" ||
    fail "the service without a register: status $status: $(cat "$work/service")"
service=$$ long=$$ # which goes on
phases=
paste_lines "$work/lost"
[[ $phases == " 3 " ]] || fail "made again: '$phases'"
: >"$work/held"
start_service
until_true 20 tokens || fail "no token after the register was made again: $(cat "$work/held")"
kill $service
wait_for $service 20
service=$$
paste_lines "$work/gone"
[[ -z $(redis KEYS 'tidelock:phase:*') ]] || fail "of the register there is left: $(redis KEYS 'tidelock:phase:*')"

# A set with Sentinels.
(
    export TIDELOCK_URL=local:$work/tidelock
    url=$("$tidelock" local demo sentinel 2>"$err") || fail "no set: $(cat "$err")"
    keep_masters "$url"
    TIDELOCK_URL=$url expect 0 "$tidelock" migrate init --namespace "$NS" --keys "$KEYS" --phase 1 --yes
    while IFS= read -r line; do
        line=${line/"TIDELOCK_URL=redis://127.0.0.1:$port"/TIDELOCK_URL=$url}
        eval "$line" >"$out" 2>"$err" </dev/null || fail "sentinels: status $?: $line: $(cat "$out")"
    done <"$work/sentinels"
    [[ $(grep -c 'may become master:$' "$out") == 2 ]] || fail "not of each server: $(cat "$out")"
    TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo stop 2>"$err" || fail "the set isn't ended"
) || exit 1

# A cluster: the same steps, through all of its slots.
url=$(TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo cluster 2>"$err") || fail "no cluster: $(cat "$err")"
keep_masters "$url"
node=${url##*:}
redis-cli -c -p "$node" SET cron:old $(($(server_ms) - 600000)) >/dev/null
while IFS= read -r line; do
    line=${line/"TIDELOCK_URL=$TIDELOCK_URL"/TIDELOCK_URL=$url}
    eval "$line" >"$out" 2>"$err" </dev/null || fail "cluster: status $?: $line: $(cat "$out")"
    [[ $line != *" sweep "* ]] || grep -q '^1 removed, 0 free, 0 held$' "$out" || fail "not swept: $(cat "$out")"
done <"$work/cluster"
grep -q '^namespace .*: phase 2 (drain) -> 3 (token), epoch 3, in all 16384 slots$' "$out" || fail "not led to tokens: $(cat "$out")"
[[ $(redis-cli -c -p "$node" EXISTS cron:old) == 0 ]] || fail "what Java left in the cluster is still there"
mapfile -t ports < <(ports_of "$url")
masters=()
for p in "${ports[@]}"; do [[ $(redis-cli -p "$p" ROLE | head -n 1) != master ]] || masters+=("$p"); done
redis-cli() { # the addresses of the page are those of the masters
    local words=() word
    for word in "$@"; do
        if [[ $word =~ ^10\.0\.0\.([567])$ ]]; then words+=(127.0.0.1 -p "${masters[BASH_REMATCH[1] - 5]}"); else words+=("$word"); fi
    done
    command redis-cli "${words[@]}"
}
(($(redis-cli -h 10.0.0.6 --scan --pattern 'tidelock:phase:*' | wc -l) > 5000)) || fail "no registers in the cluster"
eval "$(<"$work/cluster_gone")" >"$out" 2>"$err" </dev/null || fail "the end in a cluster: $(cat "$out")"
for host in 10.0.0.{5,6,7}; do
    [[ -z $(redis-cli -h $host --scan --pattern 'tidelock:phase:*') ]] || fail "of the registers there is left: $(cat "$out")"
done
unset -f redis-cli
TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo stop 2>"$err" || fail "the cluster isn't ended"
