#!/bin/bash
# URLs that name nodes of a cluster: each command of the tool works through a real one, over all of its masters, or says in a
# line why it doesn't; and what is wrong with one is told.
# timeout: 180
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
unset TIDELOCK_URL
url=redis+cluster://127.0.0.1:1,127.0.0.1:2

# Nobody is there; a seed that is no cluster's node; what would overlook a node.
for c in skew "agent --once" "agent --forget h"; do
    # shellcheck disable=SC2086
    expect_line 69 'none of the 2 nodes in the URL leads to a cluster: connect 127.0.0.1:1: connection refused' "$tidelock" --url $url $c
done
expect 3 "$tidelock" --url $url skew --format nagios # a monitor is told in its own way
grep -q '^SKEW UNKNOWN - none of the 2 nodes' "$out" || fail "nagios: $(cat "$out")"
start_server
open_port
expect_line 70 "127.0.0.1:$port is no node of a cluster: give its URL as redis://" "$tidelock" --url redis+cluster://127.0.0.1:"$port" skew
expect_line 70 "127.0.0.1:$port is no node of a cluster: give its URL as redis://" "$tidelock" --url redis+cluster://127.0.0.1:"$port" doctor
expect_line 64 'skew: --passive listens to one server' "$tidelock" --url $url skew --passive
expect_line 64 'skew: --publish' "$tidelock" --url $url skew --publish ns
expect_line 64 'migrate clients: in a cluster no client is registered' "$tidelock" --url $url migrate clients
# So it is for the locks, at once, whatever the wait: no run may take so long.
for c in "run -w 1h k -- true" "lock -w 1h k" "check k" inspect "unlock k t" "break k --yes"; do
    # shellcheck disable=SC2086
    expect_line 70 "127.0.0.1:$port is no node of a cluster: give its URL as redis://" "$tidelock" --url redis+cluster://127.0.0.1:"$port" $c
done
stop_server

