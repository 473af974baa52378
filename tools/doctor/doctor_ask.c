/*
 * The doctor's questions. A question that is refused is noted as such. None changes anything, and none asks
 * for what may hold a secret.
 */
#include <stdlib.h>
#include <string.h>

#include "base/moment.h"
#include "doctor/doctor.h"
#include "ground/glob.h"
#include "skew/skew_self.h"
#include "skew/skew_servers.h"

#define WATCH_MS 500 /* for how long the server's clock is watched */
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
    [CONFIG_NO_FSYNC] = "no-appendfsync-on-rewrite",
    [CONFIG_POLICY] = "maxmemory-policy",
    [CONFIG_PORT] = "port",
    [CONFIG_PROTECTED] = "protected-mode",
    [CONFIG_SAVE] = "save",
    [CONFIG_STOP_WRITES] = "stop-writes-on-bgsave-error",
    [CONFIG_TIMEOUT] = "timeout",
};

static void keep_message(char to[DOCTOR_MESSAGE_SIZE], const server_link *link) {
    (void)snprintf(to, DOCTOR_MESSAGE_SIZE, "%s", link->message);
}

/* An error is a reply, too, which can be noted; a connection that fails is none. */
static bool is_refusal(const server_link *link) {
    return link->lacks || strncmp(link->message, "NOPERM", 6) == 0 ||
           strncmp(link->message, "ERR", 3) == 0 || strncmp(link->message, "DENIED", 6) == 0;
}

/* ---- INFO, CONFIG ---------------------------------------------------------------------------- */

static bool take_info(void *ctx, const tl_reply *reply) {
    doctor_facts *facts = ctx;
    tl_bytes text;

    if (!tl__reply_text(reply, &text))
        return false;
    size_t n = text.n < sizeof facts->info - 1 ? text.n : sizeof facts->info - 1;
    memcpy(facts->info, text.p, n);
    facts->info[n] = '\0';
    return true;
}

static bool take_setting(void *ctx, const tl_reply *reply) {
    doctor_setting *setting = ctx;
    tl_bytes text;

    if (reply->type != TL_REPLY_ARRAY)
        return false;
    setting->known = reply->count >= 2 && tl__reply_text(&reply->items[1], &text);
    if (setting->known)
        tl__bytes_print(setting->text, sizeof setting->text, text);
    return true;
}

/* The name before Redis 5; NULL: the same. */
static const char *old_name(int i) {
    return i == CONFIG_MIN_REPLICAS ? "min-slaves-to-write"
           : i == CONFIG_MIN_LAG    ? "min-slaves-max-lag"
                                    : NULL;
}

static void ask_config(server_link *link, doctor_facts *facts) {
    for (int i = 0; i < CONFIGS && !facts->config_why[0]; i++) {
        const char *const request[] = {"CONFIG", "GET", doctor_config_name[i], NULL};
        const char *const again[] = {"CONFIG", "GET", old_name(i), NULL};
        bool ok = link_ask(link, request, take_setting, &facts->config[i]);
        if (ok && !facts->config[i].known && old_name(i))
            ok = link_ask(link, again, take_setting, &facts->config[i]);
        if (!ok)
            keep_message(facts->config_why, link);
        facts->config_lacks = !ok && link->lacks;
    }
}

bool doctor_info_text(const doctor_facts *facts, const char *name, char *to, size_t size) {
    return info_field(tl__bytes_of(facts->info), name, to, size);
}

bool doctor_number(const doctor_facts *facts, int which, int64_t *ret) {
    return facts->config[which].known &&
           tl__bytes_to_int(tl__bytes_of(facts->config[which].text), ret);
}

bool doctor_info(const doctor_facts *facts, const char *name, int64_t *ret) {
    char text[32];

    return doctor_info_text(facts, name, text, sizeof text) &&
           tl__bytes_to_int(tl__bytes_of(text), ret);
}

/* INFO has maxmemory from 3.2 on. */
bool doctor_memory_limit(const doctor_facts *facts, int64_t *ret) {
    return doctor_info(facts, "maxmemory", ret) || doctor_number(facts, CONFIG_MAXMEMORY, ret);
}

