#!/bin/sh
# Makes a Python environment with moto in FOLDER and prints the path of its server. Does nothing when it is there.
# usage: tests/moto/install.sh FOLDER
set -eu

folder=${1:?usage: tests/moto/install.sh FOLDER}
here=$(cd "$(dirname "$0")" && pwd)
stamp="$folder/installed"

if ! cmp -s "$here/requirements.txt" "$stamp"; then
    echo "installing moto into $folder: one or two minutes and 320 MB, once" >&2
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt" >&2
    cp "$here/requirements.txt" "$stamp"
fi
echo "$folder/bin/moto_server"
