/*
 * Leases on phases, as the runtime keeps them: what was read, for all of a client's locks, and
 * the task that reads it again in time.
 */
#include <stdlib.h>

#include "client/client.h"

static void attended(tl_task *task, const tl_out *out, tl_status status) {
    (void)task;
    (void)out;
    (void)status;
}

static void attend(tl_client *client, uint8_t leased) {
    const tl_phases *phases = client->protocol->phases;
    tl_attendant *a = &client->attendant[leased];
    if (a->machine)
        return;
    a->machine = malloc(phases->attend_size);
    if (!a->machine)
        return; /* whoever acquires a lock reads for himself */
    phases->attend_init(a->machine, client->namespaces, leased, client->attempt_ms,
                        tl__client_seed(client));
    a->task = (tl_task){
        .machine = {.state = a->machine, .step = phases->attend_step, .does = "refresh the phase"},
        .stepped = attended};
    (void)tl__keeper_add(&client->keeper, &a->task, TL_START);
}

static void let_go(void *hold) {
    (void)hold;
}

static void leave(tl_client *client, uint8_t leased, const tl_attendant *a) {
    const tl_phases *phases = client->protocol->phases;
    phases->leave_init(a->machine, client->namespaces, leased, client->attempt_ms);
    const tl_machine machine = {
        .state = a->machine, .step = phases->attend_step, .does = "deregister"};
    tl__keeper_detach_in(&client->keeper, &machine, phases->attend_size, TL_START, NULL, let_go);
}

void tl__attend_end(tl_client *client) {
    tl__keeper_lock(&client->keeper);
    for (uint8_t i = 0; i < TL_NAMESPACES_MAX; i++)
        if (client->attendant[i].machine)
            tl__keeper_remove(&client->keeper, &client->attendant[i].task);
    tl__keeper_unlock(&client->keeper);
}

void tl__attend_leave(tl_client *client) {
    for (uint8_t i = 0; i < TL_NAMESPACES_MAX; i++)
        if (client->attendant[i].machine)
            leave(client, i, &client->attendant[i]);
}

void tl__attend_free(tl_client *client) {
    for (uint8_t i = 0; i < TL_NAMESPACES_MAX; i++)
        free(client->attendant[i].machine);
}

static void keep_lease(tl_client *client, uint8_t leased, const tl_lease *lease) {
    tl__mutex_lock(&client->mutex);
    tl__lease_merge(&client->server.lease[leased], lease);
    tl__mutex_unlock(&client->mutex);
}

void tl__client_lease_in(tl_client *client, uint8_t leased, const tl_lease *lease) {
    keep_lease(client, leased, lease);
    attend(client, leased);
}

void tl__client_lease(tl_client *client, uint8_t leased, const tl_lease *lease) {
    keep_lease(client, leased, lease);
    if (tl__keeper_ready(&client->keeper))
        return;
    tl__keeper_lock(&client->keeper);
    attend(client, leased);
    tl__keeper_unlock(&client->keeper);
}
