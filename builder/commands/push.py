"""``sparkyard push``: push the images of locked cells under immutable and ``-next`` tags."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builder import console
from builder.commands.option_types import key_or_identity
from builder.direct_push import DirectPush
from builder.engine.client import Engine, ImageFacts
from builder.errors import EngineError, NetworkError, UsageError, command
from builder.image import local_name
from builder.matrix.cells import Cell, select
from builder.patches.load import push_patches
from builder.promotion.signing import KEY_VARIABLE, sign, signing_key
from builder.publish import Pushed, push_immutable, push_next, push_without_engine
from builder.record.models import records_folder
from builder.registry.client import Client
from builder.registry.reference import check_reference, parse
from builder.registry.repository import Repository
from builder.registry.upload import Outcome
from builder.store.compressed import Compression
from builder.store.content_store import Store
from builder.workspace import Workspace, open_workspace

if TYPE_CHECKING:  # the gate and the readers of wheels are loaded while layers are on their way
    from builder.attachments import Attached, Documents


@dataclass(frozen=True)
class Result:
    """One cell's push: ``candidate`` is the ``-next`` name or its digest, empty without one."""

    cell: str
    pushed: Pushed
    candidate: str = ""
    direct: DirectPush | None = None
    attached: Attached | None = None


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("push", help="push built images", description=(
        "Push the images of locked cells under immutable tags, and with --next also under their "
        "-next candidates."))
    parser.add_argument("cells", nargs="+", metavar="CELL", help="cell ids or globs")
    parser.add_argument("--base", help="only cells on this base")
    parser.add_argument("--next", action="store_true",
                        help="also push the -next candidate; needs a passed smoke test")
    parser.add_argument("--since", default="", metavar="REF",
                        help="measure the update against this image (default: the last -next)")
    parser.add_argument("--direct", action="store_true",
                        help="push the store's layers by the registry's API, without the engine: "
                        "compressed once, resumable, the same digests from any machine")
    parser.add_argument("--compression", choices=[method.value for method in Compression],
                        help="how --direct compresses (default: zstd; gzip for engines before 23)")
    parser.add_argument("--sign", type=key_or_identity, metavar="KEY",
                        help="also sign the image and its records with this private key of cosign; "
                        "'identity': the image alone, by who you are to Sigstore (default: "
                        f"{KEY_VARIABLE}, where it is set)")
    parser.add_argument("--json", action="store_true",
                        help="print one JSON document on standard output")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Push cell by cell and show the manifest digests."""
    if options.compression and not options.direct:
        raise UsageError("--compression is for --direct: the engine compresses in its own way",
                         where="command line", next_step="add --direct")
    options.sign = signing_key(options.sign)
    if options.since:
        check_reference(options.since, "--since")
    workspace = open_workspace(options.matrix, make_cache=options.direct)
    cells = select(workspace.cells, options.cells, {"base": options.base} if options.base else None)
    engine = Engine.connect()
    results = []
    for cell in cells:
        name = local_name(workspace.registry, cell)
        image = engine.inspect(name)
        if image is None:
            raise EngineError("this cell has no image on the engine", where=name,
                              next_step=f"run {command('build', cell.id)}")
        if options.direct:
            results.append(_push_directly(workspace, engine, cell, image, options))
            continue
        pushed = push_cell(workspace, engine, cell, image, options.since)
        candidate = (push_next(engine, image, name, records_folder(workspace.cache))
                     if options.next else "")
        results.append(Result(cell.id, pushed, candidate,
                              attached=attach(workspace, cell, image, pushed, options.sign)))
    if options.sign:
        for result in results:
            sign(Repository(Client(parse(result.pushed.reference))), result.pushed.digest,
                 options.sign)
    if options.json:
        console.document([as_json(result) for result in results])
    else:
        show(results)
    return 0


def push_cell(workspace: Workspace, engine: Engine, cell: Cell, image: ImageFacts,
              since: str = "") -> Pushed:
    """Push an image under its immutable tag, and first the patches that it was made with."""
    push_patches(workspace, cell, image)
    return push_immutable(engine, image, local_name(workspace.registry, cell), since)


def _push_directly(workspace: Workspace, engine: Engine, cell: Cell, image: ImageFacts,
                   options: argparse.Namespace) -> Result:
    push_patches(workspace, cell, image)
    name = local_name(workspace.registry, cell)
    made: list[Future[Documents]] = []
    with ThreadPoolExecutor(1) as pool:
        pushed, direct, candidate = push_without_engine(
            engine, Store(workspace.cache), image, name,
            records=records_folder(workspace.cache) if options.next else None,
            siblings=siblings(workspace), since=options.since,
            compression=Compression(options.compression or Compression.ZSTD),
            known=lambda digest: made.append(
                pool.submit(documents_of, workspace, cell, image, name, digest)))
        (documents,) = made
        return Result(cell.id, pushed, candidate, direct, attach(
            workspace, cell, image, pushed, options.sign, documents.result()))


def documents_of(workspace: Workspace, cell: Cell, image: ImageFacts, name: str, digest: str
                 ) -> Documents:
    """Make what is attached to an image besides records, while the image is on its way."""
    from builder.attachments import make_documents

    return make_documents(workspace, cell, Repository(Client(parse(name))), digest, image.labels)


def attach(workspace: Workspace, cell: Cell, image: ImageFacts, pushed: Pushed,
           key: Path | None = None, documents: Documents | None = None) -> Attached:
    """Attach records, lock, contents and findings to what was pushed; ``key`` signs records."""
    from builder.attachments import attach_all

    repository = Repository(Client(parse(pushed.reference)))
    manifest = repository.manifest(pushed.digest)
    if manifest is None:
        raise NetworkError("the registry does not have what was pushed a moment ago",
                           where=f"{repository.name}@{pushed.digest}",
                           next_step="push again, unless somebody else cleans the registry")
    return attach_all(workspace, cell, repository, manifest, image.labels, key, documents)


def siblings(workspace: Workspace) -> list[str]:
    """Return the repositories of the matrix's other images, which share bases and layers."""
    space = workspace.registry.partition("/")[2]
    names = dict.fromkeys(cell.image for cell in workspace.cells)
    return [f"{space}/{name}" if space else name for name in names]


