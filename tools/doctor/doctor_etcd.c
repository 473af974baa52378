/*
 * The doctor of an etcd. It asks each member that the URL names about itself and about the cluster. It
 * changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"
#include "ground/wait.h"
#include "protocol/etcd.h"

#define LIMIT_MS 3000
#define PERMISSION_DENIED 7 /* of gRPC */
#define ALARMS_MOST 8
#define MEMBERS_ALL 64 /* of a cluster; more than 7 are unusual */

enum { STATUS, ALARMS, MEMBERS, RIGHTS, QUESTIONS }; /* the tickets of the requests */

/* The replies of a member. */
typedef struct {
    tl_endpoint endpoint; /* without its secrets */
    bool answered, learner;
    tl_err why;                        /* why it has not replied */
    char message[DOCTOR_MESSAGE_SIZE]; /* the same, as text */
    char version[32];
    int64_t leader, id, cluster;
    bool told_alarms;
    unsigned alarms;
    char alarm[ALARMS_MOST][32];
    int64_t ids[MEMBERS_ALL]; /* of all members but learners, as it knows them */
    unsigned count;           /* 0: not known */
    bool nobody, denied;      /* denied: no access to the locks' keys; nobody: for lack of a user */
} visit;

typedef struct {
    visit *visit;
    unsigned left; /* questions without a reply */
} asking;

/* ---- questions ------------------------------------------------------------------------------- */

static void take_status(visit *visit, const tl_reply *reply) {
    tl_bytes version;
    int64_t learner = 0;
    if (!tl__reply_text(tl__reply_item(reply, 0), &version) ||
        !tl__reply_int(tl__reply_item(reply, 1), &visit->leader) ||
        !tl__reply_int(tl__reply_item(reply, 2), &visit->id) ||
        !tl__reply_int(tl__reply_item(reply, 4), &learner) ||
        !tl__reply_int(tl__reply_item(reply, 6), &visit->cluster) || version.n == 0) {
        visit->why = TL_ESERVER;
        (void)snprintf(visit->message, sizeof visit->message, "%s: this is no status of an etcd",
                       visit->endpoint.label);
        return;
    }
    tl__bytes_print(visit->version, sizeof visit->version, version);
    visit->learner = learner == 1;
    visit->answered = true;
}

static void take_alarms(visit *visit, const tl_reply *reply) {
    tl_bytes text;
    visit->told_alarms = true;
    for (size_t i = 0; i < reply->count && visit->alarms < ALARMS_MOST; i++)
        if (tl__reply_text(tl__reply_item(&reply->items[i], 1), &text))
            tl__bytes_print(visit->alarm[visit->alarms++], sizeof visit->alarm[0], text);
}

static void take_members(visit *visit, const tl_reply *reply) {
    for (size_t i = 0; i < reply->count && visit->count < MEMBERS_ALL; i++) {
        int64_t learner = 0;
        (void)tl__reply_int(tl__reply_item(&reply->items[i], 3), &learner);
        visit->count += learner == 0 && tl__reply_int(tl__reply_item(&reply->items[i], 0),
                                                      &visit->ids[visit->count]);
    }
}

static void take_nothing(visit *visit, const tl_reply *reply) {
    (void)visit, (void)reply;
}

/* An error of etcd. The reply to the transaction (RIGHTS) says whether the user may not use the locks'
 * keys. */
static void take_error(visit *visit, unsigned question, tl_bytes error) {
    tl_out out = {0};
    tl_bytes message;
    int code = tl__etcd_error(error, &message);
    tl_err err = tl__etcd_refusal(error, &out);
    if (question == RIGHTS) {
        visit->denied = err == TL_EDENIED;
        visit->nobody = visit->denied && code != PERMISSION_DENIED;
    } else if (question == STATUS) {
        visit->why = err == TL_EUNCERTAIN ? TL_EUNAVAILABLE : err;
        (void)snprintf(visit->message, sizeof visit->message, "%s: %.150s", visit->endpoint.label,
                       out.message);
    }
}

