/*
 * Renewing and releasing a lock on etcd, and the functions that its machines share. An error means "not
 * executed" only if it proves that.
 */
#include "protocol/etcd.h"

#include <stdio.h>

#include "ground/guard.h"
#include "protocol/look.h"
#include "wire/rest.h"

#define BASE (INT64_C(1) << 60)         /* suffixes have 16 digits; leases stay below 2^63 */
#define REST_AHEAD (INT64_C(1) << 61)   /* so leases of rests are above those of all holds */
#define RESTING "resting 1 "            /* etcd tells no time: the 1 stands for that of the rest */
#define US INT64_C(1000)                /* ns */
#define LEASE_USUAL (UINT64_C(1) << 48) /* etcd numbers leases by a member, the time and a count */

/* ---- identities and leases ------------------------------------------------------------------- */

static void write_suffix(tl_etcd_id *id) {
    (void)snprintf(id->suffix, sizeof id->suffix, "%llx", (unsigned long long)id->base);
}

tl_etcd_id tl__etcd_id_draw(uint64_t random) {
    tl_etcd_id id = {.base = BASE + (int64_t)(random % (uint64_t)BASE)};
    write_suffix(&id);
    return id;
}

bool tl__etcd_id_read(tl_etcd_id *ret, const tl_token *token) {
    tl_bytes revision = tl__bytes_of(token->text), suffix = tl__bytes_take(&revision, '.');
    uint64_t base;
    if (suffix.n >= TL_ETCD_SUFFIX_SIZE || !tl__bytes_to_uint(suffix, 16, &base) ||
        (int64_t)base < BASE || (int64_t)base >= 2 * BASE)
        return false;
    *ret = (tl_etcd_id){.base = (int64_t)base};
    write_suffix(ret);
    return tl__bytes_to_int(revision, &ret->revision) && ret->revision > 0;
}

tl_token tl__etcd_token(const tl_etcd_id *id) {
    tl_token token = {""};
    (void)snprintf(token.text, sizeof token.text, "%s.%lld", id->suffix, (long long)id->revision);
    return token;
}

tl_bytes tl__etcd_topic(char room[TL_ETCD_TOPIC_MAX], tl_bytes key, const tl_token *token) {
    tl_etcd_id id;
    if (!tl__etcd_id_read(&id, token))
        return (tl_bytes){0};
    size_t n = (size_t)snprintf(room, TL_ETCD_TOPIC_MAX, "%lld ", (long long)id.revision);
    size_t suffix = strlen(id.suffix);
    if (n + key.n + 1 + suffix > TL_ETCD_TOPIC_MAX)
        return (tl_bytes){0};
    memcpy(room + n, key.p, key.n);
    room[n + key.n] = '/';
    memcpy(room + n + key.n + 1, id.suffix, suffix);
    return tl__bytes(room, n + key.n + 1 + suffix);
}

tl_bytes tl__etcd_topic_key(tl_bytes topic) {
    const char *space = memchr(topic.p, ' ', topic.n), *slash = memrchr(topic.p, '/', topic.n);
    return space && slash && slash > space ? tl__bytes(space + 1, (size_t)(slash - space - 1))
                                           : (tl_bytes){0};
}

int64_t tl__etcd_lease(const tl_etcd_id *id, int64_t ahead, tl_mono now) {
    return tl__add_sat(id->base + GUARD(lease_grows_with_time) * (now.ns / US), ahead);
}

int64_t tl__etcd_ahead(const tl_etcd_id *id, int64_t lease, tl_mono now) {
    /* Lease numbers of other clients may have any value. */
    int64_t above = GUARD(above_higher_lease) && lease > 0 ? tl__add_sat(lease, 1) : 0;
    int64_t ahead = above - tl__etcd_lease(id, 0, now);
    return ahead > 0 ? ahead : 0;
}

/* A hold's lease may be that of all renewals that it was joined with, which is at most 2 * BASE and the time. */
int64_t tl__etcd_rest_lease(const tl_etcd_id *id) {
    return id->base + GUARD(rest_above_renewals) * REST_AHEAD;
}

/* ---- requests -------------------------------------------------------------------------------- */

void tl__etcd_add(tl_send *send, tl_bytes argument) {
    tl__try_add(&send->command[send->count - 1], argument);
}

void tl__etcd_add_int(tl_send *send, int64_t v, tl_out *out) {
    tl__etcd_add(send, tl__out_int(out, v));
}

