/*
 * URLs: every form, every malformed form, and no secret in any message.
 */
#include "tests.h"
#include "transport/endpoint.h"
#include "transport/gateway.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/tls.h"

static tl_secret secret; /* of the URL that was parsed last */

static tl_endpoint parsed(const char *url) {
    tl_endpoint e;
    tl_error err = {0};
    if (tl__endpoint_parse(&e, &secret, url, &err))
        fail_msg("%s: %s", url, err.message);
    return e;
}

static void refused(const char *url, const char *words) {
    tl_endpoint e, empty = {0};
    tl_error err = {0};
    if (tl__endpoint_parse(&e, &secret, url, &err) == TL_OK)
        fail_msg("%s is accepted", url);
    assert_int_equal(err.code, TL_EINVALID);
    if (!strstr(err.message, words))
        fail_msg("%s: %s", url, err.message);
    assert_null(strchr(err.message, '\n'));
    assert_memory_equal(&e, &empty, sizeof e);
    assert_int_equal(tl__endpoint_parse(&e, &secret, url, NULL), TL_EINVALID);
}

static void check_tcp(const char *url, const char *host, int port, int db, const char *label) {
    tl_endpoint e = parsed(url);
    assert_false(e.tls);
    assert_string_equal(e.host, host);
    assert_int_equal(e.port, port);
    assert_int_equal(e.db, db);
    assert_string_equal(e.path, "");
    assert_string_equal(e.label, label);
}

TEST(tcp_forms) {
    check_tcp("redis://localhost", "localhost", 6379, 0, "localhost:6379");
    check_tcp("redis://localhost/", "localhost", 6379, 0, "localhost:6379");
    check_tcp("redis://10.0.0.5:7000", "10.0.0.5", 7000, 0, "10.0.0.5:7000");
    check_tcp("redis://10.0.0.5:7000/", "10.0.0.5", 7000, 0, "10.0.0.5:7000");
    check_tcp("redis://a_b-c.example/3", "a_b-c.example", 6379, 3, "a_b-c.example:6379");
    check_tcp("redis://h:1/2147483647", "h", 1, 2147483647, "h:1");
    check_tcp("redis://h:65535?db=7", "h", 65535, 7, "h:65535");
    check_tcp("redis://h/?db=7", "h", 6379, 7, "h:6379");
    check_tcp("redis://h/007", "h", 6379, 7, "h:6379");
    check_tcp("redis://[::1]", "::1", 6379, 0, "[::1]:6379");
    check_tcp("redis://[2001:db8::5]:7000/1", "2001:db8::5", 7000, 1, "[2001:db8::5]:7000");
    check_tcp("redis://[fe80::1%25eth0]:7000", "fe80::1%eth0", 7000, 0, "[fe80::1%eth0]:7000");
}

static void check_login(const char *url, const char *user, const char *password) {
    tl_endpoint e = parsed(url);
    assert_string_equal(e.user, user);
    assert_string_equal(tl__endpoint_password(&e), password);
    assert_null(strstr(e.label, "secret"));
}

static tl_seeds seeds_of(const char *url, tl_endpoint *e) {
    tl_seeds seeds;
    tl_error err = {0};
    if (tl__endpoint_parse_seeds(e, &secret, &seeds, url, &err))
        fail_msg("%s: %s", url, err.message);
    assert_string_equal(e->host, "");
    assert_string_equal(e->label, seeds.kind == TL_URL_QUORUM    ? "the quorum"
                                  : seeds.kind == TL_URL_ETCD    ? "etcd"
                                  : seeds.kind == TL_URL_CLUSTER ? seeds.seed[0].host
                                                                 : seeds.master);
    return seeds;
}

static void refused_seeds(const char *url, const char *words) {
    tl_endpoint e;
    tl_seeds seeds;
    tl_error err = {0};
    if (tl__endpoint_parse_seeds(&e, &secret, &seeds, url, &err) == TL_OK)
        fail_msg("%s is accepted", url);
    if (!strstr(err.message, words) || strchr(err.message, '\n'))
        fail_msg("%s: %s", url, err.message);
}

