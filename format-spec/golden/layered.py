"""The golden dataset with layers and removed samples (sections 9.7 and 9.8 of spec.md). See make_golden.py."""
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


def stored():
    """The shards, and their samples; the key of a removed sample is also that of one that readers see."""
    samples = [dict(key=f"k{1 if i == 5 else i}", data=bytes(range(i, 3 * i)), label=None if i == 6 else i, note=f"[{i}]", scratch=i) for i in range(9)]
    return [(f"{k}.shard", build(STORED, part, BLOCKS[k])) for k, part in enumerate((samples[:4], samples[4:]))], samples


def corrected():
    return [("0.shard", build([LABEL], [dict(label=-1 - i if i else None) for i in range(4)], [2, 2]))]


def described(blocks=((4,), (3, 2))):
    """Its blocks are those of several blocks of the dataset's shards, or one of them."""
    samples = [dict(vector=Array([2], [i / 2, float(i)]), text=f"{i} " * i) for i in range(9)]
    first = sum(blocks[0])
    return [(f"{k}.shard", build([VIEW[4], Col("text", "utf8")], part, list(blocks[k]))) for k, part in enumerate((samples[:first], samples[first:]))]


def seen():
    """The samples that readers see."""
    samples, out = stored()[1], []
    for i in sorted(set(range(9)) - set(REMOVED)):
        label = samples[i]["label"] if i >= 4 else -1 - i if i else None
        values = dict(id=samples[i]["key"], data=samples[i]["data"], label=label, remark=samples[i]["note"], vector=Array([2], [i / 2, float(i)]),
                      caption=f"{i} " * i if 2 <= i < 7 else None)
        out.append({col.name: twin(col, values[col.name]) for col in VIEW})
    return out


def files(layers=None, sources=None, table=None, **changes):
    """{path: bytes}. `layers`: the shards of each; `sources`, `table` in place of those above; `changes` of the manifest."""
    shards, out, rows = stored()[0], {}, []
    for name, parts in zip(("layer-2", "layer-3"), layers or (corrected(), described())):
        columns = parts[0][1].columns
        out |= {f"{name}/{path}": built.data for path, built in parts}
        out |= {f"{name}/dataset.json": manifest(columns, {}, parts), f"{name}/dataset.idx": index(parts)}
        rows.append(layer_row(name, out[f"{name}/dataset.json"]))
    removed = removed_table(REMOVED) if table is None else table
    found = SOURCES | (sources or {})
    view = dict(columns=[col.describe() | (dict(sources=found[col.name]) if col.name in found else {}) for col in VIEW], layers=rows)
    out |= {"dataset.idx": index(shards), "dataset.keys": keys(shards), "dataset-4.removed": removed}
    out |= {path: built.data for path, built in shards}
    fields = dict(features=["layers", "removed-samples"], generation=4, segments=[segment(shards, keys=("dataset.keys", out["dataset.keys"]))], view=view,
                  removed=dict(samples=len(REMOVED), table=reference("dataset-4.removed", removed)))
    return out | {"dataset.json": manifest(STORED, {"note": "layered"}, shards, **fields | changes)}


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
