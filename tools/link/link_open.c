/*
 * Where a URL leads. It must never lead to a server that a majority of the Sentinels doesn't name.
 */
#include <stdlib.h>
#include <string.h>

#include "link/link_open.h"
#include "skew/judge/skew_record.h"

typedef struct {
    tl_endpoint master, login; /* whose host is to come; how Sentinels let us in */
    link_login own;            /* of these, */
    tl_secret theirs;          /* but Sentinels have another password */
    tl_seeds seeds;
} places;

static int refuse(server_link *l, int status, const char *message) {
    l->status = status;
    (void)snprintf(l->message, sizeof l->message, "%s", message);
    return status;
}

static void wipe(places *p) {
    tl__endpoint_wipe(&p->master);
    tl__endpoint_wipe(&p->login);
    tl__secret_wipe(&p->own.secret);
    tl__secret_wipe(&p->theirs);
    free(p);
}

/* NULL: l->status and l->message say why. */
static places *find_places(server_link *l, const server *s) {
    const tl_client_options login = server_login(s);
    bool own = s->url && !s->from_env;
    places *p = calloc(1, sizeof *p);
    tl_error err;

    if (!p) {
        (void)refuse(l, STATUS_INTERNAL, "out of memory");
        return NULL;
    }
    if (tl__endpoint_parse_seeds(&p->master, &p->own.secret, &p->seeds,
                                 s->url ? s->url : "local:", &err)) {
        (void)refuse(l, own ? STATUS_USAGE : STATUS_CONFIG, "");
        (void)snprintf(l->message, sizeof l->message, "%s%s", s->from_env ? "TIDELOCK_URL: " : "",
                       err.message);
    } else if (p->seeds.kind == TL_URL_ETCD) {
        (void)refuse(l, own ? STATUS_USAGE : STATUS_CONFIG,
                     "etcd: this asks Redis servers alone; on etcd there are run, lock, unlock, "
                     "extend, check, inspect, break, doctor and bench");
    } else if (p->seeds.kind == TL_URL_QUORUM) {
        (void)refuse(l, own ? STATUS_USAGE : STATUS_CONFIG, "");
        (void)snprintf(
            l->message, sizeof l->message,
            "redis+quorum: names several servers, and one is to be asked here: give it the "
            "URL of each, as redis://HOST");
    } else if (tl__endpoint_add(&p->master, &p->own.files, &login, &err)) {
        (void)refuse(l, STATUS_CONFIG, err.message);
    } else {
        p->login = p->master;
        if (tl__endpoint_log_in_as(&p->login, &p->theirs, &login, &err) == TL_OK)
            return p;
        (void)refuse(l, STATUS_CONFIG,
                     "TIDELOCK_SENTINEL_USER, TIDELOCK_SENTINEL_PASSWORD: too long");
    }
    wipe(p);
    return NULL;
}

bool link_is_led(const server *s) {
    return server_by_sentinels(s) || server_by_cluster(s);
}

static int no_memory(server_link *l) {
    return refuse(l, STATUS_INTERNAL, "out of memory");
}

static void copy_login(tl_endpoint *ret, link_login *ret_own, const places *p) {
    *ret_own = p->own;
    *ret = p->master;
    ret->secret = &ret_own->secret;
    ret->files = &ret_own->files;
}

/* From now on it logs in as p says, whatever becomes of that. */
static bool take_login(server_link *l, const places *p) {
    if (!l->own)
        l->own = malloc(sizeof *l->own);
    if (!l->own)
        return false;
    copy_login(&l->endpoint, l->own, p);
    return true;
}

/* To whom the Sentinels lead; nowhere, with their words, if they don't. */
static int lead(server_link *l, const sentinels *heard) {
    const tl_sentinel_view *m = heard->verdict.master;

    if (!heard->verdict.sure)
        return l->status = sentinels_trouble(heard, l->message, sizeof l->message);
    return link_turn(l, m->host, m->port) ? 0 : no_memory(l);
}

static int open_by(server_link *l, const server *s, sentinels *heard, bool all) {
    *l = (server_link){.conn = NULL};
    places *p = find_places(l, s);
    int status = 0;

    if (!p)
        return l->status;
    if (!take_login(l, p))
        status = no_memory(l);
    if (status == 0 && p->seeds.master[0])
        status = sentinels_ask(heard, &p->login, &p->seeds, all) ? lead(l, heard) : no_memory(l);
    else if (status == 0 && p->seeds.kind == TL_URL_CLUSTER)
        status = seeds_lead(l, &p->master, &p->seeds, SKEW_INDEX_KEY) ? 0 : l->status;
    else if (status == 0 && !link_begin(l))
        status = no_memory(l);
    wipe(p);
    return status;
}