TEST(sentinel_forms) {
    tl_endpoint e;
    tl_seeds s = seeds_of("redis+sentinel://s1,10.0.0.2:7000,[::1]:7001/my-master", &e);
    assert_int_equal(s.count, 3);
    assert_string_equal(s.master, "my-master");
    assert_string_equal(s.seed[0].host, "s1");
    assert_int_equal(s.seed[0].port, 26379);
    assert_string_equal(s.seed[1].host, "10.0.0.2");
    assert_int_equal(s.seed[1].port, 7000);
    assert_string_equal(s.seed[2].host, "::1");
    assert_int_equal(s.seed[2].port, 7001);
    assert_false(e.tls);
    s = seeds_of("redis+sentinel://me:secret@h/m%61ster/3", &e);
    assert_string_equal(s.master, "master");
    assert_string_equal(e.user, "me");
    assert_string_equal(tl__endpoint_password(&e), "secret");
    assert_int_equal(e.db, 3);
    s = seeds_of("redis+sentinel://h/m?db=4", &e);
    assert_int_equal(e.db, 4);
    if (tl__tls_built()) {
        (void)seeds_of("rediss+sentinel://h/m", &e);
        assert_true(e.tls);
    }
}

TEST(a_url_of_one_server_has_no_seeds) {
    tl_endpoint e;
    tl_seeds seeds;
    assert_int_equal(tl__endpoint_parse_seeds(&e, &secret, &seeds, "redis://h", NULL), TL_OK);
    assert_string_equal(seeds.master, "");
    assert_string_equal(e.host, "h");
}

TEST(cluster_forms) {
    tl_endpoint e;
    tl_seeds s = seeds_of("redis+cluster://me:secret@h1,h2:7000/", &e);
    assert_int_equal(s.kind, TL_URL_CLUSTER);
    assert_int_equal(s.count, 2);
    assert_string_equal(s.master, "");
    assert_int_equal(s.seed[0].port, 6379);
    assert_string_equal(s.seed[1].host, "h2");
    assert_int_equal(s.seed[1].port, 7000);
    assert_string_equal(e.user, "me");
    assert_string_equal(tl__endpoint_password(&e), "secret");
    if (tl__tls_built()) {
        (void)seeds_of("rediss+cluster://h", &e);
        assert_true(e.tls);
    }
    refused_seeds("redis+cluster://", "the host is missing");
    (void)seeds_of("redis+cluster://h,h2/3", &e);
    assert_int_equal(e.db, 3);
    (void)seeds_of("redis+cluster://h?db=4", &e);
    assert_int_equal(e.db, 4);
    refused_seeds("redis+cluster://h/x", "the database must be a number");
    refused_seeds("redis+cluster://h?x=1", "only ?db=NUMBER may follow");
    refused("redis+cluster://h", "names several servers"); /* where one server is asked */
}

TEST(quorum_forms) {
    tl_endpoint e, of;
    tl_seeds s = seeds_of(
        "redis+quorum://me:secret@h1,unix:/run/a%2cb,unix:///run/c,[::1]:7000,h1:7000", &e);
    assert_int_equal(s.kind, TL_URL_QUORUM);
    assert_int_equal(s.count, 5);
    assert_string_equal(s.seed[0].host, "h1");
    assert_int_equal(s.seed[0].port, 6379);
    assert_string_equal(s.seed[1].path, "/run/a,b");
    assert_string_equal(s.seed[1].host, "");
    assert_string_equal(s.seed[2].path, "/run/c");
    assert_string_equal(s.seed[3].host, "::1");
    assert_string_equal(s.seed[3].path, "");
    assert_int_equal(s.seed[4].port, 7000);
    tl__endpoint_at_seed(&of, &e, &s, 1);
    assert_string_equal(of.label, "/run/a,b");
    assert_string_equal(tl__endpoint_password(&of), "secret");
    tl__endpoint_at_seed(&of, &e, &s, 3);
    assert_string_equal(of.label, "[::1]:7000");
    assert_string_equal(of.user, "me");
    s = seeds_of("redis+quorum://a,b,c,d,e,f,g", &e);
    assert_int_equal(s.count, 7);
    if (tl__tls_built()) {
        (void)seeds_of("rediss+quorum://a,b,c", &e);
        assert_true(e.tls);
        refused_seeds("rediss+quorum://a,b,unix:/c", "no TLS over a unix socket");
    }
}

