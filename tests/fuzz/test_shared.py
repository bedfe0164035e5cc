"""What others may write: beside images in a registry, in a checkpoint, in sources, and in a cache.

Whoever may push can attach anything to an image; a checkpoint comes from anybody; a container's own
programs print what is read of it. All of it ends in our words, and nothing of it becomes an option.
"""

from __future__ import annotations

import gzip
import json
import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import zstandard
from compiled_extension import make_sources
from damaged_bytes import FUZZ, damaged, regrown, reworded, within_time
from hub_server import CONFIG
from hypothesis import given
from hypothesis import strategies as st

from builder import console
from builder.bisection.state import Bisection, Question, newest
from builder.compile import packages
from builder.compile.failures import first_error
from builder.compile.progress import Progress
from builder.compile.result import read_result
from builder.diagnosis.versions import versions_in
from builder.errors import LockError, SparkyardError
from builder.fetch.hub import HubModel
from builder.promotion.compare import compare, read_side
from builder.promotion.contents import read_remote
from builder.promotion.documents import read_bom
from builder.promotion.evidence import RECORD_TYPE
from builder.promotion.log import (
    ENTRY_NOTE,
    LOG_TYPE,
    chain,
    entry_tag,
    read_entry,
    read_state,
)
from builder.promotion.verify import LOCK_TYPE, SBOM_TYPE, verify_image
from builder.recipes.facts_file import renewed, write_facts
from builder.recipes.memory import GB10, estimate, rules_of, settings
from builder.recipes.model_facts import FOLDER, facts_of, folder_facts
from builder.registry.repository import note_manifest
from builder.smoke.causes import shortage
from builder.smoke.processes import read_look
from builder.smoke.soak.samples import read_memory
from builder.store.content_store import Store
from builder.wheels.kept import Kept, everything
from builder.wheels.native import read_sources
from builder.wheels.order import Provenance, Rebuilt, RebuiltFile
from builder.wheels.recipe import load_recipe
from tests.unit.fake_repository import Memory, a_layer, make_tar, put_layers, repository
from tests.unit.promotion.test_installed import STATUS, dist
from tests.unit.promotion.test_log import an_entry
from tests.unit.promotion.test_verify import LOCK, Shop
from tests.unit.record.test_models import a_record
from tests.unit.smoke.test_processes import STAT
from tests.unit.test_sbom import a_document

ROOT = Path(__file__).parents[2]
TEXT = "utf-8", "surrogatepass"
PINNED = re.compile(r"[a-z0-9][a-z0-9-]*==[^\s#;]+( --hash=sha256:[0-9a-f]{64})*")


def text_of(*names: str) -> list[str]:
    return [(ROOT / name).read_text(encoding="utf-8") for name in names]


# -- beside an image in a registry ----------------------------------------------------------------


@FUZZ
@given(data=regrown([json.loads(a_document())]))
def test_lists_of_contents(data: bytes) -> None:
    memory = Memory()
    there, image = repository(memory), put_layers(memory, [a_layer({"a": b"1"})], {})
    there.attach(image, SBOM_TYPE, data, {}, "x")
    with within_time(), suppress(SparkyardError):
        side = read_side(there, read_remote(there, image))
        compare(side, side)
        for line in read_bom(there, image.digest, "cpu").requirements().splitlines():
            assert PINNED.fullmatch(line), line


@FUZZ
@given(data=st.one_of(regrown([a_record().document()]), regrown([json.loads(a_document())])),
       lock=reworded([LOCK.model_dump_json()]), kind=st.sampled_from((RECORD_TYPE, SBOM_TYPE,
                                                                      LOCK_TYPE)))
def test_what_is_attached_to_an_image(data: bytes, lock: str, kind: str) -> None:
    shop = Shop().complete()
    shop.attach(kind, lock.encode(*TEXT) if kind == LOCK_TYPE else data)
    with within_time(), suppress(SparkyardError):
        found = verify_image(shop.tags, read_remote(shop.tags.repository, shop.image), "cpu-next",
                             lambda _count: None)
        assert all(isinstance(one.problem, str) for one in found)


FILES = {"var/lib/dpkg/status": STATUS, **dist("torch", "2.1")}
LAYERS = {kind: a_layer(FILES, kind) for kind in ("gzip", "zstd")}
TAR = make_tar(FILES)


