/*
 * A survey: what was read, what was found, and what follows. Shown as text and as JSON.
 */
#pragma once

#include <stdio.h>

#include "base/js.h"
#include "base/members.h"
#include "migrate/migrate.h"
#include "migrate/migrate_advise.h"
#include "migrate/migrate_heard.h"
#include "skew/judge/skew_judge.h"

#define SURVEY_UNREAD 16
#define SURVEY_CLOCKS 100
#define SURVEY_LINE 1600

/** A host whose clock its stamps show. */
typedef struct {
    char host[SKEW_NAME_SIZE], server[TL_HOST_SIZE + 16];
    bool known;
    tl_interval offset; /**< its clock - that server's, us */
    int64_t stamps;
    char detail[SKEW_DETAIL_SIZE];
} survey_clock;

typedef struct {
    const migrate_view *view;
    const char *name; /**< of the namespace */
    const char *keys; /**< the glob of the keys that were read */
    bool keys_given;
    bool by_cluster;
    bool register_unread; /**< it isn't known whether the namespace has a register */
    bool url_given;       /**< by --url: the next command needs it too */
    const char *dialect;  /**< given; NULL: guess */
    char server[TL_HOST_SIZE + 16];
    int masters;
    int64_t keys_read, keys_all; /**< in the first pass, about; -1 unknown */
    bool whole;                  /**< the first pass reached all keys */
    int64_t passes, took_ms, monitor_ms;
    int rate;
    int64_t calls; /**< SETNX and GETSET meanwhile, by any client on any key; -1 unknown */
    int unreads;
    char unread[SURVEY_UNREAD][240]; /**< what could not be read, and why */
    found found;
    heard heard;
    int64_t still;   /**< keys of the sample that held the same stamp throughout */
    int64_t outside; /**< keys of legacy clients that the register's pattern doesn't match */
    char outside_key[KEY_SHOWN];
    migrate_locks registered; /**< of the register's keys */
    int clocks;
    survey_clock clock[SURVEY_CLOCKS];
    survey_facts facts;
    survey_advice advice;
    char alarm[240]; /**< legacy clients lock in a phase in which none may run; "" not seen */
    migrate_blockers phase[PHASES];
    bool judged[PHASES];
} survey;

/** Note what could not be read. */
void survey_unread(survey *survey, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Draw the conclusions from what was found. Pure. */
void survey_conclude(survey *survey);

/** The patterns of legacy locks that may be migrated: not those that are old. Returns whether this one is. */
bool survey_counts(const found_family *family);

/** May `init` be proposed: is it certain that there is no register? */
bool survey_inits(const survey *survey);

/** The slots' phase if the record of a cluster is lost, which `init` must name; else -1. */
int survey_slots_phase(const survey *survey);

/** "tidelock migrate init ..." for these locks, quoted for a shell; "" if no pattern fits. */
const char *survey_init_line(char buf[SURVEY_LINE], const survey *survey,
                             const found_family *family);
/** The options of clients beside these legacy clients, likewise. */
const char *survey_client_line(char buf[SURVEY_LINE], const survey *survey,
                               const found_family *family);

void survey_show(const survey *survey, FILE *out);
json_t *survey_json(const survey *survey);
extern const member members_of_survey[], members_of_surveyed[], members_of_pattern[],
    members_of_form[], members_of_samples[], members_of_user[], members_of_offset[],
    members_of_suggestion[];
