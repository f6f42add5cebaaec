"""Annotation files of COCO with their images: each image is a sample, and unpack makes both again."""
import json
import os
import shutil
import tarfile
import zipfile

from support import CliTest, coco_text, tiny_jpeg, tiny_png

CATEGORIES = [{"supercategory": "person", "id": 1, "name": "person", "keypoints": ["nose", "eye"], "skeleton": [[1, 2]]}, {"id": 90, "name": "brush"}]
SQUARE = [[1, 1, 5, 1, 5, 4, 1, 4]]


def instances(count=4):
    """An annotation file whose annotations stand in another order than its images; the last image has none."""
    images = [{"license": 3, "file_name": f"{i:012}.jpg", "coco_url": f"http://images.org/{i}.jpg", "height": 6, "width": 8,
               "date_captured": "2013-11-14 17:02:52", "id": i} for i in range(count, 0, -1)]
    annotations = []
    for i in range(1, count):
        annotations += [
            {"segmentation": SQUARE, "area": 702.1057499999998, "iscrowd": 0, "image_id": i, "bbox": [473.07, 395.93, 38.65, 28.67], "category_id": 90, "id": 10 * i},
            {"segmentation": {"counts": [20, 4, 24], "size": [6, 8]}, "area": 4, "iscrowd": 1, "image_id": i, "bbox": [1, 2, 3, 4], "category_id": 1, "id": 10 * i + 1},
            {"segmentation": {"counts": "d04h0", "size": [6, 8]}, "area": 3.5, "iscrowd": 1, "image_id": i, "bbox": [0.1, 0.2, 1e-7, 4], "category_id": 1, "id": 900001 + i,
             "attributes": {"occluded": True}},
        ]
    return {"info": {"description": "COCO \u00fc \"quoted\" [{", "year": 2017}, "licenses": [{"id": 3, "name": "by\\"}], "images": images,
            "annotations": annotations[::-1], "categories": CATEGORIES}


def meaning(document):
    """What a file says, whatever the order of its annotations."""
    return {**document, "annotations": sorted(document["annotations"], key=lambda annotation: json.dumps(annotation, sort_keys=True))}


