-- Release a lock, and leave it taken for a while: it rests. Nobody holds it, and nobody acquires it before the end.
--
-- KEYS  K, S, L; K alone while a slot is being moved, when the two may be at two nodes
-- ARGV  token, for how long from now ms, the latest end of the rest (server us; 0: not known), the sender's latest idea of the
--       server's time us, owner, fence; of one who doesn't know when the token acquired K, for how long from then ms (''); its
--       entry in the line, if that may still be there (''); and where K may hold a stamp, a text with %.0f in the number's place,
--       how many ms its unit has, M ms, and for how long K outlasts the stamp ms; and what a racing loser may have left in K, and
--       when that ends ms
-- Answers 1 it rests   0, or the stamp that K holds: another holds it   -1 absent
--
-- K becomes "resting US TOKEN", with the server's time at which the rest began. S gives that text as the holder's token: so every
-- client, old or new, takes the lock for another's, even if somebody deletes K. With the same token again nothing moves.
--
-- Where a legacy client's clock, M ahead, may have called the stamp expired, it does not rest: that client's GETSET may be on its
-- way, and would end the rest. Then K's stamp is the answer, as if another held it.
--
-- A stamp becomes a stamp again, as legacy clients read nothing else. They compare it with clocks that may be M ahead: so it
-- ends M after the rest. S binds for M after that, as for every stamp. It may move K back, as it takes what a release does; a loser's not.
--
-- K is first. It is enough by itself, and after it nothing is refused where memory is full. It lasts 1 ms longer than S
-- binds: a waiter that finds K absent finds S free, too. Servers below 3.2 can't be asked the time before a write: there the latest
-- end is not compared with the sender's idea of the time, which may have become worse since the acquire.
local K, S, L, token, now, time = KEYS[1], KEYS[2], KEYS[3], ARGV[1], tonumber(ARGV[4]), nil
if redis.replicate_commands then
    redis.replicate_commands()
    time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
end
-- with replica
local found = redis.pcall('GET', K)
-- without other_kind_is_held: if type(found) == 'table' then
if type(found) == 'table' and not string.find(found.err, 'wrong kind of value', 1, true) then
    return {err = found.err .. ' (get)'} -- refused: that says nothing about the lock
end
local text = type(found) == 'string' and found
local s = S and redis.pcall('HMGET', S, 'token', 'value', 'since', 'fence', 'line', 'next', 'until') or {}
if s.err and not string.find(s.err, 'wrong kind of value', 1, true) then
    return {err = s.err .. ' (hmget)'}
end
local by, next = string.match(s[6] or '', '^(%S+) %S* (%S+)$') -- a renewal of K alone may have written that: see note.lua
local known = text == s[2] or text == ARGV[13] or by == token and text == next
-- without rest_compares: local mine = text
local mine = text and (text == token or s[1] == token and known)
if mine and ARGV[9] and text ~= token then
    -- S binds for M after the stamp
    local ends = text == ARGV[13] and ARGV[14] * 1000 or (tonumber(s[7] or '') or 0) - ARGV[11] * 1000
    -- without stamp_rests_in_time:
    mine = now < ends - ARGV[11] * 1000
end
local rest, value, skew, longer, px = text and text == s[2] and s[1] or text, text, 0, 0, nil
-- without repeated_rest_known: local rests, till = false, nil
local rests, till = text and string.match(rest, '^resting %d+ (.*)$') == token, nil
if mine then
    till = now + tonumber(ARGV[2]) * 1000
    local latest, whole = tonumber(ARGV[3]), tonumber(ARGV[7] or '')
    if whole and s[1] == token and tonumber(s[3] or '') then
        -- `since` may be a second too early: it can be a fencing number
        latest = s[3] + 1000000 + whole * 1000
    end
    -- without rest_ends_in_time: if false then
    -- without rest_never_early: if latest > 0 then
    if time and latest > 0 then
        till = math.max(math.min(till, latest), now)
    end
    rest = string.format('resting %.0f %s', now, token)
    value = rest
    if ARGV[9] and text ~= token then
        skew, longer = ARGV[11] * 1000, ARGV[12]
        -- without losers_rest_not_moved_back: till = till + skew
        -- without resting_stamp_for_skew: till = math.max(till, text == ARGV[13] and ARGV[14] * 1000 or 0)
        till = math.max(till + skew, text == ARGV[13] and ARGV[14] * 1000 or 0)
        value = string.format(ARGV[9], math.ceil(till / 1000 / ARGV[10]))
    end
    px = string.format('%.0f', math.ceil((till - now) / 1000) + 1 + longer)
    redis.call('PSETEX', K, px, value)
