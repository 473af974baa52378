-- What is noted at `key`; '': nothing, or something of another kind. nil, and what is wrong, where it can't be read.
local function noted_at(key)
    local noted = redis.pcall('GET', key)
    if type(noted) == 'table' and not string.find(noted.err, 'wrong kind of value', 1, true) then
        return nil, {err = noted.err .. ' (get)'}
    end
    return type(noted) == 'string' and noted or ''
end
-- How many of the `wanted` ms are left since `since`, or, where that is nil or later than now (the clock has been set
-- back), since now; then also true.
local function left_of(since, now, wanted)
    local fresh = not since or since > now
    -- without wait_after_restart: return 0, fresh
    return math.max(math.ceil(((fresh and now or since) - now) / 1000 + wanted), 0), fresh
end
-- The same by the epoch of the Sentinels' configuration that names this server the master. Run and history are the same
-- where it has been the master before and has not been a replica since, as one that hung while another took over; the epoch
-- isn't. E has "EPOCH SINCE", and since when it is known that this server is the master in that epoch.
--
-- E is a key of its own, which clients that know no epoch leave alone: in R they would undo each other's notes for ever.
--
-- A higher epoch is another reign. A lower one is of an asker whose knowledge is old, or the Sentinels were all set up
-- anew and count from 0 again. It changes nothing for those who ask with the noted one, and is noted behind that: "EPOCH SINCE
-- LOWER SINCE". Whoever asks with it must wait like anybody, and when that is over it takes the place of the other, which thus
-- can't come again without a wait. Of two that are lower the higher counts, unless nobody came back with it in time.
local function quiet_in(E, epoch, now, wanted)
    local noted, wrong = noted_at(E)
    if not noted then
        return nil, wrong
    end
    local rest, since, lower, low_since
    noted, since, rest = string.match(noted, '^(%d+) (%d+)(.*)$')
    lower, low_since = string.match(rest or '', '^ (%d+) (%d+)$')
    local given, since, low_since = tonumber(epoch), tonumber(since), tonumber(low_since)
    local left, fresh = left_of(noted and since, now, wanted)
    local write
    -- without lower_epoch_waits_alone: if false then
    if not fresh and noted ~= epoch and given <= tonumber(noted) then
        local low_left, low_fresh = left_of(low_since, now, wanted)
        if lower == epoch and not low_fresh then
            left = low_left
            write = left == 0 and string.format('%s %.0f', lower, low_since)
        else
            left = wanted
            write = (low_fresh or low_left == 0 or given > tonumber(lower)) and
                        string.format('%s %.0f %s %.0f', noted, since, epoch, now)
        end
    elseif fresh or noted ~= epoch then
        left = wanted
        write = string.format('%s %.0f', epoch, now)
    end
    local done = write and redis.pcall('SET', E, write)
    if done and done.err then
        return nil, {err = done.err .. ' (set)'}
    end
    return left
end
-- How many of the `wanted` ms are left in which nothing may be given, since the server may have forgotten to whom it was
-- given last. nil, and what is wrong, where that can't be told; nil alone where the server doesn't tell who it is.
-- `epoch`: by which this server is the master, where the asker is told so; else nil.
--
-- R has "REIGN SINCE": this run of the server with this history of replication, and since when that is known, by its clock
-- in us. After a restart the run is another; after a replica has taken over, the run and the history; where that server has
-- been master before, as the same process, only the history, and neither if it was no replica in between: see above. Data that
-- are gone have taken R along. R is one for a server, and in a cluster one for a slot, with which it moves.
local function quiet(now, wanted, epoch)
    local told = ''
    for _, part in ipairs({'server', 'replication'}) do
        local text = redis.pcall('INFO', part)
        if type(text) == 'table' then
            return nil, {err = text.err .. ' (info)'}
        end
        told = told .. '\n' .. text
    end
    local run, history = string.match(told, '\nrun_id:(%x+)'), string.match(told, '\nmaster_replid:(%x+)')
    if not run or not history then
        return nil
    end
    local alone = string.find(told, '_mode:standalone', 1, true)
    -- without wait_by_history: local slot, reign = alone and '' or string.match(F, ':{.*}$'), run
    local slot, reign = alone and '' or string.match(F, ':{.*}$'), run .. '-' .. history
    local R = 'tidelock:reign' .. slot
    local noted, wrong = noted_at(R)
    if not noted then
        return nil, wrong
    end
    local same, since = string.match(noted, '^(%S+) (%d+)$')
    -- without wait_after_failover: since = tonumber(since)
    since = same == reign and tonumber(since)
    local left, fresh = left_of(since, now, wanted)
    if fresh then
        local done = redis.pcall('SET', R, reign .. string.format(' %.0f', now))
        if done.err then
            return nil, {err = done.err .. ' (set)'}
        end
    end
    -- without wait_after_failover: if false then
    -- without wait_by_history: if false then
    -- without wait_by_epoch: if false then
    if epoch then
        local longer
        longer, wrong = quiet_in('tidelock:reign:epoch' .. slot, epoch, now, wanted)
        return longer and math.max(left, longer), wrong
    end
    return left
end
-- What is answered where it may not be given yet, also to one whose own it seems to be: nobody believes in that so far.
-- nil: it may. `now` nil: it isn't known before a write.
local function withheld(now, wanted, answer)
    if not wanted or wanted == '' then
        return nil
    end
    local left, wrong
    if now then
        local ms, epoch = string.match(wanted, '^(%d+) ?(.*)$') -- the epoch stands behind it where there is one
        left, wrong = quiet(now, tonumber(ms), epoch ~= '' and epoch or nil)
    end
    if left == 0 then
        return nil
    end
    return wrong or answer(left and -4 or -5, left or -1)
end