TEST(etcd_forms) {
    tl_endpoint e;
    if (!tl__gateway_works()) {
        refused_seeds("etcd://h", "built without jansson");
        return;
    }
    tl_seeds s = seeds_of("etcd://me:secret@h1,[::1]:7000,h3:1/team%2Fa", &e);
    assert_int_equal(s.kind, TL_URL_ETCD);
    assert_int_equal(s.count, 3);
    assert_string_equal(s.seed[0].host, "h1");
    assert_int_equal(s.seed[0].port, 2379);
    assert_int_equal(s.seed[1].port, 7000);
    assert_string_equal(s.prefix, "team/a/");
    assert_string_equal(e.user, "me");
    assert_string_equal(tl__endpoint_password(&e), "secret");
    s = seeds_of("etcd://h", &e);
    assert_string_equal(s.prefix, "");
    s = seeds_of("etcd://h/", &e);
    assert_string_equal(s.prefix, "");
    s = seeds_of("etcd://h//a/", &e);
    assert_string_equal(s.prefix, "/a/");
    if (tl__tls_built()) {
        (void)seeds_of("etcds://h", &e);
        assert_true(e.tls);
    }
    refused_seeds("etcd://", "the host is missing");
    refused_seeds("etcd://h,", "the host is missing");
    refused_seeds("etcd:h", "it must begin with");
    refused_seeds("etcd://:secret@h", "no password without a user");
    refused_seeds("etcd://h?db=1", "only /PREFIX may follow");
    refused_seeds("etcd://h/a?db=1", "only /PREFIX may follow");
    refused_seeds("etcd://h/a%zz", "two hexadecimal digits");
    char url[400] = "etcd://h/";
    memset(url + 9, 'x', 255);
    refused_seeds(url, "the prefix is longer than 254 bytes");
    url[9 + 254] = '\0';
    s = seeds_of(url, &e);
    assert_int_equal(strlen(s.prefix), 255);
}

TEST(malformed_quorum_urls) {
    refused_seeds("redis+quorum://", "the host is missing");
    refused_seeds("redis+quorum:a,b,c", "it must begin with");
    refused_seeds("redis+quorum://a", "with fewer none may fail");
    refused_seeds("redis+quorum://a,b", "with fewer none may fail");
    refused_seeds("redis+quorum://a,b,c,d", "with an even number no more may fail");
    refused_seeds("redis+quorum://a,b,c,d,e,f,g,h", "more than 7");
    refused_seeds("redis+quorum://a,b,", "the host is missing");
    refused_seeds("redis+quorum://a,b,A", "names a server twice");
    refused_seeds("redis+quorum://a,b:6379,b", "names a server twice");
    refused_seeds("redis+quorum://unix:/a,b,unix:///a", "names a server twice");
    refused_seeds("redis+quorum://a,b,c/2", "at its database 0");
    refused_seeds("redis+quorum://a/2,b,c", "at its database 0");
    refused_seeds("redis+quorum://a,b,unix:/c?db=1", "at its database 0");
    refused_seeds("redis+quorum://a,b,unix:c", "must begin with '/'");
    refused_seeds("redis+quorum://a,b,c:x", "the port must be");
    refused_seeds("redis+quorum://me:one@a,me:two@b,c", "are for all servers of a quorum");
    refused_seeds("redis+quorum://a,me:two@b,c,d", "are for all servers of a quorum");
}

