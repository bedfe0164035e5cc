"""Answers of others, damaged: package indexes, registries, engines, hosting services, servers.

Where bytes on the wire matter (headers, redirects, streams), a real socket sends them.
"""

from __future__ import annotations

import hashlib
import json
import socket
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from damaged_bytes import FUZZ, damaged, regrown, reworded, within_time
from hypothesis import given
from hypothesis import strategies as st
from raw_server import http_reply, raw_server

from builder.engine.client import Engine
from builder.engine.container import Container, RunSpec
from builder.errors import SparkyardError
from builder.indexes.http import SourceError, retry_after
from builder.indexes.listings import with_credentials
from builder.indexes.settings import Sources
from builder.indexes.simple_api import JSON_TYPE, lists_files, parse
from builder.patches.upstream import Hosting
from builder.promotion.contents import RemoteImage
from builder.registry.client import Client
from builder.registry.manifest import document, put_manifest
from builder.registry.reference import Reference
from builder.registry.repository import Manifest
from builder.registry.upload import Blob, Uploader
from builder.smoke.client import Client as ModelClient
from builder.smoke.client import Unanswered
from builder.smoke.probes import kinds, run
from builder.smoke.probes.cases import battery

# requests leaves connections open where a redirect makes it end in a ValueError.
pytestmark = pytest.mark.filterwarnings(
    "ignore:unclosed", "ignore::pytest.PytestUnraisableExceptionWarning")
SHA = "a" * 40
DIGEST = "sha256:" + "0" * 64
TEXT = "utf-8", "surrogatepass"


# -- package indexes ------------------------------------------------------------------------------

PAGE = """<!DOCTYPE html><html><head><base href="https://files.example/"></head><body>
<a href="a-1.0-py3-none-any.whl#sha256=""" + "0" * 64 + """" data-requires-python="&gt;=3.8">a</a>
<a href='../b.tar.gz?x=1#sha256=1'>b</a><!-- a comment --><a>no address</a>
<![CDATA[x]]><script>if (a < b) {}</script></body></html>"""
EDGES_HTML = ("<![x[", "<!", "<!--", "<?", "</", "&#x110000;", "&#99999999999;", "<a href=//[x>",
              "<base href='http://['>", "<![CDATA[", "<!DOCTYPE [<!ENTITY", "<a\x00b href=x>")
PAGES = st.one_of(reworded([PAGE]), st.lists(st.sampled_from(EDGES_HTML) | st.just(PAGE[:99]),
                                             max_size=6).map("".join))
ENTRIES = {"files": [{"url": "a-1.0-py3-none-any.whl", "hashes": {"sha256": "0" * 64}},
                     {"url": "https://x.example/b.zip", "hashes": {}}], "name": "a"}


def read_page(data: bytes, kind: str) -> None:
    with within_time(), suppress(ValueError):
        lists_files(data, kind, "https://i.example/simple/a/")
        for entry in parse(data, kind, "https://i.example/simple/a/"):
            assert isinstance(entry.file, str)
            assert entry.sha256 is None or isinstance(entry.sha256, str)
            assert urlsplit(with_credentials(entry.url, "https://u:p@i.example/simple"))


@FUZZ
@given(PAGES)
def test_pages_in_html(text: str) -> None:
    read_page(text.encode(*TEXT), "text/html")


@FUZZ
@given(regrown([ENTRIES]))
def test_pages_in_json(data: bytes) -> None:
    read_page(data, JSON_TYPE)


@FUZZ
@given(reworded(["Mon, 01 Jan 0001 00:00:00 -0000", "12", "Fri, 31 Dec 9999 23:59:59 +0000"]))
def test_when_to_come_back(text: str) -> None:
    wait = retry_after(text)
    assert wait is None or wait >= 0


# -- registries -----------------------------------------------------------------------------------

DATA = b"layer" * 100
BLOB = Blob(f"sha256:{hashlib.sha256(DATA).hexdigest()}", len(DATA), DATA)
CHALLENGE = 'Bearer realm="http://127.0.0.1:1/token",service="r",scope="repository:a/b:pull"'
REPLIES = [
    http_reply(404), http_reply(202, Location="/v2/a/b/blobs/uploads/1", Range="0-0"),
    http_reply(201), http_reply(200, Docker_Content_Digest=BLOB.digest),
    http_reply(401, WWW_Authenticate=CHALLENGE), http_reply(401, WWW_Authenticate="Basic realm=x"),
    http_reply(301, Location="http://127.0.0.1:1/"),
    http_reply(400, json.dumps({"errors": [{"code": "X", "message": "y"}]}).encode()), b"",
    http_reply(200, json.dumps({"token": "t", "expires_in": 1}).encode()),
    http_reply(204, Range="0-99999999999999999999", Location="http://[/"),
    http_reply(503, Retry_After="0")]