void tl__etcd_say(tl_send *send, tl_bytes word, tl_bytes key, tl_bytes suffix) {
    tl_command *command = tl__try_command(send);
    TL_ADD(command, word, key, suffix);
}

void tl__etcd_grant(tl_send *send, int64_t lease, int64_t ttl_ms, tl_out *out) {
    tl_command *command = tl__try_command(send);
    TL_ADD(command, TL_LITERAL("GRANT"), tl__out_int(out, lease),
           tl__out_int(out, (ttl_ms + 999) / 1000));
}

void tl__etcd_see(tl_send *send, tl_bytes key, int64_t most, int64_t more, tl_out *out) {
    tl__etcd_say(send, TL_LITERAL("SEE"), key, tl__out_int(out, most));
    tl__etcd_add_int(send, more, out);
}

void tl__etcd_revoke(tl_send *send, int64_t lease, tl_out *out) {
    tl_command *command = tl__try_command(send);
    TL_ADD(command, TL_LITERAL("REVOKE"), tl__out_int(out, lease));
}

/* ---- replies --------------------------------------------------------------------------------- */

/* gRPC's codes */
enum {
    INVALID = 3,
    NOT_FOUND = 5,
    DENIED = 7,
    EXHAUSTED = 8,
    PRECONDITION = 9,
    RANGE = 11,
    UNKNOWN = 16
};

static bool is_without_space(tl_bytes error) {
    tl_bytes message;
    return tl__etcd_error(error, &message) == EXHAUSTED &&
           tl__bytes_has(message, "database space exceeded");
}

tl_err tl__etcd_refusal(tl_bytes error, tl_out *out) {
    tl_bytes message;
    int code = tl__etcd_error(error, &message);
    if (GUARD(refusal_says_why))
        tl__out_message(out, message);
    if (!tl__etcd_is_definite(code))
        return TL_EUNCERTAIN;
    bool nobody = code == INVALID && tl__bytes_has(message, "user name is empty");
    if (nobody)
        tl__out_message(out, TL_LITERAL("etcd wants a user and a password"));
    if (GUARD(nospace_is_explained) && is_without_space(error))
        tl__out_message(
            out,
            TL_LITERAL("etcd has no space left (NOSPACE), and grants and renews no lock: compact "
                       "and defragment it, then disarm the alarm"));
    return code == DENIED || nobody ? TL_EDENIED : code == INVALID ? TL_ESERVER : TL_EUNAVAILABLE;
}

/* etcd executes the put that crosses its quota, and reports this error all the same. From then on it executes no
 * put and grants no lease. So only a request that was granted no lease for this reason has certainly put nothing. */
tl_err tl__etcd_refusal_of_put(tl_bytes error, const tl_reply *grant, tl_out *out) {
    tl_err code = tl__etcd_refusal(error, out);
    bool granted = !grant || grant->type != TL_REPLY_ERROR || !is_without_space(grant->text);
    return is_without_space(error) && granted && GUARD(nospace_may_be_done) ? TL_EUNCERTAIN : code;
}

static const tl_reply *response_of(const tl_reply *transaction, size_t i) {
    return tl__reply_item(transaction, TL_ETCD_RESPONSES + i);
}

bool tl__etcd_find(const tl_reply *transaction, size_t response, size_t i, tl_etcd_found *ret) {
    const tl_reply *key = tl__reply_item(response_of(transaction, response), i + 1);
    return tl__reply_text(tl__reply_item(key, TL_ETCD_KEY), &ret->key) &&
           tl__reply_text(tl__reply_item(key, TL_ETCD_VALUE), &ret->value) &&
           tl__reply_int(tl__reply_item(key, TL_ETCD_CREATED), &ret->created) &&
           tl__reply_int(tl__reply_item(key, TL_ETCD_CHANGED), &ret->changed) &&
           tl__reply_int(tl__reply_item(key, TL_ETCD_LEASE), &ret->lease) && ret->created > 0;
}

static bool tells_leases(const tl_reply *transaction, size_t response) {
    tl_etcd_found one;
    for (size_t i = 0; tl__etcd_find(transaction, response, i, &one); i++)
        if (one.lease != 0)
            return true;
    return false;
}

bool tl__etcd_find_name(const tl_reply *transaction, size_t response, size_t i,
                        tl_etcd_found *ret) {
    bool found = tl__etcd_find(transaction, response, i, ret);
    if (found && GUARD(lease_may_be_left_out) && !tells_leases(transaction, response))
        ret->lease = TL_ETCD_NO_LEASE_KNOWN;
    return found;
}

