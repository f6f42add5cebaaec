"""Datasets as readers see them: layers and removed samples (sections 9.6 and 9.7 of spec.md). Part of reference_reader.py, which see."""
import bisect
import itertools
import os

from reference_dataset import Dataset
from reference_manifest import column_difference
from reference_parts import ShardError, check
from reference_reader import map_file, sample_json
from reference_table import RemovedTable


class SeenDataset:
    """What readers see of `stored`, a Dataset. Shards, segments and indexes are those that are stored."""

    def __init__(self, stored):
        self.stored, self.manifest = stored, stored.manifest
        self.view = self.manifest.view
        self.columns = self.view.columns if self.view else stored.columns
        self.removed = self.read_removed() if self.manifest.removed else []
        self.before = [ordinal - i for i, ordinal in enumerate(self.removed)]  # how many samples are seen before each
        self.layers = [self.open_layer(k, layer) for k, layer in enumerate(self.view.layers)] if self.view else []
        self.sources = self.view.sources if self.view else [[] for _ in self.columns]
        for column, sources in zip(self.columns, self.sources):
            for source in sources:
                if source.layer is not None:
                    self.check_fit(column, source)

    indexes = property(lambda self: self.stored.indexes)
    index_problem = property(lambda self: next((problem for dataset in (self.stored, *self.layers) if (problem := dataset.index_problem)), None))
    sample_count = property(lambda self: self.stored.first_samples[-1] - len(self.removed))

    def shard(self, s):
        return self.stored.shard(s)

    def segments(self):
        return self.stored.segments()

    def read_removed(self):
        samples, named = self.manifest.removed
        try:
            data = map_file(os.path.join(self.stored.directory, named.name))
        except FileNotFoundError:
            raise ShardError(f"the list of removed samples is missing: {named.name}", kind="NotFound") from None
        table = RemovedTable(data, self.stored.first_samples[-1])
        check((table.identity, table.count) == (named[1:], samples), "list of removed samples: is another list than the one that dataset.json names", 0)
        return table.ordinals

    def open_layer(self, k, named):
        what = f"layer {k} {named.name!r}"
        try:
            layer = Dataset(os.path.join(self.stored.directory, named.name))
        except ShardError as error:
            raise ShardError(f"{what}: {error}", kind=error.kind) from None
        manifest = layer.manifest
        check((manifest.checksum, manifest.json["samples"]) == (named.checksum, named.samples) and not manifest.view and not manifest.removed,
              f"{what}: is not the layer that dataset.json names")
        check(not any(column.key for column in layer.columns), f"{what}: has a key column")
        return layer

    def check_fit(self, column, source):
        what = f"column {source.column!r} of layer {source.layer}"
        mine = next((mine for mine in self.layers[source.layer].columns if mine.name == source.column), None)
        check(mine is not None, f"{what} is not there")
        difference = column_difference(mine, column)
        check(not difference, f"{what} does not fit column {column.name!r}: {difference} differs")

    def stored_ordinal(self, ordinal):
        if not 0 <= ordinal < self.sample_count:
            raise IndexError(f"sample {ordinal} of {self.sample_count}")
        return ordinal + bisect.bisect_right(self.before, ordinal)

    def source(self, c, ordinal):
        """The dataset, and the name of its column, that has the values of column `c` of a stored sample; (None, None): absent."""
        for source in self.sources[c]:
            if ordinal < source.end:
                dataset = self.stored if source.layer is None else self.layers[source.layer]
                return (dataset, source.column) if source.column is not None else (None, None)
        name = self.columns[c].name
        return (self.stored, name) if any(column.name == name for column in self.stored.columns) else (None, None)

    def gather(self, ordinal, read):
        """Of a stored sample, {column: value} of each column that readers see. `read` gives those that a dataset has."""
        found, out = {}, {}
        for c, column in enumerate(self.columns):
            dataset, name = self.source(c, ordinal)
            if dataset not in found:
                found[dataset] = read(dataset) if dataset else {}
            out[column.name] = found[dataset].get(name)
        return out

    def sample(self, ordinal):
        stored = self.stored_ordinal(ordinal)
        return self.gather(stored, lambda dataset: dataset.sample(stored))

    def raw_sample(self, ordinal):
        stored = self.stored_ordinal(ordinal)
        return self.gather(stored, lambda dataset: dataset.raw_sample(stored))

    def samples(self):
        return (self.sample(ordinal) for ordinal in range(self.sample_count))

    def raw_samples(self):
        return (self.raw_sample(ordinal) for ordinal in range(self.sample_count))

    def read_blob(self, ordinal, name):
        c, = (c for c, column in enumerate(self.columns) if column.name == name)
        stored = self.stored_ordinal(ordinal)
        dataset, name = self.source(c, stored)
        return dataset and dataset.read_blob(stored, name)

    def find(self, key):
        """The ordinal of the first sample with this key, or None."""
        _, = (column for column in self.columns if column.key)
        gone = set(self.removed)
        found = self.stored.find(key, lambda ordinal: ordinal not in gone)
        return None if found is None else found - bisect.bisect_left(self.removed, found)

    def validate(self, deep=False):
        self.stored.validate(deep)
        ends = set(block_ends(self.stored))
        for column, sources in zip(self.columns, self.sources):
            for source in sources:
                check(source.end in ends, f"manifest: view: column {column.name!r}: a source ends at sample {source.end}, within a block")
        for k, layer in enumerate(self.layers):
            what = f"layer {k} {self.view.layers[k].name!r}"
            try:
                layer.validate(deep)
            except ShardError as error:
                raise ShardError(f"{what}: {error}", kind=error.kind) from None
            for end in block_ends(layer):
                check(end in ends, f"{what}: a block ends at sample {end}, within a block of the dataset's shards")


def block_ends(dataset):
    """Where the blocks of its shards end, in stored samples."""
    counts = (block.sample_count for s in range(len(dataset.manifest.shards)) for block in dataset.shard(s).directory)
    return itertools.accumulate(counts)


def read_dataset(directory):
    stored = Dataset(directory)
    return SeenDataset(stored) if stored.manifest.view or stored.manifest.removed else stored


def dataset_json(dataset):
    manifest, view = dataset.manifest, dataset.manifest.view
    columns = [column.describe() for column in dataset.columns]
    for column, sources in zip(columns, view.sources) if view else ():
        column |= {"sources": [{key: value for key, value in source._asdict().items() if value is not None} for source in sources]} if sources else {}
    return {
        "format": "shardkit-dataset", "version": 1,
        "sample_count": dataset.sample_count, "bytes": manifest.json["bytes"], "blocks": manifest.json["blocks"],
        "columns": columns,
        "metadata": manifest.metadata, "generation": manifest.generation,
        **({"layers": [layer._asdict() | {"checksum": f"{layer.checksum:016x}"} for layer in view.layers]} if view else {}),
        **({"removed": manifest.removed.samples} if manifest.removed else {}),
        "segments": [{"shards": segment.shards, "samples": segment.samples, "blocks": segment.blocks, "index": segment.index.name,
                      "keys": segment.keys and segment.keys.name} | ({"list": segment.list.name} if segment.list else {})
                     for segment in manifest.segments],
        "shards": [entry._asdict() | {"content_hash": entry.content_hash.hex(), "sha256": entry.sha256 and entry.sha256.hex()}
                   for entry in manifest.shards],
        "samples": [sample_json(dataset.columns, raws) for raws in dataset.raw_samples()],
    }
