-- Vote for a token on one of several independent servers: set K, unless K or S has another, and draw fencing numbers.
--
-- KEYS  K, S (the sidecar), F (the fencing counter of K's slot)
-- ARGV  token, lifetime of K ms, not_after (server us; 0: no limit), the sender's earliest and latest idea of the
--       server's time us, owner ('': S is left to the first renewal), how many fencing numbers to reserve, the least
--       that the first of them may be, for how many ms nothing may be given by a server that may have forgotten what
--       it gave last (0: that is not asked)
-- Answers {status, K's value, ms left, last fence, TIME s, TIME us, was not_after checked, noted}
--   status 1 the token has K   0 another does   -1 past not_after   -2 this token was dropped
--   -4 nothing may be given yet, for so many ms; K may be the token's all the same
--   -5 that can't be told: below 4.0, or the server doesn't say who it is
--   noted: of 1, K was the token's before; of 0, S knows the holder, whose release will be announced
--
-- The first number is by what all servers were told alike, not by the clock of each, unless that is half a day ahead of
-- it: so a majority of them gives the same one. What they were told may be ahead of this clock, by any amount: another's
-- counter is, and a majority must reach its number. With the same token again K is left as it is and F goes on, beyond what was proposed then: by that a number
-- is raised where it is held. Below 3.2 the sender's ideas of the time count, as in take.
local K, S, F = KEYS[1], KEYS[2], KEYS[3]
local token, px, not_after, owner = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[6]
local now, latest, numbers, least = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[7]), tonumber(ARGV[8])
local time
if redis.replicate_commands then
    redis.replicate_commands()
    time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
    latest = now
end
-- with draw
-- with quiet
local found = redis.pcall('GET', K)
if type(found) == 'table' and not string.find(found.err, 'wrong kind of value', 1, true) then
    return {err = found.err .. ' (get)'} -- refused: that says nothing about the lock
end
local text = type(found) == 'string' and found
local s = redis.call('HMGET', S, 'token', 'value', 'until', 'fence', 'spent')
local till, bound, mine = tonumber(s[3] or 0) or 0, s[1] and s[1] ~= '', text == token
local fence = tonumber(s[4] or 0) or 0
local function answer(status, left, noted)
    local t = time or redis.call('TIME')
    return {status, text, left, string.format('%.0f', fence), t[1], t[2], time and 1 or 0, noted and 1 or 0}
end
-- without spent_vote: if false then
if s[5] == token then
    return answer(-2, -1)
end
-- without late_vote: if false then
if not mine and time and not_after > 0 and now > not_after then
    return answer(-1, -1)
end
-- without vote_of_another: if false then
if found and not mine then
    return answer(0, redis.call('PTTL', K), bound and text == s[2])
end
-- without vote_heeds_sidecar: if false then
if not mine and bound and s[1] ~= token and till >= now then
    return answer(0, math.floor((till - now) / 1000) + 1, true)
end
-- without vote_waits_after_restart: local refused
local refused = withheld(time and now, ARGV[9] ~= '0' and ARGV[9] or nil, answer)
if refused then
    return refused
end
local last, wrong = draw(numbers, math.max(least, latest - 43200000000), fence)
if not last then
    return wrong
end
fence = last
-- Behind a write that is refused where memory is full: after any other write no more is.
-- with able
if not mine then
    refused = unable(K, px)
    if refused then
        return refused
    end
end
-- S first: should K then be refused, dropping the token mends it, but not the other way round
if owner ~= '' or s[1] == token then
    local binds = latest + tonumber(px) * 1000
    redis.call('HMSET', S, 'token', token, 'value', token, 'until',
               string.format('%.0f', s[1] == token and math.max(till, binds) or binds), 'fence',
               string.format('%.0f', fence), 'since', string.format('%.0f', now), 'owner', owner)
    if redis.call('PTTL', S) < tonumber(px) + 3600000 then
        redis.call('PEXPIRE', S, string.format('%.0f', tonumber(px) + 5400000))
    end
end
if not mine then
    redis.call('PSETEX', K, px, token)
end
text = token
return answer(1, redis.call('PTTL', K), mine)
