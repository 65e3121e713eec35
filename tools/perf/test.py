#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every tool once or twice over a transport, a real server beside it, every byte checked. Nothing here looks at a time.

  test.py FOLDER PROTOCOL       the folder with the tools; 77: the protocol is not here
"""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time

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
    run("na_lat", "-S", *FEW, "-z", "64", "-X", "2")
    # More threads than contexts: callbacks of one context run on several at once. The server ends, and nothing is posted twice.
    for way in (["--launch", "-t", "2"], ["--launch", "-t", "4"], ["-S", "-t", "2"]):
        done = run("na_lat", *way, "-x", "8", "-y", "8", "-z", "8", "-l", "20000" if NAME == "sm" else "2000")
        expect("in use" not in done.stderr, f"na_lat: {done.stderr}")
    run("na_bw", "put", "-S", *FEW, "-y", "4k", "-z", "16k", "-w", "2")


def calls():
    done = run("hg_rate", "--launch", *FEW, "-y", "0", "-z", "128k", "-b")
    expect([int(row[0]) for row in rows(done)] == [0] + sizes(1, 131072), "hg_rate: one line for each size")
    run("hg_rate", "--launch", *FEW, "-z", "16k", "--echo", "-x", "4")
    run("hg_rate", "--launch", *FEW, "-z", "64", "-x", "3", "-C", "2", "-X", "2", "-t", "3", "--clients", "2")
    run("hg_rate", "--launch", *FEW, "-z", "16k", "--in-place", "--thread-safe", "--idle-peers", "2", "--idle", "0.01")
    run("hg_rate", "-S", *FEW, "-z", "16k", "-x", "4")
    run("hg_rate", "-S", *FEW, "-z", "16", "-X", "2", "-t", "2")
    run("hg_first", "--launch", "-l", "2", "-x", "2")


def bulk():
    for operation in ("read", "write", "args"):
        run("hg_bw", operation, "--launch", *FEW, "-y", "4k", "-z", "256k", "-w", "3", "-x", "2", "-b")
    run("hg_bw", "read", "--launch", "-l", "5", "-v", "-y", "64k", "-z", "64k", "-R")
    run("hg_bw", "write", "--launch", "-l", "5", "-v", "-y", "64k", "-z", "64k", "--library-memory", "--clients", "2")
    run("hg_bw", "write", "--launch", *FEW, "-y", "1", "-z", "4k", "-w", "1")  # all of it would fit into a message
    run("hg_bw", "write", "-S", "-l", "5", "-v", "-y", "64k", "-z", "64k", "-w", "2")


def spoiled():
    """-v finds what arrives otherwise than it was sent, on whichever side: the fault transport changes, or leaves out, a byte of one in three."""
    place = ["-c", "fault", "-p", f"{PROTOCOL}?spoil=0.3"]
    for tool, *arguments in (("hg_rate",), ("hg_rate", "--echo"), ("hg_rate", "--in-place"), ("hg_bw", "write"), ("hg_bw", "read"),
                             ("hg_bw", "args"), ("na_lat",), ("na_bw", "put"), ("na_bw", "get")):
        done = run(tool, *arguments, "--launch", *FEW, "-y", "2k", "-z", "4k", place=place, status=1)
        expect("wrong bytes" in done.stderr or "other bytes" in done.stderr, f"{tool}: says what was found, not: {done.stderr}")
    run("hg_rate", "--launch", "-l", "30", "-y", "2k", "-z", "4k", place=place)  # who does not look does not find


def server_dies():
    """A client whose server is killed says what failed, and ends."""
    with tempfile.TemporaryDirectory() as folder:
        for server, tool, *arguments in (("na_perf_server", "na_bw", "put"), ("na_perf_server", "na_bw", "get", "-v"), ("na_perf_server", "na_lat"),
                                         ("hg_perf_server", "hg_rate"), ("hg_perf_server", "hg_bw", "read")):
            hostfile = os.path.join(folder, "hosts")
            process = subprocess.Popen([os.path.join(FOLDER, server), *COMMON, "-f", hostfile], stdout=subprocess.PIPE, text=True)
            client = None
            try:
                while "Waiting" not in (process.stdout.readline() or "Waiting"):
                    pass
                client = subprocess.Popen([os.path.join(FOLDER, tool), *arguments, *COMMON, "-f", hostfile, "-y", "64",
                                           "-z", "64", "-l", "1000000000"],
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                while not (line := client.stdout.readline() or "#").startswith("#"):
                    pass
                time.sleep(0.3)  # at work by now, or about to be: either way it ends
                process.kill()
                out, err = client.communicate(timeout=60)
                expect(client.returncode == 1 and f"{tool}: " in err, f"{tool} without its server: {client.returncode}, {line}{out}{err}")
                print(f"ok: {tool} {' '.join(arguments)}: {err.strip().splitlines()[-1]}", flush=True)
            finally:
                process.kill()
                process.wait()
                process.stdout.close()
                if client is not None:
                    client.kill()
                    client.wait()


def client_dies():
    """A server that stays goes on when clients are killed at work."""
    with tempfile.TemporaryDirectory() as folder:
        hostfile = os.path.join(folder, "hosts")
        for server, tool, *arguments in (("hg_perf_server", "hg_bw", "write"), ("hg_perf_server", "hg_bw", "read"), ("na_perf_server", "na_bw", "put")):
            with server_of(server, hostfile, "-N") as process:
                for _ in range(2):
                    with subprocess.Popen([os.path.join(FOLDER, tool), *arguments, *COMMON, "-f", hostfile, "-y", "4k", "-z", "1m", "-x", "4", "-w", "2",
                                           "-l", "1000000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
                        while not (client.stdout.readline() or "#").startswith("#"):
                            pass
                        time.sleep(0.2)
                        client.kill()
                run(tool, *arguments, "-f", hostfile, *FEW, "-y", "4k", "-z", "64k", "-x", "4", "-w", "2")
                process.terminate()
                expect(process.wait(60) == 0, f"{server} ends well after clients that were killed")


def floors():
    """What has no other side, or no memory, ends."""
    floor = os.path.join(FOLDER, "bench", "perf_floor")
    if NAME != "sm" or not os.path.exists(floor):
        return
    for wrong in (["line", "--cpus", "0,4095"], ["vm-read", "-y", "512t", "-z", "512t"], ["tcp-lat", "-y", "64", "-z", "8"]):
        run(os.path.join("bench", "perf_floor"), *wrong, place=[], status=1)
    with subprocess.Popen([floor, "line", "--seconds", "1000"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        while True:
            with open(children, encoding="ascii") as file:
                if child := file.read().split():
                    break
        time.sleep(0.1)  # at work by now, or about to be
        os.kill(int(child[0]), signal.SIGKILL)
        expect(process.wait(60) == 1, "perf_floor ends when its other side is gone")


def stopped_server():
    """A server that does not answer is named as the cause."""
    if NAME != "sm":
        return
    with tempfile.TemporaryDirectory() as folder:
        hostfile = os.path.join(folder, "hosts")
        with server_of("hg_perf_server", hostfile) as process:
            process.send_signal(signal.SIGSTOP)
            with subprocess.Popen([os.path.join(FOLDER, "hg_first"), *COMMON, "-f", hostfile, "-l", "1"], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) as client:
                expect("nothing has ended" in client.stderr.readline(), "hg_first says that nothing has ended")
                process.send_signal(signal.SIGCONT)
                expect(client.wait(60) == 0, "hg_first goes on when the server does")


def full():
    for form in ("text", "csv", "json"):
        done = run("hg_rate", "--launch", *FEW, "-y", "8", "-z", "8", "--format", form, "-o", "/dev/full", status=1)
        expect("/dev/full" in done.stderr, f"{form}: says where it cannot write")
    with open("/dev/full", "w", encoding="ascii") as nowhere:
        done = subprocess.run([os.path.join(FOLDER, "hg_rate"), *COMMON, "--launch", *FEW, "-y", "8", "-z", "8"], stdout=nowhere,
                              stderr=subprocess.PIPE, text=True, timeout=100)
        expect(done.returncode == 1 and "cannot write" in done.stderr, "results that nobody got are a failure")


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
    # What is of a transfer and what of an RPC with several is said.
    for form, said in (("text", "RPC p50"), ("csv", "rpc_p50_us"), ("json", "RPC with all its transfers")):
        done = run("hg_bw", "--launch", "-l", "3", "-y", "4k", "-z", "4k", "-w", "2", "--format", form)
        expect(said in done.stdout, f"{form}: says that percentiles are of an RPC")
    row = json.loads(done.stdout)["rows"][0]
    expect(row["transfers"] == 2, "JSON: transfers of an RPC")
    expect(row["median_of"] == ("blocks" if row["blocks"] else "samples"), "JSON: what the median is of")
    done = run("hg_first", "--launch", "-l", "3", "-x", "2", "--format", "json")
    row = json.loads(done.stdout)["rows"][0]
    expect(row["operations"] == 3 and row["median_of"] == "samples", "hg_first: an operation is a loop, the median is of those")
    expect(row["p50_us"] == row["median_us"], "hg_first: that median is the 50th percentile")
    done = run("hg_first", "--launch", "-l", "1")
    expect("Too short for blocks" in done.stdout, "text: says what the median is of")


@contextlib.contextmanager
def server_of(tool, hostfile, *arguments):
    """A server that has written its addresses; killed at the end if it is still there."""
    process = subprocess.Popen([os.path.join(FOLDER, tool), *COMMON, "-f", hostfile, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        while "Waiting" not in (process.stdout.readline() or "Waiting"):
            pass
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def separate_server():
    with tempfile.TemporaryDirectory() as folder:
        hostfile = os.path.join(folder, "hosts")
        for server, tool in (("hg_perf_server", "hg_rate"), ("na_perf_server", "na_lat")):
            # What Mercury's servers take besides, under each of its names.
            with server_of(server, hostfile, "-v", "--barrier", "--mbps", "-x", "0", "-C", "0") as process:
                run(tool, "-f", hostfile, *FEW, "-z", "64")
                expect(process.wait(60) == 0, f"{server} ends well when its client is done")
                run(tool, "-f", os.path.join(folder, "none"), status=1)
        with server_of("hg_perf_server", hostfile):
            done = run("na_lat", "-f", hostfile, *FEW, status=1)
            expect("na_perf_server" in done.stderr, f"na_lat at a server of RPCs: {done.stderr}")


def host_files():
    """What is no plain file is written through."""
    with tempfile.TemporaryDirectory() as folder:
        target, link, pipe = (os.path.join(folder, name) for name in ("target", "link", "pipe"))
        with open(target, "w", encoding="ascii") as file:
            file.write("old\n")
        os.symlink("target", link)
        os.mkfifo(pipe)
        for server, tool in (("hg_perf_server", "hg_rate"), ("na_perf_server", "na_lat")):
            with server_of(server, link) as process:
                run(tool, "-f", target, *FEW, "-z", "8")
                expect(process.wait(60) == 0 and os.path.islink(link), "a link stays one")
        process = subprocess.Popen([os.path.join(FOLDER, "hg_perf_server"), *COMMON, "-f", pipe], stdout=subprocess.DEVNULL)
        try:
            with open(pipe, encoding="ascii") as file, open(target, "w", encoding="ascii") as copy:
                copy.write(file.read())
            expect(stat.S_ISFIFO(os.lstat(pipe).st_mode), "a pipe stays one")
            run("hg_rate", "-f", target, *FEW, "-z", "8")
            expect(process.wait(60) == 0, "a server that has told its addresses to a pipe")
        finally:
            process.kill()
            process.wait()


def several_servers():
    """All addresses of a file are used, and all servers are told to end: each of them once."""
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("one", "other")]
        both = os.path.join(folder, "both")
        for server, tools in (("hg_perf_server", (("hg_rate", "-x", "5"), ("hg_bw", "write", "-x", "3", "-w", "2"), ("hg_rate", "-x", "1"),
                                                  ("hg_rate", "--clients", "2", "-C", "2"), ("hg_first", "-x", "3"))),
                              ("na_perf_server", (("na_lat", "-x", "5"), ("na_bw", "get", "-x", "3", "-w", "2"), ("na_bw", "put", "-x", "4")))):
            for tool, *arguments in tools:
                with server_of(server, files[0], "-C", "2") as one, server_of(server, files[1]) as other:
                    with open(both, "w", encoding="ascii") as file:
                        for name in files:
                            with open(name, encoding="ascii") as part:
                                file.write(part.read())
                    sizes_of = [] if tool == "hg_first" else ["-y", "8", "-z", "4k"]
                    run(tool, *arguments, "-f", both, *FEW, *sizes_of)
                    expect(one.wait(60) == 0 and other.wait(60) == 0, f"{tool}: both servers end")


def ports():
    """Each class of a server has a port, and those of its contexts follow it."""
    if NAME == "sm":
        return
    for tool in ("hg_rate", "na_lat"):
        for attempt in range(5):
            with socket.socket() as probe:
                probe.bind(("", 0))
                port = min(probe.getsockname()[1], 65000)
            command = [os.path.join(FOLDER, tool), *COMMON, "--launch", *FEW, "-y", "8", "-z", "8", "-P", str(port), "-C", "2", "-X", "2"]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
            if done.returncode == 0 or "in use" not in done.stderr or attempt == 4:  # by others
                break
        expect(done.returncode == 0, f"{tool}: two classes and a port: {done.stderr}")
        print(f"ok: {tool} -P {port} -C 2 -X 2", flush=True)


def refused():
    run("hg_rate", place=[], status=1)
    run("hg_rate", "--no-such", status=1)
    run("hg_rate", "--launch", "-y", "64", "-z", "8", status=1)
    run("hg_bw", "--launch", "-z", "1024g", status=1)
    run("na_lat", "--launch", "-y", "512m", "-z", "1g", status=1)
    run("hg_rate", "--launch", place=["-p", "no_such"], status=1)
    for wrong in (["--seconds", "nan"], ["--seconds", "0"], ["-l", "-1"], ["-y", "-1"], ["--idle", "-1"], ["--cpus", "0,4095"],
                  ["--server-cpus", "4095"], ["-z", "9223372036854775808", "-x", "2"], ["-S"]):
        run("hg_rate", "--launch", *wrong, status=1)
    run("hg_rate", "--server-cpus", "0", status=1)
    run("hg_bw", "--launch", "-x", "65535", "-w", "65536", "-z", "4g", status=1)  # more than 64 bits have room for
    for what in ("write", "args"):
        run("hg_bw", what, "--launch", "-y", "0", "-z", "0", status=1)
    run("hg_bw", "args", "--launch", "--library-memory", status=1)
    run("hg_bw", "--launch", "--library-memory", "-R", status=1)
    run("hg_rate", "--launch", "-P", "65535", "-C", "2", status=1)
    done = run("na_bw", "--launch", "-Z", "8", status=1)
    expect("-Z" in done.stderr or "takes from" in done.stderr, "a remedy for messages that are too small")


def options_of_mercury():
    """Scripts give all tools the same ones; what has no use is said."""
    every = ["-l", "3", "-w", "2", "-x", "2", "-m", "-R", "-B", "-M", "-s", "--mrecv-ops", "4", "--post-init", "8", "--msg_size", "16k", "-U", "-t", "1",
             "-C", "1", "-X", "1", "-b", "--buf_size_min", "8", "--buf_size_max", "64"]
    for tool, *operation in (("na_lat",), ("na_bw", "get"), ("hg_rate",), ("hg_bw", "read"), ("hg_bw", "args"), ("hg_first",)):
        run(tool, *operation, "--launch", *every)
    done = run("hg_rate", "--launch", "-l", "3", "-w", "2", "-y", "8", "-z", "8")
    expect("-w has no effect" in done.stderr, "what is ignored is said")
    done = run("hg_first", "--launch", "-l", "1", "-S", "-C", "2", "-X", "4", "-t", "8")
    for letter in "SCXt":
        expect(f"-{letter} has no effect" in done.stderr, f"hg_first says that -{letter} is ignored")
    # 0 is the default, and the smallest size no larger than the largest.
    done = run("hg_rate", "--launch", "-l", "2", "-x", "0", "-t", "0", "-C", "0", "-X", "0", "-z", "0")
    expect([int(row[0]) for row in rows(done)] == sizes(1, 65536), "hg_rate -z 0: all sizes")
    done = run("hg_bw", "write", "--launch", "-l", "2", "-w", "0", "-z", "2k")
    expect([int(row[0]) for row in rows(done)] == [2048], "hg_bw -z 2k: one size")
    done = run("hg_rate", "--launch", "-l", "2", "-y", "0", "-z", "0")
    expect([int(row[0]) for row in rows(done)] == [0], "hg_rate -y 0 -z 0: that size")
    for operation in ("put", "get"):
        run("na_bw", operation, "--launch", *FEW, "-R", "-x", "2", "-w", "2", "-y", "8", "-z", "64k")
    for tool, operation in (("na_bw", "get"), ("hg_bw", "read"), ("hg_bw", "write")):
        done = run(tool, operation, "--launch", *FEW, "-R", "-w", "3", "-y", "4k", "-z", "64k", "--format", "json")
        expect(all(row["register_us"] >= 0 and row["deregister_us"] >= 0 for row in json.loads(done.stdout)["rows"]),
               f"{tool} -R: the time that registering takes")
        done = run(tool, operation, "--launch", *FEW, "-R", "-w", "3", "-y", "4k", "-z", "4k", "--format", "csv")
        expect(len({len(line.split(",")) for line in done.stdout.splitlines() if not line.startswith("#")}) == 1, "CSV: a title for each column")
    # Processors are not confused with what follows them.
    cpu = str(min(os.sched_getaffinity(0)))
    run("hg_bw", "--launch", "--cpus", cpu, "read", "-l", "2", "-y", "4k", "-z", "4k")
    run("na_bw", "--launch", "--server-cpus", f"{cpu},{cpu}", "get", "--cpus", cpu, "--cpus", cpu, "-l", "2", "-y", "4k", "-z", "4k")


skip_unless_there()
for part in (messages, calls, bulk, spoiled, formats, full, separate_server, host_files, several_servers, ports, server_dies, client_dies, floors, stopped_server, refused, options_of_mercury):
    part()
print("all well")
