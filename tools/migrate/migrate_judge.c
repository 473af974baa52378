/*
 * The decision. Two neighbouring phases may act at once and never more: so nobody may be left who acts
 * in another than the present one. What a phase can't live beside must be gone before it begins; doubt
 * counts as being there.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/guard.h"
#include "migrate/migrate_judge.h"

/* ---- locks ------------------------------------------------------------------------------------ */

bool migrate_knows(const migrate_view *v, const tl_lock_info *info) {
    for (int i = 0; i < v->clients; i++) {
        const migrate_client *c = &v->client[i];
        if (c->readable && !migrate_client_is_gone(c, v->now_us) && c->pid == info->pid &&
            strcmp(c->host, info->host) == 0 && strcmp(c->service, info->service) == 0)
            return true;
    }
    return false;
}

static migrate_bunch *bunch_of(migrate_locks *l, const migrate_view *v, const tl_lock_info *info) {
    bool stamp = info->protocol == TL_BRIDGE || info->protocol == TL_TIMESTAMP;

    if (!stamp)
        return info->protocol == TL_TOKEN ? &l->tokens : info->oddity[0] ? &l->strays : NULL;
    if (!info->by_tidelock)
        return &l->strays;
    return info->stamp_left_ms > 0 && !migrate_knows(v, info) ? &l->strangers : &l->own;
}

static int64_t left_of(const tl_lock_info *info) {
    if (info->stamp_left_ms != INT64_MIN)
        return info->stamp_left_ms;
    return info->remaining_ms >= 0 ? info->remaining_ms : NEVER_ENDS;
}

static bool is_there(const migrate_bunch *b, const char *shown) {
    for (int64_t i = 0; i < b->count && i < MIGRATE_EXAMPLES; i++)
        if (strcmp(b->example[i].key, shown) == 0)
            return true;
    return false;
}

void migrate_locks_learn(migrate_locks *l, const migrate_view *v, const char *key, size_t key_len,
                         const tl_lock_info *info) {
    migrate_bunch *b = bunch_of(l, v, info);
    char text[KEY_SHOWN];

    if (!b)
        return;
    tl__bytes_print(text, sizeof text, tl__bytes(key, key_len));
    if (is_there(b, text)) /* a scan may tell of a key twice */
        return;
    if (b->count < MIGRATE_EXAMPLES) {
        memcpy(b->example[b->count].key, text, sizeof text);
        b->example[b->count].left_ms = left_of(info);
        if (info->by_tidelock && info->host[0])
            (void)snprintf(b->example[b->count].who, sizeof b->example[0].who,
                           "%.40s on %.60s (pid %lld)", info->service, info->host,
                           (long long)info->pid);
    }
    b->count++;
    b->over += left_of(info) < 0;
}

int64_t migrate_locks_ours(const migrate_locks *l) {
    return l->own.count + l->strangers.count;
}

int64_t migrate_locks_all(const migrate_locks *l) {
    return migrate_locks_ours(l) + l->strays.count + l->tokens.count;
}

