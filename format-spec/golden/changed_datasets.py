"""Golden datasets that were changed: stored names, column files, removed samples, bases (sections 9.1 and 9.4 to 9.6 of
spec.md). See make_golden.py."""
import json

from make_invalid import ABSENT, LEAN, LOST, NEWER, OPEN, READ, REFUSED, VALIDATE, error, flipped, u32
from writer import (CREATE, Array, Col, build, column_file_row, manifest, reference, removed_table, sealed, segment,
                    segment_file, shard_row, twin)

KEY, DATA = Col("key", "utf8", "zstd", key=True), Col("data", "bytes")
OPTIONS = dict(without=LEAN)


class Whole:
    """A valid dataset. `samples` are those that readers see; `column_files`: name, Built and runs of each. Files of
    bases are not written. Where the shards are not `listed`, the manifest leaves them to the segments."""

    def __init__(self, columns, shards, samples, generation, operation, segments, column_files=(), removed=(),
                 dropped=(), hashed=(), bases=(), listed=True):
        others = tuple(row["name"] + "/" for row in bases)

        def own(files):
            return {path: built.data for path, built, *_ in files if not path.startswith(others)}
        self.columns, self.shards, self.samples = columns, shards, samples
        self.files, self.segments, first = own(shards), [], 0
        for name, count in segments.items():
            part = shards[first:first + count]
            self.files[name] = segment_file(part)
            self.segments.append(segment(part, name, self.files[name]))
            first += count
        rows = [column_file_row(name, built, *runs, hashed=name in hashed) for name, built, *runs in column_files]
        self.files |= own(column_files)
        self.column_files = {name: built for name, built, *_ in column_files}
        more = dict(dropped=list(dropped), column_files=rows, bases=list(bases))
        self.more, self.seen = {key: value for key, value in more.items() if value}, {}
        if removed:
            name = f"dataset-{generation}.removed"
            self.files[name] = removed_table(removed)
            self.seen = dict(removed=dict(samples=len(removed), table=reference(name, self.files[name])))
        self.generation = generation
        self.files["dataset.json"] = manifest(columns, {}, shards, generation=generation, operation=operation, segments=self.segments,
                                              features=["bases"] if bases else [], **self.more, **self.seen,
                                              **({} if listed else dict(shards=None)))

    def twin(self):
        return {
            "format": "shardkit-dataset", "version": 1, "sample_count": len(self.samples),
            "bytes": sum(len(built.data) for _, built in self.shards), "blocks": sum(len(built.entries) for _, built in self.shards),
            "columns": [col.describe() for col in self.columns], "metadata": {}, "generation": self.generation, **self.more,
            **({"column_files": [dict(sha256=None) | row for row in self.more["column_files"]]} if "column_files" in self.more else {}),
            **({"removed": self.seen["removed"]["samples"]} if self.seen else {}),
            "segments": [row | dict(table=row["table"]["name"]) for row in self.segments],
            "shards": [dict(sha256=None) | shard_row(path, built) for path, built in self.shards],
            "samples": [{col.name: twin(col, sample.get(col.name)) for col in self.columns} for sample in self.samples],
        }


def operation(name, **arguments):
    return dict(name=name, arguments=arguments)


def renamed_columns():
    """The key and note have other names, left and right have exchanged theirs, scratch is dropped; data is described otherwise than the first
    shard says. The second shard was appended behind that and brings another scratch."""
    left, right, note = Col("left", "u8"), Col("right", "u8"), Col("note", "json")
    columns = [Col("id", "utf8", "zstd", key=True, stored="key"), Col("left", "u8", stored="right"), Col("right", "u8", stored="left"),
               Col("remark", "utf8", stored="note"), Col("data", "bytes", metadata={"unit": "1"}),
               Col("scratch", "i16", nullable=True, stored="scratch@3")]
    first = [dict(key=f"k{i}", left=i, right=10 + i, note=f"[{i}]", data=bytes(i), scratch=99) for i in range(3)]
    second = [{"key": f"k{i}", "left": i, "right": 10 + i, "note": f"note {i}", "data": bytes(i), "scratch@3": -i} for i in range(3, 5)]
    shards = [("0.shard", build([KEY, left, right, note, Col("data", "bytes", metadata={"unit": "m"}), Col("scratch", "u8")], first, [2, 1], **OPTIONS)),
              ("1.shard", build([Col("scratch@3", "i16"), right, left, KEY, Col("note", "utf8"), DATA], second, [2], **OPTIONS))]
    samples = [dict(id=row["key"], left=row["right"], right=row["left"], remark=row["note"], data=row["data"], scratch=row.get("scratch@3"))
               for row in first + second]
    return Whole(columns, shards, samples, 3, operation("append", shards=["1"], samples=["2"]), {"dataset.segment": 1, "dataset-3.segment": 1},
                 dropped=["gone", "scratch"])


