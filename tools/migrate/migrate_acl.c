/*
 * migrate acl: prints how the server, or each of a cluster, can refuse what legacy clients lock by. It changes nothing: who may do
 * what is the administrator's to say.
 */
#include <stdio.h>
#include <string.h>

#include "base/moment.h"
#include "link/link_open.h"
#include "link/members.h"
#include "migrate/migrate.h"
#include "skew/skew_self.h"

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
static bool is_denied(skew_link *l, const char *name) {
    static const char *const commands[] = {"SETNX", "GETSET"};

    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const char *const words[] = {"ACL", "DRYRUN", name, commands[i], "k", "v", NULL};
        bool denied = false;
        if (!skew_link_ask(l, words, take_verdict, &denied) || !denied)
            return false;
    }
    return true;
}

static void show_without_acl(void) {
    printf("# This server has no ACL (Redis 6 or newer). In its redis.conf, for everybody:\n"
           "rename-command SETNX \"\"\n"
           "rename-command GETSET \"\"\n");
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

/* Returns 0, or the exit status; l->words say why. */
static int ask_and_show(skew_link *l) {
    static const char *const words[] = {"ACL", "LIST", NULL};
    users u = {.count = 0};

    if (!skew_link_ask(l, words, take_users, &u)) {
        if (!l->lacks)
            return l->status;
        show_without_acl();
        return 0;
    }
    for (int i = 0; i < u.count; i++)
        u.list[i].denied = u.list[i].on && is_denied(l, u.list[i].name);
    show(&u);
    return 0;
}

/* ---- a cluster, whose nodes have users of their own each ---------------------------------------- */

static int show_node(const member *x, const skew_link *like) {
    skew_link l;

    if (!skew_link_open_beside(&l, like, x->host, x->port, false))
        return fail(STATUS_INTERNAL, "migrate acl: out of memory");
    printf("# %s of the cluster:\n", x->label);
    int status = ask_and_show(&l);
    if (status)
        status = fail(status, "migrate acl: %s: %s", x->label, l.words);
    skew_link_close(&l);
    return status;
}

/* Of the replicas, too: one may be a master by tomorrow. */
static int show_nodes(const members *all, const skew_link *like) {
    int worst = 0;

    for (unsigned i = 0; i < all->count; i++) {
        const member *x = &all->of[i];
        if (x->led_to[0] || x->twice)
            continue;
        int status = x->status ? fail(x->status, "migrate acl: not asked: %s", x->words)
                               : show_node(x, like);
        worst = worst ? worst : status;
    }
    if (all->more)
        worst = fail(STATUS_UNAVAILABLE, "migrate acl: the cluster has more than %d nodes",
                     MEMBERS_MOST);
    return worst;
}

static int show_cluster(const server *s) {
    kernel_clock kernel = moment_kernel();
    tl_endpoint login;
    tl_seeds seeds;
    members all;
    skew_link l;
    int status = link_places(&l, s, &login, &seeds);

    if (status)
        return fail(status, "%s", l.words);
    skew_link like = {.endpoint = login};
    if (!members_ask(&all, &login, &seeds, skew_self_rate(&kernel)))
        status = fail(STATUS_INTERNAL, "migrate acl: out of memory");
    else
        status = show_nodes(&all, &like);
    members_end(&all);
    tl__endpoint_wipe(&like.endpoint);
    tl__endpoint_wipe(&login);
    return status;
}

int migrate_acl(migrate_work *w) {
    if (w->m.by_cluster)
        return show_cluster(w->m.server);
    int status = ask_and_show(&w->m.link);
    return status ? fail(status, "migrate acl: %s", w->m.link.words) : 0;
}
