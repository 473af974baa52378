-- How many of the `wanted` ms are left in which nothing may be given, since the server may have forgotten to whom it was
-- given last. nil, and what is wrong, where that can't be told; nil alone where the server doesn't tell who it is.
--
-- R has "REIGN SINCE": this run of the server with this history of replication, and since when that is known, by its clock
-- in us. After a restart the run is another; after a replica has taken over, the run and the history; where that server has
-- been master before, as the same process, only the history. Data that are gone have taken R along. R is one for a server,
-- and in a cluster one for a slot, with which it moves.
local function quiet(now, wanted)
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
    local R, reign = 'tidelock:reign' .. (alone and '' or string.match(F, ':{.*}$')), run .. '-' .. history
    local noted = redis.pcall('GET', R)
    if type(noted) == 'table' and not string.find(noted.err, 'wrong kind of value', 1, true) then
        return nil, {err = noted.err .. ' (get)'}
    end
    local same, since = string.match(type(noted) == 'string' and noted or '', '^(%S+) (%d+)$')
    since = same == reign and tonumber(since)
    if not since or since > now then -- later than now: the clock has been set back
        since = now
        local done = redis.pcall('SET', R, reign .. string.format(' %.0f', now))
        if done.err then
            return nil, {err = done.err .. ' (set)'}
        end
    end
    return math.max(math.ceil((since - now) / 1000 + wanted), 0)
end
-- What is answered where it may not be given yet, also to one whose own it seems to be: nobody believes in that so far.
-- nil: it may. `now` nil: it isn't known before a write.
local function withheld(now, wanted, answer)
    if not wanted then
        return nil
    end
    local left, wrong
    if now then
        left, wrong = quiet(now, tonumber(wanted))
    end
    if left == 0 then
        return nil
    end
    return wrong or answer(left and -4 or -5, left or -1)
end
