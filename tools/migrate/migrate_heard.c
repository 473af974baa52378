/*
 * MONITOR shows commands, not replies. So it is not known which SETNX acquired: a hold is from a connection's
 * last SETNX or GETSET of the key to its DEL. All results are samples.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/glob.h"
#include "migrate/migrate_heard.h"

#define US_PER_MS 1000
#define ATTEMPT_MOST_US                                                                            \
    (60 * 1000 * US_PER_MS) /* a GETSET later than that belongs to another attempt */

bool heard_begin(heard *ret, const migrate_register *reg) {
    *ret = (heard){.reg = reg,
                   .client = calloc(HEARD_CLIENTS, sizeof *ret->client),
                   .attempt = calloc(HEARD_ATTEMPTS, sizeof *ret->attempt)};
    if (ret->client && ret->attempt)
        return true;
    heard_end(ret);
    return false;
}

void heard_end(heard *all) {
    free(all->client);
    free(all->attempt);
    *all = (heard){.client = NULL};
}

/* ---- clients ------------------------------------------------------------------------------------- */

/* "10.0.0.7" of "10.0.0.7:4001", and "fe80::1" of "[fe80::1]:4001". */
static void host_of(char host[SKEW_CLIENT_SIZE], const char *address) {
    const char *colon = strrchr(address, ':');
    size_t n = colon ? (size_t)(colon - address) : strlen(address);

    if (n > 2 && address[0] == '[' && address[n - 1] == ']') {
        address++;
        n -= 2;
    }
    (void)snprintf(host, SKEW_CLIENT_SIZE, "%.*s", (int)n, address);
}

static heard_client *client_of(heard *all, const char *address) {
    for (int i = 0; i < all->clients; i++)
        if (strcmp(all->client[i].row.address, address) == 0)
            return &all->client[i];
    if (all->clients == HEARD_CLIENTS) {
        all->more++;
        return NULL;
    }
    heard_client *client = &all->client[all->clients++];
    (void)snprintf(client->row.address, sizeof client->row.address, "%s", address);
    host_of(client->host, address);
    return client;
}

/* Where a take counts: none is left out, however many connections there are. */
static heard_client *taker_of(heard *all, const char *address) {
    heard_client *client = client_of(all, address);

    if (client)
        return client;
    (void)snprintf(all->rest.row.address, sizeof all->rest.row.address, "further connections");
    return &all->rest;
}

static bool is_listed(const heard *all, const char *address) {
    for (int i = 0; i < all->clients; i++)
        if (strcmp(all->client[i].row.address, address) == 0)
            return true;
    return false;
}

void heard_list(heard *all, tl_bytes list, bool begin) {
    client_row row;

    if (begin)
        all->others = all->connections = 0;
    while (client_list_next(&list, &row)) {
        bool suspect = client_is_suspect(&row);
        all->connections++;
        all->others += !client_may_be_ours(&row);
        if (!suspect && !is_listed(all, row.address))
            continue;
        heard_client *client = client_of(all, row.address);
        if (!client)
            continue;
        if (client->listed && !suspect) /* its last suspicious command says more */
            memcpy(row.command, client->row.command, sizeof row.command);
        client->row = row;
        client->listed = true;
    }
}

static const char *address_of(const skew_heard *command) {
    if (command->by == SKEW_BY_SCRIPT)
        return "a script";
    return command->by == SKEW_BY_UNIX ? "the unix socket" : command->client;
}

/* Notes a key of each family: patterns are known later. */
static void note_key(heard_client *client, tl_bytes key) {
    char family[NAMES_FAMILY], other[NAMES_FAMILY];

    (void)names_family(family, key);
    for (int i = 0; i < client->keys; i++)
        if (strcmp(names_family(other, tl__bytes_of(client->key[i])), family) == 0)
            return;
    if (client->keys < HEARD_KEYS)
        tl__bytes_print(client->key[client->keys++], KEY_SHOWN, key);
}

static void note_registered(const heard *all, heard_client *client, tl_bytes key) {
    if (!all->reg->readable || !tl__glob_fits(tl__bytes_of(all->reg->keys), key))
        return;
    client->registered++;
    tl__bytes_print(client->registered_key, KEY_SHOWN, key);
}

/* ---- attempts ------------------------------------------------------------------------------------ */

static heard_attempt *attempt_of(heard *all, const skew_heard *command, uint64_t *ret_id) {
    uint64_t id = tl__bytes_hash(0, tl__bytes_of(command->client));

    *ret_id = tl__bytes_hash(id, tl__bytes(command->word[1].bytes, command->word[1].n)) | 1;
    return &all->attempt[*ret_id / 2 % HEARD_ATTEMPTS];
}

static void follow_take(heard *all, const skew_heard *command, bool setnx) {
    uint64_t id;
    heard_attempt *attempt = attempt_of(all, command, &id);
    int64_t now_us = command->stamp_us;
    bool known = attempt->id == id && now_us >= attempt->began_us &&
                 now_us - attempt->began_us < ATTEMPT_MOST_US;

    if (!setnx && known) {
        int64_t delay_ms = (now_us - attempt->began_us + US_PER_MS - 1) / US_PER_MS;
        found_sample(&all->delays, delay_ms, delay_ms);
    }
    if (setnx)
        *attempt = (heard_attempt){.id = id, .began_us = now_us, .take_us = now_us};
    else if (known)
        attempt->take_us = now_us;
}

static void follow_del(heard *all, found *found, const skew_heard *command) {
    tl_bytes key = tl__bytes(command->word[1].bytes, command->word[1].n);
    uint64_t id;
    heard_attempt *attempt = attempt_of(all, command, &id);
    int64_t hold_us = command->stamp_us - attempt->take_us;

    if (attempt->id != id || hold_us < 0)
        return;
    attempt->id = 0;
    found_held(found, key, hold_us / US_PER_MS, (hold_us + US_PER_MS - 1) / US_PER_MS);
}

/* ---- commands ------------------------------------------------------------------------------------ */

static bool is_wanted(const heard *all, const skew_heard *command) {
    return command->words >= 2 && !command->word[1].cut &&
           (!all->keys || tl__glob_fits(tl__bytes_of(all->keys),
                                        tl__bytes(command->word[1].bytes, command->word[1].n)));
}

static void learn_take(heard *all, found *found, const skew_heard *command, bool setnx) {
    tl_bytes key = tl__bytes(command->word[1].bytes, command->word[1].n);
    tl_bytes text = tl__bytes(command->word[2].bytes, command->word[2].n);
    char dialects[SKEW_ALIKE_SIZE];
    tl_interval written;

    if (command->word[2].cut ||
        !skew_stamp_guess(all->dialect, text, command->stamp_us, &written, dialects))
        return;
    found_family *family = found_heard(found, key, dialects);
    if (family)
        found_sample(&family->lifetimes, (written.lo - command->stamp_us) / US_PER_MS,
                     (written.hi - command->stamp_us) / US_PER_MS);
    heard_client *client = taker_of(all, address_of(command));
    client->takes++;
    note_key(client, key);
    note_registered(all, client, key);
    if (command->by == SKEW_BY_TCP)
        follow_take(all, command, setnx);
}

void heard_learn(heard *all, found *found, const skew_heard *command) {
    bool setnx = skew_heard_is(command, "setnx");

    if (!is_wanted(all, command))
        return;
    if (command->words == SKEW_WORDS && (setnx || skew_heard_is(command, "getset")))
        learn_take(all, found, command, setnx);
    else if (command->by == SKEW_BY_TCP &&
             (skew_heard_is(command, "del") || skew_heard_is(command, "unlink")))
        follow_del(all, found, command);
}