ON_THE_WIRE = st.one_of(
    st.sampled_from(REPLIES), damaged(REPLIES), reworded([one.decode() for one in REPLIES]).map(
        lambda text: text.encode(*TEXT)))


@FUZZ
@given(replies=st.lists(ON_THE_WIRE, min_size=1, max_size=6))
def test_registries(tmp_path: Path, replies: list[bytes]) -> None:
    with raw_server(replies) as host, within_time(), suppress(SparkyardError):
        client = Client(Reference(host, "a/b", "t"), pause_s=0)
        Uploader(client, tmp_path, ("a/c",)).deliver(BLOB)
        put_manifest(client, document({"schemaVersion": 2}), "t")


TOKENS = [{"token": "abc", "access_token": "x", "expires_in": 60}]


@FUZZ
@given(data=regrown(TOKENS), realm=st.sampled_from(("http://{}/t", "https://", "https://[", "{}",
                                                    "http://{}/\\x00", "http://{}/?a=b", "")))
def test_token_services(data: bytes, realm: str) -> None:
    with raw_server([http_reply(200, data)]) as token_host:
        challenge = f'Bearer realm="{realm.format(token_host)}",service="r"'
        with raw_server([http_reply(401, WWW_Authenticate=challenge), http_reply(404)]) as host, \
                within_time(), suppress(SparkyardError):
            Client(Reference(host, "a/b", "t"), pause_s=0).ask(
                "GET", f"http://{host}/v2/a/b/manifests/t")


MANIFEST = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "config": {
    "digest": DIGEST, "size": 1}, "layers": [{"digest": DIGEST, "size": 1, "mediaType": "x"}]}
CONFIG = {"config": {"Labels": {"a": "b"}}, "rootfs": {"diff_ids": [DIGEST]}}


@FUZZ
@given(manifest=regrown([MANIFEST]), config=regrown([CONFIG]))
def test_images_of_registries(manifest: bytes, config: bytes) -> None:
    with within_time():
        try:
            value = json.loads(config)
        except (ValueError, RecursionError):
            value = {}
        image = RemoteImage(Manifest(DIGEST, "x", manifest),
                            value if isinstance(value, dict) else {})
        assert isinstance(image.manifest.config, str)
        assert all(isinstance(layer.size, int) for layer in image.layers)
        assert isinstance(image.labels, dict)
        assert isinstance(image.diff_ids, tuple)
        assert isinstance(image.versions, dict)


# -- the engine -----------------------------------------------------------------------------------

IMAGE = {"Id": DIGEST, "Config": {"Env": ["A=b"], "Labels": {"a": "b"}, "Cmd": None},
         "RootFS": {"Layers": [DIGEST]}, "RepoTags": ["a:b"], "RepoDigests": [], "Size": 1,
         "Os": "linux", "Architecture": "arm64", "Created": "2026-01-01T00:00:00Z"}
VERSION = {"Server": {"Version": "29.0", "Os": "linux", "Arch": "amd64"},
           "Client": {"Version": "29.0"}, "ID": "x", "DockerRootDir": "/var/lib/docker",
           "NCPU": 2, "MemTotal": 10, "KernelVersion": "6", "OperatingSystem": "Debian"}
CONTAINER = {"Id": "0" * 64, "Created": "2026", "State": {
    "Status": "exited", "ExitCode": 0, "OOMKilled": False, "Error": ""},
    "NetworkSettings": {"Ports": {"8000/tcp": [{"HostPort": "1"}]}}}
NODE = "Name: default\nDriver: docker\nBuildKit version: v0.1\nPlatforms: linux/amd64, linux/386\n"
SAID = st.one_of(regrown([[IMAGE], VERSION, [CONTAINER], {"layers": [{"digest": DIGEST,
                                                                      "size": 1}]}]),
                 reworded([NODE, DIGEST + "\n", "0" * 64 + "\n"]).map(
                     lambda text: text.encode(*TEXT)))


