/*
 * Text and JSON. Decides only what to show.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/printable.h"
#include "migrate/migrate_evidence.h"
#include "migrate/migrate_show.h"

const char *migrate_date(char buf[MIGRATE_DATE_SIZE], int64_t us) {
    time_t s = (time_t)(us / 1000000);
    struct tm tm;

    if (!gmtime_r(&s, &tm) || strftime(buf, MIGRATE_DATE_SIZE, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
        (void)snprintf(buf, MIGRATE_DATE_SIZE, "?");
    return buf;
}

static int64_t ago_ms(const migrate_view *view, int64_t us) {
    return view->now_us > us ? (view->now_us - us) / 1000 : 0;
}

/* ---- text ------------------------------------------------------------------------------------- */

/* Prints a text of the server without characters that a terminal would act on. */
static void print_safe(FILE *out, const char *text) {
    char shown[PRINTABLE_MAX] = "";
    size_t n;

    for (; *text; text += n) {
        n = printable_cut(text, strnlen(text, sizeof shown));
        (void)fwrite(shown, 1, printable(shown, text, n), out);
    }
}

static void show_register(const migrate_view *view, FILE *out) {
    char date[MIGRATE_DATE_SIZE], ago[DURATION_SHOWN], lease[DURATION_SHOWN];
    const migrate_register *reg = &view->reg;

    if (!reg->readable) {
        (void)fprintf(out, "namespace %s: %s\n", view->name,
                      reg->there ? "its register can't be read" : "not registered");
        return;
    }
    (void)fprintf(out, "namespace %s: phase %d (%s), epoch %lld, ", view->name, reg->phase,
                  migrate_phase_name(reg->phase), (long long)reg->epoch);
    if (!view->by_slots)
        (void)fprintf(out, "lease %s, ", show_ms(lease, reg->lease_ms));
    (void)fprintf(out, "keys ");
    print_safe(out, reg->keys);
    (void)fprintf(out, "\n  since %s (%s ago), by %s\n", migrate_date(date, reg->since_us),
                  show_ms(ago, ago_ms(view, reg->since_us)), reg->by[0] ? reg->by : "?");
}

/* In which phase the slots are, and what to do if that isn't the namespace's. */
void migrate_show_slots(const migrate_view *view, FILE *out) {
    char list[MIGRATE_TALLY_SIZE], date[MIGRATE_DATE_SIZE];
    int phase = migrate_phase_of(view);

    (void)fprintf(out, "  %s", migrate_tally_list(list, &view->slots));
    if (view->slots.top)
        (void)fprintf(out, "; last written %s", migrate_date(date, view->slots.top));
    (void)fprintf(out, "\n");
    if (view->unsaved[0])
        (void)fprintf(out, "  note: %s " MIGRATE_UNSAVED "\n", view->unsaved);
    if (view->later[0])
        (void)fprintf(out,
                      "  alarm: old data has come back: the record is in phase %d, and a later one "
                      "is at %s: end Java, then: rollback --phase %d, or advance --phase %d\n",
                      view->reg.phase, view->later, migrate_former_phase(view), phase);
    else if (view->reg.readable && !migrate_is_whole(view) && phase > 0)
        (void)fprintf(out,
                      "  a step was not finished, or slots have lost their registers or have older "
                      "ones: advance --phase %d leads all slots to %d, rollback --phase %d to %d\n",
                      phase, phase, migrate_former_phase(view), migrate_former_phase(view));
}

const char *migrate_client_state(const migrate_view *view, const migrate_client *client) {
    if (!client->readable)
        return "unreadable";
    if (migrate_client_is_gone(client, view->now_us))
        return "gone";
    if (!view->reg.readable)
        return client->epoch == 0 ? "unregistered" : "ahead";
    if (client->epoch == view->reg.epoch)
        return client->phase == view->reg.phase ? "confirmed" : "contradicts";
    return client->epoch < view->reg.epoch ? "behind" : "ahead";
}

