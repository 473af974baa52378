/*
 * What is asked of the server. A change compares the epoch and sets it in one script, so that of two
 * who would make one the second is refused; it counts once the replicas have it.
 */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "migrate_link.h"

#define WAIT_MS "3000"
#define CLIENTS_MOST 100000
#define SCAN_MOST_MS (10 * 60000)

/* ---- opening ---------------------------------------------------------------------------------- */

static void tell_who(migrate_link *m) {
    struct utsname u;
    // cppcheck-suppress getpwuidCalled ; this program has one thread
    const struct passwd *p = getpwuid(geteuid());
    const char *user = p && p->pw_name && *p->pw_name ? p->pw_name : "?";
    const char *host = uname(&u) == 0 && u.nodename[0] ? u.nodename : "?";

    (void)snprintf(m->by, sizeof m->by, "%.100s@%.200s pid %lld", user, host, (long long)getpid());
    (void)snprintf(m->by_register, sizeof m->by_register, "%.200s %lld %.100s", host,
                   (long long)getpid(), user);
}

typedef struct {
    bool replica;
    int replicas;
    char master[300];
} replication;

/* The value of a line "name:value" of INFO, as a C string. */
static bool info_field(tl_bytes info, const char *name, char *to, size_t size) {
    size_t n = strlen(name);

    for (size_t i = 0; i + n < info.n; i++) {
        if ((i > 0 && info.p[i - 1] != '\n') || memcmp(info.p + i, name, n) != 0 ||
            info.p[i + n] != ':')
            continue;
        size_t from = i + n + 1, len = 0;
        while (from + len < info.n && info.p[from + len] != '\r' && info.p[from + len] != '\n')
            len++;
        tl__bytes_print(to, size, tl__bytes(info.p + from, len));
        return true;
    }
    return false;
}

static bool take_replication(void *ctx, const tl_reply *reply) {
    replication *r = ctx;
    tl_bytes info;
    char role[16] = "", host[200] = "?", port[16] = "?", count[16] = "0";
    int64_t n = 0;

    if (!tl__reply_text(reply, &info))
        return false;
    (void)info_field(info, "role", role, sizeof role);
    (void)info_field(info, "master_host", host, sizeof host);
    (void)info_field(info, "master_port", port, sizeof port);
    (void)info_field(info, "connected_slaves", count, sizeof count);
    (void)tl__bytes_to_int(tl__bytes_of(count), &n);
    r->replica = strcmp(role, "slave") == 0;
    r->replicas = n > 0 && n < 1000 ? (int)n : 0;
    (void)snprintf(r->master, sizeof r->master, "%s:%s", host, port);
    return true;
}

static int find_replicas(migrate_link *m) {
    static const char *const words[] = {"INFO", "replication", NULL};
    replication r = {.replicas = 0};

    if (!skew_link_ask(&m->link, words, take_replication, &r))
        return fail(m->link.status, "migrate: %s", m->link.words);
    if (r.replica)
        return fail(STATUS_UNAVAILABLE,
                    "migrate: this is a replica, whose register may be old: ask its master, %s",
                    r.master);
    m->replicas = r.replicas;
    return 0;
}

int migrate_link_open(migrate_link *m, const server *s, const char *name,
                      const legacy_options *legacy) {
    *m = (migrate_link){.server = s, .name = name, .legacy = legacy};
    (void)migrate_key(m->reg, name, "");
    (void)migrate_key(m->clients, name, ":clients");
    (void)migrate_key(m->log, name, ":log");
    tell_who(m);
    int status = skew_link_open(&m->link, s);
    if (status)
        return status;
    status = find_replicas(m);
    if (status)
        skew_link_close(&m->link);
    return status;
}

void migrate_link_close(migrate_link *m) {
    skew_link_close(&m->link);
}

/* ---- reading ---------------------------------------------------------------------------------- */

