/*
 * migrate acl: prints rules by which the server, or each server of a cluster or of a Sentinel set,
 * can reject the legacy clients' commands. It changes nothing, because permissions are the
 * administrator's decision. Also checks whether servers that may become master reject them as the
 * master does.
 */
#include <stdio.h>
#include <string.h>

#include "base/moment.h"
#include "link/link_open.h"
#include "doctor/cluster_survey.h"
#include "migrate/migrate.h"
#include "migrate/migrate_fleet.h"
#include "skew/skew_self.h"

#define USERS_MOST 500
#define USER_SIZE 128
#define SELECTORS_SIZE 256

typedef struct {
    char name[USER_SIZE];
    bool typeable; /* as an argument of a line for redis-cli the name is this user's */
    bool on, denied;
    bool root_denied; /* by the rules outside of selectors */
    bool selects;     /* it has selectors, which allow more: from Redis 7.0 on */
    char selectors
        [SELECTORS_SIZE]; /* as the server shows them; "": not such that they can be made again */
} user;

typedef struct {
    user list[USERS_MOST];
    int count, more;
} users;

/* ---- users' permissions --------------------------------------------------------------------- */

static bool is_any_of(tl_bytes word, const char *const *names) {
    for (; *names; names++)
        if (tl__bytes_eq(word, tl__bytes_of(*names)))
            return true;
    return false;
}

/* Do a user's rules, without selectors, deny a command? The last rule counts. */
static bool rules_deny(tl_bytes rules, const char *plus, const char *minus) {
    const char *const allow[] = {plus,       "+@all",  "allcommands", "+@write",
                                 "+@string", "+@fast", NULL},
                      *const deny[] = {minus,      "-@all",  "nocommands", "-@write",
                                       "-@string", "-@fast", NULL};
    bool denied = true;

    while (rules.n > 0) {
        tl_bytes w = tl__bytes_take(&rules, ' ');
        denied = is_any_of(w, deny) || (denied && !is_any_of(w, allow));
    }
    return denied;
}

/* "(~a* +get) (~b* +set)". A pattern may have bytes that redis-cli or the server would take for others. */
static bool is_plain(tl_bytes selectors) {
    bool inside = false;

    for (size_t i = 0; i < selectors.n; i++) {
        char c = selectors.p[i];
        if (c <= ' ' ? c != ' ' : c == '"' || c == '\'' || c == '\\' || c == 0x7f)
            return false;
        bool opens = !inside && c == '(', closes = inside && c == ')';
        if (!inside && !opens && c != ' ')
            return false;
        if (inside && c == '(')
            return false;
        inside = opens || (inside && !closes);
    }
    return !inside;
}

/* A selector may allow what the other rules deny: it stands behind them. */
static void read_rules(user *one, tl_bytes rules) {
    tl_bytes root = rules;

    for (size_t i = 1; i < rules.n && !one->selects; i++) {
        one->selects = rules.p[i - 1] == ' ' && rules.p[i] == '(';
        root.n = one->selects ? i - 1 : rules.n;
    }
    tl_bytes selectors = tl__bytes(rules.p + root.n, rules.n - root.n);
    if (one->selects && selectors.n < SELECTORS_SIZE && is_plain(selectors))
        tl__bytes_print(one->selectors, SELECTORS_SIZE, selectors);
    one->root_denied = rules_deny(root, "+setnx", "-setnx") &&
                       rules_deny(root, "+getset", "-getset");
    one->denied = one->root_denied && !one->selects;
}

static bool is_typeable(tl_bytes name) {
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] <= ' ' || name.p[i] >= 0x7f || strchr("\"'\\", name.p[i]))
            return false;
    return name.n > 0 && name.n < USER_SIZE;
}

/* Reads lines of "user NAME on RULE ...". */
static bool take_users(void *ctx, const tl_reply *reply) {
    users *users = ctx;
    tl_bytes text;

    for (size_t i = 0; i < reply->count; i++) {
        if (!tl__reply_text(&reply->items[i], &text))
            return false;
        if (!tl__bytes_eq(tl__bytes_take(&text, ' '), TL_LITERAL("user")))
            continue;
        if (users->count == USERS_MOST) {
            users->more++;
            continue;
        }
        user *one = &users->list[users->count++];
        *one = (user){.on = false};
        tl_bytes name = tl__bytes_take(&text, ' ');
        one->typeable = is_typeable(name);
        tl__bytes_print(one->name, sizeof one->name, name);
        one->on = tl__bytes_eq(tl__bytes_take(&text, ' '), TL_LITERAL("on"));
        read_rules(one, text);
    }
    return reply->type == TL_REPLY_ARRAY;
}

