/*
 * migrate survey: looks at the locks of legacy clients before a migration, and during one. It changes
 * nothing on the server, and reads politely: so many keys a second, a few looks at a sample of the
 * locks, and MONITOR only on request. It never reports a part as the whole.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/cluster_survey.h"
#include "ground/glob.h"
#include "legacy/skew_listen.h"
#include "link/link_open.h"
#include "migrate/migrate_show.h"
#include "migrate/migrate_survey.h"
#include "migrate/migrate_traffic.h"

#define LEAST_MS 10000
#define MOST_MS (10 * 60000)
#define STEP_KEYS 100 /* about so many keys are read by one step of tl_client_scan */
#define RATE 20000
#define PASS_MS 1000 /* a further pass begins no sooner after the one before */
#define TRACKS 32
#define LOOK_MS 250
#define LIST_MS 1000
#define NARROW_US 1000000

/* ---- nodes ------------------------------------------------------------------------------------- */

typedef struct {
    bool known;
    migrate_counts counts;
} counting;

typedef struct {
    server_link *link; /* of the survey's server, or own */
    server_link own;
    char label[TL_HOST_SIZE + 16];
    counting before; /* the survey: SETNX and GETSET */
} node;

/* A key of the sample: its present stamp, and when that was seen. */
typedef struct {
    char *key;
    size_t len;
    found_family *family;
    char value[64];
    bool there, fresh;            /* fresh: it was seen as it appeared */
    int64_t first_ms, last_ms;    /* when this value was seen */
    int64_t before_ms, looked_ms; /* the last look before first_ms; the last one */
} track;

typedef struct {
    migrate_work *work;
    survey *survey;
    tl_client *client;
    node *node;
    int nodes;
    link_login login;
    server_link like; /* a cluster's: the login of its links */
    track track[TRACKS];
    int tracks;
    int64_t began_ms, list_ms, look_ms;
    bool list_said, look_said, view_said; /* that it could not be read */
    int status;
} surveyor;

static void unread_link(surveyor *surveyor, const node *node, const char *what) {
    survey_unread(surveyor->survey, "%s: %s: %s", what, node->label, node->link->message);
}

static bool add_node(surveyor *surveyor, server_link *link, const char *label) {
    node *node = &surveyor->node[surveyor->nodes++];

    node->link = link ? link : &node->own;
    (void)snprintf(node->label, sizeof node->label, "%s", label);
    return true;
}

static bool add_master(surveyor *surveyor, const cluster_node *master) {
    node *node = &surveyor->node[surveyor->nodes];

    return link_open_same(&node->own, &surveyor->like, master->host, master->port) &&
           add_node(surveyor, NULL, master->label);
}

/* The status is set here and not by the scan, which may run out of time before it comes to this master. */
static void lack_master(surveyor *surveyor, const cluster_node *master) {
    survey_unread(surveyor->survey, "a master, and all of its keys and clients: %s",
                  master->message);
    surveyor->status = master->status;
}

static bool add_masters(surveyor *surveyor, const cluster_survey *all) {
    surveyor->node = calloc(all->count ? all->count : 1, sizeof *surveyor->node);
    bool ok = surveyor->node != NULL;

    for (unsigned i = 0; ok && i < all->count; i++) {
        const cluster_node *one = &all->of[i];
        if (one->led_to[0] || one->twice || !one->master)
            continue;
        if (one->status)
            lack_master(surveyor, one);
        else
            ok = add_master(surveyor, one);
    }
    if (all->more)
        survey_unread(surveyor->survey, "the cluster has more than %d nodes", CLUSTER_NODES_MOST);
    return ok;
}