static bool take_view(void *ctx, const tl_reply *reply) {
    migrate_view *v = ctx;
    const tl_reply *all = tl__reply_item(reply, 1);
    size_t n = all->count / 2;

    if (reply->type != TL_REPLY_ARRAY || !tl__reply_time(reply, 2, &v->now_us) || n > CLIENTS_MOST)
        return false;
    migrate_register_read(tl__reply_item(reply, 0), &v->reg);
    if (n > 0 && !(v->client = calloc(n, sizeof *v->client)))
        return false;
    for (size_t i = 0; i < n; i++) {
        tl_bytes id, text;
        if (tl__reply_text(&all->items[2 * i], &id) &&
            tl__reply_text(&all->items[2 * i + 1], &text))
            migrate_client_read(id, text, &v->client[v->clients++]);
    }
    return true;
}

int migrate_read(migrate_link *m, migrate_view *v) {
    static const char script[] =
        "local t = redis.call('TIME') "
        "return {redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2]), t[1], t[2]}";
    const char *const words[] = {"EVAL", script, "2", m->reg, m->clients, NULL};

    migrate_view_end(v);
    v->name = m->name;
    if (skew_link_ask(&m->link, words, take_view, v))
        return 0;
    migrate_view_end(v);
    return fail(m->link.status, "migrate: %s", m->link.words);
}

void migrate_view_end(migrate_view *v) {
    free(v->client);
    *v = (migrate_view){.name = v->name};
}

/* ---- changing --------------------------------------------------------------------------------- */

/* ARGV: the epoch that the register must have ('' there must be none), the new phase, by whom, the line
 * for the history, how many leases make a client gone, how long the history may be, keys, lease, the run
 * id of the server that was asked so far, until when (server us) it may be carried out. */
static const char change_script[] =
    "local R, C, L, want, phase = KEYS[1], KEYS[2], KEYS[3], ARGV[1], tonumber(ARGV[2])\n"
    "if redis.replicate_commands then redis.replicate_commands() end\n"
    "redis.call('LTRIM', L, 1 - tonumber(ARGV[6]), -1) -- old servers tell the TIME behind a write only\n"
    "local all, dead, top = redis.call('HGETALL', C), {}, tonumber(want) or 0\n"
    "local r = redis.call('HMGET', R, 'epoch', 'phase')\n"
    "if want == '' and redis.call('EXISTS', R) == 1 or want ~= '' and r[1] ~= want then\n"
    "    return {'epoch', r[1] or '', r[2] or ''}\n"
    "end\n"
    "local info = redis.pcall('INFO', 'server')\n"
    "local id = type(info) == 'string' and string.match(info, 'run_id:(%x+)')\n"
    "if id and (ARGV[9] or '') ~= '' and ARGV[9] ~= id then\n"
    "    return {'server'}\n"
    "end\n"
    "local t = redis.call('TIME')\n"
    "local now = t[1] * 1000000 + t[2]\n"
    "if (ARGV[10] or '') ~= '' and now > tonumber(ARGV[10]) then\n"
    "    return {'late'}\n"
    "end\n"
    "for i = 1, #all, 2 do\n"
    "    local epoch, acts, lease, seen = string.match(all[i + 1], '^(%d+) (%d+) (%d+) (%d+) ')\n"
    "    if not epoch then\n"
    "        return {'client', all[i], all[i + 1]}\n"
    "    end\n"
    "    if now > tonumber(seen) + tonumber(ARGV[5]) * tonumber(lease) * 1000 then\n"
    "        dead[#dead + 1] = all[i]\n"
    "    elseif want == '' and math.abs(acts - phase) > 1 or want ~= '' and epoch ~= want then\n"
    "        return {'client', all[i], all[i + 1]}\n"
    "    end\n"
    "    if want == '' and tonumber(epoch) > top then\n"
    "        top = tonumber(epoch)\n"
    "    end\n"
    "end\n"
    "local function text(n) return string.format('%.0f', n) end\n"
    "redis.call('HMSET', R, 'phase', text(phase), 'epoch', text(top + 1), 'since', text(now), 'by', ARGV[3],\n"
    "           'from', r[2] or '')\n"
    "if want == '' then\n"
    "    redis.call('HMSET', R, 'keys', ARGV[7], 'lease_ms', ARGV[8])\n"
    "end\n"
    "redis.call('RPUSH', L, '{\"at_us\":' .. text(now) .. ',\"to_epoch\":' .. text(top + 1) .. ',' .. ARGV[4])\n"
    "for _, id in ipairs(dead) do\n"
    "    redis.call('HDEL', C, id)\n"
    "end\n"
    "return {'done', text(top + 1)}\n";

