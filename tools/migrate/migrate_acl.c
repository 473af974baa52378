/*
 * migrate acl: prints how the server can refuse what legacy clients lock by. It changes nothing: who may do
 * what is the administrator's to say.
 */
#include <stdio.h>
#include <string.h>

#include "migrate/migrate.h"

#define USERS_MOST 500
#define USER_SIZE 128

typedef struct {
    char name[USER_SIZE];
    bool on, denied;
} user;

typedef struct {
    user list[USERS_MOST];
    int count, more;
} users;

/* "user NAME on ..." */
static bool take_users(void *ctx, const tl_reply *reply) {
    users *u = ctx;
    char line[USER_SIZE + 16], name[USER_SIZE], on[8];
    tl_bytes text;

    for (size_t i = 0; i < reply->count; i++) {
        if (!tl__reply_text(&reply->items[i], &text))
            return false;
        tl__bytes_print(line, sizeof line, text);
        if (sscanf(line, "user %127s %7s", name, on) != 2)
            continue;
        if (u->count == USERS_MOST) {
            u->more++;
            continue;
        }
        u->list[u->count] = (user){.on = strcmp(on, "on") == 0};
        memcpy(u->list[u->count++].name, name, sizeof name);
    }
    return reply->type == TL_REPLY_ARRAY;
}

static bool take_verdict(void *ctx, const tl_reply *reply) {
    bool *denied = ctx;
    tl_bytes text;

    *denied = tl__reply_text(reply, &text) && memmem(text.p, text.n, "to run the", 10) != NULL;
    return true;
}

/* From 7.0 on the server can be asked; before, nobody is known to be denied. */
static bool is_denied(migrate_link *m, const char *name) {
    static const char *const commands[] = {"SETNX", "GETSET"};

    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const char *const words[] = {"ACL", "DRYRUN", name, commands[i], "k", "v", NULL};
        bool denied = false;
        if (!skew_link_ask(&m->link, words, take_verdict, &denied) || !denied)
            return false;
    }
    return true;
}

static int without_acl(void) {
    printf("# This server has no ACL (Redis 6 or newer). In its redis.conf, for everybody:\n"
           "rename-command SETNX \"\"\n"
           "rename-command GETSET \"\"\n");
    return 0;
}

static void show(const users *u) {
    printf(
        "# Legacy clients lock by SETNX and GETSET; tidelock's need neither (but with --strict).\n"
        "# Whatever else uses them on this server is refused too. Give these to redis-cli:\n");
    for (int i = 0; i < u->count; i++)
        if (u->list[i].on && u->list[i].denied)
            printf("# %s is denied them already\n", u->list[i].name);
        else if (u->list[i].on)
            printf("ACL SETUSER %s -setnx -getset\n", u->list[i].name);
    if (u->more)
        printf("# and %d more users: see ACL LIST\n", u->more);
    printf("# To keep that over a restart: ACL SAVE, or CONFIG REWRITE where no aclfile is set.\n"
           "# The way back: ACL SETUSER NAME +setnx +getset\n");
}

int migrate_acl(migrate_work *w) {
    static const char *const words[] = {"ACL", "LIST", NULL};
    users u = {.count = 0};

    if (!skew_link_ask(&w->m.link, words, take_users, &u))
        return w->m.link.lacks ? without_acl()
                               : fail(w->m.link.status, "migrate acl: %s", w->m.link.words);
    for (int i = 0; i < u.count; i++)
        u.list[i].denied = u.list[i].on && is_denied(&w->m, u.list[i].name);
    show(&u);
    return 0;
}