static int find_masters(surveyor *surveyor) {
    kernel_clock kernel = moment_kernel();
    tl_endpoint login;
    tl_seeds seeds;
    cluster_survey all;
    server_link link;
    int status = link_places(&link, surveyor->work->migration.server, &login, &surveyor->login,
                             &seeds);

    if (status)
        return fail(status, "migrate survey: %s", link.message);
    surveyor->like = (server_link){.endpoint = login};
    bool ok = cluster_survey_ask(&all, &login, &seeds, skew_self_rate(&kernel)) &&
              add_masters(surveyor, &all);
    cluster_survey_end(&all);
    tl__endpoint_wipe(&login);
    return ok ? 0 : fail(STATUS_INTERNAL, "migrate survey: out of memory");
}

static int find_nodes(surveyor *surveyor) {
    migrate_link *migration = &surveyor->work->migration;

    if (migration->by_cluster)
        return find_masters(surveyor);
    surveyor->node = calloc(1, sizeof *surveyor->node);
    if (!surveyor->node)
        return fail(STATUS_INTERNAL, "migrate survey: out of memory");
    add_node(surveyor, &migration->link, migration->link.endpoint.label);
    return 0;
}

static void forget_nodes(surveyor *surveyor) {
    for (int i = 0; i < surveyor->nodes; i++)
        if (surveyor->node[i].link == &surveyor->node[i].own)
            link_close(&surveyor->node[i].own);
    free(surveyor->node);
    if (surveyor->work->migration.by_cluster) {
        tl__endpoint_wipe(&surveyor->like.endpoint);
        tl__secret_wipe(&surveyor->login.secret);
    }
}

/* ---- what each node says of itself ------------------------------------------------------------- */

static bool take_number(void *ctx, const tl_reply *reply) {
    return tl__reply_int(reply, ctx);
}

static void count_keys(surveyor *surveyor) {
    static const char *const request[] = {"DBSIZE", NULL};
    survey *survey = surveyor->survey;

    survey->keys_all = 0;
    for (int i = 0; i < surveyor->nodes; i++) {
        int64_t keys = 0;
        if (link_ask(surveyor->node[i].link, request, take_number, &keys)) {
            survey->keys_all += survey->keys_all < 0 ? 0 : keys;
            continue;
        }
        unread_link(surveyor, &surveyor->node[i], "how many keys there are (DBSIZE)");
        survey->keys_all = -1;
        return;
    }
}

static bool take_counts(void *ctx, const tl_reply *reply) {
    counting *counting = ctx;
    tl_bytes info;

    counting->known = tl__reply_text(reply, &info) && migrate_read_counts(info, &counting->counts);
    return true;
}

static counting ask_counts(const node *node) {
    static const char *const request[] = {"INFO", "commandstats", NULL};
    counting ret = {.known = false};

    (void)link_ask(node->link, request, take_counts, &ret);
    return ret;
}

static void begin_counts(surveyor *surveyor) {
    for (int i = 0; i < surveyor->nodes; i++)
        surveyor->node[i].before = ask_counts(&surveyor->node[i]);
}

/* The calls since then. A node that doesn't count, or counts anew, makes the sum unknown. */
static void end_counts(surveyor *surveyor) {
    survey *survey = surveyor->survey;

    survey->calls = 0;
    for (int i = 0; i < surveyor->nodes && survey->calls >= 0; i++) {
        counting before = surveyor->node[i].before, now = ask_counts(&surveyor->node[i]);
        if (!before.known || !now.known || now.counts.all < before.counts.all ||
            now.counts.calls < before.counts.calls) {
            survey->calls = -1;
            survey_unread(survey, "how often SETNX and GETSET ran (INFO commandstats): %s",
                          surveyor->node[i].label);
        } else {
            survey->calls += now.counts.calls - before.counts.calls;
        }
    }
}

typedef struct {
    heard *heard;
    bool first;
} lister;

static bool take_list(void *ctx, const tl_reply *reply) {
    lister *lister = ctx;
    tl_bytes list;

    if (!tl__reply_text(reply, &list))
        return false;
    heard_list(lister->heard, list, lister->first);
    return true;
}

