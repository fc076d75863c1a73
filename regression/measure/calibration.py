#!/usr/bin/env python3
"""How far predictions are off: the same decks over a real slow network, emulated, and simulated.

The decks are those of calibration_decks.py. A real run has a network name space for each rank,
behind a line with delay and rate (a program between TAP devices), and mpirun and TCP as they are;
an emulated one has real ranks on this machine, and the models' links; a simulated one is
`swarmpi simulate`. Devices are emulated in all three. Compared are the tokens a second from the end
of step 1 to the end of the run. One set of constants is fitted for all decks, by simulated runs
alone, on a third of the decks, which a seeded draw takes; errors are told for the others.

usage: calibration.py --work FOLDER [--cases NAME ...] [--kinds KIND ...] [--lanes N] [--seed S]
                      [--record FILE.json] [--plot FILE.png]
What has been run stays in FOLDER, as NAME.KIND.json, and is not run again, nor are constants fitted
again: they are in constants.json there. Needs root, /dev/net/tun, an Open MPI with ULFM, h5py, and
matplotlib for --plot. Other work on the machine disturbs it: run it by `chrt -r 1`. The program is
$SWARMPI. Exit status: 1 if a run failed or somebody was suspected.
"""

import argparse
import concurrent.futures
import itertools
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from calibration_decks import CASES, Constants, tokens_of_step, write_deck
from harness import emulated_hosts, program, record
from harness.emulated_hosts import EmulatedHosts, Link, ip
from harness.program import BINARY
from harness.swarm import Swarm, reports_deaths
from hdf5 import h5py

KINDS = ("real", "emulated", "simulated")
FIRST_STEP = 1  # steps before it have connections made
DEADLINE_S = 300
QUEUE_KB = 4000  # more than all pairs of a peer have under way: nothing is lost
# Packets that the kernel leaves in one piece: a line carries pieces, not bytes.
PACKETS_IN_A_PIECE = 4
MEMORY = "/dev/shm"  # a step is synced before the next one: disks are not what is compared
# Name spaces may not choose cubic, Linux's default, unless the machine is changed. Both begin
# alike, but that cubic may end its slow start earlier.
CONGESTION = "reno"
GUESS = Constants(rate_share=0.95, message_s=0.001, pass_s=0.001)
STEPS_OF_FIT = Constants(rate_share=0.005, message_s=0.0005, pass_s=0.0005)


class Failure(Exception):
    """What a run did wrong."""


# ---- One run


def result_of(run, said):
    """What a run file says, and whether somebody was suspected."""
    try:
        with h5py.File(run) as file:
            steps = list(map(int, file["steps/step"]))
            times = list(map(float, file["steps/time_s"]))
            events = [kind.decode() for kind in file["events/kind"]]
            after = file["goodput/step"][:] > FIRST_STEP
            ledger = {
                name: float(column[:][after].sum())
                for name, column in file["goodput"].items()
                if name.endswith("_s")
            }
    except OSError as error:
        raise Failure(f"{error}\n{said[-2000:]}") from None
    return {"steps": steps, "time_s": times, "suspected": events.count("suspect"), "ledger": ledger}


def set_up_network(hosts):
    """TCP as it is to be, and pieces small beside a message."""
    own = os.getpid()
    settings = [f"net.ipv4.tcp_congestion_control={CONGESTION}"]
    settings += ["net.ipv4.tcp_slow_start_after_idle=1", "net.ipv4.tcp_no_metrics_save=1"]
    for place, name in enumerate(hosts.names):
        subprocess.run(
            ["ip", "netns", "exec", name, "sysctl", "-q", "-w", *settings], check=True, timeout=20
        )
        for space, device in ((name, f"up{own}-{place}"), (hosts.switch, f"dn{own}-{place}")):
            inside = ("netns", "exec", space, "ip", "link", "set", device)
            ip(*inside, "gso_max_segs", str(PACKETS_IN_A_PIECE))


def run_over_network(folder, case, command):
    line = Link(case.delay_ms / 2, case.mbps, QUEUE_KB)
    hosts = EmulatedHosts(folder, case.ranks, dict.fromkeys(range(case.ranks), line))
    mark = f"{folder}/{case.name}"
    try:
        set_up_network(hosts)
        options = hosts.options(1, mark)
        with Swarm(case.ranks, command, deadline_s=DEADLINE_S, **options) as swarm:
            return swarm.result()
    finally:
        emulated_hosts.end_marked(mark)
        hosts.remove()


