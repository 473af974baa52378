/*
 * The decision. At most two neighbouring phases may act at once, so no client may be left that acts
 * in another phase than the present one. No lock may be left that is incompatible with a phase
 * before that phase begins; in doubt a lock counts as present.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "ground/guard.h"
#include "migrate/migrate_judge.h"

/* ---- the phase -------------------------------------------------------------------------------- */

int migrate_phase_of(const migrate_view *view) {
    int most = view->by_slots ? migrate_tally_most(&view->slots) : -1;
    return most > view->reg.phase && GUARD(highest_slot_counts) ? most : view->reg.phase;
}

bool migrate_is_whole(const migrate_view *view) {
    int phase = migrate_phase_of(view);
    return !view->by_slots ||
           (view->reg.phase == phase && migrate_tally_in(&view->slots, phase) == TL_SLOTS);
}

int migrate_next_phase(const migrate_view *view) {
    return migrate_phase_of(view) + migrate_is_whole(view);
}

/* May Java run, by the record or by any slot? Then a node that has come back with an old register has brought the
 * others' phase, or this one. Nobody knows which. */
static bool lets_java(const migrate_view *view) {
    const migrate_tally *slots = &view->slots;
    return view->by_slots &&
           (view->reg.phase <= PHASE_BRIDGE ||
            slots->in[PHASE_TIMESTAMP] + slots->in[PHASE_BRIDGE] + slots->absent > 0) &&
           GUARD(contradiction_is_doubt);
}

bool migrate_knows_phase(const migrate_view *view) {
    return view->flaws.count == 0 || !GUARD(phase_of_all_slots);
}

bool migrate_is_left_so(const migrate_register *record, int64_t epoch, int phase, const char *by) {
    char shown[MIGRATE_BY_SIZE]; /* as it is read */

    tl__bytes_print(shown, sizeof shown, tl__bytes_of(by));
    return (record->readable && record->epoch == epoch && record->phase == phase &&
            strcmp(record->by, shown) == 0) ||
           !GUARD(claim_lasts);
}

int migrate_former_phase(const migrate_view *view) {
    int phase = migrate_phase_of(view);
    return phase == PHASE_TOKEN && lets_java(view) ? PHASE_BRIDGE : phase - 1;
}

/* ---- locks ------------------------------------------------------------------------------------ */

bool migrate_knows(const migrate_view *view, const tl_lock_info *info) {
    if (view->by_slots) /* no client registers: stamps of tidelock's are safe in every phase */
        return true;
    for (int i = 0; i < view->clients; i++) {
        const migrate_client *client = &view->client[i];
        if (client->readable && !migrate_client_is_gone(client, view->now_us) &&
            client->pid == info->pid && strcmp(client->host, info->host) == 0 &&
            strcmp(client->service, info->service) == 0)
            return true;
    }
    return false;
}

static migrate_bunch *bunch_of(migrate_locks *locks, const migrate_view *view,
                               const tl_lock_info *info) {
    bool stamp = info->protocol == TL_BRIDGE || info->protocol == TL_TIMESTAMP;

    if (report_other_type(info) ||
        report_is_constant(info)) /* no phase changes what these exclude */
        return NULL;
    if (!stamp)
        return info->protocol == TL_TOKEN ? &locks->tokens
               : info->oddity[0]          ? &locks->strays
                                          : NULL;
    if (!info->by_tidelock)
        return &locks->strays;
    /* Nobody holds a lock that rests. The client that held it has often ended, and left the register. */
    bool held = info->stamp_left_ms > 0 && !info->rests;
    return held && !migrate_knows(view, info) ? &locks->strangers : &locks->own;
}

static int64_t left_of(const tl_lock_info *info) {
    if (info->stamp_left_ms != INT64_MIN)
        return info->stamp_left_ms;
    return info->remaining_ms >= 0 ? info->remaining_ms : NEVER_ENDS;
}

static bool is_there(const migrate_bunch *bunch, const char *shown) {
    for (int64_t i = 0; i < bunch->count && i < MIGRATE_EXAMPLES; i++)
        if (strcmp(bunch->example[i].key, shown) == 0)
            return true;
    return false;
}