REMOVED = [1, 2, 3, 8]  # a sample, a whole block, the last one


def column_files():
    """A column file from before the second shard was appended has the label, which it replaces, of the first one's samples. Another has three columns
    of all samples: score is dropped; caption is renamed and, as a later shard might want, of a wider type. The key of a removed sample is also that
    of one that readers see."""
    new_label, vector, text = Col("label@2", "i32", nullable=True), Col("vector", "ndarray", dtype="f32", shape=[2]), Col("text", "utf8")
    columns = [KEY, DATA, Col("label", "i32", nullable=True, stored="label@2"), vector, Col("caption", "bytes", stored="text")]
    rows = [{"key": f"k{1 if i == 5 else i}", "data": bytes(range(i, 3 * i)), "label": i, "label@2": -1 - i if i else None,
             "vector": Array([2], [i / 2, float(i)]), "text": f"{i} " * i, "score": i} for i in range(9)]
    shards = [("0.shard", build([KEY, DATA, Col("label", "i32")], rows[:4], [2, 2], **OPTIONS)),
              ("1.shard", build([KEY, DATA, new_label], rows[4:], [3, 2], **OPTIONS))]
    files = [("dataset-2.columns", build([new_label], rows[:4], [2, 2], **OPTIONS), (0, 4, 0)),
             ("dataset-4.columns", build([vector, text, Col("score", "u8")], rows, [2, 2, 3, 2], **OPTIONS), (0, 9, 0))]
    samples = [dict(key=row["key"], data=row["data"], label=row["label@2"], vector=row["vector"], caption=row["text"].encode())
               for i, row in enumerate(rows) if i not in REMOVED]
    return Whole(columns, shards, samples, 6, operation("remove", samples=[f"{len(REMOVED)}"]), {"dataset.segment": 2}, files, REMOVED, ["label", "score"],
                 ("dataset-4.columns",))


def compacted_columns():
    """Of four shards the first and the third were rewritten, without a sample each and with the column of the column file."""
    mark = Col("mark", "u8")
    rows = [dict(key=f"k{i}", mark=i) for i in range(7)]  # of the shards before: 0 and 1, 2 and 3, 4 and 5, 6
    parts = [("4.shard", [KEY, mark], rows[1:2]), ("1.shard", [KEY], rows[2:4]), ("5.shard", [KEY, mark], rows[4:5]), ("3.shard", [KEY], rows[6:])]
    shards = [(name, build(columns, part, [1] * len(part), **OPTIONS)) for name, columns, part in parts]
    files = [("dataset-2.columns", build([mark], rows, [2, 1, 1, 2, 1], **OPTIONS), (1, 2, 2), (4, 1, 6))]
    return Whole([KEY, mark], shards, [row for _, _, part in parts for row in part], 4, operation("compact", shards=["2"]), {"dataset-4.segment": 4}, files)


def base_row(name, location, text):
    """What the manifest says of a base whose manifest is `text`."""
    made = json.loads(text)
    return dict(name=name, location=location, generation=made["generation"], checksum=made["checksum"])


def bases(text, shards, base_samples):
    """The shards of a base, which has folders, in another order, and one of the dataset's own between them. Only the
    segment lists them."""
    rows = [dict(key=key) for key in ("own/0", "own/1")]
    (first, a), (second, b) = shards
    parts = [(f"small/{second}", b), ("0.shard", build([KEY], rows, **OPTIONS)), (f"small/{first}", a)]
    samples = [rows[1], base_samples[1]]
    return Whole([KEY, Col("data", "bytes", nullable=True)], parts, samples, 1, CREATE, {"dataset.segment": 3},
                 removed=[0, 1, 3], bases=[base_row("small", "../segments", text)], listed=False)