def run_case(case, kind, constants):
    """The result of one run."""
    with tempfile.TemporaryDirectory(prefix="swarmpi-calibration-", dir=MEMORY) as folder:
        deck, run = write_deck(folder, case, kind, constants), f"{folder}/RUN.h5"
        if kind == "simulated":
            done = program.run("simulate", deck, "--out", run, "--quiet", check=False)
            return result_of(run, done.stdout + done.stderr)
        command = [BINARY, *program.train_arguments(deck, run)]
        if kind == "real" and case.mbps > 0:
            _, out, err = run_over_network(folder, case, command)
        else:
            with Swarm(case.ranks, command, bind=False, deadline_s=DEADLINE_S) as swarm:
                _, out, err = swarm.result()
        return result_of(run, out + err)


def tokens_per_s(case, result):
    first = result["steps"].index(FIRST_STEP)
    if result["steps"][-1] != case.steps:
        raise Failure(f"{case.name} ended with step {result['steps'][-1]}")
    took_s = result["time_s"][-1] - result["time_s"][first]
    return tokens_of_step(case) * (case.steps - FIRST_STEP) / took_s


# ---- All of them


def path_of(work, case, kind):
    return Path(work, f"{case.name}.{kind}.json")


def run_and_keep(work, case, kind, constants):
    """Runs a case unless its result is there."""
    path = path_of(work, case, kind)
    if path.exists():
        return
    result = run_case(case, kind, constants)
    result["constants"] = constants._asdict()
    result["tokens_per_s"] = tokens_per_s(case, result)
    print(
        f"{case.name} {kind}: {result['tokens_per_s']:.1f} tokens/s, {result['time_s'][-1]:.0f} s, "
        f"{result['suspected']} suspected",
        flush=True,
    )
    path.write_text(json.dumps(result), "ascii")


def large_and_small(cases):
    """The case with most ranks, the one with fewest, and so on: lanes share the cores."""
    left = sorted(cases, key=lambda case: case.ranks)
    while left:
        yield left.pop()
        if left:
            yield left.pop(0)


def run_all(work, cases, kind, constants, lanes):
    """Whether all are there then. Each lane is a process: name spaces are named after it."""
    good = True
    with concurrent.futures.ProcessPoolExecutor(lanes) as pool:
        runs = {}
        for case in large_and_small(cases):
            runs[pool.submit(run_and_keep, work, case, kind, constants)] = case
        for run in concurrent.futures.as_completed(runs):
            try:
                run.result()
            except (Failure, TimeoutError, OSError, subprocess.SubprocessError) as failure:
                print(f"{runs[run].name} {kind} FAILED: {failure}", flush=True)
                good = False
    return good


def kept(work, case, kind):
    path = path_of(work, case, kind)
    return json.loads(path.read_text("ascii")) if path.exists() else None


# ---- The constants


def simulated_tokens_per_s(case, constants):
    return tokens_per_s(case, run_case(case, "simulated", constants))


def misfit(pool, measured, constants):
    """The mean square of the errors of simulated runs, in logarithms."""
    cases = list(measured)
    predicted = pool.map(simulated_tokens_per_s, cases, itertools.repeat(constants))
    errors = [math.log(p / measured[case]) for p, case in zip(predicted, cases)]
    return statistics.fmean(error * error for error in errors)


def fit(measured, lanes):
    """The constants for which simulated runs are nearest, one step at a time from a guess."""
    best = GUESS
    with concurrent.futures.ProcessPoolExecutor(lanes) as pool:
        best_misfit = misfit(pool, measured, best)
        better = True
        while better:
            better = False
            for name, sign in itertools.product(Constants._fields, (1, -1)):
                value = round(getattr(best, name) + sign * getattr(STEPS_OF_FIT, name), 6)
                tried = best._replace(**{name: value})
                if value < 0 or tried.rate_share > 1:
                    continue
                tried_misfit = misfit(pool, measured, tried)
                if tried_misfit < best_misfit:
                    best, best_misfit, better = tried, tried_misfit, True
            print(f"fit: {best}, {100 * math.sqrt(best_misfit):.2f} %", flush=True)
    return best


