/*
 * The hooks by which tools/legacy extends tidelock skew: an instrument that listens to legacy
 * clients, and the publication of the verdict to a namespace's clients.
 */
#pragma once

#include "skew/judge/skew_judge.h"
#include "skew/skew_self.h"

/** One round of listening. */
typedef struct skew_listen skew_listen;

/** `options` are the values of skew_legacy_part. */
typedef struct {
    /** Check the options, and set their rules for the locks. Returns 0, or the exit status after a
     *  message. */
    int (*check)(const void *options, skew_rule *rule);
    bool (*any)(const void *options); /**< is any of the options given? */
    /** Why the options are not supported where locks are on several servers; NULL: they are. */
    const char *(*not_in_cluster)(const void *options);
    bool (*listens)(const void *options); /**< are legacy clients to be measured? */
    skew_listen *(*begin)(const void *options, const skew_rule *rule); /**< NULL: no memory */
    /** Listen; the link is used to check the server meanwhile. False: link->status and
     *  link->message say why. */
    bool (*listen)(skew_listen *listening, server_link *l, const skew_effort *effort);
    /** Add the hosts that were observed, as skew_passive_hosts does. */
    int (*hosts)(const skew_listen *listening, int64_t now_us, int64_t stepped_us, skew_host *hosts,
                 int count, bool *ret_more);
    /** After all hosts were added: are the observations credible? */
    void (*judge)(const skew_listen *listening, skew_host *hosts, int count);
    /** Report the cost of listening, and what was not observed. The result then refers to
     *  `listening`. */
    void (*tell)(const skew_listen *listening, skew_result *r);
    void (*end)(skew_listen *listening); /**< NULL is allowed */
    bool (*publishes)(const void *options);
    int (*publish)(const void *options, server_link *l, const skew_result *r, int64_t watch_ms);
} skew_legacy_hooks;
extern const skew_legacy_hooks skew_legacy;
extern const opt_part skew_legacy_part;
