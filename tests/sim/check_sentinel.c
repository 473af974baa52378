/*
 * What must hold where Sentinels have others take over: what is built for one server is asked of no other, an answer
 * counts only while its server is named the master, and who is told of a failover asks the former master no more.
 *
 * Which locks may be held twice follows from sim_config_excludes.
 */
#include "client/client.h"
#include "transport/site.h"
#include "world.h"

#define TOLD_MS 1 /* what has been read is acted upon so soon */

bool __real_tl__site_lead(tl_site *site, const tl_endpoint *endpoint, int64_t epoch);
bool __wrap_tl__site_lead(tl_site *site, const tl_endpoint *endpoint, int64_t epoch);

/* ---- where clients are led ----------------------------------------------------------------------- */

/* "10.0.0.2", with or without a port. -1: it is no server of ours. */
static int server_of(tl_bytes label) {
    static const char begin[] = "10.0.0.";
    size_t n = sizeof begin - 1;
    int i = label.n > n && memcmp(label.p, begin, n) == 0 ? label.p[n] - '1' : -1;
    return i < SIM_NODES ? i : -1;
}

bool __wrap_tl__site_lead(tl_site *site, const tl_endpoint *endpoint, int64_t epoch) {
    bool led = __real_tl__site_lead(site, endpoint, epoch);
    int server = server_of(tl__bytes_of(endpoint->host));
    sim_host *h = sim_enter()->host;
    if (led && server >= 0)
        h->led[h->leads++ % SIM_LED_TO] = (sim_led){site, site->last, (uint8_t)server};
    for (int i = 0; i < SIM_CLIENTS; i++)
        if (h->switched[i].keeper == sim_the_world->thread && h->switched[i].former == server)
            h->switched[i].at = 0;
    sim_leave();
    return led;
}

uint8_t sim_sentinel_built_for(const sim_host *h, const void *site, uint32_t generation) {
    for (unsigned i = h->leads; site && generation && i > 0 && i + SIM_LED_TO > h->leads; i--) {
        const sim_led *led = &h->led[(i - 1) % SIM_LED_TO];
        if (led->site == site && led->generation == generation)
            return (uint8_t)(1U << led->server);
    }
    return 0;
}

/* ---- what a server executes ---------------------------------------------------------------------- */

static void check_built_for(sim_world *w, const sim_request *m, const sim_asked *a) {
    int server = m->socket->server;
    if (a->hash && a->servers && !(a->servers >> server & 1))
        sim_fail(w, SIM_ALL, "server %d executes for host %c what was built for another", server,
                 m->sender->name);
}

static void note_kept(sim_world *w, int server, uint32_t number) {
    sim_token *t = &w->token[number];
    t->kept[t->keeps++ % SIM_KEPT] = (sim_kept){w->now, (uint8_t)server};
    w->stats.former_keeps += sim_server_is_former(w, server);
}

static void keeps_executed(sim_world *w, const sim_request *m, const tl_reply *reply) {
    int64_t status[SIM_JOINED_MAX];
    sim_check_statuses(m, reply, status);
    for (size_t i = 0; i < m->nkeys / 2U && i < SIM_JOINED_MAX; i++) {
        tl_bytes own[SIM_OWN_WORDS] = {{0}};
        size_t n = sim_check_own_words(m, i, own);
        check_built_for(
            w, m,
            sim_asked_by(m->sender, m->socket->boot, sim_hash_words(true, m->script, own, n)));
        if (status[i] == 1)
            note_kept(w, m->socket->server, sim_token_number(w, own[2 + sim_check_heads(m)]));
    }
}

static bool gives(const sim_request *m, const tl_reply *reply) {
    int64_t status = 0;
    bool takes = m->script == TL_SCRIPT_ACQUIRE || m->script == TL_SCRIPT_JOIN;
    return takes && (reply->type == TL_REPLY_STRING ||
                     (tl__reply_int(tl__reply_item(reply, 0), &status) && status == 1));
}

/* What it does is of no history that lasts. But who undoes something there has done so. */
void sim_sentinel_forgotten(sim_world *w, const sim_request *m, const tl_reply *reply) {
    int64_t status = 0;
    w->stats.former_commands++;
    if (!m->is_script || reply->type == TL_REPLY_ERROR)
        return;
    w->stats.former_takes += gives(m, reply);
#ifdef TL_COMPAT
    if (m->script == TL_SCRIPT_SWAP) {
        (void)tl__reply_int(tl__reply_item(reply, 0), &status);
        w->token[m->token].ours = w->token[m->token].ours || (m->argv[1].n == 0 && status == 1);
        return;
    }
    if (m->script == TL_SCRIPT_NOTE) {
        sim_token *its = &w->token[sim_token_number(w, m->argv[1])];
        its->dropped = its->dropped || m->argc == 2;
        return;
    }
#endif
    bool drops = m->script == TL_SCRIPT_RELEASE || m->script == TL_SCRIPT_FREE ||
                 m->script == TL_SCRIPT_REST;
    if (!drops)
        return;
    (void)tl__reply_int(reply, &status);
    sim_token *t = &w->token[sim_token_number(w, m->argv[m->nkeys])];
    t->dropped = true;
    t->ours = t->ours || status == 1;
}

