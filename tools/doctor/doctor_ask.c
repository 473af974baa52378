/*
 * The doctor's questions. Each may be denied, and then that is noted; none changes anything, and what might
 * hold a secret is not asked for.
 */
#include <stdlib.h>
#include <string.h>

#include "base/moment.h"
#include "doctor/doctor.h"
#include "ground/glob.h"
#include "skew/skew_self.h"
#include "skew/skew_servers.h"

#define WATCH_MS 500 /* how long its clock is watched */
#define WATCH_PAUSE_MS 20
#define AGENTS_MOST 200
#define NAME_SIZE 128

const char *const doctor_config_name[CONFIGS] = {
    [CONFIG_APPENDFSYNC] = "appendfsync",
    [CONFIG_BIND] = "bind",
    [CONFIG_KEEPALIVE] = "tcp-keepalive",
    [CONFIG_MAXCLIENTS] = "maxclients",
    [CONFIG_MAXMEMORY] = "maxmemory",
    [CONFIG_MIN_LAG] = "min-replicas-max-lag",
    [CONFIG_MIN_REPLICAS] = "min-replicas-to-write",
    [CONFIG_POLICY] = "maxmemory-policy",
    [CONFIG_PORT] = "port",
    [CONFIG_PROTECTED] = "protected-mode",
    [CONFIG_SAVE] = "save",
    [CONFIG_TIMEOUT] = "timeout",
};

static void keep_message(char to[DOCTOR_MESSAGE_SIZE], const server_link *l) {
    (void)snprintf(to, DOCTOR_MESSAGE_SIZE, "%s", l->message);
}

/* Answers that are errors are words too; a connection that fails is not. */
static bool is_refusal(const server_link *l) {
    return l->lacks || strncmp(l->message, "NOPERM", 6) == 0 ||
           strncmp(l->message, "ERR", 3) == 0 || strncmp(l->message, "DENIED", 6) == 0;
}

/* ---- INFO, CONFIG ----------------------------------------------------------------------------------- */

static bool take_info(void *ctx, const tl_reply *reply) {
    doctor_facts *f = ctx;
    tl_bytes text;

    if (!tl__reply_text(reply, &text))
        return false;
    size_t n = text.n < sizeof f->info - 1 ? text.n : sizeof f->info - 1;
    memcpy(f->info, text.p, n);
    f->info[n] = '\0';
    return true;
}

static bool take_setting(void *ctx, const tl_reply *reply) {
    doctor_setting *s = ctx;
    tl_bytes text;

    if (reply->type != TL_REPLY_ARRAY)
        return false;
    s->known = reply->count >= 2 && tl__reply_text(&reply->items[1], &text);
    if (s->known)
        tl__bytes_print(s->text, sizeof s->text, text);
    return true;
}

/* Names changed with Redis 5. */
static const char *old_name(int i) {
    return i == CONFIG_MIN_REPLICAS ? "min-slaves-to-write"
           : i == CONFIG_MIN_LAG    ? "min-slaves-max-lag"
                                    : NULL;
}

static void ask_config(server_link *l, doctor_facts *f) {
    for (int i = 0; i < CONFIGS && !f->config_why[0]; i++) {
        const char *const request[] = {"CONFIG", "GET", doctor_config_name[i], NULL};
        const char *const again[] = {"CONFIG", "GET", old_name(i), NULL};
        bool ok = link_ask(l, request, take_setting, &f->config[i]);
        if (ok && !f->config[i].known && old_name(i))
            ok = link_ask(l, again, take_setting, &f->config[i]);
        if (!ok)
            keep_message(f->config_why, l);
        f->config_lacks = !ok && l->lacks;
    }
}

bool doctor_info_text(const doctor_facts *f, const char *name, char *to, size_t size) {
    return info_field(tl__bytes_of(f->info), name, to, size);
}

bool doctor_number(const doctor_facts *f, int which, int64_t *ret) {
    return f->config[which].known && tl__bytes_to_int(tl__bytes_of(f->config[which].text), ret);
}

