/*
 * What the user of every connection may not do, as an ACL says it: commands, keys and channels.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fake_inside.h"
#include "ground/glob.h"

static void set(char **patterns, const char *to) {
    size_t size = to ? strlen(to) + 1 : 0;
    free(*patterns);
    *patterns = to ? memcpy(fake__alloc(NULL, size), to, size) : NULL;
}

void fake_redis_allow_keys(fake_redis *r, const char *patterns) {
    set(&r->keys_allowed, patterns);
}

void fake_redis_allow_channels(fake_redis *r, const char *patterns) {
    set(&r->channels_allowed, patterns);
}

/* Every name fits one of the patterns. */
static bool fit(const char *patterns, const tl_bytes *names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *at = patterns;
        size_t len;
        while ((len = strcspn(at, " ")) && !tl__glob_fits(tl__bytes(at, len), names[i])) {
            at += len + strspn(at + len, " ");
        }
        if (!len) {
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
        if (!fit(r->keys_allowed, keys, n)) {
            return FAKE_DENIED_KEY;
        }
    }
    if (r->channels_allowed && r->level >= FAKE_LEVEL(6, 2, 0)) {
        size_t n = said->row->run == fake__publish     ? 1
                   : said->row->run == fake__subscribe ? said->argc - 1
                                                       : 0;
        if (!fit(r->channels_allowed, said->argv + 1, n)) {
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
