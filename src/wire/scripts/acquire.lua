-- Acquire a lock: set K when it holds what is expected, unless another tidelock client is bound to it.
--
-- KEYS  K, S (the sidecar), F (the fencing counter of K's slot), L (the line); perhaps C, which must hold certain bytes
-- ARGV  token, lifetime of K ms, not_after (server us; 0: no limit), the sender's earliest and latest idea
--       of the server's time us, owner ('': S is left to the first renewal); and where they differ from what
--       is usual: how many fencing numbers to reserve (1), value for K (the token), what K must hold ('' nothing,
--       '=BYTES' exactly these), how long S binds others ms or, with an '@', until what server time us (the
--       lifetime), for how many ms nothing may be given by a server that may have forgotten what it gave last, and
--       behind a space, where Sentinels name the server, the epoch of their configuration ('': 0 ms); what C must
--       hold ('': nothing)
-- Answers TIME us, which is the fence too, in the usual case: the token has got it, and all its lifetime
-- else    {status, K's value, ms left, last fence, TIME s, TIME us, was not_after checked, announced}
--   status 1 the token holds it   0 another does   -1 past not_after   -2 this token was dropped
--   -4 nothing may be given yet, for so many ms; K may be the token's all the same
--   -5 that can't be told: below 4.0, or the server doesn't say who it is
--   -6 C holds what stands in the place of K's value: nothing was changed
--
-- With the same token again it moves nothing but the fence, unless S has that and one is enough. Servers below
-- 3.2 can't be asked the time before a write: there not_after goes unchecked and the sender's ideas count, the
-- latest for how long S binds, the earliest for whether it still does.
local K, S, F, L = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, px, told, owner = ARGV[1], ARGV[2], tonumber(ARGV[4]), ARGV[6]
local not_after, life, numbers = tonumber(ARGV[3]), tonumber(px), tonumber(ARGV[7] or 1)
local time, now
if redis.replicate_commands then
    redis.replicate_commands()
    time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
end
-- with draw
-- with near
-- with grant
-- with quiet
-- with condition
local other_than = differs(KEYS[5], ARGV[12])
if other_than then
    local t = time or redis.call('TIME')
    return {-6, other_than, -1, '0', t[1], t[2], time and 1 or 0, 0}
end
local found = redis.pcall('GET', K)
-- without other_kind_is_held: if type(found) == 'table' then
if type(found) == 'table' and not string.find(found.err, 'wrong kind of value', 1, true) then
    return {err = found.err .. ' (get)'} -- refused: that says nothing about the lock
end
local s = redis.call('HMGET', S, 'token', 'value', 'until', 'fence', 'spent', 'line', 'claim')
local text, till = type(found) == 'string' and found, tonumber(s[3] or 0) or 0
local bound = s[1] and s[1] ~= ''
local value, expect, hold = ARGV[8] or token, ARGV[9] or '', ARGV[10] or px
local binds = string.byte(hold) == 64 and tonumber(string.sub(hold, 2)) -- '@'
binds = binds or (now or tonumber(ARGV[5])) + tonumber(hold) * 1000
-- without take_by_limit: local late = false
local late = time and not_after > 0 and now > not_after
now = now or told
local fence = tonumber(s[4] or 0) or 0
local function answer(status, left, announced)
    local t = time or redis.call('TIME')
    return {status, text, left, string.format('%.0f', fence), t[1], t[2], time and 1 or 0,
            announced and 1 or 0}
end
-- What is noted outlasts the lock. A release may have left S for a short while only.
local function outlast()
    if redis.call('PTTL', S) < life + 3600000 then
        redis.call('PEXPIRE', S, string.format('%.0f', life + 5400000))
    end
end
local known = text and bound and text == s[2]
-- without own_take_known: if false then
-- without own_token_known: if known then
if known and s[1] == token then
    -- without own_waits_after_restart: local refused
    local refused = withheld(time and now, ARGV[11], answer)
    if refused then
        return refused
    end
    -- The take that worked may have been under way for long, and its idea of the time be old: then S must
    -- bind for longer. And WAIT needs a write to wait for. A stamp of its own, of an earlier phase, binds others for no
    -- longer than it says, whatever lifetime K has: it becomes the token.
    -- without own_stamp_to_token: local becomes = false
    local becomes = value == token and text ~= token
    if becomes and late then
        return answer(-1, -1)
    end
    local longer = (becomes or not time) and binds > till
    local done = redis.pcall('HMSET', S, 'until', string.format('%.0f', longer and binds or till), 'value',
                             becomes and token or text)
    if done.err then -- should it be a replica: what it has may be old
-- with replica
        -- without replica_grants_nothing: local refused = false
        local refused = string.find(done.err, 'READONLY', 1, true) and done or replica(S, token)
        if refused then
            return refused -- also where the user may not HMSET, which is said first
        end
    end
    -- without holder_needs_sidecar: if false then
    if (becomes or longer) and done.err then
        return {err = done.err .. ' (hmset)'}
    end
    if becomes then
        redis.call('PSETEX', K, px, token)
        text = token
    end
    -- without repeat_draws_fences: if false then
    if numbers > 1 then -- it may have been given fewer before: it gets new ones
        local wrong
        -- without fence_by_server_time: fence, wrong = draw(numbers, tonumber(ARGV[5]), fence)
        fence, wrong = draw(numbers, now, fence)
        if wrong then
            return wrong
        end
        redis.call('HMSET', S, 'fence', string.format('%.0f', fence))
    end
    return answer(1, redis.call('PTTL', K), true)
end
-- without spent_take: if false then
if s[5] == token then
    return answer(-2, -1)
end
-- without sidecar_excludes: local other = false
local other = bound and s[1] ~= token and till >= now
local lines = s[6] and s[6] ~= '' and time and value == token and expect == ''
if text == token then -- of a first request, which S says nothing of: nobody believes in it yet
    -- without own_set_given_back: if false then
    if other or lines then
        redis.call('DEL', K)
        -- without called_waiter_renotified: if false then
        if other and s[7] and s[7] ~= '' then -- who was called has found this in its place
            redis.pcall('PUBLISH', s[7], 'look ' .. K)
        end
        found, text = false, false
    else
        -- without own_waits_after_restart: local refused, wrong
        local refused, wrong = withheld(time and now, ARGV[11], answer), nil
        if refused then
            return refused
        end
        -- without fence_by_server_time: fence, wrong = draw(numbers, tonumber(ARGV[5]), fence)
        fence, wrong = draw(numbers, now, fence)
        if wrong then
            return wrong
        end
        if owner ~= '' then
            redis.call('HMSET', S, 'token', token, 'value', value, 'until', string.format('%.0f', binds),
                       'fence', string.format('%.0f', fence), 'since', string.format('%.0f', now), 'owner', owner)
            -- without repeat_outlasts:
            outlast()
        end
        return answer(1, redis.call('PTTL', K), true)
    end
end
if lines and not found and not other then -- others have come before, unless it is itself that is first there
    local done, given, wrong = pcall(function()
        local first = redis.call('ZRANGE', L, 0, 0)[1] or ''
        -- without own_entry_bars_nobody: if false then
        if string.match(first, '^%S+') == token then
            return false
        end
        return grant(now)
    end)
    if done and wrong then
        return wrong
    end
    text = redis.call('GET', K) -- who may not see the line passes by
    if text then
        return answer(0, redis.call('PTTL', K), true)
    end
    if done and given then -- who was called takes it within that time
        return answer(0, math.floor((redis.call('HGET', S, 'until') - now) / 1000) + 1, true)
    end
end
if late then
    return answer(-1, -1)
end
-- without take_as_expected: if false then
if expect == '' and found or expect ~= '' and expect ~= '=' .. (text or '') then
    return answer(0, redis.call('PTTL', K), known)
end
if other then
    return answer(0, math.floor((till - now) / 1000) + 1, true)
end
if s[1] == token then
    -- without take_shortens_nothing:
    binds = math.max(till, binds) -- K was deleted: one that was under way for long moves nothing back
end
local refused, wrong = withheld(time and now, ARGV[11], answer), nil
if refused then
    return refused
end
-- without fence_by_server_time: fence, wrong = draw(numbers, tonumber(ARGV[5]), fence)
fence, wrong = draw(numbers, now, fence)
if wrong then
    return wrong
end
-- Behind a write that is refused where memory is full: after any other write no more is.
-- with able
if not found then
    refused = unable(K, px)
    if refused then
        return refused
    end
end
-- S first: should K then be refused, dropping the token mends it, but not the other way round
if owner ~= '' or s[1] == token then
    redis.call('HMSET', S, 'token', token, 'value', value, 'until', string.format('%.0f', binds),
               'fence', string.format('%.0f', fence), 'since', string.format('%.0f', now), 'owner', owner)
end
-- without take_expires: redis.call('SET', K, value)
redis.call('PSETEX', K, px, value)
if owner ~= '' then
    outlast()
end
text = value
return time and fence == now and value == token and string.format('%.0f', now) or answer(1, life, true)
