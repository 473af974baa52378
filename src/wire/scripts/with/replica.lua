-- What a replica doesn't know says nothing: another server may have given the lock since. It is one if it refuses to
-- write, though there is nothing to be written: then the error.
local function replica(key, token)
    local done = redis.pcall('ZREM', key, token)
    -- without replica_knows_nothing: return false
    return type(done) == 'table' and string.find(done.err, 'READONLY', 1, true) and done
end