bool doctor_policy(const doctor_facts *facts, char to[DOCTOR_POLICY_SIZE]) {
    if (doctor_info_text(facts, "maxmemory_policy", to, DOCTOR_POLICY_SIZE))
        return true;
    (void)snprintf(to, DOCTOR_POLICY_SIZE, "%.60s", facts->config[CONFIG_POLICY].text);
    return facts->config[CONFIG_POLICY].known;
}

bool doctor_evicts_all(const doctor_facts *facts) {
    char policy[DOCTOR_POLICY_SIZE];
    int64_t most;

    return doctor_policy(facts, policy) && strncmp(policy, "allkeys-", 8) == 0 &&
           !(doctor_memory_limit(facts, &most) && most == 0);
}

/* Valkey reports the Redis that it resembles. */
static void learn_version(doctor_facts *facts) {
    char text[32];
    int major = 0, minor = 0, patch = 0;

    if (doctor_info_text(facts, "redis_version", text, sizeof text) &&
        sscanf(text, "%2d.%2d.%2d", &major, &minor, &patch) >= 2)
        facts->version = DOCTOR_VERSION(major, minor, patch);
    (void)info_product(tl__bytes_of(facts->info), facts->product);
}

/* The version by HELLO, which Redis has from 6.0 on: for users that may not ask INFO. */
static bool take_hello(void *ctx, const tl_reply *reply) {
    doctor_facts *facts = ctx;
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
    facts->version = DOCTOR_VERSION(major, minor, patch);
    (void)snprintf(facts->product, sizeof facts->product, "Redis %.20s", text);
    return true;
}

static void ask_hello(server_link *link, doctor_facts *facts) {
    static const char *const hello[] = {"HELLO", NULL};

    (void)link_ask(link, hello, take_hello, facts);
}

/* ---- scripts --------------------------------------------------------------------------------- */

static void ask_script(server_link *link, doctor_facts *facts) {
    static const char *const request[] = {"EVAL", "return 1", "0", NULL};

    facts->script_ok = link_ask(link, request, NULL, NULL);
    facts->engineless = link->engineless;
    if (!facts->script_ok)
        keep_message(facts->script_why, link);
}

/* ---- commands -------------------------------------------------------------------------------- */

static bool take_present(void *ctx, const tl_reply *reply) {
    doctor_can *can = ctx;

    if (reply->type != TL_REPLY_ARRAY || reply->count < 1)
        return false;
    *can = reply->items[0].type == TL_REPLY_ARRAY && reply->items[0].count > 0 ? COMMAND_OK
                                                                               : COMMAND_MISSING;
    return true;
}

/* For servers before 2.8.13, which have no COMMAND. A command without its arguments does nothing, and a
 * server that doesn't know it says so. */
static void try_present(server_link *link, doctor_facts *facts, int i) {
    const doctor_command *command = doctor_command_at(i);
    const char *const request[] = {command->name, NULL};

    if (command->sub || (!command->as && strcmp(command->name, "UNSUBSCRIBE") == 0))
        return;
    (void)link_ask(link, request, NULL, NULL);
    if (link->lacks || link->error || link->ok)
        facts->present[i] = link->lacks ? COMMAND_MISSING : COMMAND_OK;
}

static void ask_present(server_link *link, doctor_facts *facts) {
    const doctor_command *command;
    bool asks = true;

    for (int i = 0; (command = doctor_command_at(i)) && !facts->present_why[0]; i++) {
        const char *const request[] = {"COMMAND", "INFO", command->name, NULL};
        if (command->sub && doctor_before(facts, command->since / 100, command->since % 100, 0))
            facts->present[i] = COMMAND_MISSING;
        else if (asks && !link_ask(link, request, take_present, &facts->present[i])) {
            asks = !(link->lacks && doctor_before(facts, 2, 8, 13));
            if (asks)
                keep_message(facts->present_why, link);
        }
        if (!asks && facts->present[i] == COMMAND_UNSEEN)
            try_present(link, facts, i);
    }
}

/* ---- permissions ----------------------------------------------------------------------------- */

