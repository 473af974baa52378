#!/bin/bash
# Each guard of the client below is removed, one at a time, in a copy; the named play of test_threads must then
# fail. A row whose sed changes nothing fails too.
#
#   BUILD=build tests/sim/mutations_threads.sh [NAME...]     JOBS=n at once; PLAYS="..." instead of the row's
#   EVERY=8 BUILD=build tests/sim/mutations_threads.sh       a sample: each 8th of the rows
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build} JOBS=${JOBS:-$(nproc)} CC=${CC:-cc} PLAYS=${PLAYS:-}
MAKEFLAGS= make --no-print-directory CC="$CC" "$BUILD"/{tests/sim.a,tests/lib.a,tests/tools.a,libtidelock.a} >/dev/null || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# name | file below src/client | play | sed
rows() {
    sed '/^[[:space:]]*\(#.*\)\{0,1\}$/d' <<'ROWS'
# the local queue
front-is-anybodys       | gate.c | release-to-one-who-waits | s/        if (!front)$/        if (true)/
quit-whatever-it-is     | gate.c | time-is-up | s/bool queued = place->state == TL_QUEUED;/bool queued = true;/
leave-whatever-it-is    | gate.c | time-is-up | s/^    if (place->state == TL_FRONT)$/    if (true)/
heir-alone              | gate.c | freed-before-another | s/    heir->first = heir->next;/    heir->first = NULL;/
heir-without-last       | gate.c | last-in-the-queue-goes | s/    heir->last = heir->first ? place->last : NULL;/    heir->last = NULL;/
last-stays              | gate.c | last-in-the-queue-goes | s/^    if (front->last == place)$/    if (false)/
turn-not-told           | gate.c | release-to-one-who-waits | s/^    turn->come(turn);//
pass-what-is-over       | gate.c | released-while-it-expires | s/tl__ms_until(now, hold->deadline) >= .* &&$/true \&\&/; s/^           tl__mono_before(now, hold->deadline);/           true;/
pass-without-fence      | gate.c | hand-over | s/^        next.fence += next.fence != 0;//
pass-is-no-hold         | gate.c | hand-over | s/    turn->given = hold != NULL;/    turn->given = false;/
# a hold
passed-while-held       | hold.c | hand-over | s/^    atomic_store(&lock->state, TL_FREE);$//; s/^    if (passed)$/    atomic_store(\&lock->state, TL_FREE);\n    if (passed)/
pass-while-watched      | hold.c | hand-over | s/^    (void)tl__hold_stop(lock);$//
event-not-withdrawn     | hold.c | freed-while-lost | s/^    tl__keeper_await_told(k, lock);//
over-as-it-is-told      | hold.c | told-late | s/^    if (over)$/    if (false)/
lost-stays-in-front     | hold.c | lost-and-kept | /drop_in(lock);/,/tl__gate_leave/s/tl__gate_leave(&lock->client->gate, &lock->place);/(void)0;/
lost-leaves-its-rest    | hold.c | deleted-when-bound | s/        if (leaves_something(lock, out->note\[i\].why))/        if (false)/
# without blocking
end-after-loss          | async.c | acquired-anew | s/^        tl__keeper_report(&op->client->keeper, &op->report); .*$/        (void)0;/; s/^                               out->sys_errno, &op->err);/&\n    tl__keeper_report(\&op->client->keeper, \&op->report);/
cancel-before-it-begins | async.c | cancelled-as-it-begins | s/bool cancelled = op->does == ACQUIRES && tl__lock_was_cancelled(lock);/bool cancelled = false;/
cancel-is-not-posted    | async.c | only-cancelled-async | s/    if (op && op->does == ACQUIRES && !op->completed)/    if (false)/
cancel-outlasts         | async.c | cancelled-async | s/^        (void)tl__lock_was_cancelled(lock);/        ;/
free-awaits-nobody      | async.c | freed-while-it-waits | s/^    tl__keeper_await_told(k, lock);//
free-reports-all-the-same | async.c | freed-while-it-waits | s/^    tl__keeper_unreport(k, &op->report);//
free-tells-no-machine   | async.c | freed-while-it-waits | s/    if (op->does == ACQUIRES && !op->completed)$/    if (false)/
free-keeps-what-it-had  | async.c | freed-while-it-waits | s/    bool holds = op->does == ACQUIRES && op->completed && op->code == TL_OK;/    bool holds = false;/
freed-but-referred-to   | async.c | freed-while-it-waits | s/^    op->lock = NULL;//
failed-stays-in-front   | async.c | cancelled-in-front | s/    if (op->does == RELEASES || (op->does == ACQUIRES && op->code))/    if (op->does == RELEASES)/
released-stays-in-front | async.c | chains | s/    if (op->does == RELEASES || (op->does/    if ((op->does/
let-go-untold           | async.c | chains | s/    if (!op->over || !(op->told || !op->lock))/    if (!op->over)/
let-go-unended          | async.c | freed-while-it-is-released | s/    if (!op->over || !(op->told || !op->lock))/    if (!(op->told || !op->lock))/
next-is-refused         | async.c | chains | s/^    atomic_store(&lock->op, NULL); \/\* from.*$//; s/^    op->told = true;/&\n    if (op->lock)\n        atomic_store(\&op->lock->op, NULL);/
close-does-not-linger   | async.c | closed-while-another-waits | s/^    op->lingers = true;/    return;/; s/        op->client->keeper.detached++;/        (void)0;/
# the pool
pool-without-limit      | pool.c | pool-is-empty | s/node->pooled_made >= most_of(node))/most_of(node) == 0)/
pool-deaf               | pool.c | pool-is-held | s/    return waiter && atomic_load(&waiter->flags) & TL_WAKE_CANCEL;/    (void)waiter;\n    return false;/
pool-wakes-nobody       | pool.c | pool-is-empty | s/^    tl__cond_wake(&node->pooled_freed);//
pool-miscounts          | pool.c | cancelled-alone | /^    if (broken) {$/{n;s/node->pooled_made--;/(void)0;/}
broken-is-kept          | driver.c | cancelled-alone | s/tl__pool_give(d->pooled, d->in_flight > 0);/tl__pool_give(d->pooled, false);/
flags-of-the-last       | pool.c | cancelled | /^void tl__waiter_give/,/^}/s/^    atomic_store(&w->flags, 0);//
sleeper-not-woken       | pool.c | hand-over | s/^    w->sleeps = true;//
waker-looks-late        | pool.c | hand-over | s/^    while (!atomic_load(&w->flags) && /    while (/
# the shared connection
share-next-not-woken    | share.c | extended-and-kept | s/^        tl__waiter_post(s->first->sleeps, TL_WAKE_ANSWERED);/        (void)0;/
share-next-goes-too     | share.c | apart | s/^    if (!s->poller \&\& s->looking == 0 \&\& s->first)/    if (polled \&\& !s->poller \&\& s->looking == 0 \&\& s->first)/; s/^    if (s->poller == sharer)$/    bool polled = s->poller == sharer;\n&/
share-left-by-poller    | share.c | extended-and-kept | s/^    stop_polling(s, sharer);/    (void)0;/
share-looks-for-ever    | share.c | extended-and-kept | s/^    s->looking--;/    (void)0;/
share-forgets-nobody    | share.c | cancelled-alone | s/^        tl__conn_forget(s->conn, sharer);/        sharer->answered = 0; sharer->waiter = 0;/
# acquiring
given-though-over       | lock_acquire.c | release-to-one-who-waits | s/m->turn.given && tl__mono_before(e->now, m->turn.hold.deadline);/m->turn.given;/
quit-is-certain         | lock_acquire.c | time-is-up | s/    if (!tl__gate_quit(&m->lock->client->gate, &m->lock->place)) {/    if (!tl__gate_quit(\&m->lock->client->gate, \&m->lock->place) \&\& false) {/
cancel-drops-the-given  | lock_acquire.c | cancelled-as-it-is-given | s/        if (is_given(m, e)) \/\* ours.*$/        if (false)/
cancel-before-forgotten | lock_acquire.c | cancelled-alone | s/    bool open = !lock->cancelled;/    bool open = true;/
cancel-stays            | lock_acquire.c | cancelled | /^void tl__lock_close_wait/,/^}/s/^    lock->cancelled = false;//
waiter-stays            | lock_acquire.c | cancelled | /^void tl__lock_close_wait/,/^}/s/^    lock->waiter = NULL;//
# blocking calls
free-lets-it-go-on      | lock.c | freed-while-it-waits | s/^        tl__async_abandon(lock);//
free-is-watched         | lock.c | freed-while-lost | /^void tl_lock_free/,/^}/s/^        (void)tl__hold_stop(lock);//
free-stays-in-front     | lock.c | freed-while-lost | /^void tl_lock_free/,/^}/s/^        tl__gate_leave(.*$//
release-stays-in-front  | lock.c | release-to-one-who-waits | /^static tl_err release(tl_lock/,/^}/s/^    tl__gate_leave(.*$//
acquire-stays-in-front  | lock.c | time-is-up | /^static tl_err end_acquire/,/^}/s/^    tl__gate_leave(.*$//
cancel-posts-nothing    | lock.c | only-cancelled | s/^        tl__waiter_post(lock->waiter, TL_WAKE_CANCEL);/        ;/
cancel-leaves-the-pool  | pool.c | pool-is-held | s/^    tl__cond_wake_all(&client->node.pooled_freed);//
cancel-blocking-alone   | lock.c | only-cancelled-async | s/^    tl__async_cancel(lock); .*$//
extended-though-lost    | hold.c | extended-when-lost | s/^    if (lock->task.at == 0)$/    if (false)/;s/^    return watched;/    return true;/
extend-holds-meanwhile  | lock.c | extended-and-kept | s/^    atomic_store(&lock->state, (int)TL_LOST); .*$//
extend-stays-in-front   | lock.c | extended-and-kept | /^static tl_err extend_lost/,/^}/s/^    tl__gate_leave(.*$//
extend-stays-watched    | lock.c | extended-and-kept | /^static tl_err extend_lost/,/^}/s/^    (void)tl__hold_stop(lock);//
extend-leaves-its-rest  | lock.c | extended-and-kept | /^static tl_err extend_lost/,/^}/s/^    tl__hold_undo(lock); .*$//
# the keeper
free-while-told         | keeper.c | freed-while-lost | s/    while (k->telling == owner && !tl__thread_is_self(k->deliverer))/    while (false)/
waits-for-itself        | keeper.c | chains | s/ && !tl__thread_is_self(k->deliverer))/)/
told-but-not-woken      | keeper.c | freed-while-lost | s/^        tl__cond_wake_all(&k->delivered);//
reports-end-is-lost     | keeper.c | chains | s/^            k->reports_end = &k->reports;/            (void)0;/
withdrawn-end-is-lost   | keeper.c | freed-while-it-is-released | s/^        k->reports_end = at;/        (void)0;/
reported-twice          | keeper.c | lost-at-risk | s/^    if (report->queued)$/    if (false)/
unqueued-is-withdrawn   | keeper.c | lost-alone | s/^    if (!report->queued)$/    if (false)/
close-at-once           | keeper.c | closed-while-it-cleans-up | s/    return k->detached == 0 || /    return true || /
sleeps-on               | keeper.c | hand-over | s/^    if (!k->polling || k->roused)$/    if (true)/
posts-of-the-gone       | keeper_run.c | freed-while-it-waits | s/^    if (task->posted) {$/    if (false) {/
answer-for-the-gone     | keeper_run.c | one-of-two-renewed-goes | s/^        x->task = NULL;/        (void)x;/
due-is-not-planned      | keeper_run.c | lost-alone | s/^    if (tl__mono_before(until, k->planned)) {/    if (false) {/
post-rouses-nobody      | keeper_run.c | cancelled-async | s/^    if (first)$/    if (false)/
member-is-gone          | keeper_join.c | one-of-two-renewed-goes | /^static void tell(/,/^}/s/^    if (!task)$/    if (false)/
listens-for-ever        | run.c | two-clients-again | s/    bool ends = out->disarm || status != TL_GO;/    bool ends = false;/
not-forgotten           | keeper_listen.c | two-clients-again | s/^        \*at = l->next;/        (void)0;/
inbox-not-counted-out   | keeper_listen.c | two-clients-again | s/    if (--inbox->listeners == 0)/    if (inbox->listeners == 0)/
inbox-listens-for-ever  | keeper_listen.c | two-clients-again | s/^    tl__wakeup_forget(wakeup, inbox_of(k), now);//
# its heap
removed-is-not-there    | tasks.c | hand-over | s/^    if (task->at == 0)$/    if (false)/
removed-leaves-a-hole   | tasks.c | one-of-two-renewed-goes | s/^        sift(t, task->at, last);/        (void)last;/
ROWS
}

flags=(-std=c11 -D_GNU_SOURCE -O1 -w -fPIC -Iinclude -iquote src -iquote compat -DTL_COMPAT=1 -iquote tests/lib -iquote tests/sim)
libs=("$BUILD/tests/sim.a" "$BUILD/tests/lib.a" "$BUILD/tests/tools.a" "$BUILD/libtidelock.a")
# The calls that the simulator is given first, as in the Makefile.
mapfile -t wrapped < <(sed -n 's/^[a-z].*[ *]__wrap_\([a-z_]*\)..*;$/-Wl,--wrap=\1/p' tests/sim/*.c | sort -u)
more=(-lcmocka)
for package in lua5.1 uuid hiredis openssl jansson; do
    read -ra found < <(pkg-config --libs "$package" 2>/dev/null) && more+=("${found[@]}")
done

# A play only computes. So what counts is the time of the processor: a busy machine changes nothing.
within_limit() { (ulimit -t 120 && exec timeout 1200 "$@"); }

try() { # name file play sed
    local name=$1 file=$2 play=$3 mine=$dir/$1 out= crowd=0
    [[ $file != share.c ]] || crowd=1
    mkdir -p "$mine"
    sed -e "$4" "src/client/$file" >"$mine/$file"
    if cmp -s "src/client/$file" "$mine/$file"; then
        echo "FAIL  $name: its sed changes nothing in $file"
        return 1
    fi
    "$CC" "${flags[@]}" -iquote "$BUILD/gen" "${wrapped[@]}" -pie "$mine/$file" "$dir/main.o" "${libs[@]}" "${more[@]}" \
        -pthread -lm -o "$mine/run" || {
        echo "FAIL  $name: doesn't compile"
        return 1
    }
    for play in ${PLAYS:-$play}; do
        out=$(PLAY=$play CROWD=$crowd ALL=1 DRAWN=all within_limit "$mine/run" 2>&1)
        case $? in
        0) continue ;;
        124 | 152) out="ERROR: $play: it never ends" ;;
        esac
        if [[ $out == *'there is no test'* ]]; then
            echo "FAIL  $name: there is no play $play"
            return 1
        fi
        rm -f "$mine/run"
        echo "ok    $name: $(grep -am1 'ERROR: ' <<<"$out" || echo "$play: it crashes")"
        return 0
    done
    rm -f "$mine/run"
    echo "FAIL  $name: not found by ${PLAYS:-$play}"
}

"$CC" "${flags[@]}" -iquote "$BUILD/gen" -c tests/sim/test_threads.c -o "$dir/main.o" || exit 1
running=0 row=-1
while IFS='|' read -r name file play expr; do
    name=${name// /} file=${file// /} play=${play// /}
    if (($#)) && [[ " $* " != *" $name "* ]]; then continue; fi
    row=$((row + 1))
    if ((row % ${EVERY:-1} != 0)); then continue; fi
    if ((running >= JOBS)); then wait -n; running=$((running - 1)); fi
    try "$name" "$file" "$play" "${expr# }" >"$dir/$name.out" 2>&1 &
    running=$((running + 1))
done < <(rows)
wait
cat "$dir"/*.out
! grep -q '^FAIL' "$dir"/*.out