static void list_clients(surveyor *surveyor) {
    static const char *const request[] = {"CLIENT", "LIST", NULL};
    bool failed = false;

    for (int i = 0; i < surveyor->nodes; i++) {
        lister lister = {&surveyor->survey->heard, i == 0};
        if (link_ask(surveyor->node[i].link, request, take_list, &lister))
            continue;
        if (!surveyor->list_said)
            unread_link(surveyor, &surveyor->node[i], "who is connected (CLIENT LIST)");
        failed = true;
    }
    surveyor->list_said = surveyor->list_said || failed;
    surveyor->list_ms = moment_ms();
}

/* ---- the sample -------------------------------------------------------------------------------- */

static void add_track(surveyor *surveyor, tl_bytes key, const tl_lock_info *info,
                      found_family *family) {
    int64_t now_ms = moment_ms();
    int of_family = 0;

    for (int i = 0; i < surveyor->tracks; i++)
        of_family += surveyor->track[i].family == family;
    if (surveyor->tracks == TRACKS || of_family >= TRACKS / 4 || found_is_old(family))
        return;
    char *copy = malloc(key.n ? key.n : 1);
    if (!copy)
        return;
    memcpy(copy, key.p, key.n);
    track *track = &surveyor->track[surveyor->tracks++];
    track->key = copy;
    track->len = key.n;
    track->family = family;
    track->there = true;
    track->first_ms = track->last_ms = track->looked_ms = now_ms;
    (void)snprintf(track->value, sizeof track->value, "%s", info->value);
}

static void end_stay(track *track, int64_t now_ms) {
    int64_t since_ms = track->fresh ? track->before_ms : track->first_ms;

    if (track->fresh)
        found_sample(&track->family->holds, track->last_ms - track->first_ms, now_ms - since_ms);
    else
        found_sample(&track->family->stays, track->last_ms - track->first_ms, now_ms - since_ms);
    track->there = false;
}

/* The writer may have rounded the stamp, or added to it: a dialect says how much. */
static void sample_lifetime(track *track, const tl_lock_info *info, int64_t now_ms) {
    const skew_dialect *dialect = skew_stamp_dialect(info->dialect);
    tl_interval over = skew_stamp_over_us(dialect ? dialect : skew_stamp_dialect(NULL));

    found_look(track->family, info->stamp_left_ms - over.hi / 1000,
               info->stamp_left_ms - over.lo / 1000 + now_ms - track->before_ms);
}

static void begin_stay(track *track, const tl_lock_info *info, int64_t now_ms) {
    track->there = track->fresh = true;
    track->first_ms = now_ms;
    track->before_ms = track->looked_ms;
    (void)snprintf(track->value, sizeof track->value, "%s", info->value);
    sample_lifetime(track, info, now_ms);
}

/* A change of the value is another holder, or a loser that has overwritten the stamp. */
static void look_at(surveyor *surveyor, track *track) {
    tl_lock_info info = {.size = sizeof info};
    tl_error err;

    if (tl_client_look(surveyor->client, track->key, track->len, &info, &err)) {
        if (!surveyor->look_said)
            survey_unread(surveyor->survey, "some looks at a sample: %s", err.message);
        surveyor->look_said = true;
        return;
    }
    int64_t now_ms = moment_ms();
    bool there = info.stamp_left_ms != INT64_MIN && info.value[0] && !info.by_tidelock;
    bool same = there && track->there && strcmp(info.value, track->value) == 0;

    if (track->there && !same)
        end_stay(track, now_ms);
    if (there && !same)
        begin_stay(track, &info, now_ms);
    if (there)
        track->last_ms = now_ms;
    track->looked_ms = now_ms;
}

static void look_at_all(surveyor *surveyor) {
    for (int i = 0; i < surveyor->tracks; i++)
        look_at(surveyor, &surveyor->track[i]);
    surveyor->look_ms = moment_ms();
}

static void end_tracks(surveyor *surveyor) {
    for (int i = 0; i < surveyor->tracks; i++) {
        const track *track = &surveyor->track[i];
        surveyor->survey->still += track->there && !track->fresh;
        free(track->key);
    }
}

