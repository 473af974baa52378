# Completion of what is about legacy clients.
_tidelock_legacy_commands=migrate
_tidelock_legacy_topics=dialects
_tidelock_legacy_words="init status advance rollback sweep clients acl"
_tidelock_legacy_valued="--protocol --namespace --clock-guard --dialect --legacy-ttl --legacy-ttl-min --clock-skew-max --legacy-delay-max --keys --pool-wait --publish"
_tidelock_legacy_valued+=" --phase --lease"

_tidelock_legacy_options() { # command
    case $1 in
    run | lock | unlock | extend | check | inspect | break)
        echo "--protocol --namespace --clock-guard --dialect --legacy-ttl-min --clock-skew-max --legacy-delay-max --strict"
        ;;
    skew) echo "--passive --legacy-ttl --dialect --keys --pool-wait --publish" ;;
    doctor) echo "--protocol --namespace --strict" ;;
    migrate)
        echo "--namespace --keys --again --phase --lease --watch --monitor --force --wait --yes --dry-run --history --json --format --dialect" \
            "--legacy-ttl-min --clock-skew-max --legacy-delay-max"
        ;;
    esac
}

# Sets values to what may follow the option; 1: it is none of these.
_tidelock_legacy_values() { # command option
    local dialects="java jedis-lock jedis-lock-uuid ms-pipe redis-doc node-ms py-float py-float-1 rb-mutex rb-objects"
    dialects+=" rb-resque rb-pid php-s c-lua"
    case $2 in
    --protocol) values="token bridge timestamp auto" ;;
    --dialect) values=$dialects ;;
    --legacy-ttl | --legacy-ttl-min | --clock-skew-max | --legacy-delay-max | --pool-wait | --lease) values="500ms 5s 30s 5m 1h" ;;
    --clock-guard) values="warn refuse off" ;;
    --phase) values="0 1 2 3" ;;
    --namespace | --keys | --publish) values= ;;
    --watch)
        [[ $1 == migrate ]] || return
        values="30s 5m 1h 1d"
        ;;
    *) return 1 ;;
    esac
}