static void show_client(const migrate_view *view, const migrate_client *client, FILE *out) {
    char who[MIGRATE_WHO_SIZE], ago[DURATION_SHOWN];
    bool other = migrate_takes_others(view, client);

    (void)fprintf(out, "  %-12s %s", migrate_client_state(view, client),
                  migrate_client_who(who, client));
    if (client->readable)
        (void)fprintf(out, ": epoch %lld, phase %d (%s), seen %s ago, version %s%s%s%s\n",
                      (long long)client->epoch, client->phase, migrate_phase_name(client->phase),
                      show_ms(ago, ago_ms(view, client->seen_us)), client->version,
                      other ? ", keys '" : "", other ? client->keys : "", other ? "'" : "");
    else
        (void)fprintf(out, ": '%s'\n", client->text);
}

/* ---- many clients ------------------------------------------------------------------------------ */

#define GROUPS_MOST 40 /* lines; the rest is only counted */
#define HOSTS_MOST 3   /* names */

typedef struct {
    const migrate_client *first;
    const char *state;
    int count, hosts;
    const char *host[HOSTS_MOST];
    bool more_hosts;
    int64_t seen_least_us, seen_most_us;
} group;

static bool is_of(const migrate_view *view, const group *group, const migrate_client *client) {
    return client->readable && group->first->readable && group->first->epoch == client->epoch &&
           group->first->phase == client->phase &&
           strcmp(group->state, migrate_client_state(view, client)) == 0 &&
           strcmp(group->first->service, client->service) == 0 &&
           strcmp(group->first->version, client->version) == 0 &&
           strcmp(group->first->keys, client->keys) == 0;
}

static void put_in(group *group, const migrate_client *client) {
    group->count++;
    group->seen_least_us = client->seen_us < group->seen_least_us ? client->seen_us
                                                                  : group->seen_least_us;
    group->seen_most_us = client->seen_us > group->seen_most_us ? client->seen_us
                                                                : group->seen_most_us;
    for (int i = 0; i < group->hosts; i++)
        if (strcmp(group->host[i], client->host) == 0)
            return;
    if (group->hosts == HOSTS_MOST)
        group->more_hosts = true;
    else
        group->host[group->hosts++] = client->host;
}

static void show_group(const migrate_view *view, const group *group, FILE *out) {
    char newest[DURATION_SHOWN], oldest[DURATION_SHOWN];
    const migrate_client *client = group->first;
    bool other = migrate_takes_others(view, client);

    if (group->count == 1) {
        show_client(view, client, out);
        return;
    }
    (void)fprintf(out, "  %-12s %d clients%s%s on ", group->state, group->count,
                  client->service[0] ? " of " : "", client->service);
    for (int i = 0; i < group->hosts; i++)
        (void)fprintf(out, "%s%s", i ? ", " : "", group->host[i]);
    (void)fprintf(out, "%s: epoch %lld, phase %d (%s), seen %s to %s ago, version %s%s%s%s\n",
                  group->more_hosts ? " and others" : "", (long long)client->epoch, client->phase,
                  migrate_phase_name(client->phase),
                  show_ms(newest, ago_ms(view, group->seen_most_us)),
                  show_ms(oldest, ago_ms(view, group->seen_least_us)), client->version,
                  other ? ", keys '" : "", other ? client->keys : "", other ? "'" : "");
}

/* Shows the live clients: those that differ only in host, process and time share a line. */
static void show_groups(const migrate_view *view, FILE *out) {
    group all[GROUPS_MOST];
    int count = 0, more = 0;

    for (int i = 0; i < view->clients; i++) {
        const migrate_client *client = &view->client[i];
        int at = 0;
        if (migrate_client_is_gone(client, view->now_us))
            continue;
        while (at < count && !is_of(view, &all[at], client))
            at++;
        if (at == GROUPS_MOST) {
            more++;
            continue;
        }
        if (at == count)
            all[count++] = (group){.first = client,
                                   .state = migrate_client_state(view, client),
                                   .seen_least_us = client->seen_us,
                                   .seen_most_us = client->seen_us};
        put_in(&all[at], client);
    }
    for (int i = 0; i < count; i++)
        show_group(view, &all[i], out);
    if (more)
        (void)fprintf(out, "  and %d more: tidelock migrate clients --namespace %s\n", more,
                      view->name);
}

void migrate_show_clients(const migrate_view *view, FILE *out) {
    if (view->clients == 0)
        (void)fprintf(out, "no clients have registered\n");
    for (int i = 0; i < view->clients; i++)
        show_client(view, &view->client[i], out);
}

