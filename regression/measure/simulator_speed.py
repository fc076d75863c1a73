#!/usr/bin/env python3
"""What `swarmpi simulate` costs: events, CPU time and memory, by the number of peers.

usage: simulator_speed.py [--peers N ...] [--hours H] [--most-s S] [--twice] [--record FILE.json]
inputs/simulate/thousand.toml with so many peers: eight stages, eight microbatches for each replica,
and of N peers one dies and another joins each 29,000 / N seconds. Each run simulates H hours, or
what fits into S seconds: then it is ended by SIGINT. With --twice each runs twice, and all data of
the two run files must be equal. The program is $SWARMPI. Exit status: 1 if a run was not as it must
be.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import record
from harness.program import BINARY, DEADLINE_S, ROOT

DECK = ROOT / "inputs" / "simulate" / "thousand.toml"
STAGES = 8
MICROBATCHES_A_REPLICA = 8
MEAN_LIFE_S = 29_000
SEED = 29
EVENTS = re.compile(r"^events +(\d+)", re.MULTILINE)
SIMULATED = re.compile(r"^simulated +([\d:]+(?: h)?.*?) in ", re.MULTILINE)
STEPS = re.compile(r"^steps +(\d+) of", re.MULTILINE)
LOST = re.compile(r"^lost +(\d+) peer", re.MULTILINE)


class Failure(Exception):
    """What a run did wrong."""


@dataclass
class Plan:
    """One run."""

    peers: int
    hours: float
    most_s: float

    def write_trace(self, path):
        """A death and a join in turns, evenly in time; who dies is drawn at random."""
        rng = random.Random(SEED)
        gap_s = MEAN_LIFE_S / self.peers
        living, newcomer, time_s = list(range(self.peers)), self.peers, gap_s
        deaths = 0
        with open(path, "w", encoding="ascii") as file:
            file.write("time_s,event,peer\n")
            while time_s < self.hours * 3600:
                dies = living.pop(rng.randrange(len(living)))
                file.write(f"{time_s:.1f},kill,{dies}\n{time_s + gap_s / 2:.1f},join,{newcomer}\n")
                living.append(newcomer)
                newcomer, deaths, time_s = newcomer + 1, deaths + 1, time_s + gap_s
        return deaths

    def command(self, run, trace):
        settings = {
            "swarm.peers": self.peers,
            "train.microbatches": MICROBATCHES_A_REPLICA * self.peers // STAGES,
            "train.max_hours": self.hours,
            "faults.trace": trace,
        }
        command = [BINARY, "simulate", str(DECK), "--out", str(run)]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        return command


def wait_for(process, most_s):
    """Waits for the end, asks for it after `most_s`; status, and what the process has used."""
    begun_s, asked = time.monotonic(), False
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return used, time.monotonic() - begun_s
        passed_s = time.monotonic() - begun_s
        if passed_s > most_s + DEADLINE_S:
            process.kill()
        elif passed_s > most_s and not asked:
            process.send_signal(signal.SIGINT)
            asked = True
        time.sleep(0.05)


def simulate(folder, name, plan):
    """Runs once. Where the run file is, and figures by name."""
    trace, run, output = folder / "trace.csv", folder / f"{name}.h5", folder / f"{name}.txt"
    deaths = plan.write_trace(trace)
    with open(output, "wb") as file:
        process = subprocess.Popen(  # pylint: disable=consider-using-with # wait4() ends it
            plan.command(run, trace), cwd=ROOT, stdout=file, stderr=subprocess.STDOUT
        )
        used, real_s = wait_for(process, plan.most_s)
    said = output.read_text(encoding="utf-8")
    found = {key: kind.search(said) for key, kind in
             {"events": EVENTS, "simulated": SIMULATED, "steps": STEPS, "lost": LOST}.items()}
    if process.returncode != 3 or not found["events"]:  # its time was over, not its steps
        raise Failure(f"{plan.peers} peers: status {process.returncode}\n{said}")
    events, cpu_s = int(found["events"][1]), used.ru_utime + used.ru_stime
    return run, {
        "simulated": found["simulated"][1],
        "steps": int(found["steps"][1]) if found["steps"] else 0,
        "deaths_in_trace": deaths,
        "peers_lost": int(found["lost"][1]) if found["lost"] else 0,
        "events": events,
        "real_s": round(real_s, 2),
        "cpu_s": round(cpu_s, 2),
        "us_an_event": round(1e6 * cpu_s / events, 3),
        "memory_bytes": used.ru_maxrss * 1024,
    }


def show(plan, figures):
    """A line of the table."""
    print(
        f"{plan.peers:6d} peers: {figures['simulated']} simulated in {figures['cpu_s']:.1f} s of"
        f" CPU, {figures['steps']} steps, {figures['events']} events of"
        f" {figures['us_an_event']:.2f} us, {figures['memory_bytes'] / 2**20:.0f} MiB;"
        f" {figures['peers_lost']} peers lost, {figures['deaths_in_trace']} by the trace",
        flush=True,
    )


def measure(folder, plan, twice):
    """Runs once or twice; figures."""
    run, figures = simulate(folder, f"{plan.peers}", plan)
    show(plan, figures)
    if twice:
        again, _ = simulate(folder, f"{plan.peers}again", plan)
        compared = subprocess.run(
            [BINARY, "compare", "--all", str(run), str(again)],
            capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )
        print(compared.stdout.strip())
        figures["equal_to_a_second_run"] = compared.returncode == 0
        if compared.returncode != 0:
            raise Failure(f"{plan.peers} peers: two runs differ\n{compared.stderr}")
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=int, nargs="+", default=[1000])
    parser.add_argument("--hours", type=float, default=1)
    parser.add_argument("--most-s", type=float, default=600)
    parser.add_argument("--twice", action="store_true")
    record.add_option(parser)
    options = parser.parse_args()
    figures = {}
    try:
        with tempfile.TemporaryDirectory(prefix="swarmpi-speed-") as folder:
            for peers in options.peers:
                plan = Plan(peers, options.hours, options.most_s)
                figures[f"{peers}_peers"] = measure(Path(folder), plan, options.twice)
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1
    record.write(options.record, "What simulate costs, by the number of peers", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
