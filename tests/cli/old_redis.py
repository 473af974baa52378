"""What servers of other versions say of themselves and don't know, as far as the doctor asks: facts of real ones, for doctor_proxy.py.

VERSIONS[version] has: info, lines of INFO that differ (None: there is none); lacks, commands that are unknown; config, settings that
differ (None: not known); flags, of a user in ACL GETUSER;
has, commands that came after 7.0. What isn't named is as in Redis 7.0.
"""
NO_MODE = {"server_mode": None}
NO_LIMITS = {"maxmemory": None, "maxmemory_policy": None, "maxclients": None}  # until 3.2, maxclients until 6.0
NO_SCRIPTS = ["COMMAND", "ACL", "EVAL", "EVALSHA", "PSETEX", "PTTL", "PEXPIRE", "TIME", "SCAN", "WAIT", "PUBSUB"]
NEW_NAMES = {"min-replicas-to-write": None, "min-replicas-max-lag": None}
NO_QUORUM = {**NEW_NAMES, "min-slaves-to-write": None, "min-slaves-max-lag": None, "protected-mode": None}
OLDEST = {**NO_QUORUM, "bind": None, "port": None, "tcp-keepalive": None, "maxclients": None, "maxmemory-policy": "volatile-lru"}
FREE = ["on", "nopass", "allkeys", "allcommands"]

VERSIONS = {
    "2.2.15": {"info": {**NO_LIMITS, "redis_mode": None, "rdb_last_bgsave_status": None, "aof_last_write_status": None, "run_id": None},
               "lacks": NO_SCRIPTS + ["CLIENT"], "config": {**OLDEST, "timeout": "300"}},
    "2.4.18": {"info": {**NO_LIMITS, "redis_mode": None, "rdb_last_bgsave_status": None, "aof_last_write_status": None},
               "lacks": NO_SCRIPTS, "config": OLDEST},
    "2.6.17": {"info": {**NO_LIMITS, "aof_last_write_status": None}, "lacks": ["COMMAND", "ACL", "SCAN", "WAIT", "PUBSUB"],
               "config": {**NO_QUORUM, "maxmemory-policy": "volatile-lru"}},
    "2.8.24": {"info": NO_LIMITS, "lacks": ["ACL", "WAIT"], "config": {**NEW_NAMES, "protected-mode": None, "maxmemory-policy": "volatile-lru"}},
    "3.0.7": {"info": NO_LIMITS, "lacks": ["ACL"], "config": {**NEW_NAMES, "protected-mode": None}},
    "3.2.13": {"info": {"maxclients": None}, "lacks": ["ACL"], "config": NEW_NAMES},
    "4.0.14": {"info": {"maxclients": None}, "lacks": ["ACL"], "config": NEW_NAMES},
    "5.0.14": {"info": {"maxclients": None}, "lacks": ["ACL"], "config": {}},
    "6.0.16": {"info": {}, "lacks": ["ACL DRYRUN"], "config": {}, "flags": FREE},
    "6.0.17": {"info": {}, "lacks": ["ACL DRYRUN"], "config": {}, "flags": FREE},
    "6.2.6": {"info": {}, "lacks": ["ACL DRYRUN"], "config": {}, "flags": FREE + ["allchannels"]},
    "6.2.16": {"info": {}, "lacks": ["ACL DRYRUN"], "config": {}, "flags": FREE + ["allchannels"]},
    "7.2.6": {"info": {}, "lacks": [], "config": {}, "has": ["WAITAOF"]},
    "valkey-8.0.1": {"info": {"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "8.0.1", "redis_mode": None,
                              "server_mode": "standalone"}, "lacks": [], "config": {}, "has": ["WAITAOF"]},
}
