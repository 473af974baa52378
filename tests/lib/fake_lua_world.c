/*
 * What a script can see in the fake server: Lua's harmless functions, and the table `redis`. All
 * globals are read-only, and asking for one that is not there is an error.
 */
#include <lauxlib.h>
#include <lualib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake_lua.h"

#define FEW 32                   /* arguments of redis.call that need no room in the arena */
#define EXACT 9007199254740992.0 /* 2^53: whole numbers below are exact, however printed */
#define NUMBER_SIZE 40           /* text of any number */

static fake_lua *self(lua_State *L) {
    return lua_touserdata(L, lua_upvalueindex(1));
}

static bool at_least(lua_State *L, int major, int minor) {
    return self(L)->level >= FAKE_LEVEL(major, minor, 0);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* A table {err = …} for an error of Redis' own making. A text that starts with '-' has its code,
 * others get ERR; below 7.0 they got the place instead, and below 2.8 nothing. */
static void push_error(lua_State *L, const char *text) {
    lua_Debug at;
    lua_createtable(L, 0, 1);
    if (!at_least(L, 7, 0)) {
        if (at_least(L, 2, 8) && lua_getstack(L, 1, &at) && lua_getinfo(L, "Sl", &at)) {
            lua_pushfstring(L, "%s: %d: %s", at.source, at.currentline, text);
        } else {
            lua_pushstring(L, text);
        }
    } else if (text[0] == '-' && strchr(text, ' ')) {
        lua_pushstring(L, text + 1);
    } else {
        lua_pushfstring(L, "ERR %s", text + (text[0] == '-'));
    }
    lua_setfield(L, -2, "err");
}

/* Raise the table on top; below 7.0 its text. */
static int raise(lua_State *L) {
    if (!at_least(L, 7, 0)) {
        lua_getfield(L, -1, "err");
    }
    return lua_error(L);
}

/* ---- redis.call and redis.pcall -------------------------------------------------------------- */

static tl_bytes number_text(fake_lua *lua, lua_State *L, int i) {
    lua_Number v = lua_tonumber(L, i);
    char *p = fake__arena_get(&lua->running->conn->arena, NUMBER_SIZE);
    bool digits17 = lua->level >= FAKE_LEVEL(2, 8, 0);
    if (v == floor(v) && fabs(v) < (digits17 ? EXACT : 1e14) && (v != 0 || !signbit(v))) {
        return fake__print_int(p, (int64_t)v);
    }
    return tl__bytes(p, (size_t)snprintf(p, NUMBER_SIZE, digits17 ? "%.17g" : "%.14g", v));
}

static const char *arguments(lua_State *L, fake_lua *lua, tl_bytes *argv, int argc) {
    if (argc == 0) {
        return lua->level < FAKE_LEVEL(7, 0, 0)
                   ? "Please specify at least one argument for redis.call()"
                   : "Please specify at least one argument for this redis lib call";
    }
    for (int i = 0; i < argc; i++) {
        int type = lua_type(L, i + 1);
        if (type == LUA_TNUMBER) {
            argv[i] = number_text(lua, L, i + 1);
        } else if (type == LUA_TSTRING) {
            argv[i].p = lua_tolstring(L, i + 1, &argv[i].n);
        } else {
            return "Lua redis lib command arguments must be strings or integers";
        }
    }
    return NULL;
}

static int command(lua_State *L, bool raising) {
    fake_lua *lua = self(L);
    int argc = lua_gettop(L);
    fake_arena *arena = &lua->running->conn->arena;
    fake_mark mark = fake__arena_mark(arena);
    tl_bytes few[FEW];
    tl_bytes *argv = argc <= FEW ? few : fake__arena_get(arena, (size_t)argc * sizeof(tl_bytes));
    tl_reply reply;
    luaL_checkstack(L, 8, NULL);
    const char *wrong = arguments(L, lua, argv, argc);
    if (wrong) {
        push_error(L, wrong);
    } else if (fake__script_call(lua->running, argv, (size_t)argc, &reply)) {
        fake__lua_push(L, &reply);
        raising = raising && reply.type == TL_REPLY_ERROR;
    } else {
        push_error(L, reply.text.p);
    }
    fake__arena_back(arena, mark);
    return raising ? raise(L) : 1;
}

static int redis_call(lua_State *L) {
    return command(L, true);
}

static int redis_pcall(lua_State *L) {
    return command(L, false);
}

/* ---- the rest of redis ----------------------------------------------------------------------- */

static int redis_sha1hex(lua_State *L) {
    char sha[FAKE_SHA_SIZE];
    tl_bytes text;
    if (lua_gettop(L) != 1) {
        push_error(L, "wrong number of arguments");
        return raise(L);
    }
    text.p = lua_tolstring(L, 1, &text.n);
    fake__sha1(text, sha);
    lua_pushlstring(L, sha, FAKE_SHA_SIZE - 1);
    return 1;
}

static bool one_string(lua_State *L) {
    if (lua_gettop(L) == 1 && lua_type(L, 1) == LUA_TSTRING) {
        return true;
    }
    push_error(L, "wrong number or type of arguments");
    return false;
}

static int redis_status_reply(lua_State *L) {
    if (one_string(L)) {
        lua_createtable(L, 0, 1);
        lua_pushvalue(L, 1);
        lua_setfield(L, -2, "ok");
    }
    return 1;
}

static int redis_error_reply(lua_State *L) {
    if (!one_string(L)) {
        return 1;
    }
    if (at_least(L, 7, 0)) {
        const char *text = lua_tostring(L, 1);
        push_error(L, text[0] == '-' ? text : lua_pushfstring(L, "-%s", text));
    } else {
        lua_createtable(L, 0, 1);
        lua_pushvalue(L, 1);
        lua_setfield(L, -2, "err");
    }
    return 1;
}

static int redis_log(lua_State *L) {
    if (lua_gettop(L) < 2) {
        push_error(L, "redis.log() requires two arguments or more.");
        return raise(L);
    }
    if (!lua_isnumber(L, 1)) {
        push_error(L, "First argument must be a number (log level).");
        return raise(L);
    }
    return 0;
}

static int redis_replicate_commands(lua_State *L) {
    fake_scripted *s = self(L)->running;
    bool late = s->wrote && !at_least(L, 7, 0);
    s->effects = s->effects || !late;
    lua_pushboolean(L, !late);
    return 1;
}

static int redis_set_repl(lua_State *L) {
    (void)L;
    return 0;
}

/* From 7.0 on pcall gives the text of an error that is a table {err = …}. */
static int plain_pcall(lua_State *L) {
    luaL_checkany(L, 1);
    int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
    if (status && at_least(L, 7, 0) && lua_istable(L, -1)) {
        lua_getfield(L, -1, "err");
        if (lua_isstring(L, -1)) {
            lua_replace(L, -2);
        } else {
            lua_pop(L, 1);
        }
    }
    lua_pushboolean(L, status == 0);
    lua_insert(L, 1);
    return lua_gettop(L);
}

/* ---- what scripts do all the time, without the library's long way ------------------------------- */

/* string.format('%.0f', n), and all the rest. */
static int quick_format(lua_State *L) {
    if (lua_gettop(L) == 2 && lua_type(L, 2) == LUA_TNUMBER && lua_type(L, 1) == LUA_TSTRING &&
        strcmp(lua_tostring(L, 1), "%.0f") == 0) {
        lua_Number v = lua_tonumber(L, 2);
        if (v == floor(v) && fabs(v) < EXACT && v != 0) {
            char text[TL_INT_SIZE];
            tl_bytes digits = fake__print_int(text, (int64_t)v);
            lua_pushlstring(L, digits.p, digits.n);
            return 1;
        }
    }
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* tonumber('123'), and all the rest. */
static int quick_tonumber(lua_State *L) {
    if (lua_gettop(L) == 1 && lua_type(L, 1) == LUA_TSTRING) {
        int64_t v;
        tl_bytes text;
        text.p = lua_tolstring(L, 1, &text.n);
        if (fake__to_int(text, &v) && v < (int64_t)EXACT && v > -(int64_t)EXACT) {
            lua_pushnumber(L, (lua_Number)v);
            return 1;
        }
    }
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* Put a function before the C function of that name in the table on top. */
static void quicken(lua_State *L, const char *name, lua_CFunction quick) {
    lua_getfield(L, -1, name);
    lua_pushcclosure(L, quick, 1);
    lua_setfield(L, -2, name);
}

/* ---- math.random, the same numbers as in Redis ----------------------------------------------- */

static uint64_t seeded(uint32_t v) {
    return (uint64_t)v << 16 | 0x330e;
}

static int math_random(lua_State *L) {
    uint64_t *random = &self(L)->running->conn->r->random;
    *random = (*random * 0x5deece66d + 0xb) & 0xffffffffffff;
    lua_Number v = (lua_Number)((int64_t)(*random >> 17) % INT32_MAX) / INT32_MAX;
    int n = lua_gettop(L);
    int low = n == 2 ? luaL_checkint(L, 1) : 1;
    if (n > 2) {
        return luaL_error(L, "wrong number of arguments");
    }
    if (n > 0) {
        int high = luaL_checkint(L, n);
        luaL_argcheck(L, low <= high, n, "interval is empty");
        v = floor(v * ((lua_Number)high - low + 1)) + low;
    }
    lua_pushnumber(L, v);
    return 1;
}

static int math_randomseed(lua_State *L) {
    self(L)->running->conn->r->random = seeded((uint32_t)luaL_checkint(L, 1));
    return 0;
}

/* ---- laying it out --------------------------------------------------------------------------- */

static int no_such_global(lua_State *L) {
    const char *words = at_least(L, 7, 0) ? "nonexistent" : "unexisting";
    return luaL_error(L, "Script attempted to access %s global variable '%s'", words,
                      luaL_checkstring(L, 2));
}

static int read_only(lua_State *L) {
    if (at_least(L, 7, 0)) {
        return luaL_error(L, "Attempt to modify a readonly table");
    }
    return luaL_error(L, "Script attempted to create global variable '%s'", luaL_checkstring(L, 2));
}

static void set_function(fake_lua *lua, const char *name, lua_CFunction function) {
    lua_pushlightuserdata(lua->L, lua);
    lua_pushcclosure(lua->L, function, 1);
    lua_setfield(lua->L, -2, name);
}

static void set_number(lua_State *L, const char *name, int v) {
    lua_pushinteger(L, v);
    lua_setfield(L, -2, name);
}

static void push_redis(fake_lua *lua) {
    static const char *const levels[] = {"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"};
    lua_newtable(lua->L);
    set_function(lua, "call", redis_call);
    set_function(lua, "pcall", redis_pcall);
    set_function(lua, "sha1hex", redis_sha1hex);
    set_function(lua, "status_reply", redis_status_reply);
    set_function(lua, "error_reply", redis_error_reply);
    set_function(lua, "log", redis_log);
    set_function(lua, "set_repl", redis_set_repl);
    for (int i = 0; i < 4; i++) {
        set_number(lua->L, levels[i], i);
    }
    if (lua->level >= FAKE_LEVEL(7, 0, 0)) {
        set_number(lua->L, "REDIS_VERSION_NUM", (int)lua->level);
    }
    set_number(lua->L, "REPL_NONE", 0);
    set_number(lua->L, "REPL_AOF", 1);
    set_number(lua->L, "REPL_SLAVE", 2);
    set_number(lua->L, "REPL_REPLICA", 2);
    set_number(lua->L, "REPL_ALL", 3);
}

static void open_library(lua_State *L, lua_CFunction open, const char *name) {
    lua_pushcfunction(L, open);
    lua_pushstring(L, name);
    lua_call(L, 1, 0);
}

/* Push the table of globals: the harmless ones of Lua's own, and redis. */
static void push_base(fake_lua *lua) {
    static const char *const allowed[] = {
        "assert",   "error",  "getmetatable", "ipairs",    "next",         "pairs",
        "rawequal", "rawget", "rawset",       "select",    "setmetatable", "tonumber",
        "tostring", "type",   "unpack",       "xpcall",    "_VERSION",     "math",
        "string",   "table",  "load",         "loadstring"};
    lua_State *L = lua->L;
    lua_newtable(L);
    for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
        lua_getglobal(L, allowed[i]);
        lua_setfield(L, -2, allowed[i]);
    }
    set_function(lua, "pcall", plain_pcall);
    push_redis(lua);
    lua_setfield(L, -2, "redis");
    quicken(L, "tonumber", quick_tonumber);
    lua_getfield(L, -1, "string");
    quicken(L, "format", quick_format);
    lua_pop(L, 1);
    lua_getfield(L, -1, "math");
    set_function(lua, "random", math_random);
    set_function(lua, "randomseed", math_randomseed);
    lua_pop(L, 1);
}

static int panic(lua_State *L) {
    fprintf(stderr, "fake_redis: Lua: %s\n", lua_tostring(L, -1));
    abort();
}

void fake__lua_world(fake_lua *lua) {
    lua_State *L = lua->L = lua_newstate(fake__lua_memory, &lua->memory);
    if (!L) {
        fputs("fake_redis: no Lua\n", stderr);
        abort();
    }
    lua_atpanic(L, panic);
    open_library(L, luaopen_base, "");
    open_library(L, luaopen_table, LUA_TABLIBNAME);
    open_library(L, luaopen_string, LUA_STRLIBNAME);
    open_library(L, luaopen_math, LUA_MATHLIBNAME);
    push_base(lua);
    lua_newtable(L); /* what scripts have as globals: always empty, so that every write is seen */
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "_G");
    lua_newtable(L);
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "__index");
    set_function(lua, "__newindex", read_only);
    lua_setmetatable(L, -2);
    lua_replace(L, LUA_GLOBALSINDEX);
    lua_newtable(L);
    set_function(lua, "__index", no_such_global);
    lua_setmetatable(L, -2);
    lua->base = luaL_ref(L, LUA_REGISTRYINDEX);
}

void fake__lua_world_ready(fake_lua *lua, fake_redis *r) {
    uint32_t level = r->level;
    if (level < FAKE_LEVEL(7, 0, 0)) {
        r->random = seeded(0);
    }
    if (lua->level == level) {
        return;
    }
    lua->level = level;
    lua_rawgeti(lua->L, LUA_REGISTRYINDEX, lua->base);
    lua_getfield(lua->L, -1, "redis");
    lua_pushnil(lua->L);
    lua_setfield(lua->L, -2, "replicate_commands");
    if (level >= FAKE_LEVEL(3, 2, 0)) {
        set_function(lua, "replicate_commands", redis_replicate_commands);
    }
    lua_settop(lua->L, 0);
}
