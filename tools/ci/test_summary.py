#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sums up meson's testlog.json: prints the logs of tests that failed, names each skipped test with its reason, and ends
with one line, `N passed, N failed[, N skipped]`. Exits non-zero unless at least one test passed and none failed."""

import argparse
import json
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}
LOG_LINES = 400  # of one failed test; the rest is in the log file


def tail(text, lines):
    """The last lines of a log, and how many were left out."""
    all_lines = text.rstrip().splitlines()
    return all_lines[-lines:], max(0, len(all_lines) - lines)


def reason_of_skip(test):
    """Test programs say why they skip in a line that holds the word; otherwise their last line is the best guess."""
    output = (test.get("stdout", "") + "\n" + test.get("stderr", "")).strip().splitlines()
    for line in reversed(output):
        if "skip" in line.lower():
            return line.strip()
    return output[-1].strip() if output else "no reason given"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("log")
    parser.add_argument("--status", type=int, default=0, help="exit status of `meson test`")
    options = parser.parse_args()

    tests = []
    try:
        with open(options.log, encoding="utf-8", errors="replace") as log:
            tests = [json.loads(line) for line in log if line.strip()]
    except (OSError, ValueError) as error:
        print(f"no usable test log: {error}", file=sys.stderr)

    passed = [t for t in tests if t["result"] in PASSED]
    skipped = [t for t in tests if t["result"] in SKIPPED]
    failed = [t for t in tests if t["result"] not in PASSED | SKIPPED]

    for test in failed:
        print(f"\n==== FAILED: {test['name']} ({test['result']}, after {test.get('duration', 0):.1f} s)")
        print("     " + " ".join(str(word) for word in test.get("command", [])))
        for stream in ("stdout", "stderr"):
            lines, omitted = tail(test.get(stream, ""), LOG_LINES)
            if lines:
                note = f" (the last {LOG_LINES} lines; {omitted} more in {options.log})" if omitted else ""
                print(f"---- {stream}{note}")
                print("\n".join(lines))
    if failed:
        print("\nFailed:")
        for test in failed:
            print(f"  {test['name']}: {test['result']}")
    if skipped:
        print("\nSKIPPED, so not tested here:")
        for test in skipped:
            print(f"  {test['name']}: {reason_of_skip(test)}")
    if not tests:
        print("No test was run.", file=sys.stderr)
    elif options.status != 0 and not failed:
        print(f"`meson test` ended with status {options.status} although no test failed.", file=sys.stderr)

    print(flush=True)
    sys.stderr.flush()
    summary = f"{len(passed)} passed, {len(failed)} failed"
    if skipped:
        summary += f", {len(skipped)} skipped"
    print(summary)
    sys.exit(0 if passed and not failed and options.status == 0 else 1)


if __name__ == "__main__":
    main()
