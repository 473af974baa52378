/*
 * What the evidence of legacy clients is said to be: never more than was seen, by each source, with what it
 * can't show and why it could not be read.
 */
#include "tests.h"
#include "legacy/migrate_record.h"
#include "migrate/migrate_evidence.h"

const char *show_ms(char buf[DURATION_SHOWN], int64_t ms) {
    (void)snprintf(buf, DURATION_SHOWN, "%lld ms", (long long)ms);
    return buf;
}

static migrate_source list[MIGRATE_SOURCES];

static const migrate_source *source(const migrate_traffic *traffic, const char *name) {
    int count = migrate_sources(traffic, list);
    for (int i = 0; i < count; i++) {
        assert_true(list[i].says[0] && list[i].limit[0]);
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    }
    fail_msg("no source %s", name);
    return NULL;
}

static void says(const migrate_traffic *traffic, const char *name, bool used, const char *part) {
    const migrate_source *it = source(traffic, name);
    if (it->used != used || !strstr(it->says, part))
        fail_msg("%s: '%s' (%d) lacks '%s'", name, it->says, it->used, part);
}

TEST(a_source_that_could_not_be_read_says_why) {
    migrate_traffic t = {.refused = -1,
                         .denials = {.access = MIGRATE_DENIED, .why = "NOPERM acl|log"},
                         .permissions = {.access = MIGRATE_DENIED, .why = "NOPERM acl|list"},
                         .events = {.access = MIGRATE_OFF, .why = "it is g$"},
                         .listed = MIGRATE_DENIED,
                         .monitor_why = "MONITOR is refused: NOPERM"};
    says(&t, "counts", false, "does not report");
    says(&t, "acl", false, "NOPERM acl|list");
    says(&t, "acl_log", false, "NOPERM acl|log");
    says(&t, "events", false, "it is g$");
    says(&t, "clients", false, "can't be read");
    says(&t, "monitor", false, "MONITOR is refused: NOPERM");
    t.permissions.access = t.denials.access = MIGRATE_LACKS;
    t.reset = true;
    says(&t, "acl", false, "from Redis 6 on");
    says(&t, "acl_log", false, "from Redis 6 on");
    says(&t, "counts", false, "were reset meanwhile");
    t = (migrate_traffic){.calls = 0};
    says(&t, "acl", false, "not asked");
    says(&t, "monitor", false, "not read");
    says(&t, "events", false, "not read");
}

TEST(counts_are_those_of_the_watch_or_since_they_were_reset) {
    migrate_traffic t = {.counted = true, .watch_ms = 3000};
    says(&t, "counts", true,
         "no SETNX or GETSET ran in 3000 ms, on any key of the server, and none was refused");
    t.calls = 1;
    t.refused = 2;
    says(&t, "counts", true, "ran once in 3000 ms");
    says(&t, "counts", true, "and they were refused 2 times");
    t.refused = -1;
    t.watch_ms = 0;
    says(&t, "counts", true, "ran once since the counts were reset");
    says(&t, "counts", true, "does not count what it refuses");
}

TEST(denied_to_all_is_said_of_all_servers_that_were_asked) {
    migrate_traffic t = {
        .permissions = {.access = MIGRATE_READ, .users = 3, .denied = 3, .servers = 1}};
    says(&t, "acl", true, "every user of 1 server: none can lock by them");
    t.permissions.replicas = 2;
    says(&t, "acl", true, "its 2 replicas were not asked");
    t.permissions.servers = 3;
    t.permissions.denied = 2;
    says(&t, "acl", true, "denied to 2 of 3 users of 3 servers");
}

TEST(events_monitor_and_the_log_say_what_they_saw) {
    migrate_traffic t = {.watch_ms = 9000,
                         .events = {.access = MIGRATE_READ, .ms = 8000, .writes = 7, .bare = 1},
                         .denials = {.access = MIGRATE_READ},
                         .listed = MIGRATE_READ,
                         .connections = 4,
                         .monitor_ms = 500,
                         .accounted = 6};
    says(&t, "events", true,
         "for 8000 ms: 7 writes to keys of the namespace, 1 of them without a lifetime");
    says(&t, "acl_log", true, "no denied SETNX or GETSET meanwhile");
    says(&t, "clients", true, "4 connections");
    says(&t, "monitor", true, "read for 500 ms: 6 of the SETNX and GETSET were on other keys");
    t.events.gaps = 2;
    says(&t, "events", true, "they were lost 2 times");
    t.denials.count = 3;
    memcpy(t.denials.who, "user app", 9);
    says(&t, "acl_log", true, "was denied 3 times: user app");
    t.monitor_whole = true;
    says(&t, "monitor", true, "500 ms, throughout");
    memcpy(t.suspects, "10.0.0.7:4001", 14);
    says(&t, "clients", true, "suspects: 10.0.0.7:4001");
    t = (migrate_traffic){.events = {.access = MIGRATE_READ}, .denials = {.access = MIGRATE_READ}};
    says(&t, "events", true, "are on: advance reads them");
    says(&t, "acl_log", true, "is in the log");
}
