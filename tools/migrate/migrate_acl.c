/*
 * migrate acl: prints how the server, or each of a cluster or of Sentinels' set, can refuse what legacy clients lock by. It changes
 * nothing: who may do what is the administrator's to say. And whether those that may become master refuse it as the master does.
 */
#include <stdio.h>
#include <string.h>

#include "base/moment.h"
#include "link/link_open.h"
#include "doctor/cluster_survey.h"
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

/* ---- who may what ------------------------------------------------------------------------------ */

static tl_bytes next_word(tl_bytes *text) {
    const char *blank = text->n ? memchr(text->p, ' ', text->n) : NULL;
    tl_bytes w = tl__bytes(text->p, blank ? (size_t)(blank - text->p) : text->n);

    *text = tl__bytes(text->p + w.n + (blank != NULL), text->n - w.n - (blank != NULL));
    return w;
}

static bool is_any_of(tl_bytes word, const char *const *names) {
    for (; *names; names++)
        if (tl__bytes_eq(word, tl__bytes_of(*names)))
            return true;
    return false;
}

/* Whether the rules of a user deny a command, for servers that can't be asked: what is said last counts. */
static bool rules_deny(tl_bytes rules, const char *plus, const char *minus) {
    const char *const allow[] = {plus,       "+@all",  "allcommands", "+@write",
                                 "+@string", "+@fast", NULL},
                      *const deny[] = {minus,      "-@all",  "nocommands", "-@write",
                                       "-@string", "-@fast", NULL};
    bool denied = true;

    while (rules.n > 0) {
        tl_bytes w = next_word(&rules);
        denied = is_any_of(w, deny) || (denied && !is_any_of(w, allow));
    }
    return denied;
}

/* "user NAME on RULE ..." */
static bool take_users(void *ctx, const tl_reply *reply) {
    users *u = ctx;
    tl_bytes text;

    for (size_t i = 0; i < reply->count; i++) {
        if (!tl__reply_text(&reply->items[i], &text))
            return false;
        if (!tl__bytes_eq(next_word(&text), TL_LITERAL("user")))
            continue;
        if (u->count == USERS_MOST) {
            u->more++;
            continue;
        }
        user *one = &u->list[u->count++];
        tl__bytes_print(one->name, sizeof one->name, next_word(&text));
        one->on = tl__bytes_eq(next_word(&text), TL_LITERAL("on"));
        one->denied = rules_deny(text, "+setnx", "-setnx") &&
                      rules_deny(text, "+getset", "-getset");
    }
    return reply->type == TL_REPLY_ARRAY;
}

static bool take_verdict(void *ctx, const tl_reply *reply) {
    bool *denied = ctx;
    tl_bytes text;

    *denied = tl__reply_text(reply, &text) && memmem(text.p, text.n, "to run the", 10) != NULL;
    return true;
}

/* From 7.0 on the server can be asked; before, what its rules seem to say stays. */
static void ask_denied(server_link *l, user *u) {
    static const char *const commands[] = {"SETNX", "GETSET"};
    bool denied = true, both = true;

    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const char *const request[] = {"ACL", "DRYRUN", u->name, commands[i], "k", "v", NULL};
        if (!link_ask(l, request, take_verdict, &denied))
            return;
        both = both && denied;
    }
    u->denied = both;
}

/* False: l->message say why; l->lacks: the server has no ACL. */
static bool ask_users(server_link *l, users *ret) {
    static const char *const request[] = {"ACL", "LIST", NULL};

    *ret = (users){.count = 0};
    if (!link_ask(l, request, take_users, ret))
        return false;
    for (int i = 0; i < ret->count; i++)
        if (ret->list[i].on)
            ask_denied(l, &ret->list[i]);
    return true;
}

/* ---- printing ---------------------------------------------------------------------------------- */

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

/* Returns 0, or the exit status; l->message say why. */
static int ask_and_show(server_link *l) {
    users u;

    if (ask_users(l, &u)) {
        show(&u);
        return 0;
    }
    if (!l->lacks)
        return l->status;
    show_without_acl();
    return 0;
}

/* Another server than the one that the link leads to. */
static int show_beside(const server_link *like, const char *host, uint16_t port, const char *label,
                       const char *what) {
    server_link l;

    if (!link_open_beside(&l, like, host, port, false))
        return fail(STATUS_INTERNAL, "migrate acl: out of memory");
    printf("# %s%s:\n", label ? label : l.endpoint.label, what);
    int status = ask_and_show(&l);
    if (status)
        status = fail(status, "migrate acl: %s: %s", label ? label : l.endpoint.label, l.message);
    link_close(&l);
    return status;
}

/* ---- Sentinels, any of whose servers may be the master by tomorrow ------------------------------ */

/* ACLs are not replicated. */
static int show_set(migrate_work *w) {
    const char *label = w->m.link.endpoint.label;
    sentinel_replicas all;
    server_link by;

    printf("# %s, the master:\n", label);
    int worst = ask_and_show(&w->m.link);
    if (worst)
        worst = fail(worst, "migrate acl: %s: %s", label, w->m.link.message);
    int status = link_replicas(&by, w->m.server, &all);
    if (status)
        return fail(status, "migrate acl: %s", by.message);
    for (unsigned i = 0; i < all.count; i++) {
        status = show_beside(&w->m.link, all.of[i].host, all.of[i].port, NULL,
                             ", a replica, which may become master");
        worst = worst ? worst : status;
    }
    if (all.more)
        worst = fail(STATUS_UNAVAILABLE, "migrate acl: the master has more than %d replicas",
                     SENTINELS_REPLICAS_MOST);
    return worst;
}

