/*
 * Opens the server of a URL. It must never open a server that a majority of the Sentinels doesn't name.
 */
#include <stdlib.h>
#include <string.h>

#include "link/link_open.h"
#include "skew/judge/skew_record.h"

typedef struct {
    tl_endpoint master, login; /* still without a host; for the login to Sentinels */
    link_login own;            /* password and files of both, */
    tl_secret theirs;          /* unless Sentinels have a password of their own */
    tl_seeds seeds;
} places;

static int refuse(server_link *link, int status, const char *message) {
    link->status = status;
    (void)snprintf(link->message, sizeof link->message, "%s", message);
    return status;
}

static void wipe(places *places) {
    tl__endpoint_wipe(&places->master);
    tl__endpoint_wipe(&places->login);
    tl__secret_wipe(&places->own.secret);
    tl__secret_wipe(&places->theirs);
    free(places);
}

/* NULL: link->status and link->message say why. */
static places *find_places(server_link *link, const server *where) {
    const tl_client_options login = server_login(where);
    bool own = where->url && !where->from_env;
    places *places = calloc(1, sizeof *places);
    tl_error err;

    if (!places) {
        (void)refuse(link, STATUS_INTERNAL, "out of memory");
        return NULL;
    }
    if (tl__endpoint_parse_seeds(&places->master, &places->own.secret, &places->seeds,
                                 where->url ? where->url : "local:", &err)) {
        (void)refuse(link, own ? STATUS_USAGE : STATUS_CONFIG, "");
        (void)snprintf(link->message, sizeof link->message, "%s%s",
                       where->from_env ? "TIDELOCK_URL: " : "", err.message);
    } else if (places->seeds.kind == TL_URL_ETCD) {
        (void)refuse(
            link, own ? STATUS_USAGE : STATUS_CONFIG,
            "etcd: this command works with Redis servers only; these work with etcd: run, lock, "
            "unlock, extend, check, inspect, break, doctor and bench");
    } else if (places->seeds.kind == TL_URL_QUORUM) {
        (void)refuse(link, own ? STATUS_USAGE : STATUS_CONFIG, "");
        (void)snprintf(
            link->message, sizeof link->message,
            "redis+quorum: names several servers, but one server is needed here: give it the "
            "URL of each, as redis://HOST");
    } else if (tl__endpoint_add(&places->master, &places->own.files, &login, &err)) {
        (void)refuse(link, STATUS_CONFIG, err.message);
    } else {
        places->login = places->master;
        if (tl__endpoint_log_in_as(&places->login, &places->theirs, &login, &err) == TL_OK)
            return places;
        (void)refuse(link, STATUS_CONFIG,
                     "TIDELOCK_SENTINEL_USER, TIDELOCK_SENTINEL_PASSWORD: too long");
    }
    wipe(places);
    return NULL;
}

bool link_is_led(const server *where) {
    return server_by_sentinels(where) || server_by_cluster(where);
}

static int no_memory(server_link *link) {
    return refuse(link, STATUS_INTERNAL, "out of memory");
}

static void copy_login(tl_endpoint *ret, link_login *ret_own, const places *places) {
    *ret_own = places->own;
    *ret = places->master;
    ret->secret = &ret_own->secret;
    ret->files = &ret_own->files;
}

/* Set the link's login. It stays, even if the link leads nowhere. */
static bool take_login(server_link *link, const places *places) {
    if (!link->own)
        link->own = malloc(sizeof *link->own);
    if (!link->own)
        return false;
    copy_login(&link->endpoint, link->own, places);
    return true;
}

/* Turn the link to the master that the Sentinels name. If they don't, it leads nowhere, and has a message. */
static int lead(server_link *link, const sentinels *heard) {
    const tl_sentinel_view *master = heard->verdict.master;

    if (!heard->verdict.sure)
        return link->status = sentinels_trouble(heard, link->message, sizeof link->message);
    return link_turn(link, master->host, master->port) ? 0 : no_memory(link);
}

static int open_by(server_link *link, const server *where, sentinels *heard, bool all) {
    *link = (server_link){.conn = NULL};
    places *places = find_places(link, where);
    int status = 0;

    if (!places)
        return link->status;
    if (!take_login(link, places))
        status = no_memory(link);
    if (status == 0 && places->seeds.master[0])
        status = sentinels_ask(heard, &places->login, &places->seeds, all) ? lead(link, heard)
                                                                           : no_memory(link);
    else if (status == 0 && places->seeds.kind == TL_URL_CLUSTER)
        status = seeds_lead(link, &places->master, &places->seeds, SKEW_INDEX_KEY) ? 0
                                                                                   : link->status;
    else if (status == 0 && !link_begin(link))
        status = no_memory(link);
    wipe(places);
    return status;
}

