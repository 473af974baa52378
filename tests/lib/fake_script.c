/*
 * The fake server's scripting commands, and the checks that a command from a script goes through.
 */
#include "fake_inside.h"

#define AFTER_RANDOM "Write commands not allowed after non deterministic commands"
#define ADVICE                                                                                     \
    ". Call redis.replicate_commands() at the start of your script in order to switch to single "  \
    "commands replication mode."

/* ---- redis.call ------------------------------------------------------------------------------ */

static const char *const denial_texts[] = {
    [FAKE_DENIED_COMMAND] = "The user executing the script can't run this command or subcommand",
    [FAKE_DENIED_KEY] = "The user executing the script can't access at least one of the keys "
                        "mentioned in the command arguments",
    [FAKE_DENIED_CHANNEL] = "The user executing the script can't publish to the channel mentioned "
                            "in the command"};

static bool is_declared(const fake_scripted *s, tl_bytes key) {
    for (size_t i = 0; i < s->nkeys; i++) {
        if (tl__bytes_eq(s->keys[i], key)) {
            return true;
        }
    }
    return fake__acl_fit(s->conn->r->undeclared, key, 0);
}

/* Does it touch a key that the script's caller has not named? */
static bool strays(const fake_scripted *s, const fake_row *row, const tl_bytes *argv, size_t argc) {
    const tl_bytes *keys;
    bool free = !s->conn->r->undeclared || s->nkeys == 0;
    size_t n = free ? 0 : fake__keys_of(row, argv, argc, &keys);
    for (size_t i = 0; i < n; i++) {
        if (!is_declared(s, keys[i])) {
            return true;
        }
    }
    return false;
}

/* Why the command may not run, or NULL. Texts that start with '-' bring their own code. */
static const char *refusal(const fake_scripted *s, const fake_row *row, const tl_bytes *argv,
                           size_t argc) {
    const fake_redis *r = s->conn->r;
    bool new = r->level >= FAKE_LEVEL(7, 0, 0);
    bool write = row && row->flags & FAKE_WRITE;
    tl_reply unused;
    if (!row) {
        return new ? "Unknown Redis command called from script"
                   : "Unknown Redis command called from Lua script";
    }
    if (!fake__arity_fits(row, r, argc)) {
        return new ? "Wrong number of args calling Redis command from script"
                   : "Wrong number of args calling Redis command From Lua script";
    }
    if (row->flags & FAKE_NO_SCRIPT) {
        return new ? "This Redis command is not allowed from script"
                   : "This Redis command is not allowed from scripts";
    }
    if (strays(s, row, argv, argc)) {
        return "script tried accessing undeclared key";
    }
    if (s->conn->master) {
        return NULL;
    }
    fake_denied denied = fake__acl_denies(r, &(fake_said){row, argv, argc});
    if (denied != FAKE_DENIED_NOT) {
        return denial_texts[denied];
    }
    if (write && s->random && !s->effects && r->level < FAKE_LEVEL(5, 0, 0)) {
        return r->level < FAKE_LEVEL(3, 2, 0) ? AFTER_RANDOM : AFTER_RANDOM ADVICE;
    }
    if (write && !s->wrote && r->replica) {
        return "-READONLY You can't write against a read only replica.";
    }
    if (row->flags & FAKE_DENY_OOM && !s->wrote && s->oom) {
        return "-OOM command not allowed when used memory > 'maxmemory'.";
    }
    if (r->cluster && !fake__cluster_allows(s->conn, &(fake_said){row, argv, argc}, &unused)) {
        return new ? "Script attempted to access a non local key in a cluster node"
                   : "Lua script attempted to access a non local key in a cluster node";
    }
    return NULL;
}

bool fake__script_call(fake_scripted *s, const tl_bytes *argv, size_t argc, tl_reply *out) {
    const fake_row *row = fake__lookup(s->conn->r, argv[0]);
    const char *refused = refusal(s, row, argv, argc);
    if (refused) {
        fake__static(out, TL_REPLY_ERROR, tl__bytes_of(refused));
        return false;
    }
    s->wrote = s->wrote || row->flags & FAKE_WRITE;
    s->random = s->random || row->flags & FAKE_RANDOM;
    s->conn->r->in_script = true;
    fake__call(s->conn, row, argv, argc, out);
    s->conn->r->in_script = false;
    return true;
}

/* ---- EVAL and EVALSHA ------------------------------------------------------------------------ */

