/*
 * The doctor of an etcd: each member that the URL names is asked what it says of itself and of the cluster. Nothing is
 * changed.
 */
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"
#include "ground/wait.h"
#include "protocol/etcd.h"

#define LIMIT_MS 3000
#define PERMISSION_DENIED 7 /* gRPC's */
#define ALARMS_MOST 8
#define MEMBERS_ALL 64 /* of a cluster; there should be no more than 7 */

enum { STATUS, ALARMS, MEMBERS, RIGHTS, QUESTIONS }; /* their tickets */

/* What a member has answered. */
typedef struct {
    tl_endpoint endpoint; /* without its secrets, which `members` has */
    bool answered, learner;
    tl_err why;                        /* not, */
    char message[DOCTOR_MESSAGE_SIZE]; /* and for a person */
    char version[32];
    int64_t leader, id, cluster;
    bool told_alarms;
    unsigned alarms;
    char alarm[ALARMS_MOST][32];
    int64_t ids[MEMBERS_ALL]; /* of all members but learners, as it knows them */
    unsigned count;           /* 0: it didn't say */
    bool nobody, denied;      /* the locks' keys to this user, who isn't known */
} visit;

typedef struct {
    visit *v;
    unsigned left; /* questions without an answer */
} asking;

/* ---- asking ---------------------------------------------------------------------------------- */

static void take_status(visit *v, const tl_reply *r) {
    tl_bytes version;
    int64_t learner = 0;
    if (!tl__reply_text(tl__reply_item(r, 0), &version) ||
        !tl__reply_int(tl__reply_item(r, 1), &v->leader) ||
        !tl__reply_int(tl__reply_item(r, 2), &v->id) ||
        !tl__reply_int(tl__reply_item(r, 4), &learner) ||
        !tl__reply_int(tl__reply_item(r, 6), &v->cluster) || version.n == 0) {
        v->why = TL_ESERVER;
        (void)snprintf(v->message, sizeof v->message,
                       "%s: this is no answer of etcd's JSON gateway", v->endpoint.label);
        return;
    }
    tl__bytes_print(v->version, sizeof v->version, version);
    v->learner = learner == 1;
    v->answered = true;
}

static void take_alarms(visit *v, const tl_reply *r) {
    tl_bytes text;
    v->told_alarms = true;
    for (size_t i = 0; i < r->count && v->alarms < ALARMS_MOST; i++)
        if (tl__reply_text(tl__reply_item(&r->items[i], 1), &text))
            tl__bytes_print(v->alarm[v->alarms++], sizeof v->alarm[0], text);
}

static void take_members(visit *v, const tl_reply *r) {
    for (size_t i = 0; i < r->count && v->count < MEMBERS_ALL; i++) {
        int64_t learner = 0;
        (void)tl__reply_int(tl__reply_item(&r->items[i], 3), &learner);
        v->count += learner == 0 &&
                    tl__reply_int(tl__reply_item(&r->items[i], 0), &v->ids[v->count]);
    }
}

static void take_nothing(visit *v, const tl_reply *r) {
    (void)v, (void)r;
}

/* An error of etcd's. It tells of the transaction what this user lacks. */
static void take_error(visit *v, unsigned question, tl_bytes error) {
    tl_out out = {0};
    tl_bytes message;
    int code = tl__etcd_error(error, &message);
    tl_err err = tl__etcd_refusal(error, &out);
    if (question == RIGHTS) {
        v->denied = err == TL_EDENIED;
        v->nobody = v->denied && code != PERMISSION_DENIED;
    } else if (question == STATUS) {
        v->why = err == TL_EUNCERTAIN ? TL_EUNAVAILABLE : err;
        (void)snprintf(v->message, sizeof v->message, "%s: %.150s", v->endpoint.label, out.words);
    }
}

static void on_answer(void *ctx, const tl_answer *answer) {
    asking *a = ctx;
    static void (*const take[QUESTIONS])(visit * v, const tl_reply *r) = {
        take_status, take_alarms, take_members, take_nothing};
    a->left--;
    if (answer->ok && answer->reply->type == TL_REPLY_ARRAY) {
        take[answer->ticket](a->v, answer->reply);
    } else if (answer->ok) {
        take_error(a->v, (unsigned)answer->ticket, answer->reply->text);
    } else if (!a->v->answered && !a->v->message[0]) {
        a->v->why = answer->why;
        tl__bytes_print(a->v->message, sizeof a->v->message, answer->words);
    }
}

/* The last is a release of what nobody has, at a revision at which no key is created: it changes nothing, and is denied to
 * whom a lock would be. */
static void send_all(tl_conn *conn, asking *a, const char *key) {
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
        a->left += tl__conn_send(conn, &send, NULL, now) == TL_OK;
    }
}

