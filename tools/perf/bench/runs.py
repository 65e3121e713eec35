# SPDX-License-Identifier: BSD-3-Clause
"""Programs that measure: ours, the floors, and peers where they are installed. Each run answers a table {size: numbers}."""

import json
import os
import re
import shutil
import socket
import subprocess
import time

LAST_LINES = 8  # of what a program says when it fails
NOT_HERE = "(hg_info lists what is here)"  # so our tools say of a transport
# Where the processor time of the machine goes: what other programs took of it while a run was on.
TICK = os.sysconf("SC_CLK_TCK")


def machine_busy():
    """Seconds of processor time that anybody used so far."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(n) for n in file.readline().split()[1:]]
    return (sum(fields[:8]) - fields[3] - fields[4]) / TICK


def own_busy():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Missing(Exception):
    """What cannot be measured here, and why."""


class Failed(Exception):
    """What could be measured, and was not: a program that ended with an error, or never, or printed no figures."""


class Machine:
    """Where programs are, and on which processors the two sides run."""

    def __init__(self, folder, cpus, seconds):
        self.folder = folder
        self.client, self.server = cpus
        self.seconds = seconds
        # As root too what other users get: sm attaches to the memory of this user's processes.
        self.environment = {"NA_SM_CMA": "2", **os.environ, "UCX_LOG_LEVEL": "error", "HG_LOG_LEVEL": "error"}

    def tool(self, name):
        return os.path.join(self.folder, "tools", "perf", name)

    def call(self, command, more=0, environment=None):
        """What it prints. `more`: seconds that it takes besides the usual time of each size."""
        name = os.path.basename(command[3] if command[:2] == ["taskset", "-c"] else command[0])
        timeout = 120 + 40 * self.seconds + more  # two dozen sizes at most, each with a warm-up
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
                                  env=environment or self.environment)
        except FileNotFoundError as error:
            raise Missing(f"{command[0]} is not here") from error
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{name} did not end within {timeout:g} s") from error
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines()[-LAST_LINES:] or [f"status {done.returncode}"]
            raise (Missing if NOT_HERE in lines[-1] else Failed)("\n".join([f"{name}: {lines[0].removeprefix(name + ': ')}", *lines[1:]]))
        return done.stdout


def table(text):
    """The output of a tool of ours."""
    try:
        read = json.loads(text)
    except ValueError as error:
        raise Failed(f"printed no JSON: {error}") from error
    return {row["size"]: row for row in read["rows"]}, read.get("figures", {})


class Ours:
    """hg_rate, hg_bw, na_lat, na_bw."""

    own = True  # a failure is one of this project

    def __init__(self, tool, protocol, *arguments, seconds=1.0, pinned=True):
        comm, name = protocol.split("+", 1)
        self.pinned = pinned
        self.tool = tool
        self.seconds = seconds  # a factor
        self.arguments = [*arguments, "-c", comm, "-p", name]

    def __call__(self, machine):
        command = [machine.tool(self.tool), *self.arguments, "--launch", "--seconds", str(machine.seconds * self.seconds),
                   "--format", "json"]
        if self.pinned:
            command += ["--cpus", str(machine.client), "--server-cpus", str(machine.server)]
        return table(machine.call(command))[0]


class Idle(Ours):
    """Processor time while nothing happens, in percent; of the side that takes more."""

    def __init__(self, protocol, seconds):
        super().__init__("hg_rate", protocol, "-y", "8", "-z", "8", "--idle", str(seconds))
        self.idle_seconds = seconds

    def __call__(self, machine):
        command = [machine.tool(self.tool), *self.arguments, "--launch", "--seconds", "0.05", "--format", "json"]
        figures = table(machine.call(command, more=self.idle_seconds))[1]
        return {0: {"percent": max(figure["value"] for figure in figures.values())}}


class Floor:
    own = True

    def __init__(self, *arguments, seconds=1.0):
        self.arguments = arguments
        self.seconds = seconds

    def __call__(self, machine):
        command = [machine.tool(os.path.join("bench", "perf_floor")), *self.arguments, "--cpus", f"{machine.client},{machine.server}", "--seconds",
                   str(machine.seconds * self.seconds), "--format", "json"]
        return table(machine.call(command))[0]


class Pair:
    """Two instances of a program of somebody else's, the first one waiting for the second."""

    own = False

    def start(self, machine, command, environment=None):
        if shutil.which(command[0]) is None:
            raise Missing(f"{command[0]} is not installed")
        return subprocess.Popen(["taskset", "-c", str(machine.server), *command], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                env=environment or machine.environment)

    def both(self, machine, server, client, port, environment=None):
        process = self.start(machine, server, environment)
        try:
            wait_for_port(port, process)
            return machine.call(["taskset", "-c", str(machine.client), *client], environment=environment)
        finally:
            process.kill()
            process.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port, process):
    """Until somebody listens. Looked up, not tried: these programs take the first connection for their client."""
    wanted = f":{port:04X}"
    for _ in range(1000):
        for name in ("/proc/net/tcp", "/proc/net/tcp6"):
            with open(name, encoding="ascii") as file:
                for line in file:
                    fields = line.split()
                    if fields[1].endswith(wanted) and fields[3] == "0A":
                        return
        if process.poll() is not None:
            break
        time.sleep(0.01)
    raise Failed("the server side did not start")


