/*
 * Writes requests to etcd from templates: JSON with single quotes in place of double ones, and these
 * variables:
 *
 *   $p $e   the first key of K's range, and the end of the range     $m   K/suffix
 *   $a $z   the same for all keys below the prefix                   #n   argument n, a number
 *   @n      argument n, a value in base64                            %n   argument n, a text
 *
 * The gateway requires keys and values in base64. Arguments come from machines alone, which pass only digits
 * where numbers belong.
 */
#include "wire/etcd_inside.h"

#include <string.h>

#include "ground/guard.h"

/* `part` of a template; where the guard is removed, `instead`. */
#ifdef TL_GUARDS
#define WHERE(guard, part, instead) "<" #guard ">" part "|" instead ">"
#else
#define WHERE(guard, part, instead) part
#endif

#define K TL_ETCD_K
#define SUFFIX TL_ETCD_SUFFIX

#define MINE "'key':'$m'"
#define RANGE "'key':'$p','range_end':'$e'"
#define FIRST                                                                                      \
    "{'request_range':{" RANGE ",'sort_target':'CREATE','sort_order':'ASCEND','limit':'1'}}"
#define LAST                                                                                       \
    "{'request_range':{" RANGE ",'sort_target':'CREATE','sort_order':'DESCEND','limit':'1'}}"
#define BY_THEN                                                                                    \
    RANGE ",'max_create_revision':'#3','sort_target':'CREATE','sort_order':'DESCEND','limit':'2'"
#define SEE_MINE "{'request_range':{" MINE "}}"
#define PUT "{'request_put':{" MINE ",'value':'@4','lease':'#3'}}"
#define ABSENT(keys) "{" keys ",'target':'CREATE','result':'EQUAL','create_revision':'0'}"
#define ALL_ABSENT WHERE(GUARD(try_sees_others), ABSENT(RANGE), ABSENT(MINE))
#define MINE_ABSENT WHERE(GUARD(joins_once), ABSENT(MINE), "")
#define UNDER_LESS                                                                                 \
    WHERE(GUARD(lease_only_grows), ",{" MINE ",'target':'LEASE','result':'LESS','lease':'#4'}", "")
#define CREATED_THEN "{" MINE ",'target':'CREATE','result':'EQUAL','create_revision':'#3'}"
#define THERE "{" MINE ",'target':'CREATE','result':'GREATER','create_revision':'0'}"
#define NOT_RESTING                                                                                \
    "{" MINE ",'target':'LEASE','result':'NOT_EQUAL','lease':'" WHERE(                             \
        GUARD(late_release_leaves_rest), "#4", "-1") "'}"

