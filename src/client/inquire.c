/*
 * One question, asked by a caller that blocks.
 */
#include "client/inquire.h"

#include "client/driver.h"
#include "ground/error.h"

tl_err tl__inquire(tl_client *client, tl_node *node, tl_bytes key, void *state, tl_step step,
                   const char *what, tl_error *err) {
    const tl_machine machine = {.state = state, .step = step, .does = what, .key = key};
    const tl_result *result = state;
    tl_out out;
    if (!tl__client_is_here(client))
        return tl__fail(err, TL_EINVALID, 0, "%s: the client belongs to the parent process", what);
    (void)tl__drive(client, node, &machine, false, &out);
    return result->code ? tl__fail(err, result->code, out.sys_errno, "%s: %s", what, out.words)
                        : TL_OK;
}