elseif rests then -- moves nothing. But WAIT needs a write to wait for, and what a replica has may be old
    local left = redis.call('PTTL', K)
    till = now + (left - 1) * 1000
    if left > 0 then
        -- without repeated_rest_writes:
        redis.call('PEXPIRE', K, string.format('%.0f', left))
    end
end
if not mine and not rests then
    -- A stamp may be a racing loser's: the sender judges that, and S still binds.
    if not S or ARGV[9] and text then
        return replica(S or K, token) or ARGV[9] and text or found and 0 or -1
    end
    -- K was deleted, or is another's by now. As after a release S excludes nobody for this token, whose late request is rejected.
    local left = redis.call('PTTL', S)
    -- without rest_in_vain_unbinds: local noted = redis.pcall('HMSET', S, 'spent', token)
    local noted = redis.pcall('HMSET', S, 'spent', token, unpack(s[1] == token and {'token', '', 'claim', ''} or {}))
    if noted.err then -- should it be a replica: what it has may be old
        local refused = string.find(noted.err, 'READONLY', 1, true) and noted or replica(S, token)
        if refused then
            return refused
        end
    elseif left < 3600000 then
        redis.call('PEXPIRE', S, 3600000)
    end
elseif S and s[1] ~= rest then
    local fence, of = ARGV[6], {}
    if s[1] ~= token then -- what S says is of another holder
        if tonumber(fence) < (tonumber(s[4] or 0) or 0) then
            fence = s[4]
        end
        of = {'fence', fence, 'owner', ARGV[5], 'since',
              string.format('%.0f', fence ~= '0' and math.min(tonumber(fence), now) or now)}
    end
    -- without rest_binds: local noted = redis.pcall('HMSET', S, 'token', '', 'spent', token, 'claim', '', unpack(of))
    local noted = redis.pcall('HMSET', S, 'token', rest, 'value', value, 'until', string.format('%.0f', till + skew), 'spent', token, 'claim', '', unpack(of))
    -- without unknown_stamp_rests_not: if false then
    if noted.err and value ~= rest then -- a stamp that S doesn't know binds for all of its lifetime
        redis.call('PSETEX', K, px, text)
        return {err = noted.err .. ' (hmset)'}
    end
    local life = math.ceil((till - now) / 1000) + 5400000 + longer
    -- without odd_sidecar_untouched: if redis.call('PTTL', S) < life then
    if not noted.err and redis.call('PTTL', S) < life then
        redis.call('PEXPIRE', S, string.format('%.0f', life))
    end
end
-- without rest_leaves_queue: if false then
if S and (ARGV[8] or '') ~= '' then
    redis.pcall('ZREM', L, ARGV[8])
end
-- Waiters learn the new end, or that the lock is free.
if S and (mine or rests or s[1] == token) then
    -- without rest_notifies: local first = {}
    local first = s[5] and s[5] ~= '' and redis.pcall('ZRANGE', L, 0, 2) or {}
    for _, entry in ipairs(first) do
        redis.pcall('PUBLISH', string.match(entry, '^%S+ %S+ %S+ (%S+) ') or '', 'look ' .. K)
    end
    redis.pcall('PUBLISH', S, '')
end
return (mine or rests) and 1 or found and 0 or -1