class CocoTest(CliTest):
    def given(self, document, name="instances.json", images="images", **format):
        self.write(name, json.dumps(document, **format).encode())
        for i, image in enumerate(document["images"]):
            self.write(f"{images}/{image['file_name']}", tiny_jpeg(8, 6) + bytes([i % 256]))
        return document

    def unpacked(self, dataset, name="instances.json"):
        """The annotation file that unpack makes, as JSON. It also compares the images."""
        self.shardctl("unpack", dataset, "-o", f"{dataset}.back")
        for image in self.tree(f"{dataset}.back"):
            if image.endswith(".jpg"):
                self.assertEqual(self.read(f"{dataset}.back", image), self.read("images", image))
        return json.loads(self.read(f"{dataset}.back", name))

    def values(self, dataset, key, column):
        return self.shardctl("cat", dataset, "--key", key, "--column", column).stdout

    def test_instances_come_back_with_the_same_meaning(self):
        given = self.given(instances())
        run = self.shardctl("pack", "instances.json", "images", "-o", "out")
        self.assertIn("packed 4 samples (15 columns) from coco", run.stdout)
        self.assertEqual(run.stderr, "")
        inspected = self.shardctl("inspect", "out", "--json").json()
        types = {column["name"]: column["type"] for column in inspected["columns"]}
        self.assertEqual({name: types[name] for name in ("image", "image_id", "masks", "segmentation", "bbox")},
                         {"image": "jpeg", "image_id": "i64", "masks": "rle", "segmentation": "json", "bbox": "ndarray"})
        self.assertEqual([line.split()[-1] for line in self.shardctl("ls", "out").stdout.splitlines()], [f"{i:012}" for i in (4, 3, 2, 1)])
        self.assertEqual(meaning(self.unpacked("out")), meaning(given))
        self.assertEqual(len(self.tree("out.back")), 5)
        self.shardctl("validate", "--deep", "out")

    def test_captions_and_keypoints(self):
        images = instances(3)["images"]
        captions = {"images": images, "annotations": [{"image_id": i, "id": 10 * i + k, "caption": f"A \u201cman\u201d {k}\n"} for k in range(5) for i in (1, 2)]}
        keypoints = {"images": images, "categories": CATEGORIES[:1], "annotations": [
            {"keypoints": [1, 2, 2, 0, 0, 0], "num_keypoints": 1, "image_id": i, "id": i, "category_id": 1, "bbox": [1, 2, 3, 4], "segmentation": SQUARE,
             "area": 1.5, "iscrowd": 0} for i in (1, 2)]}
        for number, (name, document) in enumerate({"captions_val.json": captions, "person_keypoints_val.json": keypoints}.items()):
            with self.subTest(name=name):
                self.given(document, name)
                self.shardctl("pack", "--from", "coco", "images", name, "-o", f"out{number}")
                self.assertEqual(meaning(self.unpacked(f"out{number}", name)), meaning(document))
        columns = {column["name"] for column in self.shardctl("inspect", "out0", "--json").json()["columns"]}
        self.assertEqual(columns, {"key", "image", "image_id", "width", "height", "file_name", "annotation_id", "captions", "source_json"})
        self.assertEqual(json.loads(self.values("out0", f"{3:012}", "captions")), [])
        self.assertEqual(len(json.loads(self.values("out0", f"{1:012}", "captions"))), 5)

    def test_what_fits_no_column_comes_back_too(self):
        images = instances(2)["images"]
        images[0].update(width=8.5, height=None)
        rest = [{"id": "text", "image_id": 1, "attributes": {"a": [1, None, 2.5]}}, {"image_id": 1, "bbox": [1, 2], "iscrowd": True, "segmentation": None},
                {"image_id": 1, "bbox": [1, 2, 3, 2**60 + 1], "area": 2**60 + 1, "keypoints": [], "caption": None, "segmentation": "none"},
                {"image_id": 2, "keypoints": [1, 2, 3, 4], "area": -0.0, "id": 2**40, "\u00fc\"": 1e300}]
        document = {"images": images, "extra": None, "annotations": rest}
        self.given(document)
        run = self.shardctl("pack", "instances.json", "images", "-o", "out")
        self.assertIn("1 sample has annotations whose segmentation is neither polygons nor RLE", run.stderr)
        self.assertEqual(meaning(self.unpacked("out")), meaning(document))
        no_list = {"images": images, "info": {}}
        self.given(no_list, "none.json")
        self.shardctl("pack", "none.json", "images", "-o", "none")
        self.assertEqual(self.unpacked("none", "none.json"), no_list)
        empty = {"images": [], "annotations": []}
        self.given(empty, "empty.json")
        self.shardctl("pack", "empty.json", "images", "-o", "empty")
        self.assertEqual(self.unpacked("empty", "empty.json"), empty)

    def test_masks_are_those_of_pycocotools(self):
        """The texts are those of annToRLE (pycocotools 2.0.11)."""
        document = instances(2)
        segmentations = {"73300000a0": SQUARE, "7152N2NO1N2O6": [[0.5, 0.5, 7.2, 1.1, 3.3, 5.9]], "733002N01O0000": [SQUARE[0], [3, 2, 7.5, 2, 7.5, 6, 3, 6]],
                         "615000000000000": [[-3, -3, 20, 2, 1, 1, 1, 1]], "d04h0": {"size": [6, 8], "counts": [20, 4, 24]},
                         ":3d02F": {"size": [6, 8], "counts": ":3d02F"}, "`1": []}
        document["annotations"] = [{**document["annotations"][0], "segmentation": segmentation} for segmentation in segmentations.values()]
        self.given(document)
        self.shardctl("pack", "instances.json", "images", "-o", "out")
        masks = self.shardctl("cat", "out", "--key", f"{1:012}", "--column", "masks", "--decode").json()
        self.assertEqual(masks, [{"size": [6, 8], "counts": counts} for counts in segmentations])
        self.assertEqual(json.loads(self.values("out", f"{1:012}", "segmentation")), list(segmentations.values()))

    def test_values_may_lie_across_what_is_read_at_once(self):
        for shift in range(3):
            with self.subTest(shift=shift):
                document = {"pad": " " * shift, "info": '\\"' * 400_000, **instances(3), "more": [[1.5, "]}"]] * 100_000}
                document["annotations"] += [{"image_id": 1, "id": i, "note": "\\" * 40} for i in range(8000)]
                self.given(document, indent=shift)
                self.shardctl("pack", "instances.json", "images", "-o", f"out{shift}")
                self.assertEqual(meaning(self.unpacked(f"out{shift}")), meaning(document))

    def test_zips_tars_folders_and_threads_give_the_same(self):
        document = self.given(instances(30), images="images")
        self.shardctl("pack", "instances.json", "images", "-o", "plain", "--shard-samples", 7)
        expected = self.dataset("plain")
        self.assertEqual(meaning(self.unpacked("plain")), meaning(document))
        with zipfile.ZipFile(self.path("train.zip"), "w") as file:
            for image in document["images"]:
                file.write(self.path("images", image["file_name"]), f"train/{image['file_name']}")
        with tarfile.open(self.path("train.tar"), "w") as file:
            file.add(self.path("images"), "train")
        shutil.copytree(self.path("images"), self.path("root/train"))
        os.mkdir(self.path("root/val"))
        for place in ("train.zip", "train.tar", "root"):
            for jobs in (1, 3):
                with self.subTest(place=place, jobs=jobs):
                    self.shardctl("pack", place, "instances.json", "-o", "out", "-j", jobs, "--shard-samples", 7)
                    self.assertEqual(self.dataset("out"), expected)
                    shutil.rmtree(self.path("out"))
        with tarfile.open(self.path("train.tar.gz"), "w:gz") as file:
            file.add(self.path("images"), "train")
        for words in (["train.tar.gz", "instances.json"], ["--from", "coco", "instances.json", "train.tar.gz"]):
            self.assertIn("train.tar.gz: is a compressed tar, whose files can only be read in its own order: decompress it, or extract it and give the "
                          "folder", self.shardctl("pack", *words, "-o", "out", code=2).stderr)
        shutil.copytree(self.path("images"), self.path("root/copy"))
        self.assertIn("root: both copy/ and train/ have", self.shardctl("pack", "root", "instances.json", "-o", "out", code=2).stderr)

    def test_tasks_and_resuming(self):
        self.given(instances(60))
        inputs = ["instances.json", "images"]
        self.shardctl("pack", *inputs, "-o", "whole", "--shard-samples", 7)
        self.shardctl("plan-pack", *inputs, "-o", "tasks", "--tasks", 3, "--shard-samples", 7)
        for task in ("1/3", "0/3", "2/3"):
            self.shardctl("pack", "-o", "tasks", "--task", task)
        self.shardctl("pack", "-o", "tasks", "--finish")
        self.assertEqual(self.dataset("tasks"), self.dataset("whole"))
        run = self.interrupt(["pack", *inputs, "-o", "out", "--shard-samples", "1", "--resume"], lambda: os.path.exists(self.path("out/00000003.shard")))
        self.assertNotEqual(run.code, 0)
        self.shardctl("pack", *inputs, "-o", "out", "--shard-samples", "1", "--resume")
        self.shardctl("pack", *inputs, "-o", "other", "--shard-samples", "1")
        self.assertEqual(self.dataset("out"), self.dataset("other"))
        self.shardctl("pack", *inputs, "-o", "out", "--shard-samples", "1", "--resume")
        self.write("images/000000000003.jpg", tiny_jpeg(8, 6) + b"longer")
        self.assertIn("its input has changed since", self.shardctl("pack", *inputs, "-o", "out", "--shard-samples", "1", "--resume", code=2).stderr)
        self.shardctl("plan-pack", *inputs, "-o", "changed", "--tasks", 2, "--shard-samples", 7)
        changed = instances(60)
        changed["annotations"][0]["area"] += 1
        self.write("instances.json", json.dumps(changed).encode())
        self.assertIn("has changed since it was planned", self.shardctl("pack", "-o", "changed", "--task", "0/2", code=2).stderr)
        self.assertNotEqual(self.shardctl("pack", *inputs, "-o", "out", "--shard-samples", "1", "--resume", code=None).code, 0)

    def refused(self, document, *options, images="images", code=1):
        text = document if isinstance(document, (str, bytes)) else json.dumps(document)
        self.write("bad.json", text.encode() if isinstance(text, str) else text)
        return self.shardctl("pack", "--from", "coco", "bad.json", images, "-o", "new", *options, code=code).stderr

    def test_bad_annotations_are_named_and_skipped(self):
        self.given(instances())
        wrong = {
            "polygon 0: has 3 numbers, an odd count": {"segmentation": [[1, 2, 3]]},
            "polygon 1: has 7 numbers": {"segmentation": [SQUARE[0], [1, 2, 3, 4, 5, 6, 7]]},
            "sum to 47 instead of 48": {"segmentation": {"size": [6, 8], "counts": [47]}},
            "a count is not an integer": {"segmentation": {"size": [6, 8], "counts": [-1, 49]}},
            "category 7 is none of \"categories\"": {"category_id": 7},
        }
        for what, members in wrong.items():
            with self.subTest(what=what):
                document = instances()
                number = next(i for i, annotation in enumerate(document["annotations"]) if annotation["id"] == 20)
                document["annotations"][number].update(members)
                error = self.refused(document)
                offset = json.dumps(document).index(json.dumps(document["annotations"][number]))
                self.assertIn(f"bad.json: byte {offset}: annotation 20: ", error)
                self.assertIn(what, error)
                self.assertIn("--on-error skip", error)
                error = self.refused(document, "--on-error", "skip", code=4)
                self.assertIn("1 sample skipped", error)
                shutil.rmtree(self.path("new"))

    def test_missing_images_and_names_that_lead_out(self):
        self.given(instances())
        os.remove(self.path("images/000000000002.jpg"))
        error = self.shardctl("pack", "instances.json", "images", "-o", "new", code=3).stderr
        self.assertIn("images/000000000002.jpg: is missing, and the annotation file names it; --on-error skip leaves", error)
        run = self.shardctl("pack", "instances.json", "images", "-o", "new", "--on-error", "skip", code=4)
        self.assertIn("packed 3 samples", run.stdout)
        self.write("secret.jpg", tiny_jpeg())
        for name in ("../secret.jpg", "/etc/passwd", "a/../../secret.jpg", ""):
            document = instances(3)
            document["images"][1]["file_name"] = name
            shutil.rmtree(self.path("new"), ignore_errors=True)
            self.assertIn(f"images{name and '/'}{name.lstrip('/')}: ", self.refused(document, "--on-error", "skip", code=4))
            self.assertNotIn("secret", self.shardctl("ls", "new").stdout)
        os.symlink(self.path("instances.json"), self.path("images/000000000002.jpg"))
        self.assertIn("is not followed", self.shardctl("pack", "instances.json", "images", "-o", "link", "--no-follow", code=2).stderr)

    def test_what_dropped_columns_held_is_said_to_be_missing(self):
        document = self.given(instances())
        self.shardctl("pack", "instances.json", "images", "-o", "out")
        self.shardctl("columns", "drop", "out", "masks", "label")
        self.assertEqual(self.shardctl("unpack", "out", "-o", "whole").stderr, "")
        self.shardctl("columns", "drop", "out", "bbox", "source_json")
        run = self.shardctl("unpack", "out", "-o", "back")
        self.assertIn("warning: out: has not all columns that COCO was packed into: instances.json lacks what was in bbox, source_json (", run.stderr)
        for annotation in document["annotations"]:
            del annotation["bbox"]
            annotation.pop("attributes", None)
        for image in document["images"]:
            for name in ("license", "coco_url", "date_captured"):
                del image[name]
        self.assertEqual(meaning(json.loads(self.read("back/instances.json"))), meaning(document))
        self.shardctl("columns", "rename", "out", "file_name=name")
        [warning] = self.shardctl("unpack", "out", "-o", "files", "--json").json()["warnings"]
        self.assertIn("out: has not all of the columns key, image and file_name, which instances.json needs: it is not made", warning)
        self.assertNotIn("instances.json", self.tree("files"))
        self.assertIn("000000000001.image", self.tree("files"))

    def test_annotations_of_unknown_images_are_left_out_with_a_warning(self):
        document = instances()
        document["annotations"] += [{"image_id": 77 + i, "id": i} for i in range(5)]
        self.given(document)
        run = self.shardctl("pack", "instances.json", "images", "-o", "out")
        self.assertIn('instances.json: 5 annotations are left out, because their images are not in "images" (at byte', run.stderr)
        self.assertIn("of image 79, …)", run.stderr)
        self.assertEqual(meaning(self.unpacked("out")), meaning(instances()))

    def test_what_is_no_annotation_file_is_refused_with_its_place(self):
        self.given(instances())
        text = json.dumps(instances())
        cases = {"": "byte 0: expected '{'", "[]": "byte 0: expected '{'", "{}": 'has no list "images"', text[:-1]: "expected ',' or '}'",
                 text[:500]: "ends within the value that begins at byte", text + "x": "expected the end of the file", '{"images": 3}': '"images" is no list',
                 '{"images": [1]}': 'byte 12: an image without "id"', '{"images": [{"id": 1}]}': 'image 1 has no "file_name"',
                 '{"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}]}': "byte 41: image 1 is there twice",
                 '{"images": [], "annotations": [{"id": 4}]}': 'byte 31: an annotation without "image_id"', '{"images": [], "images": []}': 'has "images" twice',
                 '{"images": [{"id": 01}]}': "byte 12: in the value that begins here", '{"images": [,]}': "byte 12: expected a value", '{"info": {"a": 1]}': "byte 9",
                 '{"images": []]': "expected ',' or '}'", '{"info" 1}': "expected ':'", '{info: 1}': "expected the name of a member", '{"a": "b\\': "ends within"}
        for content, what in cases.items():
            with self.subTest(content=content[:60]):
                self.assertIn(what, self.refused(content))

    def test_inputs_of_the_wrong_kind(self):
        self.given(instances())
        for inputs in (["instances.json"], ["images"], ["images", "images"], ["instances.json", "instances.json"]):
            self.assertIn("--from coco takes one annotation file", self.shardctl("pack", "--from", "coco", *inputs, "-o", "new", code=2).stderr)
        self.assertIn("an annotation file of COCO goes together with", self.shardctl("pack", "instances.json", "-o", "new", code=2).stderr)
        pair = ["instances.json", "images", "-o", "new"]
        self.assertIn("--include and --exclude", self.shardctl("pack", *pair, "--include", "*.jpg", code=2).stderr)
        self.assertIn("have types that do not depend", self.shardctl("pack", "--from", "coco", *pair, "--type", "image=bytes", code=2).stderr)
        self.assertIn("only lines of JSON have a key", self.shardctl("pack", *pair, "--key", "id", code=2).stderr)
        twice = instances(3)
        twice["images"][1]["file_name"] = twice["images"][0]["file_name"]
        self.assertIn("occurs twice", self.refused(twice, code=2))


