/*
 * An etcd that isn't one: members with one history of keys, leases, transactions and watches, behind the JSON gateway, byte for
 * byte. It does no I/O and has no clock of its own: bytes are fed, answers are given to a callback, and whoever plays with it
 * says which members run, reach each other, lead, and when leases are looked at. So it does what a real one does when
 * its members are stopped, killed and cut off: one that led and wakes answers by what it knew; what was answered by an error may
 * be executed later. `conform/test_fake_etcd` holds the same conversation with a real one.
 */
#pragma once

#include "fake_resp.h"

#define FAKE_ETCD_MEMBERS 5

typedef struct fake_etcd fake_etcd;
typedef struct fake_etcd_conn fake_etcd_conn;

/** A key, as it is, or was when it changed. */
typedef struct {
    tl_bytes key, value;
    int64_t created, changed, lease;
    bool deleted;
} fake_etcd_key;

typedef struct {
    /** A member's clock, ns, by which it measures leases. */
    int64_t (*clock)(void *ctx, int member);
    /** Which of so many ways things go. */
    uint32_t (*choose)(void *ctx, uint32_t ways);
    void (*send)(void *ctx, void *conn, const char *bytes, size_t n);
    /** What was asked can't be answered yet: fake_etcd_give_up with this number is due in so many ms. */
    void (*waits)(void *ctx, void *conn, uint32_t number, int64_t ms);
    /** A key has changed, by a request of this connection; NULL: by itself, or by nobody who is there any more. May be NULL. */
    void (*changed)(void *ctx, void *conn, const fake_etcd_key *key);
    void *ctx;
} fake_etcd_calls;

/** All members run, reach each other, and the first leads. */
fake_etcd *fake_etcd_new(const fake_etcd_calls *calls);
void fake_etcd_free(fake_etcd *e);
/** As new; connections are gone. */
void fake_etcd_reset(fake_etcd *e, int members);
/** Everybody must log in. name NULL: nobody. */
void fake_etcd_set_user(fake_etcd *e, const char *name, const char *password);

/* ---- connections ----------------------------------------------------------------------------------- */

fake_etcd_conn *fake_etcd_connect(fake_etcd *e, int member, void *conn);
/** NULL is fine. What it has asked for may be executed all the same. */
void fake_etcd_close(fake_etcd_conn *c);
void fake_etcd_feed(fake_etcd_conn *c, const char *bytes, size_t n);
/** Time is up for what was asked: told as an error, which is no outcome. */
void fake_etcd_give_up(fake_etcd_conn *c, uint32_t number);

/* ---- members ------------------------------------------------------------------------------------------ */

/** Does it run, and reach the others? */
void fake_etcd_set_member(fake_etcd *e, int member, bool runs, bool reaches);
/** It has died: what was asked of it is lost, or was known to others already. */
void fake_etcd_kill(fake_etcd *e, int member);
/** Does a majority reach each other? */
bool fake_etcd_has_quorum(const fake_etcd *e);
int fake_etcd_leader(const fake_etcd *e);
/** May leases end, and requests be executed? */
bool fake_etcd_is_led(const fake_etcd *e);
/** This one, which must run and reach a majority, leads from now on. The former one learns of it by fake_etcd_learn. */
void fake_etcd_elect(fake_etcd *e, int member);
void fake_etcd_learn(fake_etcd *e, int member);
/** It calls itself the leader, and isn't. */
bool fake_etcd_is_stale(const fake_etcd *e, int member);
/** It has found out that there is no leader: who has asked for that is told. */
void fake_etcd_orphan(fake_etcd *e, int member);
/** It has heard of all changes so far: who watches is told. */
void fake_etcd_catch_up(fake_etcd *e, int member);
bool fake_etcd_is_behind(const fake_etcd *e, int member);

/* ---- what befalls it --------------------------------------------------------------------------------- */

/** Leases that have run out by the clock of whoever calls itself the leader end. Returns when, by the clock of the leader,
 *  the next is due; INT64_MAX: none. */
int64_t fake_etcd_expire(fake_etcd *e);
/** One of so many requests is told an error though it may be executed, by fake_etcd_late; 0: none. */
void fake_etcd_set_doubt(fake_etcd *e, uint32_t ways);
void fake_etcd_late(fake_etcd *e);
/** Its space is used up: nothing is put, no lease is granted, and all are told so; but the first who asks for it
 *  may be told so though it was done. */
void fake_etcd_set_full(fake_etcd *e, bool full);
/** How often that was the case. */
uint32_t fake_etcd_crossed(const fake_etcd *e);
void fake_etcd_compact(fake_etcd *e);
/** All tokens of logins have run out. */
void fake_etcd_forget_tokens(fake_etcd *e);
/** A stream of watches goes silent, for ever. */
void fake_etcd_wedge(fake_etcd *e);
/** Somebody deletes all that begins with this, by hand. */
void fake_etcd_delete(fake_etcd *e, tl_bytes prefix);

/* ---- looking -------------------------------------------------------------------------------------------- */

int64_t fake_etcd_revision(const fake_etcd *e);
bool fake_etcd_find(const fake_etcd *e, tl_bytes key, fake_etcd_key *ret);
/** Of those that begin with it, the one that was created first. */
bool fake_etcd_first(const fake_etcd *e, tl_bytes prefix, fake_etcd_key *ret);
/** When a lease ends by the clock of this member, which leads or has led; INT64_MAX: it doesn't know. 0: there is no such lease. */
int64_t fake_etcd_ends(const fake_etcd *e, int64_t lease, int member);
/** Lease i, its seconds; 0: there are no more. */
int64_t fake_etcd_lease(const fake_etcd *e, size_t i, int64_t *ret_seconds);
