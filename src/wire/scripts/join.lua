-- Stand in line for a lock, or look how far it has come. Whoever is first gets a lock that is free.
--
-- KEYS  K, S, F, L; perhaps C, as acquire.lua has it
-- ARGV  token, lifetime of K ms ('?' behind it: nobody else may set K for the token, and so it is only called when
--       its turn has come), not_after (server us; 0: no limit), owner, how many fencing numbers to reserve
--       (1: only from the front of the line, as it is `fair`), the inbox by which it is told ('poll': it hears nothing, but
--       comes again every half second; only with a '?'), its place in line as it was told ('': none; one that polls adds a
--       space and the time of that answer, us); and perhaps for how many ms nothing may be given by a server that may have
--       forgotten what it gave last, and by which epoch it is the master, as acquire.lua has it; what C must hold
-- Answers {status, K's value, ms left, first fence, TIME s, TIME us, its place in line, how many are before it,
--          how many stand there, announced}; of those before it who share an inbox with another only one counts, where
--          that makes it one of the first three
--   status 1 the token holds it   0 another does   -1 past not_after   -2 this token was dropped
--   -3 below 3.2, where a script that has read the clock may not write: there is no line
--   -6 as acquire.lua, alone with what C holds
--   -4, -5 as acquire.lua, with the ms that are left: it stands in line, and doesn't hold what may be its own
--
-- The place is by when the server saw it first: a number of the fencing counter, which no other has. An entry
-- has "TOKEN LIFETIME NUMBERS INBOX OWNER"; the line lasts for an hour from the last who came. The INBOX of one who polls is
-- "poll:" and when it came last, server us: so each time its entry is another, at the same place.
local K, S, F, L = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, px, not_after, place = ARGV[1], string.match(ARGV[2], '^%d+'), tonumber(ARGV[3]), string.match(ARGV[7], '^%d*')
-- without no_queue_below_3_2: if false then
if not redis.replicate_commands then
    return {-3}
end
redis.replicate_commands()
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function entry_of(inbox)
    return string.format('%s %s %s %s %s', token, ARGV[2], ARGV[5], inbox, ARGV[4])
end
local polls = ARGV[6] == 'poll'
local entry = entry_of(polls and string.format('poll:%.0f', now) or ARGV[6])
-- with draw
-- with near
-- with grant
-- with quiet
-- with condition
local other_than = differs(KEYS[5], ARGV[9])
if other_than then
    return {-6, other_than}
end
local found = redis.pcall('GET', K)
if type(found) == 'table' and not string.find(found.err, 'wrong kind of value', 1, true) then
    return {err = found.err .. ' (get)'} -- refused: that says nothing about the lock
end
local s = redis.call('HMGET', S, 'token', 'value', 'until', 'fence', 'spent', 'claim', 'line')
local text, till, fence = type(found) == 'string' and found, tonumber(s[3] or 0) or 0, 0
-- without former_poll_leaves: if false then
if polls then
    redis.call('ZREM', L, entry_of('poll:' .. (string.match(ARGV[7], ' (%d+)$') or '')))
end
-- How many are before it; of one inbox only the first counts, for those who come and go with it. Those who poll count as of one
-- inbox: so the first of the others minds how long they take.
local function ahead()
    local before = redis.call('ZRANK', L, entry) or 0
    if before < 3 then
        return before
    end
    local heard, count = {}, 0
    for _, other in ipairs(redis.call('ZRANGE', L, 0, math.min(before, 64) - 1)) do
        local inbox = string.match(other, '^%S+ %S+ %S+ (%S+) ') or ''
        -- without pollers_count_once:
        inbox = string.match(inbox, '^(poll):%d+$') or inbox
        -- without inbox_counts_once: count = count + 1
        count = count + (heard[inbox] and 0 or 1)
        heard[inbox] = true
        if count == 3 then
            return before
        end
    end
    return (before > 64 or heard[ARGV[6]]) and before or count
end
local function answer(status, left, announced)
    local before = ahead()
    local all = redis.call('ZCARD', L)
    return {status, text, left, string.format('%.0f', fence), time[1], time[2], place, before, all,
            announced and 1 or 0}