void migrate_locks_learn(migrate_locks *locks, const migrate_view *view, const char *key,
                         size_t key_len, const tl_lock_info *info) {
    migrate_bunch *bunch = bunch_of(locks, view, info);
    char text[KEY_SHOWN];

    if (!bunch)
        return;
    tl__bytes_print(text, sizeof text, tl__bytes(key, key_len));
    if (is_there(bunch, text)) /* a scan may return a key twice */
        return;
    if (bunch->count < MIGRATE_EXAMPLES) {
        memcpy(bunch->example[bunch->count].key, text, sizeof text);
        bunch->example[bunch->count].left_ms = left_of(info);
        if (info->by_tidelock && info->host[0])
            (void)snprintf(bunch->example[bunch->count].who, sizeof bunch->example[0].who,
                           "%.40s on %.60s (pid %lld)", info->service, info->host,
                           (long long)info->pid);
    }
    bunch->count++;
    bunch->over += left_of(info) < 0;
}

int64_t migrate_locks_ours(const migrate_locks *locks) {
    return locks->own.count + locks->strangers.count;
}

int64_t migrate_locks_all(const migrate_locks *locks) {
    return migrate_locks_ours(locks) + locks->strays.count + locks->tokens.count;
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

const char *migrate_bunch_list(char buf[MIGRATE_LIST_SIZE], const migrate_bunch *bunch) {
    int shown = bunch->count < MIGRATE_EXAMPLES ? (int)bunch->count : MIGRATE_EXAMPLES;
    char left[DURATION_SHOWN];

    buf[0] = '\0';
    for (int i = 0; i < shown; i++) {
        int64_t ms = bunch->example[i].left_ms;
        if (i > 0 && strlen(buf) > MIGRATE_LIST_SIZE / 2)
            shown = i;
        if (i == shown)
            break;
        append(buf, MIGRATE_LIST_SIZE, "%s%.60s", i ? ", " : "", bunch->example[i].key);
        if (bunch->example[i].who[0])
            append(buf, MIGRATE_LIST_SIZE, " by %s", bunch->example[i].who);
        (void)show_ms(left, ms < 0 ? -ms : ms);
        if (ms == NEVER_ENDS)
            append(buf, MIGRATE_LIST_SIZE, " (has no end)");
        else
            append(buf, MIGRATE_LIST_SIZE, ms < 0 ? " (ended %s ago)" : " (ends in %s)", left);
    }
    if (bunch->count > shown)
        append(buf, MIGRATE_LIST_SIZE, " and %lld more", (long long)(bunch->count - shown));
    return buf;
}

/* ---- blockers --------------------------------------------------------------------------------- */

static migrate_blocker *add(migrate_blockers *blockers) {
    static migrate_blocker spare;

    if (blockers->count == MIGRATE_BLOCKERS) {
        blockers->more++;
        return &spare;
    }
    blockers->item[blockers->count] = (migrate_blocker){.what = ""};
    return &blockers->item[blockers->count++];
}

#define SAY(member, ...) ((void)snprintf((member), sizeof(member), __VA_ARGS__))

/* ---- clients ---------------------------------------------------------------------------------- */

static void unreadable(const migrate_view *view, const migrate_client *client,
                       migrate_blockers *ret) {
    migrate_blocker *blocker = add(ret);

    SAY(blocker->what, "a client's record can't be read: '%.60s'", client->text);
    SAY(blocker->who, "client %s", client->id);
    SAY(blocker->todo, "end it, then: HDEL tidelock:phase:{%s}:clients %s", view->name, client->id);
}

/* Clients that act by the same epoch and phase. */
typedef struct {
    int64_t epoch, lease_ms, left_ms; /* the longest lease; until the last client expires */
    int phase, count, listed;
    char who[MIGRATE_LIST_SIZE];
} group;

typedef struct {
    group list[MIGRATE_BLOCKERS];
    int count, more; /* clients that did not fit */
} groups;

static group *group_of(groups *all, const migrate_client *client) {
    for (int i = 0; i < all->count; i++)
        if (all->list[i].epoch == client->epoch && all->list[i].phase == client->phase)
            return &all->list[i];
    if (all->count == MIGRATE_BLOCKERS)
        return NULL;
    group *added = &all->list[all->count++];
    *added = (group){.epoch = client->epoch, .phase = client->phase};
    return added;
}

static void put_in(groups *all, const migrate_view *view, const migrate_client *client) {
    char who[MIGRATE_WHO_SIZE], ago[DURATION_SHOWN];
    int64_t seen_ms = (view->now_us - client->seen_us) / 1000;
    int64_t left_ms = MIGRATE_LEASES * client->lease_ms - seen_ms;
    group *group = group_of(all, client);

    if (!group) {
        all->more++;
        return;
    }
    group->lease_ms = client->lease_ms > group->lease_ms ? client->lease_ms : group->lease_ms;
    group->left_ms = left_ms > group->left_ms ? left_ms : group->left_ms;
    if (group->count++ > group->listed || strlen(group->who) > sizeof group->who / 2)
        return;
    append(group->who, sizeof group->who, "%s%.150s, seen %s ago", group->listed++ ? "; " : "",
           migrate_client_who(who, client), show_ms(ago, seen_ms > 0 ? seen_ms : 0));
}

static void name_group(const group *group, migrate_blocker *blocker) {
    SAY(blocker->who, "%.360s", group->who);
    if (group->count > group->listed)
        append(blocker->who, sizeof blocker->who, "; and %d more", group->count - group->listed);
}

/* Writes "a client has", or "3 clients have". */
#define SUBJECT_SIZE 40
static const char *subject(char buf[SUBJECT_SIZE], const group *group, const char *one,
                           const char *several) {
    (void)snprintf(buf, SUBJECT_SIZE, "%d clients %s", group->count, several);
    return group->count == 1 ? one : buf;
}

static void set_back(const migrate_view *view, const group *group, migrate_blocker *blocker) {
    bool one = group->count == 1;
    char who[SUBJECT_SIZE];

    SAY(blocker->what, "%s seen epoch %lld, later than the register's %lld, which was set back",
        subject(who, group, "a client has", "have"), (long long)group->epoch,
        (long long)view->reg.epoch);
    SAY(blocker->todo,
        "%s refuse%s to lock until that is repaired: tidelock migrate init --again --namespace %s "
        "--keys PATTERN --phase %d",
        one ? "it" : "they", one ? "s" : "", view->name, group->phase);
}

static void judge_group(const migrate_view *view, const group *group, migrate_blockers *ret) {
    char third[DURATION_SHOWN], gone[DURATION_SHOWN], who[SUBJECT_SIZE];
    const char *phase = migrate_phase_name(group->phase);
    migrate_blocker *blocker = add(ret);
    bool one = group->count == 1;

    name_group(group, blocker);
    if (group->epoch > view->reg.epoch) {
        set_back(view, group, blocker);
        return;
    }
    blocker->passes = group->epoch < view->reg.epoch;
    if (group->epoch == 0)
        SAY(blocker->what, "%s not read the register yet, and act%s in phase %d (%s)",
            subject(who, group, "a client has", "have"), one ? "s" : "", group->phase, phase);
    else if (group->epoch < view->reg.epoch)
        SAY(blocker->what, "%s not confirmed epoch %lld: %s by %lld, in phase %d (%s)",
            subject(who, group, "a client has", "have"), (long long)view->reg.epoch,
            one ? "it acts" : "they act", (long long)group->epoch, group->phase, phase);
    else
        SAY(blocker->what, "%s in phase %d (%s), which is not that of epoch %lld",
            subject(who, group, "a client acts", "act"), group->phase, phase,
            (long long)group->epoch);
    SAY(blocker->todo, "wait: %s the phase every %s; one that has died is dropped in %s",
        one ? "it reads" : "they read", show_ms(third, group->lease_ms / 3),
        show_ms(gone, group->left_ms));
}

static void judge_clients(const migrate_view *view, migrate_blockers *ret) {
    groups all = {.count = 0};

    for (int i = 0; i < view->clients; i++) {
        const migrate_client *client = &view->client[i];
        if (!client->readable)
            unreadable(view, client, ret);
        else if (!migrate_client_is_gone(client, view->now_us) &&
                 (client->epoch != view->reg.epoch || client->phase != view->reg.phase))
            put_in(&all, view, client);
    }
    for (int i = 0; i < all.count; i++)
        judge_group(view, &all.list[i], ret);
    ret->more += all.more;
}

bool migrate_passes(const migrate_blockers *blockers) {
    for (int i = 0; i < blockers->count; i++)
        if (GUARD(lasting_blocker_ends) && !blockers->item[i].passes)
            return false;
    return blockers->more == 0;
}

/* ---- incompatible locks --------------------------------------------------------------------- */

static void strays(const migrate_bunch *bunch, const char *ns, migrate_blockers *ret) {
    migrate_blocker *blocker = add(ret);

    SAY(blocker->what, "%lld %s without a sidecar: a legacy client set %s", (long long)bunch->count,
        bunch->count == 1 ? "stamp stands" : "stamps stand", bunch->count == 1 ? "it" : "them");
    (void)migrate_bunch_list(blocker->who, bunch);
    if (bunch->over == bunch->count)
        SAY(blocker->todo, "remove what has expired: tidelock migrate sweep --namespace %s", ns);
    else
        SAY(blocker->todo,
            "end the clients that use these keys; once their stamps have expired, remove them: "
            "tidelock migrate sweep --namespace %s",
            ns);
}

static void strangers(const migrate_bunch *bunch, migrate_blockers *ret) {
    migrate_blocker *blocker = add(ret);

    SAY(blocker->what, "%lld %s held by tidelock clients that don't follow the phase",
        (long long)bunch->count, bunch->count == 1 ? "lock is" : "locks are");
    (void)migrate_bunch_list(blocker->who, bunch);
    SAY(blocker->todo, "let them follow it (--protocol auto, TL_AUTO), or end them");
}

/* In a cluster no renewal makes a stamp a token, and each stamp of tidelock's ends by itself. */
static void stamps(const migrate_locks *locks, const char *ns, bool by_slots,
                   migrate_blockers *ret) {
    migrate_blocker *blocker;

    if (locks->strays.count > 0)
        strays(&locks->strays, ns, ret);
    if (locks->strangers.count > 0)
        strangers(&locks->strangers, ret);
    if (locks->own.count == 0 || by_slots)
        return;
    blocker = add(ret);
    SAY(blocker->what, "%lld %s left of tidelock's own", (long long)locks->own.count,
        locks->own.count == 1 ? "stamp is" : "stamps are");
    (void)migrate_bunch_list(blocker->who, &locks->own);
    if (locks->own.over == locks->own.count)
        SAY(blocker->todo, "remove what has expired: tidelock migrate sweep --namespace %s", ns);
    else
        SAY(blocker->todo, "wait: each becomes a token when its holder renews it, or ends");
    blocker->passes = locks->own.over < locks->own.count;
}

static void tokens(const migrate_bunch *bunch, migrate_blockers *ret) {
    migrate_blocker *blocker = add(ret);

    SAY(blocker->what, "%lld %s still a token, at which Java fails", (long long)bunch->count,
        bunch->count == 1 ? "key holds" : "keys hold");
    (void)migrate_bunch_list(blocker->who, bunch);
    SAY(blocker->todo, "wait until they are released, or end their holders");
    blocker->passes = true;
}

/* No lock may be left that is incompatible with phase `to`. */
static void judge_locks(const migrate_view *view, int from, int to, const migrate_locks *locks,
                        migrate_blockers *ret) {
    const char *ns = view->name;

    if (from > to && to != PHASE_TIMESTAMP) /* the way back to 1: the tokens end afterwards */
        return;
    if (to == PHASE_BRIDGE)
        return;
    if (!locks->whole) {
        migrate_blocker *blocker = add(ret);
        SAY(blocker->what, "the scan did not reach all keys in time");
        SAY(blocker->who, "the scan of the namespace's keys");
        SAY(blocker->todo, "try again when the server is less busy");
    }
    if (locks->crowded) {
        migrate_blocker *blocker = add(ret);
        SAY(blocker->what, "there are more locks, or patterns of them, than the survey can keep");
        SAY(blocker->who, "what was not read, above");
        SAY(blocker->todo, "look at fewer keys, by --keys");
    }
    if (to == PHASE_TIMESTAMP && locks->tokens.count > 0)
        tokens(&locks->tokens, ret);
    if (to == PHASE_DRAIN && locks->strays.count > 0)
        strays(&locks->strays, ns, ret);
    if (to == PHASE_DRAIN && locks->strangers.count > 0)
        strangers(&locks->strangers, ret);
    if (to == PHASE_TOKEN)
        stamps(locks, ns, view->by_slots, ret);
}

/* ---- traffic ---------------------------------------------------------------------------------- */

bool migrate_denies_all(const migrate_permissions *permissions) {
    return permissions->access == MIGRATE_READ && permissions->users > 0 &&
           permissions->denied == permissions->users;
}

static void straggler(const migrate_straggler *straggler, migrate_blockers *ret) {
    migrate_blocker *blocker = add(ret);

    SAY(blocker->what, "%s of a legacy client on %s", straggler->command, straggler->key);
    SAY(blocker->who, "%s%s%s%s", straggler->address, straggler->name[0] ? " (called " : "",
        straggler->name, straggler->name[0] ? ")" : "");
    SAY(blocker->todo, "end it, or have the server refuse it: tidelock migrate acl");
}

/* Such a client can't lock while it is refused. But it is still there, and MONITOR doesn't show what was refused. */
static void refused(const migrate_traffic *traffic, migrate_blockers *ret) {
    int64_t times = traffic->refused > traffic->denials.count ? traffic->refused
                                                              : traffic->denials.count;
    const char *who = traffic->denials.who[0] ? traffic->denials.who : traffic->suspects;

    if (times <= 0 || !GUARD(refused_call_is_doubt))
        return;
    migrate_blocker *blocker = add(ret);
    SAY(blocker->what,
        "the server refused SETNX or GETSET %lld time%s meanwhile: a client still locks as legacy "
        "clients do",
        (long long)times, migrate_plural(times));
    SAY(blocker->who, "%s", who[0] ? who : "unknown");
    SAY(blocker->todo, "end it; see ACL LOG for names, and INFO commandstats for rejected_calls");
}

static void judge_traffic(const migrate_traffic *traffic, migrate_blockers *ret) {
    int64_t unseen = traffic->calls - traffic->accounted;

    for (int i = 0; i < traffic->stragglers; i++)
        straggler(&traffic->straggler[i], ret);
    ret->more += traffic->more_stragglers;
    refused(traffic, ret);
    if (traffic->monitor_whole || traffic->monitoring || traffic->stragglers > 0 ||
        (traffic->counted && (unseen <= 0 || !GUARD(unseen_call_is_doubt))))
        return;
    migrate_blocker *blocker = add(ret);
    if (traffic->counted)
        SAY(blocker->what,
            "SETNX or GETSET ran %lld time%s meanwhile, and it is not known on which keys",
            (long long)unseen, migrate_plural(unseen));
    else
        SAY(blocker->what, "the server%s, and MONITOR was not read throughout",
            traffic->reset ? "'s counts of commands were reset meanwhile"
                           : " does not count commands");
    SAY(blocker->who, "%s", traffic->suspects[0] ? traffic->suspects : "unknown");
    SAY(blocker->todo,
        "%s%sfind out with --monitor as long as --watch, or deny them: tidelock migrate acl",
        traffic->monitor_why, traffic->monitor_why[0] ? "; " : "");
}

bool migrate_wants_watch(const migrate_view *view, int to) {
    return to >= migrate_phase_of(view) &&
           (to == PHASE_DRAIN || (to == PHASE_TOKEN && lets_java(view)));
}

/* ---- steps ------------------------------------------------------------------------------------ */

/* The phase that clients saw in a register that no longer exists; -1: no client saw one. */
static int phase_before(const migrate_view *view) {
    int64_t epoch = 0;
    int phase = -1;

    for (int i = 0; i < view->clients; i++)
        if (view->client[i].readable && view->client[i].epoch > epoch) {
            epoch = view->client[i].epoch;
            phase = view->client[i].phase;
        }
    return phase;
}

static bool has_register(const migrate_view *view, migrate_blockers *ret) {
    if (view->reg.there && view->reg.readable)
        return true;
    static const char init[] = "tidelock migrate init --namespace";
    migrate_blocker *blocker = add(ret);
    int acts = view->by_slots ? migrate_tally_most(&view->slots) : phase_before(view);
    SAY(blocker->what, view->reg.there ? "its register can't be read" : "it is not registered");
    SAY(blocker->who, "namespace %s", view->name);
    if (view->reg.there)
        SAY(blocker->todo, "to see it: HGETALL tidelock:phase:{%s}", view->name);
    else if (acts >= 0)
        SAY(blocker->todo, "%s %s --keys PATTERN --phase %d, where its clients were", init,
            view->name, acts);
    else
        SAY(blocker->todo, "%s %s --keys PATTERN --phase N", init, view->name);
    return false;
}

static bool is_step(const migrate_view *view, int to) {
    return to == migrate_next_phase(view) || to == migrate_former_phase(view);
}

/* Flaws of the cluster forbid any step. */
static void judge_slots(const migrate_view *view, migrate_blockers *ret) {
    char key[MIGRATE_SLOT_KEY_SIZE];

    for (int i = 0; i < view->flaws.count; i++)
        *add(ret) = view->flaws.item[i];
    ret->more += view->flaws.more;
    if (view->slots.odd == 0)
        return;
    migrate_blocker *blocker = add(ret);
    SAY(blocker->what,
        "the register%s of %d slot%s can't be read, and clients acquire nothing there",
        migrate_plural(view->slots.odd), view->slots.odd, migrate_plural(view->slots.odd));
    SAY(blocker->who, "slot %d", view->slots.example);
    SAY(blocker->todo, "look at it, and then delete it: DEL %s",
        migrate_slot_key(key, view->name, (unsigned)view->slots.example));
}

void migrate_judge(const migrate_view *view, int to, const migrate_locks *locks,
                   const migrate_traffic *traffic, migrate_blockers *ret) {
    *ret = (migrate_blockers){.count = 0};
    if (!has_register(view, ret))
        return;
    if (view->by_slots)
        judge_slots(view, ret);
    if (to >= 0 && to < PHASES && !is_step(view, to)) {
        migrate_blocker *blocker = add(ret);
        SAY(blocker->what, "slots have got other registers meanwhile");
        SAY(blocker->who, "namespace %s", view->name);
        SAY(blocker->todo, "begin again: tidelock migrate status --namespace %s", view->name);
        return;
    }
    if (to < 0 || to >= PHASES) {
        migrate_blocker *blocker = add(ret);
        SAY(blocker->what, "phase %d (%s) is the %s", migrate_phase_of(view),
            migrate_phase_name(migrate_phase_of(view)),
            to < 0 ? "first: there is no phase before it" : "last: there is no phase after it");
        SAY(blocker->who, "namespace %s", view->name);
        SAY(blocker->todo, "nothing is left to do%s",
            to < 0 ? "" : ": services may be built with TL_TOKEN, and compat/ be deleted");
        return;
    }
    if (GUARD(clients_in_phase))
        judge_clients(view, ret);
    if (GUARD(locks_fit_phase) && locks)
        judge_locks(view, migrate_phase_of(view), to, locks, ret);
    if (traffic && migrate_wants_watch(view, to))
        judge_traffic(traffic, ret);
}

static void no_neighbour(const group *group, int phase, migrate_blockers *ret) {
    migrate_blocker *blocker = add(ret);
    char who[SUBJECT_SIZE];

    SAY(blocker->what, "%s in phase %d (%s), which is no neighbour of %d (%s)",
        subject(who, group, "a client acts", "act"), group->phase, migrate_phase_name(group->phase),
        phase, migrate_phase_name(phase));
    name_group(group, blocker);
    SAY(blocker->todo, "begin in phase %d, or end the client%s", group->phase,
        group->count == 1 ? "" : "s");
}

void migrate_judge_init(const migrate_view *view, int phase, const migrate_locks *locks,
                        migrate_blockers *ret) {
    groups all = {.count = 0};

    *ret = (migrate_blockers){.count = 0};
    for (int i = 0; i < view->clients; i++) {
        const migrate_client *client = &view->client[i];
        if (!client->readable)
            unreadable(view, client, ret);
        if (!client->readable || migrate_client_is_gone(client, view->now_us) ||
            abs(client->phase - phase) <= 1)
            continue;
        put_in(&all, view, client);
    }
    for (int i = 0; i < all.count; i++)
        no_neighbour(&all.list[i], phase, ret);
    ret->more += all.more;
    if (view->by_slots)
        judge_slots(view, ret);
    if (locks)
        judge_locks(view, phase - 1, phase, locks, ret);
    /* a record may be lost while a step back waits for them, and status then says that Java may run */
    if (view->by_slots && locks && phase == PHASE_BRIDGE && locks->tokens.count > 0 &&
        GUARD(bridge_begins_without_tokens))
        tokens(&locks->tokens, ret);
}

bool migrate_is_set_back(const migrate_view *view) {
    for (int i = 0; i < view->clients; i++)
        if (view->client[i].readable && !migrate_client_is_gone(&view->client[i], view->now_us) &&
            view->client[i].epoch > view->reg.epoch)
            return true;
    return false;
}

bool migrate_takes_others(const migrate_view *view, const migrate_client *client) {
    char keys[MIGRATE_KEYS_SIZE]; /* as a client's record is read */

    tl__bytes_print(keys, sizeof keys, tl__bytes_of(view->reg.keys));
    return view->reg.readable && client->readable && client->keys[0] &&
           !migrate_client_is_gone(client, view->now_us) && strcmp(client->keys, keys) != 0;
}

/* ---- leases ----------------------------------------------------------------------------------- */

int migrate_live_clients(const migrate_view *view) {
    int n = 0;
    for (int i = 0; i < view->clients; i++)
        n += !migrate_client_is_gone(&view->client[i], view->now_us);
    return n;
}

/* Expired clients count too: they are expired by the server's clock, which may have been set. */
int64_t migrate_longest_lease_ms(const migrate_view *view) {
    int64_t most = view->reg.readable ? view->reg.lease_ms : 0;
    for (int i = 0; i < view->clients; i++)
        if (view->client[i].readable && view->client[i].lease_ms > most)
            most = view->client[i].lease_ms;
    return most;
}

bool migrate_wants_wait(const migrate_view *view) {
    if (view->by_slots) /* the script that acquires judges each acquire by itself */
        return false;
    int64_t since_ms = (view->now_us - view->reg.since_us) / 1000;
    int clients = GUARD(gone_clients_leases) ? view->clients : migrate_live_clients(view);
    return clients > 0 || since_ms < view->reg.lease_ms + view->reg.lease_ms / 1000 + 1;
}

/* ---- Java ------------------------------------------------------------------------------------- */

/* A client that may act in phase 2 or 3 for longer than any other: a register that was made again has no trace of these
 * phases. One whose record can't be read may act for ever. NULL: none. */
static const migrate_client *late_client(const migrate_view *view, int64_t *ret_left_ms) {
    const migrate_client *late = NULL;

    for (int i = 0; i < view->clients; i++) {
        const migrate_client *client = &view->client[i];
        int64_t lease_ms = client->lease_ms + client->lease_ms / 1000 + 1,
                left_ms = !client->readable ? INT64_MAX
                          : client->phase < PHASE_DRAIN
                              ? 0
                              : lease_ms - (view->now_us - client->seen_us) / 1000;
        if (left_ms > (late ? *ret_left_ms : 0)) {
            *ret_left_ms = left_ms;
            late = client;
        }
    }
    return late;
}

/* Writes which client keeps Java from running, if one does. */
static bool waits_for_client(char buf[MIGRATE_JAVA_SIZE], const migrate_view *view) {
    char left[DURATION_SHOWN], who[MIGRATE_WHO_SIZE];
    int64_t left_ms = 0;
    const migrate_client *late = view->by_slots || !GUARD(java_after_late_clients)
                                     ? NULL
                                     : late_client(view, &left_ms);

    if (late && late->readable)
        (void)snprintf(buf, MIGRATE_JAVA_SIZE, "not yet: %.100s may act in phase %d for another %s",
                       migrate_client_who(who, late), late->phase, show_ms(left, left_ms));
    else if (late)
        (void)snprintf(buf, MIGRATE_JAVA_SIZE, "not known: the record of %.100s can't be read",
                       migrate_client_who(who, late));
    return late != NULL;
}

const char *migrate_java(char buf[MIGRATE_JAVA_SIZE], const migrate_view *view,
                         const migrate_locks *locks) {
    char left[DURATION_SHOWN];
    int64_t lease_ms = migrate_longest_lease_ms(view),
            since_ms = (view->now_us - view->reg.since_us) / 1000;

    if (!view->reg.readable)
        (void)snprintf(buf, MIGRATE_JAVA_SIZE, "no register says whether it may run");
    else if (view->by_slots && migrate_tally_most(&view->slots) < view->reg.phase &&
             view->reg.phase == PHASE_DRAIN)
        (void)snprintf(
            buf, MIGRATE_JAVA_SIZE,
            "must not run: the step to phase 1 is not finished, or slots have lost their "
            "registers");
    else if (migrate_phase_of(view) >= PHASE_DRAIN)
        (void)snprintf(buf, MIGRATE_JAVA_SIZE, "must not run%s",
                       view->reg.phase < PHASE_DRAIN
                           ? ": old data has come back, by which clients may write tokens"
                           : "");
    else if (view->slots.odd + view->slots.unread > 0)
        (void)snprintf(buf, MIGRATE_JAVA_SIZE,
                       "not known: the register%s of %d slot%s can't be read",
                       migrate_plural(view->slots.odd + view->slots.unread),
                       view->slots.odd + view->slots.unread,
                       migrate_plural(view->slots.odd + view->slots.unread));
    else if (migrate_is_set_back(view))
        (void)snprintf(buf, MIGRATE_JAVA_SIZE,
                       "not yet: clients know a later epoch, and may act in its phase");
    else if (!locks)
        (void)snprintf(buf, MIGRATE_JAVA_SIZE,
                       "not known: this version of tidelock can't read its record");
    else if (locks->tokens.count > 0)
        (void)snprintf(buf, MIGRATE_JAVA_SIZE, "not yet: %lld %s still a token",
                       (long long)locks->tokens.count,
                       locks->tokens.count == 1 ? "key holds" : "keys hold");
    else if (!view->by_slots && view->reg.phase == PHASE_BRIDGE && view->reg.from == PHASE_DRAIN &&
             since_ms <= lease_ms)
        (void)snprintf(buf, MIGRATE_JAVA_SIZE, "not yet: clients may act in phase 2 for another %s",
                       show_ms(left, lease_ms - (since_ms > 0 ? since_ms : 0) + 1));
    else if (waits_for_client(buf, view))
        return buf;
    else if (GUARD(java_after_whole_look) && !locks->whole)
        (void)snprintf(buf, MIGRATE_JAVA_SIZE,
                       "not known: the scan did not reach all keys in time");
    else
        (void)snprintf(buf, MIGRATE_JAVA_SIZE, "may run");
    return buf;
}
