/*
 * One step of a machine, run by the driver or the keeper. For state that all machines share it locks
 * keeper.mutex, unless that is held already (tl_run.in).
 */
#include "client/run.h"

#include "client/trace.h"
#include "ground/guard.h"

#define DISRUPTED_NS (2 * INT64_C(1000000000)) /* a second by a slow clock, and more */

static void learn_clock(const tl_run *run, const tl_event *event, const tl_out *out) {
    tl_keeper *keeper = &run->client->keeper;
    if (tl__node_learn(run->node, out->bracket, event->asked.generation, event->now) &&
        GUARD(clock_step_rejudges))
        run->in ? tl__keeper_rejudge_in(keeper) : tl__keeper_rejudge(keeper);
}

static void learn(const tl_run *run, const tl_event *event, const tl_out *out) {
    tl_client *client = run->client;
    if (out->has_bracket)
        learn_clock(run, event, out);
    if (out->level)
        tl__node_level(run->node, out->level, event->asked.generation);
    if (out->clock_off)
        tl__client_warn(client, out->clock_message, event->now);
    if (out->keeps)
        client->protocol->upkeep->keep(client, out, run->in);
}

static void listen_for(const tl_run *run, const tl_out *out, tl_status status) {
    tl_keeper *keeper = &run->client->keeper;
    tl_listener *listener = run->listener;
    bool ends = GUARD(listening_ends) && (out->disarm || status != TL_GO);
    if (!listener)
        return;
    if (ends)
        run->in ? tl__keeper_forget_in(keeper, listener) : tl__keeper_forget(keeper, listener);
    if (out->arm && status == TL_GO)
        run->in ? tl__keeper_listen_in(keeper, listener, out->topic, out->watched, out->token,
                                       run->machine->key, out->armed)
                : tl__keeper_listen(keeper, listener, out->topic, out->watched, out->token,
                                    run->machine->key, out->armed);
    if (out->run)
        run->in ? tl__keeper_follow_in(keeper, listener, out->run)
                : tl__keeper_follow(keeper, listener, out->run);
}

static tl_status step(const tl_run *run, const tl_event *event, tl_out *out) {
    tl__out_clear(out);
    tl_status status = run->machine->step(run->machine->state, event, out);
    if (run->client->trace)
        tl__trace_step(run->client, run->node, run->machine, event, out, status);
    return status;
}

/* A step of a machine that asks several servers. It gets the clocks of all, so that a request is built by
 * its server's clock. */
static tl_status step_with_all(const tl_run *run, const tl_event *event, tl_out *out) {
    const tl_fleet *fleet = &run->client->fleet;
    tl_server all[TL_QUORUM_MAX];
    tl_event e = *event;
    for (unsigned i = 0; i < fleet->servers; i++)
        all[i] = *tl__node_server(fleet->server[i], event->now, NULL);
    e.servers = all;
    e.server = &all[e.from];
    tl_status status = step(run, &e, out);
    learn(run, &e, out);
    if (out->has_bracket)
        tl__run_compare_clocks(run->client, all, e.now);
    if (out->disarm || status != TL_GO)
        tl__keeper_forget_all_in(&run->client->keeper, run->listener);
    if (out->arm && status == TL_GO)
        tl__keeper_listen_all_in(&run->client->keeper, run->listener, out->topic);
    return status;
}

tl_status tl__run_step(tl_run *run, const tl_event *event, tl_out *out) {
    if (run->all)
        return step_with_all(run, event, out);
    if (!run->node)
        run->node = tl__fleet_node(run->client, run->machine->key);
    tl_server room;
    tl_event e = *event;
    e.server = tl__node_server(GUARD(clock_of_its_server) ? run->node : &run->client->node,
                               event->now, run->in ? NULL : &room);
    tl_status status = step(run, &e, out);
    out->send.generation = e.server->generation; /* it was built by this server's clock */
    learn(run, &e, out);
    listen_for(run, out, status);
    return status;
}

/* The redirection in a reply, if there is one. Then none of the other commands was executed either. */
static tl_redirect redirection(const tl_answer *answer) {
    tl_redirect none = {.kind = TL_NOT_ELSEWHERE};
    for (unsigned i = 0; answer->ok && i < answer->count; i++) {
        const tl_reply *reply = &answer->reply[i];
        tl_redirect found = reply->type == TL_REPLY_ERROR ? tl__redirect_read(reply->text) : none;
        if (found.kind != TL_NOT_ELSEWHERE)
            return found;
    }
    return none;
}

/* Turn a redirection into a FAILED with TL_EELSEWHERE, and set *node. CLUSTERDOWN (the slot has no owner)
 * stays an error like any other. false: there is no redirection. */