/* ---- the scan ---------------------------------------------------------------------------------- */

static bool fits_register(const survey *survey, tl_bytes key) {
    const migrate_register *reg = &survey->view->reg;

    return reg->readable && tl__glob_fits(tl__bytes_of(reg->keys), key);
}

static void learn_place(survey *survey, tl_bytes key, const tl_lock_info *info) {
    bool legacy = !info->by_tidelock && info->protocol != TL_TOKEN;

    if (fits_register(survey, key))
        migrate_locks_learn(&survey->registered, survey->view, key.p, key.n, info);
    else if (survey->view->reg.readable && legacy && survey->outside++ == 0)
        tl__bytes_print(survey->outside_key, sizeof survey->outside_key, key);
}

/* A holder that isn't registered may have started since the register was read. */
static void know_holder(surveyor *surveyor, const tl_lock_info *info) {
    migrate_work *work = surveyor->work;

    if (surveyor->view_said || !info->by_tidelock || info->stamp_left_ms <= 0 || info->rests ||
        work->migration.by_cluster || !work->view.reg.readable || migrate_knows(&work->view, info))
        return;
    surveyor->view_said = migrate_read_again(&work->migration, &work->view) != 0;
    if (surveyor->view_said)
        survey_unread(surveyor->survey, "which clients have registered meanwhile: %s",
                      work->migration.link.message);
}

static void found_lock(const void *name, size_t len, const tl_lock_info *info, void *ctx) {
    surveyor *surveyor = ctx;
    survey *survey = surveyor->survey;
    tl_bytes key = tl__bytes(name, len);
    char dialects[SKEW_ALIKE_SIZE] = "";
    tl_interval written;

    if (tl__bytes_starts(key, "tidelock:"))
        return;
    know_holder(surveyor, info);
    if (info->protocol == TL_TIMESTAMP)
        (void)skew_stamp_guess(skew_stamp_dialect(survey->dialect), tl__bytes_of(info->value),
                               moment_wall_us(), &written, dialects);
    found_family *family = found_learn(&survey->found, survey->view, key, info, dialects);
    if (family)
        learn_place(survey, key, info);
    else
        family = found_again(&survey->found, key, info);
    if (!family)
        return;
    if (info->protocol == TL_TIMESTAMP && !info->by_tidelock && info->stamp_left_ms != INT64_MIN)
        add_track(surveyor, key, info, family);
}

static int open_client(surveyor *surveyor) {
    static legacy_options guess = {LEGACY_DEFAULTS, .protocol = TL_TOKEN};
    server where = *surveyor->work->migration.server;

    where.legacy = &guess;
    return server_open(&where, "migrate survey", NULL, &surveyor->client);
}

static int64_t until_ms(const surveyor *surveyor) {
    const migrate_options *options = surveyor->work->options;
    bool given = options->watch_ms != MIGRATE_NOT_GIVEN;
    int64_t most = given ? options->watch_ms : surveyor->survey->passes ? LEAST_MS : MOST_MS;

    return surveyor->began_ms + most;
}

/* A long list is read less often. */
static int64_t list_pause_ms(const surveyor *surveyor) {
    return LIST_MS * surveyor->nodes * (1 + surveyor->survey->heard.connections / 1000);
}

/* Between two steps: looks that are due, and a pause until the next step may begin. */
static void pause_until(surveyor *surveyor, int64_t due_ms) {
    migrate_work *work = surveyor->work;
    int64_t now_ms = moment_ms();

    do {
        if (now_ms >= surveyor->look_ms + LOOK_MS)
            look_at_all(surveyor);
        if (now_ms >= surveyor->list_ms + list_pause_ms(surveyor))
            list_clients(surveyor);
        now_ms = moment_ms();
        int64_t pause_ms = due_ms - now_ms;
        if (pause_ms > LOOK_MS)
            pause_ms = LOOK_MS;
        work->sig = signals_pause(&work->sigs, pause_ms > 0 ? pause_ms : 0);
        now_ms = moment_ms();
    } while (now_ms < due_ms && now_ms < until_ms(surveyor) && !work->sig);
}

