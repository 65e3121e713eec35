#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the suites of a transport again and again, each pass with another seed, on a copy of a build that later work does not touch.

A pass is every conformance suite (na, bulk, hg) over every protocol of the transport; each fifth pass also behind the fault
transport and over twins (other names of a protocol), each tenth also the crash tests. What is whole is noted, so that it goes on where it was stopped. The last line is
`N passed, N failed`, of programs; the status is 1 if one has failed.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

SOMETIMES, CRASHES = 5, 10  # each so many passes


def arguments():
    parser = argparse.ArgumentParser(prog="./dev repeat", description=__doc__.splitlines()[0])
    parser.add_argument("suite", nargs="?", default="ofi", help="loop, sm, ofi or ucx (default: ofi)")
    parser.add_argument("--passes", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=2 * (os.cpu_count() or 1), help="programs at a time")
    parser.add_argument("--build", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--out", required=True, help=argparse.SUPPRESS)
    return parser.parse_args()


class Programs:
    """The test programs of a suite, as meson would run them, out of the copy."""

    def __init__(self, build, copy, suite):
        listing = subprocess.run(["meson", "introspect", "--tests", build], capture_output=True, text=True, check=True).stdout
        self.every, self.sometimes, self.crashes = [], [], []
        seen = set()
        for test in json.loads(listing.replace(os.path.abspath(build), copy)):
            suites = {name.split(":")[-1] for name in test["suite"]}
            words = test["cmd"]
            # A program and its protocol, whatever the fault plan; further arguments and settings are variants of it.
            if suite not in suites or not suites & {"conformance", "crash"} or words[1:2] != ["--protocol"]:
                continue
            protocol = words[2].split("?")[0]
            key = (words[0], protocol)
            if key in seen or os.path.basename(words[0]).find("cxx") >= 0:
                continue
            seen.add(key)
            if "crash" in suites:
                self.crashes.append(test)
            elif protocol.startswith("fault+") or ";" in protocol:
                self.sometimes.append(test)
            else:
                self.every.append(test)

    def of_pass(self, number):
        chosen = list(self.every)
        if number % SOMETIMES == 0:
            chosen += self.sometimes
        if number % CRASHES == 0:
            chosen += self.crashes
        random.Random(number).shuffle(chosen)
        return chosen


def command(test, seed):
    words = [re.sub(r"\bseed=\d+", f"seed={seed}", word) for word in test["cmd"]]
    if "--seed" in words:
        at = words.index("--seed")
        del words[at:at + 2]
    return words + ["--seed", str(seed)]


class Run:
    def __init__(self, folder):
        self.folder = folder
        self.log = os.path.join(folder, "log.jsonl")
        self.lock = threading.Lock()
        self.alone = threading.Lock()  # for tests that must not run beside their like
        self.done = {}
        if os.path.exists(self.log):
            with open(self.log, encoding="utf-8") as log:
                for line in log:
                    try:
                        entry = json.loads(line)
                    except ValueError:  # stopped while writing it
                        continue
                    self.done[entry["pass"], entry["name"]] = entry["ok"]

    def one(self, number, test):
        seed = number * 7919 + 13
        if test["is_parallel"]:
            result = self.execute(test, seed)
        else:
            with self.alone:
                result = self.execute(test, seed)
        good = result.returncode == 0
        entry = {"pass": number, "name": test["name"], "ok": good, "status": result.returncode, "at": time.strftime("%H:%M:%S")}
        with self.lock:
            self.done[number, test["name"]] = good
            with open(self.log, "a", encoding="utf-8") as log:
                log.write(json.dumps(entry) + "\n")
        if not good:
            name = "".join(c if c.isalnum() else "_" for c in test["name"])[:60]
            output = os.path.join(self.folder, f"failed-{number}-{name}.txt")
            with open(output, "wb") as file:
                file.write((" ".join(command(test, seed)) + "\n").encode() + result.stdout)
            print(f"pass {number}: FAILED {test['name']} (status {result.returncode}): {output}", flush=True)

    @staticmethod
    def execute(test, seed):
        env = {**os.environ, **test["env"]}
        limit = test["timeout"] * 10  # others are at work beside it; the program's own watchdog knows better
        try:
            return subprocess.run(command(test, seed), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit)
        except subprocess.TimeoutExpired as over:
            return subprocess.CompletedProcess(over.cmd, "timeout", over.stdout or b"")


def main():
    options = arguments()
    copy = os.path.join(os.path.abspath(options.out), "build")
    if not os.path.isdir(copy):
        shutil.rmtree(copy + ".part", ignore_errors=True)
        shutil.copytree(options.build, copy + ".part", symlinks=True)
        os.rename(copy + ".part", copy)
    programs = Programs(options.build, copy, options.suite)
    if not programs.every:
        sys.exit(f"no conformance suites of \"{options.suite}\" were built")
    run = Run(options.out)
    before = sum(1 for number in range(1, options.passes + 1)
                 if all((number, test["name"]) in run.done for test in programs.of_pass(number)))
    print(f"{options.suite}: {options.passes} passes, {before} of them done before, in {options.out}", flush=True)
    begun = []
    with ThreadPoolExecutor(options.at_once) as pool:
        for number in range(1, options.passes + 1):
            for test in programs.of_pass(number):
                if (number, test["name"]) not in run.done:
                    begun.append(pool.submit(run.one, number, test))
    for each in begun:
        each.result()  # what could not be run at all is no success
    failed = sum(1 for good in run.done.values() if not good)
    print(f"{len(run.done) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