int64_t tl__etcd_count(const tl_reply *transaction, size_t response) {
    int64_t n;
    return tl__reply_int(tl__reply_item(response_of(transaction, response), 0), &n) ? n : 0;
}

/* ---- what a key of a range is ---------------------------------------------------------------- */

tl_bytes tl__etcd_suffix_of(tl_bytes key, tl_bytes k) {
    if (key.n <= k.n + 1 || memcmp(key.p, k.p, k.n) != 0 || key.p[k.n] != '/')
        return (tl_bytes){0};
    return tl__bytes(key.p + k.n + 1, key.n - k.n - 1);
}

/* The number in hexadecimal, as "%x" writes it; 0: it is none. */
static uint64_t number_of(tl_bytes text) {
    uint64_t v;
    bool is = text.n > 0 && text.n < TL_ETCD_SUFFIX_SIZE && text.p[0] != '0';
    return is && tl__bytes_to_uint(text, 16, &v) ? v : 0;
}

static bool is_owner(tl_bytes value) {
    char host[TL_LOOK_HOST], service[TL_LOOK_SERVICE];
    int64_t pid = 0;
    tl__look_owner(value, host, &pid, service);
    return pid > 0;
}

bool tl__etcd_is_ours(tl_bytes k, const tl_etcd_found *found) {
    uint64_t number = number_of(tl__etcd_suffix_of(found->key, k));
    return number >= (uint64_t)BASE && number < 2 * (uint64_t)BASE && found->lease >= BASE &&
           is_owner(found->value);
}

/* If a token of etcd's Mutex was adopted, its key is under a tidelock lease by now, and has no value. Numbers of
 * leases are great: a small one in the name of a key whose lease isn't known is others' data. */
bool tl__etcd_contends(tl_bytes k, const tl_etcd_found *found) {
    uint64_t number = number_of(tl__etcd_suffix_of(found->key, k));
    bool named = found->lease == TL_ETCD_NO_LEASE_KNOWN && number >= LEASE_USUAL;
    bool by_mutex = number != 0 && (number == (uint64_t)found->lease || named);
    bool adopted = number >= (uint64_t)BASE && number < 2 * (uint64_t)BASE &&
                   found->lease >= BASE && found->value.n == 0;
    return by_mutex || adopted || tl__etcd_is_ours(k, found) || !GUARD(only_contenders_hold);
}

bool tl__etcd_rests(tl_bytes k, const tl_etcd_found *found, tl_bytes *ret_owner) {
    uint64_t number = number_of(tl__etcd_suffix_of(found->key, k));
    int64_t since;
    *ret_owner = (tl_bytes){0};
    (void)tl__rest_read(found->value, &since, ret_owner);
    return number >= (uint64_t)BASE && number < 2 * (uint64_t)BASE &&
           found->lease == tl__etcd_rest_lease(&(tl_etcd_id){.base = (int64_t)number});
}

tl_bytes tl__etcd_lock_of(const tl_etcd_found *found) {
    const char *slash = memrchr(found->key.p, '/', found->key.n);
    size_t n = slash ? (size_t)(slash - found->key.p) : 0;
    tl_bytes k = tl__bytes(found->key.p, n);
    return n > 0 && n <= TL_KEY_MAX && tl__etcd_contends(k, found) ? k : (tl_bytes){0};
}

void tl__etcd_obstacle(char to[TL_ETCD_OBSTACLE], tl_bytes k, const tl_etcd_found *found) {
    static const char lock[] = "blocked by another lock below this name: ",
                      key[] = "blocked by a key that is no contender: ";
    tl_bytes other = tl__etcd_lock_of(found);
    bool of_lock = GUARD(token_is_not_told) && other.n > k.n;
    size_t n = (of_lock ? sizeof lock : sizeof key) - 1;
    memcpy(to, of_lock ? lock : key, n);
    tl__bytes_print(to + n, TL_ETCD_OBSTACLE - n, of_lock ? other : found->key);
}

bool tl__etcd_succeeded(const tl_reply *transaction) {
    int64_t n;
    return tl__reply_int(tl__reply_item(transaction, TL_ETCD_SUCCEEDED), &n) && n == 1;
}

int64_t tl__etcd_revision(const tl_reply *transaction) {
    int64_t n;
    return tl__reply_int(tl__reply_item(transaction, TL_ETCD_REVISION), &n) && n > 0 ? n : 0;
}

