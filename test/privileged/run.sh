#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A set-user-ID program must not obey the environment of its caller, nor files in the folders that the
# caller is in. Arguments: program, module, and where there is ucx: folder that the program looks for
# libraries in first, library, module of ucx.
set -euo pipefail
program="$1" module="$2" libraries="${3:-}" library="${4:-}" ucx="${5:-}"

if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null 2>&1; then
    echo "skipped: needs root, and setpriv of util-linux"
    exit 77
fi
folder="$(mktemp -d)"
trap 'rm -rf "$folder" "${libraries:-$folder}"' EXIT
chmod 755 "$folder"
mkdir "$folder/modules"
cp "$module" "$folder/modules/libna_plugin_intruder.so"
cp "$program" "$folder/plain"
cp "$program" "$folder/privileged"
chmod 4755 "$folder/privileged"
mkdir "$folder/here" "$folder/home"
if [ -n "$ucx" ]; then
    # Modules beside the library are the only ones that a privileged program loads.
    mkdir -p "$libraries/cinnabar"
    cp -L "$library" "$libraries/libcinnabar-na.so.0"
    cp "$ucx" "$libraries/cinnabar/"
    for place in here home; do
        printf 'UCX_LOG_LEVEL=info\nUCX_LOG_FILE=%s\n' "$folder/log/$place" >"$folder/$place/ucx.conf"
    done
fi
chmod -R a+rX "$folder" ${libraries:+"$libraries"}
mkdir -m 777 "$folder/log"

call() {
    cd "$folder/here"
    setpriv --reuid 65534 --regid 65534 --clear-groups env -u LD_LIBRARY_PATH HOME="$folder/home" NA_PLUGIN_PATH="$folder/modules" FI_PROVIDER_PATH=/tmp \
        UCX_MODULE_DIR=/tmp UNRELATED=1 HG_LOG_LEVEL=none "$@"
}
if ! call "$folder/plain" >"$folder/out" 2>&1; then
    echo "skipped: another user cannot run programs of this build: $(head -n 1 "$folder/out")"
    exit 77
fi
# The control: without privileges the module is loaded, and nothing is removed.
grep -q '^intruder runs$' "$folder/out"
grep -q '^FI_PROVIDER_PATH kept$' "$folder/out"
if [ -n "$ucx" ]; then
    grep -q '^ucx opened$' "$folder/out"
    [ -e "$folder/log/here" ]
    rm -f "$folder"/log/*
fi

cp "$(command -v id)" "$folder/id"
chmod 4755 "$folder/id"
if [ "$(call "$folder/id" -u)" != 0 ]; then
    echo "skipped: set-user-ID has no effect here (nosuid, or no_new_privs)"
    exit 77
fi
call "$folder/privileged" >"$folder/out" 2>&1
cat "$folder/out"
if grep -q 'intruder runs' "$folder/out"; then
    echo "the module of the caller was loaded"
    exit 1
fi
grep -q '^class refused$' "$folder/out"
grep -q '^FI_PROVIDER_PATH gone$' "$folder/out"
grep -q '^UCX_MODULE_DIR gone$' "$folder/out"
grep -q '^UNRELATED kept$' "$folder/out"
grep -q '^HOME kept$' "$folder/out"
if [ -n "$ucx" ]; then
    grep -q '^ucx opened$' "$folder/out"
    if [ -n "$(ls "$folder/log")" ]; then
        echo "UCX has read ucx.conf of the caller: $(ls "$folder/log")"
        exit 1
    fi
fi
