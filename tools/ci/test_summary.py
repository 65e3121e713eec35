#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sums up meson's testlog.json: prints the logs of tests that failed, names each skipped test with its reason, and ends
with one line, `N passed, N failed[, N skipped]`. Exits non-zero unless at least one test passed and none failed."""

import argparse
import json
import re
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}
LOG_LINES = 400  # of one failed test; the rest is in the log file
FAILURES = 8  # of one failed test, told again at the end
FAILURE_LINES = 14  # of each
CATCH_RULE = re.compile(r"^(-{20,}|\.{20,}|={20,})$")
CLOCK = re.compile(r"^\[\d+\.\d+\] ")


def tail(text, lines):
    """The last lines of a log, and how many were left out."""
    all_lines = text.rstrip().splitlines()
    return all_lines[-lines:], max(0, len(all_lines) - lines)


def without_repetitions(lines):
    """Log lines that differ in their time only, one after another, as one line with their number."""
    result, last, times = [], None, 0
    for line in lines + [None]:
        text = None if line is None else CLOCK.sub("", line)
        if text is not None and text == last and CLOCK.match(line):
            times += 1
            continue
        if times:
            result.append(f"    ({times} more like this)")
        if line is not None:
            result.append(line)
        last, times = text, 0
    return result


def assertions(test):
    """What Catch said of each assertion that failed, with the test case it is in. Whoever keeps only the end of a long
    output shall find the cause there."""
    lines = test.get("stdout", "").splitlines()
    found, case = [], []
    for at, line in enumerate(lines):
        # A rule, names, a rule, the place, a dotted rule.
        if CATCH_RULE.match(line) and line[0] == "-" and at + 2 < len(lines) and not lines[at + 2].startswith("....."):
            end = next((i for i in range(at + 1, min(at + 8, len(lines))) if lines[i].startswith("-----")), at + 2)
            case = lines[at + 1 : end]
        if re.search(r": FAILED:?$", line):
            end = at + 1
            while end < len(lines) and end < at + FAILURE_LINES and not CATCH_RULE.match(lines[end]):
                end += 1
            found.append(case + [text for text in lines[at:end] if text.strip()])
    return found


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
        for stream in ("stderr", "stdout"):
            lines, omitted = tail(test.get(stream, ""), LOG_LINES)
            lines = without_repetitions(lines)
            if lines:
                note = f" (the last {LOG_LINES} lines; {omitted} more in {options.log})" if omitted else ""
                print(f"---- {stream}{note}")
                print("\n".join(lines))
    if failed:
        print("\nFailed:")
        for test in failed:
            print(f"  {test['name']}: {test['result']}")
            told = assertions(test)
            for lines in told[:FAILURES]:
                print("\n".join(f"      {line}" for line in lines))
            if len(told) > FAILURES:
                print(f"      (and {len(told) - FAILURES} more assertions)")
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