TEST(malformed_sentinel_urls) {
    char many[512] = "redis+sentinel://s";
    for (int i = 0; i < TL_SEEDS_MAX; i++)
        (void)strcat(many, ",s");
    (void)strcat(many, "/m");
    refused_seeds(many, "more than 16");
    refused_seeds("redis+sentinel://h", "the name of the master is missing");
    refused_seeds("redis+sentinel://h/", "the name of the master is missing");
    refused_seeds("redis+sentinel:///m", "the host is missing");
    refused_seeds("redis+sentinel://h,/m", "the host is missing");
    refused_seeds("redis+sentinel://h,,i/m", "the host is missing");
    refused_seeds("redis+sentinel://h:x/m", "the port must be");
    refused_seeds("redis+sentinel://h/m/x", "the database must be");
    refused_seeds("redis+sentinel://h/m%20", "the name of the master has spaces");
    refused_seeds("redis+sentinel://h/"
                  "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm",
                  "longer than 63 bytes");
    refused("redis+sentinel://h/m", "names no server"); /* where one server is asked */
}

TEST(an_endpoint_elsewhere_has_the_same_login) {
    tl_endpoint e = parsed("redis://me:secret@h/3"), to;
    assert_true(tl__endpoint_at(&to, &e, TL_LITERAL("::1"), 7000));
    assert_string_equal(to.label, "[::1]:7000");
    assert_string_equal(tl__endpoint_password(&to), "secret");
    assert_int_equal(to.db, 3);
    assert_false(tl__endpoint_at(&to, &e, (tl_bytes){0}, 1));
}

/* A password of up to 16 KiB would be too much for each of a cluster's nodes. */
TEST(endpoints_share_what_is_long_and_leave_it_to_whoever_has_it) {
    tl_endpoint e = parsed("redis://me:secret@h"), to;
    tl_seeds seeds = {.count = 1, .seed = {{.host = "i", .port = 1}}};
    tl_tls_files files;
    assert_true(sizeof e < TL_FILE_SIZE);
    assert_true(tl__endpoint_at(&to, &e, TL_LITERAL("i"), 1) && to.secret == &secret);
    tl__endpoint_at_seed(&to, &e, &seeds, 0);
    assert_ptr_equal(to.secret, &secret);
    tl__endpoint_wipe(&to);
    assert_string_equal(tl__endpoint_password(&to), "");
    assert_string_equal(tl__endpoint_password(&e), "secret");
    assert_int_equal(tl__endpoint_add(&e, &files, &(tl_client_options){.password = "given"}, NULL),
                     TL_OK);
    assert_string_equal(secret.text, "given");
    assert_true(tl__endpoint_at(&to, &e, TL_LITERAL("i"), 1) && to.files == &files);
}

TEST(where_no_password_is_wanted_there_is_none) {
    tl_endpoint e;
    tl_error err = {0};
    assert_int_equal(tl__endpoint_parse(&e, NULL, "redis://me:@h", NULL), TL_OK);
    assert_false(tl__endpoint_has_password(&e));
    assert_int_equal(tl__endpoint_parse(&e, NULL, "redis://me:secret@h", &err), TL_EINVALID);
    assert_non_null(strstr(err.message, "the URL must have no password here"));
}

TEST(user_and_password) {
    check_login("redis://h", "", "");
    check_login("redis://me@h", "me", "");
    check_login("redis://me:secret@h", "me", "secret");
    check_login("redis://:secret@h:1/2", "", "secret");
    check_login("redis://me:@h", "me", "");
    check_login("redis://:@h", "", "");
    check_login("redis://@h", "", "");
    check_login("redis://m%65:s%3Ae%2Fc%40r%3fe%23t%25@h", "me", "s:e/c@r?e#t%");
    check_login("redis://me:secret:with:colons@h", "me", "secret:with:colons");
    check_login("redis://me:secret@twice@h", "me", "secret@twice");
    check_login("redis://%C3%A9:%ff%01@h", "\xc3\xa9", "\xff\x01");
    check_login("unix://me:secret@/run/redis.sock", "me", "secret");
    check_login("redis://me:secret@[::1]:7000", "me", "secret");
}