tl_mono tl__etcd_deadline(tl_mono asked, int64_t ttl_ms, int32_t drift_ppm) {
    return tl__mono_add_ns(
        asked, tl__rate_least_ns(ttl_ms * TL_NS_PER_MS, GUARD(lease_less_drift) * drift_ppm));
}

bool tl__etcd_is_worth(const tl_spare_lease *spare, tl_mono now, int32_t drift_ppm) {
    int64_t whole_ns = tl__rate_least_ns(spare->ttl_ms * TL_NS_PER_MS, drift_ppm);
    return spare->lease != 0 &&
           (tl__ns_until(now, spare->deadline) / 2 >= whole_ns / 3 || !GUARD(spare_lasts_long));
}

/* ---- renewing and releasing ------------------------------------------------------------------ */

typedef struct {
    tl_try try; /* first */
    tl_etcd_id id;
    int64_t ahead;
    int64_t changed; /* the revision of the key's last change; 0: not known for certain */
    uint8_t rounds;  /* renewals that met a lease higher than theirs */
    bool looks;      /* a release that has deleted nothing: it asks whose the lock is */
} attempt;

_Static_assert(sizeof(attempt) <= TL_ATTEMPT_SIZE, "room for an attempt");

#define ROUNDS_MAX 3

/* The lease of the renewal in flight, unless it is joined with others. */
static int64_t lease_of(const attempt *one) {
    return tl__etcd_lease(&one->id, one->ahead, one->try.asked);
}

static void send_renewal(attempt *one, const tl_job *job, tl_send *send, tl_out *out) {
    int64_t ms = job->ttl_ms > job->renew.least_ms || !GUARD(extension_keeps_most)
                     ? job->ttl_ms
                     : job->renew.least_ms;
    int64_t lease = lease_of(one);
    /* Without space (NOSPACE) etcd rejects this, and the lock is lost by its deadline; a release needs no
     * space. A keep-alive needs no space, but isn't safe: a former leader that knew the lease and wakes revokes
     * it, though its successor kept it alive. The reply to GRANT doesn't prove that the present leader granted
     * it. And a renewal that went unanswered may yet put the key under a lease that ends sooner, as no higher
     * one follows it. Either would be a lock held twice. */
    tl__etcd_grant(send, lease, ms, out);
    tl__etcd_say(send, TL_LITERAL("KEEP"), job->key, tl__bytes_of(one->id.suffix));
    tl__etcd_add_int(send, one->id.revision, out);
    tl__etcd_add_int(send, lease, out);
    tl__etcd_add_int(send, one->changed, out);
    send->command[0].each = TL_ETCD_KEEPS_EACH;
    send->command[0].alike = (uint32_t)((ms + 999) / 1000);
}

/* The former lease expires by itself. If it were revoked here, and etcd executed that alone, the lock would be
 * free. A repeated request may find that the lease exists: its time counts from the first one. */
static void send_rest(attempt *one, const tl_job *job, const tl_event *event, tl_send *send,
                      tl_out *out) {
    int64_t lease = tl__etcd_rest_lease(&one->id);
    tl__etcd_grant(send, lease, tl__job_rest_ms(job, event->now, event->server->drift_ppm), out);
    tl__etcd_say(send, TL_LITERAL("REST"), job->key, tl__bytes_of(one->id.suffix));
    tl__etcd_add_int(send, one->id.revision, out);
    tl__etcd_add_int(send, lease, out);
    tl__etcd_add(send, tl__out_copy(out, TL_LITERAL(RESTING), job->owner));
}

static void send_release(attempt *one, const tl_job *job, tl_send *send, tl_out *out) {
    tl__etcd_say(send, TL_LITERAL("FREE"), job->key, tl__bytes_of(one->id.suffix));
    tl__etcd_add_int(send, one->id.revision, out);
    tl__etcd_add_int(send, tl__etcd_rest_lease(&one->id), out);
}

static void send_revocation(const tl_job *job, tl_send *send, tl_out *out) {
    const tl_etcd_proof known = tl__proof_etcd(&job->hold.proof);
    if (known.lease != 0 && (!known.spared || !GUARD(spared_not_revoked)) &&
        (job->release.revoke || job->again) && GUARD(unused_is_revoked))
        tl__etcd_revoke(send, known.lease, out);
}

