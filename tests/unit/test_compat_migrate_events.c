/*
 * Which writes are a legacy client's, out of keyspace events: tidelock's scripts set a lifetime with each value,
 * and the server reports both next to each other.
 */
#include "tests.h"
#include "legacy/migrate_record.h"
#include "migrate/migrate_events.h"

static migrate_traffic seen;
static migrate_events events;

static void hear(const char *kind, const char *key, const char *event) {
    char channel[100];
    (void)snprintf(channel, sizeof channel, "__keyspace@0__:%s", key);
    const tl_reply items[] = {{.type = TL_REPLY_STRING, .text = tl__bytes_of(kind)},
                              {.type = TL_REPLY_STRING, .text = TL_LITERAL("__keyspace@0__:*")},
                              {.type = TL_REPLY_STRING, .text = tl__bytes_of(channel)},
                              {.type = TL_REPLY_STRING, .text = tl__bytes_of(event)}};
    const tl_reply message = {.type = TL_REPLY_ARRAY, .items = items, .count = 4};
    migrate_events_message(&events, &message);
}

/* Words like "a set, a expire"; the last write is settled by another key's. */
static int64_t bare(const char *story) {
    char text[200], *rest = text;
    memset(&seen, 0, sizeof seen);
    events = (migrate_events){.seen = &seen, .keys = "*"};
    (void)snprintf(text, sizeof text, "%s", story);
    for (char *word; (word = strtok_r(rest, ", ", &rest));)
        hear("pmessage", word, strtok_r(rest, ", ", &rest));
    hear("pmessage", "other", "set");
    return seen.events.bare;
}

TEST(a_write_without_a_lifetime_is_a_legacy_clients) {
    assert_int_equal(bare("a set"), 1);
    assert_string_equal(seen.straggler[0].key, "a");
    assert_true(seen.straggler[0].address[0] && seen.straggler[0].command[0]);
    assert_int_equal(bare("a set, a expire"), 0);
    assert_int_equal(seen.stragglers, 0);
    assert_int_equal(bare("a set, b set, b expire"), 1);
    assert_int_equal(bare("a set, b del, a expire"), 1); /* its script has ended before */
    assert_int_equal(bare("a set, b expire"), 1);
    assert_int_equal(bare("a set, a set, a expire"), 1); /* and tidelock's, directly behind it */
    assert_int_equal(bare("a set, a expire, a set"), 1);
    assert_int_equal(bare("a set, a del, a set, a expire"), 1);
    assert_int_equal(seen.events.writes, 3);
}

TEST(other_events_say_nothing_of_a_write) {
    assert_int_equal(bare("a del, b expired, c expire, d hset"), 0);
    assert_int_equal(bare("a set, a new, a overwritten, a expire"), 0);
    memset(&seen, 0, sizeof seen);
    events = (migrate_events){.seen = &seen, .keys = "*"};
    hear("message", "a", "set");
    hear("psubscribe", "a", "set");
    assert_true(events.began && !events.ended);
    hear("punsubscribe", "a", "set");
    assert_true(events.ended);
    const tl_reply odd = {.type = TL_REPLY_INT, .integer = 3};
    migrate_events_message(&events, &odd);
    assert_int_equal(seen.events.writes, 0);
}

/* A pattern like "*" has tidelock's own keys too: its fencing counters have no lifetime. */
TEST(a_key_of_tidelocks_own_is_no_lock) {
    assert_int_equal(bare("tidelock:fence:{abc} set, a set, a expire, tidelock:reign set"), 0);
    assert_int_equal(bare("a set, tidelock:fence:{abc} set, a expire"), 1);
    assert_int_equal(seen.events.writes, 2);
}

TEST(a_key_is_named_once) {
    assert_int_equal(bare("a set, a set, b set, a set"), 4);
    assert_int_equal(seen.stragglers, 2);
}

TEST(more_keys_than_fit_are_counted) {
    char key[20];
    (void)bare("");
    for (int i = 0; i < MIGRATE_STRAGGLERS + 3; i++) {
        (void)snprintf(key, sizeof key, "k%d", i);
        hear("pmessage", key, "set");
    }
    assert_int_equal(seen.stragglers, MIGRATE_STRAGGLERS);
    assert_int_equal(seen.more_stragglers, 3);
}

/* Without the class of EXPIRE each write of tidelock's would look like Java's. */
TEST(events_serve_with_all_classes_that_are_needed) {
    static const char *const suffice[] = {"AK", "KEA", "K$g", "g$lshzxeK", "K$gx"},
                             *const lack[] = {"", "A", "AE", "K$", "Kg", "Kx", "$g", "E$g"};
    for (size_t i = 0; i < sizeof suffice / sizeof *suffice; i++)
        assert_true(migrate_events_suffice(tl__bytes_of(suffice[i])));
    for (size_t i = 0; i < sizeof lack / sizeof *lack; i++)
        assert_false(migrate_events_suffice(tl__bytes_of(lack[i])));
}
