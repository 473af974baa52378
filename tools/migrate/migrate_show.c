/*
 * Words and JSON. Nothing is decided here but what to say.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "migrate/migrate_show.h"

const char *migrate_date(char buf[MIGRATE_DATE_SIZE], int64_t us) {
    time_t s = (time_t)(us / 1000000);
    struct tm tm;

    if (!gmtime_r(&s, &tm) || strftime(buf, MIGRATE_DATE_SIZE, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
        (void)snprintf(buf, MIGRATE_DATE_SIZE, "?");
    return buf;
}

static int64_t ago_ms(const migrate_view *v, int64_t us) {
    return v->now_us > us ? (v->now_us - us) / 1000 : 0;
}

/* ---- text ------------------------------------------------------------------------------------- */

/* As it came from the server, but for what a terminal would act on. */
static void print_safe(FILE *out, const char *text) {
    for (; *text; text++)
        (void)fputc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, out);
}

static void show_register(const migrate_view *v, FILE *out) {
    char date[MIGRATE_DATE_SIZE], ago[DURATION_SHOWN], lease[DURATION_SHOWN];
    const migrate_register *r = &v->reg;

    if (!r->readable) {
        (void)fprintf(out, "namespace %s: %s\n", v->name,
                      r->there ? "its register can't be read" : "not registered");
        return;
    }
    (void)fprintf(out, "namespace %s: phase %d (%s), epoch %lld, lease %s, keys ", v->name,
                  r->phase, migrate_phase_name(r->phase), (long long)r->epoch,
                  show_ms(lease, r->lease_ms));
    print_safe(out, r->keys);
    (void)fprintf(out, "\n  since %s (%s ago), by %s\n", migrate_date(date, r->since_us),
                  show_ms(ago, ago_ms(v, r->since_us)), r->by[0] ? r->by : "?");
}

static const char *state_of_client(const migrate_view *v, const migrate_client *c) {
    if (!c->readable)
        return "unreadable";
    if (migrate_client_is_gone(c, v->now_us))
        return "gone";
    if (!v->reg.readable)
        return c->epoch == 0 ? "unregistered" : "ahead";
    if (c->epoch == v->reg.epoch)
        return c->phase == v->reg.phase ? "confirmed" : "contradicts";
    return c->epoch < v->reg.epoch ? "behind" : "ahead";
}

static void show_client(const migrate_view *v, const migrate_client *c, FILE *out) {
    char who[MIGRATE_WHO_SIZE], ago[DURATION_SHOWN];
    bool other = migrate_takes_others(v, c);

    (void)fprintf(out, "  %-12s %s", state_of_client(v, c), migrate_client_who(who, c));
    if (c->readable)
        (void)fprintf(out, ": epoch %lld, phase %d (%s), seen %s ago, version %s%s%s%s\n",
                      (long long)c->epoch, c->phase, migrate_phase_name(c->phase),
                      show_ms(ago, ago_ms(v, c->seen_us)), c->version, other ? ", keys '" : "",
                      other ? c->keys : "", other ? "'" : "");
    else
        (void)fprintf(out, ": '%s'\n", c->text);
}

/* ---- many clients ------------------------------------------------------------------------------ */

#define GROUPS_MOST 40 /* lines; the rest is counted */
#define HOSTS_MOST 3   /* names */

typedef struct {
    const migrate_client *first;
    const char *state;
    int count, hosts;
    const char *host[HOSTS_MOST];
    bool more_hosts;
    int64_t seen_least_us, seen_most_us;
} group;

static bool is_of(const migrate_view *v, const group *g, const migrate_client *c) {
    return c->readable && g->first->readable && g->first->epoch == c->epoch &&
           g->first->phase == c->phase && strcmp(g->state, state_of_client(v, c)) == 0 &&
           strcmp(g->first->service, c->service) == 0 &&
           strcmp(g->first->version, c->version) == 0 && strcmp(g->first->keys, c->keys) == 0;
}

static void put_in(group *g, const migrate_client *c) {
    g->count++;
    g->seen_least_us = c->seen_us < g->seen_least_us ? c->seen_us : g->seen_least_us;
    g->seen_most_us = c->seen_us > g->seen_most_us ? c->seen_us : g->seen_most_us;
    for (int i = 0; i < g->hosts; i++)
        if (strcmp(g->host[i], c->host) == 0)
            return;
    if (g->hosts == HOSTS_MOST)
        g->more_hosts = true;
    else
        g->host[g->hosts++] = c->host;
}

