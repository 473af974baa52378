/*
 * Inside the fake server: shared by fake_*.c and nobody else.
 */
#pragma once

#include "fake_redis.h"

#define FAKE_DATABASES 16
#define FAKE_NEVER INT64_MIN
#define FAKE_ROWS_MAX 120
#define FAKE_SHA_SIZE 41 /**< 40 digits and a NUL */

/* ---- fake_store.c: dictionaries and the keyspace --------------------------------------------- */

void *fake__alloc(void *old, size_t size); /**< realloc that aborts */

typedef struct {
    char *p;
    size_t n, room;
} fake_text;

void fake__text_set(fake_text *to, tl_bytes from);
void fake__text_free(fake_text *text);
static inline tl_bytes fake__text(const fake_text *text) {
    return tl__bytes(text->p, text->n);
}

typedef struct fake_object fake_object;

typedef struct {
    uint64_t hash;
    char *key; /**< NULL: removed */
    size_t key_n;
    union {
        fake_text text;
        double score;
        fake_object *object;
        uint32_t number;
    } v;
} fake_entry;

/** In order of insertion. Entries move when one is added. */
typedef struct {
    fake_entry *entry;
    uint32_t *index; /**< entry number + 1, open addressing; NULL while room is small */
    uint32_t used, room, live, slots;
} fake_dict;

fake_entry *fake__dict_find(const fake_dict *dict, tl_bytes key);
/** Find, or add with an empty value. */
fake_entry *fake__dict_add(fake_dict *dict, tl_bytes key, bool *ret_added);
/** The value must be cleared before. */
void fake__dict_remove(fake_dict *dict, fake_entry *entry);
void fake__dict_free(fake_dict *dict);
static inline tl_bytes fake__key(const fake_entry *entry) {
    return tl__bytes(entry->key, entry->key_n);
}
/** Visit the entries: for (i = 0; (entry = fake__dict_next(dict, &i));) */
static inline fake_entry *fake__dict_next(const fake_dict *dict, uint32_t *i) {
    while (*i < dict->used) {
        fake_entry *entry = &dict->entry[(*i)++];
        if (entry->key) {
            return entry;
        }
    }
    return NULL;
}

typedef enum { FAKE_STRING, FAKE_HASH, FAKE_SET, FAKE_ZSET, FAKE_LIST } fake_type;

typedef struct {
    double score;
    tl_bytes member; /**< the dictionary's copy */
} fake_rank;

struct fake_object {
    int64_t expire_ms;
    fake_type type;
    fake_text text;
    fake_dict dict;  /**< HASH: field -> text; SET; ZSET: member -> score; LIST: number -> text */
    uint64_t pushed; /**< LIST: so far */
    fake_rank *rank; /**< ZSET: by score, then by bytes */
    size_t rank_room;
};

/** A key's value; NULL when absent or expired, and then an expired one is deleted. */
fake_object *fake__find(fake_redis *r, int db, tl_bytes key);
/** The same before a write: below 2.2 it deletes a key that has a TTL. */
fake_object *fake__find_write(fake_redis *r, int db, tl_bytes key);
/** The key with an empty value of the type and no TTL, whatever it was before. */
fake_object *fake__put(fake_redis *r, int db, tl_bytes key, fake_type type);
/** Its event is "del". */
bool fake__remove(fake_redis *r, int db, tl_bytes key);
/** Tell watchers, and count the write. */
void fake__touched(fake_redis *r, int db, tl_bytes key);
const char *fake__type_name(const fake_object *object); /**< NULL: "none" */
void fake__clear(fake_redis *r, int db);
void fake__copy_data(fake_redis *to, const fake_redis *from);
/** Not expired now, without deleting. */
const fake_object *fake__look(const fake_redis *r, int db, tl_bytes key);
void fake__hash_clear(fake_dict *dict); /**< free the texts, then the dictionary */

/* ---- fake_reply.c: arenas, and replies in them ----------------------------------------------- */

typedef struct fake_chunk {
    struct fake_chunk *next;
    size_t room, used;
    _Alignas(16) char bytes[];
} fake_chunk;

typedef struct {
    fake_chunk *first, *at;
} fake_arena;

typedef struct {
    fake_chunk *at;
    size_t used;
} fake_mark;

