-- Renew locks that are still the sender's; never create one, never shorten one.
--
-- KEYS  K, S for each lock
-- ARGV  the sender's earliest idea of the server's time us, shortest lifetime of S ms, owner; then for each
--       lock token, value for K, lifetime of K ms, how long S binds others ms (or '@' and until when,
--       server us), fence; last not_after (server us; 0: no limit) and the sender's latest idea of the
--       server's time
-- Answers {TIME s, TIME us, {status, K's value, ms left} for each lock}
--   status 1 renewed   0 another's   -1 absent   -2 past not_after
--
-- A token that was set without S is written there by the first of these. A request that was delayed on its
-- way can arrive after a later one: hence nothing moves back. It can also arrive after its sender has died:
-- hence not_after, or a dead lock would live on.
local now, latest = tonumber(ARGV[1]), tonumber(ARGV[#ARGV])
local time
if redis.replicate_commands then
    redis.replicate_commands()
    time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
    latest = now
end
-- with replica
local not_after = tonumber(ARGV[#ARGV - 1])
-- without keep_by_limit: local late = false
local late = time and not_after > 0 and now > not_after
local out = {0, 0}
for i = 1, #KEYS / 2 do
    local K, S, at = KEYS[2 * i - 1], KEYS[2 * i], 5 * i - 2
    local token, value = ARGV[at + 1], ARGV[at + 2]
    local px, hold = tonumber(ARGV[at + 3]), ARGV[at + 4]
    local till = string.byte(hold) == 64 and tonumber(string.sub(hold, 2)) -- '@'
    if not till then
        till = latest + tonumber(hold) * 1000
    end
    local found = redis.pcall('GET', K)
    -- without other_kind_is_held: if type(found) == 'table' then
    if type(found) == 'table' and not string.find(found.err, 'wrong kind of value', 1, true) then
        return {err = found.err .. ' (get)'} -- refused: that says nothing about the lock
    end
    local text = type(found) == 'string' and found
    local s = redis.call('HMGET', S, 'token', 'value', 'until', 'fence', 'claim')
    local status, left, refused = found and 0 or -1, -1, nil
    local noted = s[1] == token
    if late then
        status = -2
    -- without keep_of_owner: elseif text and (text == token or text == s[2]) then
    -- without keep_of_same_value: elseif text and (text == token or noted) then
    elseif text and (text == token or noted and text == s[2]) then
        status = 1
        -- without token_stays_token: if false then
        if text == token and value ~= text then -- its stamp has become a token: that it stays
            value, px = text, math.floor((till - latest) / 1000)
        end
        -- without keep_binds: local later = false
        -- without stamp_never_shortened: local later = true
        local later = not noted or till > (tonumber(s[3] or 0) or 0)
        if later and value ~= text then
            redis.call('PSETEX', K, string.format('%.0f', px), value)
            text = value
        -- without keep_shortens_nothing: elseif value == text then
        elseif value == text and redis.call('PTTL', K) < px then
            redis.call('PEXPIRE', K, string.format('%.0f', px))
        else
            refused = replica(S, token)
        end
        local done = {}
        -- without keep_binds: if false then
        if not noted then
            local fence = ARGV[at + 5]
            if tonumber(fence) < (tonumber(s[4] or 0) or 0) then
                fence = s[4]
            end
            -- Where no fence is known, or the counter is ahead of the clock, it tells nothing of when K was taken.
            local since = fence ~= '0' and math.min(tonumber(fence), now) or now
            -- As long as K lasts, which its holder may count on, though this is for less.
            -- without keep_binds_as_key_lasts:
            till = math.max(till, latest + redis.call('PTTL', K) * 1000)
            done = redis.pcall('HMSET', S, 'token', token, 'value', text, 'until', string.format('%.0f', till),
                               'fence', fence, 'since', string.format('%.0f', since), 'owner', ARGV[3],
                               'claim', '')
        -- without keep_claims: elseif later then
        elseif later or s[5] and s[5] ~= '' then
            done = redis.pcall('HMSET', S, 'value', text, 'until', string.format('%.0f', later and till or s[3]),
                               'claim', '')
        end
        -- without stamp_not_left_unknown: if false then
        if done.err and text ~= found then -- a stamp that S doesn't know binds for all of its lifetime
            redis.call('PSETEX', K, string.format('%.0f', px), found)
        end
        if done.err then
            return {err = done.err .. ' (hmset)'}
        end
        left = redis.call('PTTL', K)
        local least = math.max(left, tonumber(ARGV[2]))
        if redis.call('PTTL', S) < least then
            redis.call('PEXPIRE', S, string.format('%.0f', least))
        end
    else
        refused = replica(S, token)
    end
    if refused then
        return refused
    end
    out[i + 2] = {status, text, left}
end
time = time or redis.call('TIME')
out[1], out[2] = time[1], time[2]
return out
