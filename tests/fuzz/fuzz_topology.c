/*
 * What a server says of those who belong to it, which decides where the login is sent next: places only
 * that the text itself holds, whole, printable and with a port; each once. The input is INFO when its first
 * byte is even, else CLUSTER NODES.
 */

/*
 * Given INFO or CLUSTER NODES of a server. It asserts: each place that is asked next, and sent the login, is in the text
 * itself, whole, printable, with a port, and once; no more than there is room for.
 */
#include "fuzz.h"

#include "skew/judge/skew_topology.h"

static void must_stand_in(const redis_places *p, const char *text, size_t n) {
    MUST(p->count >= 0 && p->count <= PLACES_MAX && (!p->more || p->count == PLACES_MAX));
    for (int i = 0; i < p->count; i++) {
        const redis_place *x = &p->place[i];
        char port[8];
        int digits = snprintf(port, sizeof port, "%u", (unsigned)x->port);
        MUST(is_line(x->host, sizeof x->host) && !strpbrk(x->host, " \"'\\|,{}"));
        if (!x->host[0])
            continue;
        MUST(x->port > 0 && memmem(text, n, x->host, strlen(x->host)) &&
             memmem(text, n, port, (size_t)digits));
        for (int k = 0; k < i; k++)
            MUST(p->place[k].port != x->port || strcmp(p->place[k].host, x->host) != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static redis_info r;
    static redis_places nodes;
    input in = {data, size};
    bool info = in_byte(&in) % 2 == 0;
    char *text = malloc(in.n ? in.n : 1); /* of its very size, so that reading beyond it is seen */

    MUST(text);
    memcpy(text, in.p, in.n);
    if (info) {
        bool ok = info_read(text, in.n, &r);
        MUST(!ok || memmem(text, in.n, "redis_version:", 14));
        MUST(r.time_us >= -1 && r.masters >= 0);
        MUST(is_line(r.run_id, sizeof r.run_id) && is_line(r.master, sizeof r.master));
        must_stand_in(&r.peers, text, in.n);
    } else {
        memset(&nodes, 0, sizeof nodes);
        nodes_read(text, in.n, &nodes);
        must_stand_in(&nodes, text, in.n);
    }
    free(text);
    return 0;
}