const char *migrate_others(char buf[MIGRATE_OTHERS_SIZE], const migrate_view *view) {
    char who[MIGRATE_WHO_SIZE];
    char keys[MIGRATE_KEYS_SIZE];
    const migrate_client *first = NULL;
    int n = 0;

    tl__bytes_print(keys, sizeof keys, tl__bytes_of(view->reg.keys));
    for (int i = 0; i < view->clients; i++)
        if (migrate_takes_others(view, &view->client[i]) && n++ == 0)
            first = &view->client[i];
    buf[0] = '\0';
    if (first)
        (void)snprintf(
            buf, MIGRATE_OTHERS_SIZE,
            "%d %s locks of other names than %.100s as well, which this command does not check "
            "(%.100s: '%.60s'): give the same pattern to both: '%.100s=%s'",
            n, n == 1 ? "client may acquire" : "clients may acquire", keys,
            migrate_client_who(who, first), first->keys, keys, view->name);
    return buf;
}

static void show_others(const migrate_view *view, FILE *out) {
    char text[MIGRATE_OTHERS_SIZE];

    if (*migrate_others(text, view))
        (void)fprintf(out, "  note: %s\n", text);
}

static void show_bunch(const char *name, const migrate_bunch *bunch, FILE *out) {
    char list[MIGRATE_LIST_SIZE];

    (void)fprintf(out, "  %-54s %4lld", name, (long long)bunch->count);
    if (bunch->count > 0)
        (void)fprintf(out, "  %s", migrate_bunch_list(list, bunch));
    (void)fputc('\n', out);
}

static void show_evidence(const migrate_status *status, FILE *out) {
    if (status->locks) {
        (void)fprintf(out, "\nlocks%s\n",
                      status->locks->whole ? "" : " (the scan did not reach all keys)");
        show_bunch("stamps of tidelock's own", &status->locks->own, out);
        show_bunch("stamps without a sidecar, as legacy clients write them", &status->locks->strays,
                   out);
        show_bunch("stamps of tidelock clients that don't follow the phase",
                   &status->locks->strangers, out);
        show_bunch("tokens", &status->locks->tokens, out);
    }
    if (!status->traffic)
        return;
    (void)fprintf(out, "\nlegacy clients, as %s them\n",
                  status->view->by_slots ? "all masters show" : "the whole server shows");
    migrate_show_sources(status->traffic, out);
}

void migrate_show_sources(const migrate_traffic *traffic, FILE *out) {
    migrate_source list[MIGRATE_SOURCES];
    int count = migrate_sources(traffic, list);

    for (int i = 0; i < count; i++) {
        (void)fprintf(out, "  %-8s %s", list[i].name, list[i].used ? "" : "not known: ");
        print_safe(out, list[i].says);
        (void)fputc('\n', out);
        if (list[i].used)
            (void)fprintf(out, "           it can't show %s\n", list[i].limit);
    }
}

void migrate_show_blockers(int to, const migrate_blockers *blockers, FILE *out) {
    (void)fprintf(out, "phase %d (%s)%s\n", to, migrate_phase_name(to),
                  blockers->count ? " is blocked:" : ": nothing blocks it");
    for (int i = 0; i < blockers->count; i++)
        (void)fprintf(out, "  - %s\n    who:  %s\n    do:   %s\n", blockers->item[i].what,
                      blockers->item[i].who, blockers->item[i].todo);
    if (blockers->more)
        (void)fprintf(out, "  - and %d more\n", blockers->more);
}

static void show_step(const char *what, int to, const migrate_blockers *blockers, FILE *out) {
    if (to < 0 || to >= PHASES)
        return;
    (void)fprintf(out, "\n%s: ", what);
    migrate_show_blockers(to, blockers, out);
}

static void show_history(const migrate_status *status, FILE *out) {
    char date[MIGRATE_DATE_SIZE];

    (void)fprintf(out, "\nhistory\n");
    for (int i = 0; i < status->changes; i++) {
        const migrate_change *change = &status->history[i];
        (void)fprintf(out, "  %s  ", migrate_date(date, change->at_us));
        print_safe(out, change->action);
        (void)fprintf(out, "%*s ", strlen(change->action) < 8 ? 8 - (int)strlen(change->action) : 0,
                      "");
        if (change->from_phase >= 0)
            (void)fprintf(out, "phase %d -> %d, epoch %lld -> %lld", change->from_phase,
                          change->to_phase, (long long)change->from_epoch,
                          (long long)change->to_epoch);
        else
            (void)fprintf(out, "phase %d, epoch %lld", change->to_phase,
                          (long long)change->to_epoch);
        (void)fputs(", by ", out);
        print_safe(out, change->by);
        (void)fputs("\n    ", out);
        print_safe(out, change->evidence);
        (void)fputc('\n', out);
    }
}