int link_open_quietly(server_link *link, const server *where) {
    sentinels *heard = malloc(sizeof *heard);
    int status;

    if (heard) {
        status = open_by(link, where, heard, false);
    } else {
        *link = (server_link){.conn = NULL};
        status = no_memory(link);
    }
    free(heard);
    if (status)
        link_close(link);
    return status;
}

int link_open(server_link *link, const server *where) {
    int status = link_open_quietly(link, where);

    return status ? fail(status, "%s", link->message) : 0;
}

int link_open_by(server_link *link, const server *where, sentinels *ret) {
    *ret = (sentinels){.count = 0};
    int status = open_by(link, where, ret, true);

    if (status == 0 || ret->count > 0)
        return 0;
    link_close(link);
    return fail(status, "%s", link->message);
}

int link_places(server_link *link, const server *where, tl_endpoint *ret_login, link_login *ret_own,
                tl_seeds *ret_seeds) {
    *link = (server_link){.conn = NULL};
    places *places = find_places(link, where);

    if (!places)
        return link->status;
    copy_login(ret_login, ret_own, places);
    *ret_seeds = places->seeds;
    wipe(places);
    return 0;
}

int link_replicas(server_link *link, const server *where, sentinel_replicas *ret) {
    *link = (server_link){.conn = NULL};
    places *places = find_places(link, where);
    sentinels *heard = places ? malloc(sizeof *heard) : NULL;
    int status = places && !heard ? no_memory(link) : link->status;

    if (heard && !sentinels_ask(heard, &places->login, &places->seeds, false))
        status = no_memory(link);
    else if (heard && sentinels_replicas(heard, &places->login, ret))
        status = 0;
    else if (heard)
        status = refuse(link, STATUS_UNAVAILABLE, "no Sentinel says which replicas the master has");
    free(heard);
    if (places)
        wipe(places);
    return status;
}

/* ---- follow a later change ------------------------------------------------------------------- */

/* Ask which master the Sentinels name now. False: link->status and link->message say why there is none. */
static bool ask_again(server_link *link, const server *where, sentinels *heard) {
    places *places = find_places(link, where);
    bool ok = places && sentinels_ask(heard, &places->login, &places->seeds, false);

    if (places && !link->conn) /* they named none before, so the link has no login yet */
        ok = take_login(link, places) && ok;
    if (places && !ok)
        (void)no_memory(link);
    else if (ok && !heard->verdict.sure)
        link->status = sentinels_trouble(heard, link->message, sizeof link->message);
    if (places)
        wipe(places);
    return ok && heard->verdict.sure;
}

static bool is_at(const server_link *link, const tl_sentinel_view *master) {
    return link->endpoint.port == master->port && strcmp(link->endpoint.host, master->host) == 0;
}

static bool again(server_link *link, const server *where, bool follows) {
    if (!server_by_sentinels(where))
        return true;
    sentinels *heard = malloc(sizeof *heard);
    bool ok = heard ? ask_again(link, where, heard) : no_memory(link) == 0;
    if (ok && !is_at(link, heard->verdict.master)) {
        ok = follows && link_turn(link, heard->verdict.master->host, heard->verdict.master->port);
        if (follows && !ok)
            (void)no_memory(link);
        else if (!ok)
            (void)refuse(link, STATUS_UNAVAILABLE, "the Sentinels now name another master");
    }
    free(heard);
    return ok;
}

/* Ask the node of the link, as long as it replies; then all nodes of the URL. */
static bool follow_cluster(server_link *link, const server *where) {
    if (link->conn && seeds_go_on(link, SKEW_INDEX_KEY))
        return true;
    places *places = find_places(link, where);
    bool ready = places && (link->conn || take_login(link, places));
    if (places && !ready)
        (void)no_memory(link);
    bool ok = ready && seeds_lead(link, &places->master, &places->seeds, SKEW_INDEX_KEY);
    if (places)
        wipe(places);
    return ok;
}

bool link_follow(server_link *link, const server *where) {
    return server_by_cluster(where) ? follow_cluster(link, where) : again(link, where, true);
}

bool link_leads_on(const server_link *link, const server *where) {
    return server_by_cluster(where) && link->elsewhere == TL_MOVED;
}

bool link_is_named(server_link *link, const server *where) {
    return again(link, where, false);
}
