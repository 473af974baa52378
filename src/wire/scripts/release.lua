-- Release a lock: if K is still the token's, hand it to the next in line, or delete it.
--
-- KEYS  K, S, F, L; F and L are touched only where S says in `line` that others stand in line, or the sender may stand there
-- ARGV  token; for how long S stays, ms, once nobody holds the lock or waits for it ('': that is left as it is); and from one
--       of whom a request may still be on its way, its entry in the line ('': it was in none)
-- Answers 1 released   -1 absent   0, or what K holds: it is another's
--
-- A token that S knows has stood in line, or been renewed, and one that was asked for in vain may be asked for by a
-- request that is still on its way: it is remembered as spent, so that such a request finds the door shut. S stays until
-- the not_after of all these requests has passed. Below 3.2 that isn't checked, and S stays for an hour and longer. After
-- the DEL nothing may fail: a full memory or a forbidden command must not hide that the lock is free. But a stamp, which
-- others may write in the same words, stays where S can't be told that it is over: the next to drop it would
-- delete theirs.
local K, S, F, L, token = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]
local found = redis.pcall('GET', K)
-- without other_kind_is_held: if found and found.err then
if found and found.err and not string.find(found.err, 'wrong kind of value', 1, true) then
    return {err = found.err .. ' (get)'} -- refused: that says nothing about the lock
end
local s = redis.pcall('HMGET', S, 'token', 'line', 'broken')
-- without odd_sidecar_released: if s.err then
if s.err and not string.find(s.err, 'wrong kind of value', 1, true) then
    return {err = s.err .. ' (hmget)'}
end
local now
if s[2] and s[2] ~= '' and redis.replicate_commands then
    redis.replicate_commands() -- before the first write
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
end
-- without drop_of_same_value: local mine = found and (found == token or s[1] == token)
-- without leaver_releases_grant: local mine = found == token and (redis.call('HGET', S, 'claim') or '') == ''
local mine = found and (found == token or s[1] == token and found == redis.call('HGET', S, 'value'))
local status, noted = mine and 1 or found and 0 or -1, nil
if mine and found ~= token then
    noted = redis.pcall('HMSET', S, 'token', '', 'spent', token)
    if noted.err and not string.find(noted.err, 'OOM', 1, true) then
        return {err = noted.err .. ' (hmset)'}
    end
end
if mine then
    redis.call('DEL', K)
end
-- without drop_of_owner: if true then
if s[1] == token then -- and so S is there, with a lifetime
    -- without drop_spends: noted = redis.pcall('HMSET', S, 'token', '', 'spent', 'x', 'claim', '')
    noted = redis.pcall('HMSET', S, 'token', '', 'spent', token, 'claim', '')
-- without release_writes_only_spent: else
elseif ARGV[3] or not mine then
    local left = redis.call('PTTL', S)
    -- without drop_spends: noted = redis.pcall('HMSET', S, 'spent', 'x')
    noted = redis.pcall('HMSET', S, 'spent', token)
    -- without odd_sidecar_untouched: if left < 3600000 then
    if left < 3600000 and not noted.err then
        redis.pcall('PEXPIRE', S, 3600000)
    end
end
if status ~= 1 and type(noted) == 'table' and noted.err then -- should it be a replica: what it has may be old
-- with replica
    local refused = string.find(noted.err, 'READONLY', 1, true) and noted or replica(S, token)
    if refused then
        return refused -- also where the user may not HMSET, which is said first
    end
end
if ARGV[3] or now then -- none of what is made here is of use to a lock that nobody waits for
-- with near
    if ARGV[3] and ARGV[3] ~= '' then
        local gone = redis.pcall('ZREM', L, ARGV[3])
        near(type(gone) == 'number' and gone or 0)
    end
    if now and (mine or not found) then
-- with draw
-- with grant
        local function pass_on()
            local turn = redis.call('ZRANGE', L, 0, 0)[1] or ''
            local row = redis.call('HGET', S, 'row')
            local fair, inbox = string.match(turn, '^%S+ %d+ 1 '), string.match(turn, '^%S+ %S+ %S+ (%S+) ')
            -- without row_ends: if false then
            -- without fair_before_others: if inbox and (tonumber(row or 0) or 0) >= 200 then
            if inbox and not fair and (tonumber(row or 0) or 0) >= 200 then
                redis.call('HMSET', S, 'row', '0') -- a chance for those who only ever try
                local heard = redis.pcall('PUBLISH', inbox, 'look ' .. K)
                -- without unheard_chance_ends: if true then
                if type(heard) == 'number' and heard > 0 then
                    return false
                end
            end
            local given, wrong = grant(now)
            -- without failed_grant_notifies: for _, entry in ipairs({}) do
            for _, entry in ipairs(wrong and redis.call('ZRANGE', L, 0, 2) or {}) do -- who looks may have it all the same
                redis.pcall('PUBLISH', string.match(entry, '^%S+ %S+ %S+ (%S+) ') or '', 'look ' .. K)
            end
            return given
        end
        -- without release_survives_refusals: local done, given = true, pass_on()
        local done, given = pcall(pass_on)
        if done and given then
            return status
        end
    end
end
-- with idle
if mine or s[1] == token then
    -- without release_announced:
    redis.pcall('PUBLISH', S, '')
end
return status == 0 and type(found) == 'string' and found or status
