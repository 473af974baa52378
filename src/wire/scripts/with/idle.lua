-- S, which had the fields s, has nothing left to tell but that the token is spent, and the server checks not_after: then it
-- goes when ARGV[2] ms have passed. By then no request for the token can take effect any more. Who broke the lock stays there.
local stays = redis.replicate_commands and tonumber(ARGV[2] or '')
-- without broken_stays_noted: local idle = stays and noted and not noted.err
local idle = stays and noted and not noted.err and not s[3]
-- without bound_sidecar_stays:
idle = idle and (not s[1] or s[1] == '' or s[1] == token)
-- without queue_keeps_sidecar: if idle then
if idle and (not s[2] or s[2] == '' or redis.pcall('ZCARD', L) == 0) then
    -- without idle_sidecar_goes:
    -- without spent_is_kept: redis.pcall('DEL', S)
    redis.pcall('PEXPIRE', S, ARGV[2])
end