static bool take_verdict(void *ctx, const tl_reply *reply) {
    bool *denied = ctx;
    tl_bytes text;

    *denied = tl__reply_text(reply, &text) && tl__bytes_has(text, "to run the");
    return true;
}

/* From 7.0 on ACL DRYRUN gives the verdict; before, the reading of the rules stays. */
static void ask_denied(server_link *link, user *user) {
    static const char *const commands[] = {"SETNX", "GETSET"};
    bool denied = true, both = true;

    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const char *const request[] = {"ACL", "DRYRUN", user->name, commands[i], "k", "v", NULL};
        if (!link_ask(link, request, take_verdict, &denied))
            return;
        both = both && denied;
    }
    user->denied = both;
}

/* False: link->message has the reason; link->lacks: the server has no ACL. */
static bool ask_users(server_link *link, users *ret) {
    static const char *const request[] = {"ACL", "LIST", NULL};

    *ret = (users){.count = 0};
    if (!link_ask(link, request, take_users, ret))
        return false;
    for (int i = 0; i < ret->count; i++)
        ask_denied(link, &ret->list[i]);
    return true;
}

/* ---- printing ---------------------------------------------------------------------------------- */

static void show_without_acl(void) {
    printf("# This server has no ACL (Redis 6 or newer). In its redis.conf, for everybody:\n"
           "rename-command SETNX \"\"\n"
           "rename-command GETSET \"\"\n");
}

/* A selector can't be changed, only made again. */
static void show_selectors(const user *user) {
    printf("# The selectors of %s may allow them too, and -setnx doesn't change a selector.\n",
           user->name);
    if (!user->selectors[0]) {
        printf(
            "# See ACL GETUSER: clear them (clearselectors), and make them again without the two "
            "commands.\nACL SETUSER %s -setnx -getset\n",
            user->name);
        return;
    }
    printf("ACL SETUSER %s -setnx -getset clearselectors", user->name);
    for (const char *at = user->selectors; *at; at++)
        printf("%s%c", *at == ')' ? " -setnx -getset" : "", *at);
    printf("\n# Its way back: ACL SETUSER %s%s clearselectors%s\n", user->name,
           user->root_denied ? "" : " +setnx +getset", user->selectors);
}

static void show(const users *users) {
    printf(
        "# Legacy clients lock by SETNX and GETSET; tidelock's need neither (except with "
        "--strict).\n# Other programs that use them on this server are refused too. Give these to "
        "redis-cli:\n");
    for (int i = 0; i < users->count; i++)
        if (users->list[i].denied)
            printf("# %s is denied them already\n", users->list[i].name);
        else if (!users->list[i].typeable) /* the line would make a user of another name */
            printf(
                "# %s is not denied them: its name can't be typed as it is shown; deny them to it by a client "
                "that quotes: see ACL LIST\n",
                users->list[i].name);
        else if (users->list[i].selects)
            show_selectors(&users->list[i]);
        else
            printf("ACL SETUSER %s -setnx -getset\n", users->list[i].name);
    if (users->more)
        printf("# and %d more user%s: see ACL LIST\n", users->more, migrate_plural(users->more));
    printf("# To keep that over a restart: ACL SAVE, or CONFIG REWRITE where no aclfile is set.\n"
           "# The way back: ACL SETUSER NAME +setnx +getset, or as said beside a user\n");
}

/* Returns 0, or the exit status; link->message has the reason. */
static int ask_and_show(server_link *link) {
    users users;

    if (ask_users(link, &users)) {
        show(&users);
        return 0;
    }
    if (!link->lacks)
        return link->status;
    show_without_acl();
    return 0;
}

/* Shows another server than the link's. */
static int show_beside(const server_link *like, const char *host, uint16_t port, const char *label,
                       const char *what) {
    server_link link;

    if (!link_open_beside(&link, like, host, port, false))
        return fail(STATUS_INTERNAL, "migrate acl: out of memory");
    printf("# %s%s:\n", label ? label : link.endpoint.label, what);
    int status = ask_and_show(&link);
    if (status)
        status = fail(status, "migrate acl: %s: %s", label ? label : link.endpoint.label,
                      link.message);
    link_close(&link);
    return status;
}

