"""The promise for many peers: the bits of one rank, whatever the swarm, and no silent end."""

import os
import re
import unittest

from harness.processes import wait_for
from harness.program import slow_devices, train_arguments
from harness.swarm import MPIRUN, launch_environment, reports_deaths
from harness.test_case import SwarmpiTest, content


@unittest.skipUnless(MPIRUN, "there is no mpirun")
class SwarmTest(SwarmpiTest):
    def work_of(self, run):
        """What `swarmpi info` says of each peer: {peer: (stages, microbatches)}; {} of one."""
        status, text, err = self.run_program("info", run)
        self.assertEqual(status, 0, err)
        if "\npeers " not in text:
            return {}
        table = text[text.index("\npeers ") :].splitlines()[2:]
        rows = [re.match(r" +(\d+) +([\d,-]+) +(\d+) ", line) for line in table]
        rows = rows[: rows.index(None)]
        return {int(row[1]): (row[2], int(row[3])) for row in rows}


class AnySwarm(SwarmTest):
    """Each compares a run of some swarm bitwise with that of one process."""

    def test_ranks_and_stages(self):
        reference = self.train("reference")
        for ranks in (1, 2, 3, 4, 7):
            for stages in (1, 2, 4):
                with self.subTest(ranks=ranks, stages=stages):
                    run = self.train(f"{ranks}-{stages}", f"swarm.stages={stages}", ranks=ranks)
                    self.assert_same_run(reference, run)

    def test_every_wiring(self):
        reference = self.train("reference")
        for wiring in ("iwrr", "uniform", "round_robin", "fixed"):
            for seed in (1, 2):
                with self.subTest(wiring=wiring, seed=seed):
                    run = self.train(
                        f"{wiring}{seed}",
                        f"swarm.wiring={wiring}",
                        f"swarm.seed={seed}",
                        "swarm.stages=2",
                        ranks=4,
                    )
                    self.assert_same_run(reference, run)

    def test_windows(self):
        reference = self.train("reference")
        for window in (1, 3, 50):
            with self.subTest(window=window):
                run = self.train(
                    f"window{window}", f"swarm.window={window}", "swarm.stages=2", ranks=3
                )
                self.assert_same_run(reference, run)

    def test_spares_wait(self):
        reference = self.train("reference")
        for ranks, spares, stages in ((4, 1, 2), (4, 3, 2)):
            with self.subTest(ranks=ranks, spares=spares):
                run = self.train(
                    f"spares{spares}",
                    f"swarm.spares={spares}",
                    f"swarm.stages={stages}",
                    ranks=ranks,
                )
                self.assert_same_run(reference, run)
                workers = ranks - spares
                self.assertEqual(set(self.work_of(run)), set(range(workers if workers > 1 else 0)))

    def test_pins(self):
        reference = self.train("reference")
        run = self.train("pinned", "swarm.stages=2", "swarm.pins=[1, 0, 1]", ranks=4)
        self.assert_same_run(reference, run)
        work = self.work_of(run)
        self.assertEqual([work[peer][0] for peer in (0, 1, 2)], ["1", "0", "1"])

    def test_every_stage_does_every_microbatch_once(self):
        # Of steps of a millisecond not all rows of peers are kept.
        self.add_to_deck(slow_devices(0.005, 3))
        run = self.train("counted", "swarm.stages=2", "compute.fidelity=emulated", ranks=3)
        done = {"0": 0, "1": 0}
        for stage, microbatches in self.work_of(run).values():
            done[stage] += microbatches
        self.assertEqual(done, {"0": 13 * 4, "1": 13 * 4})  # row 0 and 12 steps of 4