static bool take_name(void *ctx, const tl_reply *reply) {
    doctor_facts *facts = ctx;
    tl_bytes text;

    if (!tl__reply_text(reply, &text) || text.n >= sizeof facts->user)
        return false;
    memcpy(facts->user, text.p, text.n);
    facts->user[text.n] = '\0';
    return true;
}

/* DRYRUN replies OK, or says what would be refused. */
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

/* The flags of a user, for servers before 7.0, which have no DRYRUN. A user that may do all needs no closer
 * look. */
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

static void ask_flags(server_link *link, doctor_facts *facts) {
    const char *const request[] = {"ACL", "GETUSER", facts->user, NULL};
    freedom all = {.channels = doctor_before(facts, 6, 2, 0)}; /* older: no permissions for them */

    if (!link_ask(link, request, take_flags, &all))
        keep_message(facts->allowed_why, link);
    else if (!all.commands || !all.keys || !all.channels)
        (void)snprintf(facts->allowed_why, sizeof facts->allowed_why,
                       "it may not do everything, and %s does not report what", facts->product);
}

typedef struct {
    const char *key, *clients, *slot_register, *inbox;
    char sidecar[DOCTOR_KEY_MOST + 32], line[DOCTOR_KEY_MOST + 40];
} names;

/* The name of a key's sidecar, as the library makes it. */
static void beside(char *to, size_t size, const char *key) {
    const char *open = strchr(key, '{'), *close = open ? strchr(open, '}') : NULL;
    bool tagged = (close && close > open + 1) || strchr(key, '}');

    (void)snprintf(to, size, tagged ? "%s:tidelock" : "tidelock:{%s}", key);
}

static void name_keys(names *to, const doctor_facts *facts) {
    to->key = facts->key ? facts->key : "tidelock:doctor";
    to->clients = facts->clients;
    to->slot_register = facts->slot_register;
    beside(to->sidecar, sizeof to->sidecar, to->key);
    to->inbox = doctor_users(facts) & DOCTOR_TOKEN ? "tidelock:inbox:0" : to->sidecar;
    (void)snprintf(to->line, sizeof to->line, "%s:line", to->sidecar);
}

static const char *word_for(const char *as, const names *names) {
    switch (as[1] ? '\0' : as[0]) {
    case 'K': return names->key;
    case 'S': return names->sidecar;
    case 'L': return names->line;
    case 'F': return "tidelock:fence:{0}"; /* any slot's: one pattern permits all */
    case 'C': return names->clients;
    case 'R': return names->slot_register;
    case 'I': return names->inbox; /* without a queue: the sidecar again */
    default: return as;
    }
}

static void ask_dryruns(server_link *link, doctor_facts *facts) {
    const doctor_command *command;
    names all;

    name_keys(&all, facts);
    for (int i = 0; (command = doctor_command_at(i)) && !facts->allowed_why[0]; i++) {
        const char *request[12] = {"ACL", "DRYRUN", facts->user, command->name, command->sub};
        int n = command->sub ? 5 : 4;
        for (int a = 0; command->as && command->as[a]; a++)
            request[n++] = word_for(command->as[a], &all);
        if (!(command->who & doctor_users(facts)) ||
            doctor_before(facts, command->since / 100, command->since % 100,
                          0)) /* the server doesn't know it yet */
            continue;
        if (link_ask(link, request, take_dryrun, facts->denied[i]))
            facts->allowed[i] = facts->denied[i][0] ? COMMAND_DENIED : COMMAND_OK;
        else if (facts->present[i] != COMMAND_MISSING)
            keep_message(facts->allowed_why, link);
    }
}

static void ask_allowed(server_link *link, doctor_facts *facts) {
    static const char *const whoami[] = {"ACL", "WHOAMI", NULL};

    if (doctor_before(facts, 6, 0, 0)) /* it has no users */
        return;
    if (!link_ask(link, whoami, take_name, facts))
        keep_message(facts->allowed_why, link);
    else if (doctor_before(facts, 7, 0, 0))
        ask_flags(link, facts);
    else
        ask_dryruns(link, facts);
}