class UcxPerftest(Pair):
    """Round trips of ucx_perftest -t tag_lat: twice what it prints, which is one way."""

    test = ("-t", "tag_lat")
    count, knee = 40000, 8192  # operations per second of measuring; the size at which half of them

    def __init__(self, transports, sizes):
        self.transports = transports
        self.sizes = sizes

    def row(self, numbers):
        # iterations, percentile, average, overall latency in us
        return {"median_us": 2 * float(numbers[1]), "mean_us": 2 * float(numbers[3])}

    def __call__(self, machine):
        rows = {}
        environment = dict(machine.environment, UCX_TLS=self.transports)
        for size in self.sizes:
            port = free_port()
            count = max(100, int(machine.seconds * self.count / (1 + size / self.knee)))
            text = self.both(machine, ["ucx_perftest", "-p", str(port)],
                             ["ucx_perftest", "127.0.0.1", "-p", str(port), *self.test, "-s", str(size), "-n", str(count),
                              "-w", str(count // 10), "-f", "-v"], port, environment)
            numbers = [line.split(",") for line in text.splitlines() if re.match(r"^\s*\d+,", line)]
            if not numbers:
                raise Failed("ucx_perftest printed no figures")
            rows[size] = self.row(numbers[-1])
        return rows


class UcxPut(UcxPerftest):
    """Puts of ucx_perftest -t ucp_put_bw, eight in flight: the time of each."""

    test = ("-t", "ucp_put_bw", "-O", "8")
    count, knee = 100000, 4096

    def row(self, numbers):
        return {"median_us": float(numbers[3]), "mean_us": float(numbers[3])}  # it has the mean only


class FiPingpong(Pair):
    """Round trips of fi_pingpong: twice what it prints, which is one way."""

    def __init__(self, provider, sizes):
        self.provider = provider
        self.sizes = sizes

    def __call__(self, machine):
        rows = {}
        for size in self.sizes:
            port = free_port()
            count = max(100, int(machine.seconds * 20000 / (1 + size / 8192)))
            common = ["-p", self.provider, "-e", "rdm", "-m", "tagged", "-I", str(count), "-S", str(size)]
            text = self.both(machine, ["fi_pingpong", "-B", str(port), *common],
                             ["fi_pingpong", "-P", str(port), *common, "127.0.0.1"], port)
            fields = text.strip().splitlines()[-1].split()
            if len(fields) < 7:
                raise Failed("fi_pingpong printed no figures")
            us = 2 * float(fields[6])
            rows[size] = {"median_us": us, "mean_us": us}  # it has the mean only
        return rows


class Echo:
    """The same call on another library, by a small program of ours (-Dbench_peers=true)."""

    own = False

    def __init__(self, library, sizes):
        self.library = library
        self.sizes = sizes

    def __call__(self, machine):
        path = machine.tool(os.path.join("bench", f"echo_{self.library}"))
        if not os.path.exists(path):
            raise Missing(f"echo_{self.library} is not built (-Dbench_peers=true, and its library)")
        text = machine.call([path, "--cpus", f"{machine.client},{machine.server}", "--seconds", str(machine.seconds), "-y",
                             str(self.sizes[0]), "-z", str(self.sizes[-1]), "--format", "json"])
        return table(text)[0]


class Instructions:
    """A test of test/path that counts instructions."""

    own = True

    def __init__(self, name):
        self.name = name

    def __call__(self, machine):
        if shutil.which("valgrind") is None:
            raise Missing("valgrind is not installed")
        script = os.path.join(os.path.dirname(__file__), "..", "..", "..", "test", "path", "instructions.py")
        text = machine.call(["python3", script, os.path.join(machine.folder, "test", "path", "instructions"), self.name], more=180)
        match = re.search(r"^([0-9.]+) instructions", text, re.MULTILINE)
        if match is None:
            raise Failed("no count")
        return {0: {"instructions": float(match.group(1))}}