def as_json(result: Result) -> dict[str, Any]:
    """Return what a push came to as one JSON value; ``to_pull`` are compressed bytes."""
    pushed = result.pushed
    value: dict[str, Any] = {
        "cell": result.cell, "reference": pushed.reference, "digest": pushed.digest,
        "next": result.candidate or None, "size": pushed.size,
        "previous": pushed.previous or None, "to_pull": pushed.to_pull,
        "new_layers": [layer.digest for layer in pushed.missing]}
    if result.attached is not None:
        value["attached"] = {"records": result.attached.records,
                             "documents": list(result.attached.documents)}
    if result.direct is not None:
        done = result.direct
        value |= {"config": done.config, "sent": done.sent, "seconds": round(done.seconds, 2),
                  "compress_seconds": round(done.compress_seconds, 2),
                  "blobs": {way.value: {"count": done.count_by(way), "size": done.bytes_by(way)}
                            for way in Outcome}}
    return value


def show(results: Sequence[Result]) -> None:
    """Print a row an image: what it is, and what an update to it costs."""
    rows = [(result.cell, pushed.reference.rpartition(":")[2], pushed.digest,
             console.size(pushed.size),
             (f"{console.size(pushed.to_pull)} in {len(pushed.missing)} of {len(pushed.layers)} "
             "layers"), pushed.previous.rpartition(":")[2] or "first image",
             "pushed" if result.candidate else "")
            for result in results for pushed in (result.pushed,)]
    console.table("pushed", ("cell", "tag", "manifest digest", "compressed", "an update pulls",
                             "from", "-next"), rows)
    for result in results:
        if result.attached is not None:
            console.out(f"{result.cell}: {attached_in_words(result.attached)}")
        if result.direct is not None:
            console.out(f"{result.cell}: {summary(result.direct)}")


def attached_in_words(attached: Attached) -> str:
    """Say what is attached to an image, and what is not."""
    count = f"{attached.records} {'record' if attached.records == 1 else 'records'}"
    return "; ".join([f"attached: {', '.join([count, *attached.documents])}",
                      *(f"left out: {reason}" for reason in attached.left_out)])


def summary(done: DirectPush) -> str:
    """Say what a push moved, what was there already, and how long it took."""
    parts = [f"{console.size(done.sent)} sent in {console.seconds(done.seconds)}"
             + (f", of which {console.seconds(done.compress_seconds)} until all layers were "
                "compressed" if done.compress_seconds >= 1 else "")]
    for way, words in ((Outcome.PRESENT, "there already"),
                       (Outcome.MOUNTED, "mounted from other repositories")):
        if count := done.count_by(way):
            parts.append(f"{console.size(done.bytes_by(way))} in {count} "
                         f"{'blob' if count == 1 else 'blobs'} {words}")
    return "; ".join(parts)
