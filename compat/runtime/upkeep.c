/*
 * Phase leases in the runtime: the last lease read of each of a client's namespaces, and the
 * background tasks that read it again in time.
 */
#include <errno.h>
#include <stdlib.h>

#include "client/backend.h"
#include "client/client.h"
#include "ground/error.h"
#include "phase/phase.h"

/* The background task that keeps the lease on one namespace's phase fresh. */
typedef struct {
    tl_task task; /* first */
    tl_attend machine;
    bool begun; /* a lease was read; under keeper.mutex */
} attendant;

typedef struct {
    tl_namespaces *namespaces;
    attendant attendant[TL_NAMESPACES_MAX];
} upkeep;

static tl_err open_upkeep(tl_client *client, tl_error *err) {
    upkeep *u = calloc(1, sizeof *u);
    if (!u)
        return tl__fail(err, TL_ENOMEM, ENOMEM, "open a client: out of memory");
    client->upkeep = u;
    tl_token id = tl__token_draw();
    tl_err code = tl__namespaces_open(&client->legacy.options, tl__bytes_of(client->owner), &id,
                                      &u->namespaces, err);
    client->legacy.options.namespaces = NULL; /* the string is the caller's */
    return code;
}

static tl_err namespace_of(const tl_client *client, tl_bytes key, const void **ret, tl_error *err) {
    const upkeep *u = client->upkeep;
    *ret = tl__namespace_of(u->namespaces, key);
    return *ret ? TL_OK
                : tl__fail(err, TL_EINVALID, 0,
                           "namespaces: no pattern of the client matches this key");
}

/* ---- keeping leases fresh -------------------------------------------------------------------- */

static tl_machine machine(tl_task *task) {
    return (tl_machine){.state = &((attendant *)task)->machine,
                        .step = tl__attend_step,
                        .does = "refresh the phase"};
}

static void attended(tl_task *task, const tl_out *out, tl_status status) {
    (void)task;
    (void)out;
    (void)status;
}

static void attend(tl_client *client, uint8_t index) {
    static const tl_task_kind kind = {.machine = machine, .stepped = attended};
    upkeep *u = client->upkeep;
    attendant *a = &u->attendant[index];
    if (a->begun)
        return;
    a->begun = true;
    tl__attend_init(&a->machine, u->namespaces, index, client->attempt_ms, tl__client_seed(client));
    a->task = (tl_task){.kind = &kind};
    (void)tl__keeper_add(&client->keeper, &a->task, TL_START);
}

static void keep(tl_client *client, const tl_out *out, bool in) {
    tl_lease read;
    memcpy(&read, &out->kept, sizeof read);
    tl__mutex_lock(&client->mutex);
    tl__lease_merge((tl_lease *)&client->node.server.kept[out->keeps_at], &read);
    tl__node_changed(&client->node);
    tl__mutex_unlock(&client->mutex);
    if (client->backend->slotted) /* each acquire reads the phase by itself */
        return;
    if (in) {
        attend(client, out->keeps_at);
        return;
    }
    if (tl__keeper_ready(&client->keeper))
        return;
    tl__keeper_lock(&client->keeper);
    attend(client, out->keeps_at);
    tl__keeper_unlock(&client->keeper);
}

/* ---- closing --------------------------------------------------------------------------------- */

static void end(tl_client *client) {
    upkeep *u = client->upkeep;
    tl__keeper_lock(&client->keeper);
    for (uint8_t i = 0; i < TL_NAMESPACES_MAX; i++)
        if (u->attendant[i].begun)
            tl__keeper_remove(&client->keeper, &u->attendant[i].task);
    tl__keeper_unlock(&client->keeper);
}

static void let_go(void *hold) {
    (void)hold;
}

static void leave(tl_client *client) {
    upkeep *u = client->upkeep;
    for (uint8_t i = 0; i < TL_NAMESPACES_MAX; i++) {
        tl_attend *attend = &u->attendant[i].machine;
        if (!u->attendant[i].begun)
            continue;
        tl__leave_init(attend, u->namespaces, i, client->attempt_ms);
        const tl_machine machine = {.state = attend, .step = tl__attend_step, .does = "deregister"};
        tl__keeper_detach_in(&client->keeper, &machine, sizeof *attend, TL_START, NULL, let_go);
    }
}

static void free_upkeep(tl_client *client) {
    upkeep *u = client->upkeep;
    if (u->namespaces)
        tl__namespaces_close(u->namespaces);
    free(u);
    client->upkeep = NULL;
}

const tl_upkeep tl__phase_upkeep = {.open = open_upkeep,
                                    .of = namespace_of,
                                    .keep = keep,
                                    .end = end,
                                    .leave = leave,
                                    .free = free_upkeep};