int link_open_quietly(server_link *l, const server *s) {
    sentinels *heard = malloc(sizeof *heard);
    int status;

    if (heard) {
        status = open_by(l, s, heard, false);
    } else {
        *l = (server_link){.conn = NULL};
        status = no_memory(l);
    }
    free(heard);
    if (status)
        link_close(l);
    return status;
}

int link_open(server_link *l, const server *s) {
    int status = link_open_quietly(l, s);

    return status ? fail(status, "%s", l->message) : 0;
}

int link_open_by(server_link *l, const server *s, sentinels *ret) {
    *ret = (sentinels){.count = 0};
    int status = open_by(l, s, ret, true);

    if (status == 0 || ret->count > 0)
        return 0;
    link_close(l);
    return fail(status, "%s", l->message);
}

int link_places(server_link *l, const server *s, tl_endpoint *ret_login, link_login *ret_own,
                tl_seeds *ret_seeds) {
    *l = (server_link){.conn = NULL};
    places *p = find_places(l, s);

    if (!p)
        return l->status;
    copy_login(ret_login, ret_own, p);
    *ret_seeds = p->seeds;
    wipe(p);
    return 0;
}

int link_replicas(server_link *l, const server *s, sentinel_replicas *ret) {
    *l = (server_link){.conn = NULL};
    places *p = find_places(l, s);
    sentinels *heard = p ? malloc(sizeof *heard) : NULL;
    int status = p && !heard ? no_memory(l) : l->status;

    if (heard && !sentinels_ask(heard, &p->login, &p->seeds, false))
        status = no_memory(l);
    else if (heard && sentinels_replicas(heard, &p->login, ret))
        status = 0;
    else if (heard)
        status = refuse(l, STATUS_UNAVAILABLE, "no Sentinel says which replicas the master has");
    free(heard);
    if (p)
        wipe(p);
    return status;
}

/* ---- later ----------------------------------------------------------------------------------- */

/* Whom they name now. False: l->status and l->message say why nobody is. */
static bool ask_again(server_link *l, const server *s, sentinels *heard) {
    places *p = find_places(l, s);
    bool ok = p && sentinels_ask(heard, &p->login, &p->seeds, false);

    if (p && !l->conn) /* they named nobody before, and the login is to come */
        ok = take_login(l, p) && ok;
    if (p && !ok)
        (void)no_memory(l);
    else if (ok && !heard->verdict.sure)
        l->status = sentinels_trouble(heard, l->message, sizeof l->message);
    if (p)
        wipe(p);
    return ok && heard->verdict.sure;
}

static bool is_at(const server_link *l, const tl_sentinel_view *m) {
    return l->endpoint.port == m->port && strcmp(l->endpoint.host, m->host) == 0;
}

static bool again(server_link *l, const server *s, bool follows) {
    if (!server_by_sentinels(s))
        return true;
    sentinels *heard = malloc(sizeof *heard);
    bool ok = heard ? ask_again(l, s, heard) : no_memory(l) == 0;
    if (ok && !is_at(l, heard->verdict.master)) {
        ok = follows && link_turn(l, heard->verdict.master->host, heard->verdict.master->port);
        if (follows && !ok)
            (void)no_memory(l);
        else if (!ok)
            (void)refuse(l, STATUS_UNAVAILABLE, "the Sentinels name another master by now");
    }
    free(heard);
    return ok;
}

/* By the node that was asked last, as long as it answers; then by all of the URL. */
static bool follow_cluster(server_link *l, const server *s) {
    if (l->conn && seeds_go_on(l, SKEW_INDEX_KEY))
        return true;
    places *p = find_places(l, s);
    bool ready = p && (l->conn || take_login(l, p));
    if (p && !ready)
        (void)no_memory(l);
    bool ok = ready && seeds_lead(l, &p->master, &p->seeds, SKEW_INDEX_KEY);
    if (p)
        wipe(p);
    return ok;
}

bool link_follow(server_link *l, const server *s) {
    return server_by_cluster(s) ? follow_cluster(l, s) : again(l, s, true);
}

bool link_leads_on(const server_link *l, const server *s) {
    return server_by_cluster(s) && l->elsewhere == TL_MOVED;
}

bool link_is_named(server_link *l, const server *s) {
    return again(l, s, false);
}
