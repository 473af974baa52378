/*
 * The scripts with which migrate changes data on the server. The comment above each text has its
 * parameters and replies. Pure texts.
 */
#pragma once

/** Change the register, or make it. */
extern const char migrate_change_script[];

/** Only add to the history. */
extern const char migrate_note_script[];

/** Remove a stamp that has expired for every client. */
extern const char migrate_sweep_script[];
