"""The golden dataset with layers and removed samples (sections 9.6 and 9.7 of spec.md). See make_golden.py."""
import functools
import json

from make_invalid import ABSENT, LEAN, LOST, OPEN, VALIDATE, error
from writer import Array, Col, build, index, keys, layer_row, manifest, reference, removed_table, segment, shard_row, twin

KEY, LABEL = Col("key", "utf8", "zstd", key=True), Col("label", "i32", nullable=True)
STORED = [KEY, Col("data", "bytes"), LABEL, Col("note", "json"), Col("scratch", "u8")]
BLOCKS = [[2, 2], [3, 2]]  # of the two shards
# The key is renamed, note renamed and widened, scratch dropped; label is replaced in the first shard. Of the added columns caption comes from
# a layer for some samples alone.
VIEW = [Col("id", "utf8", "zstd", key=True), Col("data", "bytes", metadata={"unit": "1"}), LABEL, Col("remark", "utf8"),
        Col("vector", "ndarray", dtype="f32", shape=[2]), Col("caption", "utf8", nullable=True)]
SOURCES = dict(id=[dict(end=9, column="key")], label=[dict(end=4, layer=0, column="label")], remark=[dict(end=9, column="note")],
               vector=[dict(end=9, layer=1, column="vector")], caption=[dict(end=2), dict(end=7, layer=1, column="text")])
REMOVED = [1, 2, 3, 8]  # a sample, a whole block, the last one


def stored(without=()):
    """The shards, and their samples; the key of a removed sample is also that of one that readers see."""
    samples = [dict(key=f"k{1 if i == 5 else i}", data=bytes(range(i, 3 * i)), label=None if i == 6 else i, note=f"[{i}]", scratch=i) for i in range(9)]
    return [(f"{k}.shard", build(STORED, part, BLOCKS[k], without=without)) for k, part in enumerate((samples[:4], samples[4:]))], samples


def corrected(without=()):
    return [("0.shard", build([LABEL], [dict(label=-1 - i if i else None) for i in range(4)], [2, 2], without=without))]


def described(blocks=((4,), (3, 2)), without=()):
    """Its blocks are those of several blocks of the dataset's shards, or one of them."""
    samples = [dict(vector=Array([2], [i / 2, float(i)]), text=f"{i} " * i) for i in range(9)]
    first = sum(blocks[0])
    return [(f"{k}.shard", build([VIEW[4], Col("text", "utf8")], part, list(blocks[k]), without=without))
            for k, part in enumerate((samples[:first], samples[first:]))]


def seen():
    """The samples that readers see."""
    samples, out = stored()[1], []
    for i in sorted(set(range(9)) - set(REMOVED)):
        label = samples[i]["label"] if i >= 4 else -1 - i if i else None
        values = dict(id=samples[i]["key"], data=samples[i]["data"], label=label, remark=samples[i]["note"], vector=Array([2], [i / 2, float(i)]),
                      caption=f"{i} " * i if 2 <= i < 7 else None)
        out.append({col.name: twin(col, values[col.name]) for col in VIEW})
    return out


def files(layers=None, sources=None, table=None, without=(), **changes):
    """{path: bytes}. `layers`: the shards of each; `sources`, `table` in place of those above; `without`: kinds of sections that shards
    lack; `changes` of the manifest."""
    shards, out, rows = stored(without)[0], {}, []
    for name, parts in zip(("layer-2", "layer-3"), layers or (corrected(without), described(without=without))):
        columns = parts[0][1].columns
        out |= {f"{name}/{path}": built.data for path, built in parts}
        out |= {f"{name}/dataset.json": manifest(columns, {}, parts), f"{name}/dataset.idx": index(parts)}
        rows.append(layer_row(name, out[f"{name}/dataset.json"]))
    removed = removed_table(REMOVED) if table is None else table
    found = SOURCES | (sources or {})
    view = dict(columns=[col.describe() | (dict(sources=found[col.name]) if col.name in found else {}) for col in VIEW], layers=rows)
    out |= {"dataset.idx": index(shards), "dataset.keys": keys(shards), "dataset-4.removed": removed}
    out |= {path: built.data for path, built in shards}
    fields = dict(features=["layers", "removed-samples"], generation=4, operation=dict(name="remove", arguments=dict(samples=[f"{len(REMOVED)}"])),
                  segments=[segment(shards, keys=("dataset.keys", out["dataset.keys"]))], view=view,
                  removed=dict(samples=len(REMOVED), table=reference("dataset-4.removed", removed)))
    return out | {"dataset.json": manifest(STORED, {"note": "layered"}, shards, **fields | changes)}