static void show_group(const migrate_view *v, const group *g, FILE *out) {
    char newest[DURATION_SHOWN], oldest[DURATION_SHOWN];
    const migrate_client *c = g->first;
    bool other = migrate_takes_others(v, c);

    if (g->count == 1) {
        show_client(v, c, out);
        return;
    }
    (void)fprintf(out, "  %-12s %d clients%s%s on ", g->state, g->count,
                  c->service[0] ? " of " : "", c->service);
    for (int i = 0; i < g->hosts; i++)
        (void)fprintf(out, "%s%s", i ? ", " : "", g->host[i]);
    (void)fprintf(out, "%s: epoch %lld, phase %d (%s), seen %s to %s ago, version %s%s%s%s\n",
                  g->more_hosts ? " and others" : "", (long long)c->epoch, c->phase,
                  migrate_phase_name(c->phase), show_ms(newest, ago_ms(v, g->seen_most_us)),
                  show_ms(oldest, ago_ms(v, g->seen_least_us)), c->version, other ? ", keys '" : "",
                  other ? c->keys : "", other ? "'" : "");
}

/* Those that are not gone: what is alike but for host, process and moment in one line. */
static void show_groups(const migrate_view *v, FILE *out) {
    group all[GROUPS_MOST];
    int count = 0, more = 0;

    for (int i = 0; i < v->clients; i++) {
        const migrate_client *c = &v->client[i];
        int at = 0;
        if (migrate_client_is_gone(c, v->now_us))
            continue;
        while (at < count && !is_of(v, &all[at], c))
            at++;
        if (at == GROUPS_MOST) {
            more++;
            continue;
        }
        if (at == count)
            all[count++] = (group){.first = c,
                                   .state = state_of_client(v, c),
                                   .seen_least_us = c->seen_us,
                                   .seen_most_us = c->seen_us};
        put_in(&all[at], c);
    }
    for (int i = 0; i < count; i++)
        show_group(v, &all[i], out);
    if (more)
        (void)fprintf(out, "  and %d more: tidelock migrate clients --namespace %s\n", more,
                      v->name);
}

void migrate_show_clients(const migrate_view *v, FILE *out) {
    if (v->clients == 0)
        (void)fprintf(out, "no clients have registered\n");
    for (int i = 0; i < v->clients; i++)
        show_client(v, &v->client[i], out);
}

const char *migrate_others(char buf[MIGRATE_OTHERS_SIZE], const migrate_view *v) {
    char who[MIGRATE_WHO_SIZE];
    const migrate_client *first = NULL;
    int n = 0;

    for (int i = 0; i < v->clients; i++)
        if (migrate_takes_others(v, &v->client[i]) && n++ == 0)
            first = &v->client[i];
    buf[0] = '\0';
    if (first)
        (void)snprintf(
            buf, MIGRATE_OTHERS_SIZE,
            "%d %s locks of other names than %.100s as well, which nothing here looks at "
            "(%.100s: '%.60s'): give the same pattern to both: '%.100s=%s'",
            n, n == 1 ? "client may acquire" : "clients may acquire", v->reg.keys,
            migrate_client_who(who, first), first->keys, v->reg.keys, v->name);
    return buf;
}

static void show_others(const migrate_view *v, FILE *out) {
    char text[MIGRATE_OTHERS_SIZE];

    if (*migrate_others(text, v))
        (void)fprintf(out, "  note: %s\n", text);
}

static void show_bunch(const char *name, const migrate_bunch *b, FILE *out) {
    char list[MIGRATE_LIST_SIZE];

    (void)fprintf(out, "  %-54s %4lld", name, (long long)b->count);
    if (b->count > 0)
        (void)fprintf(out, "  %s", migrate_bunch_list(list, b));
    (void)fputc('\n', out);
}

static void show_evidence(const migrate_status *s, FILE *out) {
    if (s->locks) {
        (void)fprintf(out, "\nlocks%s\n", s->locks->whole ? "" : " (not all keys were looked at)");
        show_bunch("stamps of tidelock's own", &s->locks->own, out);
        show_bunch("stamps without a sidecar, as legacy clients leave them", &s->locks->strays,
                   out);
        show_bunch("stamps of tidelock clients that don't follow the phase", &s->locks->strangers,
                   out);
        show_bunch("tokens", &s->locks->tokens, out);
    }
    if (!s->traffic)
        return;
    (void)fprintf(out, "\nthe whole server\n");
    if (s->calls >= 0)
        (void)fprintf(out, "  %lld times SETNX or GETSET since its counters were reset\n",
                      (long long)s->calls);
    else
        (void)fprintf(out, "  it doesn't tell how often SETNX and GETSET have run\n");
    (void)fprintf(out, "  %lld connections whose last command is none of tidelock's%s%s\n",
                  (long long)s->traffic->connections, s->traffic->suspects[0] ? ": " : "",
                  s->traffic->suspects);
}

