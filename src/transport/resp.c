/*
 * The only user of hiredis, whose reader parses. The reply functions here build the tree in an arena of
 * chunks that are used again. It must never trust a length that the server claims.
 */
#include "transport/resp.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

#define CHUNK_FIRST 4096
#define KEEP_MAX (64u << 10) /* chunks beyond this are freed when the replies are released */
#define READER_KEEP (64u << 10)
#define ALIGN 16

_Static_assert(
    HIREDIS_MAJOR > 0 || HIREDIS_MINOR >= 14,
    "tidelock needs hiredis 0.14 or later: the reader of 0.13 crashes with these functions");

#if HIREDIS_MAJOR >= 1
typedef size_t array_count;
#else
typedef int array_count;
#endif

typedef struct chunk {
    struct chunk *next;
    size_t size, used;
    _Alignas(ALIGN) char bytes[];
} chunk;

static const char no_memory[] = "out of memory for a reply";

struct tl_resp {
    redisReader *reader;
    chunk *first, *current;
    size_t held; /* used in the arena since the last release */
    tl_reply root;
    const char *problem; /* why a reply function rejected a reply */
    char message[160];
};

/* ---- arena ------------------------------------------------------------------------------------- */

static chunk *chunk_new(size_t size) {
    chunk *c = malloc(sizeof *c + size);
    if (c)
        *c = (chunk){.size = size};
    return c;
}

static void chunks_free(chunk *c) {
    while (c) {
        chunk *next = c->next;
        free(c);
        c = next;
    }
}

/* The next chunk with enough room: an existing one, or a new one after the current. */
static chunk *chunk_with(tl_resp *resp, size_t n) {
    chunk *c = resp->current;
    while (c->next && c->size - c->used < n)
        c = c->next;
    if (c->size - c->used < n) {
        size_t size = c->size * 2 < KEEP_MAX ? c->size * 2 : KEEP_MAX;
        c->next = chunk_new(size > n ? size : n);
        c = c->next;
    }
    return c;
}