void *fake__arena_get(fake_arena *arena, size_t size);
tl_bytes fake__arena_copy(fake_arena *arena, tl_bytes from);
fake_mark fake__arena_mark(fake_arena *arena);
void fake__arena_back(fake_arena *arena, fake_mark mark);
void fake__arena_reset(fake_arena *arena);
void fake__arena_free(fake_arena *arena);

void fake__nil(tl_reply *out);
void fake__int(tl_reply *out, int64_t v);
void fake__static(tl_reply *out, tl_reply_type type, tl_bytes text); /**< not copied */
#define fake__status(out, text) fake__static(out, TL_REPLY_STATUS, TL_LITERAL(text))
#define fake__error(out, text) fake__static(out, TL_REPLY_ERROR, TL_LITERAL(text))
#define fake__ok(out) fake__status(out, "OK")
#define fake__syntax(out) fake__error(out, "ERR syntax error")
#define fake__not_an_integer(out) fake__error(out, "ERR value is not an integer or out of range")
#define fake__wrong_type(out)                                                                      \
    fake__error(out, "WRONGTYPE Operation against a key holding the wrong kind of value")
void fake__string(fake_conn *c, tl_reply *out, tl_bytes text); /**< copied */
void fake__errorf(fake_conn *c, tl_reply *out, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void fake__arity(fake_conn *c, tl_reply *out, const char *name);
/** n items, all NIL. */
tl_reply *fake__array(fake_conn *c, tl_reply *out, size_t n);
void fake__double(fake_conn *c, tl_reply *out, double v);

/** Redis' own strict rules: no sign but minus, no leading zero, no blank. */
bool fake__to_int(tl_bytes text, int64_t *ret);
bool fake__to_double(tl_bytes text, double *ret);
tl_bytes fake__print_int(char *buffer, int64_t v); /**< buffer of TL_INT_SIZE */
bool fake__is(tl_bytes text, const char *word);    /**< any case; word in lower case */

/* ---- fake_redis.c, fake_process.c: the server and the way of a command ----------------------- */

enum {
    FAKE_WRITE = 1 << 0,
    FAKE_DENY_OOM = 1 << 1,
    FAKE_NO_SCRIPT = 1 << 2,
    FAKE_LOADING = 1 << 3,  /**< may run while loading */
    FAKE_NO_AUTH = 1 << 4,  /**< may run before AUTH */
    FAKE_RANDOM = 1 << 5,   /**< differs from run to run: TIME, SCAN */
    FAKE_AT_ONCE = 1 << 6,  /**< never queued by MULTI */
    FAKE_PUBSUB = 1 << 7,   /**< may run while subscribed */
    FAKE_EXPIRES = 1 << 8,  /**< replicated with its absolute time */
    FAKE_NO_MULTI = 1 << 9, /**< not in a transaction */
    FAKE_ENDS_MULTI = 1 << 10,
    FAKE_PARENT = 1 << 11,      /**< has subcommands */
    FAKE_READ = 1 << 12,        /**< reads keys, and writes none */
    FAKE_KEY = 1 << 13,         /**< its first argument is a key */
    FAKE_KEYS = 1 << 14,        /**< all its arguments are */
    FAKE_SCRIPT_KEYS = 1 << 15, /**< its second is the number of keys, which follow */
};

typedef void (*fake_run)(fake_conn *c, const tl_bytes *argv, size_t argc, tl_reply *out);

typedef struct {
    const char *name; /**< lower case */
    fake_run run;
    int arity; /**< Redis' way: with the name; negative: at least */
    unsigned flags;
    uint32_t since;
} fake_row;

typedef struct {
    fake_run parent;
    const char *name;
    int arity; /**< of the whole command */
    uint32_t since;
} fake_sub;

extern const fake_row fake__rows[]; /**< in fake_table.c */
extern const size_t fake__row_count;
extern const fake_sub fake__subs[]; /**< up to a NULL name */

typedef struct fake_lua fake_lua;

typedef struct {
    const fake_row *row;
    const tl_bytes *argv;
    size_t argc;
} fake_said;

struct fake_redis {
    fake_dict db[FAKE_DATABASES];
    fake_dict scripts; /**< loaded: sha1 -> the engine's number */
    fake_lua *lua;
    int64_t now_us, now_ms, started_us;
    uint32_t level;
    bool replica, oom, loading, engineless;
    unsigned events, events_set; /**< FAKE_ON_... that are told; as configured at the start */
    bool vanishing;              /**< a key is being removed as expired, or with its database */
    bool cluster;
    fake_slots slots;
    unsigned first_slot, last_slot;
    char slots_to[64];
    fake_where where; /**< instead of these; or NULL */
    void *where_ctx;
    const uint16_t *nodes; /* of a cluster of which this is node `self`; NULL: it knows of none */
    unsigned nodes_n, self;
    char *keys_left; /**< patterns of what has left slots that are migrating, or NULL: nothing */
    char *keys_allowed, *channels_allowed; /**< patterns, or NULL: all */
    const char
        *undeclared;      /**< patterns of what scripts may touch beside their keys, or NULL: all */
    uint32_t denied_subs; /**< by number in fake__subs */
    char *password;
    int replicas;
    bool appends, synced; /**< there is an append-only file; it is on the disk */
    int replicas_synced;
    uint8_t index[256]; /**< row + 1, by name */
    uint8_t denied[FAKE_ROWS_MAX];
    uint64_t count[FAKE_ROWS_MAX], total;
    uint64_t calls[FAKE_ROWS_MAX]; /**< those of scripts too */
    size_t monitors;
    uint64_t dirty; /**< writes so far */
    uint64_t unit;
    uint64_t run_id, replid;
    bool nameless;
    uint64_t random; /**< math.random's state */
    fake_wrote wrote;
    void *wrote_ctx;
    fake_conn *conns, *applier;
    fake_conn *current; /**< whose command is executed, or NULL */
    int64_t last_id;
    size_t tracked;          /**< keys that all connections have read and will be told of */
    fake_dict owed;          /**< keys to tell `current` of: number -> key, or no text: all */
    bool in_script;          /**< the command at work is a script's, */
    fake_said outer;         /**< and this is the script's own: the last that a client said */
    size_t watchers;         /**< keys watched by all connections */
    fake_conn **subscribers; /**< in order of subscription */
    size_t subscriber_count, subscriber_room;
};

typedef struct {
    tl_bytes key;
    int db;
    bool was_expired;
} fake_watch;

typedef struct {
    const fake_row *row;
    tl_bytes *argv;
    size_t argc;
} fake_queued;

struct fake_conn {
    fake_redis *r;
    fake_conn *next, *prev;
    fake_calls calls;
    void *ctx;
    int64_t id;
    int db;
    bool authed, closing;
    bool killed;              /**< another has ended it: it is nobody's any more */
    bool master;              /**< it is obeyed whatever the knobs say */
    bool silent;              /**< this command's replies were pushed */
    bool multi, abort, raced; /**< in MULTI; a command was refused; a watched key was touched */
    bool asking;              /**< the next command may have what is only on its way here */
    bool elsewhere;           /**< this command is refused, as its keys are in other slots */
    unsigned queued_flags;
    fake_text name;
    fake_dict channels;
    bool tracking, noloop;
    bool monitor;
    char address[64]; /**< of the client */
    int64_t since_us;
    const fake_row *last; /**< what it said last, or NULL */
    int64_t redirect;     /**< the id of the connection that is told */
    fake_dict tracked;    /**< keys that were read */
    fake_watch *watch;
    size_t watch_count, watch_room;
    fake_queued *queue;
    size_t queue_count, queue_room;
    fake_arena arena, kept; /**< of this reply; of watches and queued commands */
    tl_reply reply;
};

void fake__index_names(uint8_t index[256]);
/** By name in any case, as this server's level and renames have it, or NULL. */
const fake_row *fake__lookup(const fake_redis *r, tl_bytes name);
bool fake__arity_fits(const fake_row *row, const fake_redis *r, size_t argc);
/** Run a command that has passed every check; tells the write hook. */
void fake__call(fake_conn *c, const fake_row *row, const tl_bytes *argv, size_t argc,
                tl_reply *out);
/** What a replica is to apply for argv, which changed something. */
void fake__tell(fake_redis *r, int db, const fake_row *row, const tl_bytes *argv, size_t argc);
/** The keys of a command, in a row. */
size_t fake__keys_of(const fake_row *row, const tl_bytes *argv, size_t argc, const tl_bytes **ret);
/** As this server's level has it, or NULL. */
const fake_sub *fake__sub_of(const fake_redis *r, const fake_row *row, tl_bytes name);
fake_conn *fake__conn_of(const fake_redis *r, int64_t id); /**< or NULL */
void fake__unwatch(fake_conn *c);
void fake__forget_transaction(fake_conn *c);
void fake__push(fake_conn *c, tl_bytes kind, tl_bytes channel, const tl_reply *payload);
/** How many have been told. */
int64_t fake__send(fake_redis *r, tl_bytes channel, tl_bytes message);
void fake__unsubscribe_all(fake_conn *c, bool tell);

/* ---- fake_cluster.c and fake_acl.c ----------------------------------------------------------- */

bool fake__cluster_allows(fake_conn *c, const fake_said *said, tl_reply *out);

typedef enum {
    FAKE_DENIED_NOT,
    FAKE_DENIED_COMMAND,
    FAKE_DENIED_KEY,
    FAKE_DENIED_CHANNEL
} fake_denied;

void fake__keep_text(char **text, const char *to); /**< copied; NULL: none */
/** Does the name fit one of the patterns, and is that for what it `needs`? 0: nothing. */
bool fake__acl_fit(const char *patterns, tl_bytes name, unsigned needs);
fake_denied fake__acl_denies(const fake_redis *r, const fake_said *said);
bool fake__acl_allows(fake_conn *c, const fake_said *said, tl_reply *out);
/** The same of a queued command, which was allowed when it was said. */
bool fake__acl_still_allows(fake_conn *c, const fake_said *said, tl_reply *out);

/* ---- fake_monitor.c -------------------------------------------------------------------------- */

bool fake__monitor_shows(const fake_redis *r, const fake_row *row, const tl_bytes *argv);
/** Before it is executed, or after? */
bool fake__monitor_before(const fake_redis *r, const fake_row *row);
void fake__monitor_tell(fake_conn *c, const fake_said *said);
void fake__monitor_forget(fake_conn *c);

/* ---- fake_track.c ---------------------------------------------------------------------------- */

void fake__track(fake_conn *c, const tl_bytes *argv, size_t argc, tl_reply *out);
void fake__track_read(fake_conn *c, const fake_row *row, const tl_bytes *argv, size_t argc);
void fake__track_changed(fake_redis *r, tl_bytes key);
void fake__track_flushed(fake_redis *r);
void fake__track_done(fake_conn *c); /**< tell it what it is owed */
void fake__track_forget(fake_conn *c);

/* ---- fake_events.c --------------------------------------------------------------------------- */

enum {
    FAKE_TO_KEYSPACE = 1 << 0,
    FAKE_TO_KEYEVENT = 1 << 1,
    FAKE_ON_GENERIC = 1 << 2,
    FAKE_ON_STRING = 1 << 3,
    FAKE_ON_LIST = 1 << 4,
    FAKE_ON_SET = 1 << 5,
    FAKE_ON_HASH = 1 << 6,
    FAKE_ON_ZSET = 1 << 7,
    FAKE_ON_EXPIRED = 1 << 8,
    FAKE_ON_EVICTED = 1 << 9,
    FAKE_ON_STREAM = 1 << 10,
    FAKE_ON_MODULE = 1 << 11,
    FAKE_ON_NEW = 1 << 12,
    FAKE_ON_MISS = 1 << 13,
};

void fake__event_tell(fake_redis *r, const char *event, int db, tl_bytes key);
/** `kind` is one of FAKE_ON_... */
static inline void fake__event(fake_redis *r, unsigned kind, const char *event, int db,
                               tl_bytes key) {
    if (r->events & kind) {
        fake__event_tell(r, event, db, key);
    }
}
/** A key was looked for: if it isn't there, that is an event too. */
void fake__missed(fake_conn *c, tl_bytes key);
/** "KEA" as bits; false: it has a letter that the server doesn't know. */
bool fake__events_read(const fake_redis *r, tl_bytes text, unsigned *ret);
tl_bytes fake__events_print(fake_conn *c);

/* ---- fake_lua.c and fake_script.c ------------------------------------------------------------ */

/** One script at work. */
typedef struct {
    fake_conn *conn;
    char sha[FAKE_SHA_SIZE];
    bool wrote, random, effects, oom;
    const tl_bytes *keys;
    size_t nkeys;
    char source[32]; /**< where its error rose */
    int line;
} fake_scripted;

fake_lua *fake__lua_new(void);
fake_lua *fake__lua_share(fake_lua *lua);
void fake__lua_free(fake_lua *lua);
/** The number of the script, compiled if need be; false: out says why not. */
bool fake__lua_compile(fake_lua *lua, fake_conn *c, tl_bytes text, uint32_t *ret, tl_reply *out);
const char *fake__lua_sha(const fake_lua *lua, uint32_t number);
void fake__lua_run(fake_lua *lua, fake_conn *c, uint32_t number, const tl_bytes *keys, size_t nkeys,
                   const tl_bytes *args, size_t nargs, tl_reply *out);
/** redis.call's own checks, then the command. false: refused before it ran; out is the error. */
bool fake__script_call(fake_scripted *s, const tl_bytes *argv, size_t argc, tl_reply *out);

/* ---- fake_sha1.c ----------------------------------------------------------------------------- */

void fake__sha1(tl_bytes text, char ret[FAKE_SHA_SIZE]);

/* ---- the commands ---------------------------------------------------------------------------- */

#define FAKE_COMMAND(name)                                                                         \
    void fake__##name(__attribute__((unused)) fake_conn *c,                                        \
                      __attribute__((unused)) const tl_bytes *argv,                                \
                      __attribute__((unused)) size_t argc, tl_reply *out)
