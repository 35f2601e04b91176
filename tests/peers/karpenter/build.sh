#!/usr/bin/env bash
# Builds karpenter-peer into the cache folder that it is given, unless it is there: `build.sh DIR` prints its path.
# The file's name carries a hash of the sources, so that a changed version builds anew and an old one stays usable.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${1:?usage: build.sh DIR}
key=$(cat "$here"/go.mod "$here"/go.sum "$here"/*.go "$here"/build.sh | sha256sum | cut -c1-16)
binary=$cache/karpenter-peer-$key
mkdir -p "$cache"
# Two programs may want it at once: the second one waits and finds it built.
exec 9>"$cache/.lock"
flock 9
if [ ! -x "$binary" ]; then
    echo "karpenter-peer: building Karpenter's scheduler (about 4 minutes on 2 cores when Go's cache is cold, seconds when warm)" >&2
    (cd "$here" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$binary.part" .)
    mv "$binary.part" "$binary"
fi
echo "$binary"