class Variants(SwarmTest):
    def check(self, *settings, ranks=3, stages=2):
        reference = self.train("reference", *settings)
        run = self.train("swarm", *settings, f"swarm.stages={stages}", ranks=ranks)
        self.assert_same_run(reference, run)

    def test_bf16(self):
        self.check("model.precision=bf16")

    def test_delayed_updates(self):
        self.check("train.updates=delayed")

    def test_delayed_updates_on_more_ranks_with_checkpoints(self):
        self.check(
            "train.updates=delayed",
            "output.checkpoint_every=2",
            "train.steps=20",
            ranks=5,
            stages=4,
        )

    def test_lamb(self):
        self.check("train.optimizer=lamb")

    def test_shared_layers(self):
        self.check("model.shared_groups=2")

    def test_held_out_sequences_that_do_not_fill_a_microbatch(self):
        size = 7
        status, out, err = self.run_program("check", self.deck)
        self.assertEqual(status, 0, err)
        held_out = int(re.search(r" (\d+) held out", out)[1])
        self.assertNotEqual(held_out % size, 0, "they fill all microbatches")
        for updates in ("synchronous", "delayed"):
            settings = (f"train.microbatch_size={size}", f"train.updates={updates}")
            settings += ("output.validate_every=3",)
            reference = self.train(f"{updates}-reference", *settings)
            for ranks, stages in ((1, 4), (3, 1), (3, 2), (5, 4)):
                with self.subTest(updates=updates, ranks=ranks, stages=stages):
                    run = self.train(
                        f"{updates}-{ranks}-{stages}",
                        *settings,
                        f"swarm.stages={stages}",
                        ranks=ranks,
                    )
                    self.assert_same_run(reference, run)

    def test_many_small_microbatches(self):
        self.check("train.microbatches=16", "train.microbatch_size=1", ranks=4)


class Resume(SwarmTest):
    SETTINGS = ("train.schedule=constant",)  # lets part of a run be the beginning of the whole

    def test_on_other_ranks_and_stages(self):
        for updates in ("synchronous", "delayed"):
            with self.subTest(updates=updates):
                settings = (*self.SETTINGS, f"train.updates={updates}")
                whole = self.train(f"{updates}-whole", *settings, "train.steps=18")
                name, checkpoints = updates, self.path(updates, "RUN.checkpoints")
                os.makedirs(checkpoints)
                for steps, ranks, stages in ((6, 3, 2), (12, 4, 4), (15, None, 1), (18, 3, 2)):
                    run = self.train(
                        name,
                        *settings,
                        f"train.steps={steps}",
                        f"swarm.stages={stages}",
                        ranks=ranks,
                        resume=checkpoints,
                    )
                self.assert_same_run(whole, run)

    def test_of_a_swarm_by_one_process(self):
        whole = self.train("whole", *self.SETTINGS)
        self.train("half", *self.SETTINGS, "train.steps=6", "swarm.stages=2", ranks=3)
        run = self.train("half", *self.SETTINGS, resume=self.path("half", "RUN.checkpoints"))
        self.assert_same_run(whole, run)


class Flip(SwarmTest):
    """One bit of a replica changes after step 5; step 6 is the first whose state can tell."""

    def check(self, peer, checkpoint_every, says=r"step 6 .* peers 0 against 1,"):
        reference = self.train("reference")
        settings = (f"output.checkpoint_every={checkpoint_every}", "output.keep=9")
        fault = f'faults.at=[{{step = 5, peer = {peer}, event = "flip"}}]'
        err = self.train("flipped", *settings, fault, ranks=2, expect=1)
        self.assertRegex(err, says + r".*\b(layer\.\d+|embedding|head|final_norm)\.\w+")
        self.assert_unfinished(self.path("flipped", "RUN.h5"))
        self.assertIn("invalid", self.run_program("info", self.path("flipped", "RUN.h5"))[1])
        checkpoints = self.path("flipped", "RUN.checkpoints")
        self.assert_same_run(
            reference, self.train("flipped", *settings, ranks=2, resume=checkpoints)
        )

    def test_in_the_leader_ends_the_run(self):
        self.check(peer=0, checkpoint_every=2)

    def test_in_another_peer_ends_the_run(self):
        self.check(peer=1, checkpoint_every=2)

    def test_where_each_replica_owns_a_range_it_is_found_by_the_peer_itself(self):
        says = r"at peer 1 was damaged in memory before step 6"
        named = r"the state of \S+ of stage 0 "
        reference = self.train("reference")
        settings = ("swarm.method=zero_offload", "output.checkpoint_every=2", "output.keep=9")
        fault = 'faults.at=[{step = 5, peer = 1, event = "flip"}]'
        err = self.train("flipped", *settings, fault, ranks=2, expect=1)
        self.assertRegex(err, named + says)
        self.assert_unfinished(self.path("flipped", "RUN.h5"))
        checkpoints = self.path("flipped", "RUN.checkpoints")
        again = self.train("flipped", *settings, ranks=2, resume=checkpoints)
        self.assert_same_run(reference, again)

    def test_in_a_state_about_to_be_stored_spoils_no_checkpoint(self):
        says = r"checkpoint of step 5: what peer 0 has written"
        self.check(peer=0, checkpoint_every=5, says=says)