bool doctor_info(const doctor_facts *f, const char *name, int64_t *ret) {
    char text[32];

    return doctor_info_text(f, name, text, sizeof text) &&
           tl__bytes_to_int(tl__bytes_of(text), ret);
}

/* Valkey says which Redis it is like. */
static void learn_version(doctor_facts *f) {
    char text[32];
    int major = 0, minor = 0, patch = 0;

    if (doctor_info_text(f, "redis_version", text, sizeof text) &&
        sscanf(text, "%2d.%2d.%2d", &major, &minor, &patch) >= 2)
        f->version = DOCTOR_VERSION(major, minor, patch);
    (void)info_product(tl__bytes_of(f->info), f->product);
}

/* The version by HELLO, which Redis has from 6.0 on: who may not ask INFO learns it all the same. */
static bool take_hello(void *ctx, const tl_reply *reply) {
    doctor_facts *f = ctx;
    tl_bytes name = {0}, version = {0}, field, value;
    char text[32];
    int major = 0, minor = 0, patch = 0;

    for (size_t i = 0; i + 1 < reply->count && reply->type == TL_REPLY_ARRAY; i += 2) {
        if (!tl__reply_text(&reply->items[i], &field) ||
            !tl__reply_text(&reply->items[i + 1], &value))
            continue;
        if (tl__bytes_eq(field, TL_LITERAL("server")))
            name = value;
        else if (tl__bytes_eq(field, TL_LITERAL("version")))
            version = value;
    }
    tl__bytes_print(text, sizeof text, version);
    if (!tl__bytes_eq(name, TL_LITERAL("redis")) ||
        sscanf(text, "%2d.%2d.%2d", &major, &minor, &patch) < 2)
        return false;
    f->version = DOCTOR_VERSION(major, minor, patch);
    (void)snprintf(f->product, sizeof f->product, "Redis %.20s", text);
    return true;
}

static void ask_hello(server_link *l, doctor_facts *f) {
    static const char *const hello[] = {"HELLO", NULL};

    (void)link_ask(l, hello, take_hello, f);
}

/* ---- commands ----------------------------------------------------------------------------------------- */

static bool take_present(void *ctx, const tl_reply *reply) {
    doctor_can *can = ctx;

    if (reply->type != TL_REPLY_ARRAY || reply->count < 1)
        return false;
    *can = reply->items[0].type == TL_REPLY_ARRAY && reply->items[0].count > 0 ? COMMAND_OK
                                                                               : COMMAND_MISSING;
    return true;
}

/* Before 2.8.13, which has no COMMAND: without the words that it needs a command does nothing, and
 * who doesn't know it says so. */
static void try_present(server_link *l, doctor_facts *f, int i) {
    const doctor_command *c = doctor_command_at(i);
    const char *const request[] = {c->name, NULL};

    if (c->sub || (!c->as && strcmp(c->name, "UNSUBSCRIBE") == 0))
        return;
    (void)link_ask(l, request, NULL, NULL);
    if (l->lacks || l->error || l->ok)
        f->present[i] = l->lacks ? COMMAND_MISSING : COMMAND_OK;
}

static void ask_present(server_link *l, doctor_facts *f) {
    const doctor_command *c;
    bool asks = true;

    for (int i = 0; (c = doctor_command_at(i)) && !f->present_why[0]; i++) {
        const char *const request[] = {"COMMAND", "INFO", c->name, NULL};
        if (c->sub && doctor_before(f, c->since / 100, c->since % 100, 0))
            f->present[i] = COMMAND_MISSING;
        else if (asks && !link_ask(l, request, take_present, &f->present[i])) {
            asks = !(l->lacks && doctor_before(f, 2, 8, 13));
            if (asks)
                keep_message(f->present_why, l);
        }
        if (!asks && f->present[i] == COMMAND_UNSEEN)
            try_present(l, f, i);
    }
}

