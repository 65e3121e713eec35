#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# When sm uses cross-memory attach: towards this user's processes, without CAP_SYS_PTRACE. Argument: program.
set -euo pipefail
program="$1"

if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null 2>&1; then
    echo "skipped: needs root, and setpriv of util-linux"
    exit 77
fi
unset NA_SM_CMA
without=(setpriv --bounding-set -sys_ptrace --inh-caps -sys_ptrace)
other=65534
failed=0

# Arguments: expected, what it is about, command.
expect() {
    local expected="$1" what="$2" said
    shift 2
    said="$("$@" 2>&1)" || true
    if [ "$said" = "$expected" ]; then
        echo "ok: $what: $said"
    else
        echo "FAILED: $what: expected \"$expected\", not \"$said\""
        failed=1
    fi
}

if [ "$("${without[@]}" env NA_SM_CMA=2 "$program" 0 2>/dev/null)" != attached ]; then
    echo "skipped: this machine permits no cross-memory attach between processes of one user"
    exit 77
fi
expect attached "one user, without the capability" "${without[@]}" "$program" 0
permitted="$(sed -n 's/^CapPrm:[[:space:]]*//p' /proc/self/status)"
if (( (16#$permitted >> 19) & 1 )); then
    expect bounced "one user, with CAP_SYS_PTRACE" "$program" 0
    expect attached "one user, with CAP_SYS_PTRACE, all trusted" env NA_SM_CMA=2 "$program" 0
else
    echo "not tried: root has no CAP_SYS_PTRACE here"
fi
expect bounced "one user, switched off" "${without[@]}" env NA_SM_CMA=0 "$program" 0
if ! setpriv --reuid "$other" --regid "$other" --clear-groups true 2>/dev/null; then
    echo "not tried: there is no user $other here"
    exit "$failed"
fi
for value in 1 2; do
    expect bounced "another user, NA_SM_CMA=$value" env NA_SM_CMA=$value NA_SM_ALLOW_UIDS=any "$program" "$other"
    expect bounced "another user, without the capability, NA_SM_CMA=$value" \
        "${without[@]}" env NA_SM_CMA=$value NA_SM_ALLOW_UIDS=any "$program" "$other"
done
exit "$failed"