def bases_columns(text, shards):
    """Shards of two bases. They have the column mark from a column file of the one, and from one of the dataset's own
    that has the name which the other has there."""
    compacted = compacted_columns()
    mark = Col("mark", "u8")
    parts = [("c/1.shard", dict(compacted.shards)["1.shard"]), ("t/1.shard", dict(shards)["1.shard"])]
    files = [("c/dataset-2.columns", compacted.column_files["dataset-2.columns"], (0, 2, 2)),
             ("dataset-2.columns", build([mark], [dict(mark=9)], **OPTIONS), (2, 1, 0))]
    samples = [dict(key=key, mark=value) for key, value in (("k2", 2), ("k3", 3), ("c", 9))]
    rows = [base_row("c", "../compacted-columns", compacted.files["dataset.json"]), base_row("t", "../tiny", text)]
    return Whole([KEY, mark], parts, samples, 2, operation("columns", add=["mark"]), {"dataset.segment": 2}, files,
                 dropped=["data"], bases=rows)


VALID = {"renamed-columns": renamed_columns, "column-files": column_files, "compacted-columns": compacted_columns}


def invalid():
    """{name: ({path: bytes}, error)}. One shard of the column x, one column file of the column y."""
    out = {}
    x, y = Col("x", "u8"), Col("y", "u8")
    rows = [dict(x=i, y=i) for i in range(4)]

    def made(columns, blocks=(4,), samples=None):
        return build(columns, rows if samples is None else samples, list(blocks), without=(5, 6, 7))

    shard, file, two_blocks = made([x]), made([y]), made([x], [2, 2])
    whole_run = dict(sample=0, samples=4, begin=0)

    def add(name, words, found_by=OPEN, kind=LOST, columns=(x, y), shard=shard, file=file, listed=None, runs=None, rows=None, without=(), more=None, **changes):
        """`listed`: what the manifest says of the file; `rows`: of all files; of its files, those in `without` are not there."""
        pair = [("0.shard", shard)]
        row = column_file_row("dataset-2.columns", file) | dict(runs=[whole_run] if runs is None else runs) | (listed or {})
        fields = dict(generation=2, column_files=[row] if rows is None else rows(row)) | changes
        files = {"dataset.json": manifest(columns, {}, pair, **fields)}
        if found_by != OPEN:
            files |= {"0.shard": shard.data, "dataset.segment": segment_file(pair), "dataset-2.columns": file.data}
        files |= more or {}
        out[f"dataset-{name}"] = ({f"/{path}": data for path, data in files.items() if path not in without}, error(found_by, words, kind=kind))

    def add_names(name, words, columns=(x,), **changes):
        add(name, ["manifest", *words], columns=columns, column_files=None, **changes)

    # Stored names.
    add_names("stored-equal-to-name", ["stored"], [Col("x", "u8", stored="x")])
    add_names("stored-twice", ["stored"], [x, Col("z", "u8", stored="x")])
    add_names("stored-no-string", ["stored"], [Col("x", "u8", stored=1)])
    add_names("stored-line-feed", [], [Col("z", "u8", stored="a\nb")])
    add_names("stored-dropped", ["dropped"], [Col("z", "u8", stored="x")], dropped=["x"])
    add_names("name-dropped", ["dropped"], dropped=["x"])
    for name, dropped in (("empty", []), ("descend", ["b", "a"]), ("twice", ["a", "a"]), ("no-string", [1]), ("line-feed", ["a\nb"])):
        add_names(f"dropped-{name}", ["dropped"] if name != "line-feed" else [], dropped=dropped)
    add("column-of-no-stored-name", ["shard 0", "column", "x"], READ, columns=[Col("x", "u8", nullable=True, stored="x@1"), y])

    # What the manifest says of column files.
    for name, value in (("empty", []), ("no-array", {})):
        add(f"column-files-{name}", ["manifest", "column_files"], column_files=value)
    for name, listed in (("of-no-column", dict(columns=[])), ("column-twice", dict(columns=["y", "y"])), ("column-unknown", dict(columns=["z"]))):
        add(f"column-file-{name}", ["manifest", "column file 0", "column"], listed=listed)
    add("column-file-of-the-key", ["manifest", "column file 0", "key"], columns=[KEY], listed=dict(columns=["key"]))
    add("column-file-name-dotdot", ["manifest", "name"], listed=dict(name="../x.columns"))
    add("column-file-name-twice", ["manifest", "twice"], listed=dict(name="0.shard"))
    add("column-file-of-more-blocks", ["manifest", "samples", "blocks"], listed=dict(blocks=5))
    add("column-file-sha256-short", ["manifest", "sha256"], listed=dict(sha256="0"))
    for key in ("columns", "runs"):
        add(f"column-file-lacks-{key}", ["manifest", key], rows=lambda row, key=key: [{name: value for name, value in row.items() if name != key}])
    add("runs-empty", ["manifest", "column file 0", "runs"], runs=[])
    for name, runs in (("of-none", [whole_run, whole_run | dict(sample=4, samples=0)]), ("past-the-end", [whole_run | dict(samples=5)]),
                       ("past-its-file", [whole_run | dict(samples=2, begin=3)]), ("lacks-begin", [dict(sample=0, samples=4)]),
                       ("no-count", [whole_run | dict(begin=-1)])):
        add(f"run-{name}", ["manifest", "begin"] if name == "lacks-begin" else ["manifest", "run"], runs=runs)
    half = dict(sample=0, samples=2, begin=0)
    add("runs-overlap", ["manifest", "column file 0", "run"], runs=[whole_run, half | dict(sample=2)])
    add("runs-descend", ["manifest", "column file 0", "run"], runs=[half | dict(sample=2), half])
    add("runs-of-two-files-overlap", ["manifest", "column file", "y"], rows=lambda row: [row, row | dict(name="dataset-3.columns")])
    add("runs-of-a-dropped-name-overlap", ["manifest", "column file", "y"], columns=[x], dropped=["y"],
        rows=lambda row: [row, row | dict(name="dataset-3.columns", runs=[half])])
    text = manifest([x, y], {}, [("0.shard", shard)], column_files=[column_file_row("dataset-2.columns", file, (0, 4, 0))])
    for name, before, inserted in (("column-file", b'"runs"', b'"name": "a", '), ("run", b'"begin"', b'"sample": 0, ')):
        body = text[:text.rindex(b'  "checksum"')].replace(before, inserted + before)
        add(f"key-twice-in-{name}", ["manifest", "twice"], more={"dataset.json": sealed(body)})

    # Column files that are others than the manifest says, or than their shards want.
    add("column-file-missing", ["column file 0", "missing"], READ, ABSENT, without=["dataset-2.columns"])
    other = made([y], samples=[dict(y=i) for i in (0, 1, 2, 9)])
    add("column-file-exchanged", ["column file 0", "content hash"], READ, more={"dataset-2.columns": other.data})
    add("column-file-of-other-columns", ["column file 0", "columns"], READ, dropped=["z"], file=made([Col("z", "u8")], samples=[dict(z=1)] * 4),
        listed=dict(columns=["y"]))
    add("column-file-with-a-key", ["column file 0", "key"], VALIDATE, columns=[x], dropped=["y"],
        file=made([Col("y", "utf8", "zstd", key=True)], samples=[dict(y=f"{i}") for i in range(4)]))
    for name, col in (("type", Col("y", "i8")), ("nullable", Col("y", "u8", nullable=True))):
        add(f"column-file-column-{name}", ["column file 0", "y", name], READ, file=made([col]))
    for name, blocks in (("larger", [4]), ("elsewhere", [1, 3])):
        add(f"column-file-blocks-{name}", ["column file 0", "block"], READ, shard=two_blocks, file=made([y], blocks))
    for name, run in (("begins", dict(sample=1, samples=3, begin=1)), ("ends", dict(sample=0, samples=3, begin=0))):
        add(f"run-{name}-within-a-block", ["column file 0", "block"], READ, columns=[x, Col("y", "u8", nullable=True)], runs=[run],
            shard=two_blocks, file=made([y], [2, 2]))
    add("run-begins-within-a-block-of-its-file", ["column file 0", "block"], READ, columns=[x, Col("y", "u8", nullable=True)],
        shard=two_blocks, runs=[half | dict(begin=1)])
    add("column-file-flipped", ["block 0", "y"], READ, more={"dataset-2.columns": flipped(file.data, file.at["head 0 0"])})
    add("column-absent-not-nullable", ["shard 0", "y"], READ, shard=two_blocks, file=made([y], [2, 2]), runs=[half])
    add("column-in-shard-and-column-file", ["shard 0", "y"], VALIDATE, shard=made([x, y]))
    noted = build([y], rows, [4], metadata={"a": "1"}, without=(5, 6, 7))  # of the same content hash
    add("column-file-sha256-differs", ["sha256"], VALIDATE, file=noted, listed=dict(sha256=shard_row("", file, True)["sha256"]))

    # Removed samples.
    def add_removed(name, words, ordinals=(1, 3), samples=2, kind=LOST, table=True, hook=lambda name, data: data):
        data = removed_table(list(ordinals), hook=hook)
        add(f"removed-{name}", words, kind=kind, columns=[x], column_files=None, more={"dataset-2.removed": data} if table else {},
            removed=dict(samples=samples, table=reference("dataset-2.removed", data)))

    add_removed("more-than-stored", ["manifest", "removed", "5 samples"], samples=5, table=False)
    add_removed("missing", ["removed samples", "missing"], kind=ABSENT, table=False)
    add_removed("past-the-end", ["removed samples", "sample 4"], (1, 4))
    add_removed("descend", ["removed samples", "sample 1"], (3, 1))
    add_removed("count", ["removed samples", "dataset.json names"], samples=1)
    add_removed("of-another-kind", ["removed samples", "kind"], hook=lambda name, data: u32(1) + data[4:] if name == "removed header" else data)
    return out | invalid_bases()


