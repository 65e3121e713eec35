#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""That looking an address up takes no more work among 10,000 than among 10: instructions, as callgrind counts them.

  lookups.py PROGRAM PROTOCOL

The difference between two runs that differ in their number of lookups only. 77: cannot be counted here.
"""

import re
import shutil
import subprocess
import sys

LOOKUPS = 2000
ALLOWED = 1.25  # chains of a hash table differ a little


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)


def per_lookup(program, protocol, addresses):
    def total(lookups):
        done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, protocol, str(addresses),
                               str(lookups)], capture_output=True, text=True)
        if done.returncode != 0:
            print(done.stdout, done.stderr)
            sys.exit(f"FAILED: status {done.returncode}")
        return int(re.search(r"Collected : (\d+)", done.stderr).group(1))

    return (total(LOOKUPS) - total(0)) / LOOKUPS


def main():
    program, protocol = sys.argv[1:]
    if shutil.which("valgrind") is None:
        skip("no valgrind here (Debian: valgrind)")
    if subprocess.run([program, protocol, "1", "1"], capture_output=True).returncode == 77:
        skip(f"{protocol} cannot be opened here")
    few, many = per_lookup(program, protocol, 10), per_lookup(program, protocol, 10000)
    print(f"instructions per lookup: {few:.0f} among 10 addresses, {many:.0f} among 10000")
    if many > few * ALLOWED:
        sys.exit(f"FAILED: more than {ALLOWED:g} times as many")


if __name__ == "__main__":
    main()