/* ---- permissions -------------------------------------------------------------------------------------- */

static bool take_name(void *ctx, const tl_reply *reply) {
    doctor_facts *f = ctx;
    tl_bytes text;

    if (!tl__reply_text(reply, &text) || text.n >= sizeof f->user)
        return false;
    memcpy(f->user, text.p, text.n);
    f->user[text.n] = '\0';
    return true;
}

/* DRYRUN says OK, or what would be refused. */
static bool take_dryrun(void *ctx, const tl_reply *reply) {
    char *denied = ctx;
    tl_bytes text;

    if (!tl__reply_text(reply, &text))
        return false;
    denied[0] = '\0';
    if (!tl__bytes_eq(text, TL_LITERAL("OK")))
        tl__bytes_print(denied, DOCTOR_MESSAGE_SIZE, text);
    return true;
}

typedef struct {
    bool commands, keys, channels;
} freedom;

/* Before 7.0, which flags a user has: whoever may do all needs no closer look. */
static bool take_flags(void *ctx, const tl_reply *reply) {
    freedom *all = ctx;
    const tl_reply *flags = tl__reply_item(reply, 1);
    tl_bytes flag;

    for (size_t i = 0; flags->type == TL_REPLY_ARRAY && i < flags->count; i++) {
        if (!tl__reply_text(&flags->items[i], &flag))
            return false;
        all->commands = all->commands || tl__bytes_eq(flag, TL_LITERAL("allcommands"));
        all->keys = all->keys || tl__bytes_eq(flag, TL_LITERAL("allkeys"));
        all->channels = all->channels || tl__bytes_eq(flag, TL_LITERAL("allchannels"));
    }
    return reply->type == TL_REPLY_ARRAY;
}

static void ask_flags(server_link *l, doctor_facts *f) {
    const char *const request[] = {"ACL", "GETUSER", f->user, NULL};
    freedom all = {.channels = doctor_before(f, 6, 2, 0)}; /* which knows none */

    if (!link_ask(l, request, take_flags, &all))
        keep_message(f->allowed_why, l);
    else if (!all.commands || !all.keys || !all.channels)
        (void)snprintf(f->allowed_why, sizeof f->allowed_why,
                       "it may not do everything, and %s does not tell what", f->product);
}

typedef struct {
    const char *key, *clients, *inbox;
    char sidecar[DOCTOR_KEY_MOST + 32], line[DOCTOR_KEY_MOST + 40];
} names;

/* The name beside the key, as the library makes it. */
static void beside(char *to, size_t size, const char *key) {
    const char *open = strchr(key, '{'), *close = open ? strchr(open, '}') : NULL;
    bool tagged = (close && close > open + 1) || strchr(key, '}');

    (void)snprintf(to, size, tagged ? "%s:tidelock" : "tidelock:{%s}", key);
}

static void name_keys(names *to, const doctor_facts *f) {
    to->key = f->key ? f->key : "tidelock:doctor";
    to->clients = f->clients;
    beside(to->sidecar, sizeof to->sidecar, to->key);
    to->inbox = doctor_users(f) & DOCTOR_TOKEN ? "tidelock:inbox:0" : to->sidecar;
    (void)snprintf(to->line, sizeof to->line, "%s:line", to->sidecar);
}

static const char *word_for(const char *as, const names *n) {
    switch (as[1] ? '\0' : as[0]) {
    case 'K': return n->key;
    case 'S': return n->sidecar;
    case 'L': return n->line;
    case 'F': return "tidelock:fence:{0}"; /* a pattern is for those of all slots */
    case 'C': return n->clients;
    case 'I': return n->inbox; /* where others stand in no line, the channel again */
    default: return as;
    }
}

