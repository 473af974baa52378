#!/bin/bash
# Nothing outside the rows asks which kind of server it is: what a kind does in a way of its own stands in its row
# (src/client/backend.h, src/transport/codec.h). So code of src/client and src/transport outside the rows' files names no kind,
# compares no row with another, and doesn't ask how many servers there are. Each finding is one line "file:line: rule".
# Usage: tests/lint/kinds.sh [ROOT]
set -u
cd "${1:-$(dirname "$0")/../..}" || exit 1

rows='backend|backend_[a-z]+|fleet_[a-z]+|cluster_[a-z]+|sentinel_view|votes|keeper_votes|batch_etcd|leases'
rows+='|codec_[a-z]+|gateway|http|grpc|grpc_reply|reply_room|members|watch|endpoint'
# Sizes, replies, options of the public header; guards have names of their own.
named='TL_QUORUM_MAX|TL_CLUSTER_DOWN|sentinel_user|sentinel_password|sentinel_login|GUARD\([a-z_]+\)'
kinds='codec_resp|etcd|quorum|cluster|sentinel|gateway'
asks='(codec|backend|holder|asker|runner|joiner)[[:space:]]*[!=]=|tl__backend_(server|sentinel|cluster|quorum|etcd)|TL_URL_[A-Z]+'
asks+='|servers[[:space:]]*([<>!=]=|>[^>]|==)|(if|while)[[:space:]]*\([a-z>.-]*members\)|![a-z>.-]*members\b|members[[:space:]]*(\?|&&|\|\||[!=]=)|(&&|\|\|)[[:space:]]*[a-z>.-]*members\b'

status=0
while IFS= read -r file; do
    name=${file##*/}
    [[ ${name%.c} =~ ^($rows)$ ]] && continue
    # Without comments, strings and includes, each line where it was.
    code=$(perl -0pe 's{/\*.*?\*/|"(?:\\.|[^"\\\n])*"|//[^\n]*}{$_ = $&; tr/\n//cd; $_}gse' "$file" | grep -v '^ *# *include' -n | sed -E "s/$named//g")
    while IFS=: read -r line _; do
        [[ -n $line ]] || continue
        echo "$file:$line: it asks for the kind of server: let its row say (src/client/backend.h, src/transport/codec.h)"
        status=1
    done < <(grep -iE "^[0-9]+:.*($kinds)|^[0-9]+:.*($asks)" <<<"$code")
done < <(find src/client src/transport -name '*.c' | sort)
exit $status
