-- Extend locks that are still the sender's; never create one, never shorten one.
--
-- KEYS  K, S for each lock
-- ARGV  the sender's earliest idea of the server's time us, shortest lifetime of S ms; then for each
--       lock token, value for K, lifetime of K ms, how long S binds others ms (or '@' and until when,
--       server us); last not_after (server us; 0: no limit) and the sender's latest idea of the
--       server's time
-- Answers {TIME s, TIME us, {status, K's value, ms left} for each lock}
--   status 1 kept   0 another's   -1 absent   -2 past not_after
--
-- A request that was delayed on its way can arrive after a later one: hence nothing moves back. It
-- can also arrive after its sender has died: hence not_after, or a dead lock would live on.
local now, latest = tonumber(ARGV[1]), tonumber(ARGV[2 * #KEYS + 4])
local time
if redis.replicate_commands then
    redis.replicate_commands()
    time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
    latest = now
end
local not_after = tonumber(ARGV[2 * #KEYS + 3])
local late = time and not_after > 0 and now > not_after
local out = {0, 0}
for i = 1, #KEYS / 2 do
    local K, S = KEYS[2 * i - 1], KEYS[2 * i]
    local token, value = ARGV[4 * i - 1], ARGV[4 * i]
    local px, hold = tonumber(ARGV[4 * i + 1]), ARGV[4 * i + 2]
    local till = string.byte(hold) == 64 and tonumber(string.sub(hold, 2)) -- '@'
    if not till then
        till = latest + tonumber(hold) * 1000
    end
    local found = redis.pcall('GET', K)
    if type(found) == 'table' and not string.find(found.err, 'wrong kind of value', 1, true) then
        return {err = found.err .. ' (get)'} -- refused: that says nothing about the lock
    end
    local text = type(found) == 'string' and found
    local s = redis.call('HMGET', S, 'token', 'value', 'until')
    local status, left = found and 0 or -1, -1
    if late then
        status = -2
    elseif text and s[1] == token and text == s[2] then
        status = 1
        if text == token and value ~= text then -- its stamp has become a token: that it stays
            value, px = text, math.floor((till - latest) / 1000)
        end
        local later = till > (tonumber(s[3] or 0) or 0)
        if later and value ~= text then
            redis.call('PSETEX', K, string.format('%.0f', px), value)
            text = value
        elseif value == text and redis.call('PTTL', K) < px then
            redis.call('PEXPIRE', K, string.format('%.0f', px))
        end
        if later then
            local done = redis.pcall('HMSET', S, 'value', text, 'until', string.format('%.0f', till))
            if done.err and text ~= found then -- a stamp that S doesn't know binds for all of its lifetime
                redis.call('PSETEX', K, string.format('%.0f', px), found)
            end
            if done.err then
                return {err = done.err .. ' (hmset)'}
            end
        end
        left = redis.call('PTTL', K)
        local least = math.max(left, tonumber(ARGV[2]))
        if redis.call('PTTL', S) < least then
            redis.call('PEXPIRE', S, string.format('%.0f', least))
        end
    end
    out[i + 2] = {status, text, left}
end
time = time or redis.call('TIME')
out[1], out[2] = time[1], time[2]
return out
