#!/usr/bin/env python3
"""Packs with examples/cluster/pack.slurm under Slurm's own daemons on this host, by hand.

Needs root and Debian's slurm-wlm and munge. SHARDCTL names the command. Tasks are killed and requeued while
they run, and one fails for a while; the dataset is that of `shardctl pack`.
"""

import filecmp
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARDCTL = os.path.abspath(os.environ.get("SHARDCTL") or shutil.which("shardctl") or "shardctl")
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SchedulerParameters=sched_interval=1
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# In place of shardctl: task 3 fails until there is a file `mended`.
WRAPPER = """#!/bin/bash
if [[ "$*" == *"--task 3/"* && ! -f {folder}/mended ]]; then exit 1; fi
[[ "$*" == *--task* ]] && sleep 1
exec {shardctl} "$@"
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@unittest.skipUnless(os.geteuid() == 0, "needs root")
@unittest.skipUnless(
    shutil.which("slurmctld") and shutil.which("slurmd") and shutil.which("munged"),
    "slurm-wlm and munge are not installed",
)
class SlurmTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="shardkit-slurm-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o755)
        for name in ("state", "spool", "bin"):
            (self.folder / name).mkdir()
        (self.folder / "munge.key").write_bytes(os.urandom(1024))
        (self.folder / "munge.key").chmod(0o400)
        host = socket.gethostname().split(".")[0]
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(folder=self.folder, host=host, port=free_port(), node_port=free_port())
        )
        wrapper = self.folder / "bin" / "shardctl"
        wrapper.write_text(WRAPPER.format(folder=self.folder, shardctl=SHARDCTL))
        wrapper.chmod(0o755)
        self.environment = {
            **os.environ,
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "LOG_DIR": str(self.folder),
            "CPUS_PER_TASK": "2",
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
        }
        names = {
            option: f"--{option}={self.folder}/munge.{option.partition('-')[0]}"
            for option in ("socket", "key-file", "pid-file", "log-file", "seed-file")
        }
        self.daemon("munged", "--foreground", "--force", *names.values())
        self.wait(lambda: (self.folder / "munge.socket").exists(), "munged")
        self.daemon("slurmctld", "-D")
        self.daemon("slurmd", "-D")
        self.wait(lambda: "idle" in self.command("sinfo", "-h", "-o", "%T", check=False), "slurmd")

    def daemon(self, *command):
        with open(self.folder / f"{command[0]}.log", "wb") as log:
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        self.addCleanup(process.wait, 60)
        self.addCleanup(process.send_signal, signal.SIGTERM)

    def command(self, *command, check=True):
        done = subprocess.run(
            command,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if check:
            self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def wait(self, done, what, seconds=120):
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                logs = "\n".join(path.read_text(errors="replace")[-1000:] for path in self.folder.glob("*.log"))
                self.fail(f"{what}: takes too long\n{logs}")
            time.sleep(0.2)

    def queue(self):
        return self.command("squeue", "-h", "-o", "%i %T").splitlines()

    def test_an_array_of_tasks(self):
        source, whole, output = (str(self.folder / name) for name in ("in", "whole", "out"))
        options = ["--shard-size", "1MiB", "--codec", "bin=zstd"]
        self.command(
            SHARDCTL, "synth", "files", "-o", source, "--count", "3000", "--size", "10KiB", "--extension", "bin"
        )
        self.command(SHARDCTL, "pack", source, "-o", whole, *options)
        script = str(ROOT / "examples" / "cluster" / "pack.slurm")
        self.command(script, source, output, "8", *options)
        for _ in range(3):
            self.wait(lambda: any("RUNNING" in line and "_" in line for line in self.queue()), "a task")
            running = next(line.split()[0] for line in self.queue() if "RUNNING" in line)
            self.command("scontrol", "requeue", running, check=False)
        # Task 3 has failed, so the last job is given up.
        self.wait(lambda: not self.queue(), "the queue", 300)
        self.assertFalse(os.path.exists(output + "/dataset.json"))
        (self.folder / "mended").touch()
        last = self.command(script, source, output, "8", *options).strip()
        self.assertRegex(last, r"^\d+$")
        self.wait(lambda: not self.queue(), "the queue", 300)
        same = filecmp.dircmp(whole, output)
        self.assertEqual((same.left_only, same.right_only, same.diff_files), ([], [], []))
        self.assertEqual(sorted(os.listdir(whole)), sorted(os.listdir(output)))
        logs = "".join(path.read_text() for path in self.folder.glob("shardkit-pack-*.log"))
        self.assertTrue(re.search(r"were there before", logs), "the second array packs again what the first has packed")


if __name__ == "__main__":
    unittest.main()