/* In 6.0 a user may run every command, or it isn't known which. */
static void ask_flush(server_link *link, doctor_facts *facts) {
    const char *const info[] = {"COMMAND", "INFO", "FLUSHALL", NULL};
    const char *const dryrun[] = {"ACL", "DRYRUN", facts->user, "FLUSHALL", NULL};
    char denied[DOCTOR_MESSAGE_SIZE] = "";

    if (!link_ask(link, info, take_present, &facts->flush) || facts->flush != COMMAND_OK)
        return;
    if (facts->allowed_why[0])
        facts->flush = COMMAND_UNSEEN;
    else if (!doctor_before(facts, 7, 0, 0) &&
             (!link_ask(link, dryrun, take_dryrun, denied) || denied[0]))
        facts->flush = COMMAND_DENIED;
}

/* ---- Sentinels ------------------------------------------------------------------------------- */

static bool take_listeners(void *ctx, const tl_reply *reply) {
    return tl__reply_int(tl__reply_item(reply, 1), ctx);
}

/* Sentinels find each other through a channel of the servers that they watch. */
static void ask_sentinels(server_link *link, doctor_facts *facts) {
    static const char *const request[] = {"PUBSUB", "NUMSUB", "__sentinel__:hello", NULL};

    if (!link_ask(link, request, take_listeners, &facts->sentinels))
        facts->sentinels = 0;
}

/* ---- clocks ---------------------------------------------------------------------------------- */

typedef struct {
    char name[AGENTS_MOST][SKEW_NAME_SIZE];
    int count;
    skew_record record;
    bool sound;
} agents;

static bool take_agents(void *ctx, const tl_reply *reply) {
    agents *agents = ctx;
    tl_bytes text;

    for (size_t i = 0; reply->type == TL_REPLY_ARRAY && i < reply->count; i++) {
        if (agents->count == AGENTS_MOST || !tl__reply_text(&reply->items[i], &text) ||
            text.n >= SKEW_NAME_SIZE)
            continue;
        char *name = agents->name[agents->count];
        memcpy(name, text.p, text.n);
        name[text.n] = '\0';
        agents->count += strlen(name) == text.n && skew_name_ok(name);
    }
    return true;
}

static bool take_record(void *ctx, const tl_reply *reply) {
    agents *agents = ctx;
    tl_bytes text;

    agents->sound = tl__reply_text(reply, &text) &&
                    skew_record_read(text.p, text.n, &agents->record);
    return true;
}

/* Has an agent seen a step of the server's clock? */
static void ask_agents(server_link *link, doctor_facts *facts) {
    static const char *const names[] = {"ZREVRANGE", SKEW_INDEX_KEY, "0", "199", NULL};
    agents *agents = calloc(1, sizeof *agents);

    if (agents && link_ask(link, names, take_agents, agents))
        for (int i = 0; i < agents->count; i++) {
            char key[SKEW_KEY_SIZE];
            skew_record_key(key, agents->name[i]);
            const char *const get[] = {"GET", key, NULL};
            if (link_ask(link, get, take_record, agents) && agents->sound &&
                agents->record.server_stepped_us > facts->agents_step_us)
                facts->agents_step_us = agents->record.server_stepped_us;
        }
    free(agents);
}

static void judge_servers(doctor_facts *facts, const skew_servers *servers, const skew_track *track,
                          int32_t rate) {
    skew_reading now = skew_reading_now();
    tl_interval own = {0, 0};

    if (track->known)
        own = skew_offset(track, now.after, rate);
    facts->more_servers = servers->more;
    for (int i = 1; i < servers->count; i++) {
        if (servers->server[i].twice || servers->server[i].sentinel)
            continue;
        if (facts->servers == DOCTOR_SERVERS)
            facts->more_servers = true;
        else
            skew_server_judge(servers, i, &now, track->known ? &own : NULL, rate,
                              &facts->server[facts->servers++]);
    }
}

static void ask_servers(server_link *link, doctor_facts *facts, const skew_track *track,
                        int32_t rate) {
    skew_servers servers = {.count = 0};

    if (facts->by_cluster) /* the survey has asked all nodes for their clocks */
        return;
    if (skew_servers_begin(&servers, "")) {
        (void)snprintf(facts->servers_why, sizeof facts->servers_why, "out of memory");
        return;
    }
    if (skew_servers_ask(&servers, link, rate))
        judge_servers(facts, &servers, track, rate);
    else
        keep_message(facts->servers_why, link);
    skew_servers_end(&servers);
}

