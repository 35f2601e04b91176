#!/usr/bin/env bash
# Builds the scheduler-referee once, into the cache folder that it is given: `build.sh DIR`.
# The folder's file name carries a hash of the sources, so that a changed version builds anew and an old one stays usable.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${1:?usage: build.sh DIR}
version=v1.36.3
key=$(cat "$here"/go.mod "$here"/go.sum "$here"/*.go "$here"/build.sh | sha256sum | cut -c1-16)
binary=$cache/scheduler-referee-$version-$key
mkdir -p "$cache"
# Two tests may want it at once: the second one waits and finds it built.
exec 9>"$cache/.lock"
flock 9
if [ ! -x "$binary" ]; then
    echo "scheduler-referee: building kube-scheduler $version (4 to 8 minutes on 2 cores when Go's cache is cold, a minute when warm)" >&2
    package=k8s.io/component-base/version
    (cd "$here" && CGO_ENABLED=0 go build -trimpath -o "$binary.part" \
        -ldflags "-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=36" .)
    mv "$binary.part" "$binary"
fi
echo "$binary"