WIDTH, HEIGHT = 8, 6
RGB = 2


def segment_ids(number):
    """Of each pixel, row by row: 0 beside ids that need one, two and three bytes; the middle one in two parts."""
    ids = [0, 7, 256 + number, 65536 * number + 9]
    return [[ids[1] if y < number else ids[2] if x in (2, 5) else ids[3] if x > 5 else 0 for x in range(WIDTH)] for y in range(HEIGHT)]


def png_of(ids):
    pixels = b"".join(id.to_bytes(3, "little") for row in ids for id in row)
    return tiny_png(len(ids[0]), len(ids), pixels, RGB)


def mask_of(ids, id):
    """Its runs down the columns, as COCO writes them."""
    runs, last = [0], False
    for x in range(len(ids[0])):
        for row in ids:
            if (row[x] == id) != last:
                runs.append(0)
                last = not last
            runs[-1] += 1
    return {"size": [len(ids), len(ids[0])], "counts": coco_text(runs)}


def panoptic(count=4):
    images = [{"license": 2, "file_name": f"{i:03}.jpg", "height": HEIGHT, "width": WIDTH, "id": i} for i in range(count, 0, -1)]
    annotations = []
    for i in range(1, count + 1):
        ids = [id for id in sorted({id for row in segment_ids(i) for id in row} - {0}, reverse=True)]
        annotations.append({"segments_info": [{"id": id, "category_id": [1, 90][k % 2], "iscrowd": k % 2, "bbox": [k, 0, 8, 6], "area": 10 + k} for k, id in enumerate(ids)],
                            "file_name": f"{i:03}.png", "image_id": i})
    return {"info": {}, "images": images, "annotations": annotations, "categories": [{**category, "isthing": i} for i, category in enumerate(CATEGORIES)]}


