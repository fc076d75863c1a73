"""What pictures need of a run file."""

import re
import tomllib

import numpy as np

import peer_panels
from format_version import opened_run
from trouble import Trouble

STEP_COLUMNS = ("step", "loss", "grad_norm", "lr", "tokens", "time_s", "skipped")


class Run:
    """The tables of a run file, and the few deck values that a picture needs."""

    def __init__(self, path):
        with opened_run(path) as file:
            self.deck = str(file.attrs["deck"])
            self.verdict = str(file.attrs["verdict"])
            self.complete = str(file.attrs["complete"]) == "1"
            steps = {name: file["steps"][name][:] for name in STEP_COLUMNS}
            self.validation = {name: file["validation"][name][:] for name in ("step", "loss")}
            self.throughput = {
                name: file["throughput"][name][:]
                for name in ("time_s", "tokens_per_s", "fraction_of_ideal")
                if name in file["throughput"]
            }
            self.peers = peer_panels.Peers(file["peers"])
            self.goodput = peer_panels.Goodput(file)
            kinds = file["events"]["kind"].asstr()[:]
            times_s, resumed = file["events"]["time_s"][:], kinds == "resume"
            self.resume_steps = file["events"]["step"][:][resumed]
            self.resume_times_s = times_s[resumed]
            # Two leaders may both have written down a death.
            killed, dead = kinds == "kill", file["events"]["peer"][:]
            _, first = np.unique(dead[killed], return_index=True)
            self.death_times_s = np.sort(times_s[killed][first])
        # Row 0 measures exponents on the microbatches of step 1 and trains nothing.
        trained = steps["step"] > 0
        if not trained.any():
            raise Trouble(f"{path} has no step to draw yet")
        self.rows = {name: values[trained] for name, values in steps.items()}
        self.start_s = float(steps["time_s"][~trained][-1]) if (~trained).any() else 0.0
        later = self.throughput["time_s"] > self.start_s
        self.throughput = {name: values[later] for name, values in self.throughput.items()}

    def deck_value(self, section, key, default=""):
        """A value of the resolved deck as text."""
        within = ""
        for line in self.deck.splitlines():
            if header := re.match(r"\s*\[+\s*([\w.]+)\s*\]+", line):
                within = header[1]
            elif within == section and (entry := re.match(rf'\s*{key}\s*=\s*"?([^"#]*)', line)):
                return entry[1].strip()
        return default

    def devices(self):
        """(name, its speed as a text, its peers) of each class of devices that the deck has."""
        try:
            deck = tomllib.loads(self.deck)
        except tomllib.TOMLDecodeError:
            return []
        peers = {}
        for row in deck.get("peers", []):
            if name := row.get("device", ""):
                peers.setdefault(name, []).extend(row.get("peers", []))
        classes = deck.get("devices", {})
        speed = {
            name: f"{of['gflops']:g} GFLOP/s" for name, of in classes.items() if "gflops" in of
        }
        return [(name, speed.get(name, ""), sorted(set(of))) for name, of in peers.items()]

    @property
    def has_losses(self):
        """Of a simulated run all are NaN, for nothing has learned."""
        return bool(np.isfinite([*self.rows["loss"], *self.validation["loss"]]).any())

    @property
    def is_bytes(self):
        return self.deck_value("data", "format", "bytes") == "bytes" and self.deck != ""

    def rates(self):
        """Times and tokens per second: the table, or what the steps tell."""
        if len(self.throughput["time_s"]) > 1:
            return self.throughput["time_s"], self.throughput["tokens_per_s"]
        times_s = np.concatenate([[self.start_s], self.rows["time_s"]])
        spans_s = np.diff(times_s)
        forward = spans_s > 0
        return times_s[1:][forward], self.rows["tokens"][forward] / spans_s[forward]


METHODS = {
    "swarm": "SWARM",
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "data_parallel": "data parallel",
    "zero_offload": "ZeRO-Offload",
}


def counted(number, name):
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


def name_of(path):
    """What a run is called: its folder, where the file has the name that most have."""
    folder = path.absolute().parent.name
    return folder if path.stem.lower() == "run" and folder else path.stem


def title_of(run, path):
    """What the run is: its name, how the work was laid out, and on how many peers."""
    parts = [counted(len(run.peers), "peer")] if len(run.peers) else []
    method = run.deck_value("swarm", "method")
    stages = run.deck_value("swarm", "stages")
    if stages.isdigit():
        parts.insert(0, counted(int(stages), "stage"))
    if method:
        parts.insert(0, METHODS.get(method, method))
    return f"{name_of(path)}: {', '.join(parts)}" if parts else name_of(path)