/* ARGV: the line, how long the history may be. */
static const char note_script[] =
    "if redis.replicate_commands then redis.replicate_commands() end\n"
    "redis.call('LTRIM', KEYS[2], 1 - tonumber(ARGV[2]), -1)\n"
    "local e, t = redis.call('HGET', KEYS[1], 'epoch') or '0', redis.call('TIME')\n"
    "local at = string.format('%.0f', t[1] * 1000000 + t[2])\n"
    "redis.call('RPUSH', KEYS[2], '{\"at_us\":' .. at .. ',\"to_epoch\":' .. e .. ',' .. ARGV[1])\n"
    "return 1\n";

#define RUN_ID 40
#define STEP_US (WAIT_LONGEST_US + 5000000) /* for the replicas, and for the step itself */
#define WAIT_LONGEST_US 3000000
#define NUMBER_SIZE 24
static const char *number(char buf[NUMBER_SIZE], int64_t v) {
    (void)snprintf(buf, NUMBER_SIZE, "%lld", (long long)v);
    return buf;
}

typedef struct {
    char word[16], first[64], second[400];
} outcome;

static bool take_outcome(void *ctx, const tl_reply *reply) {
    outcome *o = ctx;
    tl_bytes text = {"", 0};

    *o = (outcome){.word = ""};
    if (!tl__reply_text(tl__reply_item(reply, 0), &text))
        return false;
    tl__bytes_print(o->word, sizeof o->word, text);
    if (tl__reply_text(tl__reply_item(reply, 1), &text))
        tl__bytes_print(o->first, sizeof o->first, text);
    if (tl__reply_text(tl__reply_item(reply, 2), &text))
        tl__bytes_print(o->second, sizeof o->second, text);
    return true;
}

static bool take_count(void *ctx, const tl_reply *reply) {
    return tl__reply_int(reply, ctx);
}

/* A failover now would bring the old register back, and clients would refuse to lock. */
static int confirm(migrate_link *m) {
    char count[NUMBER_SIZE];
    const char *const words[] = {"WAIT", number(count, m->replicas), WAIT_MS, NULL};
    int64_t got = 0;

    if (m->replicas == 0)
        return 0;
    if (!skew_link_ask(&m->link, words, take_count, &got))
        return fail(STATUS_UNAVAILABLE,
                    "migrate: changed, but it is not known whether the replicas have it: %s",
                    m->link.words);
    if (got < m->replicas)
        return fail(STATUS_UNAVAILABLE,
                    "migrate: changed, but only %lld of %d replicas have it after 3 s: prevent a "
                    "failover to the others until they have caught up",
                    (long long)got, m->replicas);
    return 0;
}

static bool take_run_id(void *ctx, const tl_reply *reply) {
    static const char mark[] = "run_id:";
    char *id = ctx;
    tl_bytes text = {"", 0};

    (void)tl__reply_text(reply, &text);
    const char *at = text.n ? memmem(text.p, text.n, mark, sizeof mark - 1) : NULL;
    size_t n = 0;
    if (at)
        for (at += sizeof mark - 1; n < RUN_ID && at + n < text.p + text.n; n++)
            id[n] = at[n];
    id[n] = '\0';
    return true;
}

static bool take_time(void *ctx, const tl_reply *reply) {
    return tl__reply_time(reply, 0, ctx);
}

/* The present epoch must not be lost with a failover either: else two operators could each lead from
 * another one, both of the same number. And the step is for the server that has been asked so far, and for
 * now: one that is held up on its way must not come when old clients run again. */