# ---- a real cluster -----------------------------------------------------------------------------------
demo() { TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo "$@"; }
url=$(demo cluster 2>"$err") || fail "no cluster: $(cat "$err")"
export TIDELOCK_URL=$url
keep_masters "$url"
mapfile -t port < <(ports_of "$url")
of() { redis-cli -p "$@" 2>/dev/null; }                                             # port words...
slot=$(of "${port[0]}" CLUSTER KEYSLOT '{tidelock:agents}')
own() { of "$1" CLUSTER NODES | grep myself; }                                      # what it says of itself
leads() { of "$1" CLUSTER SLOTS >/dev/null && [[ $(own "$1") == *" connected "[0-9]* ]]; } # has it slots?
has_agents() { [[ $(of "$1" GET '{tidelock:agents}:x' 2>&1) != MOVED* ]]; }
masters=() others=()
find_masters() { # one that was lost before they were kept may still believe that it is one
    masters=()
    for p in "${port[@]}"; do if leads "$p"; then masters+=("$p"); fi; done
    ((${#masters[@]} == 3))
}
until_true 20 find_masters || fail "not three masters: $(of "${port[0]}" CLUSTER NODES)"
for p in "${masters[@]}"; do if has_agents "$p"; then home=$p; else others+=("$p"); fi; done
a=${others[0]} b=${others[1]}
id() { of "$1" CLUSTER MYID; }
doctor_says() { # status pattern options or a URL...
    local want=$1 pattern=$2
    shift 2
    if [[ ${1:-} != --url ]]; then set -- doctor "$@"; else set -- "$@" doctor; fi
    depth=1 expect_from "$want" "$tidelock" "$@"
    grep -qE -- "$pattern" "$out" || depth=1 fail "doctor lacks '$pattern': $(cat "$out")"
}

# Every command, for keys of all nodes.
for k in one two three four five six; do expect 0 "$tidelock" lock $k; done
expect 0 "$tidelock" inspect
[[ $(grep -cE '^(one|two|three|four|five|six) ' "$out") == 6 ]] || fail "inspect: $(cat "$out")"
for k in one two three four five six; do expect 0 "$tidelock" break $k --yes; done
expect 0 "$tidelock" run -w 5s job -- true
# No lock can have such a key: each command says the same of it.
for c in lock check inspect "break --yes"; do
    # shellcheck disable=SC2086
    expect_line 64 "key: it has a '}' and no \{tag\}, " "$tidelock" $c 'a}b'
done
# Whatever an answer takes on a busy machine: its record lasts, and only what is further off than that is told.
here_too=("$tidelock" agent --once --name other --every 10m)
skew=("$tidelock" skew --slack 30s)
expect 0 "${here_too[@]}"
expect 0 "${skew[@]}"
for p in "${masters[@]}"; do grep -q "^127.0.0.1:$p " "$out" || fail "skew: $p is not measured: $(cat "$out")"; done
[[ $(grep -c "^127.0.0.1:[0-9]*  .*server: " "$out") == 3 ]] || fail "skew: not the masters alone: $(cat "$out")"
expect 0 "${skew[@]}" --servers
[[ $(grep -c "^127.0.0.1:[0-9]*  .*server: " "$out") == 6 ]] || fail "skew --servers: not all nodes: $(cat "$out")"

# A single node leads nowhere else, and doesn't judge alone.
expect 0 "$tidelock" --url "redis://127.0.0.1:$home" skew --slack 30s
[[ $(grep -c "^127.0.0.1:[0-9]*  .*server: " "$out") == 3 ]] || fail "skew by a node: $(cat "$out")"
expect_line 69 "127.0.0.1:$a is a node of a cluster, of which another has these keys .127.0.0.1:$home" "$tidelock" --url "redis://127.0.0.1:$a" skew
expect_line 77 'migrate: this is a node of a cluster, and the locks of other nodes would be overlooked' "$tidelock" --url "redis://127.0.0.1:$home" migrate status
doctor_says 1 'cluster: this is a node of a cluster, and only this one is checked' --url "redis://127.0.0.1:$a"

# The doctor: what is true of several is told once, with their names; what of one, of that.
of "$a" CONFIG SET maxmemory 100mb >/dev/null
of "$a" CONFIG SET maxmemory-policy allkeys-lru >/dev/null
doctor_says 2 'danger +eviction: maxmemory-policy is allkeys-lru'
grep -A1 eviction: "$out" | grep -qx "         at: 127.0.0.1:$a" || fail "not at $a alone: $(cat "$out")"
of "$a" CONFIG SET maxmemory 0 >/dev/null
doctor_says 1 "^cluster of 127.0.0.1:[0-9]* .masters: 3, replicas: 3., Redis"
for p in "${masters[@]}"; do grep -A1 'failover: two clients may hold' "$out" | grep -q "127.0.0.1:$p" || fail "not of $p: $(cat "$out")"; done
[[ $(grep -c 'failover:' "$out") == 1 ]] || fail "told more than once: $(cat "$out")"
if grep -qE 'sentinel|  cluster:' "$out"; then fail "doctor: $(cat "$out")"; fi
expect 1 "$tidelock" doctor --json
"$python" -c 'import json, sys
d = json.load(open(sys.argv[1]))
assert sorted((n["role"] for n in d["nodes"])) == ["master"] * 3 + ["replica"] * 3, d["nodes"]
assert [sorted(f["nodes"]) for f in d["findings"] if f["id"] == "quiet"] == [sorted(sys.argv[2:])], d["findings"]' \
    "$out" "${masters[@]/#/127.0.0.1:}" || fail "JSON: $(cat "$out")"
expect 0 "$tidelock" doctor --quiet 31s
grep -q 'note .*failover: no two clients hold a lock at once in a failover' "$out" || fail "doctor --quiet: $(cat "$out")"
doctor_says 2 'danger +replication: wait_replicas is 2, and the server has 1' --wait-replicas 2
# As a client of that database would find them.
doctor_says 1 'database 1 cannot be selected' --url "redis+cluster://127.0.0.1:$home/1"
expect 0 "$tidelock" doctor --acl locker 'jobs:*'
grep -q '^ACL SETUSER locker .* +role +cluster|slots +cluster|info +asking ' "$out" || fail "--acl: $(cat "$out")"

# A slot is left open; then it moves, and an agent with it.
{ "$tidelock" agent --every 200ms --name steady & } 2>"$work/agent"
agent=$!
record() { of "$1" GET '{tidelock:agents}:steady'; }
has_record() { [[ $(record "$1") == tidelock* || -n $(record "$1") && $(record "$1") != MOVED* ]]; }
until_true 10 has_record "$home" || fail "the agent has published nothing: $(cat "$work/agent")"
of "$a" CLUSTER SETSLOT "$slot" IMPORTING "$(id "$home")" >/dev/null
of "$home" CLUSTER SETSLOT "$slot" MIGRATING "$(id "$a")" >/dev/null
doctor_says 1 "warning +cluster: slot $slot is being moved from 127.0.0.1:$home to 127.0.0.1:$a"
doctor_says 1 'failover: two clients may hold a lock at once .*wait_replicas 1 of 1' --wait-replicas 1 # nobody tells a replica of that
mapfile -t keys < <(of "$home" CLUSTER GETKEYSINSLOT "$slot" 100)
of "$home" MIGRATE 127.0.0.1 "$a" "" 0 60000 KEYS "${keys[@]}" >/dev/null
for p in "$a" "$home" "$b"; do of "$p" CLUSTER SETSLOT "$slot" NODE "$(id "$a")" >/dev/null; done
was=$(record "$a")
renewed() { has_record "$a" && [[ $(record "$a") != "$was" ]]; }
until_true 20 renewed || fail "the agent publishes nothing at the next node: $(cat "$work/agent")"
kill -TERM $agent
wait_for $agent 10
expect 0 "$tidelock" agent --forget steady

# A master whose clock is off: whatever the others say, it is not safe.
claim_port
late=$claimed
{ "$python" "$here/tests/cli/late_proxy.py" "$late" 50000000 "$b" & } >"$work/late" 2>&1
wait_file "$work/late"
expect 0 "${here_too[@]}"
expect 0 "${skew[@]}"
announce() { # port: clients are led there for b
    of "$b" CONFIG SET cluster-announce-port "$1" >/dev/null
    of "$b" CONFIG SET cluster-node-timeout 5000 >/dev/null # it speaks to each of the others within half of that
    local p
    for p in "${port[@]}"; do until_true 20 is_announced "$p" "$1" || depth=1 fail "$p hasn't heard"; done
    of "$b" CONFIG SET cluster-node-timeout 60000 >/dev/null
}
is_announced() { of "$1" CLUSTER NODES | grep -q "^$(id "$b") 127.0.0.1:$2@"; }
announce "$late"
expect 2 "${skew[@]}"
grep -q "^UNSAFE: .*127.0.0.1:$late" "$out" || fail "a master's clock is overlooked: $(cat "$out")"
doctor_says 2 "danger +cluster-clock: the clock of 127.0.0.1:$late is [0-9]* ms ahead of most" --url "redis+cluster://127.0.0.1:$a"

# A master at an address that can't be reached.
announce 1
expect 0 "${here_too[@]}"
expect 1 "${skew[@]}"
grep -q '^WARN: there is no evidence of 127.0.0.1:1 ' "$out" || fail "a master that is silent is overlooked: $(cat "$out")"
doctor_says 2 "danger +cluster: the cluster sends clients to 127.0.0.1:1 for 127.0.0.1:$b, where it can't be reached: connect 127.0.0.1:1: connection refused"
doctor_says 2 "danger +cluster: 127.0.0.1:1, which other nodes are connected to, can't be reached from here" --url "redis+cluster://127.0.0.1:$a"
announce "$b"

# A password that is another on one node; on all.
expect 0 "${here_too[@]}"
of "$b" CONFIG SET requirepass hunter2 >/dev/null
doctor_says 2 "danger +cluster: 127.0.0.1:$b refuses the login: .*asks for a password"
expect 1 "${skew[@]}"
grep -q "^WARN: there is no evidence of 127.0.0.1:$b " "$out" || fail "skew: $(cat "$out")"
for p in "${port[@]}"; do of "$p" CONFIG SET requirepass hunter2 >/dev/null; done
for c in skew "agent --once" doctor "doctor --acl u x*"; do
    # shellcheck disable=SC2086
    TIDELOCK_PASSWORD=wrong expect_line 77 'none of the 6 nodes in the URL leads to a cluster: .*wrong user or password' "$tidelock" $c
done
for c in "run -w 1h k -- true" "lock -w 1h k" "check k" inspect "extend k t --ttl 5s" "break k --yes"; do
    # shellcheck disable=SC2086
    TIDELOCK_PASSWORD=wrong expect_line 77 'k?: 127.0.0.1:[0-9]*: login refused: WRONGPASS: wrong user or password$' "$tidelock" $c
done
expect_line 77 ': the server asks for a password$' "$tidelock" run -w 1h k -- true
TIDELOCK_PASSWORD=hunter2 doctor_says 1 '^cluster of '
for p in "${port[@]}"; do of "$p" -a hunter2 CONFIG SET requirepass "" >/dev/null; done

# A slot that nobody has: whose clock will judge there isn't known. Then the slot of the agents.
for p in "${port[@]}"; do of "$p" CONFIG SET cluster-require-full-coverage no >/dev/null; done
expect 0 "${here_too[@]}"
gap=$(own "$b" | grep -oE ' connected [0-9]+' | cut -d' ' -f3)
of "$b" CLUSTER DELSLOTS "$gap" >/dev/null
expect 1 "${skew[@]}"
grep -q '^WARN: there is no evidence of slots-without-master' "$out" || fail "skew: $(cat "$out")"
of "$b" CLUSTER ADDSLOTS "$gap" >/dev/null
of "$a" CLUSTER DELSLOTS "$slot" >/dev/null
doctor_says 2 "danger +cluster: 1 slot has no master: $slot"
expect_line 69 "slot $slot of the cluster has no master|CLUSTERDOWN" "$tidelock" --url "redis+cluster://127.0.0.1:$a" agent --once
# Where the nodes tell each other just then, or answer late, its time may be over before one has said so.
waits_in_vain() { # pattern key
    "$tidelock" run -w 2s "$2" -- true 2>"$err"
    [[ $? == 69 && $(wc -l <"$err") == 1 ]] && grep -q -- "$1" "$err"
}
until_true 20 waits_in_vain 'acquire .tidelock:agents.job: 127.0.0.1:[0-9]*: CLUSTERDOWN Hash slot not served' '{tidelock:agents}job' ||
    fail "no run says that the slot is not served"
is_down() { "$tidelock" check '{tidelock:agents}job' 2>&1 | grep -q 'CLUSTERDOWN Hash slot not served'; }
until_true 10 is_down || fail "no check says that the slot is not served"
expect_line 69 '' "$tidelock" check '{tidelock:agents}job'
expect 0 "$tidelock" run job -- true
of "$a" SETEX stray 1000 x >/dev/null
for p in "${port[@]}"; do of "$p" CONFIG SET cluster-require-full-coverage yes >/dev/null; done
of "$b" CLUSTER DELSLOTS "$gap" >/dev/null # a change, at which it looks anew
is_down() { of "$b" CLUSTER INFO | grep -q cluster_state:fail; }
until_true 10 is_down || fail "the cluster goes on without a slot"
key=$(for k in {a..z}; do [[ $(of "$b" GET "$k" 2>&1) == CLUSTERDOWN* ]] && echo "$k"; done | head -n 1)
until_true 20 waits_in_vain 'CLUSTERDOWN The cluster is down' "$key" || fail "no run says that the cluster is down"
demo stop 2>"$err" || fail "the cluster isn't ended"