/* Take n bytes that last until the release; NULL and a problem if that is too much. */
static void *take(tl_resp *resp, size_t n) {
    if (n > TL_RESP_BYTES_MAX - ALIGN || resp->held + n > TL_RESP_BYTES_MAX) {
        resp->problem = "a reply of more than 64 MiB";
        return NULL;
    }
    n = (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    chunk *c = chunk_with(resp, n);
    if (!c) {
        resp->problem = no_memory;
        return NULL;
    }
    resp->current = c;
    c->used += n;
    resp->held += n;
    return c->bytes + c->used - n;
}

void tl__resp_release(tl_resp *resp) {
    size_t kept = 0;
    for (chunk *c = resp->first; c; c = c->next) {
        c->used = 0;
        kept += c->size;
        if (c->next && kept + c->next->size > KEEP_MAX) {
            chunks_free(c->next);
            c->next = NULL;
        }
    }
    resp->current = resp->first;
    resp->held = 0;
}

/* ---- what the reader calls --------------------------------------------------------------------- */

static tl_reply *refuse(tl_resp *resp, const char *problem) {
    resp->problem = problem;
    return NULL;
}

/* The place of this item: in its parent's array, or at the root. */
static tl_reply *place(const redisReadTask *task) {
    tl_resp *resp = task->privdata;
    if (!task->parent)
        return &resp->root;
    tl_reply *parent = task->parent->obj;
    return (tl_reply *)parent->items + task->idx;
}

static tl_reply *put(const redisReadTask *task, tl_reply reply) {
    tl_reply *to = place(task);
    *to = reply;
    return to;
}

static void *create_string(const redisReadTask *task, char *bytes, size_t n) {
    tl_resp *resp = task->privdata;
    tl_reply_type type = task->type == REDIS_REPLY_STRING   ? TL_REPLY_STRING
                         : task->type == REDIS_REPLY_STATUS ? TL_REPLY_STATUS
                                                            : TL_REPLY_ERROR;
    if (type == TL_REPLY_ERROR && task->type != REDIS_REPLY_ERROR)
        return refuse(resp, "an unexpected type of reply");
    if (type != TL_REPLY_STRING && n >= TL_RESP_LINE_MAX)
        return refuse(resp, "a line of more than 64 KiB");
    char *copy = take(resp, n);
    if (!copy)
        return NULL;
    if (n)
        memcpy(copy, bytes, n);
    return put(task, (tl_reply){.type = type, .text = {copy, n}});
}

static void *create_array(const redisReadTask *task, array_count claimed) {
    tl_resp *resp = task->privdata;
    size_t count = (size_t)claimed, depth = 1;
    for (const redisReadTask *t = task->parent; t; t = t->parent)
        depth++;
    if (task->type != REDIS_REPLY_ARRAY)
        return refuse(resp, "an unexpected type of reply");
    if (depth > TL_RESP_DEPTH_MAX)
        return refuse(resp, "a reply nested deeper than 7");
    if (count > TL_RESP_BYTES_MAX / sizeof(tl_reply))
        return refuse(resp, "a reply of more than 64 MiB");
    tl_reply *items = count ? take(resp, count * sizeof *items) : NULL;
    if (count && !items)
        return NULL;
    return put(task, (tl_reply){.type = TL_REPLY_ARRAY, .items = items, .count = count});
}

static void *create_integer(const redisReadTask *task, long long value) {
    return put(task, (tl_reply){.type = TL_REPLY_INT, .integer = value});
}

static void *create_nil(const redisReadTask *task) {
    return put(task, (tl_reply){.type = TL_REPLY_NIL});
}

#if HIREDIS_MAJOR >= 1
static void *create_double(const redisReadTask *task, double value, char *text, size_t n) {
    (void)value, (void)text, (void)n;
    return refuse(task->privdata, "an unexpected type of reply");
}

static void *create_bool(const redisReadTask *task, int value) {
    (void)value;
    return refuse(task->privdata, "an unexpected type of reply");
}
#endif

static void free_nothing(void *reply) {
    (void)reply; /* it is in the arena */
}

static redisReplyObjectFunctions functions = {
    .createString = create_string,
    .createArray = create_array,
    .createInteger = create_integer,
    .createNil = create_nil,
#if HIREDIS_MAJOR >= 1
    .createDouble = create_double,
    .createBool = create_bool,
#endif
    .freeObject = free_nothing,
};

/* ---- use --------------------------------------------------------------------------------------- */

bool tl__resp_reset(tl_resp *resp) {
    if (resp->reader)
        redisReaderFree(resp->reader);
    resp->reader = redisReaderCreateWithFunctions(&functions);
    if (resp->reader) {
        resp->reader->privdata = resp;
        resp->reader->maxbuf = READER_KEEP;
    }
    resp->problem = NULL;
    resp->message[0] = '\0';
    tl__resp_release(resp);
    return resp->reader;
}

tl_resp *tl__resp_new(void) {
    tl_resp *resp = calloc(1, sizeof *resp);
    if (!resp)
        return NULL;
    resp->first = chunk_new(CHUNK_FIRST);
    if (resp->first && tl__resp_reset(resp))
        return resp;
    tl__resp_free(resp);
    return NULL;
}

void tl__resp_free(tl_resp *resp) {
    if (!resp)
        return;
    if (resp->reader)
        redisReaderFree(resp->reader);
    chunks_free(resp->first);
    free(resp);
}

void tl__resp_feed(tl_resp *resp, const char *bytes, size_t n) {
    if (resp->reader)
        (void)redisReaderFeed(resp->reader, bytes,
                              n); /* its errors are reported with the next reply */
}

bool tl__resp_is_out_of_memory(const tl_resp *resp) {
    if (resp->problem) /* when a reply function fails, hiredis assumes a lack of memory */
        return resp->problem == no_memory;
    return !resp->reader || resp->reader->err == REDIS_ERR_OOM;
}

static int fail(tl_resp *resp) {
    const char *problem = tl__resp_is_out_of_memory(resp) ? no_memory
                          : resp->problem                 ? resp->problem
                                                          : resp->reader->errstr;
    tl__bytes_print(resp->message, sizeof resp->message, tl__bytes_of(problem));
    return -1;
}

/* Can the bytes that have arrived so far still become a reply? */
static bool bearable(tl_resp *resp) {
    const redisReader *reader = resp->reader;
    size_t waiting = reader->len - reader->pos;
    if (waiting + resp->held > TL_RESP_BYTES_MAX)
        return refuse(resp, "a reply of more than 64 MiB");
    if (waiting > TL_RESP_LINE_MAX && !memchr(reader->buf + reader->pos, '\n', TL_RESP_LINE_MAX))
        return refuse(resp, "a line of more than 64 KiB");
    return true;
}

int tl__resp_next(tl_resp *resp, tl_reply *ret) {
    void *reply = NULL;
    if (resp->problem || !resp->reader || redisReaderGetReply(resp->reader, &reply) != REDIS_OK)
        return fail(resp);
    if (!reply)
        return bearable(resp) ? 0 : fail(resp);
    *ret = resp->root;
    return 1;
}

const char *tl__resp_message(const tl_resp *resp) {
    return resp->message;
}