/* Within the limit of the questions. False: no memory. */
static bool ask_member(visit *v, const tl_endpoint *login, const tl_seeds *seeds, unsigned which,
                       const char *key) {
    tl_seeds one = {.kind = TL_URL_ETCD, .count = 1};
    asking a = {.v = v};
    one.seed[0] = seeds->seed[which];
    memcpy(one.prefix, seeds->prefix, sizeof one.prefix);
    tl_members *m = tl__members_new(login, &one);
    const tl_conn_limits limits = {.members = m, .connect_ms = LIMIT_MS};
    const tl_conn_calls calls = {.answer = on_answer, .ctx = &a};
    tl_conn *conn = m ? tl__conn_new(&m->endpoint[0], &limits, &calls) : NULL;
    if (conn) {
        v->endpoint = m->endpoint[0];
        tl__endpoint_wipe(&v->endpoint);
        send_all(conn, &a, key ? key : "tidelock:doctor");
        while (a.left > 0) {
            struct pollfd fd = {.fd = tl__conn_fd(conn), .events = tl__conn_events(conn)};
            tl__wait(&fd, 1, tl__conn_until(conn));
            tl__conn_drive(conn, tl__mono_now());
        }
    }
    tl__conn_free(conn);
    tl__members_free(m);
    return conn != NULL;
}

/* ---- what was found -------------------------------------------------------------------------- */

static void check_alarms(const visit *v, doctor_report *r) {
    if (!v->told_alarms && v->leader != 0 && !v->learner) {
        doctor_found(r, "alarm", DOCTOR_UNSEEN, "whether etcd has raised an alarm: %s didn't say",
                     v->endpoint.label);
        doctor_why(r, "with NOSPACE no lock is acquired or renewed");
        doctor_fix(r, "a user who may ask, or: etcdctl alarm list");
    }
    for (unsigned i = 0; i < v->alarms; i++) {
        bool full = strcmp(v->alarm[i], "NOSPACE") == 0;
        doctor_found(r, "alarm", DOCTOR_DANGER, "etcd has raised the alarm %s", v->alarm[i]);
        doctor_why(r, full ? "it refuses all writes: no lock is acquired or renewed"
                           : "its members don't hold the same: two could hold one lock");
        doctor_fix(
            r, full ? "etcdctl compact REVISION; etcdctl defrag; etcdctl alarm disarm; or a larger "
                      "--quota-backend-bytes"
                    : "restore the member from a snapshot, or replace it; etcdctl alarm disarm");
    }
}

/* "3.4.23" */
static bool is_old(const char *version) {
    int major = 0, minor = 0;
    return sscanf(version, "%3d.%3d", &major, &minor) == 2 && major * 100 + minor < 304;
}

static void check_member(const visit *v, bool alone, doctor_report *r) {
    const char *place = v->endpoint.label;
    if (!v->answered) {
        doctor_found(r, "member", DOCTOR_WARNING, "%s could not be asked: %.150s", place,
                     v->message);
        doctor_why(r, "with a majority of the members away no lock is acquired or renewed");
        doctor_fix(r, "start it, or take it out of the URL");
        return;
    }
    if (is_old(v->version)) {
        doctor_found(r, "version", DOCTOR_WARNING, "%s is etcd %s", place, v->version);
        doctor_why(r, "locks are tried with 3.4 and later");
        doctor_fix(r, "upgrade it");
    }
    if (v->leader == 0) {
        doctor_found(r, "leader", DOCTOR_DANGER, "%s knows no leader", place);
        doctor_why(r, "it carries out nothing; without a majority of the members there is none");
        doctor_fix(r, "start the other members, and mend the network between them");
    }
    if (v->learner) {
        doctor_found(r, "learner", alone ? DOCTOR_DANGER : DOCTOR_WARNING,
                     "%s is a learner, which carries out no transaction", place);
        doctor_why(r, alone ? "no other member answers: no lock is acquired"
                            : "requests that go there fail before they go elsewhere");
        doctor_fix(r, "take it out of the URL, or: etcdctl member promote");
    }
}

static bool is_named(const visit *v, unsigned n, int64_t id) {
    for (unsigned i = 0; i < n; i++)
        if (v[i].answered && v[i].id == id)
            return true;
    return false;
}