static void show_clients(const migrate_view *view, FILE *out) {
    int live = migrate_live_clients(view);

    (void)fprintf(out, "\nclients: %d\n", live);
    show_groups(view, out);
    if (view->clients > live)
        (void)fprintf(out, "  and %d that have ended\n", view->clients - live);
    show_others(view, out);
}

void migrate_show_text(const migrate_status *status, FILE *out) {
    const migrate_view *view = status->view;
    char java[MIGRATE_JAVA_SIZE];

    show_register(view, out);
    if (view->reg.readable)
        (void)fprintf(out, "  old Java class: %s\n", migrate_java(java, view, status->locks));
    if (view->by_slots)
        migrate_show_slots(view, out);
    else
        show_clients(view, out);
    show_evidence(status, out);
    int next = migrate_next_phase(view);
    if (!view->reg.readable)
        show_step("next", 0, &status->next, out);
    else if (next < PHASES)
        show_step("next", next, &status->next, out);
    if (view->reg.readable && migrate_wants_watch(view, next))
        (void)fprintf(out, "  (advance watches for legacy clients before it moves: see --watch)\n");
    if (view->reg.readable)
        show_step("back", migrate_former_phase(view), &status->back, out);
    if (status->history)
        show_history(status, out);
}

/* ---- JSON ------------------------------------------------------------------------------------- */

int migrate_show_line(json_t *json) {
    return js_line(json, STDOUT_FILENO)
               ? fail(STATUS_INTERNAL, "standard output: %s", strerror(errno))
               : 0;
}

#define REGISTER_MEMBERS(M, of)                                                                    \
    M(of, namespace, "the namespace")                                                              \
    M(of, registered, "true: it has a register; else _phase_ to _by_ are null")                    \
    M(of, phase, "the phase: 0 to 3")                                                              \
    M(of, phase_name, "its name")                                                                  \
    M(of, epoch, "the number of the last change")                                                  \
    M(of, lease_ms, "how long a client may act by a phase that it has read")                       \
    M(of, keys, "the pattern of the names of the locks")                                           \
    M(of, since_ms, "how long ago the phase began")                                                \
    M(of, by, "the operator who changed it")
MEMBERS(register, REGISTER_MEMBERS);

#define SLOTS_MEMBERS(M, of)                                                                       \
    M(of, in_phase, "an array: how many slots are in phase 0, 1, 2 and 3")                         \
    M(of, absent, "how many have no register, in which clients write stamps")                      \
    M(of, unreadable, "how many have one that can't be understood")                                \
    M(of, unread, "of how many nothing is known")                                                  \
    M(of, epoch, "the highest epoch of a slot, in microseconds since 1970")                        \
    M(of, whole, "true: each slot is in the namespace's phase")                                    \
    M(of, later, "masters of slots in a later phase than the record's: old data is back; or null") \
    M(of, unsaved, "masters that a restart would give older registers, or null")
MEMBERS(slots, SLOTS_MEMBERS);

#define STATUS_MEMBERS(M, of)                                                                      \
    M(of, slots, "of a cluster: an object, see below; else null")                                  \
    M(of, java, "whether Java may run now, in words")                                              \
    M(of, clients, "an array of objects, as *clients* prints them")                                \
    M(of, evidence, "of legacy clients: an object, see below")                                     \
    M(of, next, "the step forward: null, or an object, see below")                                 \
    M(of, back, "the step back, likewise")                                                         \
    M(of, history, "with *--history*: an array of objects, see below")
MEMBERS(status, STATUS_MEMBERS);