static const tl_etcd_row rows[] = {
    {"GRANT", TL_ETCD_GRANT, "lease/grant", "{'ID':'#1','TTL':'#2'}"},
    {"REVOKE", TL_ETCD_REVOKE, "lease/revoke", "{'ID':'#1'}"},
    {"TTL", TL_ETCD_TTL, "lease/timetolive", "{'ID':'#1'}"},
    {"TRY", TL_ETCD_TXN, "kv/txn",
     "{'compare':[" ALL_ABSENT "],'success':[" PUT "],'failure':[" SEE_MINE "," FIRST "]}"},
    {"JOIN", TL_ETCD_TXN, "kv/txn",
     "{'compare':[" MINE_ABSENT "],'success':[" LAST "," PUT "],'failure':[" SEE_MINE "]}"},
    {"LOOK", TL_ETCD_RANGE, "kv/range", "{" BY_THEN "}"},
    {"KEEP", TL_ETCD_TXN, "kv/txn",
     "{'compare':[" CREATED_THEN UNDER_LESS "],'success':[{'request_range':{" BY_THEN "}},"
     "{'request_put':{" MINE ",'ignore_value':true,'lease':'#4'}}],'failure':[" SEE_MINE "," FIRST
     "]}"},
    {"KEEPS", TL_ETCD_TXN, "kv/txn", NULL},
    {"FREE", TL_ETCD_TXN, "kv/txn",
     "{'compare':[" WHERE(GUARD(mutex_key_is_compared), CREATED_THEN,
                          THERE) "," NOT_RESTING "],'success':[{'request_delete_range':{" MINE
                                 "}}]}"},
    {"REST", TL_ETCD_TXN, "kv/txn",
     "{'compare':[" WHERE(GUARD(etcd_rest_compares), CREATED_THEN,
                          THERE) "],'success':[{'request_put':{" MINE
                                 ",'value':'@5','lease':'#4'}}],'failure':[" SEE_MINE "," FIRST
                                 "]}"},
    {"DROP", TL_ETCD_TXN, "kv/txn",
     "{'compare':[" CREATED_THEN "],'success':[{'request_delete_range':{" MINE "}}],"
     "'failure':[" SEE_MINE "," FIRST "]}"},
    {"UNDO", TL_ETCD_TXN, "kv/txn", "{'success':[{'request_delete_range':{" MINE "}}]}"},
    {"SEE", TL_ETCD_TXN, "kv/txn",
     "{'success':[{'request_range':{" RANGE
     ",'sort_target':'CREATE','sort_order':'ASCEND','limit':'#2'}},{'request_range':{" RANGE
     ",'sort_target':'CREATE','sort_order':'ASCEND','limit':'#3','keys_only':true}}]}"},
    {"SCAN", TL_ETCD_RANGE, "kv/range",
     "{'key':'$a','range_end':'$z','min_create_revision':'#1','sort_target':'CREATE',"
     "'sort_order':'ASCEND','limit':'#2','keys_only':true}"},
    {"AUTH", TL_ETCD_AUTH, "auth/authenticate", "{'name':'%1','password':'%2'}"},
    {"STATUS", TL_ETCD_STATUS, "maintenance/status", "{}"},
    {"ALARMS", TL_ETCD_ALARMS, "maintenance/alarm", "{'action':'GET'}"},
    {"MEMBERS", TL_ETCD_MEMBERS, "cluster/member/list", "{}"},
};

const tl_etcd_row *tl__etcd_row(const tl_command *command) {
    for (size_t i = 0; command->argc > 0 && i < sizeof rows / sizeof *rows; i++)
        if (tl__bytes_eq(command->argv[0], tl__bytes_of(rows[i].word)))
            return &rows[i];
    return NULL;
}

tl_etcd_kind tl__etcd_kind(const tl_command *command) {
    const tl_etcd_row *row = tl__etcd_row(command);
    return row ? row->kind : TL_ETCD_NONE;
}

/* ---- writing ----------------------------------------------------------------------------------- */

typedef tl_etcd_writer writer;

void tl__etcd_put(writer *to, tl_bytes b) {
    if (b.n > 0 && b.n <= to->size && to->used <= to->size - b.n)
        memcpy(to->to + to->used, b.p, b.n);
    to->used += b.n;
}

static void put(writer *to, tl_bytes b) {
    tl__etcd_put(to, b);
}

static void put_char(writer *to, char c) {
    put(to, tl__bytes(&c, 1));
}

static void put_int(writer *to, int64_t v) {
    char text[TL_INT_SIZE];
    put(to, tl__bytes_from_int(text, v));
}

static void put_64(writer *to, tl_bytes b) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (to->plain) {
        put(to, b);
        return;
    }
    for (size_t i = 0; i < b.n; i++) {
        to->bits = to->bits << 8 | (unsigned char)b.p[i];
        if (++to->held < 3)
            continue;
        for (int shift = 18; shift >= 0; shift -= 6)
            put_char(to, digits[to->bits >> shift & 63]);
        to->bits = to->held = 0;
    }
}

static void end_64(writer *to) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (to->held > 0) {
        uint32_t bits = to->bits << (to->held == 1 ? 16 : 8);
        put_char(to, digits[bits >> 18 & 63]);
        put_char(to, digits[bits >> 12 & 63]);
        put_char(to, to->held == 2 ? digits[bits >> 6 & 63] : '=');
        put_char(to, '=');
    }
    to->bits = to->held = 0;
}