static void check_members(const visit *v, unsigned n, const visit *said, doctor_report *r) {
    unsigned unnamed = 0, away = 0;
    for (unsigned i = 0; i < said->count; i++)
        unnamed += !is_named(v, n, said->ids[i]);
    for (unsigned i = 0; i < n; i++)
        away += !v[i].answered;
    if (said->count == 0 && said->leader != 0 && !said->learner) {
        doctor_found(r, "members", DOCTOR_UNSEEN, "which members there are: %s didn't say",
                     said->endpoint.label);
        doctor_why(r, "with a majority of the members away no lock is acquired or renewed");
        doctor_fix(r, "a user who may ask, or: etcdctl member list");
    } else if (said->count == 1) {
        doctor_found(r, "members", DOCTOR_WARNING, "there is one member");
        doctor_why(
            r, "while it is away, no lock is acquired or renewed; and its disk is the only one");
        doctor_fix(r, "three members, or five: etcdctl member add");
    } else if (said->count > 0 && said->count % 2 == 0) {
        doctor_found(r, "members", DOCTOR_NOTE, "there are %u members", said->count);
        doctor_why(r, "of an even number no more may be away than of one fewer");
        doctor_fix(r, "one more, or one fewer");
    }
    if (unnamed > away) {
        doctor_found(r, "url", DOCTOR_NOTE, "the URL doesn't name %u of the %u members",
                     unnamed - away, said->count);
        doctor_why(r, "clients ask those alone that it names");
        doctor_fix(r, "name all of them");
    }
}

/* Each member that answers must be of one etcd. */
static void check_clusters(const visit *v, unsigned n, const visit *said, doctor_report *r) {
    for (unsigned i = 0; i < n; i++) {
        if (!v[i].answered || v[i].cluster == said->cluster)
            continue;
        doctor_found(r, "url", DOCTOR_DANGER, "%s is of another etcd than %s", v[i].endpoint.label,
                     said->endpoint.label);
        doctor_why(r, "two could hold one lock, each in an etcd of its own");
        doctor_fix(r, "name the members of one etcd alone");
    }
}

static void check_rights(const visit *v, const char *key, doctor_report *r) {
    if (!v->denied)
        return;
    if (v->nobody) {
        doctor_found(r, "permissions", DOCTOR_DANGER, "etcd wants a user and a password");
        doctor_why(r, "no lock is acquired without");
        doctor_fix(r, "etcd://USER:PASSWORD@HOST");
        return;
    }
    doctor_found(r, "permissions", key ? DOCTOR_DANGER : DOCTOR_UNSEEN, "%s",
                 key ? "this user may not lock the key" : "which keys this user may lock");
    doctor_why(r,
               key ? "its locks are refused"
                   : "this user may use some keys only: whether those of locks are among them is "
                     "not known");
    doctor_fix(r, key ? "etcdctl role grant-permission --prefix=true ROLE readwrite PREFIX/KEY/"
                      : "tidelock doctor KEY, with the key of a lock");
}

static const visit *any_answered(const visit *v, unsigned n) {
    const visit *found = NULL;
    for (unsigned i = 0; i < n; i++)
        if (v[i].answered && (!found || (found->learner && !v[i].learner) ||
                              (found->learner == v[i].learner && v[i].count > found->count)))
            found = &v[i];
    return found;
}

static int judge(const visit *v, unsigned n, const char *key, const doctor_options *o,
                 doctor_report *r) {
    char product[48];
    const visit *said = any_answered(v, n);
    if (!said)
        return fail(status_of(v[0].why), "%s", v[0].message);
    for (unsigned i = 0; i < n; i++)
        check_member(&v[i], said->learner, r);
    check_alarms(said, r);
    check_rights(said, key, r);
    check_clusters(v, n, said, r);
    check_members(v, n, said, r);
    doctor_sort(r);
    (void)snprintf(product, sizeof product, "etcd %s", said->version);
    const doctor_title title = {.server = said->endpoint.label, .product = product};
    return doctor_show(o, &title, r);
}

int doctor_etcd(const server *s, const doctor_options *o, const char *key, doctor_report *r) {
    const tl_client_options how = server_login(s);
    tl_endpoint login;
    link_login own;
    tl_seeds seeds;
    tl_error err;
    int usage = s->url && !s->from_env ? STATUS_USAGE : STATUS_CONFIG;

    if (o->acl)
        return fail(STATUS_USAGE,
                    "doctor: --acl prints commands for Redis; on etcd a user needs readwrite "
                    "on the keys of the locks: etcdctl role grant-permission");
    bool ok = tl__endpoint_parse_seeds(&login, &own.secret, &seeds, s->url, &err) == TL_OK &&
              tl__endpoint_add(&login, &own.files, &how, &err) == TL_OK;
    if (!ok) {
        tl__secret_wipe(&own.secret);
        return fail(usage, "%s", err.message);
    }
    visit *v = calloc(seeds.count, sizeof *v);
    bool memory = v != NULL;
    for (unsigned i = 0; memory && i < seeds.count; i++)
        memory = ask_member(&v[i], &login, &seeds, i, key);
    tl__endpoint_wipe(&login);
    tl__secret_wipe(&own.secret);
    int status = memory ? judge(v, seeds.count, key, o, r) : fail(STATUS_INTERNAL, "out of memory");
    free(v);
    return status;
}
