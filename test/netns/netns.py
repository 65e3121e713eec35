#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Server and client on different hosts: RPCs and bulk transfers over IPv4 and IPv6, chosen interfaces, small packets, cables
that are pulled, hosts that go. Needs root, for namespaces; exits with 77 and the reason where it cannot run.

  netns.py --peer PROGRAM [--demo PROGRAM] --protocol ofi+tcp [SCENARIO...]"""

import argparse
import filecmp
import os
import signal
import subprocess
import sys
import tempfile
import time

from hosts import Failure, Network, why_not, why_not_broken

SKIP = 77
LIMIT = 240  # seconds, of everything
KINDS = ("echo", "input", "output", "pull", "push", "note")
options = None


def require(condition, what):
    if not condition:
        raise Failure(what)


def start(host, where="", subnet=""):
    """A process that serves and calls."""
    process = host.start([options.peer, options.protocol, str(LIMIT), where, subnet])
    first = process.hear()
    require(first == "ready", f"{process.name}: {first}")
    process.uri = process.ask("uri")
    return process


def call_all(client, peer, rounds=3):
    for _ in range(rounds):
        for kind in KINDS:
            client.ask(f"call {peer} {kind}")


def wait_for(done, limit, what):
    end = time.monotonic() + limit
    while not done():
        require(time.monotonic() < end, f"{what} within {limit} s")
        time.sleep(0.05)


def progresses(client, peer, more=20, limit=20):
    """What was started at a peer goes on."""
    first = int(client.ask(f"done {peer}"))
    wait_for(lambda: int(client.ask(f"done {peer}")) >= first + more, limit, f"{client.name}: no progress after {first} calls")


def close(*processes):
    for process in processes:
        process.ask("close")
        require(process.wait(20) == 0, f"{process.name} failed\n{process.log()}")
        require(not process.notes, f"{process.name}: {process.notes}")


def two_hosts(network, *subnets, mtu=1500):
    """Hosts a and b, with an interface in each subnet ("10.1.0.{}/24")."""
    hosts = network.host("a"), network.host("b")
    for number, subnet in enumerate(subnets):
        for host, last in zip(hosts, (1, 2)):
            host.join(f"net{number}", subnet.format(last), mtu=mtu)
    return hosts


def demo(server_host, client_host):
    """The demo program, which checks every byte."""
    if not options.demo:
        return
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "file")
        with open(source, "wb") as file:
            file.write(os.urandom(5_000_001))
        server = server_host.start([options.demo, "server", "--protocol", options.protocol, "--directory", folder])
        address = server.hear()
        client = client_host.start([options.demo, "client", "--server", address, "--calls", "200", "--timeout", "20",
                                    "--stop", source])
        require(client.wait(60) == 0, f"the demo's client failed\n{client.log()}")
        require(server.wait(20) == 0, f"the demo's server failed\n{server.log()}")
        require(filecmp.cmp(source, source + ".stored", shallow=False), "the demo stored something else")


def serve_and_call(a, b):
    server = start(b)
    client = start(a)
    require("127.0.0.1" not in server.uri and "[::1]" not in server.uri, f"listens at {server.uri}")
    peer = client.ask(f"peer {server.uri}")
    back = server.ask(f"peer {client.uri}")
    call_all(client, peer)
    call_all(server, back)
    close(client, server)
    demo(b, a)


def ipv4(network):
    serve_and_call(*two_hosts(network, "10.1.0.{}/24"))


def ipv6_only(network):
    a, b = two_hosts(network, "fd00:1::{}/64")
    server = start(b)
    require("[fd00:1::2]:" in server.uri, f"listens at {server.uri}")
    close(server)
    serve_and_call(a, b)


def two_subnets(network):
    a, b = two_hosts(network, "10.1.0.{}/24", "10.2.0.{}/24")
    for number in (0, 1):
        for where, subnet in (("", f"10.{number + 1}.0.0/24"), (f"eth{number}", ""), (f"10.{number + 1}.0.", ""),
                              (f"eth{number}:7100-7110", "10.0.0.0/8")):
            def of(last):
                return where + str(last) if where.endswith(".") else where
            server = start(b, of(2), subnet)
            client = start(a, of(1), subnet)
            require(f"//10.{number + 1}.0.2:" in server.uri, f"{where} {subnet}: listens at {server.uri}")
            require(":71" not in where or ":71" in server.uri, f"{where}: listens at {server.uri}")
            peer = client.ask(f"peer {server.uri}")
            before = [a.sent("eth0"), a.sent("eth1")]
            call_all(client, peer)
            sent = [a.sent("eth0") - before[0], a.sent("eth1") - before[1]]
            require(sent[number] > 1_000_000 > sent[1 - number] + 900_000, f"{where} {subnet}: bytes sent by eth0, eth1: {sent}")
            close(client, server)
    # What is not there is refused, with what is.
    for where, subnet, words in (("", "10.3.0.0/24", ("10.3.0.0/24", "10.1.0.2", "10.2.0.2")),
                                 ("eth7", "", ("eth7", "eth1 (10.2.0.2")), ("10.1.0.1", "", ("10.1.0.1", "10.1.0.2"))):
        process = b.start([options.peer, options.protocol, str(LIMIT), where, subnet])
        line = process.hear()
        require(line.startswith("failed") and all(w in line + process.log() for w in words), f"{where} {subnet}: {line}\n{process.log()}")
    # A port that is taken: an error, or the next of a range.
    first = start(b, "10.1.0.2:7200")
    second = start(b, "10.1.0.2:7200-7203")
    require(first.uri.endswith(":7200") and not second.uri.endswith(":7200"), f"{first.uri}, {second.uri}")
    process = b.start([options.peer, options.protocol, str(LIMIT), "10.1.0.2:7200"])
    line = process.hear()
    require(line.startswith("failed") and "7200" in line, f"a port that is taken: {line}\n{process.log()}")
    close(first, second)


def chosen_interface(network):
    """Where nothing is named: the default route first, a bridge last, and the loopback not without a word."""
    a = network.host("a")
    a.join("net0", "10.1.0.1/24")
    a.join("net1", "10.2.0.1/24")
    # A bridge with a carrier, as that of containers has while one of them runs.
    a.configure("link", "add", "br0", "type", "bridge")
    a.configure("link", "add", "port0", "type", "veth", "peer", "name", "container0")
    a.configure("link", "set", "container0", "up")
    a.configure("link", "set", "port0", "master", "br0", "up")
    a.configure("link", "set", "br0", "up")
    a.configure("address", "add", "10.0.0.1/16", "dev", "br0")

    def chosen(address, what):
        server = start(a)
        require(f"//{address}:" in server.uri, f"{what}: listens at {server.uri}")
        log = server.log()
        close(server)
        return log

    chosen("10.1.0.1", "without a default route")
    a.configure("route", "add", "default", "via", "10.2.0.9", "metric", "100")
    chosen("10.2.0.1", "with a default route")
    a.configure("route", "add", "default", "via", "10.1.0.9", "metric", "50")
    log = chosen("10.1.0.1", "with a better default route")
    require("no link with an address is up" not in log, log)
    a.configure("route", "del", "default", "via", "10.1.0.9")
    a.cable(1, False)
    wait_for(lambda: "NO-CARRIER" in a.configure("link", "show", "dev", "eth1"), 10, "the cable was not seen to be pulled")
    chosen("10.1.0.1", "with the default route's cable pulled")
    a.cable(0, False)
    a.configure("link", "del", "br0")
    a.configure("link", "del", "port0")
    wait_for(lambda: "NO-CARRIER" in a.configure("link", "show", "dev", "eth0"), 10, "the cable was not seen to be pulled")
    log = chosen("127.0.0.1", "with both cables pulled")
    require("no link with an address is up" in log, f"nothing was said of the loopback:\n{log}")


def no_way_answers():
    # UCX tells of no cause.
    return ["failed HG_ADDRNOTAVAIL"] + (["failed HG_HOSTUNREACH"] if options.protocol.startswith("ucx") else [])


def from_the_loopback(network):
    """Who is at 127.0.0.1 reaches nobody on other hosts, and is told so; the same address, of his own host, he does."""
    a, b = two_hosts(network, "10.1.0.{}/24")
    server, near, client = start(b), start(a), start(a, "127.0.0.1:0")
    peer = client.ask(f"peer {server.uri}")
    since = time.monotonic()
    client.tell(f"call {peer} echo")
    answer = client.hear(25)
    print(f"    {answer} after {time.monotonic() - since:.1f} s")
    require(answer in no_way_answers(), f"{client.name}: {answer}")
    call_all(client, client.ask(f"peer {near.uri}"))
    close(client, near, server)


def no_way(network):
    """A host without a way to a living peer does not call the peer dead: no route, a link that is down, no loopback."""
    a, b = two_hosts(network, "10.1.0.{}/24")
    b.join("net1", "10.2.0.2/24")
    server, far = start(b, "10.1.0.2:7500"), start(b, "10.2.0.2:7501")
    near = start(a, "127.0.0.1:7502")
    client = start(a)

    def unreached(uri, what):
        client.tell(f"call {client.ask(f'peer {uri}')} echo")
        answer = client.hear(25)
        print(f"    {what}: {answer}")
        require(answer in no_way_answers(), f"{what}: {answer}")

    unreached(far.uri, "no route")
    a.configure("link", "set", "eth0", "down")
    unreached(server.uri, "link down")
    a.configure("link", "set", "lo", "down")
    unreached(near.uri, "no loopback")
    a.configure("link", "set", "lo", "up")
    a.configure("link", "set", "eth0", "up")
    for process in (server, near):
        peer = client.ask(f"peer {process.uri}")
        wait_until_reached(client, peer)
        call_all(client, peer)
    # Nobody listens there: that is said as ever.
    client.tell(f"call {client.ask(f'peer {server.uri[:-1]}9')} echo")
    answer = client.hear(25)
    require(answer == "failed HG_HOSTUNREACH", f"nobody: {answer}")
    close(client, near, far, server)


def mtu_1280(network):
    serve_and_call(*two_hosts(network, "fd00:1::{}/64", mtu=1280))


def cable_pulled(network):
    """For three seconds in the middle of transfers. They survive, or end with a code; afterwards everything works."""
    a, b = two_hosts(network, "10.1.0.{}/24")
    c = network.host("c")
    c.join("net0", "10.1.0.3/24")
    server, client, other = start(b), start(a), start(c)
    peer = client.ask(f"peer {server.uri}")
    neighbour = other.ask(f"peer {server.uri}")
    for kind in ("pull", "push", "echo", "input"):
        client.ask(f"start {peer} {kind} 4")
        other.ask(f"start {neighbour} echo 2")
        progresses(client, peer, 10)
        a.cable(0, False)
        time.sleep(3)
        progresses(other, neighbour)  # others do not notice
        a.cable(0, True)
        # Until the retransmission of TCP that comes next.
        end = time.monotonic() + 30
        survived = True
        first = int(client.ask(f"done {peer}"))
        while int(client.ask(f"done {peer}")) < first + 8:
            if time.monotonic() > end or client.ask(f"flying {peer}") == "0":
                survived = False
                break
            time.sleep(0.1)
        codes = client.ask(f"stop {peer}", 40).split()[1:]
        require(survived or "HG_SUCCESS" not in codes, f"{kind}: neither goes on nor ends: {codes}")
        print(f"    {kind}: {'survived' if survived else 'ended with ' + ' '.join(sorted(set(codes)))}")
        if not survived:
            wait_until_reached(client, peer)
        client.ask(f"call {peer} {kind}")
        other.ask(f"stop {neighbour}")
    call_all(client, peer, 1)
    close(client, other, server)


def host_gone(network):
    """A host loses its power. What waits for it ends with HG_HOSTUNREACH, long before TCP gives up (15 minutes); others do not
    notice; it can be reached when it is back."""
    a, b = two_hosts(network, "10.1.0.{}/24")
    c = network.host("c")
    c.join("net0", "10.1.0.3/24")
    place = "10.1.0.2:7300"
    victim, survivor, client = start(b, place), start(c), start(a)
    lost = client.ask(f"peer {victim.uri}")
    kept = client.ask(f"peer {survivor.uri}")
    for life, kind in enumerate(("echo", "pull", "push")):
        client.ask(f"start {kept} echo 2")
        client.ask(f"call {lost} echo")
        client.ask(f"start {lost} {kind} 4")
        client.ask(f"hold {lost} 8")
        progresses(client, lost, 4)
        since = time.monotonic()
        b.power_off()
        client.tell(f"ended {lost}")
        codes = client.hear(30).split()[2:]
        print(f"    {kind}: {len(codes)} operations ended after {time.monotonic() - since:.1f} s")
        require(set(codes) == {"HG_HOSTUNREACH"}, f"{kind}: {sorted(set(codes))}")
        progresses(client, kept)
        client.ask(f"stop {kept}")
        b.create()
        b.join("net0", "10.1.0.2/24")
        victim = start(b, place)
        if life == 1:
            lost = client.ask(f"peer {victim.uri}")
        wait_until_reached(client, lost)
        call_all(client, lost, 1)
    # The other way round: a client whose host goes does a server no harm, and what it moves to and from there ends.
    close(client)
    for kind in ("pull", "push"):
        back = start(a)
        peer = back.ask(f"peer {survivor.uri}")
        back.ask(f"start {peer} {kind} 4")
        progresses(back, peer, 4)
        since = time.monotonic()
        a.power_off()
        other = start(b)
        peer = other.ask(f"peer {survivor.uri}")
        call_all(other, peer)
        close(other)
        begun = survivor.ask("pending")
        while survivor.ask("pending") != "0":
            require(time.monotonic() - since < 60, f"{kind}: transfers with a host that is gone do not end")
            time.sleep(0.1)
        print(f"    of a client, {kind}: {begun} transfers ended after {time.monotonic() - since:.1f} s")
        a.create()
        a.join("net0", "10.1.0.1/24")
    close(victim)
    survivor.notes = []
    survivor.kill()


def connection_broken(network):
    """A connection ends between two who live, with requests in it, and with answers. What waits for them ends, and everything
    works afterwards."""
    reason = why_not_broken()
    if reason:
        print(f"    SKIPPED: {reason}")
        return
    a, b = two_hosts(network, "10.1.0.{}/24")
    server, client = start(b), start(a)
    peer = client.ask(f"peer {server.uri}")
    for what, sender in (("requests", a), ("answers", b)):
        call_all(client, peer, 1)
        if what == "requests":
            a.cable(0, False)
            client.tell(f"call {peer} echo")
        else:
            arrived = int(server.ask("requests")) + 8
            client.ask(f"hold {peer} 8")
            wait_for(lambda: int(server.ask("requests")) >= arrived, 20, "requests do not arrive")
            a.cable(0, False)
            server.ask("release")
        since = time.monotonic()
        sender.break_connections()
        a.cable(0, True)
        if what == "answers":
            client.tell(f"ended {peer}")
        # What the provider had not handed to the kernel yet, or had kept, may still have come.
        answer = client.hear(30)
        print(f"    {what}: {answer} after {time.monotonic() - since:.1f} s")
        require(set(answer.split()) - {"ok", "failed", "0", "HG_SUCCESS"} <= {"HG_HOSTUNREACH"}, f"{what}: {answer}")
        wait_until_reached(client, peer)
    call_all(client, peer)
    close(client, server)


def wait_until_reached(client, peer, limit=30):
    """The first calls may meet what is left of the dead one."""
    end = time.monotonic() + limit
    while True:
        client.tell(f"call {peer} echo")
        line = client.hear()
        if line == "ok":
            return
        require(line == "failed HG_HOSTUNREACH", f"{client.name}: {line}")
        require(time.monotonic() < end, f"{client.name}: not reached again within {limit} s")


def process_killed(network):
    """kill -9 on another host: noticed at once."""
    a, b = two_hosts(network, "10.1.0.{}/24")
    client = start(a)
    for kind in ("echo", "pull", "push"):
        server = start(b, "10.1.0.2:7400")
        peer = client.ask(f"peer {server.uri}")
        wait_until_reached(client, peer)
        client.ask(f"start {peer} {kind} 4")
        client.ask(f"hold {peer} 8")
        progresses(client, peer, 4)
        since = time.monotonic()
        server.kill()
        client.tell(f"ended {peer}")
        codes = client.hear(20).split()[2:]
        require(set(codes) == {"HG_HOSTUNREACH"}, f"{kind}: {sorted(set(codes))}")
        print(f"    {kind}: noticed after {time.monotonic() - since:.1f} s")
    close(client)


SCENARIOS = (ipv4, ipv6_only, two_subnets, chosen_interface, from_the_loopback, no_way, mtu_1280, cable_pulled, connection_broken, process_killed, host_gone)


def skip(reason):
    print(f"SKIPPED: {reason}")
    return SKIP


def cannot_open():
    """Why the protocol cannot be opened on this machine; None: it can."""
    done = subprocess.run([options.peer, options.protocol, "20", "127.0.0.1"], input="close\n", capture_output=True, text=True,
                          timeout=60, check=False)
    return None if "ready" in done.stdout.splitlines() else (done.stdout + done.stderr).strip()


def main():
    global options
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", required=True)
    parser.add_argument("--demo", default="")
    parser.add_argument("--protocol", required=True)
    parser.add_argument("scenario", nargs="*")
    options = parser.parse_args()

    reason = why_not()
    if reason:
        return skip(reason)
    reason = cannot_open()
    if reason:
        if options.protocol in os.environ.get("CINNABAR_TEST_REQUIRED", "").split():
            print(f"FAILED: CINNABAR_TEST_REQUIRED says that {options.protocol} must run here: {reason}")
            return 1
        return skip(reason)

    # The end of the script is the end of the hosts, whoever ends it.
    def expired(number, frame):
        raise Failure(f"stopped by signal {number}" if number != signal.SIGALRM else f"not done within {LIMIT} s")
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, expired)
    signal.alarm(LIMIT)

    failures = 0
    for scenario in SCENARIOS:
        if options.scenario and scenario.__name__ not in options.scenario:
            continue
        since = time.monotonic()
        print(f"{scenario.__name__} ...", flush=True)
        try:
            with Network() as network:
                try:
                    scenario(network)
                except Failure:
                    for host in network.hosts:
                        for process in host.processes:
                            if process.notes or process.log():
                                print(f"--- {process.name}: {process.notes}\n{process.log()[-4000:]}")
                    raise
            print(f"{scenario.__name__}: ok, {time.monotonic() - since:.1f} s", flush=True)
        except Failure as failure:
            failures += 1
            print(f"{scenario.__name__}: FAILED: {failure}", flush=True)
            if "stopped by signal" in str(failure) or "not done within" in str(failure):
                break
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