FAKE_COMMAND(asking);
FAKE_COMMAND(auth);
FAKE_COMMAND(client);
FAKE_COMMAND(config);
FAKE_COMMAND(dbsize);
FAKE_COMMAND(del);
FAKE_COMMAND(discard);
FAKE_COMMAND(echo);
FAKE_COMMAND(eval);
FAKE_COMMAND(evalsha);
FAKE_COMMAND(exec);
FAKE_COMMAND(exists);
FAKE_COMMAND(expire);
FAKE_COMMAND(flush);
FAKE_COMMAND(get);
FAKE_COMMAND(getset);
FAKE_COMMAND(hdel);
FAKE_COMMAND(hexists);
FAKE_COMMAND(hget);
FAKE_COMMAND(hgetall);
FAKE_COMMAND(hkeys);
FAKE_COMMAND(hincrby);
FAKE_COMMAND(hlen);
FAKE_COMMAND(hmget);
FAKE_COMMAND(hset);
FAKE_COMMAND(hsetnx);
FAKE_COMMAND(incr);
FAKE_COMMAND(info);
FAKE_COMMAND(cluster);
FAKE_COMMAND(keys);
FAKE_COMMAND(lastsave);
FAKE_COMMAND(llen);
FAKE_COMMAND(lrange);
FAKE_COMMAND(ltrim);
FAKE_COMMAND(mget);
FAKE_COMMAND(monitor);
FAKE_COMMAND(multi);
FAKE_COMMAND(persist);
FAKE_COMMAND(ping);
FAKE_COMMAND(psetex);
FAKE_COMMAND(publish);
FAKE_COMMAND(pubsub);
FAKE_COMMAND(quit);
FAKE_COMMAND(randomkey);
FAKE_COMMAND(role);
FAKE_COMMAND(rpush);
FAKE_COMMAND(sadd);
FAKE_COMMAND(scard);
FAKE_COMMAND(scan);
FAKE_COMMAND(script);
FAKE_COMMAND(select);
FAKE_COMMAND(set);
FAKE_COMMAND(setex);
FAKE_COMMAND(setnx);
FAKE_COMMAND(sismember);
FAKE_COMMAND(smembers);
FAKE_COMMAND(srandmember);
FAKE_COMMAND(srem);
FAKE_COMMAND(strlen);
FAKE_COMMAND(subscribe);
FAKE_COMMAND(time);
FAKE_COMMAND(ttl);
FAKE_COMMAND(type);
FAKE_COMMAND(unsubscribe);
FAKE_COMMAND(unwatch_command);
FAKE_COMMAND(wait);
FAKE_COMMAND(waitaof);
FAKE_COMMAND(watch);
FAKE_COMMAND(zadd);
FAKE_COMMAND(zcard);
FAKE_COMMAND(zpopmin);
FAKE_COMMAND(zrange);
FAKE_COMMAND(zrangebyscore);
FAKE_COMMAND(zrank);
FAKE_COMMAND(zrem);
FAKE_COMMAND(zremrangebyscore);
FAKE_COMMAND(zscore);