/* Run with argv from the number of keys on. */
static void run(fake_conn *c, uint32_t number, const tl_bytes *argv, size_t nkeys, size_t argc,
                tl_reply *out) {
    fake__lua_run(c->r->lua, c, number, argv + 3, nkeys, argv + 3 + nkeys, argc - 3 - nkeys, out);
}

static bool key_count(const tl_bytes *argv, size_t argc, size_t *ret, tl_reply *out) {
    int64_t n;
    if (!fake__to_int(argv[2], &n)) {
        fake__not_an_integer(out);
    } else if (n > (int64_t)argc - 3) {
        fake__error(out, "ERR Number of keys can't be greater than number of args");
    } else if (n < 0) {
        fake__error(out, "ERR Number of keys can't be negative");
    } else {
        *ret = (size_t)n;
        return true;
    }
    return false;
}

static bool load(fake_conn *c, tl_bytes text, uint32_t *ret, tl_reply *out) {
    if (c->r->engineless) {
        fake__error(out, "ERR Could not find scripting engine 'lua'");
        return false;
    }
    if (!fake__lua_compile(c->r->lua, c, text, ret, out)) {
        return false;
    }
    const char *sha = fake__lua_sha(c->r->lua, *ret);
    fake__dict_add(&c->r->scripts, tl__bytes(sha, FAKE_SHA_SIZE - 1), NULL)->v.number = *ret;
    return true;
}

FAKE_COMMAND(eval) {
    size_t nkeys;
    uint32_t number;
    if (key_count(argv, argc, &nkeys, out) && load(c, argv[1], &number, out)) {
        run(c, number, argv, nkeys, argc, out);
    }
}

/* The loaded script of that name, in any case, or NULL. */
static const fake_entry *loaded(const fake_redis *r, tl_bytes sha) {
    char lower[FAKE_SHA_SIZE - 1];
    if (sha.n != sizeof(lower)) {
        return NULL;
    }
    const fake_entry *entry = fake__dict_find(&r->scripts, sha);
    if (entry) {
        return entry;
    }
    for (size_t i = 0; i < sizeof(lower); i++) {
        lower[i] = sha.p[i] >= 'A' && sha.p[i] <= 'Z' ? (char)(sha.p[i] - 'A' + 'a') : sha.p[i];
    }
    return fake__dict_find(&r->scripts, tl__bytes(lower, sizeof(lower)));
}

FAKE_COMMAND(evalsha) {
    size_t nkeys;
    const fake_entry *entry;
    if (argv[1].n != FAKE_SHA_SIZE - 1) {
        fake__error(out, "NOSCRIPT No matching script. Please use EVAL.");
    } else if (key_count(argv, argc, &nkeys, out)) {
        entry = loaded(c->r, argv[1]);
        if (entry) {
            run(c, entry->v.number, argv, nkeys, argc, out);
        } else {
            fake__error(out, "NOSCRIPT No matching script. Please use EVAL.");
        }
    }
}

/* ---- SCRIPT ---------------------------------------------------------------------------------- */

static void script_load(fake_conn *c, tl_bytes text, tl_reply *out) {
    uint32_t number;
    if (load(c, text, &number, out)) {
        fake__string(c, out, tl__bytes_of(fake__lua_sha(c->r->lua, number)));
    }
}

static void script_exists(fake_conn *c, const tl_bytes *argv, size_t argc, tl_reply *out) {
    tl_reply *items = fake__array(c, out, argc - 2);
    for (size_t i = 2; i < argc; i++) {
        fake__int(&items[i - 2], loaded(c->r, argv[i]) != NULL);
    }
}

static void script_flush(fake_conn *c, const tl_bytes *argv, size_t argc, tl_reply *out) {
    if (argc > 3 || (argc == 3 && !fake__is(argv[2], "async") && !fake__is(argv[2], "sync"))) {
        fake__error(out, "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
        return;
    }
    fake__dict_free(&c->r->scripts);
    fake__ok(out);
}

FAKE_COMMAND(script) {
    if (fake__is(argv[1], "load")) {
        script_load(c, argv[2], out);
    } else if (fake__is(argv[1], "exists")) {
        script_exists(c, argv, argc, out);
    } else if (fake__is(argv[1], "flush")) {
        script_flush(c, argv, argc, out);
    } else {
        fake__error(out, "NOTBUSY No scripts in execution right now.");
    }
}
