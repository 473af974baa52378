/*
 * One server, and one that Sentinels name.
 */
#include "client/backend.h"
#include "client/inquire.h"

tl_err tl__server_reach(tl_client *client, const char *what, tl_error *err) {
    tl_ask a;
    tl__ask_init(&a, (tl_bytes){0}, (tl_bytes){0}, client->attempt_ms, client->connect_ms);
    return tl__inquire(client, NULL, (tl_bytes){0}, &a, tl__ask_step, what, err);
}

tl_err tl__server_ping(tl_client *client, tl_error *err) {
    return tl__server_reach(client, "ping", err);
}

tl_err tl__server_look(tl_client *client, tl_ask *ask, tl_error *err) {
    return tl__inquire(client, NULL, ask->key, ask, tl__ask_step, "look", err);
}

tl_err tl__server_remove(tl_client *client, tl_break *b, tl_error *err) {
    return tl__inquire(client, NULL, b->key, b, tl__break_step, "break", err);
}

static tl_err scan(tl_client *client, tl_scan *s, uint64_t *cursor, tl_error *err) {
    s->cursor = *cursor;
    tl_err code = tl__inquire(client, NULL, (tl_bytes){0}, s, tl__scan_step, "scan", err);
    if (!code)
        *cursor = s->cursor;
    return code;
}

static tl_err open_sentinels(tl_client *client, const tl_seeds *seeds, const tl_client_options *o,
                             tl_error *err) {
    return tl__fleet_open_sentinels(&client->fleet, &client->node, seeds, o, err);
}

const tl_backend tl__backend_server = {
    TL_BACKEND_OF_ONE,       .scheme = "redis://", .ping = tl__server_ping,
    .look = tl__server_look, .scan = scan,         .remove = tl__server_remove,
};

const tl_backend tl__backend_sentinel = {
    TL_BACKEND_OF_ONE,      .scheme = "redis+sentinel://", .sentinel_login = true,
    .open = open_sentinels, .ping = tl__server_ping,       .look = tl__server_look,
    .scan = scan,           .remove = tl__server_remove,
};