static void on_answer(void *ctx, const tl_answer *answer) {
    asking *asking = ctx;
    static void (*const take[QUESTIONS])(visit * visit, const tl_reply *reply) = {
        take_status, take_alarms, take_members, take_nothing};
    asking->left--;
    if (answer->ok && answer->reply->type == TL_REPLY_ARRAY) {
        take[answer->ticket](asking->visit, answer->reply);
    } else if (answer->ok) {
        take_error(asking->visit, (unsigned)answer->ticket, answer->reply->text);
    } else if (!asking->visit->answered && !asking->visit->message[0]) {
        asking->visit->why = answer->why;
        tl__bytes_print(asking->visit->message, sizeof asking->visit->message, answer->message);
    }
}

/* The last question, RIGHTS, releases an entry that nobody has, at a revision at which no key is created.
 * So it changes nothing, but etcd refuses it to a user who may not lock. */
static void send_all(tl_conn *conn, asking *asking, const char *key) {
    const tl_command ask[QUESTIONS] = {
        [STATUS] = {.form = TL_ARGV, .argc = 1, .argv = {TL_LITERAL("STATUS")}},
        [ALARMS] = {.form = TL_ARGV, .argc = 1, .argv = {TL_LITERAL("ALARMS")}},
        [MEMBERS] = {.form = TL_ARGV, .argc = 1, .argv = {TL_LITERAL("MEMBERS")}},
        [RIGHTS] = {
            .form = TL_ARGV,
            .argc = 4,
            .argv = {TL_LITERAL("DROP"), tl__bytes_of(key), TL_LITERAL("none"), TL_LITERAL("1")}}};
    tl_mono now = tl__mono_now();
    for (int i = 0; i < QUESTIONS; i++) {
        tl_send send = {.ticket = (uint16_t)i, .count = 1, .by = tl__mono_add_ms(now, LIMIT_MS)};
        send.command[0] = ask[i];
        asking->left += tl__conn_send(conn, &send, NULL, now) == TL_OK;
    }
}

/* Ask one member all questions, within their limit. False: no memory. */
static bool ask_member(visit *visit, const tl_endpoint *login, const tl_seeds *seeds,
                       unsigned which, const char *key) {
    tl_seeds one = {.kind = TL_URL_ETCD, .count = 1};
    asking asking = {.visit = visit};
    one.seed[0] = seeds->seed[which];
    memcpy(one.prefix, seeds->prefix, sizeof one.prefix);
    tl_members *members = tl__members_new(login, &one);
    const tl_conn_limits limits = {
        .codec = &tl__codec_grpc, .members = members, .connect_ms = LIMIT_MS};
    const tl_conn_calls calls = {.answer = on_answer, .ctx = &asking};
    tl_conn *conn = members ? tl__conn_new(&members->endpoint[0], &limits, &calls) : NULL;
    if (conn) {
        visit->endpoint = members->endpoint[0];
        tl__endpoint_wipe(&visit->endpoint);
        send_all(conn, &asking, key ? key : "tidelock:doctor");
        while (asking.left > 0) {
            struct pollfd fd = {.fd = tl__conn_fd(conn), .events = tl__conn_events(conn)};
            tl__wait(&fd, 1, tl__conn_until(conn));
            tl__conn_drive(conn, tl__mono_now());
        }
    }
    tl__conn_free(conn);
    tl__members_free(members);
    return conn != NULL;
}

/* ---- findings -------------------------------------------------------------------------------- */

static void check_alarms(const visit *visit, doctor_report *report) {
    if (!visit->told_alarms && visit->leader != 0 && !visit->learner) {
        doctor_found(report, "alarm", DOCTOR_UNSEEN,
                     "whether etcd has raised an alarm: %s did not report it",
                     visit->endpoint.label);
        doctor_why(report, "with NOSPACE no lock is acquired or renewed");
        doctor_fix(report, "run the doctor as a user that may ask, or: etcdctl alarm list");
    }
    for (unsigned i = 0; i < visit->alarms; i++) {
        bool full = strcmp(visit->alarm[i], "NOSPACE") == 0;
        doctor_found(report, "alarm", DOCTOR_DANGER, "etcd has raised the alarm %s",
                     visit->alarm[i]);
        doctor_why(report, full ? "it refuses all writes: no lock is acquired or renewed"
                                : "its members differ: two clients could hold one lock");
        doctor_fix(
            report,
            full ? "etcdctl compact REVISION; etcdctl defrag; etcdctl alarm disarm; or a larger "
                   "--quota-backend-bytes"
                 : "restore the member from a snapshot, or replace it; etcdctl alarm disarm");
    }
}

