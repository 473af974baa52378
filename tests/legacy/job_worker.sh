#!/bin/bash
# A job under `tidelock run`, again and again; the lines of README.md. It is killed with this process' group.
#
#   job_worker.sh URL KEY REPLICAS PROGRAM
#
# PROGRAM job is one turn. Its status is 9 when it was told to stop.
legacy=(--legacy-ttl-min 1500ms --clock-skew-max 150ms --legacy-delay-max 75ms)
echo ready
line=
until [[ $line == stop ]]; do
    "${TIDELOCK:-build/tidelock}" --url "$1" run --protocol auto --namespace '*=default' "${legacy[@]}" \
        --wait 2s --conflict-exit-code 0 --wait-replicas "$3" "$2" -- "$4" job
    case $? in
    0) ;;
    9) break ;;
    69) echo "note slow job" ;;
    74) # its last ok may not have been read
        stops=
        echo ended
        until [[ $line == over ]]; do
            read -r line || exit 1
            [[ $line != stop ]] || stops=1
        done
        [[ ! $stops ]] || break
        ;;
    *) echo "note refused: status $?" ;;
    esac
    read -r -t 0.0$((RANDOM % 5 + 1)) line
done
echo end
