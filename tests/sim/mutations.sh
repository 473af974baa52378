#!/bin/bash
# Each guard of the shipped code below is removed, one at a time, in a copy; the simulator must then
# find a broken promise within the stated number of seeds. A row whose sed changes nothing fails too.
#
#   BUILD=build tests/sim/mutations.sh [NAME...]     JOBS=n at once
#   EVERY=6 BUILD=build tests/sim/mutations.sh       a sample: each 6th of the rows without a recorded seed, which any change of the
#                                                    code leaves quick
#   RECORD=1 BUILD=build tests/sim/mutations.sh      write the seeds that were found into the rows below
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build} JOBS=${JOBS:-$(nproc)} CC=${CC:-cc}
MAKEFLAGS= make --no-print-directory CC="$CC" "$BUILD"/{tests/sim.a,tests/lib.a,tests/tools.a,libtidelock.a} >/dev/null || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# name | files below src, with commas (or compat/..., tools/...) | scenario, or any seeds | seeds | sed
# Seeds N@S: those from S on, which was the first that showed it, are tried before all N. Another change of the code may
# move it: then all N are searched, which takes long, until RECORD=1 has written down where it is now.
rows() {
    sed '/^[[:space:]]*\(#.*\)\{0,1\}$/d' <<'EOF'
# what an answer is worth
deadline-ignores-pttl    | protocol/attempt.c |        | 300@30  | s/left_ms == -1 || left_ms > job->ttl_ms ? job->ttl_ms : left_ms;/job->ttl_ms + 0 * left_ms;/
deadline-from-receipt    | protocol/attempt.c |        | 300  | s/tl__mono_add_ns(a->asked, tl__rate_least/tl__mono_add_ns(e->now, tl__rate_least/
deadline-without-drift   | protocol/attempt.c |        | 2000 | s/tl__rate_least_ns(ms \* TL_NS_PER_MS, e->server->drift_ppm)/ms * TL_NS_PER_MS + 0 * e->server->drift_ppm/
deadline-by-one-clock    | protocol/attempt.c |        | 2000 | s/tl__rate_least_ns(ms \* TL_NS_PER_MS, e->server->drift_ppm)/tl__rate_least_ns(ms * TL_NS_PER_MS, e->server->drift_ppm \/ 2)/
replicas-unconfirmed     | protocol/attempt.c | failover-confirmed | 3000 | s/n >= job->wait_replicas)/n >= 0)/
granted-after-restart    | wire/scripts/with/quiet.lua | restart-quiet | 400 | s,/ 1000 + wanted),/ 1000 + wanted / 100),
granted-after-failover   | wire/scripts/with/quiet.lua | failover-quiet | 400 | s/since = same == reign and tonumber(since)/since = tonumber(since)/
reign-run-only           | wire/scripts/with/quiet.lua | sentinel-back | 3000@2006 | s/, run \.\. '-' \.\. history$/, run/; s/^    if epoch then$/    if false then/
reign-no-epoch           | wire/scripts/with/quiet.lua | sentinel-unfollowed | 300 | s/^    if epoch then$/    if false then/
# requests that come late
limit-of-the-wait        | protocol/attempt.c |        | 1000@608 | s/tl__try_server_us(e, a->by);/tl__try_server_us(e, a->until);/
limit-at-its-latest      | protocol/attempt.c |        | 5000@44 | s/ ? us.hi : us.lo;/ ? us.hi : us.hi;/
harmless-at-once         | protocol/attempt.c | stuck-requests | 40000@983 | s/a->bounded ? a->by : TL_NEVER/a->bounded ? (tl_mono){0} : TL_NEVER/
old-binds-by-earliest    | protocol/sidecar.c | old-server | 3000@121 | s/tl__out_int(out, .*\.hi)/tl__out_int(out, tl__try_server_us(e, e->now).lo)/
old-takes-by-latest      | protocol/sidecar.c | old-server | 600@170 | /^void tl__sidecar_send_acquire/,/^}/s/now\.lo/now.hi/
# the scripts
take-blindly             | wire/scripts/take.lua |        | 100  | s/^if expect == .. and found or .*then$/if false then/; s/, .NX.) then/) then/
take-ignores-sidecar     | wire/scripts/take.lua |        | 500@52  | s/^local other = .*/local other = false/
take-whenever            | wire/scripts/take.lua |        | 1000@94 | s/ and now > not_after$/ and false/
take-again-when-dropped  | wire/scripts/take.lua |        | 3000@431 | s/^if s\[5\] == token then/if false then/
take-not-known-again     | wire/scripts/take.lua |        | 300  | s/^if known and s\[1\] == token then/if false then/
take-at-a-replica        | wire/scripts/take.lua | failover-stays-late | 3000@30 | s/^        local refused = string.find(done.err.*/        local refused = false/
fence-by-clock           | wire/scripts/with/draw.lua |        | 2000@370 | s/math.max(last + 1, (tonumber(noted or 0) or 0) + 1, now)/math.max(tonumber(noted or 0) or 0, now)/
fence-by-count           | wire/scripts/with/draw.lua | restart-forgets | 200 | s/math.max(last + 1, (tonumber(noted or 0) or 0) + 1, now)/last + 1/
take-moves-back          | wire/scripts/take.lua | old-server | 40000@16585 | s/^    binds = math.max(till, binds).*$//
take-without-lifetime    | wire/scripts/take.lua |        | 300  | s/redis.call('PSETEX', K, px, value)/redis.call('SET', K, value)/; s/, 'PX', px, 'NX'/, 'NX'/
refusal-is-final         | protocol/acquire.c,wire/scripts/take.lua | tight-limits | 3000@31 | s/^    if (r->maybe && r->code == TL_EUNCERTAIN)/    if (!r->maybe \&\& r->checked)\n        a->uncertain = false;\n&/; s/^if known and s\[1\] == token then/if time and not_after > 0 and now > not_after then return answer(-1, -1) end\n&/
fence-told-at-its-latest | wire/scripts/take.lua | failover-ahead | 3000@42 | s/draw(numbers, now, fence)/draw(numbers, tonumber(ARGV[5]), fence)/
keep-anybodys            | wire/scripts/keep.lua |        | 2000@113 | s/(text == token or noted and text == s\[2\])/(text == token or text == s[2])/
keep-whatever-value      | wire/scripts/keep.lua |        | 5000@4781 | s/(text == token or noted and text == s\[2\])/(text == token or noted)/
keep-whenever            | wire/scripts/keep.lua |        | 2000@44 | s/^local late = .*/local late = false/
keep-creates             | wire/scripts/keep.lua |        | 2000@44 | s/^local late = .*/local late = false/; s/elseif text and s\[1\] == token and text == s\[2\] then/elseif s[1] == token and not text then status = 1 redis.call('PSETEX', K, string.format('%.0f', px), value)\n    &/
keep-shortens            | wire/scripts/keep.lua |        | 2000 | s/ and redis.call(.PTTL., K) < px then/ then/
keep-doesnt-bind         | wire/scripts/keep.lua | deleted-by-hand | 200 | s/local later = .*/local later = false/; s/^        if not noted then/        if false then/
drop-anybodys            | wire/scripts/drop.lua |        | 500@52  | s/^if s\[1\] == token then/if true then/
drop-whatever-value      | wire/scripts/drop.lua |        | 5000@35 | s/ and found == redis.call('HGET', S, 'value'))/)/
drop-not-remembered      | wire/scripts/drop.lua |        | 3000@431 | s/'spent', token/'spent', 'x'/
drop-not-announced       | wire/scripts/drop.lua | prompt | 200  | s/    redis.pcall('PUBLISH', S, '')//
# takes by native commands
native-beyond-window     | protocol/protocol_token.c,transport/conn_redis.c | | 40000 | s/    if (e->stale || /    if (/; s/return tl__ns_until(at, now) < TL_RAISED_MS.*/return at.ns <= now.ns;/; s/last >= now.lo - BEHIND_US \&\& //
native-though-s-binds    | protocol/protocol_token.c | deleted-by-hand | 2000@38 | s/left_us > 0 || is_line(s)/is_line(s)/; s/ \&\&$/\&\&/; s/           last > number_of(tl__reply_item(s, S_FENCE));/           true;/
native-not-above-s       | protocol/protocol_token.c | | 20000@537 | s/           last > number_of(tl__reply_item(s, S_FENCE));/           true;/; s/last >= now.lo - BEHIND_US \&\& //
native-behind-the-clock  | protocol/protocol_token.c | | 2000@537 | s/last >= now.lo - BEHIND_US \&\& //
native-over-any-connection | protocol/protocol_token.c,transport/conn_redis.c | | 2000 | s/    return r \&\& lately(r->at, now) ? r : NULL;/    static const tl_raised any;\n    (void)r;\n    return now.ns > 0 \&\& send->native > 0 \&\& tl__conn_up(c) ? \&any : NULL;/; s/s->raised = native ? raised->at : now;/s->raised = now;/; s/last >= now.lo - BEHIND_US \&\& //
native-judged-at-sending | protocol/protocol_token.c,transport/conn_redis.c | | 8000@537 | s/s->raised = native ? raised->at : now;/s->raised = now;/; s/last >= now.lo - BEHIND_US \&\& //
native-in-any-slot       | protocol/protocol_token.c,transport/conn_redis.c | | 2000@143 | s/memcmp(set\[i\].slot.text, slot.text, sizeof slot.text) == 0/set[i].at.ns > 0/; s/(a \* 31U + b \* 7U + d) % TL_RAISED_SETS/0 * (a + b + d)/; s/last >= now.lo - BEHIND_US \&\& //
native-opens-its-window  | protocol/protocol_token.c | | 60000@33 | s/^    a->result.proof.unbound = true;$/&\n    tl__sidecar_raised(job, out);/; s/last >= now.lo - BEHIND_US \&\& //
native-window-from-answer | protocol/protocol_token.c,client/driver.c,client/keeper_run.c | | 60000@537 | s/last >= now.lo - BEHIND_US \&\& //; s/, event->sent);/, event->now);/
native-ended-elsewhere   | protocol/acquire.c | | 40000@410 | s/ \&\& e->run != 0 \&\& e->run == a->kill_run;/;/
first-renewal-late       | protocol/renew.c | | 20000@5353 | s/r->job.proof.unbound \&\& ns > FIRST_NS/false/
# masters that Sentinels name
sentinel-keep-unasked    | protocol/attempt.c | sentinel-wakes | 300 | s/a->op == TL_RENEW ? job->confirms : e->unnamed/a->op != TL_RENEW \&\& e->unnamed/
sentinel-keep-asked-before | client/driver.c,client/keeper_run.c | sentinel-parted | 300@38 | s/send->count == 0 \&\& !send->confirm \&\& /send->count == 0 \&\& /
sentinel-keep-at-once    | transport/site.c | sentinel-parted | 300@64 | s/site->settles \&\& changed/false \&\& changed/
sentinel-take-whenever   | transport/site.c | sentinel-parted | 300 | s/now.ns - ns <= most_ns(site)/now.ns > 0/
sentinel-any-server      | transport/conn_redis.c | sentinel-back | 300 | s/if (tl__conn_is_foreign(conn, send->generation) \&\& tl__conn_is_current(conn))/if (false)/; s/^    tl__conn_refuse_foreign(c);$//
sentinel-switch-unheard  | client/fleet_sentinel.c | sentinel-back | 300 | s/^    tl__site_lose(&all->site, all->words);$//
sentinel-any-one         | client/votes.c | sentinel-parted | 300 | s,v.majority = v.total / 2 + 1;,v.majority = 1;,
sentinel-quiet-forgotten | wire/scripts/with/quiet.lua | sentinel-parted | 300 | s/since = same == reign and tonumber(since)/since = tonumber(since)/; s/^    if epoch then$/    if false then/
sentinel-reply-of-another | transport/conn_redis.c | sentinel-wakes | 300 | s/^    return c->state == TL_CONN_UP .. !c->leaving .. c->slots.head .. c->slots.head->count == 0;/    return c->state == TL_CONN_UP \&\& !c->leaving \&\& c->slots.head \&\& c->slots.head->count == 0 \&\& tl__conn_is_named(c, c->now);/
# nodes of a cluster
cluster-turn-forgotten   | client/driver.c | cluster-late | 500 | s/^        turn(d);$//
cluster-by-first-clock   | client/run.c | cluster | 6000 | s/tl__node_server(run->node, event->now)/tl__node_server(\&run->client->node, event->now)/
cluster-former-not-left  | client/fleet_cluster.c | cluster-wakes-quiet | 600 | s/^            leave(c, atomic_load(&c->list\[i\]));/            ;/
cluster-moved-unlearned  | client/fleet_cluster.c | cluster-moves | 300 | s/if (led \&\& moved \&\& atomic_exchange/if (false \&\& atomic_exchange/; s/^    if (moved)$/    if (false)/; s/if (moved || redirect->kind == TL_CLUSTER_DOWN)/if (false)/
cluster-never-alone      | protocol/attempt.c | cluster-moves | 300@85 | s/a->alone = a->alone || open;/a->alone = false;/
cluster-asking-forgotten | protocol/attempt.c | cluster-moves | 300@38 | s/a->asking = a->alone \&\& e->redirect == TL_ASK;/a->asking = false;/
cluster-quiet-forgotten  | protocol/attempt.c | cluster-forgets-quiet | 600@23 | s/if (takes \&\& job->quiet_ms > 0)/if (false)/
cluster-bound-to-another | protocol/alone.c | cluster | 6000@160 | s/case 0: s->left_ms = left; return binds_another(a, s, job, e, out);/case 0: s->left_ms = left; return has_all(a, s, job);/
cluster-not-once-more    | protocol/alone.c | cluster-late | 500@65 | s/case 1: return go_on(a, s, TL_ALONE_AGAIN, job, e, out);/case 1: return has_all(a, s, job);/
cluster-plain-not-again  | protocol/protocol_plain.c | cluster-late-plain | 500 | s/    return led ? tl__alone_repeat(a, job, e, out) : status;/    return status;/
cluster-left-behind      | protocol/protocol_token.c | cluster | 6000@659 | s/->alone.stage > TL_ALONE_KEY/->alone.stage > 99/
cluster-bound-for-nobody | protocol/protocol_token.c | cluster-quick | 600@72 | s/((token_try \*)a)->alone.gone++;/((token_try *)a)->alone.gone = TL_ALONE_LAST;/
cluster-line-uncalled    | wire/scripts/leave.lua | cluster-line | 200@86 | s/^    redis.pcall('PUBLISH'.*//
cluster-open-binds       | wire/scripts/with/grant.lua | cluster-line | 6000@54 | s/local set = called or redis.pcall(/local set = called or redis.call(/
cluster-stays-in-line    | wire/scripts/drop.lua | cluster-late | 500@42 | s/^if ARGV\[2\] and ARGV\[2\] ~= .. then -- in.*/if false then/
cluster-keep-unasked     | protocol/attempt.c | cluster-wakes-quiet | 600@29 | s/a->op == TL_RENEW ? job->confirms : e->unnamed/a->op != TL_RENEW \&\& e->unnamed/
cluster-take-whenever    | transport/site.c | cluster-wakes-quiet | 600 | s/ns != 0 \&\& now.ns - ns <= most_ns(site)/true/; s/site->settles \&\& changed/false \&\& changed/
cluster-any-replica      | client/cluster_ask.c | cluster-wakes-quiet | 600 | s/q->said >= q->replicas;/true;/
# stamps in a cluster's open slot
cluster-stamps-taken     | protocol/attempt.c | cluster-stamps-lossy | 600@103 | s/if (takes \&\& job->rules.dialect)/if (false)/
cluster-stamps-noted-anew | compat/scripts/note.lua | cluster-stamps-lossy | 600 | s/^if next == .. or next == ARGV\[4\] then/if true then/
cluster-stamps-whenever  | compat/scripts/swap.lua | cluster-stamps-late | 600@122 | s/^if late then/if false then/
cluster-stamps-unknown   | compat/stamp/stamp_alone.c | cluster-stamps-lossy | 600@32 | s/s->read_end_ms = own_end_ms(job, value, e);/s->read_end_ms = 0;/
cluster-stamps-noted-for-nothing | compat/stamp/stamp_alone.c | cluster-stamps-lossy | 600 | s/s->end_ms = own_end_ms(job, next, e);/s->end_ms = next_ms(s, job, e);/
cluster-stamps-outlast   | compat/stamp/stamp.c | cluster-stamps | 4000 | s/^    if (job->rules.nodes)$/    if (false)/
cluster-stamps-unresolved | compat/stamp/stamp_script.c | cluster-stamps-lossy | 600@24 | s/if (!own \&\& !losers \&\& job->rules.nodes)/if (false)/
cluster-stamps-freed-twice | compat/stamp/stamp_alone.c | cluster-stamps-alike | 6000@92 | s/return go_on(s, LOOKING, job, e, out);/return go_on(s, SWAPPING, job, e, out);/
# locks on an etcd
etcd-deadline-from-answer | protocol/etcd_acquire.c | etcd | 2000@52 | s/tl__etcd_deadline(a->asked, ms/tl__etcd_deadline(e->now, ms/
etcd-deadline-without-drift | protocol/protocol_etcd.c | etcd-rates | 400 | s/tl__rate_least_ns(ttl_ms \* TL_NS_PER_MS, drift_ppm)/ttl_ms * TL_NS_PER_MS + 0 * drift_ppm/
etcd-keep-comes-late     | wire/etcd.c       | etcd | 4000@147 | s/CREATED_THEN ",{" MINE ",'target':'LEASE','result':'LESS','lease':'#4'}\],"/CREATED_THEN "],"/
etcd-try-blindly         | wire/etcd.c       | etcd | 400 | s/"{'compare':\[{" RANGE ",'target':'CREATE','result':'EQUAL','create_revision':'0'}\],"/"{'compare':[{" MINE ",'target':'CREATE','result':'EQUAL','create_revision':'0'}],"/
etcd-join-again          | wire/etcd.c       | etcd | 2000@49 | /"JOIN"/,/SEE_MINE/s/{'compare':\[{" MINE ",'target':'CREATE','result':'EQUAL','create_revision':'0'}\],/{/
etcd-first-unlooked      | protocol/etcd_acquire.c | etcd | 400 | s/    return tl__etcd_find(answer, 0, 1, &before) ? wait_behind/    return false ? wait_behind/
etcd-join-is-first       | protocol/etcd_acquire.c | etcd | 400 | s/    return a->word == JOIN \&\& tl__etcd_find(answer, 0, 0, &before) ? /    return false ? /
etcd-held-too-late       | protocol/etcd_acquire.c | etcd | 2000@265 | s/    if (left_ns > least_ns)/    if (left_ns > least_ns || true)/
etcd-left-behind         | protocol/etcd_acquire.c | etcd | 400 | s/^    if (!a->result.maybe)$/    if (true)/
etcd-undone-unheard      | protocol/etcd_acquire.c | etcd | 2000 | s/    if (e->kind != TL_REPLY || e->reply->type == TL_REPLY_ERROR)/    if (e->kind == TL_FAILED)/
etcd-unanswered-is-none  | protocol/etcd_acquire.c | etcd | 2000 | /^static tl_status unanswered/,/^}/s/    if (e->maybe_sent)/    if (false)/
etcd-cancel-forgets      | protocol/etcd_acquire.c | etcd | 2000@363 | /^static tl_status on_cancel/,/^}/s/    if (a->state == ASKING)/    if (false)/
etcd-error-is-outcome    | wire/etcd.c       | etcd-doubt | 400 | s/1U << 3 | 1U << 5/1U << 2 | 1U << 4 | 1U << 14 | &/
etcd-extension-shortens  | client/lock.c     | etcd-for-less | 400 | s/^        job.least_ms = job.ttl_ms;$//
etcd-renewal-shortens    | client/lock.c     | etcd | 2000@381 | s/^        tl__hold_raise(lock, ttl_ms);$//
etcd-spare-is-revoked    | client/lock.c,protocol/protocol_etcd.c | etcd-refused-then-doubt | 2000@341 | s/ \&\& !s.job.again) / ) /; s/ \&\& !job->proof.spared \&\& / \&\& /
etcd-joined-unknown      | protocol/protocol_etcd.c | etcd | 400@540126587 | s/    a->changed = job->proof.changed;/    a->changed = job->again ? 0 : job->proof.changed;/;s/^    t->alone = a->changed == 0;$//
etcd-watch-from-later    | transport/watch.c | etcd | 3000@95 | s/    return 1 + (topic->revision/    return 2 + (topic->revision/
etcd-deletion-unheard    | transport/watch.c | etcd-calm | 200 | s/    } else if (item(message, TL_WATCH_DELETED) > 0) {/    } else if (false) {/
etcd-login-not-anew      | wire/etcd.c       | etcd-logins | 400 | s/is_definite(code) || code == 16 ||/is_definite(code) ||/
# votes of independent servers
quorum-of-fewer          | protocol/quorum_acquire.c | quorum | 2000 | s/return tl__quorum_of(a->count);/return a->count \/ 2;/
quorum-deadline-of-fewer | protocol/quorum.c | quorum | 2000@35 | s/sorted\[tl__quorum_of(b->count) - 1\]/sorted[tl__quorum_of(b->count) - 2]/
quorum-deadline-of-more  | protocol/quorum.c | quorum-two-down | 40 | s/sorted\[tl__quorum_of(b->count) - 1\]/sorted[tl__quorum_of(b->count)]/
quorum-number-of-fewer   | protocol/quorum.c | quorum | 2000@23 | s/same >= tl__quorum_of(count)/same >= 1/
quorum-number-unraised   | protocol/quorum_acquire.c | quorum | 2000 | s/^    if (f.raise == 0)$/    if (true)/
quorum-vote-whenever     | wire/scripts/vote.lua | quorum | 2000 | s/ and now > not_after then/ and false then/
quorum-vote-though-spent | wire/scripts/vote.lua | quorum | 4000@103 | s/^if s\[5\] == token then/if false then/
quorum-vote-blindly      | wire/scripts/vote.lua | quorum | 100 | s/^if found and not mine then/if false then/
quorum-vote-ignores-s    | wire/scripts/vote.lua | quorum-deleted | 2000 | s/^if not mine and bound and .*/if false then/
quorum-vote-not-quiet    | protocol/protocol_quorum.c | quorum-emptied | 200 | s/tl__try_add(c, tl__out_int(out, job->quiet_ms));/tl__try_add(c, tl__out_int(out, 0 * job->quiet_ms));/
quorum-holder-withheld   | protocol/quorum_renew.c | quorum-in-turn | 60 | s/^    r->child.quiet_ms = 0;$//
quorum-unvote-anybodys   | wire/scripts/unvote.lua | quorum | 2000 | s/^if mine then$/if found then/
quorum-door-open         | protocol/voter.c,protocol/quorum_settle.c | quorum-late | 2000@57 | s/v->job.in_vain = v->doubted;/v->job.in_vain = false;/; s/s->child.in_vain = s->ballots.doubted . 1U << i;/s->child.in_vain = false;/
quorum-doubt-ended       | protocol/voter.c | quorum-late | 2000@533 | s/    if (!v->doubted || (r->checked \&\& .*/    if (true)/
quorum-abandoned         | protocol/voter.c | quorum | 2000@38 | s/^        doubt(v, tl__attempt_harmless(&v->attempt));/        v->holds = false;/
quorum-left-of-former    | protocol/quorum_acquire.c | quorum | 2000@103 | s/^    if (!is_left(a))$/    if (a->result.code == TL_OK || !is_left(a))/
quorum-token-again       | protocol/quorum_acquire.c | quorum | 2000 | s/^        next_token(a);/        a->run++;/
quorum-late-is-busy      | protocol/quorum_acquire.c | quorum | 2000@25 | s/^    run_down(a, e);$//
quorum-late-extension    | protocol/quorum_settle.c | quorum | 4000@834 | s/^    run_down(s, e);$//
quorum-overtaken         | client/keeper_votes.c | quorum-flushed | 40000@8636 | s/limits.in_order = several;/limits.in_order = false;/
quorum-all-go-on         | protocol/quorum_acquire.c | quorum-calm | 200 | s/is_vote(a, v, e->now) \&\& a->patience > 0;/true;/
quorum-released-by-fewer | protocol/quorum_settle.c | quorum | 2000@120 | s/        return t->good >= q;/        return t->good >= 1;/
quorum-extended-by-fewer | protocol/quorum_settle.c | quorum | 2000@120 | s/        return t->good >= q;/        return t->good >= (s->op == TL_RENEW ? 1 : q);/
quorum-lost-too-late     | protocol/quorum_renew.c | quorum-apart | 200 | s/-EARLY_NS/20 * EARLY_NS/
quorum-gone-not-asked    | protocol/quorum_renew.c | quorum-in-turn | 4 | s/s->voting = r->ballots.until\[i\].ns == 0 .*/s->voting = false;/
quorum-at-ease           | protocol/quorum_renew.c | quorum-two-down | 40 | s/^    at_risk(r, out);$//
quorum-one-twice         | client/keeper_votes.c | quorum-twice | 200 | s/            return true;/            continue;/
quorum-twice-unconnected | client/keeper_votes.c | quorum-twice | 4000@28 | s/^    if (conn && tl__conn_up(conn)) .*/    if (!conn || !tl__conn_up(conn))\n        atomic_store(\&node->run, 0);\n    else/
# standing in line
grant-blind-to-s         | wire/scripts/with/grant.lua | deleted-by-hand | 5000 | s/^    if bound then/    if false then/
grant-without-lapse      | wire/scripts/with/grant.lua | | 20000 | s/^    if s\[4\] and s\[4\] ~= .. then/    if false then/
grant-of-another-run     | protocol/line.c | | 20000@642 | s/ || grant->run != run ||$/ ||/
grant-said-in-vain       | wire/scripts/with/grant.lua | failover-stays | 300 | s/^            heard\[inbox\] = .*/            heard[inbox] = true/; s/^            mute = not asks and type(redis.pcall(/            local said = asks or redis.pcall(/; s/ others)) \.\. K)) == 'table'/ others)) .. K)\n            mute = type(said) == 'table'/; /'grant /,/return token/s/if not mute then/if not mute and said ~= 0 then/
grant-in-full            | protocol/line.c | | 5000 | s/left_us < lease_us \/ 2 || left_us > lease_us/false/; s/tl__mono_min(by_server, by_arrival)/by_arrival/
leave-keeps-the-granted  | wire/scripts/drop.lua | | 2000 | s/^local mine = found and .*/local claim = redis.call('HGET', S, 'claim')\nlocal mine = found and (not claim or claim == '') and (found == token or s[1] == token and found == redis.call('HGET', S, 'value'))/
native-keeps-beside-line | protocol/protocol_token.c | | 2000@120 | s/ || is_line(s) ||/ ||/
grant-not-heard          | client/keeper_listen.c | | 8000@54 | s/kind == TL_LINE_GRANT \&\& tl__bytes_eq/false \&\& tl__bytes_eq/
grant-in-flight-forgotten | protocol/acquire.c | | 100000@93625 | s/^    if (granted)/    if (false)/
lapse-by-look-alone      | wire/scripts/with/grant.lua | | 8000@519 | s/^    if s\[4\] and s\[4\] ~= .. then/    if asker and s[4] and s[4] ~= '' then/
line-polls               | protocol/acquire.c | | 8000@46 | s/    if (a->armed \&\& a->job.join \&\&/    if (false \&\&/
line-serves-the-last     | wire/scripts/with/grant.lua | | 8000@54 | s/redis.call('ZRANGE', L, 0, 0)/redis.call('ZREVRANGE', L, 0, 0)/
line-forgets-places      | wire/scripts/join.lua | | 8000 | s/^    if place == .. then/    if true then/
passed-beside-line       | client/lock_acquire.c | | 8000@219 | s/= a->result.waiting > 0 ? 0 : /= /
passed-for-ever          | client/gate.c | | 8000@275 | s/tl__ns_until(hold->taken, now) < PASS_NS/true/
late-look-told-the-last  | wire/scripts/join.lua | | 8000@22 | s/^    fence = last - ARGV\[5\] + 1/    fence = last/
known-take-counts-back   | wire/scripts/take.lua | | 30000@837 | s/^    if numbers > 1 then/    if false then/
stamp-counts-back        | wire/scripts/take.lua | phase-answers-lost | 5000@2675 | s/^    if numbers > 1 then/    if numbers > 1 and value == token then/
take-leaves-own-stamp    | wire/scripts/take.lua | phases | 4000@659 | s/^    local becomes = .*/    local becomes = false/
line-sets-for-a-phase    | wire/scripts/with/grant.lua | phases | 3000 | s/called = called == '?' and not asks/called = false/
# acquiring
confirmed-too-late       | protocol/acquire.c |        | 3000@24 | s/r->code == TL_OK && tl__mono_before(e->now, r->deadline)/r->code == TL_OK/
unanswered-is-forgotten  | protocol/acquire.c |        | 1000@23 | s/    a->uncertain = true;/    a->uncertain = false;/
unwanted-is-forgotten    | protocol/acquire.c |        | 3000 | s/        a->unwanted = true;/        a->unwanted = false;/
cancel-is-certain        | protocol/acquire.c |        | 2000@88 | s/    if (a->state == TAKING)/    if (false)/
nobody-cleans-up         | protocol/acquire.c |        | 500  | s/    if (!a->result.maybe)/    if (true)/
cleaning-does-nothing    | protocol/acquire.c |        | 1000@39 | s/        return drop(a, e, out);/        return TL_END;/
busy-ends-doubt          | protocol/acquire.c | stuck-requests | 40000@983 | s/ && !tl__mono_before(e->sent, a->harmless))/)/
busy-ends-doubt-on-old   | protocol/acquire.c |        | 40000@2091 | s/a->uncertain && a->attempt.result.checked && /a->uncertain \&\& /
attempt-outlasts-wait    | protocol/attempt.c |        | 500  | s/tl__mono_min(tl__mono_add_ms(e->now, job->attempt_ms), a->until)/tl__mono_add_ms(e->now, job->attempt_ms)/
for-ever-has-a-limit     | protocol/acquire.c |        | 500  | s/        a->limit = TL_NEVER;/        (void)a;/
wait-without-limit       | protocol/acquire.c |        | 300  | s/        out->until = tl__mono_min(a->next, a->limit);/        out->until = a->next;/
reach-without-limit      | protocol/acquire.c |        | 1000 | s/    tl__out_send(out, ++a->ticket, a->limit);/    tl__out_send(out, ++a->ticket, TL_NEVER);/
wake-up-ignored          | protocol/acquire.c | prompt | 200  | s/        a->next = e->now;/        a->next = a->planned;/
wake-up-while-asking     | protocol/acquire.c | prompt | 3000@600 | s/^    a->woken = true;/    a->woken = false;/
# renewing
lost-is-not-told         | protocol/renew.c  |        | 300  | s/    return !tl__mono_before(e->now, end(r));/    return false;/
lost-is-told-late        | protocol/renew.c  |        | 300  | s/tl__mono_add_ns(r->result.deadline, -EARLY_NS)/r->result.deadline/
longest-hold-ignored     | protocol/renew.c  |        | 300  | s/, r->rest.hold);/, TL_NEVER);/
# extending and releasing
release-not-gone-on-with | protocol/settle.c |        | 500  | s/    if (s->op != TL_RELEASE)/    if (true)/
released-though-expired  | protocol/settle.c |        | 2000@223 | s/ && s->maybe && s->in_time / \&\& s->maybe /
extend-too-late          | protocol/settle.c |        | 3000@164 | s/return s->op == TL_RELEASE || .*/return true;/
settle-without-limit     | protocol/settle.c |        | 500@136  | s/(tl_op)s->op, ++s->ticket, s->limit)/(tl_op)s->op, ++s->ticket, TL_NEVER)/
# the local queue, and passing on within a process
queue-forgets            | client/gate.c |        | 1000 | s/    if (front->last)$/    if (false)/
queue-last-first         | client/gate.c |        | 1000@45 | s/    front->last = place;$/    front->last = front->first;/
passed-beyond-reserve    | client/gate.c |        | 3000 | s/ || hold->passes == 0)/)/
passed-with-same-fence   | client/gate.c |        | 1000 | s/        next.fence += next.fence != 0;//
passed-when-over         | client/gate.c,client/lock_acquire.c |  | 20000@23 | s/^           tl__ms_until(now, hold->deadline) >= .*//; s/^           tl__mono_before(now, hold->deadline);/           true;/; s/m->turn.given \&\& tl__mono_before(e->now, m->turn.hold.deadline)/m->turn.given/
front-is-never-left      | client/lock.c |        | 1000@275 | s/^    tl__gate_leave(&lock->client->gate, &lock->place);//
# operations that don't block
cancel-is-not-posted     | client/async.c |       | 3000@2038 | s/        tl__keeper_post(k, &op->task, TL_WAKE_CANCEL);/        ;/
# the keeper
lost-is-reported-late    | client/hold.c  |       | 1000 | s/^        report(lock, state, .*/        ;/
timer-is-not-moved       | client/keeper_run.c |  | 1000 | s/    if (tl__mono_before(until, k->planned)) {/    if (false) {/
told-of-what-it-was      | client/keeper_run.c | phases | 5000 | s/        if (!hold)$/        if (!hold || task->watched.n == 0)/
step-at-login-forgotten  | client/keeper.c,client/pool.c |  | 30000@2324 | s/        k->rejudge = true;$/        ;/; s/        tl__keeper_rejudge(&pooled->node->client->keeper);/        ;/
step-not-judged          | client/run.c   |       | 5000@261 | s/        run->in ? tl__keeper_rejudge_in.*/        ;/
loop-lent-for-good       | client/keeper.c |      | 2000@239 | s/^        tl__conn_drive(k->conn, tl__mono_now());/        if (!k->lent)\n            tl__conn_drive(k->conn, tl__mono_now());/
loop-keeps-what-is-closed | client/keeper_loop.c | | 2000 | s/^    tl__gather_drop(k->gather, tl__conn_fd(k->conn));//
loop-never-told-to-write | client/keeper_loop.c |  | 2000@792 | s/^    return k->lent ? k->look_at : TL_NEVER;/    (void)k;\n    return TL_NEVER;/; s/^        tl__keeper_ring(k);/        ;/
# renewals in one request
refresh-shortens         | wire/scripts/refresh.lua |   | 8000@124 | s/, px, 'GT')/, px)/; s/ and left < tonumber(px) then/ then/
refresh-whenever         | wire/scripts/refresh.lua |   | 5000@44 | s/^if not_after > 0 and now > not_after then/if false then/
refresh-doesnt-bind      | wire/scripts/refresh.lua |   | 300  | s/ done = try('HSET', S, 'until', till)/ done = 0/
refresh-odd-is-well      | protocol/protocol_token.c |  | 2000@65 | s/case TL_REFRESHED_NOT: return renew_long(a, job, e, out);/case TL_REFRESHED_NOT: return refreshed(a, job, e, out);/
refresh-late-is-well     | protocol/protocol_token.c |  | 8000@72 | s/case TL_REFRESHED_LATE: return tl__try_too_late(a, out);/case TL_REFRESHED_LATE: return refreshed(a, job, e, out);/
exceptions-mixed         | client/batch.c |       | 20000@65 | s/if (n == (int64_t)i + 1)/if (n == (int64_t)i + 2)/
split-slot-is-everyones  | client/batch.c | slot-with-others | 3000 | s/ \&\& !tl__bytes_has_word(error, "TRYAGAIN") \&\&/ \&\&/
refusal-is-everyones     | client/batch.c | keys-of-others-shared | 3000@202 | s/return tl__refusal(error) == TL_EUNAVAILABLE .*/return true;/
# refusals
refused-in-older-words   | protocol/acquire.c | refused-at-its-limit | 10000@38 | s/!is_final(code) \&\& !tl__mono_before/!tl__mono_before/
try-again-is-final       | protocol/protocol.c | slots-moved | 300 | s/, "TRYAGAIN",/,/
keys-are-not-named       | wire/refusal.c | keys-withheld | 300 | s/has(error, " key")/false/
permission-passes        | protocol/protocol.c | keys-withheld | 300 | s/"NOAUTH", "NOPERM", "WRONGPASS"/"NOAUTH", "WRONGPASS"/; s/ || tl__is_no_permission(error) || / || /
moved-passes             | protocol/protocol.c | slots-elsewhere | 300 | s/"UNKILLABLE", "NOREPLICAS",/"UNKILLABLE", "NOREPLICAS", "MOVED", "ASK",/
# connections
pool-keeps-the-broken    | client/driver.c |      | 3000@22 | s/tl__pool_give(d->pooled, d->in_flight > 0)/tl__pool_give(d->pooled, false)/
login-counts-from-first  | transport/login.c | stamps | 20000 | s/^    if (login->has_bracket) .*/    if (login->has_bracket)/; s/tl__bracket(login->server_us, login->sent, received)/tl__bracket(login->server_us, received, received)/
asked-though-too-late    | protocol/attempt.c | phases | 8000@240 | s/    if (a->result.unasked)$/    if (false)/
# clocks
anchor-without-drift     | wire/interval.c   |        | 2000 | s/-lost_us(ns, drift_ppm)/0 * lost_us(ns, drift_ppm)/; s/, gained_us(ns, drift_ppm))/, 0 * gained_us(ns, drift_ppm))/
bracket-without-drift    | wire/interval.c   |        | 5000@2187 | s/    bracket.hi = tl__add_sat.*/    (void)width_ns, (void)drift_ppm;/
bracket-from-sent        | wire/interval.c   |        | 500  | s/tl__add_sat(server_us, -ceil_us(received.ns))/tl__add_sat(server_us, -ceil_us(sent.ns))/
# stamps: judging
free-at-once             | compat/stamp/stamp.c | bridge-to-the-end | 300 | s/first_free_ms + rules->clock_skew_max_ms + rules->legacy_delay_max_ms/first_free_ms/
free-without-m           | compat/stamp/stamp.c | bridge-to-the-end | 300 | s/first_free_ms + rules->clock_skew_max_ms + /first_free_ms + /
free-at-once-plain       | compat/stamp/stamp.c | plain-to-the-end | 300 | s/first_free_ms + rules->clock_skew_max_ms + rules->legacy_delay_max_ms/first_free_ms/
tokens-are-free          | compat/stamp/stamp.c,compat/stamp/stamp_script.c | stamps | 2000 | s/stamp->kind == TL_STAMP_GOOD \&\& free_from/free_from/; s/(answer->left_ms < 0 || answer->known)/true/
# stamps: what a take or a keep is worth
stamp-spares-no-m        | compat/stamp/stamp_script.c | bridge-losers | 1000@44 | s/ - now_ms - job->rules.clock_skew_max_ms;/ - now_ms;/
stamp-is-full-on-retry   | compat/stamp/stamp_script.c | stamps | 40000@349 | s/int64_t left_ms = stamp.end_ms - now_ms - /int64_t left_ms = job->ttl_ms - /
stamp-without-cap        | compat/stamp/stamp.c | bridge-by-hand | 20000@232 | s/    if (!tl__mono_before(proof->capped_until, a->asked))/    if (false)/
stamp-cap-lifted-early   | compat/stamp/stamp.c | bridge-by-hand-crowd | 4000@703 | s/tl__rate_most_ns(job->rules.legacy_delay_max_ms \* TL_NS_PER_MS, e->server->drift_ppm)/0/
stamp-cap-without-l      | compat/stamp/stamp.c | bridge-by-hand | 20000@232 | s/(r->legacy_ttl_min_ms - r->legacy_delay_max_ms -/(r->legacy_ttl_min_ms -/
stamp-over-stays         | compat/stamp/stamp_script.c | stamps | 5000@70 | s/bool over = a->op == TL_ACQUIRE/bool over = false/
# stamps: overwritten, or stolen?
every-stamp-is-a-losers  | compat/stamp/stamp.c | bridge-beyond-m | 100 | s/    return read_ms <= proved_ms;/    return true;/
no-stamp-is-a-losers     | compat/stamp/stamp.c | stamps | 2000@179 | s/    return read_ms <= proved_ms;/    return false;/
losers-without-m         | compat/stamp/stamp.c | stamps | 40000@4215 | s/    return read_ms <= proved_ms;/    return read_ms <= job->proof.proved_us \/ 1000;/
losers-when-it-is-over   | compat/stamp/stamp.c | stamps | 8000 | s/ || !tl__mono_before(e->now, job->believed))/)/
# stamps: waiters that overwrite at each poll
pipe-spares-no-l         | compat/stamp/stamp.c | pipe-far | 2000 | s/return rules->dialect->waiters_overwrite ? rules->legacy_delay_max_ms : 0;/return 0;/
pipe-stamp-without-l     | compat/stamp/stamp_script.c | pipe-short | 20000@83 | s/    left_ms -= tl__stamp_late_ms(&job->rules);//
pipe-watch-without-l     | compat/stamp/stamp_watch.c | pipe-watch-short | 20000@257 | s/    left_ms -= tl__stamp_late_ms(&job->rules);//
pipe-cap-without-l       | compat/stamp/stamp.c | pipe-far | 2000 | s/ - tl__stamp_late_ms(r)) \*/) */
pipe-cap-not-anew        | compat/stamp/stamp.c | pipe-far | 2000@44 | s/    if (fresh || job->rules.dialect->waiters_overwrite) {/    if (fresh) {/
pipe-cap-of-the-take     | compat/stamp/stamp.c | pipe-far | 2000 | s/    if (!tl__mono_before(proof->capped_until, a->asked))/    if (fresh)/
pipe-every-poll-robs     | compat/stamp/stamp.c | pipe | 200 | s/return !may_have_expired(job, read_ms, proved_ms);/return false;/
pipe-no-poll-robs        | compat/stamp/stamp.c | pipe-beyond-m | 200 | s/return !may_have_expired(job, read_ms, proved_ms);/return true;/
pipe-robs-a-lag-early    | compat/stamp/stamp.c | pipe-short | 2000 | s/return read_ms + r->legacy_delay_max_ms >= least_ms;/return read_ms + 2 * r->legacy_delay_max_ms >= least_ms;/
pipe-robs-by-m           | compat/stamp/stamp.c | pipe-short-crowd | 20000@6596 | s/return read_ms + r->legacy_delay_max_ms >= least_ms;/return read_ms + r->legacy_delay_max_ms + r->clock_skew_max_ms >= least_ms;/
# stamps: the scripts
stamp-take-blindly       | wire/scripts/take.lua | stamps | 300  | s/^if expect == .. and found or .*then$/if false then/
stamp-take-anybodys      | wire/scripts/take.lua | stamps | 500  | s/^if known and s\[1\] == token then/if known then/
stamp-take-ignores-s     | wire/scripts/take.lua | bridge-late-del | 200 | s/^local other = .*/local other = false/
stamp-take-whenever      | wire/scripts/take.lua | stamps | 1000 | s/ and now > not_after$/ and false/
stamp-keep-anybodys      | wire/scripts/keep.lua | stamps | 3000@294 | s/(text == token or noted and text == s\[2\])/(text == token or text == s[2])/
stamp-keep-whatever      | wire/scripts/keep.lua | stamps | 6000@176 | s/(text == token or noted and text == s\[2\])/(text == token or noted)/
stamp-keep-shortens      | wire/scripts/keep.lua | stamps | 5000@362 | s/local later = .*/local later = true/
stamp-drop-whatever      | wire/scripts/drop.lua | stamps | 5000 | s/ and found == redis.call('HGET', S, 'value'))/)/
# stamps: lifetimes
own-lifetime-too-long    | compat/stamp/stamp_rules.c | bridge-equal-long | 8000@2471 | s/    if (ttl_ms > most)/    if (false)/
own-lifetime-too-short   | compat/stamp/stamp_rules.c | bridge-short | 300 | s/    if (ttl_ms <= least)/    if (false)/
# stamps by WATCH
watch-without-s          | compat/stamp/stamp_watch.c | watch-late | 6000@5121 | s/tl__try_add(say(send, "WATCH", job->key), job->sidecar);/(void)say(send, "WATCH", job->key);/
watch-without-k          | compat/stamp/stamp_watch.c | watch  | 1000 | s/tl__try_add(say(send, "WATCH", job->key), job->sidecar);/(void)say(send, "WATCH", job->sidecar);/
watch-drop-untouched     | compat/stamp/stamp_watch.c | watch-late | 2000 | s/^    if (k->ours) {$/    if (!k->ours)\n        return tl__try_not_released(\&s->try, s->status, out);\n&/
watch-drop-whatever      | compat/stamp/stamp_watch.c | watch-to-the-end | 1000 | s/^        if (k->same)$/        if (true)/
watch-drop-anybodys      | compat/stamp/stamp_watch.c | stamps | 3000 | s/ret->ours = .*/ret->ours = ret->bound || tl__bytes_eq(token, tl__token_bytes(\&job->token));/
watch-take-blindly       | compat/stamp/stamp_watch.c | watch  | 300  | s/^        if (!tl__stamp_is_free(&job->rules, &stamp, now_ms)) {/        if (false) {/
watch-take-ignores-s     | compat/stamp/stamp_watch.c | stamps | 20000@3137 | s/^    if (k->bound && !k->ours && k->until_us >= k->now_us) {/    if (false) {/
watch-not-known-again    | compat/stamp/stamp_watch.c | stamps | 3000@135 | s/^    if (k->ours && k->same)$/    if (false)/; s/s->owned = k->ours && k->same;/s->owned = false;/
watch-spares-no-m        | compat/stamp/stamp_watch.c | watch-to-the-end | 1000@29 | s/ - tl__stamp_skew_ms(job, e);/;/
watch-spares-m-once      | compat/stamp/stamp.c | watch-to-the-end | 3000 | s/e->server->anchor.known ? 1 : 2)/true ? 1 : 2)/
watch-without-cap        | compat/stamp/stamp.c | watch-by-hand | 4000@1866 | s/    if (!tl__mono_before(proof->capped_until, a->asked))/    if (false)/
watch-keep-shortens      | compat/stamp/stamp_watch.c | stamps | 5000@3093 | s/end_ms > least_ms ? end_ms : least_ms/end_ms/
watch-fence-by-clock     | compat/stamp/stamp_watch.c | stamps | 5000@448 | s/k->fence >= now_us.hi ? k->fence + 1 : now_us.hi/now_us.hi/
watch-part-is-whole      | compat/stamp/stamp_watch.c | watch-parts | 1000 | s/^    const tl_reply \*wrong = exec->type == .*/    const tl_reply *wrong = NULL;/; s/exec->count != s->exec/false/
watch-lost-exec-is-none  | compat/stamp/stamp.c | watch-late | 2000@45 | s/tl__stamp_watch_reads(s));/true);/
# stamps without scripts
plain-without-cap        | compat/stamp/stamp_plain.c | plain-races | 2000@49 | s/    a->result.deadline = tl__mono_min(a->result.deadline, a->result.proof.cap);//
plain-loser-writes-short | compat/stamp/stamp_plain.c | stamps | 5000@79 | s/(job->ttl_ms > legacy_ms ? job->ttl_ms : legacy_ms)/job->ttl_ms/
plain-getset-is-ours     | compat/stamp/stamp_plain.c | plain-strict | 300 | s/stamp.end_ms == s->read_end_ms \&\& text.n == s->read_n \&\&/stamp.end_ms > 0 ||/
plain-bytes-are-ours     | compat/stamp/stamp_plain.c | plain-same-moment | 600@21 | s/^    if (!tl__stamp_is_free(&job->rules, &stamp, now_ms(job, e)))$/    if (tl__bytes_eq(text, own_stamp(job, s->end_ms, out)))\n        return held(s, job, e, out);\n&/
plain-sent-late          | compat/stamp/stamp_plain.c | plain-sent-late | 2000@25 | s/    s->try.by = tl__mono_min(s->try.by, lag);/    (void)lag;/
plain-late-del           | compat/stamp/stamp_plain.c | stamps | 60000@1488 | s/    if (!tl__mono_before(e->now, deadline))/    if (false)/; s/    if (!has_time_for_del(job, e, deadline))/    if (false)/
plain-del-anybodys       | compat/stamp/stamp_plain.c | stamps | 20000@3897 | s/^    bool same = tl__bytes_eq(text, own_stamp(job, .*$/    bool same = true;/
# phases: leases of clients
phase-lease-unchecked    | compat/auto/protocol_auto.c,protocol/attempt.c | phase-missed | 3000 | s/    if (tl__lease_lasts(lease, e->now))$/    if (lease->until.ns)/; s/    if (a->result.unasked)$/    if (false)/
phase-take-ignores-lease | compat/auto/protocol_auto.c | phase-late-take | 300 | s/TL_PHASE_DRAIN, tl__mono_min(a->until, lease->until),/TL_PHASE_DRAIN, a->until,/
phase-lease-from-receipt | compat/phase/phase.c | phase-late-take | 300@243 | s/^        asked, tl__rate_least_ns/        e->now, tl__rate_least_ns/
phase-older-epoch        | compat/phase/phase.c | phase-undone | 100 | s/    if (known->epoch > read.epoch)/    if (false)/
phase-gone-is-none       | compat/phase/phase.c | phase-vanished | 100 | s/    if (known->epoch > 0 \&\& read.epoch == 0)/    if (false)/; s/    if (known->epoch > read.epoch)/    if (false)/
phase-first-step-early   | compat/scripts/phase.lua | phase-begin | 100@87 | s/^    record = known$/    record = record/; s/math.max(lease, tonumber(ARGV\[6\]))/lease/
phase-record-shrinks     | compat/scripts/phase.lua | phase-begin | 2000@496 | s/^    record = known$/    record = record/
# phases: steps of the tool, which is played by actor_operator.c
phase-step-at-once       | tests/sim/actor_operator.c | phase-deaf | 300 | s/    return seen || !wants_wait;/    return true;/
phase-step-unconfirmed   | tests/sim/actor_operator.c | phase-begin | 100 | s/then most = math.max(most, l) if epoch ~= e then old = old + 1 end /then /; s/not anew and epoch ~= want/false/
phase-step-whatever-epoch | tests/sim/actor_operator.c | phase-rivals | 200 | s/ ~= want then return 'epoch' end / == '' then return 'epoch' end /; s/not anew and epoch ~= want/false/
phase-wait-from-request  | tests/sim/actor_operator.c | phase-deaf | 9000@1560 | s/    o->seen = now;/    o->seen = o->asked;/
phase-step-unreplicated  | tests/sim/actor_operator.c | phase-undone | 500 | s/    if (w->cfg.replicas > 0) { \/\*/    if (false) { \/*/
phase-wait-goes-on       | tests/sim/actor_operator.c | phase-undone-rivals | 200@59 | s/    if (known \&\& same)/    if (known)/
phase-begins-undone      | tests/sim/actor_operator.c | phase-undone-java | 500@39 | s/        stopped\[kind\] = .*/        stopped[kind] = false;/
phase-begin-two-away     | tests/sim/actor_operator.c | phase-begin-anywhere | 100 | s/math.abs(acts - to) > 1/false/
# phases: steps of the tool as it ships
step-not-meant           | tools/migrate/migrate_step.c | tool-stale | 20@40000001 | s/ || meant == s->to || / || true || /
watch-deaf               | tools/migrate/migrate_monitor.c | tool-forgotten | 100 | s/    if (c.words < 2 ||/    if (true || c.words < 2 ||/
EOF
}

flags=(-std=c11 -D_GNU_SOURCE -O1 -w -fPIC -Iinclude -iquote src -iquote compat -iquote tools -DTL_COMPAT=1 -iquote tests/lib -iquote tests/sim)
libs=("$BUILD/tests/sim.a" "$BUILD/tests/lib.a" "$BUILD/tests/tools.a" "$BUILD/libtidelock.a")
read -ra more < <(pkg-config --libs lua5.1 uuid 2>/dev/null || echo -llua5.1 -luuid)
# A protocol that goes by phases brings the whole client with it, and what that is linked to.
for package in hiredis openssl jansson; do
    read -ra found < <(pkg-config --libs "$package" 2>/dev/null) || [[ $package != hiredis ]] || found=(-lhiredis)
    more+=("${found[@]}")
done

mapfile -t observed < <(sed -n 's/^[a-z].*[ *]__wrap_\([a-z_]*\)..*;$/-Wl,--wrap=\1/p' tests/sim/*.c | sort -u)

# The rows of the scripts, as the Makefile makes them.
generate() { # folder with those of src and of compat, file
    local f name
    for f in "$1"/wire/scripts/*.lua "$1"/scripts/*.lua; do
        name=$(basename "$f" .lua)
        awk -v dir="$1/wire/scripts" '/^-- with /{f = dir "/with/" $3 ".lua"; while ((getline line < f) > 0) print line; close(f); next} 1' "$f" |
            sed '/^[[:space:]]*\(--.*\)\{0,1\}$/d' | awk 1 >"$2.$name"
        echo "TL_SCRIPT_ROW($(tr a-z A-Z <<<"$name"), $name,"
        sed 's/[\\"?]/\\&/g; s/^/    "/; s/$/\\n"/' "$2.$name"
        echo "    , \"$(sha1sum <"$2.$name" | cut -c1-40)\")"
    done >"$2"
}

# A run only computes. So what counts is the time of the processor: a busy machine changes nothing. The limit is soft, so
# that 152 tells of it: a hard one kills, as whoever runs out of memory is killed too.
within_limit() { (ulimit -S -t "${LIMIT:-300}" && exec "$@") 2>/dev/null; }

# What the shipped code says of the seed that a row has found. A scenario that doesn't show has to be seen in as many seeds.
unchanged() {
    local seed=${found#seed } first=$first runs=$runs
    if [[ $found != *' does not show: '* ]]; then first=${seed%%:*} runs=1; fi
    SHRINK=0 SCENARIO=$scenario RUNS=$runs SEED=$first within_limit "$dir/unchanged" | grep -am1 '^seed'
}

# Look for a seed in which what is changed fails, and what ships doesn't in the same way: then it sets `found`.
search() {
    local status=0
    out=$(SHRINK=0 SCENARIO=$scenario RUNS=$runs SEED=$first within_limit "$mine/run") || status=$?
    found=$(grep -am1 '^seed' <<<"$out")
    if ((status == 1)) && [[ -n $found && $(unchanged) == "$found" ]]; then status=0; fi
    return $status
}

try() { # name files scenario seeds sed
    local name=$1 files=$2 scenario=$3 seeds=$4 mine=$dir/$1 units=() file from out
    mkdir -p "$mine/wire/scripts/with" "$mine/scripts"
    cp src/wire/scripts/*.lua "$mine/wire/scripts/"
    cp src/wire/scripts/with/*.lua "$mine/wire/scripts/with/"
    cp compat/scripts/*.lua "$mine/scripts/"
    for file in ${files//,/ }; do
        from=src/$file
        [[ $file != compat/* ]] || from=$file file=${file#compat/}
        [[ $file != tests/sim/* ]] || from=$file file=${file#tests/}
        [[ $file != tools/* ]] || from=$file file=${file#tools/}
        mkdir -p "$mine/${file%/*}"
        sed -e "$5" "$from" >"$mine/$file"
        if cmp -s "$from" "$mine/$file"; then
            echo "FAIL  $name: its sed changes nothing in $file"
            return 1
        fi
        if [[ $file == wire/scripts/* || $file == scripts/* ]]; then
            generate "$mine" "$mine/scripts.inc"
            cp src/wire/script.c "$mine/wire/" && file=wire/script.c
        fi
        units+=("$mine/$file")
    done
    "$CC" "${flags[@]}" -iquote "$mine" -iquote "$BUILD/gen" -pie "${units[@]}" "$dir/main.o" "${observed[@]}" "${libs[@]}" "${more[@]}" -pthread -lm -o "$mine/run" || {
        echo "FAIL  $name: doesn't compile"
        return 1
    }
    local first=${seeds#*@} runs=20 status=0 found=
    seeds=${seeds%@*}
    [[ $first == "$seeds" ]] || search || status=$?
    if ((status == 0)); then
        first=1 runs=$seeds
        search || status=$?
    fi
    case $status in
    0) echo "FAIL  $name: not caught in $seeds seeds" && return 1 ;;
    1) [[ -n $found ]] || { echo "FAIL  $name: $out" && return 1; } ;;
    136 | 138 | 139) echo "ok    $name: it crashes" && return 0 ;;
    152) echo "FAIL  $name: not caught in ${LIMIT:-300} s of processor time" && return 1 ;;
    *) echo "FAIL  $name: ended by $status: $out" && return 1 ;;
    esac
    echo "ok    $name: $found"
}

"$CC" "${flags[@]}" -iquote "$BUILD/gen" -c tests/sim/main.c -o "$dir/main.o" || exit 1
"$CC" -pie "$dir/main.o" "${observed[@]}" "${libs[@]}" "${more[@]}" -pthread -lm -o "$dir/unchanged" || exit 1
running=0 row=-1
while IFS='|' read -r name file scenario seeds expr; do
    name=${name// /} file=${file// /} scenario=${scenario// /} seeds=${seeds// /}
    if (($#)) && [[ " $* " != *" $name "* ]]; then continue; fi
    if [[ -n ${EVERY:-} ]]; then
        if [[ $seeds == *@* ]]; then continue; fi
        row=$((row + 1))
        if ((row % EVERY != 0)); then continue; fi
    fi
    if ((running >= JOBS)); then wait -n; running=$((running - 1)); fi
    { try "$name" "$file" "$scenario" "$seeds" "${expr# }" >"$dir/$name.out" 2>&1; } &
    running=$((running + 1))
done < <(rows)
wait
grep -h '^ok' "$dir"/*.out # failures come last, where they are seen
grep -hv "^ok" "$dir"/*.out || :
if [[ -n ${RECORD:-} ]]; then
    sed -n 's/^ok    \([^:]*\): seed \([0-9]*\):.*/\1 \2/p' "$dir"/*.out | while read -r name seed; do
        ((seed < 20)) && seed= || seed=@$seed
        sed -i "s/^\($name *|[^|]*|[^|]*| *[0-9]*\)\(@[0-9]*\)\{0,1\}\( *|\)/\1$seed\3/" tests/sim/mutations.sh
    done
fi
! grep -q '^FAIL' "$dir"/*.out
