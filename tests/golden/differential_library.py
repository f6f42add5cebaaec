"""The library, in a process of its own, which may crash. Part of differential.py, which see."""
import hashlib
import json
import os
import re
import resource
import select
import subprocess
import sys

LEVELS = ("open", "read", "validate", "deep")
FEW, SINGLE = 20000, 20  # values are compared of so many samples, and read one by one of so many
CLASSES = {"DataLossError": "DataLoss", "NotImplementedError": "Unimplemented", "FileNotFoundError": "NotFound",
           "PermissionError": "PermissionDenied", "MemoryError": "limit"}


def digest(values):
    """Of a column's values, each bytes or None."""
    out = hashlib.blake2b(digest_size=8)
    for value in values:
        out.update(b"\0" if value is None else b"\1" + len(value).to_bytes(8, "little") + bytes(value))
    return out.hexdigest()


class Library:
    def __init__(self, python, package):
        self.command, self.environment, self.process = [python, os.path.abspath(__file__)], os.environ | {"PYTHONPATH": package}, None

    def ask(self, *request):
        if self.process is None:
            self.process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], 300)
        line = self.process.stdout.readline() if ready else "took over 300 s"
        try:
            return json.loads(line)
        except ValueError:
            self.process.kill()
            status, self.process = self.process.wait(), None
            return dict.fromkeys(("open", "error"), ["crash", f"{line} exit status {status}"])


# ---- In the process of the library ----

def class_of(error):
    if "File name too long" in str(error):  # of this system: no such file can be there
        return ["NotFound", str(error)]
    return [CLASSES.get(type(error).__name__, type(error).__name__), str(error)]


def judge(path, keys):
    out, dataset = {"samples": 0, "read": None, "single": {}, "index": None, "found": [], "digests": None}, None
    try:
        dataset = sk.open(path)
        known = [column.name for column in dataset.all_columns if column.codec in ("none", "zstd")]
        if len(known) < len(dataset.all_columns):
            dataset = sk.open(path, columns=known) if known else None
        out["open"] = None
    except Exception as error:
        out["open"], dataset = class_of(error), None
    if dataset is not None:
        read(dataset, keys, out)
    for level in LEVELS[2:]:
        try:
            out[level] = [[problem.error_class, problem.message] for problem in sk.validate(path, deep=level == "deep").problems]
        except Exception as error:
            out[level] = [class_of(error)]
    return out


def read(dataset, keys, out):
    columns, few = dataset.schema, len(dataset) <= FEW
    out["samples"] = len(dataset)
    out["index"] = re.sub(".*(a single shard has no|names no) offset index.*", "", dataset._library.index_problem or "") or None
    values = {column.name: [] for column in columns}
    try:
        for block in dataset.scan() if few and len(columns) else ():
            for c, column in enumerate(columns):
                each = Values(block._block, c, column, block._kept)
                values[column.name] += [None if view is None else bytes(view) for view in map(each.view, range(len(each)))]
        out["digests"] = {name: digest(each) for name, each in values.items()} if few else None
        if out["digests"] and any(len(each) != len(dataset) for each in values.values()):
            out["read"] = ["fewer samples", "a scan ends without an error"]
    except Exception as error:
        out["read"] = class_of(error)
        return
    for i in range(min(len(dataset), SINGLE)):
        for c, column in enumerate(columns):
            try:
                out["single"][f"{i} {column.name}"] = digest([dataset._library.read_value(i, c, False)])
            except Exception as error:
                out["single"][f"{i} {column.name}"] = class_of(error)
    for key in keys:
        try:
            out["found"].append(dataset.find(key))
        except Exception as error:
            out["found"].append(class_of(error)[0])


def repair(path, output):
    try:
        shard, = sk.repair(path, output, sync=False).shards
    except Exception as error:
        return {"error": class_of(error)}
    return {"error": None, "written": shard.written, "problems": shard.problems,
            "losses": [[loss.first_sample, loss.sample_count, loss.reason] for loss in shard.losses]}


if __name__ == "__main__":
    import shardkit as sk
    from shardkit.block import Values
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    for request in map(json.loads, sys.stdin):
        print(json.dumps({"judge": judge, "repair": repair}[request[0]](*request[1:])), flush=True)