static const user *find_user(const users *all, const char *name) {
    for (int i = 0; i < all->count; i++)
        if (strcmp(all->list[i].name, name) == 0)
            return &all->list[i];
    return NULL;
}

static bool denies_any(const users *all) {
    for (int i = 0; i < all->count; i++)
        if (all->list[i].on && all->list[i].denied)
            return true;
    return false;
}

static migrate_blocker *add(migrate_blockers *b) {
    if (b->count < MIGRATE_BLOCKERS)
        return &b->item[b->count++];
    b->more++;
    return NULL;
}

static void not_known(const char *who, const char *why, migrate_blockers *ret) {
    migrate_blocker *b = add(ret);

    if (!b)
        return;
    *b = (migrate_blocker){.passes = false};
    (void)snprintf(b->what, sizeof b->what,
                   "the master denies SETNX and GETSET to users, and whether others do that may "
                   "become master is not known");
    (void)snprintf(b->who, sizeof b->who, "%.100s: %.240s", who, why);
    (void)snprintf(
        b->todo, sizeof b->todo,
        "let it answer; one that is gone for good the Sentinels forget by SENTINEL RESET");
}

/* One who may use them there, and can't at the master: denied, off, or not known. */
static void judge_users(const users *master, const users *other, const char *label,
                        migrate_blockers *ret) {
    migrate_blocker *b = NULL;

    for (int i = 0; i < other->count; i++) {
        const user *there = &other->list[i], *here = find_user(master, there->name);
        if (!there->on || there->denied || (here && here->on && !here->denied))
            continue;
        if (!b && !(b = add(ret)))
            return;
        size_t n = strlen(b->who);
        if (n == 0) {
            *b = (migrate_blocker){.passes = false};
            (void)snprintf(
                b->what, sizeof b->what,
                "SETNX and GETSET are denied at the master, and not at %.100s, which may "
                "become master: ACLs are not replicated",
                label);
        }
        if (n < sizeof b->who / 2)
            (void)snprintf(b->who + n, sizeof b->who - n, "%s%s", n ? ", " : "user ", there->name);
    }
    if (b)
        (void)snprintf(b->todo, sizeof b->todo,
                       "give that server the commands too: tidelock migrate acl");
}

static void judge_beside(migrate_work *w, const users *master, const char *host, uint16_t port,
                         migrate_blockers *ret) {
    users other;
    server_link l;

    if (!link_open_beside(&l, &w->m.link, host, port, false)) {
        not_known(host, "out of memory", ret);
        return;
    }
    if (ask_users(&l, &other))
        judge_users(master, &other, l.endpoint.label, ret);
    else
        not_known(l.endpoint.label, l.message, ret);
    link_close(&l);
}

void migrate_acl_judge(migrate_work *w, int from, int to, migrate_blockers *ret) {
    sentinel_replicas all;
    server_link by;
    users master;

    if (!server_by_sentinels(w->m.server) || !migrate_wants_watch(from, to))
        return;
    if (!ask_users(&w->m.link, &master) || !denies_any(&master))
        return;
    if (link_replicas(&by, w->m.server, &all)) {
        not_known("the Sentinels", by.message, ret);
        return;
    }
    if (all.more)
        not_known("the Sentinels", "the master has more replicas than are asked", ret);
    for (unsigned i = 0; i < all.count; i++)
        judge_beside(w, &master, all.of[i].host, all.of[i].port, ret);
}

/* ---- a cluster, whose nodes have users of their own each ---------------------------------------- */

/* Of the replicas, too: one may be a master by tomorrow. */
static int show_nodes(const cluster_survey *all, const server_link *like) {
    int worst = 0;

    for (unsigned i = 0; i < all->count; i++) {
        const cluster_node *x = &all->of[i];
        if (x->led_to[0] || x->twice)
            continue;
        int status = x->status ? fail(x->status, "migrate acl: not asked: %s", x->message)
                               : show_beside(like, x->host, x->port, x->label, " of the cluster");
        worst = worst ? worst : status;
    }
    if (all->more)
        worst = fail(STATUS_UNAVAILABLE, "migrate acl: the cluster has more than %d nodes",
                     CLUSTER_NODES_MOST);
    return worst;
}

static int show_cluster(const server *s) {
    kernel_clock kernel = moment_kernel();
    tl_endpoint login;
    link_login own;
    tl_seeds seeds;
    cluster_survey all;
    server_link l;
    int status = link_places(&l, s, &login, &own, &seeds);

    if (status)
        return fail(status, "%s", l.message);
    server_link like = {.endpoint = login};
    if (!cluster_survey_ask(&all, &login, &seeds, skew_self_rate(&kernel)))
        status = fail(STATUS_INTERNAL, "migrate acl: out of memory");
    else
        status = show_nodes(&all, &like);
    cluster_survey_end(&all);
    tl__endpoint_wipe(&like.endpoint);
    tl__endpoint_wipe(&login);
    tl__secret_wipe(&own.secret);
    return status;
}

int migrate_acl(migrate_work *w) {
    if (w->m.by_cluster)
        return show_cluster(w->m.server);
    if (server_by_sentinels(w->m.server))
        return show_set(w);
    int status = ask_and_show(&w->m.link);
    if (status == 0 && w->m.replicas > 0)
        printf(
            "# Each replica has users of its own: one that may become master needs these too.\n");
    return status ? fail(status, "migrate acl: %s", w->m.link.message) : 0;
}