/* ---- Sentinels: each of their servers may become master ------------------------------------- */

/* Shows each server of the set, because ACLs are not replicated. */
static int show_set(migrate_work *work) {
    const char *label = work->migration.link.endpoint.label;
    sentinel_replicas all;
    server_link by;

    printf("# %s, the master:\n", label);
    int worst = ask_and_show(&work->migration.link);
    if (worst)
        worst = fail(worst, "migrate acl: %s: %s", label, work->migration.link.message);
    int status = link_replicas(&by, work->migration.server, &all);
    if (status)
        return fail(status, "migrate acl: %s", by.message);
    for (unsigned i = 0; i < all.count; i++) {
        status = show_beside(&work->migration.link, all.of[i].host, all.of[i].port, NULL,
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

static migrate_blocker *add(migrate_blockers *blockers) {
    if (blockers->count < MIGRATE_BLOCKERS)
        return &blockers->item[blockers->count++];
    blockers->more++;
    return NULL;
}

static void not_known(const char *who, const char *why, migrate_blockers *ret) {
    migrate_blocker *blocker = add(ret);

    if (!blocker)
        return;
    *blocker = (migrate_blocker){.passes = false};
    (void)snprintf(
        blocker->what, sizeof blocker->what,
        "the master denies SETNX and GETSET to users; whether the servers that may become master "
        "do so is not known");
    (void)snprintf(blocker->who, sizeof blocker->who, "%.100s: %.240s", who, why);
    (void)snprintf(
        blocker->todo, sizeof blocker->todo,
        "make it respond; if it was removed for good, make the others forget it: SENTINEL RESET, or "
        "CLUSTER FORGET");
}

/* Finds users that may use the commands there, but not at the master: denied, off, or unknown
 * there. */
static void judge_users(const users *master, const users *other, const char *label,
                        migrate_blockers *ret) {
    migrate_blocker *blocker = NULL;

    for (int i = 0; i < other->count; i++) {
        const user *there = &other->list[i], *here = find_user(master, there->name);
        if (there->denied || (here && !here->denied && (here->on || !there->on)))
            continue;
        if (!blocker && !(blocker = add(ret)))
            return;
        size_t n = strlen(blocker->who);
        if (n == 0) {
            *blocker = (migrate_blocker){.passes = false};
            (void)snprintf(
                blocker->what, sizeof blocker->what,
                "SETNX and GETSET are denied at the master, and not at %.100s, which may "
                "become master: ACLs are not replicated",
                label);
        }
        if (n < sizeof blocker->who / 2)
            (void)snprintf(blocker->who + n, sizeof blocker->who - n, "%s%s", n ? ", " : "user ",
                           there->name);
    }
    if (blocker)
        (void)snprintf(blocker->todo, sizeof blocker->todo,
                       "give that server the commands too: tidelock migrate acl");
}

/* One that is off counts too: its connections that are open go on. */
static void count_users(const users *all, migrate_permissions *ret) {
    ret->servers++;
    ret->users += all->more; /* their rules weren't read: not denied */
    for (int i = 0; i < all->count; i++) {
        ret->users++;
        ret->denied += all->list[i].denied;
    }
}

static void judge_beside(migrate_work *work, const users *master, const char *host, uint16_t port,
                         migrate_permissions *permissions, migrate_blockers *ret) {
    users other;
    server_link link;

    if (!link_open_beside(&link, &work->migration.link, host, port, false)) {
        not_known(host, "out of memory", ret);
        return;
    }
    if (ask_users(&link, &other)) {
        judge_users(master, &other, link.endpoint.label, ret);
        count_users(&other, permissions);
    } else {
        not_known(link.endpoint.label, link.message, ret);
    }
    link_close(&link);
}

/* Each server that the Sentinels know, beside the master. */
static void judge_set(migrate_work *work, const users *master, migrate_permissions *permissions,
                      migrate_blockers *ret) {
    sentinel_replicas all;
    server_link by;

    if (link_replicas(&by, work->migration.server, &all)) {
        not_known("the Sentinels", by.message, ret);
        return;
    }
    if (all.more)
        not_known("the Sentinels", "the master has more replicas than can be checked", ret);
    for (unsigned i = 0; i < all.count; i++)
        judge_beside(work, master, all.of[i].host, all.of[i].port, permissions, ret);
}

static void judge_replicas(struct migrate_fleet *fleet, const fleet_node *master, const users *here,
                           migrate_permissions *permissions, migrate_blockers *ret) {
    users beside;

    for (unsigned i = 0; i < fleet->count; i++) {
        fleet_node *replica = &fleet->node[i];
        if (replica->status || strcmp(replica->of, master->id) != 0)
            continue;
        if (!ask_users(&replica->link, &beside)) {
            not_known(replica->label, replica->link.message, ret);
            continue;
        }
        count_users(&beside, permissions);
        if (denies_any(here))
            judge_users(here, &beside, replica->label, ret);
    }
}

/* Each master, and the replicas that may replace it. A node that doesn't reply is a flaw already. */
static void judge_cluster(struct migrate_fleet *fleet, migrate_permissions *permissions,
                          migrate_blockers *ret) {
    users here;

    *permissions = (migrate_permissions){.access = MIGRATE_READ};
    for (unsigned i = 0; i < fleet->count; i++) {
        fleet_node *master = &fleet->node[i];
        if (!master->slots || master->status)
            continue;
        if (ask_users(&master->link, &here)) {
            count_users(&here, permissions);
            judge_replicas(fleet, master, &here, permissions, ret);
            continue;
        }
        permissions->access = master->link.lacks ? MIGRATE_LACKS : MIGRATE_DENIED;
        (void)snprintf(permissions->why, sizeof permissions->why, "%.110s", master->link.message);
        return;
    }
}

void migrate_acl_judge(migrate_work *work, int to, migrate_permissions *permissions,
                       migrate_blockers *ret) {
    server_link *link = &work->migration.link;
    bool by_sentinels = server_by_sentinels(work->migration.server);
    users master;

    *permissions = (migrate_permissions){.replicas = by_sentinels ? 0 : work->migration.replicas};
    if (!migrate_wants_watch(&work->view, to))
        return;
    if (work->migration.by_cluster) {
        judge_cluster(work->migration.fleet, permissions, ret);
        return;
    }
    if (!ask_users(link, &master)) {
        permissions->access = link->lacks ? MIGRATE_LACKS : MIGRATE_DENIED;
        (void)snprintf(permissions->why, sizeof permissions->why, "%.110s", link->message);
        return;
    }
    permissions->access = MIGRATE_READ;
    count_users(&master, permissions);
    if (by_sentinels && denies_any(&master))
        judge_set(work, &master, permissions, ret);
}

/* ---- a cluster: each node has its own users ------------------------------------------------- */

/* Shows replicas too: each may become a master. */
static int show_nodes(const cluster_survey *all, const server_link *like) {
    int worst = 0;

    for (unsigned i = 0; i < all->count; i++) {
        const cluster_node *node = &all->of[i];
        if (node->led_to[0] || node->twice)
            continue;
        int status = node->status
                         ? fail(node->status, "migrate acl: not checked: %s", node->message)
                         : show_beside(like, node->host, node->port, node->label,
                                       " of the cluster");
        worst = worst ? worst : status;
    }
    if (all->more)
        worst = fail(STATUS_UNAVAILABLE, "migrate acl: the cluster has more than %d nodes",
                     CLUSTER_NODES_MOST);
    return worst;
}

static int show_cluster(const server *where) {
    kernel_clock kernel = moment_kernel();
    tl_endpoint login;
    link_login own;
    tl_seeds seeds;
    cluster_survey all;
    server_link link;
    int status = link_places(&link, where, &login, &own, &seeds);

    if (status)
        return fail(status, "%s", link.message);
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

int migrate_acl(migrate_work *work) {
    if (work->migration.by_cluster)
        return show_cluster(work->migration.server);
    if (server_by_sentinels(work->migration.server))
        return show_set(work);
    int status = ask_and_show(&work->migration.link);
    if (status == 0 && work->migration.replicas > 0)
        printf(
            "# Each replica has users of its own: one that may become master needs these too.\n");
    return status ? fail(status, "migrate acl: %s", work->migration.link.message) : 0;
}