#define CLIENT_MEMBERS(M, of)                                                                      \
    M(of, id, "the client's number")                                                               \
    M(of, state, "confirmed, behind, ahead, gone, unregistered, contradicts or unreadable")        \
    M(of, host, "its host")                                                                        \
    M(of, pid, "the process there")                                                                \
    M(of, service, "its name")                                                                     \
    M(of, version, "its version of tidelock")                                                      \
    M(of, keys, "its pattern of keys, or null")                                                    \
    M(of, epoch, "the epoch that it has confirmed")                                                \
    M(of, phase, "the phase of that epoch")                                                        \
    M(of, lease_ms, "how long it acts by a phase that it has read")                                \
    M(of, seen_ms, "how long ago it reported")
MEMBERS(client, CLIENT_MEMBERS);

#define EVIDENCE_MEMBERS(M, of)                                                                    \
    M(of, all_keys, "true: all keys of the server were looked at")                                 \
    M(of, own_stamps, "stamps of tidelock's clients: see below")                                   \
    M(of, stray_stamps, "stamps of legacy clients, likewise")                                      \
    M(of, unregistered_stamps, "stamps of unregistered clients of tidelock, likewise")             \
    M(of, tokens, "locks with tokens, likewise")                                                   \
    M(of, setnx_getset_calls,                                                                      \
      "SETNX and GETSET of all clients since the counts were reset, or null")                      \
    M(of, refused_calls, "the same that the server refused, or null (before Redis 6.2)")           \
    M(of, denied_users, "users that are denied SETNX and GETSET, or null")                         \
    M(of, users, "users, also those that are off, or null")                                        \
    M(of, denials, "denied SETNX and GETSET in ACL LOG, or null")                                  \
    M(of, other_connections, "connections that last sent what tidelock doesn't, or null")          \
    M(of, suspects, "connections that sent SETNX or GETSET last, or null")                         \
    M(of, sources, "an array of objects, see below")
MEMBERS(evidence, EVIDENCE_MEMBERS);

#define SOURCE_MEMBERS(M, of)                                                                      \
    M(of, name, "acl, counts, events, acl_log, clients or monitor")                                \
    M(of, used, "true: it could be read")                                                          \
    M(of, says, "what it shows, or why it could not be read")                                      \
    M(of, limit, "what it can't show")
MEMBERS(source, SOURCE_MEMBERS);

#define BUNCH_MEMBERS(M, of)                                                                       \
    M(of, count, "how many there are")                                                             \
    M(of, over, "how many of them have expired")                                                   \
    M(of, examples, "an array of objects, see below")
MEMBERS(bunch, BUNCH_MEMBERS);

#define EXAMPLE_MEMBERS(M, of)                                                                     \
    M(of, key, "the key")                                                                          \
    M(of, holder, "its holder, or null")                                                           \
    M(of, left_ms, "how long it remains; null: for ever")
MEMBERS(example, EXAMPLE_MEMBERS);

#define STEP_MEMBERS(M, of)                                                                        \
    M(of, phase, "the phase that the step leads to")                                               \
    M(of, phase_name, "its name")                                                                  \
    M(of, blockers, "an array of objects, see below; empty: nothing blocks")                       \
    M(of, more, "how many more blockers there are")
MEMBERS(step, STEP_MEMBERS);

#define BLOCKER_MEMBERS(M, of)                                                                     \
    M(of, what, "what blocks the step")                                                            \
    M(of, who, "which client or key")                                                              \
    M(of, do, "what to do")
MEMBERS(blocker, BLOCKER_MEMBERS);

#define CHANGE_MEMBERS(M, of)                                                                      \
    M(of, at_us, "when, in microseconds since 1970 on the server's clock")                         \
    M(of, action, "what was done")                                                                 \
    M(of, from_phase, "the phase before")                                                          \
    M(of, to_phase, "the phase after")                                                             \
    M(of, from_epoch, "the epoch before")                                                          \
    M(of, to_epoch, "the epoch after")                                                             \
    M(of, by, "the operator who did it")                                                           \
    M(of, evidence, "on which evidence")
MEMBERS(change, CHANGE_MEMBERS);

