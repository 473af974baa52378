/*
 * The master that Sentinels name. All Sentinels are asked at once, one question at a time, whenever the site
 * is wanted. It is wanted for connecting, after a connection was lost, for acquiring a lock, and after the
 * replies of each round of renewals. The client also subscribes to +switch-master: when a Sentinel reports a
 * switch, the connections to the former master end at once.
 *
 * Only the keeper's thread runs this. It must never lead to a master that doesn't follow from the replies of
 * a majority of the Sentinels.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/client.h"
#include "client/fleet.h"
#include "client/sentinel_view.h"
#include "ground/error.h"
#include "ground/guard.h"
#include "transport/backoff.h"
#include "transport/wakeup.h"

#define SENTINELS_MAX (TL_FLEET_FDS / 2)
#define ASKED_MAX 8    /* a Sentinel with so many unanswered questions gets no more */
#define LEARN_MS 10000 /* between requests for the list of other Sentinels */
#define ANSWER_MS 1000 /* the most for a reply */
#define SWITCH TL_LITERAL("+switch-master")
#define SWITCH_WORDS 5

typedef struct {
    struct sentinels *of;
    tl_endpoint endpoint;
    tl_conn *conn;
    tl_wakeup *wakeup;
    bool seed;      /* the URL names it */
    unsigned asked; /* questions that it has not answered yet */
    bool waits;     /* the present question is one of these */
    bool asks_id;   /* the present question asks for SENTINEL MYID */
    bool asks_list; /* the present question asks for the other Sentinels */
    bool listed;    /* it has answered that once */
    bool failed;    /* the last question failed, because of: */
    tl_err why;
    char message[TL_SITE_MESSAGE_SIZE];
} sentinel;

typedef struct sentinels {
    tl_node *node;
    tl_site site;
    tl_endpoint like; /* a Sentinel's endpoint without the host */
    tl_secret secret; /* the password of the Sentinels */
    tl_seeds seeds;
    int64_t limit_ms, connect_ms;
    sentinel *list[SENTINELS_MAX];
    tl_sentinel_view view[SENTINELS_MAX];
    unsigned count;
    uint16_t question; /* the number of the present question */
    unsigned total;    /* `total` of the last sure verdict; 0: none was sure */
    bool asking, learns;
    bool nameless; /* a Sentinel does not report its run: ask all for SENTINEL MYID */
    bool suspects; /* a Sentinel has reported a switch */
    tl_mono began, by;
    tl_mono again; /* the earliest time of the next question */
    tl_mono learn; /* when to ask for the other Sentinels again */
    tl_backoff backoff;
    char message[TL_SITE_MESSAGE_SIZE];
} sentinels;

/* ---- the Sentinels --------------------------------------------------------------------------- */

static void on_answer(void *ctx, const tl_answer *answer);
static void on_woken(void *ctx, tl_bytes topic, tl_bytes payload);

static void free_sentinel(sentinel *one) {
    if (!one)
        return;
    one->of = NULL; /* on_answer() ignores the rest */
    tl__wakeup_free(one->wakeup);
    tl__conn_free(one->conn);
    tl__endpoint_wipe(&one->endpoint);
    free(one);
}

static sentinel *new_sentinel(sentinels *all, tl_bytes host, uint16_t port) {
    sentinel *one = calloc(1, sizeof *one);
    if (!one)
        return NULL;
    tl_conn_limits limits = {.connect_ms = all->connect_ms, .no_time = true, .ask_run = true};
    tl_conn_calls calls = {.answer = on_answer, .ctx = one};
    tl_wakeup_calls wakes = {.woken = on_woken, .ctx = one};
    one->of = all;
    if (tl__endpoint_at(&one->endpoint, &all->like, host, port)) {
        one->conn = tl__conn_new(&one->endpoint, &limits, &calls);
        limits.ask_run = false;
        one->wakeup = tl__wakeup_new(&one->endpoint, &limits, all->limit_ms, &wakes);
    }
    if (one->conn && one->wakeup)
        return one;
    free_sentinel(one);
    return NULL;
}

