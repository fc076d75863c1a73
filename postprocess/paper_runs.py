"""Simulated runs of paper.py: makes them, and says of their run files what a paper would."""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import numpy as np

from format_version import opened_run
from peer_panels import TIMES
from run_file import Run
from trouble import Trouble

DECKS = Path(__file__).resolve().parents[1] / "inputs" / "paper"
# What a codec passes over for a value, in bytes: kCodecBytes of src/hardware/device.hpp.
CODEC_BYTES = 5
SHARED_LAYERS = 12  # of a stage of the paper's own model
WIDTHS = {"base": (768, 12), "xxlarge": (4096, 32), "GPT-3": (12288, 96), "ours": (4096, 32)}


def model_of(name, layers, groups):
    """Settings of one of the paper's models: so many layers, or groups of those that share."""
    width, heads = WIDTHS[name]
    ours = name == "ours"
    return {
        "model.width": width,
        "model.heads": heads,
        "model.layers": groups * SHARED_LAYERS if ours else layers,
        "model.shared_groups": groups if ours else 0,
    }


def coded(codec):
    """Settings for both directions."""
    return {"swarm.compress_activations": codec, "swarm.compress_gradients": codec}


class Study:
    """A folder of run files, one for each point of an experiment."""

    def __init__(self, folder, reuse=False):
        self.folder, self.reuse = folder / "runs", reuse
        self.made = {}
        self.swarmpi = os.environ.get("SWARMPI") or shutil.which("swarmpi")
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, name, deck, settings=None):
        """Simulates a deck with settings, or reads what was simulated; returns what is said."""
        path = self.folder / f"{name}.h5"
        if name in self.made:
            return self.made[name]
        if not (self.reuse and path.exists()):
            self.simulate(path, deck, settings or {})
        return self.made.setdefault(name, Simulated(path))

    def simulate(self, path, deck, settings):
        if not self.swarmpi:
            raise Trouble("there is no swarmpi on PATH: source env.sh of the build, or set SWARMPI")
        path.unlink(missing_ok=True)
        shutil.rmtree(path.with_name(path.name + ".journal"), ignore_errors=True)
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        command = [self.swarmpi, "simulate", DECKS / f"{deck}.toml", "--quiet", "--out", path]
        done = subprocess.run([*command, *sets], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Trouble(f"{path.stem}: swarmpi ended with {done.returncode}: {done.stderr}")
        print(f"simulated {path.stem}", flush=True)


class Simulated:
    """What a run file says of a swarm: utilisation, times of a microbatch, of a step."""

    def __init__(self, path):
        run = Run(path)
        self.deck = tomllib.loads(run.deck)
        self.table = run.peers.table
        self.goodput = run.goodput
        self.step_0_s = run.start_s
        self.step_s = np.diff(np.concatenate([[run.start_s], run.rows["time_s"]]))
        with opened_run(path) as file:
            self.table["step"] = file["peers/step"][:]
            kinds, events = file["events/kind"].asstr()[:], file["events"]
            of_a_step = (kinds == "commit") & (events["step"][:] > 0)
            self.seal_to_commit_s = events["cost_s"][:][of_a_step]
            self.suspected = int((kinds == "suspect").sum())
        self.beside_s = self.table["microbatches"] * self.beside_compute_s()

    @property
    def stages(self):
        return self.deck["swarm"]["stages"]

    def device_of(self, peer):
        """The class that [[peers]] gives to a peer."""
        rows = self.deck["peers"]
        named = [row for row in rows if peer in row["peers"]]
        return (named or [row for row in rows if not row["peers"]])[0]["device"]

    def beside_compute_s(self):
        """Of each row of /peers what its passes over a microbatch took beside computing: codecs,
        and a device's overhead, such as copies to the host."""
        swarm, stage = self.deck["swarm"], self.table["stage"]
        narrow = 1 if swarm["boundary"] == "plain" else swarm["boundary_factor"]
        values = self.sequences() * self.deck["model"]["context"] * self.deck["model"]["width"]
        cuts = (stage > 0) * 1 + (stage < self.stages - 1) * 1
        codecs = [swarm["compress_activations"], swarm["compress_gradients"]]
        first = np.where(stage == self.stages - 1, 0, int(codecs[0] != "none"))
        coded_bytes = CODEC_BYTES * values / narrow * cuts * (first + int(codecs[1] != "none"))
        passes = np.where(stage == self.stages - 1, 1, 2)
        found = np.zeros(len(stage))
        for peer in np.unique(self.table["peer"]):
            device = self.deck["devices"][self.device_of(peer)]
            rate = device["memory_gb_per_s"] * 1e9
            here = self.table["peer"] == peer
            found[here] = passes[here] * device["overhead_s"]
            found[here] += coded_bytes[here] / rate if rate else 0
        return found

    def sequences(self):
        """In a microbatch."""
        return self.deck["train"]["microbatch_size"]

    def steady(self, peers=None):
        """Rows between the first updates and the last step, of some peers."""
        step, last = self.table["step"], self.table["step"].max()
        rows = (step > min(1, last - 2)) & (step < last) if last > 2 else step == last
        return rows if peers is None else rows & np.isin(self.table["peer"], peers)

    def utilisation(self, peers=None):
        """Share of the steady state in which a peer computes passes of training; recomputation
        counts, codecs and copies do not, and reductions are part of the time."""
        rows = self.steady(peers)
        whole_s = sum(self.table[column][rows].sum() for column in TIMES)
        return (self.table["useful_s"] - self.beside_s)[rows].sum() / whole_s

    def utilisation_of_whole(self, peers=None):
        """The same of the peers' whole lives, start and end included."""
        who = np.isin(self.goodput.names, self.goodput.names if peers is None else peers)
        rows = np.isin(self.table["peer"], self.goodput.names[who])
        busy_s = self.goodput.seconds["useful"][who].sum() - self.beside_s[rows].sum()
        return busy_s / self.goodput.total_s()[who].sum()

    def microbatch_s(self, device, stage):
        """What a stage's passes over a microbatch take to compute, on such a device."""
        peers = [p for p in np.unique(self.table["peer"]) if self.device_of(p) == device]
        rows = np.isin(self.table["peer"], peers) & (self.table["stage"] == stage)
        done = self.table["microbatches"][rows].sum()
        return (self.table["useful_s"] - self.beside_s)[rows].sum() / done if done else np.nan

    def boundary_bytes(self, stage):
        """What a peer of a stage sends for a microbatch; in step 0 nothing else is sent."""
        rows = (self.table["stage"] == stage) & (self.table["step"] == 0)
        return self.table["bytes_sent"][rows].sum() / self.table["microbatches"][rows].sum()

    def reduction_s(self):
        """From a step's seal to its commit, in the last step."""
        return float(self.seal_to_commit_s[-1])

    def last_step_s(self):
        return float(self.step_s[-1])

    def sequences_in_step(self):
        return self.deck["train"]["microbatches"] * self.sequences()