/* "3.4.23" */
static bool is_before(const char *version, int least) {
    int major = 0, minor = 0;
    return sscanf(version, "%3d.%3d", &major, &minor) == 2 && major * 100 + minor < least;
}

/* These leave out the lease of each key where values aren't asked for. */
static bool lists_no_leases(const char *version) {
    int patch = 0;
    return sscanf(version, "3.7.%3d", &patch) == 1 && patch <= 3;
}

static void check_version(const visit *visit, doctor_report *report) {
    const char *place = visit->endpoint.label;
    if (is_before(visit->version, 304)) {
        doctor_found(report, "version", DOCTOR_WARNING, "%s is etcd %s", place, visit->version);
        doctor_why(report, "locks are tested with 3.4 and newer");
        doctor_fix(report, "upgrade it");
    } else if (lists_no_leases(visit->version)) {
        doctor_found(report, "version", DOCTOR_NOTE,
                     "%s is etcd %s, which lists keys without leases", place, visit->version);
        doctor_why(report, "inspect and counts of waiters may take a key of others for a waiter");
        doctor_fix(report, "upgrade it to a later version");
    }
}

static void check_member(const visit *visit, bool alone, doctor_report *report) {
    const char *place = visit->endpoint.label;
    if (!visit->answered) {
        doctor_found(report, "member", DOCTOR_WARNING, "%s did not respond: %.150s", place,
                     visit->message);
        doctor_why(report, "with a majority of the members away no lock is acquired or renewed");
        doctor_fix(report, "start it, or remove it from the URL");
        return;
    }
    check_version(visit, report);
    if (visit->leader == 0) {
        doctor_found(report, "leader", DOCTOR_DANGER, "%s knows no leader", place);
        doctor_why(report,
                   "it executes nothing; without a majority of the members there is no leader");
        doctor_fix(report, "start the other members, and fix the network between them");
    }
    if (visit->learner) {
        doctor_found(report, "learner", alone ? DOCTOR_DANGER : DOCTOR_WARNING,
                     "%s is a learner, which executes no transaction", place);
        doctor_why(report, alone ? "no other member responds: no lock is acquired"
                                 : "a request to it fails before it is sent to another member");
        doctor_fix(report, "remove it from the URL, or: etcdctl member promote");
    }
}

static bool is_named(const visit *visit, unsigned n, int64_t id) {
    for (unsigned i = 0; i < n; i++)
        if (visit[i].answered && visit[i].id == id)
            return true;
    return false;
}

static void check_members(const visit *visits, unsigned n, const visit *said,
                          doctor_report *report) {
    unsigned unnamed = 0, away = 0;
    for (unsigned i = 0; i < said->count; i++)
        unnamed += !is_named(visits, n, said->ids[i]);
    for (unsigned i = 0; i < n; i++)
        away += !visits[i].answered;
    if (said->count == 0 && said->leader != 0 && !said->learner) {
        doctor_found(report, "members", DOCTOR_UNSEEN,
                     "which members there are: %s did not report it", said->endpoint.label);
        doctor_why(report, "with a majority of the members away no lock is acquired or renewed");
        doctor_fix(report, "run the doctor as a user that may ask, or: etcdctl member list");
    } else if (said->count == 1) {
        doctor_found(report, "members", DOCTOR_WARNING, "there is one member");
        doctor_why(
            report,
            "while it is down, no lock is acquired or renewed; and its disk is the only copy");
        doctor_fix(report, "use three or five members: etcdctl member add");
    } else if (said->count > 0 && said->count % 2 == 0) {
        doctor_found(report, "members", DOCTOR_NOTE, "there are %u members", said->count);
        doctor_why(report, "an even number tolerates no more failures than one member fewer");
        doctor_fix(report, "add one member, or remove one");
    }
    if (unnamed > away) {
        doctor_found(report, "url", DOCTOR_NOTE, "the URL doesn't name %u of the %u members",
                     unnamed - away, said->count);
        doctor_why(report, "clients use only the members that it names");
        doctor_fix(report, "name all of them");
    }
}

/* All members that reply must be of the same etcd. */
static void check_clusters(const visit *visits, unsigned n, const visit *said,
                           doctor_report *report) {
    for (unsigned i = 0; i < n; i++) {
        if (!visits[i].answered || visits[i].cluster == said->cluster)
            continue;
        doctor_found(report, "url", DOCTOR_DANGER, "%s is of another etcd than %s",
                     visits[i].endpoint.label, said->endpoint.label);
        doctor_why(report, "two clients could hold one lock, each in another etcd");
        doctor_fix(report, "name the members of one etcd only");
    }
}