static bool is_at(const sentinel *one, tl_bytes host, uint16_t port) {
    return one->endpoint.port == port && tl__bytes_eq(tl__bytes_of(one->endpoint.host), host);
}

static bool is_known(const sentinels *all, tl_bytes host, uint16_t port) {
    for (unsigned i = 0; i < all->count; i++)
        if (is_at(all->list[i], host, port))
            return true;
    return false;
}

static bool add(sentinels *all, unsigned at, tl_bytes host, uint16_t port, bool seed) {
    sentinel *one = new_sentinel(all, host, port);
    if (!one)
        return false;
    one->seed = seed;
    all->list[at] = one;
    all->view[at] = (tl_sentinel_view){.kind = TL_VIEW_NONE};
    all->count += at == all->count;
    return true;
}

static void learn_of(sentinels *all, const tl_reply *others) {
    tl_bytes host;
    uint16_t port;
    for (size_t i = 0; others->type == TL_REPLY_ARRAY && i < others->count; i++)
        if (tl__sentinel_view_other(&others->items[i], &host, &port) &&
            !is_known(all, host, port) && all->count < SENTINELS_MAX)
            (void)add(all, all->count, host, port, false);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void failed(sentinel *one, tl_err why, tl_bytes message) {
    one->failed = true;
    one->why = why;
    tl__bytes_print(one->message, sizeof one->message, message);
}

static tl_command *command(tl_send *send, const char *what, tl_bytes name) {
    tl_command *built = &send->command[send->count++];
    *built = (tl_command){.form = TL_ARGV, .argc = 3};
    built->argv[0] = TL_LITERAL("SENTINEL");
    built->argv[1] = tl__bytes_of(what);
    built->argv[2] = name;
    return built;
}

static void ask_one(sentinels *all, unsigned i) {
    sentinel *one = all->list[i];
    tl_bytes name = tl__bytes_of(all->seeds.master);
    tl_send send = {.ticket = all->question, .by = all->by};
    all->view[i] = (tl_sentinel_view){.kind = TL_VIEW_NONE};
    one->waits = false;
    (void)command(&send, "MASTER", name);
    (void)command(&send, "GET-MASTER-ADDR-BY-NAME", name);
    one->asks_list = all->learns || (all->nameless && !one->listed);
    if (one->asks_list)
        (void)command(&send, "SENTINELS", name);
    one->asks_id = all->nameless || tl__conn_run(one->conn) == 0;
    if (one->asks_id)
        command(&send, "MYID", name)->argc = 2;
    if (one->asked >= ASKED_MAX || tl__conn_send(one->conn, &send, one, all->began))
        return;
    one->asked++;
    one->waits = true;
}

/* If there is no room for more, forget the Sentinels that the URL does not name and that have failed. */
static void forget_gone(sentinels *all) {
    unsigned kept = 0;
    for (unsigned i = 0; all->count == SENTINELS_MAX && i < SENTINELS_MAX; i++)
        if (all->list[i]->seed || !all->list[i]->failed)
            all->list[kept++] = all->list[i];
        else
            free_sentinel(all->list[i]);
    all->count = all->count == SENTINELS_MAX ? kept : all->count;
}

static void ask(sentinels *all, tl_mono now) {
    forget_gone(all);
    all->asking = true;
    all->suspects = false;
    all->began = now;
    all->by = tl__mono_add_ms(now, all->limit_ms);
    all->learns = !tl__mono_before(now, all->learn);
    if (all->learns)
        all->learn = tl__mono_add_ms(now, LEARN_MS);
    all->question++;
    for (unsigned i = 0; i < all->count; i++)
        ask_one(all, i);
}

static unsigned index_of(const sentinel *one) {
    unsigned i = 0;
    while (one->of->list[i] != one)
        i++;
    return i;
}

static void read_error(sentinel *one, const tl_reply *reply) {
    char message[TL_SITE_MESSAGE_SIZE], shown[128];
    const char *place = one->endpoint.label;
    bool error = reply->type == TL_REPLY_ERROR;
    tl_err why = error ? tl__refusal(reply->text) : TL_ESERVER;
    tl__bytes_print(shown, sizeof shown, error ? reply->text : TL_LITERAL("malformed reply"));
    if (why == TL_EUNSUPPORTED) {
        why = TL_ESERVER;
        (void)snprintf(message, sizeof message, "%s is no Sentinel", place);
    } else if (error && tl__bytes_has_word(reply->text, "NOAUTH")) {
        (void)snprintf(message, sizeof message, "%s: the Sentinel asks for a password", place);
    } else {
        (void)snprintf(message, sizeof message, "%s: %s", place, shown);
    }
    failed(one, why, tl__bytes_of(message));
}

/* Read the rest of the answer: the Sentinel's identity, and the other Sentinels. */
static void read_more(sentinel *one, tl_sentinel_view *view, const tl_answer *answer) {
    sentinels *all = one->of;
    if (GUARD(told_apart_by_id) && one->asks_id && answer->count > 2)
        tl__sentinel_view_read_id(view, &answer->reply[answer->count - 1]);
    all->nameless = all->nameless || answer->run == 0;
    if (one->asks_list && answer->count > 2) {
        one->listed = answer->reply[2].type == TL_REPLY_ARRAY;
        learn_of(all, &answer->reply[2]);
    }
    view->alone = !one->listed;
}

static void on_answer(void *ctx, const tl_answer *answer) {
    sentinel *one = ctx;
    sentinels *all = one->of;
    if (!all)
        return;
    tl_sentinel_view *view = &all->view[index_of(one)];
    one->asked--;
    if (!all->asking || answer->ticket != all->question)
        return;
    one->waits = false;
    if (!answer->ok) {
        failed(one, answer->why, answer->message);
    } else if (!tl__sentinel_view_read(view, &answer->reply[0], &answer->reply[1], answer->run)) {
        read_error(one, &answer->reply[0]);
    } else {
        one->failed = false;
        read_more(one, view, answer);
    }
}

/* ---- the outcome ----------------------------------------------------------------------------- */

/* A Sentinel that has failed, if possible for a permanent reason; NULL: none has failed. */
static const sentinel *troubled(const sentinels *all) {
    const sentinel *any = NULL;
    for (unsigned i = 0; i < all->count; i++) {
        const sentinel *one = all->list[i];
        if (one->failed && one->message[0] &&
            (!any || (tl__is_lasting(one->why) && !tl__is_lasting(any->why))))
            any = one;
    }
    return any;
}

static const char *trouble(const sentinels *all) {
    const sentinel *one = troubled(all);
    return one ? one->message : "no reply in time";
}

/* Are fewer than a majority left, without the Sentinels that refuse permanently, as for a wrong password? */
static bool is_refused(const sentinels *all, const tl_sentinel_verdict *verdict) {
    unsigned refuse = 0;
    for (unsigned i = 0; i < all->count; i++)
        refuse += all->list[i]->failed && tl__is_lasting(all->list[i]->why);
    return refuse > verdict->total - verdict->majority;
}

static void say_trouble(sentinels *all, const tl_sentinel_verdict *verdict) {
    const char *name = all->seeds.master;
    if (verdict->answered > 0 && verdict->unknown == verdict->answered)
        (void)snprintf(all->message, sizeof all->message,
                       "%s: the Sentinels know no master of this name; check the URL", name);
    else if (verdict->answered < verdict->majority && verdict->nameless > 0)
        (void)snprintf(all->message, sizeof all->message, "%s: %s", name, TL_SENTINELS_NAMELESS);
    else if (verdict->answered < verdict->majority)
        (void)snprintf(all->message, sizeof all->message,
                       "%s: no majority of the Sentinels: %u of %u answer (%.160s)", name,
                       verdict->answered, verdict->total, trouble(all));
    else
        (void)snprintf(all->message, sizeof all->message,
                       "%s: the Sentinels don't agree yet on who is the master", name);
}

/* Where the connections lead at present; NULL: nowhere. Only the thread changes that. */
static const tl_endpoint *led_to(const sentinels *all) {
    return all->site.spot ? &all->site.spot->endpoint : NULL;
}

static bool leads_to(const sentinels *all, const tl_sentinel_view *master) {
    const tl_endpoint *now = led_to(all);
    return now && now->port == master->port && strcmp(now->host, master->host) == 0;
}

/* The present master is named by an older epoch than before. The Sentinel may not know the newer one yet, or
 * all Sentinels were set up anew. So wait for the replies of the others. */
static bool is_older(const sentinels *all, const tl_sentinel_view *master) {
    return leads_to(all, master) && master->epoch < all->site.spot->epoch;
}

/* Lead to the named master. The same server in another epoch is another master: there was one in between,
 * which no Sentinel has reported. */
static bool lead(sentinels *all, const tl_sentinel_view *master) {
    tl_endpoint to;
    if (leads_to(all, master) &&
        (all->site.spot->epoch == master->epoch || !GUARD(epoch_is_another)))
        return true;
    if (!tl__endpoint_at(&to, &all->node->endpoint, tl__bytes_of(master->host), master->port))
        return false;
    bool led = tl__site_lead(&all->site, &to, master->epoch);
    if (led && all->site.last > 1)
        tl__log(all->node->client, TL_LOG_WARNING, "%s: the Sentinels name %s the master",
                all->seeds.master, to.label);
    tl__endpoint_wipe(&to);
    return led;
}

static bool is_waiting(const sentinels *all) {
    bool waits = false;
    for (unsigned i = 0; i < all->count; i++)
        waits = waits || all->list[i]->waits;
    return waits;
}

/* End the question, when all Sentinels have answered, when its time is over, or earlier when
 * the master is sure. */
static void conclude(sentinels *all, tl_mono now) {
    tl_sentinel_verdict v = tl__sentinel_views_judge(all->view, all->count, all->seeds.count,
                                                     all->total);
    bool over = !is_waiting(all) || !tl__mono_before(now, all->by);
    if (!over && (!v.sure || is_older(all, v.master)))
        return;
    all->asking = false;
    for (unsigned i = 0; i < all->count; i++)
        if (all->list[i]->waits)
            failed(all->list[i], TL_EUNAVAILABLE, TL_LITERAL("no reply in time"));
    bool led = v.master && lead(all, v.master);
    if (led && v.sure) {
        all->total = v.total;
        tl__backoff_reset(&all->backoff);
        tl__site_named(&all->site, all->began);
        return;
    }
    say_trouble(all, &v);
    if (is_refused(all, &v))
        tl__site_refuse(&all->site, troubled(all)->why, all->message, all->began);
    else
        tl__site_trouble(&all->site, all->message);
    all->again = tl__mono_add_ns(now, tl__backoff_ns(&all->backoff));
}

/* ---- +switch-master -------------------------------------------------------------------------- */

/* "NAME HOST PORT HOST PORT": the former master and the new one. */
static bool read_switch(tl_bytes text, tl_bytes word[SWITCH_WORDS]) {
    for (unsigned i = 0; i < SWITCH_WORDS; i++) {
        word[i] = tl__bytes_take(&text, ' ');
        if (word[i].n == 0)
            return false;
    }
    return true;
}

static void on_woken(void *ctx, tl_bytes topic, tl_bytes payload) {
    sentinel *one = ctx;
    sentinels *all = one->of;
    const tl_endpoint *now = led_to(all);
    tl_bytes word[SWITCH_WORDS];
    int64_t port;
    (void)topic;
    if (!read_switch(payload, word) || !tl__bytes_eq(word[0], tl__bytes_of(all->seeds.master)))
        return;
    all->suspects = true;
    bool former = now && tl__bytes_to_int(word[2], &port) && port == now->port &&
                  tl__bytes_eq(word[1], tl__bytes_of(now->host));
    if (!former)
        return;
    (void)snprintf(all->message, sizeof all->message, "%s: a failover is in progress",
                   all->seeds.master);
    if (GUARD(switch_is_heeded))
        tl__site_lose(&all->site, all->message);
}

static void listen(sentinel *one, tl_mono now) {
    if (!tl__wakeup_listens(one->wakeup))
        (void)tl__wakeup_listen(one->wakeup, SWITCH, now);
}

/* ---- for the keeper -------------------------------------------------------------------------- */

static unsigned fds(const tl_fleet *fleet, struct pollfd *ret) {
    const sentinels *all = fleet->state;
    unsigned n = 0;
    for (unsigned i = 0; i < all->count; i++) {
        const sentinel *one = all->list[i];
        ret[n++] = (struct pollfd){.fd = tl__conn_fd(one->conn),
                                   .events = tl__conn_events(one->conn)};
        ret[n++] = (struct pollfd){.fd = tl__wakeup_fd(one->wakeup),
                                   .events = tl__wakeup_events(one->wakeup)};
    }
    return n;
}

static bool is_wanted(const sentinels *all) {
    return all->suspects || atomic_load(&all->site.wanted);
}

static tl_mono until(const tl_fleet *fleet) {
    const sentinels *all = fleet->state;
    tl_mono at = all->asking ? all->by : is_wanted(all) ? all->again : TL_NEVER;
    for (unsigned i = 0; i < all->count; i++) {
        at = tl__mono_min(at, tl__conn_until(all->list[i]->conn));
        at = tl__mono_min(at, tl__wakeup_until(all->list[i]->wakeup));
    }
    return at;
}

static void drive(tl_fleet *fleet, tl_mono now) {
    sentinels *all = fleet->state;
    for (unsigned i = 0; i < all->count; i++) {
        listen(all->list[i], now);
        tl__conn_drive(all->list[i]->conn, now);
        tl__wakeup_drive(all->list[i]->wakeup, now);
    }
    if (all->asking)
        conclude(all, now);
    if (all->asking || tl__mono_before(now, all->again))
        return;
    bool wanted = tl__site_wanted(&all->site);
    if (!wanted && !all->suspects)
        return;
    ask(all, tl__mono_now());
    for (unsigned i = 0; i < all->count; i++)
        tl__conn_drive(all->list[i]->conn, all->began);
}

static void end(tl_fleet *fleet) {
    sentinels *all = fleet->state;
    for (unsigned i = 0; i < all->count; i++)
        free_sentinel(all->list[i]);
    tl__site_end(&all->site);
    tl__endpoint_wipe(&all->like);
    tl__secret_wipe(&all->secret);
    free(all);
    *fleet = (tl_fleet){.row = NULL};
}

/* ---- opening --------------------------------------------------------------------------------- */

static void want(void *ctx) {
    tl__wake_post(((const tl_fleet *)ctx)->wake);
}

tl_err tl__fleet_open_sentinels(tl_fleet *fleet, tl_node *node, const tl_seeds *seeds,
                                const tl_client_options *options, tl_error *err) {
    static const tl_fleet_row row = {.fds = fds,
                                     .until = until,
                                     .drive = drive,
                                     .end = end,
                                     .node_of = tl__fleet_first,
                                     .next = tl__fleet_server};
    sentinels *all = calloc(1, sizeof *all);
    if (!all)
        return tl__fail(err, TL_ENOMEM, ENOMEM, "open a client: out of memory");
    all->node = node;
    all->seeds = *seeds;
    all->like = node->endpoint;
    all->connect_ms = options->connect_ms;
    all->limit_ms = options->attempt_ms < ANSWER_MS ? options->attempt_ms : ANSWER_MS;
    all->backoff.random = tl__random_seed();
    tl__site_init(&all->site, want, fleet);
    all->site.drift_ppm = options->drift_ppm;
    all->site.settles = options->quiet_ms > 0;
    fleet->row = &row;
    fleet->state = all;
    tl_err code = tl__endpoint_log_in_as(&all->like, &all->secret, options, err);
    for (unsigned i = 0; !code && i < seeds->count; i++)
        if (!is_known(all, tl__bytes_of(seeds->seed[i].host), seeds->seed[i].port) &&
            !add(all, all->count, tl__bytes_of(seeds->seed[i].host), seeds->seed[i].port, true))
            code = tl__fail(err, TL_ENOMEM, ENOMEM, "open a client: out of memory");
    all->seeds.count = all->count;
    node->site = &all->site;
    return code;
}
