#!/usr/bin/env python3
"""All checks and figures of a machine with a GPU, in order, and one table of what came.

usage: gpu_check.py [--tests FOLDER] [--data FILE] [--only NAME...] [--python PYTHON]
                    [--kill-runs N] [--collective-kill-runs N]
                    [--logs FOLDER] [--record FILE.json]

The kernels against the reference (kernels_cuda_test) and NCCL between two ranks of this GPU
(transport_test), both in FOLDER (default: beside $SWARMPI); the quick start's bits, alone and by
ranks that share the GPU, also with kills, with CPUs among them, mixed, and by NCCL; reductions of
1 GB by NCCL and point to point, and kills in the middle of one; the speed of one stage of the
shared model, of as many layers with weights of their own, and of GPT-2 124M; the same in PyTorch
where PYTHON has it. The program is $SWARMPI, its launcher $SWARMPI_MPIRUN. What each check prints
goes to LOGS. Exit status 1 if a check has failed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where harness/ is

from harness import program, record
from harness.program import BINARY, ROOT
from harness.swarm import MPIRUN, NCCL_ON_ONE_DEVICE, launch_environment

MEASURE = Path(__file__).resolve().parent
DEADLINE_S = 300
STEPS = 100
SHARED_MODEL = {
    "model.precision": "bf16",
    "model.width": 4096,
    "model.heads": 32,
    "model.context": 2048,
    "model.vocab": 50304,
    "train.microbatch_size": 8,
    "train.microbatches": 1,
    "train.steps": 5,
}
# The paper's: boundaries in 8 bits.
ONE_OF_FOUR = {
    **SHARED_MODEL,
    "model.layers": 64,
    "model.shared_groups": 4,
    "swarm.stages": 4,
    "swarm.compress_activations": "blockwise8",
    "swarm.compress_gradients": "blockwise8",
}
UNSHARED = {**SHARED_MODEL, "model.layers": 12, "swarm.stages": 3}
GPT2 = {
    "model.precision": "bf16",
    "model.layers": 12,
    "model.width": 768,
    "model.heads": 12,
    "model.context": 1024,
    "model.vocab": 50304,
    "train.microbatch_size": 32,
    "train.microbatches": 4,
    "train.steps": 6,
}
# Dense bf16, by the vendor's sheet for H100 and H200 with 132 multiprocessors.
PEAK_FLOPS_PER_S = 989.5e12
KILLS = [
    "faults.mode=kill",
    'faults.at=[{step=20,peer=1,event="kill"},{step=50,peer=0,event="kill",point="reduce"}]',
]
BENCH_REDUCE = {"compute.kernels": "cuda", "train.steps": 60}
# 305 M parameters: gradients of 1.14 GiB.
GIGABYTE = {
    "compute.kernels": "cuda",
    "train.steps": 16,
    "model.layers": 16,
    "model.width": 1024,
    "model.heads": 16,
    "model.context": 128,
    "model.vocab": 50304,
    "train.microbatch_size": 1,
}
BY_NCCL = {"swarm.collectives": "nccl"}
MIXED = ["swarm.allow_mixed=true", 'peers=[{peers=[1,3],kernels="reference"}]']


class Failure(Exception):
    """What a check found wrong."""


class Checks:
    """One method a check: returns figures by name, and a sentence."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = Path(folder)
        self.logs = Path(options.logs or folder)
        self.logs.mkdir(parents=True, exist_ok=True)
        self.tests = Path(options.tests or Path(BINARY).parent)
        self.data = options.data or program.write_data(folder, 20000)
        self.name = ""

    def run(self, command, may_fail=False):
        environment = {**launch_environment(), "TMPDIR": str(self.folder), **NCCL_ON_ONE_DEVICE}
        log = self.logs / f"{self.name}.log"
        with open(log, "ab") as file:
            done = subprocess.run(
                ["timeout", "-k", "5", str(DEADLINE_S), *map(str, command)],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            file.write(done.stdout)
        text = done.stdout.decode(errors="replace")
        if done.returncode != 0 and not may_fail:
            raise Failure(f"status {done.returncode}; {log} ends: {text[-600:]}")
        return text

    def google_test(self, program_name, tests="*"):
        text = self.run([self.tests / program_name, f"--gtest_filter={tests}"])
        passed = re.search(r"\[  PASSED  \] (\d+) tests?", text)
        if not passed or "SKIPPED" in text:
            raise Failure(f"{program_name}: tests were skipped or none ran: {text[-400:]}")
        return int(passed[1])

    def kernels(self):
        passed = self.google_test("kernels_cuda_test")
        return {"kernel_tests_passed": passed}, f"{passed} tests against the reference"

    def nccl(self):
        passed = self.google_test("transport_test", "NcclOnOneDevice.*")
        text = (self.logs / "nccl.log").read_text(encoding="utf-8", errors="replace")
        figures = {"nccl_tests_passed": passed}
        times_ms = [float(ms) for ms in re.findall(r"1 GB: ([\d.]+) ms", text)]
        if times_ms:
            figures["nccl_gigabyte_s_median"] = sorted(times_ms)[len(times_ms) // 2] / 1000
        return figures, f"{passed} tests of collectives on one GPU"

    def train(self, name, ranks, *settings):
        run = self.folder / name / "RUN.h5"
        run.parent.mkdir()
        command = [BINARY, "train", "inputs/quickstart.toml", "--quiet", "--out", run]
        for setting in (f"data.paths={self.data}", f"train.steps={STEPS}", "compute.kernels=cuda"):
            command += ["--set", setting]
        for setting in settings:
            command += ["--set", setting]
        if ranks > 1:
            launch = ["--with-ft", "ulfm", "--map-by", "node:oversubscribe", "--bind-to", "none"]
            command = [MPIRUN, *launch, "-n", ranks, *command]
        start_s = time.monotonic()
        self.run(command)
        if not (run.parent / "RUN.h5.journal" / "complete").exists():
            raise Failure(f"{name}: the run is not complete")
        return run, time.monotonic() - start_s

    def bits(self):
        alone, alone_s = self.train("alone", 1)
        others = {"again": (1, []), "four": (4, []), "four_again": (4, []), "kills": (4, KILLS)}
        for name, (ranks, settings) in others.items():
            run, _ = self.train(name, ranks, *settings)
            said = self.run([BINARY, "compare", alone, run])
            if "equal bit for bit" not in said:
                raise Failure(f"{name} differs from one process alone: {said}")
        figures = {"runs_equal": len(others) + 1, "quickstart_100_steps_s": alone_s}
        return figures, "one process twice, four ranks on one GPU twice, and with kills: equal bits"

    def collectives(self):
        alone, _ = self.train("by_nobody", 1)
        runs = (("by_nccl", []), ("by_nccl_kills", KILLS))
        for name, settings in runs:
            run, _ = self.train(name, 4, "swarm.collectives=nccl", *settings)
            said = self.run([BINARY, "compare", alone, run])
            if "equal bit for bit" not in said:
                raise Failure(f"{name} differs from one process alone: {said}")
        quick = self.bench_reduce({**BENCH_REDUCE, **BY_NCCL})
        by_nccl = self.bench_reduce({**GIGABYTE, **BY_NCCL})
        direct = self.bench_reduce(GIGABYTE)
        figures = {
            "collective_runs_equal": len(runs),
            "nccl_seal_to_commit_s_median": quick["seal_to_commit_s_median"],
            "reduce_gradient_bytes": by_nccl["gradient_bytes"],
            "reduce_by_nccl_s_median": by_nccl["seal_to_commit_s_median"],
            "reduce_by_nccl_steps": by_nccl["steps_by_collective"],
            "reduce_point_to_point_s_median": direct["seal_to_commit_s_median"],
        }
        return figures, (
            f"equal bits by NCCL, also with kills; bench reduce by NCCL in "
            f"{quick['steps_by_collective']} steps; {by_nccl['gradient_bytes'] / 2**30:.2f} GiB of "
            f"gradients: {by_nccl['seal_to_commit_s_median']:.2f} s by NCCL, "
            f"{direct['seal_to_commit_s_median']:.2f} s point to point"
        )

    def bench_reduce(self, settings):
        """What bench reduce finds on two ranks that share the GPU."""
        command = [BINARY, "bench", "reduce", "--json"]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        launch = [MPIRUN, "--map-by", "node:oversubscribe", "--bind-to", "none", "-n", 2]
        said = self.run([*launch, *command])
        found = json.loads(said[said.index("{") : said.rindex("}") + 1])
        by_nccl = found["steps_by_collective"] > 0
        if by_nccl != (settings.items() >= BY_NCCL.items()):
            raise Failure(f"the reductions went another way than they should: {said}")
        return found

    def collective_kills(self):
        written = self.logs / "collective_kills.json"
        command = [sys.executable, MEASURE / "collective_kills.py", "--record", written]
        said = self.run([*command, "--runs", self.options.collective_kill_runs])
        found = json.loads(written.read_text(encoding="utf-8"))["figures"]
        figures = {f"collective_kills_{name}": value for name, value in found.items()}
        return figures, (
            f"{said.strip().splitlines()[-1]}; from SIGKILL to a durable repair "
            f"{found['repaired_median_ms']:.0f} ms, to the step's commit "
            f"{found['committed_median_ms']:.0f} ms (medians)"
        )

    def mixed(self):
        for name, settings in (("mixed", []), ("mixed_kills", KILLS)):
            run, _ = self.train(name, 4, *MIXED, *settings)
            said = self.run([BINARY, "info", run])
            if "mixed" not in said or "valid, complete" not in said:
                raise Failure(f"{name}: not marked as mixed, or not valid: {said}")
        return {}, "two ranks on the GPU, two on the CPU, without and with kills: valid, complete"

    def kill_runs(self):
        by_nccl = self.options.kill_runs // 2
        ways = {"": self.options.kill_runs - by_nccl, "by NCCL": by_nccl}
        figures = {"kill_runs": 0, "ranks_killed": 0, "kills_failed": 0}
        sentences = []
        for way, runs in ways.items():
            command = [sys.executable, MEASURE / "kill_swarms.py", "--kernels", "cuda"]
            command += ["--collectives"] if way else []
            said = self.run([*command, "--runs", runs, "--ranks", 3, 6])
            found = re.search(r"(\d+) runs, (\d+) ranks killed, (\d+) failed", said)
            if not found or found[3] != "0":
                raise Failure(said[-400:])
            for name, count in zip(figures, found.groups()):
                figures[name] += int(count)
            sentences.append(f"{way} {found[0]}".strip())
        return {**figures, "kill_runs_by_nccl": by_nccl}, "; ".join(sentences)

    def bench(self, name, what, settings):
        command = [BINARY, "bench", what, "--json"]
        for key, value in {"compute.kernels": "cuda", **settings}.items():
            command += ["--set", f"{key}={value}"]
        said = self.run(command)
        found = json.loads(said[said.index("{") :])
        (self.logs / f"{name}.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
        return found

    def stage_figures(self, name, settings):
        found = self.bench(name, "stage", settings)
        tokens_per_s = found["tokens_per_step"] / found["step_s_median"]
        figures = {
            f"{name}_tokens_per_s": tokens_per_s,
            f"{name}_flops_per_s": found["flops_per_s"],
            f"{name}_share_of_peak": found["flops_per_s"] / PEAK_FLOPS_PER_S,
            f"{name}_share_of_best_product": found["flops_per_s"]
            / found["best_product_flops_per_s"],
            f"{name}_exact_sums_share": found["exact_sums_s_per_step"] / found["step_s_median"],
        }
        sentence = (
            f"{tokens_per_s:.0f} tokens/s, {found['flops_per_s'] / 1e12:.0f} TFLOP/s, "
            f"{100 * figures[f'{name}_share_of_peak']:.1f} % of peak, exact sums "
            f"{100 * figures[f'{name}_exact_sums_share']:.1f} %"
        )
        return figures, sentence

    def shared_stage(self):
        return self.stage_figures("shared_stage", ONE_OF_FOUR)

    def unshared_stage(self):
        return self.stage_figures("unshared_stage", UNSHARED)

    def gpt2(self):
        return self.stage_figures("gpt2", GPT2)

    def pytorch(self):
        tool = MEASURE / "gpu_pytorch.py"
        python = self.options.python
        gpt2 = ["gpt2", "--sequences", 32, "--microbatches", 4]
        stage = ["stage", "--layers", 16, "--sequences", 8, "--microbatches", 1, "--shared"]
        figures = {}
        for what, arguments in (("gpt2", gpt2), ("shared_stage", stage)):
            said = self.run([python, tool, *arguments])
            for variant, tokens in re.findall(rf"{arguments[0]} (\w+) .*?(\d+) tokens/s", said):
                figures[f"pytorch_{what}_{variant}_tokens_per_s"] = float(tokens)
        return figures, ", ".join(f"{name[8:-13]} {value:.0f}" for name, value in figures.items())


CHECKS = [name for name in vars(Checks) if not name.startswith("_")]
HELPERS = ("run", "google_test", "train", "bench_reduce", "bench", "stage_figures")
CHECKS = [name for name in CHECKS if name not in HELPERS]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", metavar="FOLDER")
    parser.add_argument("--data", metavar="FILE")
    parser.add_argument("--only", nargs="+", choices=CHECKS, default=CHECKS, metavar="NAME")
    parser.add_argument("--python", default="python3")
    parser.add_argument("--logs", metavar="FOLDER")
    parser.add_argument("--kill-runs", type=int, default=8, help="half of them by NCCL")
    parser.add_argument("--collective-kill-runs", type=int, default=4)
    record.add_option(parser)
    options = parser.parse_args()
    figures, lines, failed = {}, [], []
    device = program.run("info").stdout
    gpu = re.search(r"^  GPU +(.*)$", device, re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(options, folder)
        for name in options.only:
            checks.name = name
            start_s = time.monotonic()
            try:
                found, sentence = getattr(checks, name)()
                figures.update(found)
            except (Failure, OSError, ValueError, KeyError) as failure:
                failed.append(name)
                sentence = f"FAILED: {failure}"
            lines.append(f"{name:16} {time.monotonic() - start_s:6.1f} s  {sentence}")
            print(lines[-1], flush=True)
    print(f"{gpu[1] if gpu else 'no GPU'}: {len(lines) - len(failed)} of {len(lines)} checks good")
    if options.record:
        what = f"checks and speeds on a GPU: {gpu[1] if gpu else 'none'}"
        record.write(options.record, what, figures, {"checks": lines})
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