@unittest.skipUnless(reports_deaths(), "this MPI reports no deaths")
class Environment(SwarmTest):
    """Variables that a job script or a site has set for other programs."""

    def test_keeps_the_cpus_of_the_launcher_when_openmp_is_told_to_bind(self):
        binding = {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores", "GOMP_CPU_AFFINITY": "0"}
        arguments, run = self.training("bound", "train.steps=1000000", "train.schedule=constant")
        environment = {**launch_environment(), **binding}
        swarm = self.start_swarm(2, *arguments, bind=False, env=environment)
        wait_for(
            lambda: swarm.poll() is not None or os.path.exists(run + ".journal/term-1"),
            "the journal",
        )
        ranks = swarm.ranks()
        self.assertEqual(len(ranks), 2)
        for rank, pid in ranks.items():
            for thread in os.listdir(f"/proc/{pid}/task"):
                cpus = os.sched_getaffinity(int(thread))
                self.assertEqual(cpus, os.sched_getaffinity(0), f"rank {rank}")

    def test_names_transports_that_somebody_has_chosen(self):
        for name, value in (("OMPI_MCA_pml", "ucx"), ("OMPI_MCA_btl", "tcp")):
            with self.subTest(name=name):
                arguments, _ = self.training(value)
                environment = {**launch_environment(), name: value}
                _, _, err = self.start_swarm(2, *arguments, env=environment).result()
                named = [line for line in err.splitlines() if f"{name}={value} " in line]
                self.assertEqual(len(named), 1, err)
                self.assertTrue(named[0].startswith("swarmpi: warning: "), err)


class Refused(SwarmTest):
    """One message, status 2, nothing written, however many ranks find the same."""

    def refused(self, ranks, *settings, says, deck=None):
        os.makedirs(self.path("refused"), exist_ok=True)
        before = content(self.folder)
        err = self.train("refused", *settings, ranks=ranks, expect=2, deck=deck)
        ours = [line for line in err.splitlines() if line.startswith("swarmpi:")]
        self.assertEqual(len(ours), 1, err)
        for words in says:
            self.assertIn(words, ours[0])
        self.assertEqual(content(self.folder), before)

    def test_no_rank_is_left_to_work(self):
        for ranks, spares in ((2, 2), (1, 3)):
            with self.subTest(ranks=ranks, spares=spares):
                self.refused(ranks, f"swarm.spares={spares}", says=["swarm.spares"])

    def test_a_mistake_in_the_deck(self):
        deck = self.path("bad.toml")
        with open(deck, "w", encoding="utf-8") as file:
            file.write("[train]\nstep = 3\n")
        self.refused(3, deck=deck, says=[deck + ":2", "train.step", "train.steps"])

    def test_a_folder_that_not_all_ranks_see(self):
        # Each rank has a working folder of its own, and this path leads each into its own.
        name = '"${OMPI_COMM_WORLD_RANK-}${PMI_RANK-}"'
        through = ("sh", "-c", f'mkdir -p {name} && cd {name} && exec "$0" "$@"')
        arguments = train_arguments(self.deck, "/proc/self/cwd/RUN.h5")
        swarm = self.start_swarm(2, *arguments, through=through, cwd=self.folder)
        status, _, err = swarm.result()
        self.assertEqual(status, 2, err)
        self.assertRegex(err, rf"rank 1 on .*: {re.escape(self.deck)}: output.run: .*does not see")

    def test_an_existing_run(self):
        self.train("refused")
        self.refused(2, says=["RUN.h5", "--resume"])


if __name__ == "__main__":
    unittest.main()