static bool is_led_on(tl_node **node, const tl_answer *answer, bool alone, tl_event *ret) {
    static const char message[] = "another node of the cluster has the key";
    tl_fleet *fleet = &(*node)->client->fleet;
    tl_redirect r = fleet->row->redirected ? redirection(answer) : (tl_redirect){0};
    if (r.kind == TL_NOT_ELSEWHERE)
        return false;
    tl_node *named = fleet->row->redirected(fleet, *node, &r);
    if (r.kind == TL_CLUSTER_DOWN)
        return false;
    *node = alone ? named : NULL;
    *ret = (tl_event){
        .kind = TL_FAILED,
        .now = answer->received,
        .asked = {.ticket = answer->ticket, .sent = answer->sent},
        .failed = {.why = TL_EELSEWHERE,
                   .redirect = (uint8_t)(r.kind == TL_ASK && alone && !named ? TL_MOVED : r.kind),
                   .message = TL_LITERAL(message)}};
    return true;
}

/* After a disruption the clock has shown less than passed. A master that was named, or a counter that was
 * raised, counts for a second by that clock: so it counts again only if all of that second came after the
 * disruption. */
static bool is_disrupted_lately(tl_client *client, tl_mono now) {
    tl_mono at = tl__disrupted_at(&client->disruptions);
    return at.ns != 0 && tl__ns_until(at, now) < DISRUPTED_NS && GUARD(seconds_after_disruption);
}

tl_event tl__run_answered(tl_node **node, const tl_answer *answer, bool alone) {
    tl_event led;
    if (answer->ok && answer->count > 0) /* without commands it only waited for the connection */
        tl__node_answered(*node, answer->received);
    if (is_led_on(node, answer, alone, &led))
        return led;
    bool disrupted = is_disrupted_lately((*node)->client, answer->received);
    bool unnamed = answer->unnamed || (disrupted && (*node)->site);
    if (!answer->ok) /* another node may have the key by now */
        *node = NULL;
    tl_event e = {.asked = {.ticket = answer->ticket,
                            .native = answer->native,
                            .generation = answer->generation,
                            .sent = answer->sent,
                            .run = answer->run,
                            .id = answer->id}};
    if (answer->ok) {
        e.kind = TL_REPLY;
        e.now = answer->received;
        e.replied = (tl_replied){.reply = answer->reply,
                                 .count = answer->count,
                                 .stale = answer->stale || (disrupted && answer->native),
                                 .unnamed = unnamed,
                                 .place = answer->message};
    } else {
        e.kind = TL_FAILED;
        e.now = tl__mono_now();
        e.failed = (tl_failure){.why = answer->why,
                                .sys_errno = answer->sys_errno,
                                .maybe_sent = answer->maybe_sent,
                                .absent = answer->absent,
                                .message = answer->message};
    }
    return e;
}

/* Any connection is good for a send that is not bound to one: then there were too many requests. */
static tl_bytes refusal(const tl_send *send, tl_err why) {
    bool bound = send->here || send->confirm || (send->pin && send->pin->closes);
    if (why == TL_ENOMEM)
        return TL_LITERAL("out of memory");
    if (why == TL_EELSEWHERE)
        return TL_LITERAL("another server is the master now");
    return bound ? TL_LITERAL("the connection was lost")
                 : TL_LITERAL("too many requests are in flight");
}

tl_event tl__run_refused(const tl_send *send, tl_err why, tl_mono now) {
    return (tl_event){.kind = TL_FAILED,
                      .now = now,
                      .asked = {.ticket = send->ticket},
                      .failed = {.why = why, .message = refusal(send, why)}};
}

bool tl__run_posted(unsigned *flags, tl_event *ret) {
    static const struct {
        unsigned bits, no;
        tl_event_kind kind;
    } rows[] = {{TL_WAKE_CANCEL, 0, TL_CANCEL},
                {TL_WAKE_ARMED | TL_WAKE_DISARMED, TL_WAKE_DISARMED, TL_ARMED},
                {TL_WAKE_WATCHED | TL_WAKE_UNWATCHED, TL_WAKE_UNWATCHED, TL_WATCHED},
                {TL_WAKE_GRANTED, 0, TL_GRANTED},
                {TL_WAKE_NEAR, 0, TL_NEAR},
                {TL_WAKE_WOKEN, 0, TL_WOKEN}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (*flags & rows[i].bits) {
            *ret = (tl_event){.kind = rows[i].kind,
                              .now = tl__mono_now(),
                              .armed = rows[i].no && !(*flags & rows[i].no)};
            *flags &= ~rows[i].bits;
            return true;
        }
    return false;
}
