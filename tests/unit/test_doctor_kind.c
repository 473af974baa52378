/*
 * What the doctor says of servers that understand the commands of Redis and are something else, by the INFO that each of them
 * writes.
 */
#include "base/infotext.h"
#include "doctor_findings.h"

TESTS_WITH(NULL, NULL);

static void check(void) {
    report.count = 0;
    doctor_check_kind(&facts, &report);
}

#define ROW(name, text, product)                                                                   \
    { name, "# Server\r\n" text "\r\n", product }

/* As each of them writes it. */
static const struct {
    const char *name, *info, *product;
} unknown[] = {
    ROW("KeyDB",
        "redis_version:6.3.4\r\nredis_mode:standalone\r\nos:Linux 6.1.0 x86_64\r\n\r\n"
        "# Replication\r\nrole:master\r\n\r\n# KeyDB\r\nmvcc_depth:0",
        "KeyDB 6.3.4"),
    ROW("Dragonfly",
        "redis_version:7.4.0\r\ndragonfly_version:df-v1.40.1\r\nredis_mode:standalone\r\n"
        "thread_count:7",
        "Dragonfly df-v1.40.1"),
    ROW("Garnet", "garnet_version:1.0.48\r\nos:Unix 6.1.0\r\nredis_version:7.4.3", "Garnet 1.0.48"),
    ROW("Kvrocks", "version:2.0.5\r\nkvrocks_version:2.0.5\r\nredis_version:4.0.0",
        "Kvrocks 2.0.5"),
    ROW("Upstash", "upstash_version:1.10.5\r\nredis_version:6.2.6", "Upstash 1.10.5"),
    ROW("Redis Software", "redis_version:7.4.0\r\nrlec_version:7.22.0-28", "Redis 7.4.0"),
    ROW("MemoryDB", "redis_version:6.2.6\r\nos:Amazon MemoryDB", "Redis 6.2.6"),
    ROW("ElastiCache",
        "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n"
        "os:Amazon ElastiCache",
        "Valkey 8.0.1"),
};

TEST(each_of_them_is_named_and_not_known_to_be_safe) {
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        char product[INFO_PRODUCT_SIZE];
        info(unknown[i].info);
        const doctor_finding *x = says_only("server", DOCTOR_UNSEEN, unknown[i].name);
        assert_non_null(strstr(x->what, "not known to be safe for locks"));
        assert_non_null(strstr(x->why, "tidelock's tests did not run on it"));
        assert_true(strlen(x->why) < sizeof x->why - 1 && strlen(x->fix) < sizeof x->fix - 1);
        assert_true(info_product(tl__bytes_of(unknown[i].info), product));
        assert_string_equal(product, unknown[i].product);
    }
}

TEST(where_two_servers_accept_writes_no_lock_is_safe) {
    info("# Server\r\nredis_version:6.3.4\r\n\r\n# Replication\r\nrole:active-replica\r\n"
         "master_global_link_status:up\r\n\r\n# KeyDB\r\nmvcc_depth:0\r\n");
    const doctor_finding *x = says_only("server", DOCTOR_DANGER, "active-replica mode");
    assert_non_null(strstr(x->why, "two clients hold one lock"));
    assert_non_null(strstr(x->fix, "active-replica no"));
}

TEST(garnet_must_keep_scripts_apart) {
    info(unknown[2].info);
    assert_non_null(strstr(says_only("server", DOCTOR_UNSEEN, "Garnet")->fix,
                           "--lua and --lua-transaction-mode"));
}

TEST(of_what_tests_ran_on_nothing_is_said) {
    static const char *const tested[] = {
        "# Server\r\nredis_version:2.6.17\r\nos:Linux 6.1.0 x86_64\r\nrole:master\r\n",
        "# Server\r\nredis_version:8.0.2\r\nredis_mode:cluster\r\nos:Linux 6.1.0 x86_64\r\n",
        "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.0\r\n",
        "# Server\r\nredict_version:7.3.6\r\nredis_version:7.2.4\r\nos:Linux 6.1.0 x86_64\r\n", ""};
    for (size_t i = 0; i < sizeof tested / sizeof *tested; i++) {
        info(tested[i]);
        says_nothing();
    }
}
