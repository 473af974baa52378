/*
 * Reads lines of "name:value" and of a cluster's nodes. Odd lines are skipped; a value that does
 * not fit is rejected.
 */
#include <string.h>

#include "skew/judge/skew_topology.h"

static tl_bytes next_line(tl_bytes *rest) {
    tl_bytes line = tl__bytes_take(rest, '\n');
    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    return line;
}

static bool begins(tl_bytes text, const char *with, tl_bytes *ret_rest) {
    size_t n = strlen(with);
    if (!tl__bytes_starts(text, with))
        return false;
    *ret_rest = tl__bytes(text.p + n, text.n - n);
    return true;
}

static bool read_port(tl_bytes text, uint16_t *ret) {
    int64_t v;
    if (!tl__bytes_to_int(text, &v) || v < 1 || v > 65535)
        return false;
    *ret = (uint16_t)v;
    return true;
}

/* ---- addresses ------------------------------------------------------------------------------ */

static bool host_fits(const char *host, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (host[i] <= ' ' || host[i] > '~' || strchr("\"'\\|,{}", host[i]))
            return false;
    return n < TL_HOST_SIZE;
}

void places_add(redis_places *places, const char *host, size_t n, uint16_t port) {
    if (!host_fits(host, n))
        return;
    for (int i = 0; i < places->count; i++)
        if (places->place[i].port == port && strlen(places->place[i].host) == n &&
            memcmp(places->place[i].host, host, n) == 0)
            return;
    if (places->count == PLACES_MAX) {
        places->more = true;
        return;
    }
    redis_place *place = &places->place[places->count++];
    memcpy(place->host, host, n);
    place->host[n] = '\0';
    place->port = port;
}

bool place_read(const char *text, size_t n, redis_place *ret) {
    size_t colon = n;
    while (colon > 0 && text[colon - 1] != ':')
        colon--;
    if (colon == 0 || !read_port(tl__bytes(text + colon, n - colon), &ret->port))
        return false;
    n = colon - 1;
    if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
        text++;
        n -= 2;
    }
    if (n == 0 || !host_fits(text, n))
        return false;
    memcpy(ret->host, text, n);
    ret->host[n] = '\0';
    return true;
}

/* ---- INFO ---------------------------------------------------------------------------------------- */

static bool numbered(tl_bytes line, const char *with, tl_bytes *ret_value) {
    tl_bytes rest;
    if (!begins(line, with, &rest) || rest.n == 0 || *rest.p < '0' || *rest.p > '9')
        return false;
    (void)tl__bytes_take(&rest, ':');
    *ret_value = rest;
    return true;
}

/* The member "name=" of "a=1,b=2". */
static bool member(tl_bytes list, const char *name, tl_bytes *ret) {
    while (list.n)
        if (begins(tl__bytes_take(&list, ','), name, ret))
            return true;
    return false;
}

/* "ip=10.0.0.2,port=6379,..."; before 2.8 "10.0.0.2,6379,online". */
static void read_replica(tl_bytes value, redis_info *info) {
    tl_bytes ip, port, old = value;
    uint16_t number;
    if (!member(value, "ip=", &ip) || !member(value, "port=", &port)) {
        ip = tl__bytes_take(&old, ',');
        port = tl__bytes_take(&old, ',');
    }
    if (read_port(port, &number) && ip.n)
        places_add(&info->peers, ip.p, ip.n, number);
}

static void read_watched(tl_bytes value, redis_info *info) {
    tl_bytes name, address;
    redis_place place;
    if (!member(value, "name=", &name) || !member(value, "address=", &address) ||
        !place_read(address.p, address.n, &place))
        return;
    places_add(&info->peers, place.host, strlen(place.host), place.port);
    if (info->masters++ == 0)
        tl__bytes_print(info->master, name.n < sizeof info->master ? sizeof info->master : 1, name);
}

static void copy_id(tl_bytes value, char to[RUN_ID_SIZE]) {
    if (value.n < RUN_ID_SIZE)
        tl__bytes_print(to, RUN_ID_SIZE, value);
}

bool info_read(const char *text, size_t n, redis_info *ret) {
    tl_bytes rest = tl__bytes(text, n), value, host = {NULL, 0};
    bool version = false;

    *ret = (redis_info){.time_us = -1};
    while (rest.n) {
        tl_bytes line = next_line(&rest);
        uint16_t port;
        if (begins(line, "redis_version:", &value))
            version = true;
        else if (begins(line, "run_id:", &value))
            copy_id(value, ret->run_id);
        else if (begins(line, "redis_mode:", &value))
            ret->sentinel = tl__bytes_eq(value, TL_LITERAL("sentinel"));
        else if (begins(line, "cluster_enabled:", &value))
            ret->cluster = tl__bytes_eq(value, TL_LITERAL("1"));
        else if (begins(line, "server_time_usec:", &value) &&
                 (!tl__bytes_to_int(value, &ret->time_us) || ret->time_us < 0))
            ret->time_us = -1;
        else if (begins(line, "master_host:", &value))
            host = value;
        else if (begins(line, "master_port:", &value) && host.n && read_port(value, &port))
            places_add(&ret->peers, host.p, host.n, port);
        else if (numbered(line, "slave", &value))
            read_replica(value, ret);
        else if (numbered(line, "master", &value))
            read_watched(value, ret);
    }
    return version;
}

/* ---- CLUSTER NODES ------------------------------------------------------------------------------- */

static bool has_flag(tl_bytes flags, const char *flag) {
    while (flags.n)
        if (tl__bytes_eq(tl__bytes_take(&flags, ','), tl__bytes_of(flag)))
            return true;
    return false;
}

/* ID IP:PORT@BUS[,NAME] FLAGS ... */
static void read_node(tl_bytes line, redis_places *ret) {
    redis_place place;

    (void)tl__bytes_take(&line, ' ');
    tl_bytes address = tl__bytes_take(&line, ' '), flags = tl__bytes_take(&line, ' ');
    tl_bytes where = tl__bytes_take(&address, '@');
    if (flags.n == 0 || has_flag(flags, "myself") || has_flag(flags, "handshake"))
        return;
    if (has_flag(flags, "noaddr") || !place_read(where.p, where.n, &place))
        places_add(ret, "", 0, 0);
    else
        places_add(ret, place.host, strlen(place.host), place.port);
}

void nodes_read(const char *text, size_t n, redis_places *ret) {
    tl_bytes rest = tl__bytes(text, n);
    while (rest.n)
        read_node(next_line(&rest), ret);
}
