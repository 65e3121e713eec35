# SPDX-License-Identifier: BSD-3-Clause
"""What is measured beside what, and the figures to reach."""

from runs import Echo, FiPingpong, Floor, Idle, Instructions, Ours, UcxPerftest, UcxPut

SMALL = (8, 16, 32, 64)
CURVE = tuple(1 << i for i in range(3, 18))  # 8 B to 128 KiB
STEPS = tuple(1 << i for i in range(12, 17))  # 4 KiB to 64 KiB
MIB = 1 << 20
TCP_SIZES = tuple(1 << i for i in range(14, 25))
BULK_CURVE = tuple(1 << i for i in range(12, 23, 2))  # 4 KiB to 4 MiB


def groups(quick, idle_seconds):
    """name: runs that go side by side, one after the other in each round."""
    small = ["-y", "8", "-z", "64"]
    eight = ["-y", "8", "-z", "8"]
    curve = ["-y", "8", "-z", "128k"]
    bulk = ["-x", "8", "-w", "1", "-y", "1m", "-z", "1m"]
    sizes = ["-x", "8", "-w", "1", "-y", "4k", "-z", "4m"]
    stream = ["-y", str(TCP_SIZES[0]), "-z", str(TCP_SIZES[-1])]
    all_groups = {
        "sm calls": {
            "line": Floor("line"),
            "lines": Floor("lines"),
            "busy": Ours("hg_rate", "na+sm", "-b", *small),
            "default": Ours("hg_rate", "na+sm", *small),
            "16 in flight": Ours("hg_rate", "na+sm", "-b", "-x", "16", *small),
        },
        "sm arguments": {
            "na+sm": Ours("hg_rate", "na+sm", "-b", *curve, seconds=0.5),
            "memcpy": Floor("memcpy", "-w", "1", "-y", "64k", "-z", "64k"),
            "handover": Floor("handover", *curve, seconds=0.5),
        },
        "sm bulk": {
            "vm-read": Floor("vm-read", "-y", "1m", "-z", "1m"),
            "user": Ours("hg_bw", "na+sm", "-b", "write", *bulk),
            "memcpy": Floor("memcpy", "-y", "1m", "-z", "1m"),
            "library": Ours("hg_bw", "na+sm", "-b", "write", "--library-memory", *bulk),
        },
        "tcp calls": {
            "raw": Floor("tcp-lat", *small),
            "ofi+tcp": Ours("hg_rate", "ofi+tcp", "-b", *small),
            "ofi+tcp 64": Ours("hg_rate", "ofi+tcp", "-b", "-x", "64", *small),
            "ucx+tcp": Ours("hg_rate", "ucx+tcp", "-b", *small),
            "ucx+tcp 64": Ours("hg_rate", "ucx+tcp", "-b", "-x", "64", *small),
            "ucx_perftest": UcxPerftest("tcp", SMALL),
        },
        "tcp arguments": {
            "ofi+tcp": Ours("hg_rate", "ofi+tcp", "-b", *curve, seconds=0.5),
            "ucx+tcp": Ours("hg_rate", "ucx+tcp", "-b", *curve, seconds=0.5),
        },
        "tcp bulk": {
            "raw": Floor("tcp-stream", *stream, "--memory", "8m", seconds=0.5),
            "raw blocking": Floor("tcp-stream", *stream, "--memory", "8m", "--blocking", seconds=0.5),
            "raw, eight chunks": Floor("tcp-stream", *stream, seconds=0.5),
            "ofi+tcp": Ours("hg_bw", "ofi+tcp", "-b", "write", *bulk),
        },
        "idle": {
            "na+sm": Idle("na+sm", idle_seconds),
            "ofi+tcp": Idle("ofi+tcp", idle_seconds),
            "ucx+tcp": Idle("ucx+tcp", idle_seconds),
        },
        "instructions": {
            "rpc": Instructions("rpc"),
            "progress": Instructions("progress"),
        },
        "contexts": {
            **{f"{n} contexts": Ours("hg_rate", "na+sm", "-b", "-x", "16", "-X", str(n), *eight) for n in (1, 2, 4)},
            # As many in flight altogether.
            **{f"{n} contexts, 16 in all": Ours("hg_rate", "na+sm", "-b", "-x", str(16 // n), "-X", str(n), *eight) for n in (2, 4)},
            # A thread for each, on both sides: they share the processors, so that nobody polls for ever.
            **{f"{n} threads": Ours("hg_rate", "na+sm", "-x", "16", "-X", str(n), "-t", str(n), *eight, pinned=False) for n in (1, 2, 4)},
            "1 thread, thread-safe": Ours("hg_rate", "na+sm", "-x", "16", "--thread-safe", *eight, pinned=False),
        },
        "idle peers": {
            "alone": Ours("hg_rate", "na+sm", "-b", *eight),
            "1000 idle peers": Ours("hg_rate", "na+sm", "-b", *eight, "--idle-peers", "1000"),
        },
    }
    if not quick:
        # As much back as there: what the others can do.
        all_groups["curves"] = {
            "raw tcp": Floor("tcp-lat", *curve, seconds=0.3),
            **{f"{p}, busy": Ours("hg_rate", p, "-b", "--echo", *curve, seconds=0.3) for p in ("na+sm", "ofi+tcp", "ucx+tcp", "ofi+shm")},
            **{f"{p}, default mode": Ours("hg_rate", p, "--echo", *curve, seconds=0.3) for p in ("na+sm", "ofi+tcp", "ucx+tcp")},
            "ucx_perftest tcp": UcxPerftest("tcp", CURVE[::2]),
            "ucx_perftest shm": UcxPerftest("posix,sysv,cma", CURVE[::2]),
            "fi_pingpong tcp": FiPingpong("tcp;ofi_rxm", CURVE[::2]),
            "fi_pingpong shm": FiPingpong("shm", CURVE[::2]),
            **{name: Echo(name, CURVE) for name in ("grpc", "nng", "zeromq", "capnp")},
        }
        all_groups["bulk curves"] = {
            # Eight buffers 4 MiB from each other, as hg_bw has them.
            **{floor: Floor(floor, "-y", "4k", "-z", "4m", "--stride", "4m", seconds=0.3) for floor in ("vm-read", "memcpy", "tcp-stream")},
            "ucx_perftest tcp": UcxPut("tcp", BULK_CURVE),
            "ucx_perftest shm": UcxPut("posix,sysv,cma", BULK_CURVE),
            "na+sm": Ours("hg_bw", "na+sm", "-b", "write", *sizes, seconds=0.3),
            "na+sm, library's memory": Ours("hg_bw", "na+sm", "-b", "write", "--library-memory", *sizes, seconds=0.3),
            "ofi+tcp": Ours("hg_bw", "ofi+tcp", "-b", "write", *sizes, seconds=0.3),
            "ucx+tcp": Ours("hg_bw", "ucx+tcp", "-b", "write", *sizes, seconds=0.3),
        }
        protocols = ("na+sm", "ofi+tcp", "ucx+tcp", "ofi+shm")
        messages = ["-b", "-y", "8", "-z", "4k"]
        all_groups["messages"] = {
            "raw tcp": Floor("tcp-lat", "-y", "8", "-z", "4k", seconds=0.3),
            "lines": Floor("lines"),
            **{p: Ours("na_lat", p, *messages, seconds=0.3) for p in protocols},
        }
        all_groups["puts and gets"] = {
            "vm-read": Floor("vm-read", "-y", "4k", "-z", "4m", "--stride", "4m", seconds=0.3),
            **{f"{p}, {way}": Ours("na_bw", p, way, "-b", "-w", "8", "-y", "4k", "-z", "4m", seconds=0.2)
               for p in protocols[:3] for way in ("put", "get")},
        }
        all_groups["further calls"] = {
            **{f"{p}, first call": Ours("hg_first", p) for p in protocols},
            **{f"{p}, read": Ours("hg_bw", p, "read", "-b", *bulk, seconds=0.3) for p in protocols[:3]},
            **{f"{p}, args": Ours("hg_bw", p, "args", "-b", "-x", "4", "-y", "256k", "-z", "1m", seconds=0.3) for p in protocols[:3]},
            **{f"{p}, 4 clients": Ours("hg_rate", p, "--clients", "4", "-x", "16", *eight, pinned=False) for p in protocols[:3]},
        }
    return all_groups


def step(run, key):
    """The points of 4 KiB to 64 KiB over the straight line through their neighbours."""
    return {s: run[s][key] / (run[s // 2][key] + (run[2 * s][key] - run[s // 2][key]) / 3) for s in STEPS}


# What, group, the ratio (or number) out of one round's runs, limit; at least: "min", at most: "max". Of the ratios of several
# sizes the worst counts, after the median over the rounds.
# (Which chunk of a stream is the best is so a question to all rounds together: the best of each round would be that of the noise.)
# `key` is the statistic: "median_us" or "undisturbed_us" of a run's blocks.
FIGURES = (
    ("sm, RPC round trip, 8 to 64 B, busy / cache-line ping-pong", "sm calls",
     lambda r, k: {s: r["busy"][s][k] / r["line"][8][k] for s in SMALL}, "max", 2.2),
    ("sm, the same in default mode / busy", "sm calls",
     lambda r, k: {s: r["default"][s][k] / r["busy"][s][k] for s in SMALL}, "max", 1.3),
    ("sm, time per RPC, 16 in flight / cache-line ping-pong", "sm calls",
     lambda r, k: {s: r["16 in flight"][s][k] / r["line"][8][k] for s in SMALL}, "max", 0.8),
    ("sm, RPC with 64 KiB / (round trip + 2 memcpy)", "sm arguments",
     lambda r, k: r["na+sm"][65536][k] / (r["na+sm"][8][k] + 2 * r["memcpy"][65536][k]), "max", 1.0),
    ("sm, bulk 1 MiB, 8 in flight, user memory / process_vm_readv", "sm bulk",
     lambda r, k: r["vm-read"][MIB][k] / r["user"][MIB][k], "min", 0.9),
    ("sm, bulk 1 MiB, 8 in flight, library's memory / memcpy", "sm bulk",
     lambda r, k: r["memcpy"][MIB][k] / r["library"][MIB][k], "min", 0.9),
    ("ofi+tcp, RPC round trip, busy / raw TCP ping-pong", "tcp calls",
     lambda r, k: {s: r["ofi+tcp"][s][k] / r["raw"][s][k] for s in SMALL}, "max", 1.25),
    ("ofi+tcp, time per RPC, 64 in flight / raw TCP ping-pong", "tcp calls",
     lambda r, k: {s: r["ofi+tcp 64"][s][k] / r["raw"][s][k] for s in SMALL}, "max", 0.15),
    ("ucx+tcp, time per RPC, 64 in flight / raw TCP ping-pong", "tcp calls",
     lambda r, k: {s: r["ucx+tcp 64"][s][k] / r["raw"][s][k] for s in SMALL}, "max", 0.15),
    ("ofi+tcp, bulk 1 MiB, 8 in flight / best raw TCP stream", "tcp bulk",
     lambda r, k: {(name, s): r[name][s][k] / s * MIB / r["ofi+tcp"][MIB][k] for name in ("raw", "raw blocking") for s in TCP_SIZES},
     "min", 1.0),
    ("sm, worst step in the curve of 4 KiB to 64 KiB", "sm arguments", lambda r, k: step(r["na+sm"], k), "max", 1.3),
    ("ofi+tcp, worst step in the curve of 4 KiB to 64 KiB", "tcp arguments", lambda r, k: step(r["ofi+tcp"], k), "max", 1.3),
    ("ucx+tcp, worst step in the curve of 4 KiB to 64 KiB", "tcp arguments", lambda r, k: step(r["ucx+tcp"], k), "max", 1.3),
    ("ucx+tcp, RPC round trip, busy / 2 x ucx_perftest tag_lat", "tcp calls",
     lambda r, k: {s: r["ucx+tcp"][s][k] / r["ucx_perftest"][s][k] for s in SMALL}, "max", 1.05),
    ("na+sm, idle: % of a processor", "idle", lambda r, k: r["na+sm"][0]["percent"], "max", 0.1),
    ("ofi+tcp, idle: % of a processor", "idle", lambda r, k: r["ofi+tcp"][0]["percent"], "max", 0.1),
    ("ucx+tcp, idle: % of a processor", "idle", lambda r, k: r["ucx+tcp"][0]["percent"], "max", 0.1),
    ("instructions per small RPC over sm, both sides", "instructions", lambda r, k: r["rpc"][0]["instructions"], "max", 1200),
    ("instructions of an empty progress call, 100 peers", "instructions",
     lambda r, k: r["progress"][0]["instructions"], "max", 60),
    ("sm, rate with 4 contexts, 16 in flight on each / with 1", "contexts",
     lambda r, k: r["1 contexts"][8][k] / r["4 contexts"][8][k], "min", 1.0),
    ("sm, rate with 4 contexts, 16 in flight in all / with 1", "contexts",
     lambda r, k: r["1 contexts"][8][k] / r["4 contexts, 16 in all"][8][k], "min", 1.0),
    ("sm, rate with 4 contexts and threads, default mode / with 1", "contexts",
     lambda r, k: r["1 threads"][8][k] / r["4 threads"][8][k], "min", 1.0),
    ("sm, the same / with 1 that is thread-safe, too", "contexts",
     lambda r, k: r["1 thread, thread-safe"][8][k] / r["4 threads"][8][k], "min", 1.0),
    ("sm, round trip with 1,000 idle peers / without", "idle peers",
     lambda r, k: r["1000 idle peers"][8][k] / r["alone"][8][k], "max", 1.05),
)
# What a floor takes at most, us, where each side has a processor for itself: no machine is that slow, but a process that waits for
# its processor is.
MOST_US = {"line": 5, "lines": 5}
# Measured once: they do not depend on what else runs, or last long.
ONCE = ("idle", "instructions")