static void append(char *buf, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void append(char *buf, size_t size, const char *format, ...) {
    size_t n = strlen(buf);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(buf + n, size - n, format, args);
    va_end(args);
}

const char *migrate_bunch_list(char buf[MIGRATE_LIST_SIZE], const migrate_bunch *b) {
    int shown = b->count < MIGRATE_EXAMPLES ? (int)b->count : MIGRATE_EXAMPLES;
    char left[DURATION_SHOWN];

    buf[0] = '\0';
    for (int i = 0; i < shown; i++) {
        int64_t ms = b->example[i].left_ms;
        if (i > 0 && strlen(buf) > MIGRATE_LIST_SIZE / 2)
            shown = i;
        if (i == shown)
            break;
        append(buf, MIGRATE_LIST_SIZE, "%s%.60s", i ? ", " : "", b->example[i].key);
        if (b->example[i].who[0])
            append(buf, MIGRATE_LIST_SIZE, " by %s", b->example[i].who);
        (void)show_ms(left, ms < 0 ? -ms : ms);
        if (ms == NEVER_ENDS)
            append(buf, MIGRATE_LIST_SIZE, " (has no end)");
        else
            append(buf, MIGRATE_LIST_SIZE, ms < 0 ? " (ended %s ago)" : " (ends in %s)", left);
    }
    if (b->count > shown)
        append(buf, MIGRATE_LIST_SIZE, " and %lld more", (long long)(b->count - shown));
    return buf;
}

/* ---- blockers --------------------------------------------------------------------------------- */

static migrate_blocker *add(migrate_blockers *b) {
    static migrate_blocker spare;

    if (b->count == MIGRATE_BLOCKERS) {
        b->more++;
        return &spare;
    }
    b->item[b->count] = (migrate_blocker){.what = ""};
    return &b->item[b->count++];
}

#define SAY(member, ...) ((void)snprintf((member), sizeof(member), __VA_ARGS__))

/* ---- clients ---------------------------------------------------------------------------------- */

static void unreadable(const migrate_view *v, const migrate_client *c, migrate_blockers *ret) {
    migrate_blocker *b = add(ret);

    SAY(b->what, "a client's record can't be read: '%.60s'", c->text);
    SAY(b->who, "client %s", c->id);
    SAY(b->todo, "end it, then: HDEL tidelock:phase:{%s}:clients %s", v->name, c->id);
}

/* Clients that act by the same epoch, in the same phase. */
typedef struct {
    int64_t epoch, lease_ms, left_ms; /* the longest lease; until the last is gone */
    int phase, count, listed;
    char who[MIGRATE_LIST_SIZE];
} group;

typedef struct {
    group list[MIGRATE_BLOCKERS];
    int count, more; /* clients for whom there is no room */
} groups;

static group *group_of(groups *all, const migrate_client *c) {
    for (int i = 0; i < all->count; i++)
        if (all->list[i].epoch == c->epoch && all->list[i].phase == c->phase)
            return &all->list[i];
    if (all->count == MIGRATE_BLOCKERS)
        return NULL;
    group *g = &all->list[all->count++];
    *g = (group){.epoch = c->epoch, .phase = c->phase};
    return g;
}

static void put_in(groups *all, const migrate_view *v, const migrate_client *c) {
    char who[MIGRATE_WHO_SIZE], ago[DURATION_SHOWN];
    int64_t seen_ms = (v->now_us - c->seen_us) / 1000;
    int64_t left_ms = MIGRATE_LEASES * c->lease_ms - seen_ms;
    group *g = group_of(all, c);

    if (!g) {
        all->more++;
        return;
    }
    g->lease_ms = c->lease_ms > g->lease_ms ? c->lease_ms : g->lease_ms;
    g->left_ms = left_ms > g->left_ms ? left_ms : g->left_ms;
    if (g->count++ > g->listed || strlen(g->who) > sizeof g->who / 2)
        return;
    append(g->who, sizeof g->who, "%s%.150s, seen %s ago", g->listed++ ? "; " : "",
           migrate_client_who(who, c), show_ms(ago, seen_ms > 0 ? seen_ms : 0));
}

static void name_group(const group *g, migrate_blocker *b) {
    SAY(b->who, "%.360s", g->who);
    if (g->count > g->listed)
        append(b->who, sizeof b->who, "; and %d more", g->count - g->listed);
}

/* "a client has", or "3 clients have". */
#define SUBJECT_SIZE 40
static const char *subject(char buf[SUBJECT_SIZE], const group *g, const char *one,
                           const char *several) {
    (void)snprintf(buf, SUBJECT_SIZE, "%d clients %s", g->count, several);
    return g->count == 1 ? one : buf;
}

static void set_back(const migrate_view *v, const group *g, migrate_blocker *b) {
    bool one = g->count == 1;
    char who[SUBJECT_SIZE];

    SAY(b->what, "%s seen epoch %lld, later than the register's %lld, which was set back",
        subject(who, g, "a client has", "have"), (long long)g->epoch, (long long)v->reg.epoch);
    SAY(b->todo,
        "%s refuse%s to lock until that is set right: tidelock migrate init --again --namespace "
        "%s --keys PATTERN --phase %d",
        one ? "it" : "they", one ? "s" : "", v->name, g->phase);
}

static void judge_group(const migrate_view *v, const group *g, migrate_blockers *ret) {
    char third[DURATION_SHOWN], gone[DURATION_SHOWN], who[SUBJECT_SIZE];
    const char *phase = migrate_phase_name(g->phase);
    migrate_blocker *b = add(ret);
    bool one = g->count == 1;

    name_group(g, b);
    if (g->epoch > v->reg.epoch) {
        set_back(v, g, b);
        return;
    }
    b->passes = g->epoch < v->reg.epoch;
    if (g->epoch == 0)
        SAY(b->what, "%s not read the register yet, and act%s in phase %d (%s)",
            subject(who, g, "a client has", "have"), one ? "s" : "", g->phase, phase);
    else if (g->epoch < v->reg.epoch)
        SAY(b->what, "%s not confirmed epoch %lld: %s by %lld, in phase %d (%s)",
            subject(who, g, "a client has", "have"), (long long)v->reg.epoch,
            one ? "it acts" : "they act", (long long)g->epoch, g->phase, phase);
    else
        SAY(b->what, "%s in phase %d (%s), which is not that of epoch %lld",
            subject(who, g, "a client acts", "act"), g->phase, phase, (long long)g->epoch);
    SAY(b->todo, "wait: %s the phase every %s; one that has died is dropped in %s",
        one ? "it reads" : "they read", show_ms(third, g->lease_ms / 3), show_ms(gone, g->left_ms));
}

static void judge_clients(const migrate_view *v, migrate_blockers *ret) {
    groups all = {.count = 0};

    for (int i = 0; i < v->clients; i++) {
        const migrate_client *c = &v->client[i];
        if (!c->readable)
            unreadable(v, c, ret);
        else if (!migrate_client_is_gone(c, v->now_us) &&
                 (c->epoch != v->reg.epoch || c->phase != v->reg.phase))
            put_in(&all, v, c);
    }
    for (int i = 0; i < all.count; i++)
        judge_group(v, &all.list[i], ret);
    ret->more += all.more;
}

bool migrate_passes(const migrate_blockers *b) {
    for (int i = 0; i < b->count; i++)
        if (GUARD(lasting_blocker_ends) && !b->item[i].passes)
            return false;
    return b->more == 0;
}

/* ---- what a phase can't live beside ----------------------------------------------------------- */

static void strays(const migrate_bunch *s, const char *ns, migrate_blockers *ret) {
    migrate_blocker *b = add(ret);

    SAY(b->what, "%lld %s without a sidecar: a legacy client set %s", (long long)s->count,
        s->count == 1 ? "stamp stands" : "stamps stand", s->count == 1 ? "it" : "them");
    (void)migrate_bunch_list(b->who, s);
    if (s->over == s->count)
        SAY(b->todo, "they are over: tidelock migrate sweep --namespace %s", ns);
    else
        SAY(b->todo,
            "end the clients that use these keys; what they leave behind is removed, once it is over, "
            "by: tidelock migrate sweep --namespace %s",
            ns);
}

static void strangers(const migrate_bunch *s, migrate_blockers *ret) {
    migrate_blocker *b = add(ret);

    SAY(b->what, "%lld %s held by tidelock clients that don't follow the phase",
        (long long)s->count, s->count == 1 ? "lock is" : "locks are");
    (void)migrate_bunch_list(b->who, s);
    SAY(b->todo, "let them follow it (--protocol auto, TL_AUTO), or end them");
}

static void stamps(const migrate_locks *l, const char *ns, migrate_blockers *ret) {
    migrate_blocker *b;

    if (l->strays.count > 0)
        strays(&l->strays, ns, ret);
    if (l->strangers.count > 0)
        strangers(&l->strangers, ret);
    if (l->own.count == 0)
        return;
    b = add(ret);
    SAY(b->what, "%lld %s left of tidelock's own", (long long)l->own.count,
        l->own.count == 1 ? "stamp is" : "stamps are");
    (void)migrate_bunch_list(b->who, &l->own);
    if (l->own.over == l->own.count)
        SAY(b->todo, "they are over: tidelock migrate sweep --namespace %s", ns);
    else
        SAY(b->todo, "wait: each becomes a token when its holder renews it, or ends");
    b->passes = l->own.over < l->own.count;
}

static void tokens(const migrate_bunch *t, migrate_blockers *ret) {
    migrate_blocker *b = add(ret);

    SAY(b->what, "%lld %s still a token, at which Java fails", (long long)t->count,
        t->count == 1 ? "key holds" : "keys hold");
    (void)migrate_bunch_list(b->who, t);
    SAY(b->todo, "wait until they are released, or end their holders");
    b->passes = true;
}

/* Nothing that phase `to` can't live beside may be left. */
static void judge_locks(const char *ns, int from, int to, const migrate_locks *l,
                        migrate_blockers *ret) {
    if (from > to && to != PHASE_TIMESTAMP) /* the way back to 1: the tokens go afterwards */
        return;
    if (to == PHASE_BRIDGE)
        return;
    if (!l->whole) {
        migrate_blocker *b = add(ret);
        SAY(b->what, "not all keys could be looked at in time");
        SAY(b->who, "the scan of the namespace's keys");
        SAY(b->todo, "try again when the server is less busy");
    }
    if (to == PHASE_TIMESTAMP && l->tokens.count > 0)
        tokens(&l->tokens, ret);
    if (to == PHASE_DRAIN && l->strays.count > 0)
        strays(&l->strays, ns, ret);
    if (to == PHASE_DRAIN && l->strangers.count > 0)
        strangers(&l->strangers, ret);
    if (to == PHASE_TOKEN)
        stamps(l, ns, ret);
}

/* ---- traffic ---------------------------------------------------------------------------------- */

static void straggler(const migrate_straggler *s, migrate_blockers *ret) {
    migrate_blocker *b = add(ret);

    SAY(b->what, "%s of a legacy client on %s", s->command, s->key);
    SAY(b->who, "%s%s%s%s", s->address, s->name[0] ? " (called " : "", s->name,
        s->name[0] ? ")" : "");
    SAY(b->todo, "end it, or have the server refuse it: tidelock migrate acl");
}

static void judge_traffic(const migrate_traffic *t, migrate_blockers *ret) {
    int64_t unseen = t->calls - t->accounted;

    for (int i = 0; i < t->stragglers; i++)
        straggler(&t->straggler[i], ret);
    ret->more += t->more_stragglers;
    if (t->monitor_whole || t->monitoring || t->stragglers > 0 ||
        (t->counted && (unseen <= 0 || !GUARD(unseen_call_is_doubt))))
        return;
    migrate_blocker *b = add(ret);
    if (t->counted)
        SAY(b->what, "SETNX or GETSET ran %lld times meanwhile, and it is not known on which keys",
            (long long)unseen);
    else
        SAY(b->what, "the server tells no counts of commands, and MONITOR was not read throughout");
    SAY(b->who, "%s", t->suspects[0] ? t->suspects : "unknown");
    SAY(b->todo,
        "%s%sfind out with --monitor as long as --watch, or deny them: tidelock migrate acl",
        t->monitor_why, t->monitor_why[0] ? "; " : "");
}

bool migrate_wants_watch(int from, int to) {
    return from == PHASE_BRIDGE && to == PHASE_DRAIN;
}

/* ---- steps ------------------------------------------------------------------------------------ */

/* Where the clients were by a register that has gone; -1: nobody knows of any. */
static int phase_before(const migrate_view *v) {
    int64_t epoch = 0;
    int phase = -1;

    for (int i = 0; i < v->clients; i++)
        if (v->client[i].readable && v->client[i].epoch > epoch) {
            epoch = v->client[i].epoch;
            phase = v->client[i].phase;
        }
    return phase;
}

static bool has_register(const migrate_view *v, migrate_blockers *ret) {
    if (v->reg.there && v->reg.readable)
        return true;
    static const char init[] = "tidelock migrate init --namespace";
    migrate_blocker *b = add(ret);
    int acts = phase_before(v);
    SAY(b->what, v->reg.there ? "its register can't be read" : "it is not registered");
    SAY(b->who, "namespace %s", v->name);
    if (v->reg.there)
        SAY(b->todo, "look at it: HGETALL tidelock:phase:{%s}", v->name);
    else if (acts >= 0)
        SAY(b->todo, "%s %s --keys PATTERN --phase %d, where its clients were", init, v->name,
            acts);
    else
        SAY(b->todo, "%s %s --keys PATTERN --phase N", init, v->name);
    return false;
}

void migrate_judge(const migrate_view *v, int to, const migrate_locks *locks,
                   const migrate_traffic *traffic, migrate_blockers *ret) {
    *ret = (migrate_blockers){.count = 0};
    if (!has_register(v, ret))
        return;
    if (to < 0 || to >= PHASES || abs(to - v->reg.phase) != 1) {
        migrate_blocker *b = add(ret);
        SAY(b->what, "phase %d (%s) is the %s", v->reg.phase, migrate_phase_name(v->reg.phase),
            to < 0 ? "first: nothing lies before it" : "last: nothing lies behind it");
        SAY(b->who, "namespace %s", v->name);
        SAY(b->todo, "nothing is left to do%s",
            to < 0 ? "" : ": services may be built with TL_TOKEN, and compat/ be deleted");
        return;
    }
    if (GUARD(clients_in_phase))
        judge_clients(v, ret);
    if (GUARD(locks_fit_phase) && locks)
        judge_locks(v->name, v->reg.phase, to, locks, ret);
    if (traffic && migrate_wants_watch(v->reg.phase, to))
        judge_traffic(traffic, ret);
}

static void no_neighbour(const group *g, int phase, migrate_blockers *ret) {
    migrate_blocker *b = add(ret);
    char who[SUBJECT_SIZE];

    SAY(b->what, "%s in phase %d (%s), which is no neighbour of %d (%s)",
        subject(who, g, "a client acts", "act"), g->phase, migrate_phase_name(g->phase), phase,
        migrate_phase_name(phase));
    name_group(g, b);
    SAY(b->todo, "begin in phase %d, or end the client%s", g->phase, g->count == 1 ? "" : "s");
}

void migrate_judge_init(const migrate_view *v, int phase, const migrate_locks *locks,
                        migrate_blockers *ret) {
    groups all = {.count = 0};

    *ret = (migrate_blockers){.count = 0};
    for (int i = 0; i < v->clients; i++) {
        const migrate_client *c = &v->client[i];
        if (!c->readable)
            unreadable(v, c, ret);
        if (!c->readable || migrate_client_is_gone(c, v->now_us) || abs(c->phase - phase) <= 1)
            continue;
        put_in(&all, v, c);
    }
    for (int i = 0; i < all.count; i++)
        no_neighbour(&all.list[i], phase, ret);
    ret->more += all.more;
    if (locks)
        judge_locks(v->name, phase - 1, phase, locks, ret);
}

bool migrate_is_set_back(const migrate_view *v) {
    for (int i = 0; i < v->clients; i++)
        if (v->client[i].readable && !migrate_client_is_gone(&v->client[i], v->now_us) &&
            v->client[i].epoch > v->reg.epoch)
            return true;
    return false;
}

bool migrate_takes_others(const migrate_view *v, const migrate_client *c) {
    return v->reg.readable && c->readable && c->keys[0] && !migrate_client_is_gone(c, v->now_us) &&
           strcmp(c->keys, v->reg.keys) != 0;
}

/* ---- leases ----------------------------------------------------------------------------------- */

int migrate_live_clients(const migrate_view *v) {
    int n = 0;
    for (int i = 0; i < v->clients; i++)
        n += !migrate_client_is_gone(&v->client[i], v->now_us);
    return n;
}

/* Those that are gone count too: they are so by the server's clock, which may have been set. */
int64_t migrate_longest_lease_ms(const migrate_view *v) {
    int64_t most = v->reg.readable ? v->reg.lease_ms : 0;
    for (int i = 0; i < v->clients; i++)
        if (v->client[i].readable && v->client[i].lease_ms > most)
            most = v->client[i].lease_ms;
    return most;
}

bool migrate_wants_wait(const migrate_view *v) {
    int64_t since_ms = (v->now_us - v->reg.since_us) / 1000;
    int clients = GUARD(gone_clients_leases) ? v->clients : migrate_live_clients(v);
    return clients > 0 || since_ms < v->reg.lease_ms + v->reg.lease_ms / 1000 + 1;
}

/* ---- Java ------------------------------------------------------------------------------------- */

const char *migrate_java(char buf[MIGRATE_JAVA_SIZE], const migrate_view *v,
                         const migrate_locks *locks) {
    char left[DURATION_SHOWN];
    int64_t lease_ms = migrate_longest_lease_ms(v), since_ms = (v->now_us - v->reg.since_us) / 1000;

    if (!v->reg.readable)
        (void)snprintf(buf, MIGRATE_JAVA_SIZE, "no register says whether it may run");
    else if (v->reg.phase >= PHASE_DRAIN)
        (void)snprintf(buf, MIGRATE_JAVA_SIZE, "must not run");
    else if (migrate_is_set_back(v))
        (void)snprintf(buf, MIGRATE_JAVA_SIZE,
                       "not yet: clients know a later epoch, and may act in its phase");
    else if (!locks)
        (void)snprintf(buf, MIGRATE_JAVA_SIZE,
                       "not known: this tidelock can't read what it locks by");
    else if (locks->tokens.count > 0)
        (void)snprintf(buf, MIGRATE_JAVA_SIZE, "not yet: %lld %s still a token",
                       (long long)locks->tokens.count,
                       locks->tokens.count == 1 ? "key holds" : "keys hold");
    else if (v->reg.phase == PHASE_BRIDGE && v->reg.from == PHASE_DRAIN && since_ms <= lease_ms)
        (void)snprintf(buf, MIGRATE_JAVA_SIZE, "not yet: clients may act in phase 2 for another %s",
                       show_ms(left, lease_ms - (since_ms > 0 ? since_ms : 0) + 1));
    else if (GUARD(java_after_whole_look) && !locks->whole)
        (void)snprintf(buf, MIGRATE_JAVA_SIZE, "not known: not all keys were looked at in time");
    else
        (void)snprintf(buf, MIGRATE_JAVA_SIZE, "may run");
    return buf;
}