@FUZZ
@given(kind=st.sampled_from(tuple(LAYERS)), whole=st.booleans(), data=st.data())
def test_layers(kind: str, whole: bool, data: st.DataObject) -> None:
    layer = LAYERS[kind]
    assert isinstance(layer.blob.source, bytes)
    pack = gzip.compress if kind == "gzip" else zstandard.ZstdCompressor().compress
    stored = data.draw(damaged([layer.blob.source]) if whole else damaged([TAR]).map(pack))
    shop = Shop()
    image = put_layers(shop.memory, [layer], {})
    shop.memory.blobs[layer.blob.digest] = stored
    with within_time(), suppress(SparkyardError):
        found = verify_image(shop.tags, read_remote(shop.tags.repository, image), "x",
                             lambda _count: None)
        assert found[0].problem or stored == layer.blob.source


@FUZZ
@given(entry=regrown([an_entry().model_dump(mode="json")]),
       name=st.sampled_from(("cpu-log-000001-" + "0" * 12, "cpu-log-" + "9" * 5000 + "-" + "0" * 12,
                             "cpu-log-000000000000-" + "0" * 12, "cpu", "../x", "")))
def test_logs_of_tags(entry: bytes, name: str) -> None:
    memory = Memory()
    there = repository(memory)
    notes = {ENTRY_NOTE: entry.decode("utf-8", "replace")}
    digest = note_manifest(LOG_TYPE, notes).digest
    assert there.note(entry_tag("cpu", 1, digest), LOG_TYPE, notes) == digest
    memory.tags[name] = digest
    with within_time(), suppress(SparkyardError):
        list(chain(there, read_state(there, "cpu").head))
        read_entry(there, name)


# -- in the cache, where another machine's compile lies -------------------------------------------

REBUILT = Rebuilt(key="a" * 64, files=(RebuiltFile(path="a/b.so", sha256="b" * 64, size=1,
                                                   target="t"),),
                  provenance=Provenance(mode="cross", machine="x86_64", compilers={"gcc": "12"},
                                        seconds=1.0, objects=1)).model_dump(mode="json")


@FUZZ
@given(data=regrown([REBUILT]))
def test_compiles(tmp_path: Path, data: bytes) -> None:
    store = Store(tmp_path / "cache")
    folder = store.root / "compiled" / ("a" * 64)
    (folder / "files" / "a").mkdir(parents=True, exist_ok=True)
    (folder / "files" / "a" / "b.so").write_bytes(b"x")
    (folder / "rebuilt.json").write_bytes(data)
    (store.root / "compiled" / f"{'b' * 64}.json").write_bytes(data)
    with within_time(), suppress(SparkyardError):
        kept = Kept(store)
        everything(store.root)
        kept.record("b" * 64)
        kept.find("a" * 64)


RESULT = {"status": "complete", "seconds": 1.0, "objects": [
    {"object": "a.o", "seconds": 1.0, "cpu_seconds": 1.0, "peak_memory": 1, "status": 0}]}
BUILD_LOG = ["@jobs {\"jobs\": 2, \"cores\": 20, \"goals\": 1}", "@[1/19 1.0] Building a.cu.o",
             "FAILED: CMakeFiles/a.dir/a.cu.o", "nvcc error   : 'cicc' died due to signal 9"]


@FUZZ
@given(data=regrown([RESULT]), text=reworded(["\n".join(f"#25 1.0 {line}" for line in BUILD_LOG),
                                              "\n".join(BUILD_LOG)]))
def test_results_of_a_compile(tmp_path: Path, data: bytes, text: str) -> None:
    (tmp_path / "result.json").write_bytes(data)
    with within_time(), suppress(SparkyardError):
        read_result(tmp_path)
    with within_time():
        first_error(text.splitlines())
        progress = Progress(console.Meter("compiling", None, None, "files"))
        for line in text.splitlines():
            progress.line(line)


STEP = {"question": Question(recipe="a", recipe_digest="b", cell="c", intent="d", level="2",
                             good="1", bad="2").model_dump(mode="json"),
        "versions": ["1", "2"], "steps": [], "turn": 1}


@FUZZ
@given(data=regrown([STEP]))
def test_searches(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "bisect").mkdir(exist_ok=True)
    (tmp_path / "bisect" / "a-c-000000000000.json").write_bytes(data)
    with within_time(), suppress(SparkyardError):
        found = newest(tmp_path, "a")
        assert found is None or isinstance(found, Bisection)


# -- checkpoints and what a hub says of them ------------------------------------------------------


@FUZZ
@given(config=regrown([CONFIG, CONFIG["text_config"]]),
       header=regrown([{"__metadata__": {}, "a": {"data_offsets": [0, 4], "dtype": "BF16"}}]))