static void show_step(const char *what, int to, const migrate_blockers *b, FILE *out) {
    if (to < 0 || to >= PHASES)
        return;
    (void)fprintf(out, "\n%s: phase %d (%s)%s\n", what, to, migrate_phase_name(to),
                  b->count ? " is blocked:" : ": nothing is in the way");
    for (int i = 0; i < b->count; i++)
        (void)fprintf(out, "  - %s\n    who:  %s\n    do:   %s\n", b->item[i].what, b->item[i].who,
                      b->item[i].todo);
    if (b->more)
        (void)fprintf(out, "  - and %d more\n", b->more);
}

static void show_history(const migrate_status *s, FILE *out) {
    char date[MIGRATE_DATE_SIZE];

    (void)fprintf(out, "\nhistory\n");
    for (int i = 0; i < s->changes; i++) {
        const migrate_change *c = &s->history[i];
        (void)fprintf(out, "  %s  %-8s ", migrate_date(date, c->at_us), c->action);
        if (c->from_phase >= 0)
            (void)fprintf(out, "phase %d -> %d, epoch %lld -> %lld", c->from_phase, c->to_phase,
                          (long long)c->from_epoch, (long long)c->to_epoch);
        else
            (void)fprintf(out, "phase %d, epoch %lld", c->to_phase, (long long)c->to_epoch);
        (void)fprintf(out, ", by %s\n    %s\n", c->by, c->evidence);
    }
}

void migrate_show_text(const migrate_status *s, FILE *out) {
    const migrate_view *v = s->view;
    char java[MIGRATE_JAVA_SIZE];
    int live = migrate_live_clients(v);

    show_register(v, out);
    if (v->reg.readable)
        (void)fprintf(out, "  Java: %s\n", migrate_java(java, v, s->locks));
    (void)fprintf(out, "\nclients: %d\n", live);
    show_groups(v, out);
    if (v->clients > live)
        (void)fprintf(out, "  and %d that are gone\n", v->clients - live);
    show_others(v, out);
    show_evidence(s, out);
    if (!v->reg.readable)
        show_step("next", 0, &s->next, out);
    else if (v->reg.phase + 1 < PHASES)
        show_step("next", v->reg.phase + 1, &s->next, out);
    if (v->reg.readable && migrate_wants_watch(v->reg.phase, v->reg.phase + 1))
        (void)fprintf(out, "  (advance watches for legacy clients before it moves: see --watch)\n");
    if (v->reg.readable)
        show_step("back", v->reg.phase - 1, &s->back, out);
    if (s->history)
        show_history(s, out);
}

/* ---- JSON ------------------------------------------------------------------------------------- */

int migrate_show_line(json_t *j) {
    return js_line(j, STDOUT_FILENO) ? fail(STATUS_INTERNAL, "standard output: %s", strerror(errno))
                                     : 0;
}

static json_t *client_json(const migrate_view *v, const migrate_client *c) {
    bool ok = c->readable;
    json_t *j = json_pack("{s:o}", "id", js_text(c->id));

    js_set(&j, "state", js_text(state_of_client(v, c)));
    js_set(&j, "host", js_text(ok ? c->host : NULL));
    js_set(&j, "pid", js_known(ok ? c->pid : -1));
    js_set(&j, "service", js_text(ok ? c->service : NULL));
    js_set(&j, "version", js_text(ok ? c->version : NULL));
    js_set(&j, "keys", js_text(ok && c->keys[0] ? c->keys : NULL));
    js_set(&j, "epoch", js_known(ok ? c->epoch : -1));
    js_set(&j, "phase", js_known(ok ? c->phase : -1));
    js_set(&j, "lease_ms", js_known(ok ? c->lease_ms : -1));
    js_set(&j, "seen_ms", js_known(ok ? ago_ms(v, c->seen_us) : -1));
    return j;
}

json_t *migrate_clients_json(const migrate_view *v) {
    json_t *list = json_array();

    for (int i = 0; i < v->clients; i++)
        js_append(&list, client_json(v, &v->client[i]));
    return list;
}