static json_t *client_json(const migrate_view *view, const migrate_client *client) {
    bool ok = client->readable;
    json_t *json = json_pack("{s:o}", id_of_client, js_text(client->id));

    js_set(&json, state_of_client, js_text(migrate_client_state(view, client)));
    js_set(&json, host_of_client, js_text(ok ? client->host : NULL));
    js_set(&json, pid_of_client, js_known(ok ? client->pid : -1));
    js_set(&json, service_of_client, js_text(ok ? client->service : NULL));
    js_set(&json, version_of_client, js_text(ok ? client->version : NULL));
    js_set(&json, keys_of_client, js_text(ok && client->keys[0] ? client->keys : NULL));
    js_set(&json, epoch_of_client, js_known(ok ? client->epoch : -1));
    js_set(&json, phase_of_client, js_known(ok ? client->phase : -1));
    js_set(&json, lease_ms_of_client, js_known(ok ? client->lease_ms : -1));
    js_set(&json, seen_ms_of_client, js_known(ok ? ago_ms(view, client->seen_us) : -1));
    return json;
}

json_t *migrate_clients_json(const migrate_view *view) {
    json_t *list = json_array();

    for (int i = 0; i < view->clients; i++)
        js_append(&list, client_json(view, &view->client[i]));
    return list;
}

static json_t *bunch_json(const migrate_bunch *bunch) {
    json_t *examples = json_array();

    for (int i = 0; i < bunch->count && i < MIGRATE_EXAMPLES; i++) {
        int64_t left_ms = bunch->example[i].left_ms;
        const char *who = bunch->example[i].who;
        js_append(&examples,
                  json_pack("{s:o, s:o, s:o}", key_of_example, js_text(bunch->example[i].key),
                            holder_of_example, js_text(who[0] ? who : NULL), left_ms_of_example,
                            left_ms == NEVER_ENDS ? json_null() : json_integer(left_ms)));
    }
    return json_pack("{s:I, s:I, s:o}", count_of_bunch, (json_int_t)bunch->count, over_of_bunch,
                     (json_int_t)bunch->over, examples_of_bunch, examples);
}

json_t *migrate_step_json(int to, const migrate_blockers *blockers) {
    if (to < 0 || to >= PHASES)
        return json_null();
    json_t *list = json_array();
    for (int i = 0; i < blockers->count; i++)
        js_append(&list,
                  json_pack("{s:o, s:o, s:o}", what_of_blocker, js_text(blockers->item[i].what),
                            who_of_blocker, js_text(blockers->item[i].who), do_of_blocker,
                            js_text(blockers->item[i].todo)));
    return json_pack("{s:i, s:s, s:o, s:i}", phase_of_step, to, phase_name_of_step,
                     migrate_phase_name(to), blockers_of_step, list, more_of_step, blockers->more);
}

static json_t *register_json(const migrate_view *view) {
    const migrate_register *reg = &view->reg;
    bool ok = reg->readable;
    json_t *json = json_pack("{s:o, s:b}", namespace_of_register, js_text(view->name),
                             registered_of_register, reg->there);

    js_set(&json, phase_of_register, js_known(ok ? reg->phase : -1));
    js_set(&json, phase_name_of_register, js_text(ok ? migrate_phase_name(reg->phase) : NULL));
    js_set(&json, epoch_of_register, js_known(ok ? reg->epoch : -1));
    js_set(&json, lease_ms_of_register, js_known(ok ? reg->lease_ms : -1));
    js_set(&json, keys_of_register, js_text(ok ? reg->keys : NULL));
    js_set(&json, since_ms_of_register, js_known(ok ? ago_ms(view, reg->since_us) : -1));
    js_set(&json, by_of_register, js_text(ok ? reg->by : NULL));
    return json;
}

json_t *migrate_slots_json(const migrate_view *view) {
    const migrate_tally *slots = &view->slots;
    json_t *phases = json_array();

    if (!view->by_slots) {
        json_decref(phases);
        return json_null();
    }
    for (int phase = 0; phase < PHASES; phase++)
        js_append(&phases, json_integer(slots->in[phase]));
    json_t *json = json_pack("{s:o, s:i, s:i, s:i, s:I, s:b}", in_phase_of_slots, phases,
                             absent_of_slots, slots->absent, unreadable_of_slots, slots->odd,
                             unread_of_slots, slots->unread, epoch_of_slots, (json_int_t)slots->top,
                             whole_of_slots, migrate_is_whole(view));
    js_set(&json, later_of_slots, js_text(view->later[0] ? view->later : NULL));
    js_set(&json, unsaved_of_slots, js_text(view->unsaved[0] ? view->unsaved : NULL));
    return json;
}

