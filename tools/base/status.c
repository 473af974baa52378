/*
 * One table: the exit status and the JSON state of each result of the library.
 */
#include "base/tool.h"

static const struct {
    int status;
    const char *state;
} meaning[] = {
    [TL_OK] = {STATUS_OK, "held"},
    [TL_EBUSY] = {STATUS_BUSY, "busy"},
    [TL_ETIMEDOUT] = {STATUS_BUSY, "busy"},
    [TL_ECANCELLED] = {STATUS_INTERNAL, "cancelled"}, /* a signal: the caller knows which */
    [TL_ELOST] = {STATUS_LOST, "lost"},
    [TL_EUNCERTAIN] = {STATUS_UNAVAILABLE, "uncertain"},
    [TL_EUNAVAILABLE] = {STATUS_UNAVAILABLE, "unavailable"},
    [TL_ECLOCK] = {STATUS_REFUSED, "refused"},
    [TL_EINVALID] = {STATUS_USAGE, "invalid"},
    [TL_ENOMEM] = {STATUS_INTERNAL, "error"},
    [TL_EDENIED] = {STATUS_REFUSED, "refused"},
    [TL_ESERVER] = {STATUS_INTERNAL, "error"},
    [TL_EEXPIRED] = {STATUS_LOST, "lost"},
    [TL_ETAKEN] = {STATUS_LOST, "lost"},
    [TL_EUNSUPPORTED] = {STATUS_REFUSED, "refused"},
};

#define MEANINGS (sizeof meaning / sizeof meaning[0])

int status_of(tl_err code) {
    return (size_t)code < MEANINGS ? meaning[code].status : STATUS_INTERNAL;
}

const char *state_of(tl_err code) {
    return (size_t)code < MEANINGS ? meaning[code].state : "error";
}