static void check_rights(const visit *visit, const char *key, doctor_report *report) {
    if (!visit->denied)
        return;
    if (visit->nobody) {
        doctor_found(report, "permissions", DOCTOR_DANGER, "etcd requires a user and a password");
        doctor_why(report, "no lock is acquired without them");
        doctor_fix(report, "etcd://USER:PASSWORD@HOST");
        return;
    }
    doctor_found(report, "permissions", key ? DOCTOR_DANGER : DOCTOR_UNSEEN, "%s",
                 key ? "this user may not lock the key" : "which keys this user may lock");
    doctor_why(report,
               key ? "its locks are refused"
                   : "this user may use some keys only: whether those of locks are among them is "
                     "not known");
    doctor_fix(report,
               key ? "etcdctl role grant-permission --prefix=true ROLE readwrite PREFIX/KEY/"
                   : "tidelock doctor KEY, with the key of a lock");
}

/* No member reports whether it has that option. */
static void found_new_leader(const visit *said, doctor_report *report) {
    doctor_found(report, "rest-leader", DOCTOR_NOTE,
                 "a new leader counts rests anew, unless lease checkpoints are on");
    doctor_why(report, "a rest lasts longer then, and the job may miss the next period");
    doctor_fix(report,
               is_before(said->version, 306)
                   ? "start the members with --experimental-enable-lease-checkpoint, and from "
                     "3.5.2 on with --experimental-enable-lease-checkpoint-persist"
                   : "start the members with --feature-gates=LeaseCheckpoint=true");
}

static const visit *any_answered(const visit *visits, unsigned n) {
    const visit *found = NULL;
    for (unsigned i = 0; i < n; i++)
        if (visits[i].answered &&
            (!found || (found->learner && !visits[i].learner) ||
             (found->learner == visits[i].learner && visits[i].count > found->count)))
            found = &visits[i];
    return found;
}

static int judge(const visit *visits, unsigned n, const char *key, const doctor_options *options,
                 doctor_report *report) {
    char product[48];
    const visit *said = any_answered(visits, n);
    if (!said)
        return fail(status_of(visits[0].why), "%s", visits[0].message);
    for (unsigned i = 0; i < n; i++)
        check_member(&visits[i], said->learner, report);
    check_alarms(said, report);
    check_rights(said, key, report);
    check_clusters(visits, n, said, report);
    check_members(visits, n, said, report);
    if (options->once_per_ms > 0)
        found_new_leader(said, report);
    doctor_check_host(report);
    doctor_sort(report);
    (void)snprintf(product, sizeof product, "etcd %s", said->version);
    const doctor_title title = {.server = said->endpoint.label, .product = product};
    return doctor_show(options, &title, report);
}

int doctor_etcd(const server *where, const doctor_options *options, const char *key,
                doctor_report *report) {
    const tl_client_options how = server_login(where);
    tl_endpoint login;
    link_login own;
    tl_seeds seeds;
    tl_error err;
    int usage = where->url && !where->from_env ? STATUS_USAGE : STATUS_CONFIG;

    if (options->acl)
        return fail(STATUS_USAGE,
                    "doctor: --acl prints commands for Redis; on etcd a user needs readwrite "
                    "on the keys of the locks: etcdctl role grant-permission");
    bool ok = tl__endpoint_parse_seeds(&login, &own.secret, &seeds, where->url, &err) == TL_OK &&
              tl__endpoint_add(&login, &own.files, &how, &err) == TL_OK;
    if (!ok) {
        tl__secret_wipe(&own.secret);
        return fail(usage, "%s", err.message);
    }
    visit *visit = calloc(seeds.count, sizeof *visit);
    bool memory = visit != NULL;
    for (unsigned i = 0; memory && i < seeds.count; i++)
        memory = ask_member(&visit[i], &login, &seeds, i, key);
    tl__endpoint_wipe(&login);
    tl__secret_wipe(&own.secret);
    int status = memory ? judge(visit, seeds.count, key, options, report)
                        : fail(STATUS_INTERNAL, "out of memory");
    free(visit);
    return status;
}