static int settle_present(migrate_link *m, char run_id[RUN_ID + 1], int64_t *ret_not_after) {
    char count[NUMBER_SIZE];
    const char *const info[] = {"INFO", "server", NULL};
    static const char script[] = /* a write, which makes no register where there is none */
        "return redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HINCRBY', KEYS[1], 'epoch', 0)";
    const char *const touch[] = {"EVAL", script, "1", m->reg, NULL};
    const char *const wait[] = {"WAIT", number(count, m->replicas), WAIT_MS, NULL};
    const char *const time[] = {"TIME", NULL};
    int64_t got = 0;

    run_id[0] = '\0';
    (void)skew_link_ask(&m->link, info, take_run_id, run_id);
    if (!skew_link_ask(&m->link, time, take_time, ret_not_after))
        return fail(m->link.status, "migrate: nothing has changed: %s", m->link.words);
    *ret_not_after += STEP_US;
    if (m->replicas == 0)
        return 0;
    if (!skew_link_ask(&m->link, touch, NULL, NULL) ||
        !skew_link_ask(&m->link, wait, take_count, &got))
        return fail(m->link.status, "migrate: nothing has changed: %s", m->link.words);
    if (got < m->replicas)
        return fail(STATUS_UNAVAILABLE,
                    "migrate: nothing has changed: only %lld of %d replicas have the present epoch "
                    "after 3 s",
                    (long long)got, m->replicas);
    return 0;
}

static int refused(const migrate_link *m, const outcome *o) {
    char who[MIGRATE_WHO_SIZE];
    migrate_client c;

    if (strcmp(o->word, "epoch") == 0 && !o->first[0])
        return fail(STATUS_REFUSED, "migrate: refused: the register of namespace %s has vanished",
                    m->name);
    if (strcmp(o->word, "epoch") == 0)
        return fail(STATUS_REFUSED,
                    "migrate: refused: namespace %s has gone to epoch %s, phase %s, meanwhile: "
                    "another operator was faster; see: tidelock migrate status --namespace %s",
                    m->name, o->first, o->second, m->name);
    if (strcmp(o->word, "server") == 0)
        return fail(
            STATUS_UNAVAILABLE,
            "migrate: nothing has changed: another server answers than before; begin again");
    if (strcmp(o->word, "late") == 0)
        return fail(
            STATUS_UNAVAILABLE,
            "migrate: nothing has changed: the step reached the server too late; begin again");
    migrate_client_read(tl__bytes_of(o->first), tl__bytes_of(o->second), &c);
    return fail(STATUS_REFUSED,
                "migrate: refused: a client has come meanwhile that does not act by the present "
                "epoch: %s; try again",
                migrate_client_who(who, &c));
}

int migrate_change_register(migrate_link *m, const migrate_move *move, int64_t *ret_epoch) {
    char epoch[NUMBER_SIZE] = "", phase[NUMBER_SIZE], leases[NUMBER_SIZE], most[NUMBER_SIZE],
         lease[NUMBER_SIZE];
    char run_id[RUN_ID + 1] = "";
    char limit[NUMBER_SIZE] = "";
    int64_t not_after = 0;
    int status = move->epoch > 0 ? settle_present(m, run_id, &not_after) : 0;
    if (status)
        return status;
    char *line = migrate_change_write(move->entry);
    outcome o;

    if (!line)
        return fail(STATUS_INTERNAL, "migrate: out of memory");
    if (move->epoch > 0)
        (void)number(epoch, move->epoch);
    if (not_after > 0)
        (void)number(limit, not_after);
    const char *const words[] = {"EVAL",
                                 change_script,
                                 "3",
                                 m->reg,
                                 m->clients,
                                 m->log,
                                 epoch,
                                 number(phase, move->phase),
                                 m->by_register,
                                 line,
                                 number(leases, MIGRATE_LEASES),
                                 number(most, MIGRATE_LOG_MOST),
                                 move->keys ? move->keys : "",
                                 number(lease, move->lease_ms),
                                 run_id,
                                 limit,
                                 NULL};
    bool ok = skew_link_ask(&m->link, words, take_outcome, &o);
    free(line);
    if (!ok)
        return fail(m->link.status,
                    "migrate: %s; whether the register has changed is shown by: tidelock migrate "
                    "status --namespace %s",
                    m->link.words, m->name);
    if (strcmp(o.word, "done") != 0)
        return refused(m, &o);
    (void)tl__bytes_to_int(tl__bytes_of(o.first), ret_epoch);
    return confirm(m);
}

