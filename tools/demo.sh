#!/bin/bash
# A tour of tidelock on a private redis-server and an etcd of its own, in under 40 s. It says what tidelock
# does, and checks each claim. `make demo` runs it; TIDELOCK names the tool to show.
#
# A scene is a function scene_*; the list at the end plays them. A claim that does not hold ends the demo with
# status 1. All files are in a temporary directory, which is removed at the end.
set -u
tidelock=${TIDELOCK:-$(dirname "$0")/../build/tidelock}
[[ $tidelock == /* ]] || tidelock=$PWD/$tidelock
tmp=${TMPDIR:-/tmp}
((${#tmp} < 70)) || tmp=/tmp # the path of a socket is short
work=$(mktemp -d "$tmp/tidelock-demo.XXXXXX")
examples=${BUILD:-$(dirname "$0")/../build}/examples
server='' etcd=''
began=$SECONDS

if [[ -t 1 ]]; then
    bold=$'\e[1m' green=$'\e[32m' red=$'\e[31m' dim=$'\e[2m' plain=$'\e[0m'
else
    bold='' green='' red='' dim='' plain=''
fi

clean_up() {
    local pid
    exec 2>/dev/null
    if [[ -n $server ]]; then kill -KILL "$server"; fi
    if [[ -n $etcd ]]; then etcd_demo stop; fi
    for pid in $(jobs -p); do kill "$pid"; done
    wait
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# ---- output -----------------------------------------------------------------------------------
scene=0
title() {
    scene=$((scene + 1))
    printf '\n%s%d. %s%s\n' "$bold" $scene "$*" "$plain"
}
tell() { printf '   %s\n' "$@"; }
# The command as the reader would type it.
show() { printf '   %s$ %s%s\n' "$dim" "$*" "$plain"; }
right() { printf '   %s✓ %s%s\n' "$green" "$*" "$plain"; }
wrong() {
    printf '   %s✗ %s%s\n' "$red" "$*" "$plain"
    exit 1
}

# ---- helpers ----------------------------------------------------------------------------------
now_ms() { echo $(($(date +%s%N) / 1000000)); }
seconds() { printf '%d.%d s' $(($1 / 1000)) $(($1 % 1000 / 100)); }

until_true() { # seconds command...
    local end=$(($(now_ms) + $1 * 1000))
    shift
    until "$@"; do
        (($(now_ms) < end)) || return 1
        sleep 0.02
    done
}
has_lines() { [[ $(cat "$1" 2>/dev/null | wc -l) -ge $2 ]]; }

server_answers() { [[ $(redis-cli -s "$work/redis.sock" PING 2>/dev/null) == PONG ]]; }
start_server() {
    if ! command -v redis-server >/dev/null; then
        echo "demo: redis-server is missing: make demo installs it" >&2
        exit 1
    fi
    redis-server --port 0 --unixsocket "$work/redis.sock" --unixsocketperm 700 --dir "$work" --save '' \
        --appendonly no >"$work/redis.log" 2>&1 &
    server=$!
    disown
    until_true 10 server_answers || wrong "redis-server did not start: $(tail -n 1 "$work/redis.log")"
    export TIDELOCK_URL=unix://$work/redis.sock
    unset TIDELOCK_PASSWORD
}

# ---- scenes -----------------------------------------------------------------------------------
scene_counter() {
    local sum
    title "Four workers count in one file"
    tell "Each of four workers reads a number from a file, adds one, and writes it back, 50 times." \
        "That makes 200, unless two do it at the same time and one overwrites the other."
    cat >"$work/add-one" <<'SH'
#!/bin/sh
read -r n <"$1"
sleep 0.001
echo $((n + 1)) >"$1"
SH
    cat >"$work/worker" <<'SH'
#!/bin/sh
# arguments: the file, then what to put before the command
file=$1 i=0
shift
while [ $i -lt 50 ]; do
    "$@" "$(dirname "$file")/add-one" "$file" || exit 1
    i=$((i + 1))
done
SH
    chmod +x "$work/add-one" "$work/worker"

    count_with env
    sum=$(cat "$work/count")
    show "add-one count"
    tell "Without a lock the file says $sum."
    [[ $sum != 200 ]] || wrong "that should not have come out right"
    right "wrong, as it had to be: $((200 - sum)) additions are lost"

    count_with "$tidelock" run counter --
    sum=$(cat "$work/count")
    show "tidelock run counter -- add-one count"
    tell "With the lock the file says $sum."
    [[ $sum == 200 ]] || wrong "it should say 200"
    right "exactly 200"
}

count_with() { # what to put before the command
    local i workers=()
    echo 0 >"$work/count"
    for i in 1 2 3 4; do
        "$work/worker" "$work/count" "$@" &
        workers[i]=$!
    done
    for i in 1 2 3 4; do wait "${workers[i]}" || wrong "worker $i failed"; done
}

scene_check() {
    local holder said
    title "Who has the lock?"
    show "tidelock run -t 10s nightly -- report &"
    # Other clients see the command's name as the holder.
    ln -sf "$(command -v sleep)" "$work/report"
    "$tidelock" run -t 10s nightly -- "$work/report" 60 &
    holder=$!
    until_true 5 is_known nightly || wrong "the lock is not held, or nobody says by whom"
    tell "A second later its first renewal has said who it is:"
    show "tidelock check nightly"
    said=$("$tidelock" check nightly)
    tell "$said"
    [[ $said == "held by report on $(uname -n)"* ]] || wrong "it should name report on $(uname -n)"
    show "tidelock run --no-wait nightly -- report"
    "$tidelock" run --no-wait nightly -- echo "two at once!" 2>"$work/err"
    (($? == 75)) || wrong "the exit status should be 75"
    tell "$(cat "$work/err")"
    right "a second one does not start (exit status 75)"
    kill "$holder"
    wait "$holder" 2>/dev/null
    said=$("$tidelock" check nightly) || wrong "it should be free: $said"
    right "when the first has ended, the lock is $said"
}
is_known() { [[ $("$tidelock" check "$1") == "held by report on "* ]]; }
is_held() { "$tidelock" check "$1" >/dev/null; (($? == 1)); }

scene_standby() {
    local a b start took
    title "A hot standby takes over"
    tell "Two hosts start the same job. One leads; the other waits. Locks live 2 s here when not renewed."
    show "tidelock run --forever -t 2s leader -- job"
    cat >"$work/job" <<'SH'
#!/bin/sh
echo "$1 leads, with fence $TIDELOCK_FENCE" >>"$2"
exec sleep 60
SH
    chmod +x "$work/job"
    "$tidelock" run --forever -t 2s leader -- "$work/job" "host A" "$work/leaders" &
    a=$!
    until_true 5 has_lines "$work/leaders" 1 || wrong "nobody leads"
    "$tidelock" run --forever -t 2s leader -- "$work/job" "host B" "$work/leaders" &
    b=$!
    tell "$(tail -n 1 "$work/leaders")"
    sleep 0.5
    has_lines "$work/leaders" 2 && wrong "two lead at once"
    disown "$a"
    kill -KILL "$a"
    start=$(now_ms)
    tell "host A is killed with kill -9: it can tell nobody"
    until_true 6 has_lines "$work/leaders" 2 || wrong "host B did not take over"
    took=$(($(now_ms) - start))
    tell "$(tail -n 1 "$work/leaders")"
    [[ $(tail -n 1 "$work/leaders") == "host B leads"* ]] || wrong "host B should lead"
    right "host B took over after $(seconds $took), with a larger fence"
    kill "$b"
    wait "$b" 2>/dev/null
}

scene_lost() {
    local run start ended status
    title "The server stops: the command ends before its lock does"
    show "tidelock run -t 4s import -- endless"
    cat >"$work/endless" <<'SH'
#!/bin/sh
exec 2>/dev/null
trap 'echo "asked to stop: tidying up"; exit 1' TERM
echo working
while :; do sleep 0.05; done
SH
    chmod +x "$work/endless"
    "$tidelock" run -t 4s import -- "$work/endless" >"$work/out" 2>"$work/err" &
    run=$!
    until_true 5 has_lines "$work/out" 1 || wrong "the command does not run"
    kill -STOP "$server"
    start=$(now_ms)
    tell "the server is stopped now: the lock can't be renewed, and will expire within 4 s"
    until_true 10 gone "$run" || wrong "the command still runs after 10 s"
    wait "$run"
    status=$?
    kill -CONT "$server"
    tell "endless: $(tail -n 1 "$work/out")"
    tell "$(sed 's/ (a renewal .*//' "$work/err")"
    grep -q 'asked to stop' "$work/out" || wrong "the command was not asked to stop"
    ended=$(($(date -r "$work/out" +%s%N) / 1000000 - start))
    ((ended < 4000)) || wrong "it ended after $(seconds $ended), too late"
    ((status == 74)) || wrong "the exit status is $status instead of 74"
    right "the command ended after $(seconds $ended), before any other host could acquire the lock; exit status 74"
}
gone() { ! kill -0 "$1" 2>/dev/null || grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; }

# lock() and release() of a Java service with DistributeLockUtil, by this host's clock.
redis() { redis-cli -s "$work/redis.sock" "$@"; }
java_lock() { # key lifetime-ms
    local end=$(($(now_ms) + $2)) stored
    [[ $(redis SETNX "$1" $end) == 1 ]] && return
    stored=$(redis GET "$1")
    [[ -n $stored ]] && ((stored < $(now_ms))) && [[ $(redis GETSET "$1" $end) == "$stored" ]]
}
java_release() { redis DEL "$1" >/dev/null; }

scene_legacy() {
    local job end started
    title "Beside Java services that lock the old way"
    tell "Such a lock is a key with the time when it ends. SETNX and GETSET acquire it, and DEL releases it." \
        "Here it lives 3 s. A Java service acquires it, and crashes without a release."
    java_lock sync 3000 || wrong "the lock should be free"
    end=$(redis GET sync)
    show "redis-cli GET sync"
    tell "$end"
    show "tidelock run --protocol bridge --legacy-ttl-min 3s --clock-skew-max 200ms sync -- job"
    cat >"$work/job" <<'SH'
#!/bin/sh
date +%s%N >"$1.begun"
mv "$1.begun" "$1"
until [ -e "$1.done" ]; do sleep 0.02; done
SH
    chmod +x "$work/job"
    "$tidelock" run --protocol bridge --legacy-ttl-min 3s --clock-skew-max 200ms sync -- "$work/job" "$work/begin" &
    job=$!
    until_true 10 has_lines "$work/begin" 1 || wrong "the job did not begin"
    started=$(($(cat "$work/begin") / 1000000))
    ((started > end + 300)) || wrong "it began too early: $started"
    right "it waited for the end, and another $(seconds $((started - end))): Java's clocks may be off by 0.2 s, and slow"
    java_lock sync 3000 && wrong "a Java service got the lock as well"
    right "a Java service that tries now does not acquire it"
    touch "$work/begin.done"
    wait "$job" || wrong "the job failed"
    [[ -z $(redis GET sync) ]] || wrong "the lock was not released"
    java_lock sync 3000 || wrong "the lock should be free"
    java_release sync
    right "when the job has ended, the Java service acquires it at once"
}

# A service that follows the phase: it acquires the lock again and again, and writes down when.
follow_phase() { # key
    while "$tidelock" run --protocol auto --namespace 'sync*=default' --legacy-ttl-min 3s --clock-skew-max 200ms "$1" -- true 2>>"$work/err"; do
        now_ms >>"$work/turns"
    done
}
longest_pause() { # file of times in ms
    sort -n "$1" | awk 'NR > 1 && $1 - last > most { most = $1 - last } { last = $1 } END { print most }'
}

# A service that has just begun may not have confirmed the phase yet: then a step is refused, and tried again.
moves() { "$@" >"$work/said" 2>&1; }

scene_migration() {
    local advance=("$tidelock" migrate advance --yes --phase 2 --watch 1s) said services=()
    title "From such locks to tokens, without an outage"
    tell "Services in C follow the phase of a namespace of locks; an operator moves it on, one step at a time."
    show "tidelock migrate init --keys 'sync*' --phase 1 --lease 1s --yes"
    said=$("$tidelock" migrate init --keys 'sync*' --phase 1 --lease 1s --yes) || wrong "init failed: $said"
    tell "$said"
    : >"$work/turns"
    follow_phase sync 2>/dev/null & services+=($!)
    follow_phase sync 2>/dev/null & services+=($!)
    java_lock sync:report 60000 || wrong "the lock should be free"
    tell "Two services contend for a lock (tidelock run --protocol auto sync -- ...), and a Java service is still there."
    show "tidelock migrate advance --yes --phase 2 --watch 1s"
    "${advance[@]}" >"$work/said" 2>&1 && wrong "it should be refused: $(cat "$work/said")"
    tell "$(cut -c 1-150 <"$work/said" | head -n 1)..."
    right "no step is made while a legacy client is left, and it is named"
    java_release sync:report
    tell "The Java service is stopped."
    show "tidelock migrate advance --yes --phase 2 --watch 1s"
    until_true 20 moves "${advance[@]}" || wrong "to phase 2: $(cat "$work/said")"
    tell "$(grep '^namespace' "$work/said")" "(then what six sources show of legacy clients, and what they can't show)"
    show "tidelock migrate advance --yes --phase 3"
    until_true 20 moves "$tidelock" migrate advance --yes --phase 3 || wrong "to phase 3: $(cat "$work/said")"
    tell "$(grep '^namespace' "$work/said")"
    kill "${services[@]}" 2>/dev/null
    wait "${services[@]}" 2>/dev/null
    [[ ! -s $work/err ]] || wrong "a service failed: $(head -n 1 "$work/err")"
    said=$(longest_pause "$work/turns")
    right "the two took turns $(wc -l <"$work/turns") times meanwhile, and never waited longer than $said ms"
}

# libfaketime shows a process another time, and sets no clock.
faketime_library() {
    local f
    for f in /usr/lib/faketime/libfaketime.so.1 /usr/lib/*-linux-gnu*/faketime/libfaketime.so.1; do
        if [[ -e $f ]]; then echo "$f" && return; fi
    done
    return 1
}

scene_skew() {
    local library said agents=() host
    title "Can such a lock be stolen with these hosts' clocks?"
    if ! library=$(faketime_library); then
        tell "left out: it takes libfaketime to have a host whose clock is wrong (make check installs it)"
        return
    fi
    tell "Each host runs an agent, which measures its clock against the server's. One is 350 ms ahead." \
        "The locks live for 60 s, and jobs work for up to 59.8 s under one."
    for host in app1:+0 app2:+0 db1:+0.350; do
        LD_PRELOAD=$library FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME=${host#*:} \
            "$tidelock" agent --once --every 1m --name "${host%:*}" 2>"$work/err" &
        agents+=($!)
    done
    for host in "${agents[@]}"; do wait "$host" || wrong "an agent failed: $(cat "$work/err")"; done
    show "tidelock skew --lock-timeout 60s --longest-hold 59800ms"
    said=$("$tidelock" skew --lock-timeout 60s --longest-hold 59800ms)
    (($? == 2)) || wrong "the exit status should be 2: $said"
    sed '/^UNSAFE: /,$d; s/^/   /' <<<"$said"
    [[ $said == *$'\n'"UNSAFE: "*"the clock of db1 is "* ]] || wrong "it should name db1: $said"
    right "$(grep '^UNSAFE: ' <<<"$said" | cut -d , -f 1,2)"
    tell "What to do: $(sed -n 's/^- //p' <<<"$said" | head -n 1)"
}

etcd_demo() { TIDELOCK_URL=local:$work/tidelock "$tidelock" local demo "$@"; }
leader() { etcd_demo status | sed -n 's/^\([^ ]*\)  leader, pid \([0-9]*\)$/\1 \2/p'; }

scene_etcd() {
    local url in_line place pid
    title "Three members of an etcd, one of which dies"
    if ! command -v etcd >/dev/null; then
        tell "left out: there is no etcd here (Debian: etcd-server)"
        return
    fi
    show "tidelock local demo etcd"
    etcd=1
    if ! url=$(etcd_demo etcd 2>"$work/err"); then
        tell "left out: $(cut -d ' ' -f 2- "$work/err")"
        return
    fi
    tell "$url"
    tell "Three processes acquire a lock ten times each, and count in a file. A process that returns queues behind the others."
    show "tools/examples/in_line.c, built: in_line $url jobs:etcd counter"
    "$examples/in_line" "$url" jobs:etcd "$work/counter" >"$work/turns" 2>"$work/err" &
    in_line=$!
    until_true 20 has_lines "$work/turns" 9 || wrong "they have no turns: $(cat "$work/err")"
    read -r place pid < <(leader) || wrong "no member leads"
    kill -KILL "$pid"
    until_true 60 gone "$in_line" || wrong "they stopped: $(tail -n 1 "$work/turns")"
    wait "$in_line" || wrong "it failed: $(cat "$work/err")"
    head -n 6 "$work/turns" | sed 's/^/   /'
    tell "..." "(after nine turns $place, which led, was killed with kill -9)" "..."
    tail -n 4 "$work/turns" | sed 's/^/   /'
    [[ $(cut -d ' ' -f 1 "$work/counter") == 30 ]] || wrong "the file should say 30"
    sed -n 's/.*fence \([0-9]*\):.*/\1/p' "$work/turns" | sort -n -u -c 2>"$work/err" || wrong "a fence went back: $(cat "$work/err")"
    right "exactly 30, each in its turn, with a fence that always rises: nothing was lost with the leader"
    show "tidelock local demo stop"
    etcd_demo stop || wrong "the members were not ended"
    etcd=
}

# These three work as they stand, once the reader has put a host for HOST: cli/test_demo types them.
scene_next() {
    local tool=${TIDELOCK:-build/tidelock}
    title "All of it held, in $((SECONDS - began)) s. Try next:"
    show "$tool run hello -- sleep 60"
    tell "It starts a private server for you."
    show "$tool inspect"
    tell "Meanwhile, in another terminal: who holds which lock, and who waits."
    show "$tool --url redis://HOST doctor"
    tell "Does a server of yours endanger locks?"
}

# A build without compat has no option for legacy clients.
has_legacy() { [[ $("$tidelock" run --help-all) == *--protocol* ]]; }

# ---- all of it --------------------------------------------------------------------------------
start_server
tell "tidelock $("$tidelock" --version | cut -d ' ' -f 2) on a redis-server of its own."
scene_counter
scene_check
scene_standby
scene_lost
has_legacy && scene_legacy
scene_etcd
scene_skew
has_legacy && scene_migration
scene_next