void sim_sentinel_executed(sim_world *w, const sim_request *m, const tl_reply *reply) {
    const sim_socket *s = m->socket;
    bool exec = !m->is_script && tl__bytes_eq(m->argv[0], TL_LITERAL("EXEC"));
    check_built_for(w, m, m->asked);
    for (unsigned i = 0; exec && s->multi && i < s->queued; i++)
        check_built_for(w, m, s->command[i].asked);
    if (m->is_script && (m->script == TL_SCRIPT_RENEW || m->script == TL_SCRIPT_REFRESH))
        keeps_executed(w, m, reply);
    if (sim_server_is_former(w, s->server))
        sim_sentinel_forgotten(w, m, reply);
}

/* ---- what counts --------------------------------------------------------------------------------- */

/* Has this Sentinel called it the master at any time in between? */
static bool has_named(const sim_sentinel *s, int server, sim_ns from, sim_ns to) {
    for (unsigned i = 0; i < s->turns; i++)
        if (s->turn[i].names == server && s->turn[i].at <= to &&
            (i + 1 == s->turns || s->turn[i + 1].at >= from))
            return true;
    return false;
}

static bool was_named(const sim_world *w, int server, sim_ns from) {
    int n = 0;
    for (int i = 0; i < SIM_SENTINELS; i++)
        n += has_named(&w->sentinel[i], server, from, w->now);
    return n > SIM_SENTINELS / 2;
}

/* Where it was renewed several times of late any of these may be the one that was answered. */
static void check_renewal(sim_world *w, const sim_lock *l, uint32_t number, int server) {
    const sim_token *t = &w->token[number];
    bool kept = false;
    for (unsigned i = 0; i < t->keeps && i < SIM_KEPT; i++) {
        kept = kept || t->kept[i].server == server;
        if (t->kept[i].server == server && was_named(w, server, t->kept[i].at))
            return;
    }
    if (kept)
        sim_fail(w, l->key,
                 "%s counts on a renewal by server %d, which no majority has named since",
                 l->actor->name, server);
}

void sim_sentinel_counted(sim_world *w, const sim_lock *l, uint32_t number, tl_bytes by,
                          const tl_mono *asked) {
    int server = server_of(by);
    if (!w->cfg.sentinel || !l || server < 0)
        return;
    w->stats.former_believed += sim_server_is_former(w, server);
    if (!asked) {
        check_renewal(w, l, number, server);
        return;
    }
    tl_mono since = tl__mono_add_ms(*asked, -SIM_COUNTS_MS);
    if (!was_named(w, server, sim_clock_when(&l->actor->host->boot, since.ns)))
        sim_fail(w, l->key,
                 "%s counts on a lock of server %d, which no majority has named for a second",
                 l->actor->name, server);
}

/* ---- what is told -------------------------------------------------------------------------------- */

void sim_sentinel_told(sim_socket *s, int former) {
    s->reported_at = s->answered;
    s->told_former = (uint8_t)former;
}

void sim_sentinel_read(sim_world *w, sim_socket *s) {
    sim_switched *to = NULL;
    s->reported_at = 0;
    w->stats.switches_read++;
    for (int i = 0; i < SIM_CLIENTS; i++) {
        sim_switched *one = &s->host->switched[i];
        if (one->keeper == w->thread || !to || one->at < to->at)
            to = one;
        if (one->keeper == w->thread)
            break;
    }
    *to = (sim_switched){w->thread, w->thread->life, s->told_former, w->now};
}

/* By the thread that has read it, so that nothing is in between. */
void sim_sentinel_sends(sim_world *w, const sim_socket *s) {
    const sim_host *h = s->host;
    for (int i = 0; i < SIM_CLIENTS; i++) {
        const sim_switched *one = &h->switched[i];
        if (one->at > 0 && one->keeper == w->thread && one->life == w->thread->life &&
            one->former == s->server && w->now > one->at + TOLD_MS * SIM_MS && h->stalled < one->at)
            sim_fail(w, SIM_ALL,
                     "host %c asks server %d, though it was told that another has taken over",
                     h->name, (int)s->server);
    }
}