int migrate_note(migrate_link *m, const migrate_change *entry) {
    char most[NUMBER_SIZE];
    char *line = migrate_change_write(entry);

    if (!line)
        return fail(STATUS_INTERNAL, "migrate: out of memory");
    const char *const words[] = {
        "EVAL", note_script, "2", m->reg, m->log, line, number(most, MIGRATE_LOG_MOST), NULL};
    bool ok = skew_link_ask(&m->link, words, NULL, NULL);
    free(line);
    return ok ? 0 : fail(m->link.status, "migrate: %s", m->link.words);
}

/* ---- the history ------------------------------------------------------------------------------ */

typedef struct {
    void (*each)(void *ctx, const migrate_change *c);
    void *ctx;
} teller;

static bool take_history(void *ctx, const tl_reply *reply) {
    const teller *t = ctx;
    migrate_change c;
    tl_bytes line;

    if (reply->type != TL_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i < reply->count; i++)
        if (tl__reply_text(&reply->items[i], &line) && migrate_change_read(line, &c))
            t->each(t->ctx, &c);
    return true;
}

int migrate_history(migrate_link *m, void (*each)(void *ctx, const migrate_change *c), void *ctx) {
    const char *const words[] = {"LRANGE", m->log, "0", "-1", NULL};
    teller t = {each, ctx};

    if (skew_link_ask(&m->link, words, take_history, &t))
        return 0;
    return fail(m->link.status, "migrate: %s", m->link.words);
}

/* ---- keys ------------------------------------------------------------------------------------- */

int migrate_can_read_stamps(const char *what) {
    tl_dialect_info d = {.size = sizeof d};

    if (tl_dialect_at(0, 0, &d))
        return 0;
    return fail(STATUS_USAGE, "migrate %s: this tidelock was built without what reads stamps",
                what);
}

int migrate_scan(migrate_link *m, const char *keys, bool exact, signals *sigs, tl_found found,
                 void *ctx, bool *ret_whole, int *ret_sig) {
    legacy_options legacy = exact ? *m->legacy : (legacy_options)LEGACY_DEFAULTS;
    int64_t end = moment_ms() + SCAN_MOST_MS;
    uint64_t cursor = 0;
    tl_client *client;
    tl_error err;
    tl_err code = TL_OK;

    legacy.protocol = exact ? TL_BRIDGE : TL_TOKEN;
    int status = server_open(m->server, "migrate", NULL, &legacy, &client);
    if (status)
        return status;
    do {
        code = tl_client_scan(client, keys, &cursor, found, ctx, &err);
        *ret_sig = signals_pause(sigs, 0);
    } while (code == TL_OK && cursor != 0 && !*ret_sig && moment_ms() < end);
    *ret_whole = code == TL_OK && cursor == 0;
    tl_client_close(client);
    return code ? fail(status_of(code), "%s", err.message) : 0;
}

typedef struct {
    migrate_link *m;
    migrate_locks *locks;
    migrate_view *view;
} looker;

static void found_any(const void *key, size_t key_len, const tl_lock_info *info, void *ctx) {
    const looker *l = ctx;
    if (info->by_tidelock && info->stamp_left_ms > 0 && !migrate_knows(l->view, info))
        (void)migrate_read(l->m, l->view);
    migrate_locks_learn(l->locks, l->view, key, key_len, info);
}

/* What only the dialect that was named knows for a stamp: one that never ends. */
static void found_eternal(const void *key, size_t key_len, const tl_lock_info *info, void *ctx) {
    if (info->protocol != TL_TOKEN && info->protocol >= 0 && info->stamp_left_ms == INT64_MIN)
        found_any(key, key_len, info, ctx);
}

int migrate_look(migrate_link *m, migrate_view *v, const char *keys, signals *sigs,
                 migrate_locks *ret, int *ret_sig) {
    looker l = {m, ret, v};
    bool whole = true;

    *ret = (migrate_locks){.whole = false};
    int status = migrate_scan(m, keys, false, sigs, found_any, &l, &ret->whole, ret_sig);
    if (status == 0 && !*ret_sig && m->legacy->dialect)
        status = migrate_scan(m, keys, true, sigs, found_eternal, &l, &whole, ret_sig);
    ret->whole = ret->whole && whole;
    return status;
}