@FUZZ
@given(answer=SAID, status=st.sampled_from((0, 0, 0, 1)))
def test_engines(tmp_path: Path, answer: bytes, status: int) -> None:
    program = tmp_path / "docker"
    program.write_text(f'#!/bin/sh\ncat "{tmp_path}/answer" >&$((1 + {status}))\nexit {status}\n')
    program.chmod(0o755)
    (tmp_path / "answer").write_bytes(answer)
    engine = Engine(str(program), None, None)
    container = object.__new__(Container)
    container._docker, container.spec, container.id = engine.docker, RunSpec("x"), "0" * 64
    for ask in (lambda: engine.info, lambda: engine.inspect("x"), lambda: engine.node(),
                lambda: engine.image_document("x"), lambda: engine.history("x"), engine.diff_ids,
                lambda: engine.remote_digest("x"), lambda: engine.remote_layers("x"),
                container.state, lambda: container.published_port(8000), engine.sweep,
                lambda: engine.push("x")):
        with within_time(), suppress(SparkyardError):
            ask()


# -- hosting services -----------------------------------------------------------------------------

COMMIT = {"sha": SHA, "parents": [{"sha": SHA}], "commit": {"message": "a", "author": {"a": 1}}}
HOSTED = [
    {"state": "open", "head": {"sha": SHA}, "base": {"sha": SHA}, "title": "a", "body": None,
     "commits": 1, "merged_at": None, "merge_commit_sha": SHA},
    [{"body": "superseded by #2"}], COMMIT, {"merge_base_commit": {"sha": SHA}, "status": "ahead"},
    [{"tag_name": "v1", "published_at": "2026-01-01T00:00:00Z", "prerelease": False}]]


@FUZZ
@given(data=regrown(HOSTED))
def test_hosting_services(tmp_path: Path, data: bytes) -> None:
    hosting = Hosting(Sources("https://i.example/simple"), tmp_path, api="https://h.example",
                      token="")
    hosting._get = lambda path, accept: data  # type: ignore[method-assign]
    for ask in (lambda: hosting.pull("a/b", 1), lambda: hosting.comments("a/b", 1),
                lambda: hosting.commit("a/b", SHA), lambda: hosting.releases("a/b"),
                lambda: hosting.contains("a/b", "v1", SHA)):
        with within_time(), suppress(SourceError):
            ask()


# -- model servers --------------------------------------------------------------------------------

CALL = {"index": 0, "id": "c", "function": {"name": "get_weather", "arguments": '{"city": "x"}'}}
CHAT = {"choices": [{"message": {"content": "The capital of France is Paris.", "tool_calls": [CALL],
                                 "reasoning": "x"}, "finish_reason": "stop",
                     "logprobs": {"content": [{"logprob": -0.1, "top_logprobs": [
                         {"logprob": -1.0}]}]}}], "usage": {"completion_tokens": 3,
                                                            "prompt_tokens": 3},
        "data": [{"id": "m", "max_model_len": 4096}]}
EVENT = {"choices": [{"delta": {"content": "Paris", "tool_calls": [CALL], "reasoning": "x"},
                      "finish_reason": None}], "usage": {"completion_tokens": 1}}
METRICS = 'vllm:prompt_tokens_total{model_name="m"} 3.0\nvllm:num_requests_running 0.0\n# HELP x\n'
ASKED = [case for case in battery().cases if case.kind in (
    "answer", "logprobs", "loop", "filled", "overfull", "refused", "survived")]
SPOKEN = st.one_of(
    regrown([CHAT]),
    st.lists(regrown([EVENT]), min_size=1, max_size=3).map(
        lambda events: b"".join(b"data: " + event + b"\n\n" for event in events)
        + b"data: [DONE]\n\n"),
    reworded([METRICS, "data: {}\n\ndata: [DONE]\n"]).map(lambda text: text.encode(*TEXT)))


@FUZZ
@given(bodies=st.lists(SPOKEN, min_size=1, max_size=3), case=st.sampled_from(ASKED))
def test_model_servers(bodies: list[bytes], case: kinds.Case) -> None:
    with raw_server([http_reply(200, body) for body in bodies]) as host, within_time():
        client = ModelClient(int(host.rpartition(":")[2]), "m")
        assert run.run(client, case).detail
        with suppress(Unanswered):
            client.metrics()
        client.healthy()


@pytest.mark.parametrize("name", ["test_registries", "test_model_servers"])
def test_the_server_of_these_tests_gives_what_it_is_told(name: str) -> None:
    with raw_server([http_reply(200, b"x"), b"y"]) as host:
        for expected in (b"X\r\n", b"y", b"y"):
            with socket.create_connection(tuple(host.split(":"))) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
                assert expected in connection.recv(999)
