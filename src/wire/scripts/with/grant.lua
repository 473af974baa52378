-- Give K, which is absent, to the first in line who can be told: by a message to an inbox that somebody
-- hears, or in this reply if it is `asker`'s entry. Answers its token, or false: nobody has got it; and what is
-- wrong, if something is. Where telling is forbidden who asks gets it, whoever is before: they would never know.
--
-- A '?' behind LIFETIME says that nobody may set K but he who waits: whether he may, by the phase of a migration, he
-- alone knows, and only when he does. S then binds all others for as long as he is given, K stays absent, and he is
-- called to take it: then it is his `own`, whoever is before. S's channel tells him, too, should he listen there by now.
--
-- One of these who can't be told polls: its inbox is "poll:" and when it came last, server us. It is called where that is no
-- more than 2 s ago, for 1 s, however short its lifetime is; and who is next looks when that is over. `claim` is then "poll",
-- which is nobody's inbox, so that no other who polls goes out with it. A client that knows nothing of this finds that nobody
-- listens there.
--
-- The line is a sorted set of "TOKEN LIFETIME NUMBERS INBOX OWNER", by the order of their coming. S keeps in
-- `claim` the inbox of one who was given the lock and has not renewed it yet. Was that in vain, all that
-- wait behind that inbox go out, and are told to look. Who isn't heard goes out, too: whoever lives comes back.
--
-- `line` is the name of F while somebody stands there.
--
-- All is written before anybody is told, so that what can't be written is not believed. And who is told has been
-- found to listen here, so that nothing is told in vain: a replica repeats the message to those who still listen there,
-- as after a failover, and who believes it must hold the lock.
local function grant(now, asker, own)
    local s = redis.call('HMGET', S, 'token', 'until', 'fence', 'claim', 'row', 'spent')
    local bound, last = s[1] and s[1] ~= '' and not own and (tonumber(s[2] or 0) or 0) >= now, nil
    -- without sidecar_bars_queue: if false then
    if bound then
        return false
    end
    local gone = 0
    -- without unclaimed_grant_lapses: if false then
    -- without release_sees_lapse: if asker and s[4] and s[4] ~= '' then
    if s[4] and s[4] ~= '' then
        for _, entry in ipairs(redis.call('ZRANGE', L, 0, -1)) do
            if string.match(entry, '^%S+ %S+ %S+ (%S+) ') == s[4] then
                gone = gone + redis.call('ZREM', L, entry)
            end
        end
        if gone > 0 then -- should only one of its handles be gone
            -- without lapsed_inbox_notified:
            redis.pcall('PUBLISH', s[4], 'look ' .. K)
        end
    end
    local heard, mute = {}, false
    -- without passes_over_10000: for _ = 1, math.huge do
    for _ = 1, 10000 do -- of a crowd that is gone all are passed over: who is left may look a minute later
        -- without first_waiter_first: local entry = (mute or own) and asker or redis.call('ZREVRANGE', L, 0, 0)[1]
        -- without muted_asker_granted: local entry = own and asker or redis.call('ZRANGE', L, 0, 0)[1]
        local entry = (mute or own) and asker or redis.call('ZRANGE', L, 0, 0)[1]
        if not entry then
            break
        end
        own = false
        local asks, token, px, called, numbers, inbox, owner =
            -- without odd_entry_passed_over: entry == asker, string.match(entry, '^(%S+) (%d+)(%??) (%d+) (%S+) (.*)$')
            entry == asker, string.match(entry, '^(%S+) ([1-9]%d*)(%??) ([1-9]%d?%d?) (%S+) (.*)$')
        -- without holder_passed_over: if token == s[6] then
        -- without spent_passed_over: if token == s[1] and not asks then
        if token == s[6] or token == s[1] and not asks then
            token = nil -- it was given up, or had the lock while it stood there, which it got by another way
        end
        -- without poller_called: local seen
        local seen = token and not asks and called == '?' and tonumber(string.match(inbox, '^poll:(%d+)$'))
        if seen then
            -- without gone_poller_passed_over: heard[inbox] = true
            heard[inbox] = now - seen <= 2000000
        elseif token and not asks and heard[inbox] == nil then
            local count = redis.pcall('PUBSUB', 'NUMSUB', inbox)
            mute = count.err ~= nil
            -- without muted_waiter_looks: if false then
            if mute and not asker then -- a call to look harms nobody, whoever hears it
                mute = redis.pcall('PUBLISH', inbox, 'look ' .. K) ~= 0
            end
            -- without unheard_passed_over: heard[inbox] = true
            heard[inbox] = not mute and not count.err and tonumber(count[2]) > 0
            if not heard[inbox] and not mute then -- should he listen at another node, which repeats it
                redis.pcall('PUBLISH', inbox, 'look ' .. K)
            end
        end
        -- without grant_to_listener: if token then
        if token and (asks or heard[inbox]) then
            local wrong
            last, wrong = draw(tonumber(numbers), now, s[3])
            if not last then
                return false, wrong
            end
            local row = tonumber(s[5] or 0) or 0 -- so many in a row without a chance for others
            local others = redis.call('ZCARD', L) - 1
            -- without grant_is_short: local lease = tonumber(px)
            -- without poller_binds_shortly: local lease = asks and tonumber(px) or math.min(tonumber(px), 5000)
            local lease = asks and tonumber(px) or seen and 1000 or math.min(tonumber(px), 5000)
            -- without row_counts_anew: row = numbers ~= '1' and row + 1 or 0
            row = others > 0 and numbers ~= '1' and row + 1 or 0
            redis.call('HMSET', S, 'token', token, 'value', token, 'until', string.format('%.0f', now + lease * 1000),
                       'fence', string.format('%.0f', last), 'since', string.format('%.0f', now), 'owner', owner,
                       -- without poller_claims_by_token: 'claim', asks and '' or inbox, 'line', others > 0 and F or '', 'row', row)
                       'claim', asks and '' or seen and 'poll' or inbox, 'line', others > 0 and F or '', 'row', row)
            -- without phase_waiter_sets: called = false
            called = called == '?' and not asks
            -- without unset_grant_unbinds: local set = called or redis.call('PSETEX', K, string.format('%.0f', lease), token)
            local set = called or redis.pcall('PSETEX', K, string.format('%.0f', lease), token)
            if not called and set.err then -- in a slot on the move, what isn't here any more is set at the other node
                redis.call('HMSET', S, 'token', '', 'claim', '', 'line', F)
                return false, {err = set.err .. ' (psetex)'}
            end
            mute = not asks and not seen and type(redis.pcall('PUBLISH', inbox, (called and 'look ' or string.format(
                'grant %s %.0f %.0f %d %d ', token, last - numbers + 1, now, lease, others)) .. K)) == 'table'
            if called and not mute and not seen then
                redis.pcall('PUBLISH', S, '')
            end
            -- without grant_to_listener: if not mute and (asks or heard[inbox]) then
            if not mute then
                near(gone + redis.call('ZREM', L, entry))
                -- without next_minds_poller: for _, other in ipairs({}) do
                for _, other in ipairs(seen and redis.call('ZRANGE', L, 0, 63) or {}) do
                    local behind = string.match(other, '^%S+ %S+ %S+ (%S+) ') or ''
                    if not string.find(behind, '^poll:%d+$') and redis.pcall('PUBLISH', behind, 'look ' .. K) ~= 0 then
                        break
                    end
                end
                return token
            end
            redis.call('DEL', K)
        end
        if mute and not asker then -- those in line look by themselves
            redis.call('HMSET', S, 'token', '', 'claim', '', 'line', F)
            return false
        end
        if not mute then
            gone = gone + redis.call('ZREM', L, entry)
        end
    end
    near(gone)
    local left = redis.call('ZCARD', L)
    redis.call('HMSET', S, 'token', '', 'claim', '', 'line', left > 0 and F or '')
    return false
end
