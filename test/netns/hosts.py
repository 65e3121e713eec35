# SPDX-License-Identifier: BSD-3-Clause
"""Hosts for tests: network namespaces, joined by veth to a switch (a namespace with bridges). All of it goes when the
Network is left, whatever happened, and what runs of tests that were killed have left goes when the next one begins."""

import os
import queue
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

PREFIX = "cinnabar-test"


class Failure(Exception):
    pass


def ip(*words, check=True):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, check=False)
    if check and done.returncode != 0:
        raise Failure(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Process:
    """A program on a host that is spoken to in lines. Every answer has a time limit."""

    def __init__(self, host, command, limit=30):
        self.name = f"{os.path.basename(command[0])} on {host.name}"
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(["ip", "netns", "exec", host.space, *command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True, bufsize=1)
        self.lines = queue.Queue()
        self.notes = []
        self.chatter = []  # what the log says on standard output: ours, UCX's
        threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True).start()
        self.limit = limit

    def _read(self, pipe):
        for line in pipe:
            (self.chatter.append if line.startswith(("# [", "[")) else self.lines.put)(line.rstrip("\n"))
        self.lines.put(None)

    def log(self):
        self.errors.seek(0)
        return "\n".join(self.chatter) + self.errors.read()

    def hear(self, limit=None):
        """The next line that is no note."""
        end = time.monotonic() + (limit or self.limit)
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise Failure(f"{self.name}: no answer within {limit or self.limit} s\n{self.log()}") from None
            if line is None:
                raise Failure(f"{self.name} has ended with {self.process.wait(10)}\n{self.log()}")
            if line.startswith("note "):
                self.notes.append(line[5:])
                continue
            return line

    def ask(self, line, limit=None):
        """A command; what follows "ok" in its answer."""
        self.tell(line)
        answer = self.hear(limit)
        if not answer.startswith("ok"):
            raise Failure(f"{self.name}: {line}: {answer}\n{self.log()}")
        return answer[3:]

    def tell(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failure(f"{self.name} has gone\n{self.log()}") from None

    def wait(self, limit):
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} does not end within {limit} s\n{self.log()}") from None

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)


class Host:
    def __init__(self, network, name):
        self.network = network
        self.name = name
        self.space = f"{network.prefix}-{name}"
        self.processes = []
        self.ports = []
        self.create()

    def create(self):
        ip("netns", "add", self.space)
        try:
            self.configure("link", "set", "lo", "up")
        except Failure:
            ip("netns", "del", self.space, check=False)  # nobody knows of it yet
            raise

    def configure(self, *words):
        return ip("-n", self.space, *words)

    def set(self, variable, value):
        subprocess.run(["ip", "netns", "exec", self.space, "sysctl", "-qw", f"{variable}={value}"], check=True, timeout=30)

    def join(self, switch, *addresses, mtu=1500):
        """Another interface: eth0, eth1, ... on bridge `switch`."""
        name = f"eth{len(self.ports)}"
        port = f"{self.name}{len(self.ports)}"
        switch_space = self.network.switch(switch)
        # A host that comes back has the card that it had: others remember its number.
        card = f"02:00:00:00:{ord(self.name[0]):02x}:{len(self.ports):02x}"
        ip("link", "add", name, "netns", self.space, "address", card, "type", "veth", "peer", "name", port, "netns", switch_space)
        self.ports.append(port)
        ip("-n", switch_space, "link", "set", port, "mtu", str(mtu), "master", switch, "up")
        self.configure("link", "set", name, "mtu", str(mtu), "up")
        for address in addresses:
            self.configure("address", "add", address, "dev", name, *(["nodad"] if ":" in address else []))
        return name

    def cable(self, port, plugged):
        ip("-n", self.network.switch_space, "link", "set", self.ports[port], "up" if plugged else "down")

    def break_connections(self):
        """Ends all connections of TCP here, as a firewall does that has forgotten them. What they hold is lost."""
        left = end_connections(["ip", "netns", "exec", self.space])
        if left:
            raise Failure(f"{self.name}: connections that do not end: {left}")

    def sent(self, interface):
        """Bytes that have left by an interface."""
        text = self.configure("-s", "link", "show", "dev", interface)
        return int(re.search(r"TX:.*\n\s*(\d+)", text).group(1))

    def start(self, command, limit=30):
        process = Process(self, command, limit)
        self.processes.append(process)
        return process

    def power_off(self):
        """The host is gone: nothing of it says good-bye, its cables being pulled first."""
        self.destroy()

    def destroy(self):
        # Not left to the end of the namespace, which comes some time after its deletion.
        for port in self.ports:
            ip("-n", self.network.switch_space, "link", "del", port, check=False)
        for process in self.processes:
            process.kill()
        self.processes = []
        self.ports = []
        ip("netns", "del", self.space, check=False)


class Network:
    """with Network() as network: hosts by network.host("a")."""

    def __init__(self):
        self.prefix = f"{PREFIX}-{os.getpid()}"
        self.switch_space = f"{self.prefix}-switch"
        self.hosts = []
        self.switches = set()

    def __enter__(self):
        sweep()
        ip("netns", "add", self.switch_space)
        return self

    def __exit__(self, kind, value, trace):
        for host in self.hosts:
            host.destroy()
        ip("netns", "del", self.switch_space, check=False)

    def switch(self, name):
        if name not in self.switches:
            ip("link", "add", name, "netns", self.switch_space, "type", "bridge", "forward_delay", "0")
            # No IPv6 of its own, which would delay ports and talk between.
            ip("-n", self.switch_space, "link", "set", name, "addrgenmode", "none", "up")
            self.switches.add(name)
        return self.switch_space

    def host(self, name):
        host = Host(self, name)
        self.hosts.append(host)
        return host


def end_connections(where, *which):
    """Those of a namespace; what is left of them."""
    listing = [*where, "ss", "-Htn", "state", "established", *which]
    # It complains of what it cannot end: what is left is looked at instead.
    subprocess.run([*listing, "-K"], capture_output=True, timeout=30, check=False)
    return subprocess.run(listing, capture_output=True, text=True, timeout=30, check=True).stdout


def why_not_broken():
    """Why connections cannot be ended by others here; None: they can."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=30), server.accept()[0]:
            try:
                left = end_connections([], "dport", "=", f":{port}")
            except (OSError, subprocess.SubprocessError) as error:
                return f"connections cannot be ended here: {error}"
    return "this kernel does not end connections (CONFIG_INET_DIAG_DESTROY)" if left else None


def sweep():
    """Removes the namespaces of test processes that have gone."""
    for line in ip("netns", "list", check=False).splitlines():
        space = line.split()[0] if line.split() else ""
        match = re.fullmatch(rf"{PREFIX}-(\d+)-\w+", space)
        if match and not os.path.exists(f"/proc/{match.group(1)}"):
            subprocess.run(["ip", "netns", "del", space], check=False, timeout=30, capture_output=True)


def why_not():
    """Why there can be no hosts here; None: there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    space = f"{PREFIX}-{os.getpid()}-probe"
    try:
        ip("netns", "add", space)
        try:
            ip("link", "add", "probe0", "netns", space, "type", "veth", "peer", "name", "probe1", "netns", space)
            ip("link", "add", "probe2", "netns", space, "type", "bridge")
        finally:
            ip("netns", "del", space, check=False)
    except (Failure, OSError) as error:
        return f"no network namespaces with veth and bridges here: {error}"
    return None