static void ask_clocks(server_link *link, doctor_facts *facts) {
    static const skew_effort effort = {
        .samples = 100000, .for_ms = WATCH_MS, .pause_ms = WATCH_PAUSE_MS};
    skew_track track = {.known = false};
    kernel_clock kernel = moment_kernel();
    int32_t rate = skew_self_rate(&kernel);

    facts->clock_watched = skew_self_measure(link, &track, &effort, rate);
    if (!facts->clock_watched) {
        keep_message(facts->clock_why, link);
        return;
    }
    facts->clock_stepped = track.server_steps > 0;
    facts->now_us = track.stamp_us;
    ask_agents(link, facts);
    ask_servers(link, facts, &track, rate);
}

/* ---- the fencing counter --------------------------------------------------------------------- */

static bool take_counter(void *ctx, const tl_reply *reply) {
    doctor_facts *facts = ctx;
    tl_bytes text;

    facts->counted = 0;
    if (reply->type == TL_REPLY_NIL)
        return true;
    if (!tl__reply_text(reply, &text) || !tl__bytes_to_int(text, &facts->counted) ||
        facts->counted < 0)
        facts->counted = -1;
    return true;
}

/* The counter of the key's slot; without a key it isn't known which counter matters. A counter that another
 * node has, or that this user may not read, is left out: the permissions report the latter. */
static void ask_counter(server_link *link, doctor_facts *facts) {
    const char *const get[] = {"GET", facts->counter, NULL};

    if (!facts->key || !(doctor_users(facts) & (DOCTOR_TOKEN | DOCTOR_STAMP)))
        return;
    tl_slot_tag tag = tl__slot_tag(tl__hash_slot(tl__bytes_of(facts->key)));
    facts->counter[tl__counter(facts->counter, &tag).n] = '\0';
    if (link_ask(link, get, take_counter, facts))
        return;
    if (strncmp(link->message, "WRONGTYPE", 9) == 0)
        facts->counted = -1;
    else
        facts->counter[0] = '\0';
}

static bool take_blessed(void *ctx, const tl_reply *reply) {
    doctor_facts *facts = ctx;
    tl_bytes flag;

    for (size_t i = 0; reply->type == TL_REPLY_ARRAY && i < reply->count; i++)
        facts->blessed = facts->blessed || (tl__reply_text(&reply->items[i], &flag) &&
                                            tl__bytes_eq(flag, TL_LITERAL("NO-EVICT")));
    return reply->type == TL_REPLY_ARRAY;
}

/* A counter that doesn't exist yet, or that this user may not ask about, counts as not kept. */
static void ask_bless(server_link *link, doctor_facts *facts) {
    static const char *const info[] = {"COMMAND", "INFO", "BLESS", NULL};
    const char *const get[] = {"BLESS", "GET", facts->counter, NULL};

    if (!doctor_evicts_all(facts) || !link_ask(link, info, take_present, &facts->bless))
        return;
    if (facts->bless == COMMAND_OK && facts->counter[0])
        (void)link_ask(link, get, take_blessed, facts);
}

/* ---- all questions --------------------------------------------------------------------------- */

bool doctor_ask_info(server_link *link, doctor_facts *facts) {
    static const char *const info[] = {"INFO", NULL};

    if (!link_ask(link, info, take_info, facts)) {
        if (!is_refusal(link))
            return false;
        keep_message(facts->info_why, link);
    }
    learn_version(facts);
    if (facts->version == 0)
        ask_hello(link, facts);
    return true;
}

bool doctor_ask(server_link *link, doctor_facts *facts) {
    facts->no_password = !tl__endpoint_has_password(&link->endpoint) && !link->endpoint.user[0];
    if (!doctor_ask_info(link, facts))
        return false;
    ask_config(link, facts);
    ask_script(link, facts); /* what clients send depends on it */
    ask_present(link, facts);
    ask_allowed(link, facts);
    if (facts->once_per_ms > 0)
        ask_flush(link, facts);
    ask_sentinels(link, facts);
    ask_clocks(link, facts);
    ask_counter(link, facts);
    ask_bless(link, facts);
    return true;
}