def test_checkpoints(tmp_path: Path, config: bytes, header: bytes) -> None:
    (tmp_path / "config.json").write_bytes(config)
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    with within_time(), suppress(SparkyardError):
        facts = folder_facts(tmp_path, "https://a.example")
        estimate(facts, settings((), {}, GB10), GB10, rules_of("0.32.0"))


@FUZZ
@given(config=regrown([CONFIG]))
def test_hubs(tmp_path: Path, config: bytes) -> None:
    found = HubModel("a/b", "c" * 40, "2026-11-20", 1, {"m.safetensors": 2}, {}, 3)
    with within_time(), suppress(SparkyardError):
        try:
            value = json.loads(config)
        except (ValueError, RecursionError):
            return
        facts = renewed(replace(found, config=value), None)
        write_facts(tmp_path, facts)
        again = facts_of(tmp_path, "a/b")
        assert again is not None
        assert again.shape is not None
        assert facts.shape is not None
        assert again.shape.attention_parameters() == facts.shape.attention_parameters()


@FUZZ
@given(text=reworded(text_of(*(str(FOLDER / path.name) for path in sorted(
    (ROOT / FOLDER).glob("*.toml"))[:3]))))
def test_facts_of_models(tmp_path: Path, text: str) -> None:
    (tmp_path / FOLDER).mkdir(parents=True, exist_ok=True)
    (tmp_path / FOLDER / "a--b.toml").write_bytes(text.encode(*TEXT))
    with within_time(), suppress(SparkyardError):
        facts_of(tmp_path, "a/b")


@FUZZ
@given(serve=st.lists(st.sampled_from((
    "--max-model-len", "--max-num-seqs", "--block-size", "--gpu-memory-utilization", "-tp",
    "--max-num-batched-tokens", "--kv-cache-memory-bytes", "--kv-cache-dtype", "--quantization",
    "0", "-1", "1e9", "nan", "inf", "9" * 5000, "9" * 18, "1k", "9M", "auto", "fp8", "{", "²",
    '{"model": "a/b"}', "--speculative-config")), max_size=8), space=st.sampled_from(("2", "²")))
def test_flags_of_a_recipe(serve: Sequence[str], space: str) -> None:
    facts = facts_of(ROOT, "google/gemma-4-31B-it")
    assert facts is not None
    with within_time():
        found = estimate(facts, settings(serve, {"VLLM_CPU_KVCACHE_SPACE": space}, GB10), GB10,
                         rules_of("0.32.0"))
        assert str((found.tokens, found.concurrency, found.longest))


# -- files of a checkout that the other tests do not read -----------------------------------------


@FUZZ
@given(text=reworded(text_of("wheels/vllm.toml")))
def test_recipes_of_compiles(tmp_path: Path, text: str) -> None:
    (tmp_path / "vllm.toml").write_bytes(text.encode(*TEXT))
    with within_time(), suppress(SparkyardError):
        load_recipe(tmp_path / "vllm.toml")


@FUZZ
@given(text=reworded([text_of("locks/toolchains.toml")[0][:3000] + "\n]\n"]))
def test_locks_of_toolchains(tmp_path: Path, text: str) -> None:
    (tmp_path / "toolchains.toml").write_bytes(text.encode(*TEXT))
    with within_time(), suppress(LockError):
        packages.load(tmp_path / "toolchains.toml")


@FUZZ
@given(data=st.data())
def test_source_archives(tmp_path: Path, data: st.DataObject) -> None:
    whole = make_sources(tmp_path).read_bytes()
    path = tmp_path / "damaged.tar.gz"
    path.write_bytes(data.draw(st.one_of(
        damaged([whole]), damaged([gzip.decompress(whole)]).map(gzip.compress))))
    with within_time(), suppress(SparkyardError):
        read_sources(path, frozenset({"csrc/answer.c", "spam/__init__.py"}))


# -- what a container prints ----------------------------------------------------------------------

PRINTED = [STAT, "RssAnon:\t  123 kB\ncomplete\n", "limit 1000\nheld 900\ncomplete\n",
           "ValueError: the estimated maximum model length is 65,120. Try increasing\n",
           "PyTorch version: 2.11.0\n[pip3] torch==2.11.0\nRay: 2.9\nDriver Version: 580.1\n"]


@FUZZ
@given(text=reworded(PRINTED))
def test_what_a_container_prints(text: str) -> None:
    with within_time():
        read_look(text)
        read_memory(text)
        shortage(text.splitlines())
        versions_in(text.splitlines())