static void fail_scan(surveyor *surveyor, const tl_error *err) {
    surveyor->status = fail_as(surveyor->work->migration.server, err);
    survey_unread(surveyor->survey, "the rest of the keys: %s", err->message);
}

static void scan(surveyor *surveyor) {
    survey *survey = surveyor->survey;
    uint64_t cursor = 0;
    int64_t steps = 0, due_ms = surveyor->began_ms, pass_ms = surveyor->began_ms, in_step = 0;
    tl_error err;

    while (!surveyor->work->sig && moment_ms() < until_ms(surveyor)) {
        if (tl_client_scan(surveyor->client, survey->keys, &cursor, found_lock, surveyor, &err)) {
            fail_scan(surveyor, &err);
            return;
        }
        in_step += (int64_t)STEP_KEYS * 1000; /* thousandths of a key: no step is rounded away */
        due_ms += in_step / survey->rate;
        in_step %= survey->rate;
        survey->keys_read = survey->passes ? survey->keys_read : ++steps * STEP_KEYS;
        if (cursor == 0) {
            survey->passes++;
            due_ms = due_ms > pass_ms + PASS_MS ? due_ms : pass_ms + PASS_MS;
            pass_ms = due_ms;
        }
        pause_until(surveyor, due_ms);
        if (due_ms < moment_ms() - PASS_MS) /* a slow server is not asked faster afterwards */
            due_ms = moment_ms();
    }
}

static void read_keys(surveyor *surveyor) {
    survey *survey = surveyor->survey;

    surveyor->began_ms = moment_ms();
    scan(surveyor);
    survey->whole = survey->passes > 0;
    if (survey->keys_all >= 0 && (survey->whole || survey->keys_read > survey->keys_all))
        survey->keys_read = survey->keys_all;
    survey->took_ms = moment_ms() - surveyor->began_ms;
    survey->registered.whole = survey->whole;
    if (survey->found.full)
        survey_unread(survey, "more than %d locks", FOUND_KEYS_MOST / 4 * 3);
    if (survey->found.dropped)
        survey_unread(survey, "%lld key%s of further patterns: more than %d patterns",
                      (long long)survey->found.dropped, migrate_plural(survey->found.dropped),
                      FOUND_FAMILIES);
}

/* ---- MONITOR ----------------------------------------------------------------------------------- */

static void learn_command(void *ctx, const skew_heard *command) {
    const surveyor *surveyor = ctx;

    heard_learn(&surveyor->survey->heard, &surveyor->survey->found, command);
}

static bool goes_on(void *ctx, int64_t done_ms) {
    surveyor *surveyor = ctx;

    (void)done_ms;
    surveyor->work->sig = signals_pause(&surveyor->work->sigs, 0);
    return !surveyor->work->sig;
}

/* The dialect that was given, or that most families write. */
static const skew_dialect *main_dialect(const survey *survey) {
    const found_form *most = NULL;
    char name[sizeof most->dialects];

    if (survey->dialect)
        return skew_stamp_dialect(survey->dialect);
    for (int i = 0; i < survey->found.families; i++) {
        const found_family *family = &survey->found.family[i];
        const found_form *form = found_main_form(family);
        if (form && !found_is_old(family) && (!most || form->count > most->count))
            most = form;
    }
    (void)snprintf(name, sizeof name, "%s", most ? most->dialects : "java");
    name[strcspn(name, ",")] = '\0';
    const skew_dialect *dialect = skew_stamp_dialect(name);
    return dialect ? dialect : skew_stamp_dialect(NULL);
}

