#!/bin/bash
# Each guard of the shipped code below is removed, one at a time, in a copy; the simulator must then
# find a broken promise within the stated number of seeds. A row whose sed changes nothing fails too.
#
#   BUILD=build tests/sim/mutations.sh [NAME...]     JOBS=n at once; V=1 shows what was found
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build} JOBS=${JOBS:-$(nproc)} CC=${CC:-cc} V=${V:-}
for a in tests/sim.a tests/lib.a libtidelock.a; do
    [[ -e $BUILD/$a ]] || make --no-print-directory "$BUILD/$a" >/dev/null || exit 1
done
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# name | file below src | scenario, or any seeds | seeds | sed
rows() {
    sed '/^[[:space:]]*\(#.*\)\{0,1\}$/d' <<'EOF'
# what an answer is worth
deadline-ignores-pttl    | protocol_token.c  |        | 300  | s/left_ms == -1 || left_ms > job->ttl_ms ? job->ttl_ms : left_ms;/job->ttl_ms + 0 * left_ms;/
deadline-from-receipt    | protocol_token.c  |        | 300  | s/tl__mono_add_ms(a->asked, ms)/tl__mono_add_ms(e->now, ms)/
deadline-without-drift   | protocol_token.c  |        | 2000 | s/tl__mono_add_ms(a->asked, ms), -drift)/tl__mono_add_ms(a->asked, ms), 0 * drift)/
replicas-unconfirmed     | protocol_token.c  | failover-confirmed | 400 | s/n >= job->wait_replicas)/n >= 0)/
granted-after-restart    | protocol_token.c  | restart-quiet | 400 | s/tl__mono_before(e->sent, over))/false)/
# requests that come late
limit-of-the-wait        | protocol_token.c  |        | 1000 | s/int64_t not_after = server_us(e, a->by)/int64_t not_after = server_us(e, a->until)/
limit-at-its-latest      | protocol_token.c  |        | 5000 | s/int64_t not_after = server_us(e, a->by)\.lo/int64_t not_after = server_us(e, a->by).hi/
harmless-at-once         | protocol_token.c  | stuck-requests | 3000 | s/a->bounded ? a->by : TL_NEVER/a->bounded ? (tl_mono){0} : TL_NEVER/
old-binds-by-earliest    | protocol_token.c  | old-server | 3000 | s/tl__out_int(out, .*\.hi)/tl__out_int(out, server_us(e, e->now).lo)/
# the scripts
take-blindly             | scripts/take.lua  |        | 100  | s/^if expect == .. and found or .*then$/if false then/
take-ignores-sidecar     | scripts/take.lua  |        | 500  | s/ and bound >= now then/ and false then/
take-whenever            | scripts/take.lua  |        | 1000 | s/ and now > not_after then/ and false then/
take-again-when-dropped  | scripts/take.lua  |        | 2000 | s/^if s\[5\] == token then/if false then/
take-not-known-again     | scripts/take.lua  |        | 300  | s/^if known and s\[1\] == token then/if false then/
fence-by-clock           | scripts/take.lua  |        | 2000 | s/math.max(fence + 1, now, told)/math.max(now, told)/
fence-by-count           | scripts/take.lua  | restart-forgets | 200 | s/math.max(fence + 1, now, told)/fence + 1/
take-without-lifetime    | scripts/take.lua  |        | 300  | s/redis.call('PSETEX', K, px, value)/redis.call('SET', K, value)/
keep-anybodys            | scripts/keep.lua  |        | 2000 | s/ s\[1\] == token and / /
keep-whatever-value      | scripts/keep.lua  |        | 5000 | s/ and text == s\[2\] then/ then/
keep-whenever            | scripts/keep.lua  |        | 2000 | s/^local late = .*/local late = false/
keep-shortens            | scripts/keep.lua  |        | 2000 | s/elseif redis.call('PTTL', K) < px then/else/
keep-doesnt-bind         | scripts/keep.lua  | deleted-by-hand | 200 | s/^        if later then/        if false then/
drop-anybodys            | scripts/drop.lua  |        | 500  | s/^if s\[1\] == token then/if true then/
drop-whatever-value      | scripts/drop.lua  |        | 5000 | s/if text and text == s\[2\] then/if text then/
drop-not-remembered      | scripts/drop.lua  |        | 2000 | s/'spent', token/'spent', ''/
drop-not-announced       | scripts/drop.lua  | prompt | 200  | s/    redis.pcall('PUBLISH', S, '')//
# acquiring
confirmed-too-late       | acquire.c         |        | 3000 | s/r->code == TL_OK && tl__mono_before(e->now, r->deadline)/r->code == TL_OK/
unanswered-is-forgotten  | acquire.c         |        | 1000 | s/    a->uncertain = true;/    a->uncertain = false;/
unwanted-is-forgotten    | acquire.c         |        | 3000 | s/        a->unwanted = true;/        a->unwanted = false;/
cancel-is-certain        | acquire.c         |        | 2000 | s/    if (a->state == TAKING)/    if (false)/
nobody-cleans-up         | acquire.c         |        | 500  | s/    if (!a->result.maybe)/    if (true)/
cleaning-does-nothing    | acquire.c         |        | 1000 | s/        return drop(a, e, out);/        return TL_END;/
busy-ends-doubt          | acquire.c         | stuck-requests | 3000 | s/ && !tl__mono_before(e->sent, a->harmless))/)/
busy-ends-doubt-on-old   | acquire.c         |        | 5000 | s/a->uncertain && a->attempt.result.checked && /a->uncertain \&\& /
attempt-outlasts-wait    | protocol_token.c  |        | 500  | s/tl__mono_min(tl__mono_add_ms(e->now, job->attempt_ms), a->until)/tl__mono_add_ms(e->now, job->attempt_ms)/
for-ever-has-a-limit     | acquire.c         |        | 500  | s/        a->limit = TL_NEVER;/        (void)a;/
wait-without-limit       | acquire.c         |        | 300  | s/        out->until = tl__mono_min(a->next, a->limit);/        out->until = a->next;/
reach-without-limit      | acquire.c         |        | 1000 | s/    tl__out_send(out, ++a->ticket, a->limit);/    tl__out_send(out, ++a->ticket, TL_NEVER);/
wake-up-ignored          | acquire.c         | prompt | 200  | s/        a->next = e->now;/        a->next = a->planned;/
wake-up-while-asking     | acquire.c         | prompt | 2000 | s/^    a->woken = true;/    a->woken = false;/
# renewing
lost-is-not-told         | renew.c           |        | 300  | s/    return !tl__mono_before(e->now, end(r));/    return false;/
lost-is-told-late        | renew.c           |        | 300  | s/tl__mono_add_ns(r->result.deadline, -EARLY_NS)/r->result.deadline/
longest-hold-ignored     | renew.c           |        | 300  | s/, r->hold);/, TL_NEVER);/
# extending and releasing
release-not-gone-on-with | settle.c          |        | 500  | s/    if (s->op != TL_DROP)/    if (true)/
released-though-expired  | settle.c          |        | 2000 | s/ && s->maybe && s->in_time / \&\& s->maybe /
extend-too-late          | settle.c          |        | 3000 | s/return s->op == TL_DROP || .*/return true;/
settle-without-limit     | settle.c          |        | 500  | s/(tl_op)s->op, ++s->ticket, s->limit)/(tl_op)s->op, ++s->ticket, TL_NEVER)/
# clocks
anchor-without-drift     | interval.c        |        | 2000 | s/int64_t by = ceil_us(/int64_t by = 0 * ceil_us(/
bracket-without-drift    | interval.c        |        | 5000 | s/    bracket.hi = tl__add_sat.*/    (void)width_ns, (void)drift_ppm;/
bracket-from-sent        | interval.c        |        | 500  | s/tl__add_sat(stamp_us, -ceil_us(received.ns))/tl__add_sat(stamp_us, -ceil_us(sent.ns))/
EOF
}

flags=(-std=c11 -D_GNU_SOURCE -O1 -w -fPIC -Iinclude -iquote src -iquote tests/lib -iquote tests/sim)
libs=("$BUILD/tests/sim.a" "$BUILD/tests/lib.a" "$BUILD/libtidelock.a")
read -ra more < <(pkg-config --libs lua5.1 uuid 2>/dev/null || echo -llua5.1 -luuid)

# The rows of the scripts, as the Makefile makes them.
generate() { # folder with scripts, file
    local f name
    for f in "$1"/*.lua; do
        name=$(basename "$f" .lua)
        sed '/^[[:space:]]*\(--.*\)\{0,1\}$/d' "$f" | awk 1 >"$2.$name"
        echo "TL_SCRIPT_ROW($(tr a-z A-Z <<<"$name"), $name,"
        sed 's/[\\"?]/\\&/g; s/^/    "/; s/$/\\n"/' "$2.$name"
        echo "    , \"$(sha1sum <"$2.$name" | cut -c1-40)\")"
    done >"$2"
}

try() { # name file scenario seeds sed
    local name=$1 file=$2 scenario=$3 seeds=$4 mine=$dir/$1 unit=$2 out
    mkdir -p "$mine/scripts"
    cp src/scripts/*.lua "$mine/scripts/"
    sed -e "$5" "src/$file" >"$mine/$file"
    if cmp -s "src/$file" "$mine/$file"; then
        echo "FAIL  $name: its sed changes nothing in $file"
        return 1
    fi
    if [[ $file == scripts/* ]]; then
        generate "$mine/scripts" "$mine/scripts.inc"
        cp src/script.c "$mine/" && unit=script.c
    fi
    "$CC" "${flags[@]}" -iquote "$mine" -c "$mine/$unit" -o "$mine/unit.o" &&
        "$CC" -pie "$mine/unit.o" "$dir/main.o" "${libs[@]}" "${more[@]}" -pthread -lm -o "$mine/sim" || {
        echo "FAIL  $name: doesn't compile"
        return 1
    }
    if out=$(SCENARIO=$scenario RUNS=$seeds SEED=1 timeout 300 "$mine/sim" 2>&1); then
        echo "FAIL  $name: not caught in $seeds seeds"
        return 1
    fi
    echo "ok    $name: $(grep -m1 '^seed' <<<"$out")"
}

"$CC" "${flags[@]}" -iquote "$BUILD/gen" -c tests/sim/main.c -o "$dir/main.o" || exit 1
running=0
while IFS='|' read -r name file scenario seeds expr; do
    name=${name// /} file=${file// /} scenario=${scenario// /} seeds=${seeds// /}
    if (($#)) && [[ " $* " != *" $name "* ]]; then continue; fi
    if ((running >= JOBS)); then wait -n; running=$((running - 1)); fi
    { try "$name" "$file" "$scenario" "$seeds" "${expr# }" >"$dir/$name.out" 2>&1; } &
    running=$((running + 1))
done < <(rows)
wait
cat "$dir"/*.out
! grep -q '^FAIL' "$dir"/*.out