/* The range of the keys that begin with the prefix; without a prefix, of all keys. */
static void put_whole(writer *to, tl_bytes prefix, bool end) {
    if (prefix.n == 0) {
        put_64(to, tl__bytes("", 1));
        return;
    }
    char last = (char)(prefix.p[prefix.n - 1] + (end ? 1 : 0));
    put_64(to, tl__bytes(prefix.p, prefix.n - 1));
    put_64(to, tl__bytes(&last, 1));
}

static void put_key(writer *to, char which, const tl_command *command, tl_bytes prefix) {
    if (which == 'a' || which == 'z') {
        put_whole(to, prefix, which == 'z');
    } else {
        put_64(to, prefix);
        put_64(to, command->argv[K]);
        put_64(to, which == 'e' ? TL_LITERAL("0") : TL_LITERAL("/"));
        if (which == 'm')
            put_64(to, command->argv[SUFFIX]);
    }
    end_64(to);
}

/* Write a JSON string. The server rejects what is not UTF-8. */
static void put_text(writer *to, tl_bytes b) {
    static const char hex[] = "0123456789abcdef";
    if (to->plain) {
        put(to, b);
        return;
    }
    for (size_t i = 0; i < b.n; i++) {
        unsigned char c = (unsigned char)b.p[i];
        if (c < ' ') {
            put(to, TL_LITERAL("\\u00"));
            put_char(to, hex[c >> 4]);
            put_char(to, hex[c & 15]);
            continue;
        }
        if (c == '"' || c == '\\')
            put_char(to, '\\');
        put_char(to, (char)c);
    }
}

#ifdef TL_GUARDS
const char *tl__etcd_choose(const char *t) {
    char name[32] = "";
    if (*t == '|')
        return strchr(t, '>');
    memcpy(name, t + 7, strcspn(t + 7, ")"));
    return strchr(t, tl__guard(name) ? '>' : '|');
}
#endif

void tl__etcd_put_part(writer *to, const char *t, size_t length, const tl_command *command,
                       tl_bytes prefix) {
    for (const char *end = t + length; t < end; t++) {
        size_t n = t[0] ? (size_t)(t[1] - '0') : 0;
        switch (*t) {
        case '\'': put_char(to, '"'); break;
        case '$': put_key(to, *++t, command, prefix); break;
        case '#': put(to, command->argv[n]), t++; break;
        case '%': put_text(to, command->argv[n]), t++; break;
#ifdef TL_GUARDS
        case '<':
        case '|': t = tl__etcd_choose(t); break;
        case '>': break;
#endif
        case '@':
            put_64(to, command->argv[n]);
            end_64(to);
            t++;
            break;
        default: put_char(to, *t);
        }
    }
}

static void put_body(writer *to, const char *body, const tl_command *command, tl_bytes prefix) {
    tl__etcd_put_part(to, body, strlen(body), command, prefix);
}

/* The next of the encoded arguments: "$N", then N bytes, each followed by a line end. */
static tl_bytes next_argument(tl_bytes *from) {
    const char *line = from->n > 1 ? memchr(from->p, '\r', from->n) : NULL;
    int64_t n = 0;
    if (!line || !tl__bytes_to_int(tl__bytes(from->p + 1, (size_t)(line - from->p) - 1), &n))
        return *from = (tl_bytes){0};
    tl_bytes argument = tl__bytes(line + 2, (size_t)n);
    size_t used = (size_t)(argument.p + argument.n + 2 - from->p);
    *from = tl__bytes(from->p + used, from->n - used);
    return argument;
}

/* Each list of a KEEPS, with the same part for each lock. `instead`: where its last change is unknown. */
static const struct {
    const char *name, *part, *instead;
} keeps_lists[] = {{"compare", "{" MINE ",'target':'MOD','result':'EQUAL','mod_revision':'#4'}",
                    CREATED_THEN ",{" MINE ",'target':'LEASE','result':'LESS','lease':'#5'}"},
                   {"success", "{'request_put':{" MINE ",'ignore_value':true,'lease':'#5'}}", NULL},
                   {"failure", SEE_MINE, NULL}};