static json_t *sources_json(const migrate_traffic *traffic) {
    migrate_source list[MIGRATE_SOURCES];
    json_t *json = json_array();
    int count = migrate_sources(traffic, list);

    for (int i = 0; i < count; i++)
        js_append(&json, json_pack("{s:s, s:b, s:o, s:s}", name_of_source, list[i].name,
                                   used_of_source, list[i].used, says_of_source,
                                   js_text(list[i].says), limit_of_source, list[i].limit));
    return json;
}

static void set_traffic(json_t **json, const migrate_traffic *traffic) {
    const migrate_permissions *permissions = &traffic->permissions;
    bool users = permissions->access == MIGRATE_READ, log = traffic->denials.access == MIGRATE_READ,
         listed = traffic->listed == MIGRATE_READ;

    js_set(json, setnx_getset_calls_of_evidence, js_known(traffic->counted ? traffic->calls : -1));
    js_set(json, refused_calls_of_evidence, js_known(traffic->refused));
    js_set(json, denied_users_of_evidence, js_known(users ? permissions->denied : -1));
    js_set(json, users_of_evidence, js_known(users ? permissions->users : -1));
    js_set(json, denials_of_evidence, js_known(log ? traffic->denials.count : -1));
    js_set(json, other_connections_of_evidence, js_known(listed ? traffic->connections : -1));
    js_set(json, suspects_of_evidence, js_text(traffic->suspects[0] ? traffic->suspects : NULL));
    js_set(json, sources_of_evidence, sources_json(traffic));
}

static json_t *evidence_json(const migrate_status *status) {
    json_t *json = json_pack("{s:b}", all_keys_of_evidence, status->locks && status->locks->whole);

    if (status->locks) {
        js_set(&json, own_stamps_of_evidence, bunch_json(&status->locks->own));
        js_set(&json, stray_stamps_of_evidence, bunch_json(&status->locks->strays));
        js_set(&json, unregistered_stamps_of_evidence, bunch_json(&status->locks->strangers));
        js_set(&json, tokens_of_evidence, bunch_json(&status->locks->tokens));
    }
    if (status->traffic)
        set_traffic(&json, status->traffic);
    return json;
}

static json_t *history_json(const migrate_status *status) {
    json_t *list = json_array();

    for (int i = 0; i < status->changes; i++) {
        const migrate_change *change = &status->history[i];
        json_t *json = json_pack("{s:I, s:o}", at_us_of_change, (json_int_t)change->at_us,
                                 action_of_change, js_text(change->action));
        js_set(&json, from_phase_of_change, js_known(change->from_phase));
        js_set(&json, to_phase_of_change, js_known(change->to_phase));
        js_set(&json, from_epoch_of_change, json_integer(change->from_epoch));
        js_set(&json, to_epoch_of_change, json_integer(change->to_epoch));
        js_set(&json, by_of_change, js_text(change->by));
        js_set(&json, evidence_of_change, js_text(change->evidence));
        js_append(&list, json);
    }
    return list;
}

json_t *migrate_status_json(const migrate_status *status) {
    const migrate_view *view = status->view;
    bool ok = view->reg.readable;
    char java[MIGRATE_JAVA_SIZE];
    json_t *json = register_json(view);

    js_set(&json, slots_of_status, migrate_slots_json(view));
    js_set(&json, java_of_status, js_text(migrate_java(java, view, status->locks)));
    js_set(&json, clients_of_status, migrate_clients_json(view));
    js_set(&json, evidence_of_status, evidence_json(status));
    js_set(&json, next_of_status,
           migrate_step_json(ok ? migrate_next_phase(view) : -1, &status->next));
    js_set(&json, back_of_status,
           migrate_step_json(ok ? migrate_former_phase(view) : -1, &status->back));
    if (status->history)
        js_set(&json, history_of_status, history_json(status));
    return json;
}

/* ---- refusals --------------------------------------------------------------------------------- */

int migrate_refuse(const char *what, const migrate_blockers *blockers) {
    for (int i = 0; i < blockers->count; i++)
        say("migrate %s: refused: %s: %s: %s", what, blockers->item[i].what, blockers->item[i].who,
            blockers->item[i].todo);
    if (blockers->more)
        say("migrate %s: refused: and %d more: tidelock migrate status", what, blockers->more);
    return STATUS_REFUSED;
}