static void check_where(const char *url, const char *login) {
    tl_bytes found = tl__url_login(url);
    assert_true(tl__bytes_eq(found, tl__bytes_of(login)));
    assert_true(found.n == 0 || (found.p > url && found.p[found.n] == '@'));
}

TEST(where_user_and_password_stand) {
    check_where("redis://h", "");
    check_where("redis://me:secret@h/1", "me:secret");
    check_where("redis://me:secret@twice@h", "me:secret@twice");
    check_where("REDIS://me@h", "me");
    check_where("unix:/a@b/r.sock", "");
    check_where("unix:///a@b/r.sock?db=1", "");
    check_where("unix://me:secret@/a@b/r.sock", "me:secret");
    check_where("local:/a@b", "");
    check_where("redis+sentinel://me:secret@h,i/a%40b", "me:secret");
    check_where("redis+sentinel://h,i/a@b", "");
    check_where("redis+cluster://me:secret@h,i", "me:secret");
    check_where("redis+quorum://me:secret@h,i,j", "me:secret");
    check_where("redis+quorum://unix:/a@b,unix:/c@d,unix:/e", "");
    check_where("redis+quorum://me:secret@unix:/a@b,unix:/c@d,unix:/e", "me:secret");
    if (tl__gateway_works()) {
        check_where("etcd://h/app@prod", "");
        check_where("etcd://me:secret@h,i/app@prod", "me:secret");
    }
    /* what can't be read may have one anywhere */
    check_where("redis://me:sec/ret@h", "me:sec/ret");
    check_where("", "");
}