static json_t *bunch_json(const migrate_bunch *b) {
    json_t *examples = json_array();

    for (int i = 0; i < b->count && i < MIGRATE_EXAMPLES; i++) {
        int64_t left_ms = b->example[i].left_ms;
        const char *who = b->example[i].who;
        js_append(&examples,
                  json_pack("{s:o, s:o, s:o}", "key", js_text(b->example[i].key), "holder",
                            js_text(who[0] ? who : NULL), "left_ms",
                            left_ms == NEVER_ENDS ? json_null() : json_integer(left_ms)));
    }
    return json_pack("{s:I, s:I, s:o}", "count", (json_int_t)b->count, "over", (json_int_t)b->over,
                     "examples", examples);
}

static json_t *step_json(int to, const migrate_blockers *b) {
    if (to < 0 || to >= PHASES)
        return json_null();
    json_t *blockers = json_array();
    for (int i = 0; i < b->count; i++)
        js_append(&blockers, json_pack("{s:o, s:o, s:o}", "what", js_text(b->item[i].what), "who",
                                       js_text(b->item[i].who), "do", js_text(b->item[i].todo)));
    return json_pack("{s:i, s:s, s:o, s:i}", "phase", to, "phase_name", migrate_phase_name(to),
                     "blockers", blockers, "more", b->more);
}

static json_t *register_json(const migrate_view *v) {
    const migrate_register *r = &v->reg;
    bool ok = r->readable;
    json_t *j = json_pack("{s:o, s:b}", "namespace", js_text(v->name), "registered", r->there);

    js_set(&j, "phase", js_known(ok ? r->phase : -1));
    js_set(&j, "phase_name", js_text(ok ? migrate_phase_name(r->phase) : NULL));
    js_set(&j, "epoch", js_known(ok ? r->epoch : -1));
    js_set(&j, "lease_ms", js_known(ok ? r->lease_ms : -1));
    js_set(&j, "keys", js_text(ok ? r->keys : NULL));
    js_set(&j, "since_ms", js_known(ok ? ago_ms(v, r->since_us) : -1));
    js_set(&j, "by", js_text(ok ? r->by : NULL));
    return j;
}

static json_t *evidence_json(const migrate_status *s) {
    const migrate_traffic *t = s->traffic;
    json_t *j = json_pack("{s:b}", "all_keys", s->locks && s->locks->whole);

    if (s->locks) {
        js_set(&j, "own_stamps", bunch_json(&s->locks->own));
        js_set(&j, "stray_stamps", bunch_json(&s->locks->strays));
        js_set(&j, "unregistered_stamps", bunch_json(&s->locks->strangers));
        js_set(&j, "tokens", bunch_json(&s->locks->tokens));
    }
    js_set(&j, "setnx_getset_calls", js_known(s->calls));
    js_set(&j, "other_connections", js_known(t ? t->connections : -1));
    js_set(&j, "suspects", js_text(t && t->suspects[0] ? t->suspects : NULL));
    return j;
}

static json_t *history_json(const migrate_status *s) {
    json_t *list = json_array();

    for (int i = 0; i < s->changes; i++) {
        const migrate_change *c = &s->history[i];
        json_t *j = json_pack("{s:I, s:o}", "at_us", (json_int_t)c->at_us, "action",
                              js_text(c->action));
        js_set(&j, "from_phase", js_known(c->from_phase));
        js_set(&j, "to_phase", js_known(c->to_phase));
        js_set(&j, "from_epoch", json_integer(c->from_epoch));
        js_set(&j, "to_epoch", json_integer(c->to_epoch));
        js_set(&j, "by", js_text(c->by));
        js_set(&j, "evidence", js_text(c->evidence));
        js_append(&list, j);
    }
    return list;
}

json_t *migrate_status_json(const migrate_status *s) {
    const migrate_view *v = s->view;
    int phase = v->reg.phase;
    bool ok = v->reg.readable;
    char java[MIGRATE_JAVA_SIZE];
    json_t *j = register_json(v);

    js_set(&j, "java", js_text(migrate_java(java, v, s->locks)));
    js_set(&j, "clients", migrate_clients_json(v));
    js_set(&j, "evidence", evidence_json(s));
    js_set(&j, "next", step_json(ok ? phase + 1 : -1, &s->next));
    js_set(&j, "back", step_json(ok ? phase - 1 : -1, &s->back));
    if (s->history)
        js_set(&j, "history", history_json(s));
    return j;
}

/* ---- refusals --------------------------------------------------------------------------------- */

int migrate_refuse(const char *what, const migrate_blockers *b) {
    for (int i = 0; i < b->count; i++)
        say("migrate %s: refused: %s: %s: %s", what, b->item[i].what, b->item[i].who,
            b->item[i].todo);
    if (b->more)
        say("migrate %s: refused: and %d more: tidelock migrate status", what, b->more);
    return STATUS_REFUSED;
}