BASE = dict(name="b", location="../b", generation=1, checksum="0123456789abcdef")


def with_bases(**changes):
    """A manifest without shards, on one line, so that it is small. `changes` of it; None leaves a key out."""
    fields = dict(format="shardkit-dataset", version=1, features=["bases"], generation=1,
                  operation=dict(name="", arguments={}), samples=0, bytes=0, blocks=0,
                  columns=[Col("x", "u8").describe()], metadata={}, segments=[], bases=[BASE]) | changes
    text = json.dumps({key: value for key, value in fields.items() if value is not None}, separators=(",", ":"))
    return sealed(text[:-1].encode() + b",\n")


def invalid_bases():
    """As `invalid`."""
    out = {}

    def add(name, words, found_by=OPEN, kind=LOST, files=None, **changes):
        files = {"/dataset.json": with_bases(**changes)} | (files or {})
        out[f"dataset-{name}"] = files, error(found_by, words, kind=kind)

    add("bases-without-feature", ["manifest", "bases", "feature"], features=[])
    add("feature-without-bases", ["manifest", "bases", "feature"], bases=None)
    add("bases-and-feature-unknown", ["manifest", "feature", "remapped-values"], kind=NEWER,
        features=["bases", "remapped-values"], bases=7)
    add("bases-empty", ["manifest", "bases"], bases=[])
    add("bases-of-one-name", ["manifest", "bases", "name"], bases=[BASE, BASE | dict(location="../c")])
    for name, key, value in (("name-dotdot", "name", ".."), ("name-slash", "name", "b/c"),
                             ("location-empty", "location", ""), ("location-query", "location", "https://b/c?d"),
                             ("location-user", "location", "https://a@b/c"), ("location-nul", "location", "../b\0"), ("location-scheme", "location", "a b://c"),
                             ("generation-0", "generation", 0)):
        add(f"base-{name}", ["manifest", "base 0", key], bases=[BASE | {key: value}])
    add("base-location-own", ["manifest", "base", "itself"], bases=[BASE | dict(location="x/..")])
    for name, location in (("path", "/nonexistent-elsewhere/x"), ("url", "s3://other/x")):
        add(f"base-out-of-reach-{name}", ["base", location], kind=REFUSED, bases=[BASE | dict(location=location)])
    there = [("b/0.shard", build([Col("x", "u8")], [dict(x=0)], without=(5, 6, 7)))]
    counts = dict(samples=1, bytes=len(there[0][1].data), blocks=1)
    add("base-holds-segment", ["manifest", "table", "base"], **counts, segments=[segment(there, "b/dataset.segment")])
    add("base-holds-removed", ["manifest", "table", "base"], **counts, segments=[segment(there)],
        removed=dict(samples=1, table=reference("b/dataset-1.removed", removed_table([0]))))
    add("base-missing", ["shard 0", "base", "missing"], READ, ABSENT, {"/dataset.segment": segment_file(there)},
        **counts, segments=[segment(there)], bases=[BASE | dict(location="../no-such-dataset")])
    return out
