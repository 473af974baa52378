/*
 * The choice of etcd's member, and the request for a token. No I/O.
 */
#include "transport/members.h"

#include <limits.h>
#include <stdlib.h>

#include "transport/grpc.h"

#define TOKEN_MAX 8192

_Static_assert(TL_SEEDS_MAX <= sizeof(unsigned) * CHAR_BIT, "a bit for each member");

tl_members *tl__members_new(const tl_endpoint *like, const tl_seeds *seeds) {
    tl_members *m = calloc(1, sizeof *m + seeds->count * sizeof *m->endpoint);
    if (!m)
        return NULL;
    m->count = seeds->count;
    atomic_init(&m->http1, tl__grpc_works() ? 0 : UINT_MAX);
    memcpy(m->prefix_text, seeds->prefix, sizeof m->prefix_text);
    m->prefix = tl__bytes_of(m->prefix_text);
    for (unsigned i = 0; i < m->count; i++)
        tl__endpoint_at_seed(&m->endpoint[i], like, seeds, i);
    return m;
}

void tl__members_free(tl_members *members) {
    if (!members)
        return;
    for (unsigned i = 0; i < members->count; i++)
        tl__endpoint_wipe(&members->endpoint[i]);
    free(members);
}

void tl__members_pass(tl_members *members, unsigned failed) {
    (void)atomic_compare_exchange_strong(&members->at, &failed, (failed + 1) % members->count);
}

bool tl__members_is_http1(const tl_members *members, unsigned which) {
    return atomic_load(&members->http1) >> which & 1;
}

void tl__members_set_http1(tl_members *members, unsigned which, bool http1) {
    if (http1)
        (void)atomic_fetch_or(&members->http1, 1U << which);
    else if (tl__members_is_http1(members, which))
        (void)atomic_fetch_and(&members->http1, ~(1U << which));
}

size_t tl__members_ask_token(const tl_endpoint *endpoint, const tl_etcd_via *via,
                             tl_etcd_encoder *encode, char *to, size_t size) {
    tl_password password = tl__password_ask(endpoint);
    const tl_command ask = {
        .form = TL_ARGV,
        .argc = 3,
        .argv = {TL_LITERAL("AUTH"), tl__bytes_of(endpoint->user), tl__bytes_of(password.text)}};
    size_t n = encode(&ask, via, to, size);
    tl__password_forget(&password);
    return n;
}

bool tl__members_keep_token(tl_bytes *token, tl_bytes answer) {
    bool clean = answer.n > 0 && answer.n <= TOKEN_MAX && tl__bytes_is_visible(answer);
    char *copy = clean ? malloc(answer.n) : NULL;
    if (!copy)
        return false;
    memcpy(copy, answer.p, answer.n);
    *token = tl__bytes(copy, answer.n);
    return true;
}

void tl__members_forget_token(tl_bytes *token) {
    char *copy = (char *)(uintptr_t)token->p; /* our own copy */
    if (copy)
        explicit_bzero(copy, token->n);
    free(copy);
    *token = (tl_bytes){0};
}