end
-- without spent_join: if false then
if s[5] == token then
    return answer(-2, -1)
end
-- without join_by_limit: local late = false
local late = now > not_after and not_after > 0
if text and s[1] == token and (text == token or text == s[2]) then -- it was told so, or wasn't heard: now it is known
    -- without own_stamp_to_token: local becomes = false
    local becomes = text ~= token -- a stamp of its own, of an earlier phase: it becomes the token
    if becomes and late then
        return answer(-1, -1)
    end
    -- without own_waits_after_restart: local refused
    local refused = withheld(now, ARGV[8], answer)
    if refused then
        return refused
    end
    -- What it was given before may be fewer numbers than it wants now: it gets new ones.
    local last, wrong = draw(tonumber(ARGV[5]), now, s[4])
    if wrong then
        return wrong
    end
    -- without first_fence_told: fence = last
    fence = last - ARGV[5] + 1
    if late then -- who asks may have moved on: it claims nothing
        redis.call('HMSET', S, 'fence', string.format('%.0f', last))
        return answer(1, redis.call('PTTL', K), true)
    end
    local left = math.max(becomes and 0 or redis.call('PTTL', K), tonumber(px))
    redis.call('HMSET', S, 'value', token, 'until', string.format('%.0f', math.max(till, now + left * 1000)),
               -- without look_claims: 'fence', string.format('%.0f', last))
               'claim', '', 'fence', string.format('%.0f', last))
    -- without holder_leaves_queue:
    near(redis.call('ZREM', L, entry)) -- it may have taken K by itself, in a slot that was being moved
    if becomes then
        redis.call('SET', K, token)
        text = token
    end
    redis.call('PEXPIRE', K, string.format('%.0f', left))
    return answer(1, left, true)
end
if late then
    return answer(-1, -1)
end
-- without late_set_counts_nothing: if false then
if text == token then -- set by a request that was held up: it counts for nothing
    redis.call('DEL', K)
    found, text = false, false
end
local stands = redis.call('ZSCORE', L, entry)
if stands and (tonumber(place) or math.huge) >= tonumber(stands) then
    place = stands
else -- or a repetition that was held up has put it further back than it was told
    -- without place_kept: if true then
    if place == '' then
        local wrong
        place, wrong = draw(1, now, s[4])
        if wrong then
            return wrong
        end
        place = string.format('%.0f', place)
    end
    redis.call('ZADD', L, place, entry)
end
redis.call('PEXPIRE', L, 3600000) -- a write in any case: what a replica knows may be old
-- without evicted_queue_noted: if not stands then
if s[7] ~= F then -- also where S has been evicted meanwhile
    redis.call('HMSET', S, 'line', F)
end
if redis.call('PTTL', S) < 3600000 then
    redis.call('PEXPIRE', S, 5400000)
end
if not found then
    local refused = withheld(now, ARGV[8], answer)
    if refused then
        return refused
    end
    -- without asker_keeps_places: if false then
    -- without turn_of_poller_stays: if s[6] == ARGV[6] then
    if s[6] == ARGV[6] and not polls then -- what was given to this inbox was in vain, but who asks is there
        redis.call('HMSET', S, 'claim', '')
    end
    -- without called_waiter_first: local called = false
    local called = s[1] == token and s[6] == ARGV[6] and till >= now and ARGV[2] ~= px
    local given, wrong = grant(now, entry, called)
    if wrong then
        return wrong
    end
    if given == token then
        text, fence = token, redis.call('HGET', S, 'fence') - ARGV[5] + 1
        return answer(1, redis.call('PTTL', K), true)
    end
    text = redis.call('GET', K)
    if given and not text then -- who was called takes it within that time
        till = tonumber(redis.call('HGET', S, 'until'))
    end
end
local left = text and redis.call('PTTL', K) or till >= now and math.floor((till - now) / 1000) + 1 or -1
return answer(0, left, not text or s[1] and s[2] == text or text ~= found)