static void count_clock(survey_facts *facts, const skew_host *host) {
    int64_t lo = host->offset.lo, hi = host->offset.hi;
    int64_t near = lo > 0 ? lo : hi < 0 ? -hi : 0;
    int64_t far = -lo > hi ? -lo : hi;
    bool narrow = tl__add_sat(hi, -lo) <= NARROW_US;
    int64_t off = narrow ? far : near;

    facts->clocks += narrow || near > 0;
    facts->vague += !narrow;
    facts->off_most_us = off > facts->off_most_us ? off : facts->off_most_us;
}

static void keep_clock(survey *survey, const node *node, const skew_host *host) {
    if (host->known)
        count_clock(&survey->facts, host);
    if (survey->clocks == SURVEY_CLOCKS) {
        survey_unread(survey, "the clocks of more than %d hosts", SURVEY_CLOCKS);
        return;
    }
    survey_clock *clock = &survey->clock[survey->clocks++];
    *clock = (survey_clock){.known = host->known, .offset = host->offset, .stamps = host->samples};
    (void)snprintf(clock->host, sizeof clock->host, "%s", host->name);
    (void)snprintf(clock->server, sizeof clock->server, "%s", node->label);
    (void)snprintf(clock->detail, sizeof clock->detail, "%s", host->detail);
}

/* Without the lifetime the clocks are known only relative to the median one. */
static void judge_clocks(surveyor *surveyor, const node *node, skew_listen *listening) {
    survey *survey = surveyor->survey;
    skew_model *model = &listening->passive.model;
    skew_host *hosts = calloc(SKEW_HOSTS_MAX, sizeof *hosts);
    bool more = false;

    if (!hosts) {
        survey_unread(survey, "clocks: out of memory");
        return;
    }
    int count = skew_passive_hosts(&listening->passive, listening->passive.last_us, 0, hosts, 0,
                                   &more);
    if (survey->facts.given_ttl_ms)
        skew_passive_judge(model, hosts, count);
    int64_t lifetime_us = survey->facts.given_ttl_ms ? 0 : skew_passive_lifetime_us(hosts, count);
    for (int i = 0; i < count; i++) {
        hosts[i].offset.lo = tl__add_sat(hosts[i].offset.lo, -lifetime_us);
        hosts[i].offset.hi = tl__add_sat(hosts[i].offset.hi, -lifetime_us);
        keep_clock(survey, node, &hosts[i]);
    }
    if (more)
        survey_unread(survey, "more hosts or connections in MONITOR than can be kept");
    free(hosts);
}

static void monitor_node(surveyor *surveyor, const node *node, const skew_listen_options *options) {
    survey *survey = surveyor->survey;
    skew_effort effort = {.go_on = goes_on, .ctx = surveyor};
    skew_listen listening;

    if (!skew_listen_begin(&listening, options)) {
        survey_unread(survey, "MONITOR: out of memory");
        return;
    }
    if (!skew_listen_run(&listening, node->link, &effort))
        unread_link(surveyor, node, "what clients send (MONITOR)");
    else if (listening.aborted)
        survey_unread(survey, "the rest of MONITOR of %s: %s", node->label, listening.message);
    if (listening.strange)
        survey_unread(survey, "%lld line%s of MONITOR of %s", (long long)listening.strange,
                      migrate_plural(listening.strange), node->label);
    survey->monitor_ms += listening.took_ms;
    judge_clocks(surveyor, node, &listening);
    skew_listen_end(&listening);
}

static void monitor(surveyor *surveyor) {
    survey *survey = surveyor->survey;
    int64_t monitor_ms = surveyor->work->options->monitor_ms;
    skew_listen_options options = {.passive_ms = monitor_ms,
                                   .keys = survey->keys_given ? survey->keys : NULL,
                                   .dialect = main_dialect(survey),
                                   .model = {.legacy_ttl_us = survey->facts.given_ttl_ms * 1000,
                                             .pool_wait_us = 5000,
                                             .rate_ppm = SKEW_DRIFT_PPM},
                                   .each = learn_command,
                                   .each_ctx = surveyor};

    options.model.unit_us = skew_stamp_resolution_us(options.dialect);
    survey->facts.relative = survey->facts.given_ttl_ms == 0;
    for (int i = 0; i < surveyor->nodes && !surveyor->work->sig; i++)
        monitor_node(surveyor, &surveyor->node[i], &options);
}

