#!/usr/bin/env python3
"""Compares shardkit.wds with the webdataset package: what each reads of the other's tars, and what values become.

    tests/interop/wds_module_test.py [unittest's options]

Needs `webdataset`, Pillow and the Python package of Shardkit (PYTHONPATH=BUILD/python); without them all is skipped.
"""
import io
import os
import pickle
import sys
import unittest

import support

sys.path.append(os.path.join(support.BUILD, "python"))
try:
    import numpy
    import PIL.Image
    import torch
    import webdataset
    from shardkit import wds
except ImportError:
    webdataset = None


def comparable(value):
    """A value, so that equality says that type, shape, numbers and pixels are equal."""
    if isinstance(value, dict):
        return {name: comparable(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value), *map(comparable, value)]
    if isinstance(value, PIL.Image.Image):
        return "image", value.mode, value.size, value.tobytes()
    if isinstance(value, (numpy.ndarray, torch.Tensor)):
        return type(value), str(value.dtype), tuple(value.shape), numpy.asarray(value).tobytes()
    return type(value), value


@unittest.skipUnless(webdataset, "needs the packages webdataset, torch and Pillow, and shardkit")
class WdsModule(support.InteropTest):
    def samples(self, count):
        for i in range(count):
            chance = numpy.random.default_rng(i)
            pixels = chance.integers(0, 255, (7, 5 + i, 3), numpy.uint8)
            yield {
                "__key__": f"d/{i:04d}", "jpg": pixels, "png": pixels[:, :, 0], "left.ppm": PIL.Image.fromarray(pixels), "tiff": pixels / 255.0,
                "txt": f"gr\u00fc\u00dfe {i}", "cls": i, "index": i, "json": {"a": [i, None]}, "npy": chance.random((i, 2)),
                "npz": {"a": numpy.arange(i)}, "txt.gz": "packed", "bin": bytes([i]), "pth": torch.arange(i), "html": f"<p>{i}</p>", "pyd": {i},
                "MiXed.json": [i], "x.y.cls": 3,
            }

    def written(self, module, name, **options):
        path = self.path(name)
        with module.TarWriter(path, mtime=0, **options) as writer:
            for sample in self.samples(9):
                writer.write(sample)
        return path

    def test_writers_write_the_same(self):
        for options in ({}, {"user": "me", "mode": 0o600, "format": "PAX_FORMAT"}):
            with open(self.written(webdataset, "theirs.tar", **options), "rb") as theirs, \
                    open(self.written(wds, "ours.tar", **options), "rb") as ours:
                # The header of gzip has the time.
                self.assertEqual(len(ours.read()), len(theirs.read()))
            self.assert_same_samples(webdataset.WebDataset(self.path("theirs.tar"), shardshuffle=False),
                                     webdataset.WebDataset(self.path("ours.tar"), shardshuffle=False), {"txt.gz"})

    def assert_same_samples(self, theirs, ours, but=()):
        theirs, ours = list(theirs), list(ours)
        self.assertEqual(len(ours), len(theirs))
        for expected, sample in zip(theirs, ours):
            left_out = {"__url__", "__local_path__", *but}
            self.assertEqual(comparable({name: value for name, value in sample.items() if name not in left_out}),
                             comparable({name: value for name, value in expected.items() if name not in left_out}))

    def test_batches_of_a_loader_are_equal(self):
        def loaders(module):
            def made():
                return module.WebDataset(path, shardshuffle=False).decode(only=["cls", "npy", "txt"]).to_tuple("cls", "npy", "__key__", "txt")

            one_shape = made().map_tuple(None, lambda array: array.shape[0], None, None)
            yield module.WebLoader(one_shape.batched(4), batch_size=None)
            yield module.WebLoader(one_shape.batched(4), batch_size=None).unbatched().batched(5)
            yield module.WebLoader(made(), batch_size=None)
            yield module.WebLoader(made().map(lambda sample: {"a": sample[1], "b": [sample[0], sample[1][:1]]}), batch_size=None)
            yield module.WebLoader(made().batched(3, collation_fn=None), batch_size=None)
            yield module.WebLoader(one_shape, batch_size=4)
            yield module.WebLoader(one_shape.batched(4), batch_size=None, collate_fn=lambda batch: len(batch[0]))

        path = self.written(webdataset, "a.tar")
        for number, (theirs, ours) in enumerate(zip(loaders(webdataset), loaders(wds))):
            with self.subTest(number):
                self.assertEqual([comparable(batch) for batch in ours], [comparable(batch) for batch in theirs])

    def test_values_are_equal(self):
        path = self.written(webdataset, "a.tar")
        self.assert_same_samples(webdataset.WebDataset(path, shardshuffle=False), wds.WebDataset(path))
        for spec in (None, *webdataset.autodecode.imagespecs):
            given = [] if spec is None else [spec]

            def decoded(module):
                return module.WebDataset(path, shardshuffle=False).decode(*given, module.handle_extension("pyd", pickle.loads))
            self.assert_same_samples(decoded(webdataset), decoded(wds))

    def test_stages_are_equal(self):
        path = self.written(webdataset, "a.tar")
        stages = [
            lambda d: d.decode("rgb8", only="png").to_tuple("jpeg;jpg", "png", "cls"),
            lambda d: d.decode(only=["cls", "json"]).rename(number="id;cls").rename(a="json", keep=False),
            lambda d: d.decode(only="cls").to_tuple("cls", "txt").map_tuple(None, len).batched(4),
            lambda d: d.decode(only="cls").to_tuple("cls", "txt").batched(4, partial=False).unbatched(),
            lambda d: d.decode(only="cls").select(lambda s: s["cls"] > 3).map_dict(cls=str).extract_keys("index", "__key__"),
            lambda d: d.rename_keys(image="*jpg", keep_unselected=True).slice(1, 7, 2),
            lambda d: d.map(lambda s: {"n": len(s["txt"])}).listed(2).unlisted(),
            lambda d: d.to_tuple("txt", "none", missing_is_error=False),
            lambda d: d.map(lambda s: 1 / (int(s["cls"]) % 3), handler=lambda error: True),
            lambda d: d.map(lambda s: 1 / (int(s["cls"]) - 3), handler=lambda error: False),
        ]
        for number, stage in enumerate(stages):
            with self.subTest(number):
                theirs, ours = (list(stage(module.WebDataset(path, shardshuffle=False))) for module in (webdataset, wds))
                self.assertGreater(len(theirs), 1)
                if isinstance(theirs[0], dict):
                    self.assert_same_samples(theirs, ours)
                else:
                    self.assertEqual(comparable(ours), comparable(theirs))

    def test_an_epoch_has_the_same_samples(self):
        pattern = self.path("s-%03d.tar")
        with wds.ShardWriter(pattern, maxcount=4, verbose=0) as writer:
            for sample in self.samples(18):
                writer.write(sample)
        urls = self.path("s-{000..004}.tar")
        theirs = sorted(sample["__key__"] for sample in webdataset.WebDataset(urls, shardshuffle=10).shuffle(10))
        dataset = wds.WebDataset(urls, shardshuffle=10).shuffle(10).decode("torchrgb", only="jpg").to_tuple("jpg", "__key__")
        for workers in (0, 2):
            loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers)
            self.assertEqual(sorted(key for _, key in loader), theirs)

    def test_a_stream_is_written_to(self):
        stream = io.BytesIO()
        with wds.TarWriter(stream, encoder={"n": lambda number: b"%d" % number}) as writer:
            writer.write({"__key__": "a", "n": 5})
        with open(self.path("n.tar"), "wb") as file:
            file.write(stream.getvalue())
        self.assertEqual([sample["n"] for sample in webdataset.WebDataset(self.path("n.tar"), shardshuffle=False)], [b"5"])


if __name__ == "__main__":
    unittest.main(warnings="ignore")
