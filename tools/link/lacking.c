/*
 * The message about a command that a server lacks, since it is too old or has the command renamed. All
 * commands of the tool use it. It names the version that the server reports.
 */
#include <stdio.h>
#include <string.h>

#include "base/infotext.h"
#include "link/link_open.h"

/* The library knows no version, so a connection of the tool's own asks. No message if that fails. */
static bool ask_product(const server *where, char product[INFO_PRODUCT_SIZE]) {
    server_link link;

    if (link_open_quietly(&link, where))
        return false;
    bool ok = link_product(&link, product);
    link_close(&link);
    return ok;
}

int fail_as(const server *where, const tl_error *err) {
    char product[INFO_PRODUCT_SIZE];

    if (err->code == TL_EUNSUPPORTED && ask_product(where, product))
        return fail(status_of(err->code), "%s; this one is %s", err->message, product);
    return fail(status_of(err->code), "%s", err->message);
}