class PanopticTest(CliTest):
    def given(self, document):
        self.write("panoptic.json", json.dumps(document).encode())
        for image in document["images"]:
            self.write(f"val/{image['file_name']}", tiny_jpeg(WIDTH, HEIGHT) + bytes([image["id"] % 256]))
            self.write(f"panoptic/{image['id']:03}.png", png_of(segment_ids(image["id"])))
        return document

    def test_segments_are_masks_and_files_come_back(self):
        given = panoptic(5)
        given["annotations"][1]["note"] = "of the annotation"
        given["annotations"][2]["segments_info"][1].update(note="of a segment", area=None)
        del given["annotations"][3]
        given["annotations"][3]["segments_info"] = []
        self.given(given)
        self.write("panoptic/005.png", png_of([[0] * WIDTH] * HEIGHT))
        os.remove(self.path("panoptic/004.png"))
        run = self.shardctl("pack", "panoptic.json", "val", "panoptic", "-o", "out")
        self.assertIn("packed 5 samples (16 columns) from coco", run.stdout)
        self.assertEqual(run.stderr, "")
        self.shardctl("validate", "--deep", "out")
        columns = {column["name"]: column for column in self.shardctl("inspect", "out", "--json").json()["columns"]}
        self.assertEqual({name: columns[name]["type"] for name in ("panoptic", "panoptic_file_name", "segment_id", "bbox", "masks")},
                         {"panoptic": "png", "panoptic_file_name": "utf8", "segment_id": "ndarray", "bbox": "ndarray", "masks": "rle"})
        for annotation in given["annotations"]:
            i = annotation["image_id"]
            masks = self.shardctl("cat", "out", "--key", f"{i:03}", "--column", "masks", "--decode").json()
            self.assertEqual(masks, [mask_of(segment_ids(i), segment["id"]) for segment in annotation["segments_info"]])
            ids = self.shardctl("cat", "out", "--key", f"{i:03}", "--column", "segment_id", "--decode").json()
            self.assertEqual(ids["data"], [segment["id"] for segment in annotation["segments_info"]])
        self.shardctl("unpack", "out", "-o", "back")
        self.assertEqual(set(self.tree("back")), {"panoptic.json", *(f"{i:03}.jpg" for i in range(1, 6)), *(f"panoptic/{i:03}.png" for i in (1, 2, 3, 5))})
        self.assertEqual(meaning(json.loads(self.read("back/panoptic.json"))), meaning(given))
        for i in (1, 2, 3, 5):
            self.assertEqual(self.read(f"back/panoptic/{i:03}.png"), self.read(f"panoptic/{i:03}.png"))
        # The one place has both.
        self.shardctl("pack", "back/panoptic.json", "back", "-o", "again")
        self.shardctl("unpack", "again", "-o", "back again")
        self.assertEqual(self.tree("back again"), self.tree("back"))

    def test_places_in_any_order_and_form_give_the_same(self):
        self.given(panoptic(20))
        self.shardctl("pack", "panoptic.json", "val", "panoptic", "-o", "plain", "--shard-samples", 7)
        for name in ("val", "panoptic"):
            with zipfile.ZipFile(self.path(f"{name}.zip"), "w") as file, tarfile.open(self.path(f"{name}.tar"), "w") as tar:
                tar.add(self.path(name), name)
                for member in self.tree(name):
                    file.write(self.path(name, member), f"{name}/{member}")
            shutil.copytree(self.path(name), self.path("root", name))
        for number, inputs in enumerate((["panoptic", "val"], ["panoptic.zip", "val.tar"], ["val.zip", "panoptic.tar"], ["root"])):
            with self.subTest(inputs=inputs):
                self.shardctl("pack", "--from", "coco", *inputs, "panoptic.json", "-o", f"out{number}", "--shard-samples", 7, "-j", number % 3 + 1)
                self.assertEqual(self.dataset(f"out{number}"), self.dataset("plain"))
        self.shardctl("plan-pack", "panoptic.json", "val", "panoptic", "-o", "tasks", "--tasks", 3, "--shard-samples", 7)
        for task in ("1/3", "0/3", "2/3"):
            self.shardctl("pack", "-o", "tasks", "--task", task)
        self.shardctl("pack", "-o", "tasks", "--finish")
        self.assertEqual(self.dataset("tasks"), self.dataset("plain"))
        resumed = ["pack", "panoptic.json", "val", "panoptic", "-o", "resumed", "--shard-samples", 1, "--resume"]
        self.shardctl(*resumed)
        self.write("panoptic/003.png", png_of(segment_ids(3)) + b"longer")
        self.assertIn("its input has changed since", self.shardctl(*resumed, code=2).stderr)

    def test_png_images_of_the_names_of_their_segments(self):
        document = panoptic(3)
        for image in document["images"]:
            image["file_name"] = f"{image['id']:03}.png"
            self.write(f"val/{image['file_name']}", tiny_png())
            self.write(f"panoptic/{image['file_name']}", png_of(segment_ids(image["id"])))
        self.write("panoptic.json", json.dumps(document).encode())
        self.shardctl("pack", "panoptic.json", "val", "panoptic", "-o", "out")
        self.shardctl("unpack", "out", "-o", "back")
        self.assertEqual(self.read("back/002.png"), tiny_png())
        self.assertEqual(self.read("back/panoptic/002.png"), png_of(segment_ids(2)))

    def test_bad_segments_are_named_and_skipped(self):
        first = segment_ids(2)[2][2]
        more = [[5 if (x, y) == (3, 4) else id for x, id in enumerate(row)] for y, row in enumerate(segment_ids(2))]
        gray = tiny_png(WIDTH, HEIGHT, bytes(WIDTH * HEIGHT))
        palette = tiny_png(WIDTH, HEIGHT, bytes(WIDTH * HEIGHT), color=3)
        deep = tiny_png(WIDTH, HEIGHT, bytes(6 * WIDTH * HEIGHT), RGB, depth=16)
        add = {"id": 99, "category_id": 1}
        for what, png, change in (
            ("panoptic/002.png: is missing, and the annotation file names it", None, None),
            ("segment 99 has no pixels in {png}: correct the annotation or the PNG", ..., lambda segments: segments.append(add)),
            ("{png} has segment 5 at x 3, y 4, which \"segments_info\" lacks: correct", png_of(more), None),
            ("{png} is 6x8 pixels, and the image 8x6: ", png_of(list(zip(*segment_ids(2)))), None),
            ("{png} is no PNG of RGB with 8 bits", gray, None),
            ("{png} is no PNG of RGB with 8 bits", palette, None),
            ("{png} is no PNG of RGB with 8 bits", deep, None),
            ("{png} is no PNG of RGB with 8 bits", b"", None),
            ("{png}: PNG: ", png_of(segment_ids(2))[:-40], None),
            (f"segment {first} is there twice", ..., lambda segments: segments.append({**add, "id": first})),
            ("segment 0: its \"id\" is none of a color, from 1 to 16777215", ..., lambda segments: segments[0].update(id=0)),
            ("segment 16777216: its \"id\" is none", ..., lambda segments: segments[1].update(id=1 << 24)),
            ("segment \"7\": its \"id\" is none", ..., lambda segments: segments[2].update(id="7")),
            ("segment: its \"id\" is none", ..., lambda segments: segments[0].pop("id")),
            ("category 5 is none of \"categories\"", ..., lambda segments: segments[0].update(category_id=5)),
        ):
            with self.subTest(what=what):
                document = self.given(panoptic(3))
                annotation = document["annotations"][1]
                if change:
                    change(annotation["segments_info"])
                    self.write("panoptic.json", json.dumps(document).encode())
                if png is None:
                    os.remove(self.path("panoptic/002.png"))
                elif png is not ...:
                    self.write("panoptic/002.png", png)
                pack = ["pack", "panoptic.json", "val", "panoptic", "-o", "new"]
                error = self.shardctl(*pack, code=3 if png is None else 1).stderr
                place = f"panoptic.json: byte {json.dumps(document).index(json.dumps(annotation))}: "
                self.assertIn(what.format(png="panoptic/002.png"), error)
                self.assertIn("" if png is None else place, error)
                self.assertIn("--on-error skip", error)
                self.assertIn("packed 2 samples", self.shardctl(*pack, "--on-error", "skip", code=4).stdout)
                shutil.rmtree(self.path("new"))

    def test_files_and_inputs_of_the_wrong_kind(self):
        document = self.given(panoptic(3))
        error = self.shardctl("pack", "panoptic.json", "val", "-o", "new", code=2).stderr
        self.assertIn("val: has no PNG 003.png, where panoptic.json has its segments: give the place of the PNGs", error)
        for what, change in {
            'some annotations have "segments_info" and others not': lambda annotations: annotations[2].pop("segments_info"),
            '"segments_info" is no list': lambda annotations: annotations[0].update(segments_info=3),
            'an annotation with "segments_info" and no "file_name"': lambda annotations: annotations[0].update(file_name=""),
        }.items():
            changed = json.loads(json.dumps(document))
            change(changed["annotations"])
            self.write("bad.json", json.dumps(changed).encode())
            error = self.shardctl("pack", "bad.json", "val", "panoptic", "-o", "new", code=1).stderr
            self.assertIn("bad.json: byte ", error)
            self.assertIn(what, error)
        twice = {**document, "annotations": [*document["annotations"], document["annotations"][0]]}
        self.write("bad.json", json.dumps(twice).encode())
        self.assertIn("annotation of image 1: is a second one", self.shardctl("pack", "bad.json", "val", "panoptic", "-o", "new", code=1).stderr)
        self.write("instances.json", json.dumps(instances()).encode())
        self.assertIn('a second place, and instances.json has no "segments_info"',
                      self.shardctl("pack", "instances.json", "val", "panoptic", "-o", "new", code=2).stderr)

    def test_pngs_beyond_limits(self):
        for side, ids, what in ((2100, [[1, 2] * 1050, [2, 1] * 1050] * 1050, "has more than 4194304 runs"), (6000, None, "decoding 6000 x 6000 pixels takes more than")):
            with self.subTest(side=side):
                document = self.given(panoptic(1))
                document["images"][0].update(width=side, height=side)
                document["annotations"][0]["segments_info"] = [{"id": 1, "category_id": 1}, {"id": 2, "category_id": 1}]
                self.write("panoptic.json", json.dumps(document).encode())
                self.write("panoptic/001.png", png_of(ids) if ids else tiny_png(side, side, bytes(3 * side), RGB))
                self.assertIn(what, self.shardctl("pack", "panoptic.json", "val", "panoptic", "-o", "new", code=1).stderr)

    def test_names_of_files_unpacked_by_shard(self):
        document = self.given(panoptic(5))
        self.shardctl("pack", "panoptic.json", "val", "panoptic", "-o", "out", "--shard-samples", 2)
        self.shardctl("unpack", "out", "--by-shard", "-o", "back")
        back = json.loads(self.read("back/panoptic.json"))
        self.assertEqual([image["file_name"] for image in back["images"]], [f"{i // 2:08}/{5 - i:03}.jpg" for i in range(5)])
        for image in back["images"]:
            self.assertEqual(self.read("back", image["file_name"]), self.read("val", image["file_name"][9:]))
        for annotation in back["annotations"]:
            self.assertEqual(self.read("back/panoptic", annotation["file_name"]), self.read("panoptic", annotation["file_name"][9:]))
        for entry in back["images"] + back["annotations"]:
            entry["file_name"] = entry["file_name"][9:]
        self.assertEqual(meaning(back), meaning(document))