static void ask_dryruns(server_link *l, doctor_facts *f) {
    const doctor_command *c;
    names all;

    name_keys(&all, f);
    for (int i = 0; (c = doctor_command_at(i)) && !f->allowed_why[0]; i++) {
        const char *request[12] = {"ACL", "DRYRUN", f->user, c->name, c->sub};
        int n = c->sub ? 5 : 4;
        for (int a = 0; c->as && c->as[a]; a++)
            request[n++] = word_for(c->as[a], &all);
        if (!(c->who & doctor_users(f)) ||
            doctor_before(f, c->since / 100, c->since % 100, 0)) /* which it doesn't know */
            continue;
        if (link_ask(l, request, take_dryrun, f->denied[i]))
            f->allowed[i] = f->denied[i][0] ? COMMAND_DENIED : COMMAND_OK;
        else if (f->present[i] != COMMAND_MISSING)
            keep_message(f->allowed_why, l);
    }
}

static void ask_allowed(server_link *l, doctor_facts *f) {
    static const char *const whoami[] = {"ACL", "WHOAMI", NULL};

    if (doctor_before(f, 6, 0, 0)) /* which has no users */
        return;
    if (!link_ask(l, whoami, take_name, f))
        keep_message(f->allowed_why, l);
    else if (doctor_before(f, 7, 0, 0))
        ask_flags(l, f);
    else
        ask_dryruns(l, f);
}

/* ---- Sentinels ---------------------------------------------------------------------------------------- */

static bool take_listeners(void *ctx, const tl_reply *reply) {
    return tl__reply_int(tl__reply_item(reply, 1), ctx);
}

/* They tell each other of themselves through the servers that they watch. */
static void ask_sentinels(server_link *l, doctor_facts *f) {
    static const char *const request[] = {"PUBSUB", "NUMSUB", "__sentinel__:hello", NULL};

    if (!link_ask(l, request, take_listeners, &f->sentinels))
        f->sentinels = 0;
}

/* ---- scripts ------------------------------------------------------------------------------------------- */

static void ask_script(server_link *l, doctor_facts *f) {
    static const char *const request[] = {"EVAL", "return 1", "0", NULL};

    f->script_ok = link_ask(l, request, NULL, NULL);
    if (!f->script_ok)
        keep_message(f->script_why, l);
}

/* ---- clocks -------------------------------------------------------------------------------------------- */

typedef struct {
    char name[AGENTS_MOST][SKEW_NAME_SIZE];
    int count;
    skew_record record;
    bool sound;
} agents;

static bool take_agents(void *ctx, const tl_reply *reply) {
    agents *a = ctx;
    tl_bytes text;

    for (size_t i = 0; reply->type == TL_REPLY_ARRAY && i < reply->count; i++) {
        if (a->count == AGENTS_MOST || !tl__reply_text(&reply->items[i], &text) ||
            text.n >= SKEW_NAME_SIZE)
            continue;
        char *name = a->name[a->count];
        memcpy(name, text.p, text.n);
        name[text.n] = '\0';
        a->count += strlen(name) == text.n && skew_name_ok(name);
    }
    return true;
}

static bool take_record(void *ctx, const tl_reply *reply) {
    agents *a = ctx;
    tl_bytes text;

    a->sound = tl__reply_text(reply, &text) && skew_record_read(text.p, text.n, &a->record);
    return true;
}

/* Has any agent seen the server's clock being set? */
static void ask_agents(server_link *l, doctor_facts *f) {
    static const char *const names[] = {"ZREVRANGE", SKEW_INDEX_KEY, "0", "199", NULL};
    agents *a = calloc(1, sizeof *a);

    if (a && link_ask(l, names, take_agents, a))
        for (int i = 0; i < a->count; i++) {
            char key[SKEW_KEY_SIZE];
            skew_record_key(key, a->name[i]);
            const char *const get[] = {"GET", key, NULL};
            if (link_ask(l, get, take_record, a) && a->sound &&
                a->record.server_stepped_us > f->agents_step_us)
                f->agents_step_us = a->record.server_stepped_us;
        }
    free(a);
}

