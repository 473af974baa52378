/*
 * What a server that is too old, or has a command renamed, can't do: said once for all commands,
 * with the version that it says it is of.
 */
#include <stdio.h>
#include <string.h>

#include "base/infotext.h"
#include "link/skew_link.h"

static bool take_product(void *ctx, const tl_reply *reply) {
    tl_bytes info;
    return tl__reply_text(reply, &info) && info_product(info, ctx);
}

bool skew_link_product(skew_link *l, char product[INFO_PRODUCT_SIZE]) {
    static const char *const words[] = {"INFO", NULL};
    return skew_link_ask(l, words, take_product, product);
}

/* The library knows no version: a connection of our own asks. Silent when it can't be had. */
static bool ask_product(const server *s, char product[INFO_PRODUCT_SIZE]) {
    skew_link l;

    if (skew_link_open(&l, s))
        return false;
    bool ok = skew_link_product(&l, product);
    skew_link_close(&l);
    return ok;
}

int fail_as(const server *s, const tl_error *err) {
    char product[INFO_PRODUCT_SIZE];

    if (err->code == TL_EUNSUPPORTED && ask_product(s, product))
        return fail(status_of(err->code), "%s; this one is %s", err->message, product);
    return fail(status_of(err->code), "%s", err->message);
}
