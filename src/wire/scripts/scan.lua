-- Go one step through the keys, and look at those that may be locks: short strings of a form that a lock's value has, and
-- the hashes of Redisson.
--
-- KEYS  none: they are what is asked for
-- ARGV  cursor, pattern, how many at about, longest value of use, longest key, the texts that are no numbers and
--       mean "never expires" to legacy clients, each between two blanks
-- Answers {cursor, TIME s, TIME us, {K, K's value, ms left, S's value, until, fence, since, owner, how many
--          listen on S, how many stand in line, of Redisson's lock 'redisson'}, ...}
--   or, where SCAN is refused or not there (before 2.8), {'SCAN', error}
--
-- Of all other keys nothing is read but STRLEN, and GET of the short ones, HLEN, and HKEYS of one or two: beside millions of
-- them that is what a scan costs. SCAN itself leaves out other types, from 6.0 on: by two calls from one cursor.
--
-- As look.lua says it: since may be the token of a lock that rests, who listens is -1 where the server doesn't
-- tell, a sidecar without a token binds nobody, and a refusal says nothing about locks and is told as it is.
local function sidecar(K)
    local open = string.find(K, '{', 1, true)
    local close = open and string.find(K, '}', open + 1, true)
    if close and close > open + 1 or string.find(K, '}', 1, true) then
        return K .. ':tidelock'
    end
    return 'tidelock:{' .. K .. '}'
end
local function refused(found)
    return type(found) == 'table' and found.err and not string.find(found.err, 'wrong kind of value', 1, true)
end
-- Must be true of every value that tl__look_is_lock() may take for a lock's, whether S binds it or not. A time has ten
-- digits: alone, before or behind its writer's ID (a UUID), or, badly written, among few other bytes. A token is
-- hexadecimal, a rest says so, and Java's serialised objects begin with two such bytes. A constant is a lock's where the
-- key's name says so.
local endless = ARGV[6] ~= ' ' and ARGV[6]
local constants = ' 1 true yes on ok lock locked '
local function is_constant(K, v)
    if #v > 6 or not string.find(v, '^%w+$') or not string.find(constants, ' ' .. string.lower(v) .. ' ', 1, true) then
        return false
    end
    K = string.lower(K)
    return string.find(K, '^lock') or string.find(K, '[^bc]lock') or string.find(K, 'mutex', 1, true)
end
local function resembles(K, v)
    if endless and string.find(endless, ' ' .. v .. ' ', 1, true) or is_constant(K, v) then
        return true
    elseif #v < 10 then
        return false
    end
    if #v <= 26 or string.find(v, '^%x') then
        local _, digits = string.gsub(v, '%d', '')
        if digits >= 10 then
            return true
        end
    end
    return #v >= 32 and not string.find(v, '[^%x-]') or string.find(v, '^resting ') or
           string.find(v, '^\172\237')
end
-- with redisson
local step = redis.pcall('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3], 'TYPE', 'string')
local typed = not step.err
if not typed then
    step = redis.pcall('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
end
if step.err then
    return {'SCAN', {err = step.err .. ' (scan)'}}
end
local time = redis.call('TIME')
local answer = {step[1], time[1], time[2]}
local longest_value, longest_key = tonumber(ARGV[4]), tonumber(ARGV[5])
local function is_a(kind, K)
    local found = redis.call('TYPE', K)
    return (found.ok or found) == kind
end
for _, K in ipairs(step[2]) do
    local v = #K <= longest_key and (typed or is_a('string', K)) and
              redis.call('STRLEN', K) <= longest_value and
              redis.call('GET', K)
    -- without forms_alone_reported: if v then
    if v and resembles(K, v) then
        local S = sidecar(K)
        local s = redis.pcall('HMGET', S, 'value', 'until', 'fence', 'since', 'owner', 'token', 'line')
        if refused(s) then
            return {err = s.err .. ' (hmget)'}
        end
        if not s[6] or s[6] == '' then
            s[1], s[2] = false, false -- released: it binds nobody
        elseif string.find(s[6], '^resting %d+ .') then
            s[4] = s[6]
        end
        local heard = redis.pcall('PUBSUB', 'NUMSUB', S)
        local stand = s[7] and s[7] ~= '' and redis.pcall('ZCARD', S .. ':line') or 0
        answer[#answer + 1] = {K, v,
                               redis.call('PTTL', K), s[1] or false, s[2] or false, s[3] or false,
                               s[4] or false, s[5] or false, heard[2] or -1,
                               type(stand) == 'number' and stand or -1}
    end
end
local hashes = typed and redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3], 'TYPE', 'hash') or step
for _, K in ipairs(hashes[2]) do
    if #K <= longest_key and (typed or is_a('hash', K)) and is_redissons(K) then
        answer[#answer + 1] = {K, false, redis.call('PTTL', K), false, false, false, false, false, -1, -1, 'redisson'}
    end
end
return answer
