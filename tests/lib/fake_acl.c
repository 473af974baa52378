/*
 * What the user of every connection may not do, as an ACL says it: commands, keys and channels.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fake_inside.h"
#include "ground/glob.h"

void fake__keep_text(char **text, const char *to) {
    size_t size = to ? strlen(to) + 1 : 0;
    free(*text);
    *text = to ? memcpy(fake__alloc(NULL, size), to, size) : NULL;
}

void fake_redis_allow_keys(fake_redis *r, const char *patterns) {
    fake__keep_text(&r->keys_allowed, patterns);
}

void fake_redis_allow_undeclared(fake_redis *r, const char *patterns) {
    r->undeclared = patterns;
}

void fake_redis_allow_channels(fake_redis *r, const char *patterns) {
    fake__keep_text(&r->channels_allowed, patterns);
}

enum { READS = 1 << 0, WRITES = 1 << 1 };

static bool is_one_of(fake_run run, const fake_run *list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (run == list[i]) {
            return true;
        }
    }
    return false;
}

static bool asks_back(const fake_said *said) {
    for (size_t i = 3; i < said->argc; i++) {
        if (fake__is(said->argv[i], "get")) {
            return said->row->run == fake__set;
        }
    }
    return false;
}

/* What a command does with its keys. Whether there is one, of what kind and how large, isn't reading. */
static unsigned does(const fake_said *said) {
    static const fake_run looks[] = {fake__exists,  fake__type,      fake__strlen, fake__hlen,
                                     fake__hexists, fake__sismember, fake__scard,  fake__llen,
                                     fake__zcard,   fake__watch};
    static const fake_run both[] = {fake__getset, fake__incr, fake__hincrby, fake__zpopmin};
    fake_run run = said->row->run;
    if (is_one_of(run, looks, sizeof(looks) / sizeof(looks[0]))) {
        return 0;
    }
    bool reads = said->row->flags & FAKE_READ || asks_back(said) ||
                 is_one_of(run, both, sizeof(both) / sizeof(both[0]));
    unsigned reading = reads ? READS : 0, writing = said->row->flags & FAKE_WRITE ? WRITES : 0;
    return said->row->flags & FAKE_SCRIPT_KEYS ? READS | WRITES : reading | writing;
}

/* What a pattern of keys is for, "%R~" or "%W~", is taken off it. */
static unsigned purpose(tl_bytes *pattern) {
    unsigned what = READS | WRITES;
    if (pattern->n >= 3 && pattern->p[0] == '%' && pattern->p[2] == '~') {
        what = pattern->p[1] == 'R' ? READS : WRITES;
        *pattern = tl__bytes(pattern->p + 3, pattern->n - 3);
    }
    return what;
}

bool fake__acl_fit(const char *patterns, tl_bytes name, unsigned needs) {
    size_t len;
    for (const char *at = patterns; (len = strcspn(at, " ")); at += len + strspn(at + len, " ")) {
        tl_bytes pattern = tl__bytes(at, len);
        if (!(needs & ~purpose(&pattern)) && tl__glob_fits(pattern, name)) {
            return true;
        }
    }
    return false;
}

/* Every name fits one of the patterns. */
static bool fit(const char *patterns, const tl_bytes *names, size_t n, unsigned needs) {
    for (size_t i = 0; i < n; i++) {
        if (!fake__acl_fit(patterns, names[i], needs)) {
            return false;
        }
    }
    return true;
}

static bool is_denied(const fake_redis *r, const fake_said *said) {
    if (r->denied[said->row - fake__rows] == FAKE_NOPERM) {
        return true;
    }
    const fake_sub *sub = said->row->flags & FAKE_PARENT ? fake__sub_of(r, said->row, said->argv[1])
                                                         : NULL;
    return sub && r->denied_subs & 1u << (sub - fake__subs);
}

fake_denied fake__acl_denies(const fake_redis *r, const fake_said *said) {
    const tl_bytes *keys;
    if (is_denied(r, said)) {
        return FAKE_DENIED_COMMAND;
    }
    if (r->keys_allowed) {
        size_t n = fake__keys_of(said->row, said->argv, said->argc, &keys);
        if (!fit(r->keys_allowed, keys, n, does(said))) {
            return FAKE_DENIED_KEY;
        }
    }
    if (r->channels_allowed && r->level >= FAKE_LEVEL(6, 2, 0)) {
        size_t n = said->row->run == fake__publish     ? 1
                   : said->row->run == fake__subscribe ? said->argc - 1
                                                       : 0;
        if (!fit(r->channels_allowed, said->argv + 1, n, 0)) {
            return FAKE_DENIED_CHANNEL;
        }
    }
    return FAKE_DENIED_NOT;
}

static void no_command(fake_conn *c, const fake_said *said, tl_reply *out) {
    const char *name = said->row->name;
    const fake_sub *sub = said->row->flags & FAKE_PARENT
                              ? fake__sub_of(c->r, said->row, said->argv[1])
                              : NULL;
    if (c->r->level < FAKE_LEVEL(7, 0, 0)) {
        fake__errorf(
            c, out, "NOPERM this user has no permissions to run the '%s' command or its subcommand",
            name);
    } else {
        fake__errorf(c, out, "NOPERM this user has no permissions to run the '%s%s%s' command",
                     name, sub ? "|" : "", sub ? sub->name : "");
    }
}

bool fake__acl_allows(fake_conn *c, const fake_said *said, tl_reply *out) {
    switch (fake__acl_denies(c->r, said)) {
    case FAKE_DENIED_NOT: return true;
    case FAKE_DENIED_COMMAND: no_command(c, said, out); break;
    case FAKE_DENIED_KEY:
        fake__error(out, "NOPERM this user has no permissions to access one of the keys used as "
                         "arguments");
        break;
    case FAKE_DENIED_CHANNEL:
        fake__error(out, "NOPERM this user has no permissions to access one of the channels used "
                         "as arguments");
        break;
    }
    return false;
}

bool fake__acl_still_allows(fake_conn *c, const fake_said *said, tl_reply *out) {
    static const char *const reasons[] = {
        [FAKE_DENIED_COMMAND] = "no permission to execute the command or subcommand",
        [FAKE_DENIED_KEY] = "no permission to touch the specified keys",
        [FAKE_DENIED_CHANNEL] = "no permission to access one of the channels used as arguments"};
    fake_denied denied = fake__acl_denies(c->r, said);
    if (denied != FAKE_DENIED_NOT) {
        fake__errorf(c, out,
                     "NOPERM ACLs rules changed between the moment the transaction was accumulated "
                     "and the EXEC call. This command is no longer allowed for the following "
                     "reason: %s",
                     reasons[denied]);
    }
    return denied == FAKE_DENIED_NOT;
}
