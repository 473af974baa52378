/*
 * Shared by fake_lua.c and fake_lua_world.c.
 */
#pragma once

#include <lua.h>

#include "fake_inside.h"

typedef struct {
    int ref; /**< of the function, in the registry */
    char sha[FAKE_SHA_SIZE];
} fake_compiled;

#define FAKE_LUA_SIZES 32 /* sizes of small pieces */

typedef struct {
    struct fake_slab *slabs;
    size_t used; /**< of the first one */
    struct fake_hole *holes[FAKE_LUA_SIZES];
} fake_lua_memory;

struct fake_lua {
    int refs;
    fake_lua_memory memory;
    lua_State *L; /**< NULL until the first script */
    int base;     /**< reference of the table that holds the globals */
    int on_error; /**< reference of what makes errors */
    fake_dict by_text;
    fake_compiled *script;
    uint32_t count, room;
    uint32_t level;  /**< that the globals are laid out for */
    uint64_t random; /**< math.random's state */
    fake_scripted *running;
};

/** Start the interpreter and lay out what scripts can see. */
void fake__lua_world(fake_lua *lua);
/** Before each run: what depends on the server's level. Before 7.0 math.random was seeded anew. */
void fake__lua_world_ready(fake_lua *lua, fake_redis *r);
/** What lua_newstate asks for, with the fake_lua_memory. Running out of memory aborts. */
void *fake__lua_memory(void *memory, void *old, size_t old_size, size_t size);
/** After lua_close. */
void fake__lua_memory_free(fake_lua_memory *memory);
void fake__lua_push(lua_State *L, const tl_reply *reply);
