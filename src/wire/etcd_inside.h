/*
 * The inside of the requests to etcd, for the two files that write them: as JSON (etcd.c) and as protobuf
 * (etcd_proto.c). Both read the same templates, so neither can ask for anything else than the other.
 */
#pragma once

#include "wire/etcd.h"

#define TL_ETCD_K 1 /**< the index of each argument */
#define TL_ETCD_SUFFIX 2

/** A request: its template is described in etcd.c. NULL: of KEEPS, see tl__etcd_each. */
typedef struct {
    const char *word;
    tl_etcd_kind kind;
    const char *path, *body;
} tl_etcd_row;

/** NULL: no known command. */
const tl_etcd_row *tl__etcd_row(const tl_command *command);

/** Writes only what fits, and counts all of it. */
typedef struct {
    char *to;
    size_t size, used;
    bool plain;    /**< keys, values and texts are written as they are */
    uint32_t bits; /**< of base64: `held` bytes, not written yet */
    unsigned held;
} tl_etcd_writer;

void tl__etcd_put(tl_etcd_writer *to, tl_bytes bytes);

/** Write a part of a template, of this length, with its variables. */
void tl__etcd_put_part(tl_etcd_writer *to, const char *part, size_t length,
                       const tl_command *command, tl_bytes prefix);

/** For each list of a KEEPS, and in it for each lock: the part to write, with that lock's command. */
typedef void tl_etcd_each(void *ctx, const char *list, const char *part, const tl_command *one,
                          bool first);
void tl__etcd_each(const tl_command *keeps, tl_etcd_each *each, void *ctx);

#ifdef TL_GUARDS
/** In "<GUARD(...)>part|instead>", with t at the '<' or the '|': returns the last character to skip. */
const char *tl__etcd_choose(const char *t);
#endif
