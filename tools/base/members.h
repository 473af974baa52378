/*
 * The members of each kind of object in JSON. They are listed once, with what they mean, as a macro:
 *
 *     #define PAIR_MEMBERS(M, of) M(of, holder, "the host that holds") M(of, taker, "...")
 *     MEMBERS(pair, PAIR_MEMBERS);
 *
 * The code that writes such an object takes the names from there (holder_of_pair), and the man page takes its
 * table. A name that no code uses, or that the list lacks, does not compile.
 */
#pragma once

typedef struct {
    const char *name;
    const char *meaning; /**< as the man page says it, in the page's markup */
} member;

/** Declare the names for the code, and the table members_of_NAME, which ends with a row without a name. */
#define MEMBERS(of, LIST)                                                                          \
    LIST(MEMBER_NAME, of) const member members_of_##of[] = {LIST(MEMBER_ROW, of){NULL, NULL}}
#define MEMBER_NAME(of, name, meaning) static const char name##_of_##of[] = #name;
#define MEMBER_ROW(of, name, meaning) {#name, meaning},

/** A kind of object of which a man page has a table. A list of these ends with a row without a name. */
typedef struct {
    const char *name;
    const member *members;
} members_row;
