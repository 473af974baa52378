/*
 * The scripts by which migrate changes what stands in the server; each says in its head what it
 * takes and answers. Pure texts.
 */
#pragma once

/** Change the register, or make it. */
extern const char migrate_change_script[];

/** Add to the history alone. */
extern const char migrate_note_script[];

/** Remove a stamp that is over for everybody. */
extern const char migrate_sweep_script[];