void tl__etcd_each(const tl_command *keeps, tl_etcd_each *each, void *ctx) {
    for (size_t list = GUARD(each_is_compared) ? 0 : 1; list < 3; list++) {
        tl_bytes more = keeps->more;
        for (unsigned i = 0; i < keeps->more_argc / TL_ETCD_KEEPS_EACH; i++) {
            tl_command one = {.argc = 2 + TL_ETCD_KEEPS_EACH};
            for (unsigned k = 0; k < TL_ETCD_KEEPS_EACH; k++)
                one.argv[K + k] = next_argument(&more);
            one.argv[K + TL_ETCD_KEEPS_EACH] = keeps->argv[1];
            bool known = !GUARD(compares_known_change) ||
                         !tl__bytes_eq(one.argv[K + 3], TL_LITERAL("0"));
            each(ctx, keeps_lists[list].name,
                 known || !keeps_lists[list].instead ? keeps_lists[list].part
                                                     : keeps_lists[list].instead,
                 &one, i == 0);
        }
    }
}

typedef struct {
    writer *to;
    tl_bytes prefix;
    bool opened;
} keeps_writer;

static void put_one(void *ctx, const char *list, const char *part, const tl_command *one,
                    bool first) {
    keeps_writer *keeps = ctx;
    if (first) {
        put(keeps->to, keeps->opened ? TL_LITERAL("],\"") : TL_LITERAL("{\""));
        put(keeps->to, tl__bytes_of(list));
        put(keeps->to, TL_LITERAL("\":["));
        keeps->opened = true;
    } else {
        put_char(keeps->to, ',');
    }
    put_body(keeps->to, part, one, keeps->prefix);
}

static void put_keeps(writer *to, const tl_command *command, tl_bytes prefix) {
    keeps_writer keeps = {to, prefix, false};
    tl__etcd_each(command, put_one, &keeps);
    put(to, TL_LITERAL("]}"));
}

static void put_row(writer *to, const tl_etcd_row *row, const tl_command *command,
                    tl_bytes prefix) {
    if (row->body)
        put_body(to, row->body, command, prefix);
    else
        put_keeps(to, command, prefix);
}

static void put_head(writer *to, const char *path, const tl_etcd_via *via, size_t length) {
    put(to, TL_LITERAL("POST /v3/"));
    put(to, tl__bytes_of(path));
    put(to, TL_LITERAL(" HTTP/1.1\r\nHost: "));
    put(to, via->host);
    put(to, TL_LITERAL("\r\nContent-Type: application/json\r\n"));
    if (via->token.n > 0) {
        put(to, TL_LITERAL("Authorization: "));
        put(to, via->token);
        put(to, TL_LITERAL("\r\n"));
    }
    if (via->timeout_ms > 0) {
        put(to, TL_LITERAL("Grpc-Timeout: "));
        put_int(to, via->timeout_ms);
        put(to, TL_LITERAL("m\r\n"));
    }
    put(to, TL_LITERAL("Content-Length: "));
    put_int(to, (int64_t)length);
    put(to, TL_LITERAL("\r\n\r\n"));
}

size_t tl__etcd_encode(const tl_command *command, const tl_etcd_via *via, char *to, size_t size) {
    const tl_etcd_row *row = tl__etcd_row(command);
    writer w = {.to = to, .size = size}, count = {0};
    if (!row)
        return 0;
    put_row(&count, row, command, via->prefix);
    put_head(&w, row->path, via, count.used);
    put_row(&w, row, command, via->prefix);
    return w.used;
}

/* ---- watching ---------------------------------------------------------------------------------- */

static void put_watch(writer *to, const tl_etcd_watched *watched, size_t count, tl_bytes prefix) {
    for (size_t i = 0; i < count; i++) {
        put(to, TL_LITERAL("{\"create_request\":{\"key\":\""));
        put_64(to, prefix);
        put_64(to, watched[i].key);
        end_64(to);
        put(to, TL_LITERAL("\",\"start_revision\":\""));
        put_int(to, watched[i].revision);
        put(to, TL_LITERAL("\",\"filters\":[\"NOPUT\"],\"watch_id\":\""));
        put_int(to, (int64_t)i + 1);
        put(to, TL_LITERAL("\"}}\n"));
    }
}