def drawn(cases, seed):
    """The names of the third that constants are fitted on."""
    names = sorted(case.name for case in cases)
    return set(random.Random(seed).sample(names, len(names) // 3))


def constants_of(work, cases, seed, lanes):
    """Fitted, or as they were when they were fitted here."""
    path = Path(work, "constants.json")
    if path.exists():
        return Constants(**json.loads(path.read_text("ascii")))
    of_fit = [case for case in cases if case.name in drawn(CASES, seed)]
    measured = {case: kept(work, case, "real")["tokens_per_s"] for case in of_fit}
    constants = fit(measured, lanes)
    path.write_text(json.dumps(constants._asdict()), "ascii")
    return constants


# ---- What is told


def samples_of(work, cases, seed):
    """A row for each case with all three results: errors are of the predictions."""
    rows = []
    for case in cases:
        results = {kind: kept(work, case, kind) for kind in KINDS}
        if not all(results.values()):
            continue
        rates = {kind: result["tokens_per_s"] for kind, result in results.items()}
        row = {**case._asdict(), "fitted": case.name in drawn(CASES, seed)}
        row["run_s"] = results["real"]["time_s"][-1]
        row["suspected"] = sum(result["suspected"] for result in results.values())
        for kind in KINDS:
            row[f"{kind}_tokens_per_s"] = rates[kind]
            row[f"{kind}_ledger"] = results[kind]["ledger"]
        for kind in KINDS[1:]:
            row[f"{kind}_error_percent"] = 100 * (rates[kind] / rates["real"] - 1)
        rows.append(row)
    return rows


def figures_of(rows, constants):
    figures = constants._asdict()
    figures["runs"] = len(rows)
    figures["runs_fitted"] = sum(row["fitted"] for row in rows)
    figures["shortest_run_s"] = min(row["run_s"] for row in rows)
    figures["suspected"] = sum(row["suspected"] for row in rows)
    for kind in KINDS[1:]:
        errors = [abs(row[f"{kind}_error_percent"]) for row in rows if not row["fitted"]]
        if errors:
            figures[f"{kind}_median_error_percent"] = statistics.median(errors)
            figures[f"{kind}_worst_error_percent"] = max(errors)
    return figures


def table_of(rows):
    """Markdown, for docs/simulation.md."""
    lines = [
        "| run | peers, stages | one way, rate | real, tokens/s | emulated | simulated |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        line = f"{row['delay_ms']} ms, {row['mbps']} Mbit/s" if row["mbps"] else "one machine"
        fitted = " (fitted)" if row["fitted"] else ""
        lines.append(
            f"| {row['name']}{fitted} | {row['ranks']}, {row['stages']} | {line} "
            f"| {row['real_tokens_per_s']:.0f} | {row['emulated_error_percent']:+.1f} % "
            f"| {row['simulated_error_percent']:+.1f} % |"
        )
    return "\n".join(lines)


def plot(path, rows):
    import matplotlib  # pylint: disable=import-outside-toplevel

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt  # pylint: disable=import-outside-toplevel
    from picture_file import picture_at, save  # pylint: disable=import-outside-toplevel

    figure, axes = plt.subplots(figsize=(5.5, 5))
    rates = [row["real_tokens_per_s"] for row in rows]
    ends = [0.8 * min(rates), 1.25 * max(rates)]
    axes.plot(ends, ends, color="0.6", linewidth=1)
    axes.fill_between(ends, [0.9 * e for e in ends], [1.1 * e for e in ends], color="0.93")
    for kind, marker, color in (("emulated", "s", "tab:orange"), ("simulated", "o", "tab:blue")):
        for fitted in (False, True):
            own = [row for row in rows if row["fitted"] == fitted]
            axes.plot(
                [row["real_tokens_per_s"] for row in own],
                [row[f"{kind}_tokens_per_s"] for row in own],
                marker,
                color=color,
                fillstyle="none" if fitted else "full",
                markersize=5,
                label=f"{kind}, constants fitted on them" if fitted else kind,
            )
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes.set(xlabel="over a network, tokens/s", ylabel="predicted, tokens/s")
    axes.legend(fontsize=8)
    axes.set_title("Grey: within 10 %", fontsize=9)
    figure.tight_layout()
    save(figure, picture_at(Path(path)), 120)


def report(options, cases, constants):
    rows = samples_of(options.work, cases, options.seed)
    if not rows:
        return True
    figures = figures_of(rows, constants)
    print(table_of(rows), *(f"{name}: {value:.4g}" for name, value in figures.items()), sep="\n")
    record.write(
        options.record,
        "The same decks over a real slow network, emulated and simulated: tokens a second, with "
        "one set of constants, fitted on a third of them.",
        figures,
        rows,
    )
    if options.plot:
        plot(options.plot, rows)
    return figures["suspected"] == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--cases", nargs="+", default=[case.name for case in CASES])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plot", type=Path)
    record.add_option(parser)
    options = parser.parse_args()
    why_not = emulated_hosts.missing(True) or ("" if reports_deaths() else "this MPI has no ULFM")
    if why_not:
        print(f"not measured: {why_not}")
        return 77
    options.work.mkdir(parents=True, exist_ok=True)
    cases = [case for case in CASES if case.name in options.cases]
    good = True
    if "real" in options.kinds:
        good = run_all(options.work, cases, "real", GUESS, options.lanes)
    predicted = [kind for kind in KINDS[1:] if kind in options.kinds]
    if good and predicted:
        constants = constants_of(options.work, cases, options.seed, options.lanes)
        for kind in predicted:
            if kind == "simulated":
                for case in cases:
                    path_of(options.work, case, kind).unlink(missing_ok=True)
            good = run_all(options.work, cases, kind, constants, options.lanes) and good
        good = report(options, cases, constants) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
