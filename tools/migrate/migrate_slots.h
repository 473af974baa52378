/*
 * The registers of a namespace in a Redis Cluster: one in each slot, "PHASE EPOCH", which the script that
 * acquires a lock there compares. Pure.
 */
#pragma once

#include "legacy/migrate_record.h"
#include "wire/slots.h"

#define MIGRATE_SLOT_KEY_SIZE (MIGRATE_NAME_MAX + 32)
#define MIGRATE_SLOT_TEXT_SIZE 32

/** Instead of the phase of a slot's register: */
enum {
    SLOT_ABSENT = -1, /**< there is none: clients write stamps */
    SLOT_ODD = -2,    /**< it can't be understood: clients acquire nothing */
    SLOT_UNREAD = -3  /**< nobody has said */
};

typedef struct {
    int64_t epoch;
    int phase;
} migrate_slot;

/** Write the key of a slot's register. Returns buf. */
const char *migrate_slot_key(char buf[MIGRATE_SLOT_KEY_SIZE], const char *name, unsigned slot);

/** Read the reply to GET. */
migrate_slot migrate_slot_read(const tl_reply *reply);

/** The register's text; "" for none. Returns buf. */
const char *migrate_slot_text(char buf[MIGRATE_SLOT_TEXT_SIZE], migrate_slot slot);

bool migrate_slot_same(migrate_slot one, migrate_slot other);

/** Must a step up write this slot, or a step down? */
bool migrate_slot_goes_up(migrate_slot is, migrate_slot want);
bool migrate_slot_goes_down(migrate_slot is, migrate_slot want);

/** How many slots say what. */
typedef struct {
    int in[PHASES];
    int absent, odd, unread;
    int example; /**< one of the odd or unread slots */
    int64_t top; /**< the highest epoch */
} migrate_tally;

migrate_tally migrate_tally_of(const migrate_slot *slots);

/** The highest phase that a slot says; SLOT_ABSENT: none says one. */
int migrate_tally_most(const migrate_tally *tally);

/** How many slots act in this phase. A slot without a register acts in phases 0 and 1 alike. */
int migrate_tally_in(const migrate_tally *tally, int phase);

/** An epoch that no register ever had. 0: a register has one that can't be exceeded. */
int64_t migrate_slot_epoch(int64_t wall_us, const migrate_tally *tally);

/** "16,100 of 16,384 slots in phase 2 (drain), 284 in phase 1 (bridge)". Returns buf. */
#define MIGRATE_TALLY_SIZE 200
const char *migrate_tally_list(char buf[MIGRATE_TALLY_SIZE], const migrate_tally *tally);