size_t tl__etcd_encode_watch(const tl_etcd_watched *watched, size_t count, const tl_etcd_via *via,
                             char *to, size_t size) {
    writer w = {.to = to, .size = size}, counting = {0};
    const tl_etcd_via without_end = {.host = via->host, .token = via->token};
    put_watch(&counting, watched, count, via->prefix);
    put_head(&w, "watch", &without_end, counting.used);
    /* Insert two headers before the empty line. With hasleader a member without a leader ends the stream.
     * With "Connection: close" no further request follows on this connection. Otherwise the server would
     * discard the unread rest of the request, to be ready for the next one, as soon as the first watch is
     * created: of many watches the last would be missing. */
    static const char more[] = "Grpc-Metadata-hasleader: true\r\nConnection: close\r\n\r\n";
    w.used -= 2;
    put(&w, tl__bytes_of(more));
    put_watch(&w, watched, count, via->prefix);
    return w.used;
}

/* ---- errors ------------------------------------------------------------------------------------ */

int tl__etcd_error(tl_bytes error, tl_bytes *ret_message) {
    static const char begin[] = TL_ETCD_ERROR;
    int64_t code;
    *ret_message = error;
    if (!tl__bytes_starts(error, begin))
        return -1;
    tl_bytes rest = tl__bytes(error.p + sizeof begin - 1, error.n - (sizeof begin - 1));
    if (!tl__bytes_to_int(tl__bytes_take(&rest, ' '), &code) || code < -1 || code > 16)
        return -1;
    *ret_message = rest;
    return (int)code;
}

/* Not 4 (deadline exceeded) and 14 (unavailable): etcd has sent these for transactions that it executed
 * later. */
bool tl__etcd_is_definite(int code) {
    static const unsigned definite = 1U << 3 | 1U << 5 | 1U << 7 | 1U << 8 | 1U << 9 | 1U << 11 |
                                     1U << 16;
    return code >= 0 && code <= 16 && (definite >> code & 1 || !GUARD(definite_error));
}

bool tl__etcd_is_of_request(tl_bytes error) {
    tl_bytes message;
    int code = tl__etcd_error(error, &message);
    return code == 3 || code == 7;
}

bool tl__etcd_is_login_outdated(tl_bytes message) {
    return tl__bytes_has(message, "revision of auth store is old") ||
           tl__bytes_has(message, "revision in header is old"); /* etcd's internal text for it */
}

/* There are two cases. Users have changed since a token that carries its own date (JWT) was issued. Or etcd
 * required no login when this connection was made, and does now. etcd reports both before it executes
 * anything, with the code of a malformed request or with none. */
bool tl__etcd_is_login_over(tl_bytes message, bool logs_in) {
    return (GUARD(login_is_made_anew) && tl__etcd_is_login_outdated(message)) ||
           (logs_in && tl__bytes_has(message, "user name is empty"));
}

bool tl__etcd_lacks_user(tl_bytes error) {
    return tl__bytes_has(error, "user name is empty") ||
           tl__bytes_has(error, TL_ETCD_NO_COMMON_NAME);
}

/* A token that this member doesn't know (code 16 with etcd's own message) may be known to another one. */
bool tl__etcd_wants_login(tl_bytes error) {
    tl_bytes message;
    return tl__etcd_error(error, &message) == TL_ETCD_UNAUTHENTICATED &&
           !tl__bytes_has(message, "invalid auth token");
}

bool tl__etcd_asks_elsewhere(tl_bytes error) {
    tl_bytes message;
    int code = tl__etcd_error(error, &message);
    return !tl__etcd_is_definite(code) || (GUARD(unknown_token_elsewhere) && code == 16) ||
           (GUARD(learner_is_left) && tl__bytes_has(message, "not supported for learner"));
}