static tl_status ask(attempt *one, const tl_job *job, const tl_event *event, tl_out *out) {
    tl_send *send = tl__out_send(out, one->try.ticket, one->try.by);
    one->try.asked = event->now;
    if (one->try.result.op == TL_RENEW)
        send_renewal(one, job, send, out);
    else if (one->try.resting)
        send_rest(one, job, event, send, out);
    else if (one->looks)
        tl__etcd_see(send, job->key, 1, 1, out);
    else
        send_release(one, job, send, out);
    if (one->try.result.op == TL_RELEASE && (!one->try.resting || !GUARD(rest_revokes_nothing)))
        send_revocation(job, send, out);
    return TL_GO;
}

/* A release compares, although no other client has the suffix: another handle that adopted the token may have
 * let the lock rest, and etcd's own Mutex has one key for each lease, for one hold after the other. To know whose
 * the lock is would cost the server more: it asks that only if it has deleted nothing.
 *
 * A joined renewal may have the lease number of another hold, higher than the next leases of this hold. If it
 * came after one of these, it would put the key under a lease that ends before the holder's deadline. So it
 * compares when the key was changed last. Where that isn't known the key is renewed alone, under a lease of
 * its own. */
static tl_status send_first(tl_try *trial, const tl_job *job, const tl_event *event, tl_out *out) {
    attempt *one = (attempt *)trial;
    const tl_etcd_proof known = tl__proof_etcd(&job->hold.proof);
    one->ahead = known.ahead;
    one->changed = job->again && !GUARD(joins_what_is_known) ? 0 : known.changed;
    trial->alone = GUARD(joins_what_is_known) && one->changed == 0;
    trial->resting = trial->result.op == TL_RELEASE &&
                     tl__job_rest_ms(job, event->now, event->server->drift_ppm) > 0;
    if (!tl__etcd_id_read(&one->id, &job->token)) /* of another kind of server: no key has it */
        one->id = (tl_etcd_id){.suffix = "none", .base = BASE, .revision = 1};
    return ask(one, job, event, out);
}

/* The transaction's error decides: if its lease was not granted, the transaction fails, too. grant: the reply to
 * the GRANT before it; NULL: it puts no key. */
static tl_status refused_by(tl_try *attempt, const tl_event *event, tl_bytes error,
                            const tl_reply *grant, tl_out *out) {
    attempt->result.code = grant ? tl__etcd_refusal_of_put(error, grant, out)
                                 : tl__etcd_refusal(error, out);
    attempt->result.maybe = attempt->result.code == TL_EUNCERTAIN;
    attempt->result.harmless = attempt->result.maybe ? TL_NEVER : event->now;
    if (attempt->result.maybe)
        tl__out_place(out, event->replied.place); /* the caller does so for the other codes */
    return TL_END;
}

/* If the reply to GRANT has no lifetime, the transaction may still have found the lease, but its lifetime is
 * unknown. */
int64_t tl__etcd_granted_ms(const tl_reply *grant, int64_t ttl_ms) {
    int64_t s;
    if (grant->type != TL_REPLY_INT || !tl__reply_int(grant, &s) || s <= 0)
        return GUARD(untold_is_nothing) ? 0 : ttl_ms;
    bool less = GUARD(own_lease_only) && s < (ttl_ms + 999) / 1000;
    /* The lease may have more than was asked for. */
    return less || !GUARD(no_more_than_asked) ? s * 1000 : ttl_ms;
}

static const tl_reply *last(const tl_event *event) {
    return &event->replied.reply[event->replied.count - 1];
}

/* Another client or an earlier request of ours has renewed the key. Or a key that this renewal was joined
 * with no longer exists. Ask again with a higher lease, and the last time alone. */
static tl_status again(attempt *one, const tl_job *job, const tl_event *event,
                       const tl_etcd_found *mine, tl_out *out) {
    static const char message[] = "another request renewed the key meanwhile";
    one->ahead = tl__etcd_ahead(&one->id, mine->lease, event->now);
    one->changed = mine->changed;
    one->try.alone = ++one->rounds == ROUNDS_MAX - 1 && GUARD(alone_in_the_end);
    if (one->rounds == ROUNDS_MAX || !tl__mono_before(event->now, one->try.by))
        return tl__try_fail(&one->try, TL_EUNAVAILABLE, false, TL_LITERAL(message), out);
    return ask(one, job, event, out);
}

