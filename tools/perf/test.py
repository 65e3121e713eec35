#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every tool once or twice over a transport, a real server beside it, every byte checked. Nothing here looks at a time.

  test.py FOLDER PROTOCOL       the folder with the tools; 77: the protocol is not here
"""

import json
import os
import subprocess
import sys
import tempfile

FOLDER, PROTOCOL = sys.argv[1], sys.argv[2]
COMM, NAME = PROTOCOL.split("+", 1)
COMMON = ["-c", COMM, "-p", NAME]
FEW = ["-l", "30", "-v"]


def run(tool, *arguments, status=0, place=COMMON):
    command = [os.path.join(FOLDER, tool), *place, *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
    if done.returncode != status:
        sys.exit(f"FAILED: status {done.returncode}, not {status}: {' '.join(command)}\n{done.stdout}{done.stderr}")
    print(f"ok: {' '.join(command[1:])}" if status == 0 else f"ok: refused: {' '.join(command[1:])}", flush=True)
    return done


def rows(done):
    return [line.split() for line in done.stdout.splitlines() if line and not line.startswith("#")]


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def sizes(low, high):
    return [low << i for i in range(40) if low << i <= high]


def skip_unless_there():
    probe = subprocess.run([os.path.join(FOLDER, "hg_first"), *COMMON, "--launch", "-l", "1"], capture_output=True, text=True,
                           timeout=100)
    if probe.returncode != 0 and "cannot open" in probe.stderr:
        if PROTOCOL in os.environ.get("CINNABAR_TEST_REQUIRED", "").split():
            sys.exit(f"FAILED: {probe.stderr}CINNABAR_TEST_REQUIRED says that it must run here")
        print(f"SKIPPED: {probe.stderr.strip()}")
        sys.exit(77)


def messages():
    for way in (["-b"], ["-x", "4", "-t", "2", "-X", "2"]):
        done = run("na_lat", "--launch", *FEW, "-y", "1", "-z", "1k", *way)
        expect([int(row[0]) for row in rows(done)] == sizes(1, 1024), "na_lat: one line for each size")
    for operation in ("put", "get"):
        run("na_bw", operation, "--launch", *FEW, "-y", "1", "-z", "256k", "-w", "3", "-b")
    run("na_bw", "get", "--launch", "-l", "5", "-v", "-x", "2", "-w", "2", "--clients", "2", "-y", "64k", "-z", "64k")


def calls():
    done = run("hg_rate", "--launch", *FEW, "-y", "0", "-z", "128k", "-b")
    expect([int(row[0]) for row in rows(done)] == [0] + sizes(1, 131072), "hg_rate: one line for each size")
    run("hg_rate", "--launch", *FEW, "-z", "16k", "--echo", "-x", "4")
    run("hg_rate", "--launch", *FEW, "-z", "64", "-x", "3", "-C", "2", "-X", "2", "-t", "3", "--clients", "2")
    run("hg_rate", "--launch", *FEW, "-z", "16k", "--in-place", "--idle-peers", "2", "--idle", "0.01")
    run("hg_rate", "-S", *FEW, "-z", "16k", "-x", "4")
    run("hg_first", "--launch", "-l", "2", "-x", "2")


def bulk():
    for operation in ("read", "write", "args"):
        run("hg_bw", operation, "--launch", *FEW, "-y", "4k", "-z", "256k", "-w", "3", "-x", "2", "-b")
    run("hg_bw", "read", "--launch", "-l", "5", "-v", "-y", "64k", "-z", "64k", "-R")
    run("hg_bw", "write", "--launch", "-l", "5", "-v", "-y", "64k", "-z", "64k", "--library-memory", "--clients", "2")
    run("hg_bw", "write", "-S", "-l", "5", "-v", "-y", "64k", "-z", "64k", "-w", "2")


def formats():
    done = run("hg_rate", "--launch", *FEW, "-y", "8", "-z", "16", "--format", "json")
    read = json.loads(done.stdout)
    expect([row["size"] for row in read["rows"]] == [8, 16], "JSON: one object for each size")
    expect(all(row["p50_us"] <= row["p99_us"] <= row["p99_9_us"] for row in read["rows"]), "JSON: percentiles in order")
    expect(all(row["operations"] == 30 for row in read["rows"]), "JSON: as many operations as were asked for")
    with tempfile.NamedTemporaryFile("r") as file:
        run("hg_rate", "--launch", *FEW, "-y", "8", "-z", "8", "--format", "csv", "-o", file.name)
        lines = [line for line in file.read().splitlines() if not line.startswith("#")]
        expect(len(lines) == 2 and lines[0].startswith("size,"), "CSV: a title and a line")
    expect("\r" not in done.stderr, "no progress line away from a terminal")


def separate_server():
    with tempfile.TemporaryDirectory() as folder:
        for server, tool in (("hg_perf_server", "hg_rate"), ("na_perf_server", "na_lat")):
            hostfile = os.path.join(folder, "hosts")
            process = subprocess.Popen([os.path.join(FOLDER, server), *COMMON, "-f", hostfile, "-v"],
                                       stdout=subprocess.PIPE, text=True)
            try:
                while "Waiting" not in (process.stdout.readline() or "Waiting"):
                    pass
                run(tool, "-f", hostfile, *FEW, "-z", "64")
                expect(process.wait(60) == 0, f"{server} ends well when its client is done")
                run(tool, "-f", os.path.join(folder, "none"), status=1)
            finally:
                process.kill()
                process.stdout.close()


def refused():
    run("hg_rate", place=[], status=1)
    run("hg_rate", "--no-such", status=1)
    run("hg_rate", "--launch", "-y", "64", "-z", "8", status=1)
    run("hg_bw", "--launch", "-z", "1024g", status=1)
    run("na_lat", "--launch", "-y", "512m", "-z", "1g", status=1)
    run("hg_rate", "--launch", place=["-p", "no_such"], status=1)


skip_unless_there()
for part in (messages, calls, bulk, formats, separate_server, refused):
    part()
print("all well")