/* ---- the whole --------------------------------------------------------------------------------- */

static void observe(surveyor *surveyor) {
    const migrate_options *options = surveyor->work->options;

    count_keys(surveyor);
    begin_counts(surveyor);
    list_clients(surveyor);
    read_keys(surveyor);
    if (options->monitor_ms > 0 && !surveyor->work->sig)
        monitor(surveyor);
    list_clients(surveyor);
    end_counts(surveyor);
    end_tracks(surveyor);
}

static int show(migrate_work *work, survey *survey) {
    if (work->options->json || work->options->format)
        return migrate_show_line(survey_json(survey));
    survey_show(survey, stdout);
    return 0;
}

static void describe(const migrate_work *work, survey *survey) {
    const migrate_options *options = work->options;

    survey->view = &work->view;
    survey->name = options->name;
    survey->keys_given = options->keys != NULL;
    survey->keys = options->keys ? options->keys : "*";
    survey->by_cluster = work->migration.by_cluster;
    survey->url_given = !work->migration.server->from_env;
    survey->dialect = options->legacy.dialect;
    survey->rate = options->rate ? options->rate : RATE;
    survey->heard.keys = survey->keys_given ? survey->keys : NULL;
    survey->heard.dialect = survey->dialect ? skew_stamp_dialect(survey->dialect) : NULL;
    if (options->legacy.legacy_ttl_min_ms > 0)
        survey->facts.given_ttl_ms = options->legacy.legacy_ttl_min_ms;
    (void)snprintf(survey->server, sizeof survey->server, "%s",
                   survey->by_cluster ? "a cluster" : work->migration.link.endpoint.label);
}

/* Without its register a namespace can be surveyed too; the message is on standard error. In a cluster a node may deny or
 * lack those of its slots: its flaw says which. */
static void read_register(migrate_work *work, survey *survey) {
    survey->register_unread = (survey->by_cluster && migrate_link_lead(&work->migration)) ||
                              migrate_read(&work->migration, &work->view);
    if (survey->register_unread)
        survey_unread(survey,
                      survey->by_cluster ? "the registers of namespace %s"
                                         : "the register of namespace %s, and its clients",
                      survey->name);
    else if (work->view.slots.unread > 0)
        survey_unread(survey, "the registers of %d slot%s", work->view.slots.unread,
                      migrate_plural(work->view.slots.unread));
}

static int run(migrate_work *work, survey *survey) {
    surveyor surveyor = {.work = work, .survey = survey};
    int status = 0;

    describe(work, survey);
    read_register(work, survey);
    status = find_nodes(&surveyor);
    status = status ? status : open_client(&surveyor);
    if (status == 0) {
        survey->masters = surveyor.nodes;
        observe(&surveyor);
        survey_conclude(survey);
        tl_client_close(surveyor.client);
        status = show(work, survey);
    }
    forget_nodes(&surveyor);
    return status ? status : surveyor.status;
}

int migrate_survey(migrate_work *work) {
    survey *made = calloc(1, sizeof *made);
    int status = 0;

    if (work->options->legacy.dialect && !skew_stamp_dialect(work->options->legacy.dialect)) {
        free(made);
        return fail(STATUS_USAGE,
                    "migrate survey: --dialect: one name; see: tidelock help dialects");
    }
    if (made && found_begin(&made->found) && heard_begin(&made->heard, &work->view.reg))
        status = run(work, made);
    else
        status = fail(STATUS_INTERNAL, "migrate survey: out of memory");
    if (made) {
        found_end(&made->found);
        heard_end(&made->heard);
    }
    free(made);
    return status == 0 && work->sig ? signals_status(work->sig) : status;
}