/* The key exists under this lease. The reply to a joined renewal says which one that is. */
static void prove(attempt *one, const tl_job *job, const tl_event *event) {
    tl_proof *proof = &one->try.result.proof;
    int64_t joined;
    bool is_joined = tl__reply_int(tl__reply_item(last(event), TL_ETCD_JOINED), &joined);
    *proof = job->hold.proof;
    proof->kind = TL_PROOF_ETCD;
    proof->etcd = (tl_etcd_proof){.lease = GUARD(joined_not_spared) && is_joined ? 0
                                                                                 : lease_of(one),
                                  .ahead = GUARD(above_joined_lease) && is_joined
                                               ? tl__etcd_ahead(&one->id, joined, event->now)
                                               : one->ahead,
                                  .changed = tl__etcd_revision(last(event))};
}

/* Our key doesn't exist. 0: the first key, which this response of the reply has, is another's contender. -1:
 * there is none, or it is no contender. */
static int64_t whose(const tl_job *job, const tl_reply *answer, size_t response) {
    tl_etcd_found first;
    return GUARD(says_another_holds) && tl__etcd_find(answer, response, 0, &first) &&
                   tl__etcd_contends(job->key, &first)
               ? 0
               : -1;
}

/* The key no longer exists. The reply to a joined renewal doesn't say whether others do. */
static tl_status gone(attempt *one, const tl_job *job, const tl_event *event, tl_out *out) {
    return tl__try_not_renewed(&one->try, whose(job, last(event), 1), out);
}

static tl_status renewed(attempt *one, const tl_job *job, const tl_event *event, tl_out *out) {
    static const char message[] = "etcd did not report the lease's lifetime";
    tl_etcd_found mine;
    int64_t ms = tl__etcd_granted_ms(event->replied.reply, job->ttl_ms);
    if (tl__etcd_succeeded(last(event)) && ms == 0)
        return tl__try_fail(&one->try, TL_EUNAVAILABLE, true, TL_LITERAL(message), out);
    if (tl__etcd_succeeded(last(event))) {
        prove(one, job, event);
        return tl__try_held(&one->try, job, event, ms, (uint64_t)one->id.revision, out);
    }
    if (!tl__etcd_find(last(event), 0, 0, &mine))
        return gone(one, job, event, out);
    bool rests = mine.lease == tl__etcd_rest_lease(&one->id) && GUARD(rest_is_no_hold);
    return mine.created == one->id.revision && !rests ? again(one, job, event, &mine, out)
                                                      : tl__try_not_renewed(&one->try, 0, out);
}

/* Where it rests already, an earlier request did that, and the lease is the same. */
static tl_status rested(attempt *one, const tl_job *job, const tl_event *event, tl_out *out) {
    return tl__etcd_succeeded(last(event))
               ? tl__try_rested(&one->try, job, event, out)
               : tl__try_not_released(&one->try, whose(job, last(event), 1), out);
}

/* The first reply decides. It doesn't matter whether the lease was revoked, too: no key is under it. */
static tl_status released(attempt *one, const tl_job *job, const tl_event *event, tl_out *out) {
    if (!one->looks && tl__etcd_succeeded(event->replied.reply))
        return TL_END;
    if (!one->looks && tl__mono_before(event->now, one->try.by)) {
        one->looks = true;
        return ask(one, job, event, out);
    }
    return tl__try_not_released(&one->try, whose(job, event->replied.reply, 0), out);
}

/* Of a renewal and of a rest the second reply decides: if the lease fails, so does the transaction. */
static tl_status answered(tl_try *trial, const tl_job *job, const tl_event *event, tl_out *out) {
    attempt *one = (attempt *)trial;
    bool renews = trial->result.op == TL_RENEW, grants = renews || trial->resting;
    if (event->replied.count < 1 || event->replied.count > 2 ||
        (grants && event->replied.count != 2))
        return tl__try_malformed(trial, out);
    const tl_reply *decides = grants ? last(event) : event->replied.reply;
    if (decides->type == TL_REPLY_ERROR)
        return refused_by(trial, event, decides->text, grants ? event->replied.reply : NULL, out);
    if (decides->type != TL_REPLY_ARRAY || tl__etcd_revision(decides) == 0)
        return tl__try_malformed(trial, out);
    return renews           ? renewed(one, job, event, out)
           : trial->resting ? rested(one, job, event, out)
                            : released(one, job, event, out);
}

const tl_protocol tl__protocol_etcd = {.name = "etcd",
                                       .size = sizeof(attempt),
                                       .id = TL_TOKEN,
                                       .send = send_first,
                                       .answered = answered,
                                       .refused = answered};
