/*
 * Each source with what it says. A source never says more than was seen: "none ran" is of this server and this
 * time, and what is denied is denied until somebody permits it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "migrate/migrate_evidence.h"

static void say_of(migrate_source *source, bool used, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void say_of(migrate_source *source, bool used, const char *format, ...) {
    va_list args;

    source->used = used;
    va_start(args, format);
    (void)vsnprintf(source->says, sizeof source->says, format, args);
    va_end(args);
}

static const char *times(char buf[32], int64_t count) {
    (void)snprintf(buf, 32, count == 1 ? "once" : "%lld times", (long long)count);
    return buf;
}

/* "in 30.0 s", or of a single look "since the counts were reset". */
static const char *span(char buf[64], const migrate_traffic *traffic) {
    char watched[DURATION_SHOWN];

    if (traffic->watch_ms > 0)
        (void)snprintf(buf, 64, "in %s", show_ms(watched, traffic->watch_ms));
    else
        (void)snprintf(buf, 64, "since the counts were reset");
    return buf;
}

static void counts(const migrate_traffic *traffic, migrate_source *ret) {
    char ran[32], refused[32], when[64];

    ret->name = "counts";
    ret->limit =
        "a client that was idle meanwhile, one that acquires by SET, and on which keys they ran";
    if (!traffic->counted) {
        say_of(ret, false, "%s",
               traffic->reset ? "the server's counts were reset meanwhile"
                              : "the server does not report how often SETNX and GETSET ran");
        return;
    }
    if (traffic->calls == 0)
        say_of(ret, true, "no SETNX or GETSET ran %s, on any key of the server",
               span(when, traffic));
    else
        say_of(ret, true, "SETNX and GETSET ran %s %s, on any key of the server",
               times(ran, traffic->calls), span(when, traffic));
    size_t n = strlen(ret->says);
    if (traffic->refused < 0)
        (void)snprintf(ret->says + n, sizeof ret->says - n,
                       "; it does not count what it refuses (from Redis 6.2 on)");
    else if (traffic->refused == 0)
        (void)snprintf(ret->says + n, sizeof ret->says - n, ", and none was refused");
    else
        (void)snprintf(ret->says + n, sizeof ret->says - n, ", and they were refused %s",
                       times(refused, traffic->refused));
}

static void monitor(const migrate_traffic *traffic, migrate_source *ret) {
    char length[DURATION_SHOWN];

    ret->name = "monitor";
    ret->limit = "what ran before and after, and what the server refused";
    if (traffic->monitor_ms <= 0)
        say_of(ret, false, "%s", traffic->monitor_why[0] ? traffic->monitor_why : "not read");
    else
        say_of(ret, true, "read for %s%s: %lld of the SETNX and GETSET were on other keys%s%s",
               show_ms(length, traffic->monitor_ms), traffic->monitor_whole ? ", throughout" : "",
               (long long)traffic->accounted, traffic->monitor_why[0] ? "; " : "",
               traffic->monitor_why);
}

static void events(const migrate_traffic *traffic, migrate_source *ret) {
    const migrate_event_counts *events = &traffic->events;
    char length[DURATION_SHOWN], lost[32];

    ret->name = "events";
    ret->limit = "who wrote, a SETNX that failed, and a legacy client that sets a lifetime too";
    if (events->access == MIGRATE_READ && events->ms == 0 && traffic->watch_ms == 0)
        say_of(ret, true, "keyspace events are on: advance reads them");
    else if (events->ms == 0)
        say_of(ret, false, "%s", events->why[0] ? events->why : "not read");
    else
        say_of(ret, true,
               "keyspace events for %s: %lld write%s to keys of the namespace, %lld of them "
               "without a lifetime, as legacy clients write%s%s",
               show_ms(length, events->ms), (long long)events->writes,
               migrate_plural(events->writes), (long long)events->bare,
               events->gaps ? "; they were lost " : "",
               events->gaps ? times(lost, events->gaps) : "");
}

static void permissions(const migrate_traffic *traffic, migrate_source *ret) {
    const migrate_permissions *all = &traffic->permissions;
    char beside[80] = "";

    ret->name = "acl";
    ret->limit = "a client that acquires by SET, and who is permitted them later";
    if (all->replicas > 0)
        (void)snprintf(beside, sizeof beside, "; its %d replica%s not asked", all->replicas,
                       all->replicas == 1 ? " was" : "s were");
    if (all->access == MIGRATE_NOT_ASKED)
        say_of(ret, false, "not asked in this phase");
    else if (all->access != MIGRATE_READ)
        say_of(ret, false, "%s",
               all->access == MIGRATE_LACKS ? "the server has no ACL (from Redis 6 on)" : all->why);
    else if (migrate_denies_all(all))
        say_of(ret, true,
               "SETNX and GETSET are denied to every user of %d %s: none can lock by them as long "
               "as that stays, however long it was idle%s",
               all->servers, all->servers == 1 ? "server" : "servers", beside);
    else
        say_of(ret, true, "SETNX and GETSET are denied to %d of %d user%s of %d %s%s", all->denied,
               all->users, migrate_plural(all->users), all->servers,
               all->servers == 1 ? "server" : "servers", beside);
}

static void denials(const migrate_traffic *traffic, migrate_source *ret) {
    const migrate_denials *log = &traffic->denials;
    char many[32];

    ret->name = "acl_log";
    ret->limit = "what the log has dropped, or lost by ACL LOG RESET";
    if (log->access == MIGRATE_READ && log->count == 0)
        say_of(ret, true, "no denied SETNX or GETSET%s",
               traffic->watch_ms > 0 ? " meanwhile" : " is in the log");
    else if (log->access == MIGRATE_READ)
        say_of(ret, true, "SETNX or GETSET was denied %s: %s", times(many, log->count), log->who);
    else
        say_of(ret, false, "%s",
               log->access == MIGRATE_LACKS ? "the server has no ACL LOG (from Redis 6 on)"
               : log->why[0]                ? log->why
                                            : "not read");
}

static void clients(const migrate_traffic *traffic, migrate_source *ret) {
    ret->name = "clients";
    ret->limit = "what they sent before: only the last command of each is known";
    if (traffic->listed != MIGRATE_READ)
        say_of(ret, false, "the list of clients can't be read");
    else
        say_of(ret, true, "%lld connection%s last sent a command that tidelock never sends%s%s",
               (long long)traffic->connections, migrate_plural(traffic->connections),
               traffic->suspects[0] ? "; suspects: " : "", traffic->suspects);
}

int migrate_sources(const migrate_traffic *traffic, migrate_source ret[MIGRATE_SOURCES]) {
    static void (*const all[MIGRATE_SOURCES])(const migrate_traffic *, migrate_source *) = {
        permissions, counts, events, denials, clients, monitor};

    for (int i = 0; i < MIGRATE_SOURCES; i++) {
        ret[i] = (migrate_source){.used = false};
        all[i](traffic, &ret[i]);
    }
    return MIGRATE_SOURCES;
}