def invalid():
    """{name: ({path: bytes}, error)}."""
    some = functools.partial(files, without=LEAN)
    made = some()
    view = json.loads(made["dataset.json"])["view"]
    removed = json.loads(made["dataset.json"])["removed"]
    out = {}

    def add(name, words, changed, found_by=OPEN, kind=LOST, alone=False):
        """`alone`: only of the manifest, since it is refused. No shard is looked at before it is read."""
        wanted = {path: data for path, data in changed.items() if path == "dataset.json" or not alone and (found_by != OPEN or ".shard" not in path)}
        out[f"dataset-{name}"] = ({f"/{path}": data for path, data in wanted.items()}, error(found_by, words, kind=kind))

    add("layers-without-view", ["manifest", "view", "layers"], some(view=None), alone=True)
    add("view-without-layers", ["manifest", "view", "layers"], some(features=["removed-samples"]), alone=True)
    add("removed-without-feature", ["manifest", "removed", "removed-samples"], some(features=["layers"]), alone=True)
    add("removed-without-table", ["manifest", "removed", "removed-samples"], some(removed=None), alone=True)
    add("removed-more-than-stored", ["manifest", "removed", "10 samples"], some(removed=removed | dict(samples=10)), alone=True)
    add("source-past-its-layer", ["manifest", "view", "label", "source", "layer"], some(sources=dict(label=[dict(end=7, layer=0, column="label")])), alone=True)
    add("source-of-no-layer", ["manifest", "view", "label", "layer 2"], some(sources=dict(label=[dict(end=4, layer=2, column="label")])), alone=True)
    add("source-within-a-block", ["source ends at sample 3", "within a block"], some(sources=dict(label=[dict(end=3, layer=0, column="label")])), VALIDATE)
    add("layer-of-others", ["layer-2", "is not the layer"], some(view=view | dict(layers=[view["layers"][0] | dict(checksum="0" * 16), view["layers"][1]])))
    add("layer-missing", ["layer", "missing"], {path: data for path, data in made.items() if not path.startswith("layer-2/")}, kind=ABSENT)
    add("layer-within-a-block", ["layer", "ends at sample 3", "within a block"], some(layers=(corrected(LEAN), described(((3, 1), (3, 2)), LEAN))), VALIDATE)
    add("removed-missing", ["removed samples", "missing"], {path: data for path, data in made.items() if path != "dataset-4.removed"}, kind=ABSENT)
    add("removed-past-the-end", ["removed samples", "sample 9"], some(table=removed_table([1, 2, 3, 9])))
    add("removed-descend", ["removed samples", "sample 2"], some(table=removed_table([1, 3, 2, 8])))
    add("removed-count", ["removed samples", "dataset.json names"], some(removed=removed | dict(samples=5)))
    return out


def whole_twin():
    """The JSON twin of files()."""
    shards, made = stored()[0], files()
    rows = segment(shards, keys=("dataset.keys", made["dataset.keys"]))
    return {
        "format": "shardkit-dataset", "version": 1, "sample_count": 9 - len(REMOVED),
        "bytes": sum(len(built.data) for _, built in shards), "blocks": sum(len(built.entries) for _, built in shards),
        "columns": [col.describe() | (dict(sources=SOURCES[col.name]) if col.name in SOURCES else {}) for col in VIEW],
        "metadata": {"note": "layered"}, "generation": 4,
        "layers": [layer_row(name, made[f"{name}/dataset.json"]) for name in ("layer-2", "layer-3")], "removed": len(REMOVED),
        "segments": [rows | dict(index="dataset.idx", keys="dataset.keys")],
        "shards": [dict(sha256=None) | shard_row(path, built) for path, built in shards], "samples": seen(),
    }