static void judge_servers(doctor_facts *f, const skew_servers *s, const skew_track *track,
                          int32_t rate) {
    skew_reading now = skew_reading_now();
    tl_interval own = {0, 0};

    if (track->known)
        own = skew_offset(track, now.after, rate);
    for (int i = 1; i < s->count && f->servers < DOCTOR_SERVERS; i++)
        if (!s->server[i].twice && !s->server[i].sentinel)
            skew_server_judge(s, i, &now, track->known ? &own : NULL, rate,
                              &f->server[f->servers++]);
}

static void ask_servers(server_link *l, doctor_facts *f, const skew_track *track, int32_t rate) {
    skew_servers s = {.count = 0};

    if (f->by_cluster) /* whose nodes have been asked, all of them once */
        return;
    if (skew_servers_begin(&s, "")) {
        (void)snprintf(f->servers_why, sizeof f->servers_why, "out of memory");
        return;
    }
    if (skew_servers_ask(&s, l, rate))
        judge_servers(f, &s, track, rate);
    else
        keep_message(f->servers_why, l);
    skew_servers_end(&s);
}

static void ask_clocks(server_link *l, doctor_facts *f) {
    static const skew_effort effort = {
        .samples = 100000, .for_ms = WATCH_MS, .pause_ms = WATCH_PAUSE_MS};
    skew_track track = {.known = false};
    kernel_clock kernel = moment_kernel();
    int32_t rate = skew_self_rate(&kernel);

    f->clock_watched = skew_self_measure(l, &track, &effort, rate);
    if (!f->clock_watched) {
        keep_message(f->clock_why, l);
        return;
    }
    f->clock_stepped = track.server_steps > 0;
    f->now_us = track.stamp_us;
    ask_agents(l, f);
    ask_servers(l, f, &track, rate);
}

/* ---- the fencing counter ------------------------------------------------------------------------------ */

static bool take_counter(void *ctx, const tl_reply *reply) {
    doctor_facts *f = ctx;
    tl_bytes text;

    f->counted = 0;
    if (reply->type == TL_REPLY_NIL)
        return true;
    if (!tl__reply_text(reply, &text) || !tl__bytes_to_int(text, &f->counted) || f->counted < 0)
        f->counted = -1;
    return true;
}

/* Of one key, since nobody knows the others. Another node's, or one that may not be read, is left out: what may not be read,
 * the permissions tell. */
static void ask_counter(server_link *l, doctor_facts *f) {
    const char *const get[] = {"GET", f->counter, NULL};

    if (!f->key || !(doctor_users(f) & (DOCTOR_TOKEN | DOCTOR_STAMP)))
        return;
    tl_slot_tag tag = tl__slot_tag(tl__hash_slot(tl__bytes_of(f->key)));
    f->counter[tl__counter(f->counter, &tag).n] = '\0';
    if (link_ask(l, get, take_counter, f))
        return;
    if (strncmp(l->message, "WRONGTYPE", 9) == 0)
        f->counted = -1;
    else
        f->counter[0] = '\0';
}

/* ---- all of it ------------------------------------------------------------------------------------------ */

bool doctor_ask_info(server_link *l, doctor_facts *f) {
    static const char *const info[] = {"INFO", NULL};

    if (!link_ask(l, info, take_info, f)) {
        if (!is_refusal(l))
            return false;
        keep_message(f->info_why, l);
    }
    learn_version(f);
    if (f->version == 0)
        ask_hello(l, f);
    return true;
}

bool doctor_ask(server_link *l, doctor_facts *f) {
    f->no_password = !tl__endpoint_has_password(&l->endpoint) && !l->endpoint.user[0];
    if (!doctor_ask_info(l, f))
        return false;
    ask_config(l, f);
    ask_present(l, f);
    ask_allowed(l, f);
    ask_sentinels(l, f);
    ask_script(l, f);
    ask_clocks(l, f);
    ask_counter(l, f);
    return true;
}
