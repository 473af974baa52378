/*
 * CLIENT LIST as servers of all versions print it: each connection once, and no text taken for another.
 */
#include "tests.h"
#include "migrate/client_list.h"

static client_row first(const char *list) {
    client_row row;
    tl_bytes text = tl__bytes_of(list);
    assert_true(client_list_next(&text, &row));
    return row;
}

TEST(each_connection_is_read_once) {
    tl_bytes list = TL_LITERAL("id=1 addr=10.0.0.5:1 name=a cmd=get\n\nnonsense\n"
                               "id=2 addr=[fe80::1]:2 name= cmd=setnx\r\nid=3 name=odd cmd=setnx\n"
                               "id=4 addr=/run/redis.sock:0 cmd=client|list");
    static const char *const addresses[] = {"10.0.0.5:1", "[fe80::1]:2", "/run/redis.sock:0"};
    static const char *const commands[] = {"get", "setnx", "client|list"};
    client_row row;
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        assert_true(client_list_next(&list, &row));
        assert_string_equal(row.address, addresses[i]);
        assert_string_equal(row.command, commands[i]);
    }
    assert_false(client_list_next(&list, &row));
}

TEST(what_a_server_does_not_report_is_empty) {
    client_row row = first("id=1 addr=10.0.0.5:1 laddr=10.0.0.1:6379 fd=8 name= age=1 cmd=getset");
    assert_string_equal(row.address, "10.0.0.5:1");
    assert_string_equal(row.name, "");
    assert_string_equal(row.library, "");
    assert_string_equal(row.user, "");
    row = first(
        "id=1 addr=a:1 name=web cmd=setnx user=app redir=-1 resp=2 lib-name=jedis lib-ver=5.1.0");
    assert_string_equal(row.name, "web");
    assert_string_equal(row.user, "app");
    assert_string_equal(row.library, "jedis");
    assert_string_equal(row.version, "5.1.0");
}

/* The drop-in for Java sends scripts over its caller's client: its library is not what makes a suspect. */
TEST(a_suspect_is_known_by_its_last_command_alone) {
    client_row row = first("addr=a:1 name=java cmd=evalsha user=app lib-name=jedis lib-ver=5.1.0");
    assert_true(client_may_be_ours(&row));
    assert_false(client_is_suspect(&row));
    row = first("addr=a:1 name=tidelock cmd=getset lib-name=tidelock");
    assert_false(client_may_be_ours(&row));
    assert_true(client_is_suspect(&row));
    row = first("addr=a:1 cmd=msetnx");
    assert_false(client_may_be_ours(&row) || client_is_suspect(&row));
    row = first("addr=a:1 cmd=client|list");
    assert_true(client_may_be_ours(&row));
    row = first("addr=a:1 cmd=cluster|slots");
    assert_true(client_may_be_ours(&row));
}

TEST(a_connection_is_shown_by_what_is_known) {
    char text[CLIENT_SHOWN];
    client_row row = first("addr=10.0.0.7:4001 name= cmd=get");
    assert_string_equal(client_show(text, &row), "10.0.0.7:4001, last command get");
    row = first("addr=10.0.0.7:4001 name=web cmd=setnx user=app lib-name=jedis lib-ver=5.1.0");
    assert_string_equal(client_show(text, &row),
                        "10.0.0.7:4001 called web (jedis 5.1.0) as user app, last command setnx");
    row = first("addr=a:1 lib-name=jedis cmd=setnx");
    assert_string_equal(client_show(text, &row), "a:1 (jedis), last command setnx");
    memset(&row, 0, sizeof row);
    memset(row.address, 'x', sizeof row.address - 1);
    memset(row.name, 'y', sizeof row.name - 1);
    memset(row.user, 'z', sizeof row.user - 1);
    assert_true(strlen(client_show(text, &row)) < sizeof text);
}