TEST(schemes_may_have_capital_letters) {
    check_tcp("REDIS://h", "h", 6379, 0, "h:6379");
    check_tcp("Redis://h/1", "h", 6379, 1, "h:6379");
    assert_string_equal(parsed("UNIX:/run/r.sock").path, "/run/r.sock");
    assert_string_equal(parsed("Local:/var/l").dir, "/var/l");
    static const struct {
        const char *url;
        tl_url_kind kind;
        bool tls;
    } rows[] = {{"Redis://h", TL_URL_ONE, false},
                {"REDISS://h", TL_URL_ONE, true},
                {"unix:/x", TL_URL_ONE, false},
                {"LOCAL:", TL_URL_LOCAL, false},
                {"Redis+Sentinel://h/n", TL_URL_SENTINELS, false},
                {"rediss+CLUSTER://h", TL_URL_CLUSTER, true},
                {"redis+Quorum://h", TL_URL_QUORUM, false},
                {"ETCDS://h", TL_URL_ETCD, true},
                {"http://h", TL_URL_UNKNOWN, false},
                {"", TL_URL_UNKNOWN, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool tls;
        assert_int_equal(tl__url_kind(rows[i].url, &tls), rows[i].kind);
        assert_int_equal(tls, rows[i].tls);
    }
}

TEST(an_address_of_ipv6_needs_its_brackets) {
    refused("redis://::1", "in brackets");
    refused("redis://::1:6379", "in brackets");
    refused("redis://me:secret@2001:db8::5:7000/1", "in brackets");
    refused("redis://fe80::1%25eth0", "in brackets");
    refused("redis://h:1:2", "the port must be a number");
    refused_seeds("redis+sentinel://::1:26379,h/n", "in brackets");
    refused_seeds("redis+quorum://h,::1,i", "in brackets");
    refused_seeds("etcd://::1:2379", tl__gateway_works() ? "in brackets" : "without jansson");
}

/* A path of a socket has no login in it, and one of a first server none before it. */
TEST(servers_of_a_quorum_may_have_an_at_sign_in_their_paths) {
    tl_endpoint e;
    tl_seeds s = seeds_of("redis+quorum://unix:/a@b,unix:/c@d,UNIX:/e", &e);
    assert_string_equal(e.user, "");
    assert_string_equal(s.seed[0].path, "/a@b");
    assert_string_equal(s.seed[2].path, "/e");
    s = seeds_of("redis+quorum://me:secret@unix:/a@b,h,i", &e);
    assert_string_equal(tl__endpoint_password(&e), "secret");
    assert_string_equal(s.seed[0].path, "/a@b");
    refused_seeds("redis+quorum://unix:/a,me:secret@h,i",
                  "the user and password before the first server are for all");
    refused_seeds("redis+quorum://me:secret@h,me:secret@i,j",
                  "the user and password before the first server are for all");
}

/* ---- passwords that change --------------------------------------------------------------------- */

static bool give(tl_password_for whose, char *ret, size_t size, void *ctx) {
    const char *const *all = ctx;
    assert_true(size >= TL_PASSWORD_SIZE);
    if (!all[whose])
        return false;
    (void)snprintf(ret, size, "%s", all[whose]);
    return true;
}

static void check_password(const tl_endpoint *e, const char *text) {
    tl_password password = tl__password_ask(e);
    assert_string_equal(password.text, text);
    tl__password_forget(&password);
}

TEST(a_function_gives_each_login_the_password_of_then) {
    const char *all[] = {[TL_PASSWORD_SERVER] = "first", [TL_PASSWORD_SENTINEL] = "theirs"};
    const tl_client_options o = {.size = sizeof o,
                                 .password = "given",
                                 .sentinel_password = "also given",
                                 .password_fn = give,
                                 .password_ctx = all};
    tl_error err = {0};
    tl_endpoint e = parsed("redis://me@h");
    assert_int_equal(tl__endpoint_add(&e, &(tl_tls_files){.ca = ""}, &o, &err), TL_OK);
    check_password(&e, "first");
    all[TL_PASSWORD_SERVER] = "second";
    check_password(&e, "second");
    tl_endpoint sentinel = e;
    tl_secret theirs;
    assert_int_equal(tl__endpoint_log_in_as(&sentinel, &theirs, &o, &err), TL_OK);
    check_password(&sentinel, "theirs");
    assert_string_equal(sentinel.user, "");
    all[TL_PASSWORD_SERVER] = all[TL_PASSWORD_SENTINEL] = NULL;
    check_password(&e, "given");
    check_password(&sentinel, "also given");
    tl__endpoint_make_stranger(&e);
    all[TL_PASSWORD_SERVER] = "third";
    check_password(&e, "");
    assert_false(tl__endpoint_has_password(&e));
}

static void check_unix(const char *url, const char *path, int db) {
    tl_endpoint e = parsed(url);
    assert_string_equal(e.path, path);
    assert_string_equal(e.label, path);
    assert_string_equal(e.host, "");
    assert_int_equal(e.db, db);
}

TEST(unix_forms) {
    check_unix("unix:///run/redis.sock", "/run/redis.sock", 0);
    check_unix("unix:/run/redis.sock", "/run/redis.sock", 0);
    check_unix("unix:///run/redis.sock?db=3", "/run/redis.sock", 3);
    check_unix("unix:///a%20b%3fc", "/a b?c", 0);
}

static void check_local(const char *url, const char *dir) {
    tl_endpoint e = parsed(url);
    char path[sizeof e.path];
    (void)snprintf(path, sizeof path, "%s/redis.sock", dir);
    assert_string_equal(e.dir, dir);
    assert_string_equal(e.path, path);
    assert_string_equal(e.label, "local");
    assert_string_equal(e.host, "");
    assert_false(e.only_find);
}

TEST(local_forms) {
    char own[64];
    (void)snprintf(own, sizeof own, "/tmp/tidelock-%lu", (unsigned long)geteuid());
    check_local("local:", own);
    check_local("local:/var/lib/locks", "/var/lib/locks");
    check_local("local:/var/lib/locks///", "/var/lib/locks"); /* not through a symbolic link */
    check_local("local:/a%20b%2F", "/a b");
    refused("local", "must begin with");
    refused("redis+quorum://a,b,c", "names several servers"); /* where one server is asked */
    refused("local:locks", "only a directory");
    refused("local://host", "no host");
    refused("local:?db=1", "only a directory");
    refused("local:/a?db=1", "only a directory");
    refused("local:/a#b", "only a directory");
    refused("local:/a%00", "not 00");
}

TEST(label_is_printable) {
    tl_endpoint e = parsed("unix:///a%0Ab%7F%C3");
    assert_string_equal(e.path, "/a\nb\x7f\xc3");
    assert_string_equal(e.label, "/a?b??");
}

TEST(tls_needs_a_build_with_it) {
    if (!tl__tls_built()) {
        refused("rediss://h", "TLS");
        return;
    }
    tl_endpoint e = parsed("rediss://me:secret@h:7000/2");
    assert_true(e.tls);
    assert_int_equal(e.port, 7000);
    assert_string_equal(tl__endpoint_password(&e), "secret");
}

TEST(malformed) {
    refused("", "it is empty: give a server's, or local:");
    refused("localhost", "must begin with");
    refused("localhost:6379", "must begin with");
    refused("http://h", "must begin with");
    refused("redis:", "must begin with");
    refused("redis:/h", "must begin with");
    refused("redis://", "host is missing");
    refused("redis:///3", "host is missing");
    refused("redis://:7000", "host is missing");
    refused("redis://me:x@", "host is missing");
    refused("redis://me:x@:7000", "host is missing");
    refused("redis://h:", "port");
    refused("redis://h:0", "port");
    refused("redis://h:65536", "port");
    refused("redis://h:-1", "port");
    refused("redis://h:+1", "port");
    refused("redis://h:7x", "port");
    refused("redis://h:99999999999999999999", "port");
    refused("redis://h:7000:7001", "port");
    refused("redis://a b", "spaces");
    refused("redis://a\nb", "spaces");
    refused("redis://b\xc3\xbc"
            "cher",
            "non-ASCII");
    refused("redis://a*b", "letters");
    refused("redis://a%20b", "letters");
    refused("redis://h/x", "database");
    refused("redis://h/-1", "database");
    refused("redis://h/3/", "database");
    refused("redis://h/2147483648", "database");
    refused("redis://h/99999999999999999999", "database");
    refused("redis://h?db=", "database");
    refused("redis://h?db=1&db=2", "database");
    refused("redis://h?timeout=1", "?db=");
    refused("redis://h#1", "?db=");
    refused("redis://[::1", "']'");
    refused("redis://[::1]7000", "after ']'");
    refused("redis://[1.2.3.4]", "IPv6");
    refused("redis://[]", "IPv6");
    refused("redis://[::g]", "IPv6");
    refused("redis://[fe80::1%25et%0Ah0]", "zone");
    refused("redis://%zz@h", "hexadecimal");
    refused("redis://a%@h", "hexadecimal");
    refused("redis://a%4@h", "hexadecimal");
    refused("redis://a%00b@h", "not 00");
    refused("unix:", "begin with '/'");
    refused("unix://", "begin with '/'");
    refused("unix://host/path", "no host");
    refused("unix:run/redis.sock", "begin with '/'");
    refused("unix:///a%00", "not 00");
    refused("unix:///a?x=1", "?db=");
    assert_int_equal(tl__endpoint_parse(&(tl_endpoint){0}, &secret, NULL, NULL), TL_EINVALID);
}

TEST(too_long) {
    static char url[70000], fill[66000];
    memset(fill, 'a', sizeof fill);
    (void)snprintf(url, sizeof url, "redis://%.*s", 255, fill);
    assert_int_equal(strlen(parsed(url).host), 255);
    (void)snprintf(url, sizeof url, "redis://%.*s", 256, fill);
    refused(url, "host is too long");
    (void)snprintf(url, sizeof url, "unix:///%.*s", 106, fill);
    assert_int_equal(strlen(parsed(url).path), 107);
    (void)snprintf(url, sizeof url, "unix:///%.*s", 107, fill);
    refused(url, "107");
    (void)snprintf(url, sizeof url, "local:/%.*s", 95, fill);
    assert_int_equal(strlen(parsed(url).path), 107);
    (void)snprintf(url, sizeof url, "local:/%.*s", 96, fill);
    refused(url, "96 bytes");
    (void)snprintf(url, sizeof url, "redis://%.*s:%.*s@h", 511, fill, 16384, fill);
    (void)parsed(url);
    assert_int_equal(strlen(secret.text), 16384);
    (void)snprintf(url, sizeof url, "redis://%.*s@h", 512, fill);
    refused(url, "user name is longer than 511 bytes");
    (void)snprintf(url, sizeof url, "redis://:%.*s@h", 16385, fill);
    refused(url, "password is longer than 16384 bytes");
    (void)snprintf(url, sizeof url, "redis://[%.*s]", 300, fill);
    refused(url, "too long");
    (void)snprintf(url, sizeof url, "redis://%.*s", 65530, fill);
    refused(url, "65536");
}

/* Whatever is wrong, and wherever a secret ended up because of it. */
TEST(no_message_shows_a_secret) {
    static const char *const urls[] = {
        "hunter2",
        "me:hunter2@h",
        "hunter2://h",
        "redis://me:hunter2",
        "redis://me:hunter2@",
        "redis://me:hunter2@h:x",
        "redis://me:hunter2@h/x",
        "redis://me:hunter2@h?x=1",
        "redis://me:hunter2/x@h",
        "redis://me:hunter2?x@h",
        "redis://me:hunter2#x@h",
        "redis://me:hunter2%zz@h",
        "redis://me:hunter2 @h",
        "redis://me:hunter2@a*b",
        "redis://me:hunter2@[::1",
        "redis://h/hunter2",
        "redis://h?password=hunter2",
        "redis://hunter2[@h]",
        "unix://me:hunter2@h/path",
        "unix://me:hunter2/path",
        "unix://me:hunter2@",
        "unix:///p?password=hunter2",
    };
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        tl_endpoint e;
        tl_error err = {0};
        assert_int_equal(tl__endpoint_parse(&e, &secret, urls[i], &err), TL_EINVALID);
        assert_null(strstr(err.message, "hunter"));
    }
}

TEST(wipe_leaves_no_secret) {
    tl_endpoint e = parsed("redis://me:hunter2@h");
    tl_endpoint sentinel = e;
    tl_secret theirs;
    const tl_client_options o = {.sentinel_user = "me", .sentinel_password = "hunter2"};
    assert_int_equal(tl__endpoint_log_in_as(&sentinel, &theirs, &o, NULL), TL_OK);
    assert_string_equal(secret.text, "hunter2");
    tl__endpoint_wipe(&e);
    tl__endpoint_wipe(&sentinel);
    tl__secret_wipe(&secret);
    tl__secret_wipe(&theirs);
    assert_null(memmem(&e, sizeof e, "me", 3));
    assert_null(memmem(&sentinel, sizeof sentinel, "me", 3));
    assert_null(memmem(&secret, sizeof secret, "hunter2", 7));
    assert_null(memmem(&theirs, sizeof theirs, "hunter2", 7));
    assert_int_equal(tl__endpoint_parse(&e, &secret, "redis://me:hunter2@h:x", NULL), TL_EINVALID);
    assert_null(memmem(&secret, sizeof secret, "hunter2", 7));
    tl__endpoint_wipe(NULL);
    tl__secret_wipe(NULL);
}
